//! A run with as many open items as the documented limits allow, on the real engine and any store. All items are then
//! ended in order. Panics if anything is refused, lost or wrong.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use engine::{ActivityToken, DeciderTask, Delivery, Engine, EventRange, Poll, RunRef, Settings, UpdateRequest};
use history::event::{ChildPolicy, OperatorAction};
use history::{
    Command, Decision, Event, EventKind, Payload, RecordMarker, RetryPolicy, Run, ScheduleActivity, SignalExternal,
    Start, StartChild, StartTimer, SucceedWorkflow, TurnAnswer, UpdateAnswer, Verdict, check, limits,
};
use store::Store;
use tokio::task::JoinSet;

use crate::manual_clock::ManualClock;
use crate::stores::is_memory;

const DOMAIN: &str = "default";
const ID: &str = "order-1234567";
/// Number of concurrent callers.
fn at_once() -> usize {
    // DynamoDB Local cannot handle more callers: calls would rightly fail after half a second.
    if is_memory() { 250 } else { 16 }
}

/// Number of runs that are signaled.
const LEDGERS: usize = 200;

/// One in this many results has the maximum size.
const LARGE_EVERY: usize = 100;

/// Number of maximum-size payloads in one answer to a turn. One more would exceed the maximum size of a request, 8 MiB.
const NOTES: usize = 31;

/// Returns a payload of the maximum size.
fn large() -> Payload {
    Payload::of(&long("r", limits::PAYLOAD_BYTES_MAX - 2)).expect("a text")
}

fn large_notes() -> Vec<Decision> {
    let large = large();
    let note = |index: usize| RecordMarker { name: named("note", index), details: Some(large.clone()) }.into();
    (0..NOTES).map(note).collect()
}

struct Crowd {
    engine: Arc<Engine>,
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
}

/// Fills a run over this store, lets every activity fail with the largest failure details that the service keeps, and
/// ends everything.
pub async fn fill_and_end(store: Arc<dyn Store>) {
    let crowd = Crowd::open(store).await;
    crowd.fill().await;
    crowd.wait_for_much().await;
    crowd.pause_and_resume().await;
    crowd.fail_all().await;
    crowd.end_all().await;
}

fn at(workflow_id: &str) -> RunRef {
    RunRef { domain: DOMAIN.into(), workflow_id: workflow_id.into(), run_id: None }
}

fn long(what: &str, len: usize) -> String {
    what.repeat(len).chars().take(len).collect()
}

fn named(prefix: &str, index: usize) -> String {
    format!("{prefix}-{index:04}")
}

/// Processes all items concurrently, and returns the outcomes in any order.
async fn each<T, R, F>(items: impl IntoIterator<Item = T>, mut work: impl FnMut(T) -> F) -> Vec<R>
where
    R: Send + 'static,
    F: Future<Output = R> + Send + 'static,
{
    let (mut done, mut under_way) = (Vec::new(), JoinSet::new());
    for item in items {
        if under_way.len() >= at_once() {
            done.extend(under_way.join_next().await.map(|one| one.expect("no work panics")));
        }
        under_way.spawn(work(item));
    }
    done.extend(under_way.join_all().await);
    done
}

impl Crowd {
    async fn open(store: Arc<dyn Store>) -> Self {
        let clock = ManualClock::new();
        let settings = Settings { seed: Some(7), ..Settings::default() };
        let engine =
            Engine::open(Arc::clone(&store), Arc::clone(&clock) as _, settings).await.expect("a store that opens");
        Self { engine, clock, store }
    }

    async fn start(&self, id: &str) {
        let start = Start { tags: vec!["eu".to_owned()], ..Start::new(id, "ship-order/2", id) };
        self.engine.commands().start(DOMAIN, start).await.expect("it starts");
    }

    async fn turn(&self, updates: usize) -> Delivery<DeciderTask> {
        let poll = Poll { wait: Duration::from_secs(60), updates, identity: Some(long("d", 256)), ..Poll::default() };
        self.engine.tasks().poll_decider(DOMAIN, ID, poll).await.expect("a poll").expect("a turn comes")
    }

    async fn answer(&self, turn: Delivery<DeciderTask>, decisions: Vec<Decision>, answers: Vec<UpdateAnswer>) {
        self.answer_and_await(turn, decisions, answers, Vec::new()).await;
    }

    async fn answer_and_await(
        &self,
        turn: Delivery<DeciderTask>,
        decisions: Vec<Decision>,
        answers: Vec<UpdateAnswer>,
        awaiting: Vec<String>,
    ) {
        let token = self.engine.tasks().decider_token(&turn.task().token).expect("its own token");
        turn.delivered();
        let command = Command::complete(token.turn, TurnAnswer { decisions, awaiting, ..TurnAnswer::default() });
        self.engine.tasks().answer_turn_with(&token, command, Vec::new(), answers).await.expect("an answer has room");
    }

    async fn tell(&self, command: Command) {
        self.engine.commands().submit(&at(ID), command).await.expect("it has room");
    }

    async fn signal(&self) {
        let (name, input, identity) = ("go".to_owned(), None, None);
        self.tell(Command::Signal { name, input, identity, key: None, if_version: None }).await;
    }

    async fn run(&self) -> Run {
        self.engine.views().describe(&at(ID)).await.expect("it is there").run
    }

    /// Returns all events as readers receive them.
    async fn events(&self) -> Vec<Event> {
        let (mut events, mut page) = (Vec::new(), EventRange::default());
        loop {
            let read = self.engine.views().history(&at(ID), &page).await.expect("its history");
            events.extend(read.events);
            match read.next {
                Some(after) => page.after = after,
                None => return events,
            }
        }
    }

    /// Advances the time until the run meets a condition.
    async fn until(&self, is_so: impl Fn(&Run) -> bool) {
        for _ in 0..10_000 {
            if is_so(&self.run().await) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("it never came: {:?}", self.run().await.open_counts());
    }

    async fn fill(&self) {
        self.start(ID).await;
        each((0..LEDGERS).map(|index| named("ledger", index)), |id| {
            let engine = Arc::clone(&self.engine);
            async move {
                let start = Start::new(&id, "ledger/1", "ledgers");
                engine.commands().start(DOMAIN, start).await.expect("it starts")
            }
        })
        .await;
        let retry = RetryPolicy { maximum_attempts: Some(3), ..RetryPolicy::default() };
        let activities = (0..limits::OPEN_ACTIVITIES_MAX).map(|index| {
            ScheduleActivity {
                activity_id: named("charge", index),
                activity_type: "charge-card/1".to_owned(),
                task_list: Some("work".to_owned()),
                retry: Some(retry.clone()),
                ..ScheduleActivity::default()
            }
            .into()
        });
        let timers = (0..limits::OPEN_TIMERS_MAX).map(|index| {
            let after = history::Duration::from_days(1);
            StartTimer { timer_id: named("patience", index), after, control: None }.into()
        });
        let turn = self.turn(0).await;
        self.answer(turn, activities.chain(timers).collect(), Vec::new()).await;
        let ids: Vec<String> = (0..limits::OPEN_UPDATES_MAX).map(|index| named("3f0c8a52-7a1e-4b7e", index)).collect();
        for ids in ids.chunks(limits::UPDATES_PER_TURN_MAX) {
            self.accept(ids).await;
        }
        let children = (0..limits::OPEN_CHILDREN_MAX).map(|index| {
            StartChild {
                workflow_id: named("order-1234567/ship", index),
                workflow_type: "ship/1".to_owned(),
                task_list: Some("nobody".to_owned()),
                child_policy: ChildPolicy::Abandon,
                ..StartChild::default()
            }
            .into()
        });
        let signals = (0..limits::OPEN_EXTERNALS_MAX).map(|index| {
            let (workflow_id, name) = (named("ledger", index % LEDGERS), "entry".to_owned());
            SignalExternal { workflow_id, name, input: None, run_id: None, control: None }.into()
        });
        self.signal().await;
        let turn = self.turn(0).await;
        self.answer(turn, children.chain(signals).collect(), Vec::new()).await;
        let run = self.run().await;
        assert_eq!((run.activities.len(), run.timers.len(), run.updates.open().len()), (1_000, 1_000, 1_000));
        let events = self.events().await;
        let failed: Vec<_> =
            events.iter().map(|event| event.kind.name()).filter(|name| name.ends_with("Failed")).collect();
        assert!(failed.is_empty(), "{failed:?}");
        let opened = |name: &str| events.iter().filter(|event| event.kind.name() == name).count();
        assert_eq!((opened("ChildScheduled"), opened("ExternalSignalScheduled")), (1_000, 1_000));
    }

    /// Answers a turn so that the run awaits as many signals with as long names as possible. The answer has the maximum
    /// size.
    async fn wait_for_much(&self) {
        let name =
            |index: usize| format!("{index:02}{}", long("n", limits::AWAITING_BYTES_MAX / limits::AWAITING_MAX - 2));
        let awaiting: Vec<String> = (0..limits::AWAITING_MAX).map(name).collect();
        self.signal().await;
        let turn = self.turn(0).await;
        self.answer_and_await(turn, large_notes(), Vec::new(), awaiting.clone()).await;
        assert_eq!(self.run().await.awaiting, awaiting);
    }

    /// Pauses the full run and stops all its clocks, as an operator with the longest name and reason. Then resumes the
    /// run.
    async fn pause_and_resume(&self) {
        let said =
            || OperatorAction { identity: Some(long("漢", 256)), reason: Some(long("漢", limits::REASON_CHARS_MAX)) };
        self.tell(Command::Pause { stop_clocks: true, operator: said(), key: None }).await;
        let paused = self.run().await;
        assert!(paused.paused.is_some() && paused.activities.len() == 1_000, "{:?}", paused.open_counts());
        self.tell(Command::Resume { operator: said(), key: None }).await;
    }

    /// Sends updates until they are accepted. No callers wait for their completion.
    async fn accept(&self, ids: &[String]) {
        let asking: Vec<_> = ids
            .iter()
            .map(|id| {
                let (engine, update_id, name) = (Arc::clone(&self.engine), Some(id.clone()), "change".to_owned());
                let update = UpdateRequest {
                    update_id,
                    name,
                    input: None,
                    identity: None,
                    if_version: None,
                    start: None,
                    by: None,
                };
                tokio::spawn(
                    async move { engine.request_reply().update(&at(ID), update, Duration::from_secs(600)).await },
                )
            })
            .collect();
        let mut left = ids.len();
        while left > 0 {
            let turn = self.turn(limits::UPDATES_PER_TURN_MAX).await;
            let later = |update_id: String| UpdateAnswer { update_id, verdict: Verdict::Later };
            let answers: Vec<_> = turn.task().updates.iter().map(|update| later(update.update_id.clone())).collect();
            left -= answers.len();
            self.answer(turn, Vec::new(), answers).await;
        }
        asking.iter().for_each(tokio::task::JoinHandle::abort);
    }

    /// Takes every waiting task, as runners with the longest name.
    async fn take_all(&self) -> Vec<ActivityToken> {
        let taken = each(0..limits::OPEN_ACTIVITIES_MAX, |index| {
            let engine = Arc::clone(&self.engine);
            async move {
                let (wait, identity) = (Duration::from_secs(60), Some(long("漢", 256)));
                let poll = Poll { wait, identity, poll_id: Some(format!("poll-{index}")), ..Poll::default() };
                let task =
                    engine.tasks().poll_activity(DOMAIN, "work", poll).await.expect("a poll").expect("a task waits");
                let token = engine.tasks().activity_token(&task.task().token).expect("its own token");
                task.delivered();
                token
            }
        });
        taken.await
    }

    async fn fail_all(&self) {
        let details = Payload::of(&long("d", limits::RETRIED_DETAILS_BYTES_MAX - 2)).expect("a text");
        let tokens = self.take_all().await;
        assert_eq!(tokens.len(), 1_000);
        each(tokens, |token| {
            let (engine, details, reason) = (Arc::clone(&self.engine), Some(details.clone()), long("漢", 256));
            async move {
                let (task, retry_after) = (token.task, None);
                let fail =
                    Command::FailActivity { task, reason: Some(reason), details, non_retryable: false, retry_after };
                engine.tasks().answer_activity(&token, fail).await.expect("a failure has room");
            }
        })
        .await;
        // Every node must show how each activity failed, including a new node that reads everything from the store.
        let settings = Settings { seed: Some(8), ..Settings::default() };
        let other = Engine::open_for_reading(Arc::clone(&self.store), Arc::clone(&self.clock) as _, settings);
        for engine in [Arc::clone(&self.engine), other.await.expect("a store that opens")] {
            let run = engine.views().describe(&at(ID)).await.expect("it is there").run;
            assert_eq!(run.activities.len(), 1_000);
            for activity in run.activities.values() {
                let failure = activity.last_failure().expect("it has failed");
                assert_eq!(failure.details.as_ref(), Some(&details));
                assert_eq!(failure.reason.as_deref(), Some(&*long("漢", 256)));
                assert_eq!(failure.identity.as_deref(), Some(&*long("漢", 256)));
            }
        }
    }

    async fn end_all(&self) {
        self.clock.advance(history::Duration::from_secs(3));
        let tokens = self.take_all().await;
        let large = large();
        each(tokens.into_iter().enumerate(), |(index, token)| {
            let engine = Arc::clone(&self.engine);
            // Some results have the maximum size. The first of these arrive while everything else is still open.
            let result = (index % LARGE_EVERY == 0).then(|| large.clone());
            async move {
                let succeed = Command::SucceedActivity { task: token.task, result };
                engine.tasks().answer_activity(&token, succeed).await.expect("a result has room");
            }
        })
        .await;
        self.until(|run| {
            run.externals.is_empty() && run.children.values().all(|child| child.started_event_id.is_some())
        })
        .await;
        each(0..limits::OPEN_CHILDREN_MAX, |index| {
            let (engine, id) = (Arc::clone(&self.engine), named("order-1234567/ship", index));
            async move {
                let (reason, details, identity, child_policy) = (None, None, None, None);
                let terminate = Command::Terminate { reason, details, identity, key: None, child_policy };
                engine.commands().submit(&at(&id), terminate).await.expect("a child ends");
            }
        })
        .await;
        self.clock.advance(history::Duration::from_days(1));
        self.until(|run| run.timers.is_empty() && run.children.is_empty() && run.turn.is_none()).await;
        let done =
            |update_id: &String| UpdateAnswer { update_id: update_id.clone(), verdict: Verdict::Done { result: None } };
        let open: Vec<_> = self.run().await.updates.open().values().map(|update| update.update_id.clone()).collect();
        let turn = self.turn(0).await;
        let close = SucceedWorkflow { result: None, force: true }.into();
        self.answer(turn, vec![close], open.iter().map(done).collect()).await;
        let events = self.events().await;
        check::history(&events).expect("a history that the rules allow");
        assert_eq!(Run::replay(&events).map(Run::history_derived), Some(self.run().await.history_derived()));
        let count = |name: &str| events.iter().filter(|event| event.kind.name() == name).count();
        let ends = ["ActivitySuccess", "TimerExpired", "ChildTerminated", "ExternalSignalDelivered", "UpdateCompleted"];
        assert_eq!(ends.map(count), [1_000; 5]);
        assert_eq!(events.last().map(|event| event.kind.name()), Some("WorkflowSuccess"));
        let large = Some(large);
        let is_large = |event: &&Event| match &event.kind {
            EventKind::ActivitySuccess(it) => it.result == large,
            EventKind::Marker(it) => it.details == large,
            _ => false,
        };
        assert_eq!(events.iter().filter(is_large).count(), limits::OPEN_ACTIVITIES_MAX / LARGE_EVERY + NOTES);
        for event in &events {
            let EventKind::ActivityStarted(it) = &event.kind else { continue };
            assert_eq!((it.attempt, it.identity.as_deref()), (Some(2), Some(&*long("漢", 256))));
            assert!(it.last_failure.as_ref().is_some_and(|failure| failure.details.is_some()));
        }
    }
}
