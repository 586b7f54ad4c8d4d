//! Updates to runs in every state, with every outcome.

use std::sync::Arc;
use std::time::Duration;

use engine::{DeciderTask, Delivery, Engine, Poll, Refusal, RunRef, Settings, UpdateProgress, UpdateRequest};
use history::{Author, Command, ContinueAsNew, Decision, Fault, Payload, RecordMarker, UpdateAnswer, Verdict};

use crate::queries::json as payload;
use crate::{DOMAIN, Service, activity, at, succeed};

#[expect(clippy::unnecessary_wraps, reason = "every field that takes one is optional")]
fn json(text: &str) -> Option<Payload> {
    Some(payload(text))
}

pub(crate) type Asking = tokio::task::JoinHandle<Result<UpdateProgress, Refusal>>;

pub(crate) fn named(update_id: &str) -> UpdateRequest {
    let (update_id, name) = (Some(update_id.to_owned()), "match".to_owned());
    UpdateRequest { update_id, name, input: json("1"), identity: None, if_version: None, start: None, by: None }
}

pub(crate) fn done(text: &str) -> Verdict {
    Verdict::Done { result: json(text) }
}

pub(crate) fn rejected() -> Verdict {
    Verdict::Rejected { reason: "taken".to_owned(), details: json("[2]") }
}

/// Returns a poll that takes updates.
pub(crate) fn takes_updates(wait: Duration, updates: usize) -> Poll {
    Poll { wait, updates, identity: Some("d".to_owned()), ..Poll::default() }
}

pub(crate) fn marker() -> Decision {
    RecordMarker { name: "m".to_owned(), details: None }.into()
}

pub(crate) fn ids(task: &Delivery<DeciderTask>) -> Vec<&str> {
    task.task().updates.iter().map(|update| update.update_id.as_str()).collect()
}

#[track_caller]
pub(crate) fn code(answered: Result<UpdateProgress, Refusal>) -> &'static str {
    answered.unwrap_err().code()
}

#[track_caller]
pub(crate) fn result(answered: Result<UpdateProgress, Refusal>) -> (String, u64, u64) {
    let UpdateProgress { event_id, done, .. } = answered.unwrap();
    let (version, result) = done.expect("it is done");
    (result.unwrap().text().unwrap().to_owned(), event_id, version)
}

impl Service {
    /// Sends an update without waiting for the answer. When this function returns, the update is registered or
    /// answered.
    pub(crate) async fn update_of(&self, at: RunRef, update: UpdateRequest, wait: Duration) -> Asking {
        let before = self.gauge("updates_waiting");
        let engine = Arc::clone(&self.engine);
        let asking = tokio::spawn(async move { engine.request_reply().update(&at, update, wait).await });
        while self.gauge("updates_waiting") == before && !asking.is_finished() {
            tokio::task::yield_now().await;
        }
        asking
    }

    pub(crate) async fn update(&self, id: &str, update_id: &str) -> Asking {
        self.update_of(at(id), named(update_id), Duration::from_secs(600)).await
    }

    pub(crate) async fn judge(&self) -> Delivery<DeciderTask> {
        let poll = takes_updates(Duration::from_secs(600), 64);
        self.engine.tasks().poll_decider(DOMAIN, "deciders", poll).await.unwrap().expect("a task waits")
    }

    async fn nothing_to_judge(&self) {
        let poll = takes_updates(Duration::ZERO, 64);
        assert!(self.engine.tasks().poll_decider(DOMAIN, "deciders", poll).await.unwrap().is_none(), "no task waits");
    }

    pub(crate) async fn say(
        &self,
        token: &str,
        answers: &[(&str, Verdict)],
        decisions: Vec<Decision>,
    ) -> Result<(), Refusal> {
        self.say_as(Author::default(), token, answers, decisions).await
    }

    /// Answers a turn as an authenticated caller.
    pub(crate) async fn say_as(
        &self,
        author: Author,
        token: &str,
        answers: &[(&str, Verdict)],
        decisions: Vec<Decision>,
    ) -> Result<(), Refusal> {
        let mut token = self.engine.tasks().decider_token(token).unwrap();
        token.author = author;
        let command = Command::complete(token.turn, decisions);
        let answers = answers
            .iter()
            .map(|(update_id, verdict)| UpdateAnswer { update_id: (*update_id).to_owned(), verdict: verdict.clone() });
        self.engine.tasks().answer_turn_with(&token, command, Vec::new(), answers.collect()).await
    }

    /// Takes the next task, which must be speculative, and answers it.
    pub(crate) async fn judged(&self, answers: &[(&str, Verdict)], decisions: Vec<Decision>) -> Result<(), Refusal> {
        let task = self.judge().await;
        assert!(task.task().speculative);
        let token = task.task().token.clone();
        task.delivered();
        self.say(&token, answers, decisions).await
    }

    /// Opens the service again, as if its process had crashed.
    pub(crate) async fn again(&self) -> Self {
        let settings = Settings { seed: Some(8), ..Settings::default() };
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        let engine = Engine::open(Arc::clone(&store), Arc::clone(&clock) as _, settings).await.unwrap();
        Self { engine, clock, store }
    }

    /// Returns the stored head of a run.
    pub(crate) async fn stored(&self, id: &str) -> Option<store::Head> {
        let key = store::HeadKey { domain: DOMAIN.into(), workflow_id: id.into() };
        self.store.load(&key).await.unwrap()
    }
}

const TURN: [&str; 3] = ["DeciderScheduled", "DeciderStarted", "DeciderCompleted"];
const UPDATE: [&str; 2] = ["UpdateAccepted", "UpdateCompleted"];

#[tokio::test(start_paused = true)]
async fn an_accepted_update_is_one_turn_and_one_commit() {
    let service = Service::open().await;
    service.idle("w").await;
    let (before, commits) = (service.events("w").await, service.store.stats().commits);
    let asking = service.update("w", "u").await;
    let task = service.judge().await;
    assert_eq!(ids(&task), ["u"]);
    assert_eq!(task.task().updates[0].input, json("1"));
    let shown = task.task().events.clone();
    assert_eq!(service.store.stats().commits, commits, "dispatched without a write");
    let token = task.task().token.clone();
    task.delivered();
    service.say(&token, &[("u", done("2"))], vec![marker()]).await.unwrap();
    assert_eq!(result(asking.await.unwrap()), ("2".to_owned(), 10, 11), "the version after the whole turn");
    assert_eq!(service.store.stats().commits, commits + 1, "one commit");
    let names = service.names("w").await;
    assert_eq!(names[before.len()..], [&TURN[..], &UPDATE, &["Marker"]].concat());
    // The decider received the same events before they were recorded.
    let window = &service.events("w").await[2..before.len() + 2];
    assert_eq!(shown, window);
    assert_eq!(service.gauge("updates_waiting"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_decider_gets_the_update_at_once() {
    let service = Service::open().await;
    service.idle("w").await;
    let engine = Arc::clone(&service.engine);
    let poll = takes_updates(Duration::from_secs(60), 1);
    let polling =
        tokio::spawn(async move { engine.tasks().poll_decider(DOMAIN, "deciders", poll).await.unwrap().unwrap() });
    while !service.engine.render_metrics().contains("pollers_waiting{domain") {
        tokio::task::yield_now().await;
    }
    let asking = service.update("w", "u").await;
    let task = polling.await.unwrap();
    let token = task.task().token.clone();
    task.delivered();
    service.say(&token, &[("u", done("2"))], Vec::new()).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "2");
}

#[tokio::test(start_paused = true)]
async fn a_rejected_update_leaves_the_store_unchanged() {
    let service = Service::open().await;
    service.idle("w").await;
    let (stored, commits) = (service.stored("w").await, service.store.stats().commits);
    for index in 0..200 {
        let id = format!("u{index}");
        let asking = service.update("w", &id).await;
        service.judged(&[(&id, rejected())], Vec::new()).await.unwrap();
        match asking.await.unwrap().unwrap_err() {
            Refusal::UpdateRejected { update_id, reason, details } => {
                assert_eq!((update_id, reason.as_str(), details), (id, "taken", json("[2]")));
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(service.stored("w").await, stored, "a rejection stores nothing");
    assert_eq!(service.store.stats().commits, commits);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_turn_takes_the_update_and_leaves_no_rejection() {
    let service = Service::open().await;
    service.idle("w").await;
    for (verdict, more) in [(rejected(), &[][..]), (done("2"), &UPDATE[..])] {
        service.signal("w", "go").await;
        let asking = service.update("w", "u").await;
        let task = service.judge().await;
        assert!(!task.task().speculative && ids(&task) == ["u"]);
        let before = service.names("w").await;
        let token = task.task().token.clone();
        task.delivered();
        service.say(&token, &[("u", verdict.clone())], Vec::new()).await.unwrap();
        assert_eq!(asking.await.unwrap().is_ok(), more.len() == 2);
        assert_eq!(service.names("w").await[before.len()..], [&["DeciderCompleted"], more].concat());
        // A rejection is kept for two minutes. Waits until it has expired.
        service.clock.advance(history::Duration::from_secs(121));
    }
}

#[tokio::test(start_paused = true)]
async fn a_started_turn_takes_no_further_update() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "go").await;
    let started = service.judge().await;
    let asking = service.update("w", "u").await;
    service.nothing_to_judge().await;
    let token = started.task().token.clone();
    started.delivered();
    service.say(&token, &[], Vec::new()).await.unwrap();
    service.judged(&[("u", done("2"))], Vec::new()).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "2");
}

#[tokio::test(start_paused = true)]
async fn a_decider_that_takes_no_updates_gets_none() {
    let service = Service::open().await;
    service.start("w").await;
    let asking = service.update("w", "u").await;
    let task = service.turn().await;
    assert!(ids(&task).is_empty());
    service.complete(task, Vec::new()).await.unwrap();
    let none = Poll { queries: true, ..Poll::default() };
    assert!(service.engine.tasks().poll_decider(DOMAIN, "deciders", none).await.unwrap().is_none());
    service.judged(&[("u", done("2"))], Vec::new()).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "2");
}

#[tokio::test(start_paused = true)]
async fn a_decider_gets_no_more_updates_than_it_takes() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = [service.update("w", "u").await, service.update("w", "v").await, service.update("w", "x").await];
    let poll = takes_updates(Duration::from_secs(60), 1);
    let task = service.engine.tasks().poll_decider(DOMAIN, "deciders", poll).await.unwrap().unwrap();
    assert_eq!(ids(&task), ["u"]);
    service.nothing_to_judge().await;
    let token = task.task().token.clone();
    task.delivered();
    service.say(&token, &[("u", done("2"))], Vec::new()).await.unwrap();
    service.judged(&[("x", rejected()), ("v", done("3"))], Vec::new()).await.unwrap();
    let [u, v, x] = asking;
    assert_eq!(result(u.await.unwrap()).0, "2");
    assert_eq!(result(v.await.unwrap()).0, "3");
    assert_eq!(code(x.await.unwrap()), "update-rejected");
}

#[tokio::test(start_paused = true)]
async fn an_event_during_judging_repeats_it_and_it_is_accepted_once() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.update("w", "u").await;
    let task = service.judge().await;
    let token = task.task().token.clone();
    task.delivered();
    service.signal("w", "go").await;
    let before = service.events("w").await;
    let refused = service.say(&token, &[("u", done("2"))], vec![marker()]).await.unwrap_err();
    assert_eq!(refused.code(), "turn-lost");
    assert_eq!(service.events("w").await, before, "nothing of it is recorded");
    // The turn for the signal takes the update again.
    let again = service.judge().await;
    assert!(!again.task().speculative && ids(&again) == ["u"]);
    let second = again.task().token.clone();
    again.delivered();
    service.say(&second, &[("u", done("3"))], Vec::new()).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "3");
    assert_eq!(service.say(&token, &[("u", done("2"))], Vec::new()).await.unwrap_err().code(), "turn-lost");
    let accepted = service.names("w").await.into_iter().filter(|name| *name == "UpdateAccepted").count();
    assert_eq!(accepted, 1);
}

#[tokio::test(start_paused = true)]
async fn a_rejection_is_final_despite_later_events() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.update("w", "u").await;
    let task = service.judge().await;
    let token = task.task().token.clone();
    task.delivered();
    service.signal("w", "go").await;
    service.say(&token, &[("u", rejected())], Vec::new()).await.unwrap();
    assert_eq!(code(asking.await.unwrap()), "update-rejected");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_answer_fails_as_already_recorded() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.update("w", "u").await;
    let task = service.judge().await;
    let token = task.task().token.clone();
    task.delivered();
    service.say(&token, &[("u", done("2"))], Vec::new()).await.unwrap();
    asking.await.unwrap().unwrap();
    assert_eq!(service.say(&token, &[("u", done("2"))], Vec::new()).await.unwrap_err().code(), "turn-completed");
}

#[tokio::test(start_paused = true)]
async fn updates_of_a_lost_turn_are_dispatched_again() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.update("w", "u").await;
    // The poller has disconnected before it received the task.
    drop(service.judge().await);
    // The decider has crashed with the task.
    let task = service.judge().await;
    let late = task.task().token.clone();
    task.delivered();
    // The decider fails the turn.
    let task = service.judge().await;
    let token = service.engine.tasks().decider_token(&task.task().token).unwrap();
    task.delivered();
    let fail = Command::FailTurn { turn: token.turn, reason: None, details: None };
    service.engine.tasks().answer_turn(&token, fail).await.unwrap();
    assert_eq!(service.say(&late, &[("u", done("1"))], Vec::new()).await.unwrap_err().code(), "turn-lost");
    service.judged(&[("u", done("2"))], Vec::new()).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "2");
    assert_eq!(service.gauge("speculative_turns_lost_total"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_failed_turn_is_recorded_and_the_next_takes_its_update() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "go").await;
    let asking = service.update("w", "u").await;
    let task = service.judge().await;
    assert!(!task.task().speculative && ids(&task) == ["u"]);
    let token = service.engine.tasks().decider_token(&task.task().token).unwrap();
    task.delivered();
    let fail = Command::FailTurn { turn: token.turn, reason: Some("tired".to_owned()), details: None };
    service.engine.tasks().answer_turn(&token, fail.clone()).await.unwrap();
    assert!(service.names("w").await.contains(&"DeciderFailed"));
    assert_eq!(service.engine.tasks().answer_turn(&token, fail).await.unwrap_err().code(), "turn-lost");
    service.clock.advance(history::Duration::from_secs(2));
    let task = service.judge().await;
    assert!(!task.task().speculative && ids(&task) == ["u"]);
    let token = task.task().token.clone();
    task.delivered();
    service.say(&token, &[("u", done("2"))], Vec::new()).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "2");
}

#[tokio::test(start_paused = true)]
async fn an_undelivered_turn_goes_to_the_next_poller_with_its_update() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "go").await;
    let asking = service.update("w", "u").await;
    let task = service.judge().await;
    assert!(!task.task().speculative && ids(&task) == ["u"]);
    let engine = Arc::clone(&service.engine);
    let poll = takes_updates(Duration::from_secs(600), 64);
    let next = tokio::spawn(async move { engine.tasks().poll_decider(DOMAIN, "deciders", poll).await });
    // Sleeping lets all tasks begin to wait, because tokio's time advances only when all tasks are idle.
    tokio::time::sleep(Duration::from_millis(1)).await;
    drop(task);
    let task = next.await.unwrap().unwrap().expect("the turn waits");
    assert!(!task.task().speculative && ids(&task) == ["u"]);
    let token = task.task().token.clone();
    task.delivered();
    service.say(&token, &[("u", done("2"))], Vec::new()).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "2");
}

#[tokio::test(start_paused = true)]
async fn a_lost_result_is_returned_again_by_update_id() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.update("w", "u").await;
    service.judged(&[("u", done("2"))], vec![marker()]).await.unwrap();
    let first = result(asking.await.unwrap());
    let asking = service.update("w", "v").await;
    service.judged(&[("v", rejected())], Vec::new()).await.unwrap();
    assert_eq!(code(asking.await.unwrap()), "update-rejected");

    let again = service.update("w", "u").await.await.unwrap();
    assert_eq!(result(again), first);
    assert_eq!(code(service.update("w", "v").await.await.unwrap()), "update-rejected");
    service.nothing_to_judge().await;

    // Another process knows the recorded results. It lets a decider validate the other updates again.
    let other = service.again().await;
    assert_eq!(result(other.update("w", "u").await.await.unwrap()), first);
    let asking = other.update("w", "v").await;
    other.judged(&[("v", done("3"))], vec![succeed()]).await.unwrap();
    let closing = result(asking.await.unwrap());
    // The result is also returned after the run has closed.
    assert_eq!(result(other.update("w", "v").await.await.unwrap()), closing);
    assert_eq!(code(other.update("w", "x").await.await.unwrap()), "run-closed");
}

#[tokio::test(start_paused = true)]
async fn an_update_is_judged_again_after_its_rejection_expires() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.update("w", "u").await;
    service.judged(&[("u", rejected())], Vec::new()).await.unwrap();
    assert_eq!(code(asking.await.unwrap()), "update-rejected");
    service.clock.advance(history::Duration::from_secs(120));
    assert_eq!(code(service.update("w", "u").await.await.unwrap()), "update-rejected");
    service.nothing_to_judge().await;
    service.clock.advance(history::Duration::from_millis(1));
    let asking = service.update("w", "u").await;
    service.judged(&[("u", done("2"))], Vec::new()).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "2");
}

#[tokio::test(start_paused = true)]
async fn of_fifty_updates_with_one_version_one_is_accepted() {
    let service = Service::open().await;
    service.idle("w").await;
    let version = service.engine.views().describe(&at("w")).await.unwrap().run.version;
    let before = service.events("w").await.len();
    let mut asking = Vec::new();
    for index in 0..50 {
        let update = UpdateRequest { if_version: Some(version), ..named(&format!("u{index}")) };
        asking.push(service.update_of(at("w"), update, Duration::from_secs(60)).await);
    }
    // The decider accepts every update.
    let task = service.judge().await;
    assert_eq!(ids(&task), ["u0"], "a conditional update is judged alone");
    let token = task.task().token.clone();
    task.delivered();
    service.say(&token, &[("u0", done("2"))], Vec::new()).await.unwrap();
    let mut codes = Vec::new();
    for asking in asking {
        codes.push(asking.await.unwrap().map_or_else(|refusal| refusal.code(), |_| "accepted"));
    }
    assert_eq!(codes.iter().filter(|code| **code == "accepted").count(), 1);
    assert_eq!(codes.iter().filter(|code| **code == "version-mismatch").count(), 49);
    service.nothing_to_judge().await;
    assert_eq!(service.events("w").await.len(), before + 5);
    let late = UpdateRequest { if_version: Some(version), ..named("late") };
    assert_eq!(code(service.update_of(at("w"), late, Duration::ZERO).await.await.unwrap()), "version-mismatch");
}

#[tokio::test(start_paused = true)]
async fn an_update_fails_if_its_expected_version_has_changed() {
    let service = Service::open().await;
    service.idle("w").await;
    let version = service.engine.views().describe(&at("w")).await.unwrap().run.version;
    let conditional = |id: &str| UpdateRequest { if_version: Some(version), ..named(id) };
    let asking = service.update_of(at("w"), conditional("u"), Duration::from_secs(60)).await;
    let task = service.judge().await;
    let token = task.task().token.clone();
    task.delivered();
    service.signal("w", "go").await;
    assert_eq!(service.say(&token, &[("u", done("2"))], Vec::new()).await.unwrap_err().code(), "turn-lost");
    assert_eq!(code(asking.await.unwrap()), "version-mismatch");
    // The turn for the signal does not take the refused update.
    assert!(ids(&service.judge().await).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_decider_may_accept_now_and_answer_in_a_later_turn() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.update("w", "u").await;
    service.judged(&[("u", Verdict::Later)], vec![activity("a", "runners")]).await.unwrap();
    // A caller with a shorter wait gets the response that the update is accepted.
    let accepted = service.update_of(at("w"), named("u"), Duration::ZERO).await.await.unwrap().unwrap();
    assert_eq!((accepted.event_id, accepted.done), (9, None));
    let task = service.engine.tasks().poll_activity(DOMAIN, "runners", Poll::default()).await.unwrap().unwrap();
    let token = service.engine.tasks().activity_token(&task.task().token).unwrap();
    task.delivered();
    let command = Command::SucceedActivity { task: token.task, result: None };
    service.engine.tasks().answer_activity(&token, command).await.unwrap();
    let turn = service.judge().await;
    assert!(!asking.is_finished());
    let token = turn.task().token.clone();
    turn.delivered();
    service.say(&token, &[("u", done("3"))], Vec::new()).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "3");
}

#[tokio::test(start_paused = true)]
async fn an_accepted_update_survives_the_death_of_its_node() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.update("w", "u").await;
    service.judged(&[("u", Verdict::Later)], Vec::new()).await.unwrap();
    let other = service.again().await;
    asking.abort();
    let asking = {
        let engine = Arc::clone(&other.engine);
        tokio::spawn(async move { engine.request_reply().update(&at("w"), named("u"), Duration::from_secs(60)).await })
    };
    other.signal("w", "go").await;
    let turn = other.judge().await;
    let token = turn.task().token.clone();
    turn.delivered();
    let failed = Verdict::Rejected { reason: "no stock".to_owned(), details: None };
    other.say(&token, &[("u", failed)], Vec::new()).await.unwrap();
    assert_eq!(code(asking.await.unwrap()), "update-failed");
    assert_eq!(code(other.update("w", "u").await.await.unwrap()), "update-failed");
    assert_eq!(other.names("w").await.last(), Some(&"UpdateFailed"));
}

#[tokio::test(start_paused = true)]
async fn a_close_ends_the_wait_and_a_successor_takes_the_update() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.update("w", "u").await;
    let task = service.judge().await;
    let token = task.task().token.clone();
    task.delivered();
    let terminate = Command::Terminate { reason: None, details: None, child_policy: None, identity: None, key: None };
    service.engine.commands().submit(&at("w"), terminate.clone()).await.unwrap();
    assert_eq!(code(asking.await.unwrap()), "run-closed");
    assert_eq!(service.say(&token, &[("u", done("2"))], Vec::new()).await.unwrap_err().code(), "run-closed");

    service.idle("v").await;
    let asking = service.update("v", "u").await;
    service.judged(&[("u", Verdict::Later)], Vec::new()).await.unwrap();
    service.engine.commands().submit(&at("v"), terminate).await.unwrap();
    assert_eq!(code(asking.await.unwrap()), "run-closed", "no decider will answer it");

    let both = [("u", done("2"))];
    service.idle("c").await;
    service.signal("c", "go").await;
    let turn = service.judge().await;
    let token = turn.task().token.clone();
    turn.delivered();
    let asking = service.update("c", "u").await;
    service.say(&token, &[], vec![ContinueAsNew::default().into()]).await.unwrap();
    // Depending on timing, the first turn or the second turn takes the update.
    let first = service.judge().await;
    assert_eq!(first.task().previous_started_event_id, 0);
    let is_with_it = ids(&first) == ["u"];
    let token = first.task().token.clone();
    first.delivered();
    service.say(&token, if is_with_it { &both } else { &[] }, Vec::new()).await.unwrap();
    if !is_with_it {
        service.judged(&both, Vec::new()).await.unwrap();
    }
    assert_eq!(result(asking.await.unwrap()).0, "2");
}

#[tokio::test(start_paused = true)]
async fn concurrent_updates_with_one_id_share_the_answer() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking: Vec<Asking> = {
        let first = service.update("w", "u").await;
        let same = || {
            let engine = Arc::clone(&service.engine);
            tokio::spawn(
                async move { engine.request_reply().update(&at("w"), named("u"), Duration::from_secs(60)).await },
            )
        };
        vec![first, same(), same()]
    };
    service.judged(&[("u", done("2"))], Vec::new()).await.unwrap();
    for asking in asking {
        assert_eq!(result(asking.await.unwrap()).0, "2");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_disconnects_finds_the_answer_later() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.update_of(at("w"), named("u"), Duration::from_secs(1)).await;
    let task = service.judge().await;
    let token = task.task().token.clone();
    task.delivered();
    match asking.await.unwrap().unwrap_err() {
        Refusal::UpdateTimedOut { recorded, .. } => assert!(recorded, "it may still be recorded"),
        other => panic!("{other}"),
    }
    service.say(&token, &[("u", done("2"))], Vec::new()).await.unwrap();
    assert_eq!(result(service.update("w", "u").await.await.unwrap()).0, "2");
    // If no decider has an update when the wait ends, the update is withdrawn.
    let asking = service.update_of(at("w"), named("v"), Duration::from_secs(1)).await;
    match asking.await.unwrap().unwrap_err() {
        Refusal::UpdateTimedOut { recorded, .. } => assert!(!recorded),
        other => panic!("{other}"),
    }
    service.nothing_to_judge().await;
    assert_eq!(service.gauge("updates_waiting"), 0);
}

#[tokio::test(start_paused = true)]
async fn unknown_answers_are_faults_and_missing_ones_rejections() {
    let service = Service::open().await;
    service.idle("w").await;
    let before = service.stored("w").await;
    let asking = service.update("w", "u").await;
    let task = service.judge().await;
    let token = task.task().token.clone();
    task.delivered();
    let nobody = service.say(&token, &[("u", done("2")), ("v", done("2"))], Vec::new()).await.unwrap_err();
    assert_eq!(nobody.code(), "unknown-update");
    let twice = service.say(&token, &[("u", done("2")), ("u", rejected())], Vec::new()).await.unwrap_err();
    assert!(matches!(twice, Refusal::Fault(Fault::Invalid { .. })), "{twice}");
    assert_eq!(service.stored("w").await, before, "no effect");
    // After these refusals, the task can still be answered correctly.
    service.say(&token, &[], Vec::new()).await.unwrap();
    match asking.await.unwrap().unwrap_err() {
        Refusal::UpdateRejected { reason, .. } => assert_eq!(reason, "unanswered"),
        other => panic!("{other}"),
    }
    assert_eq!(service.stored("w").await, before);
    // The task was already answered, so a later answer is refused.
    let late = service.say(&token, &[("u", done("2"))], Vec::new()).await.unwrap_err();
    assert_eq!(late.code(), "turn-lost");
    // An answer to an update is refused if the turn has no updates.
    service.signal("w", "go").await;
    let task = service.judge().await;
    let token = task.task().token.clone();
    task.delivered();
    assert_eq!(service.say(&token, &[("x", rejected())], Vec::new()).await.unwrap_err().code(), "unknown-update");
    service.say(&token, &[], Vec::new()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn updates_of_unknown_runs_are_refused_with_their_codes() {
    let service = Service::open().await;
    service.idle("w").await;
    let run_id = Some(uuid::Uuid::from_u128(9));
    for (run, expected) in [
        (at("nobody"), "unknown-workflow"),
        (RunRef { domain: "nowhere".into(), ..at("w") }, "unknown-domain"),
        (RunRef { run_id, ..at("w") }, "unknown-run"),
    ] {
        assert_eq!(code(service.update_of(run, named("u"), Duration::ZERO).await.await.unwrap()), expected);
    }
    let first = service.engine.views().describe(&at("w")).await.unwrap().run.started.run_id;
    let asking = service.update("w", "u").await;
    service.judged(&[("u", done("2"))], vec![ContinueAsNew::default().into()]).await.unwrap();
    asking.await.unwrap().unwrap();
    let earlier = RunRef { run_id: Some(first), ..at("w") };
    let fetched = service.update_of(earlier.clone(), named("u"), Duration::ZERO).await.await.unwrap();
    assert_eq!(result(fetched).0, "2", "its result is still known");
    assert_eq!(code(service.update_of(earlier, named("v"), Duration::ZERO).await.await.unwrap()), "run-not-current");
}

#[tokio::test(start_paused = true)]
async fn a_run_takes_at_most_1000_waiting_updates() {
    let service = Service::open().await;
    service.idle("w").await;
    let mut asking = Vec::new();
    for index in 0..1_000 {
        asking.push(service.update("w", &format!("u{index}")).await);
    }
    assert_eq!(code(service.update("w", "more").await.await.unwrap()), "too-many-waiting");
    let task = service.judge().await;
    assert_eq!(task.task().updates.len(), history::limits::UPDATES_PER_TURN_MAX);
    drop(asking);
}

#[tokio::test(start_paused = true)]
async fn large_updates_are_spread_over_several_tasks() {
    let service = Service::open().await;
    service.idle("w").await;
    let large = Payload::of(&"x".repeat(200 * 1024)).ok();
    let mut asking = Vec::new();
    for index in 0..9 {
        let update = UpdateRequest { input: large.clone(), ..named(&format!("u{index}")) };
        asking.push(service.update_of(at("w"), update, Duration::from_secs(60)).await);
    }
    let task = service.judge().await;
    assert_eq!(task.task().updates.len(), 5);
    drop((task, asking));
}

#[tokio::test(start_paused = true)]
async fn a_pause_ends_the_wait_of_updates_that_no_decider_has() {
    let service = Service::open().await;
    service.idle("w").await;
    let operator = || history::event::OperatorAction { identity: None, reason: None };
    let pause = || Command::Pause { stop_clocks: false, operator: operator(), key: None };
    let waits = service.update("w", "u").await;
    service.engine.commands().submit(&at("w"), pause()).await.unwrap();
    assert_eq!(code(waits.await.unwrap()), "run-paused");
    assert_eq!(code(service.update("w", "u").await.await.unwrap()), "run-paused");
    service.nothing_to_judge().await;
    service.engine.commands().submit(&at("w"), Command::Resume { operator: operator(), key: None }).await.unwrap();
    let judged = service.update("w", "v").await;
    let task = service.judge().await;
    let token = task.task().token.clone();
    task.delivered();
    service.engine.commands().submit(&at("w"), pause()).await.unwrap();
    assert_eq!(service.say(&token, &[("v", done("2"))], Vec::new()).await.unwrap_err().code(), "turn-lost");
    assert_eq!(code(judged.await.unwrap()), "run-paused");
    assert!(!service.names("w").await.contains(&"UpdateAccepted"));
}

#[tokio::test(start_paused = true)]
async fn an_update_accepted_by_the_closing_turn_is_not_rejected() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.update("w", "u").await;
    service.judged(&[("u", Verdict::Later)], vec![succeed()]).await.unwrap();
    assert_eq!(code(asking.await.unwrap()), "run-closed");
    assert!(service.names("w").await.contains(&"UpdateAccepted"));
}

#[tokio::test(start_paused = true)]
async fn of_fifty_signals_with_one_version_one_is_accepted() {
    let service = Service::open().await;
    service.idle("w").await;
    let before = service.events("w").await.len();
    let if_version = Some(service.engine.views().describe(&at("w")).await.unwrap().run.version);
    let mut signaling = tokio::task::JoinSet::new();
    for number in 0..50 {
        let (engine, name) = (Arc::clone(&service.engine), format!("s{number}"));
        let signal = Command::Signal { name, input: None, identity: None, key: None, if_version };
        signaling.spawn(async move { engine.commands().submit(&at("w"), signal).await });
    }
    let told = signaling.join_all().await;
    assert_eq!(told.iter().filter(|told| told.is_ok()).count(), 1, "one of them is recorded");
    let stale = |refusal: &Refusal| matches!(refusal, Refusal::Fault(Fault::VersionMismatch { .. }));
    assert_eq!(told.iter().filter(|told| told.as_ref().err().is_some_and(stale)).count(), 49);
    assert_eq!(service.names("w").await[before..], ["Signal", "DeciderScheduled"], "one signal and one turn");
}

#[tokio::test(start_paused = true)]
async fn each_update_of_a_very_full_turn_gets_its_answer() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "go").await;
    let ids: Vec<String> = (0..history::limits::UPDATES_PER_TURN_MAX).map(|number| number.to_string()).collect();
    let mut asking = Vec::new();
    for id in &ids {
        asking.push(service.update("w", id).await);
    }
    let task = service.judge().await;
    assert_eq!(task.task().updates.len(), ids.len());
    let token = task.task().token.clone();
    task.delivered();
    let answers: Vec<_> = ids.iter().map(|id| (id.as_str(), done(id))).collect();
    service.say(&token, &answers, Vec::new()).await.unwrap();
    let mut events = std::collections::BTreeSet::new();
    for (id, asking) in ids.iter().zip(asking) {
        let (answer, event_id, _) = result(asking.await.unwrap());
        assert_eq!(answer, *id);
        assert!(events.insert(event_id));
    }
}

#[tokio::test(start_paused = true)]
async fn a_redelivered_turn_takes_its_updates_and_queries_again() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "go").await;
    let (updating, asking) = (service.update("w", "u").await, service.ask("w", "total").await);
    let poll = |attempt| Poll {
        wait: Duration::from_secs(60),
        queries: true,
        updates: 8,
        poll_id: Some("p".to_owned()),
        attempt: Some(attempt),
        ..Poll::default()
    };
    let lost = service.engine.tasks().poll_decider(DOMAIN, "deciders", poll(1)).await.unwrap().unwrap();
    assert_eq!((lost.task().updates.len(), lost.task().queries.len()), (1, 1));
    // The service considers the task as delivered.
    lost.delivered();
    let task = service.engine.tasks().poll_decider(DOMAIN, "deciders", poll(2)).await.unwrap().unwrap();
    assert_eq!((ids(&task), task.task().queries.len()), (vec!["u"], 1));
    let (token, query) =
        (service.engine.tasks().decider_token(&task.task().token).unwrap(), task.task().queries[0].id.clone());
    task.delivered();
    let command = Command::complete(token.turn, Vec::new());
    let verdict = vec![UpdateAnswer { update_id: "u".to_owned(), verdict: done("2") }];
    let results = vec![(query, crate::queries::said("7"))];
    service.engine.tasks().answer_turn_with(&token, command, results, verdict).await.unwrap();
    assert_eq!(result(updating.await.unwrap()).0, "2");
    assert_eq!(crate::queries::result(asking.await.unwrap()).0, "7");
}
