//! Tests of the host turn by turn over HTTP, against a fake service and a clock that the tests control.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

#[path = "../../client/tests/double/mod.rs"]
mod double;

use std::time::Duration;

use baton_client::body::DeciderTask;
use baton_decider_kit::flow::{Context, Flow};
use baton_decider_kit::{Decider, Decisions, Event, Host, Payload, Query, QueryError, Window};
use baton_history::{Command, Start, Timestamp, Transition, TurnAnswer, TurnId};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::double::{Request, Running};

/// Reports in each turn which events its state has seen. Panics, fails or succeeds on a signal.
struct Counts;

impl Decider for Counts {
    type State = Vec<u64>;

    fn evolve(&self, state: &mut Vec<u64>, event: &Event) {
        state.push(event.id);
    }

    fn decide(&self, state: &Vec<u64>, window: &Window) -> Decisions {
        assert!(!window.signals().any(|(name, _)| name == "panic"), "as requested");
        if window.signals().any(|(name, _)| name == "move") {
            return Decisions::new().move_turns("elsewhere");
        }
        if window.signals().any(|(name, _)| name == "stay") {
            return Decisions::new().move_turns_while_polled("here", Duration::from_secs(5));
        }
        if window.signals().any(|(name, _)| name == "end") {
            return Decisions::new().succeed(&state.len());
        }
        Decisions::new().context(state).awaiting(["end"])
    }

    fn query(&self, state: &Vec<u64>, query: &Query<'_>) -> Result<Payload, QueryError> {
        assert_ne!(query.name(), "panic", "as requested");
        query.on("seen", |(): ()| state.len()).answer()
    }
}

/// A run in the fake service, and its turns.
struct Story {
    id: u64,
    transition: Transition,
    turn: TurnId,
    now: Timestamp,
}

impl Story {
    fn new(id: u64) -> Self {
        let start = Start::new(&id.to_string(), "counts", "turns");
        let transition =
            Transition::start(&start, uuid::Uuid::from_u64_pair(0, id), Timestamp::from_millis(0)).unwrap();
        Self {
            id,
            transition,
            turn: TurnId { scheduled_event_id: 0, started_event_id: 0 },
            now: Timestamp::from_millis(0),
        }
    }

    fn admit(&mut self, command: &Command) {
        // The delay is long enough for a turn that was given back to be handed out again.
        self.now = Timestamp::from_millis(self.now.as_millis() + 600_000);
        self.transition.admit(command, self.now).unwrap();
    }

    fn signal(&mut self, name: &str) {
        let name = name.to_owned();
        self.admit(&Command::Signal { name, input: None, identity: None, key: None, if_version: None });
    }

    fn complete(&mut self) {
        let (decisions, awaiting) = (Vec::new(), vec!["end".to_owned()]);
        self.admit(&Command::complete(self.turn, TurnAnswer { decisions, awaiting, ..TurnAnswer::default() }));
    }

    fn fail(&mut self) {
        self.admit(&Command::FailTurn { turn: self.turn, reason: None, details: None });
    }

    fn events(&self) -> Vec<Event> {
        self.transition.events().to_vec()
    }

    /// Starts the pending turn and returns its task. The token names the run.
    fn task(&mut self) -> Value {
        let scheduled_event_id = self.transition.run().turn_task.as_ref().unwrap().scheduled_event_id;
        self.admit(&Command::StartTurn { scheduled_event_id, identity: None, poll: None });
        let (run, events) = (self.transition.run(), self.events());
        self.turn = TurnId { scheduled_event_id, started_event_id: run.last_event_id };
        let previous = run.previous_started_event_id;
        let task = DeciderTask {
            token: format!("t{}", self.id),
            domain: "default".to_owned(),
            workflow_id: self.id.to_string(),
            run_id: uuid::Uuid::from_u64_pair(0, self.id),
            workflow_type: "counts".to_owned(),
            task_list: "turns".to_owned(),
            attempt: 1,
            started_event_id: run.last_event_id,
            previous_started_event_id: previous,
            events: events.into_iter().filter(|event| event.id >= previous).collect(),
            next: None,
            context: None,
            queries: Vec::new(),
            query_only: false,
            updates: Vec::new(),
            speculative: false,
            traceparent: None,
            tracestate: None,
        };
        serde_json::to_value(task).unwrap()
    }

    /// Returns the next turn, after a signal.
    fn next(&mut self, signal: &str) -> Value {
        self.complete();
        self.signal(signal);
        self.task()
    }

    /// Returns the events before the window, as the response to a request for older history.
    fn before(&self, request: &Request) -> Value {
        let before: u64 = request.path.split_once("before=").unwrap().1.parse().unwrap();
        let events: Vec<Event> = self.events().into_iter().filter(|event| event.id < before).collect();
        let run_id = uuid::Uuid::from_u64_pair(0, self.id);
        json!({ "events": events, "runId": run_id, "lastEventId": self.turn.started_event_id, "closed": false })
    }

    /// Returns the ids of all events that the turn may see.
    fn seen(&self) -> Value {
        json!((1..=self.turn.started_event_id).collect::<Vec<_>>())
    }
}

impl Running {
    /// Starts a host with one slot for turns. `with` can change its settings.
    async fn start(with: impl FnOnce(Host) -> Host) -> Self {
        Self::begin(|client, stopped| {
            let host = Host::new(client, "turns").register("counts", Counts).identity("me").concurrency(1);
            with(host).run_until(async { drop(stopped.await) })
        })
        .await
    }

    async fn poll(&mut self) -> Request {
        self.double.next("/v1/domains/default/task-lists/turns/decider/poll").await
    }

    /// Returns the next request, which must answer the turn of this run.
    async fn answer(&mut self, story: &Story, what: &str) -> Request {
        self.double.next(&format!("/v1/decider-tasks/t{}/{what}", story.id)).await
    }

    /// Answers the next request, which must ask for this run's older history.
    async fn look_back(&mut self, story: &Story) {
        let request = self.double.next("").await;
        assert!(request.path.contains(&format!("/v1/decider-tasks/t{}/history?", story.id)), "{}", request.path);
        let before = story.before(&request);
        request.answer(200, &before).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_can_take_the_turns_of_one_run_only() {
    let (mut running, mut story) = (Running::start(|host| host.only_workflow("1")).await, Story::new(1));
    let poll = running.poll().await;
    assert_eq!(poll.body["workflowId"], "1");
    poll.answer(200, &story.task()).await;
    assert_eq!(running.answer(&story, "complete").await.body["poll"]["workflowId"], "1");
}

#[tokio::test(start_paused = true)]
async fn an_answer_can_move_later_turns() {
    let (mut running, mut story) = (Running::start(|host| host).await, Story::new(1));
    running.poll().await.answer(200, &story.task()).await;
    let first = running.answer(&story, "complete").await;
    assert_eq!((first.body.get("taskList"), first.body.get("taskListScheduleToStart")), (None, None));
    first.record(story.next("move")).await;
    let second = running.answer(&story, "complete").await;
    assert_eq!((&second.body["taskList"], second.body.get("taskListScheduleToStart")), (&json!("elsewhere"), None));
    second.record(story.next("stay")).await;
    let third = running.answer(&story, "complete").await;
    let moved = (&third.body["taskList"], &third.body["taskListScheduleToStart"]);
    assert_eq!(moved, (&json!("here"), &json!("PT5S")));
}

#[tokio::test(start_paused = true)]
async fn an_answer_brings_the_next_turn() {
    let (mut running, mut story) = (Running::start(|host| host).await, Story::new(1));
    let poll = running.poll().await;
    assert_eq!((&poll.body["identity"], &poll.body["queries"]), (&json!("me"), &json!(true)));
    poll.answer(200, &story.task()).await;
    let first = running.answer(&story, "complete").await;
    assert_eq!((&first.body["context"], &first.body["awaiting"]), (&story.seen(), &json!(["end"])));
    assert_eq!(first.body["poll"]["identity"], "me");
    first.record(story.next("more")).await;
    let second = running.answer(&story, "complete").await;
    assert_eq!(second.body["context"], story.seen(), "each event once, in order, without reading older history");
    second.record(story.next("end")).await;
    let last = running.answer(&story, "complete").await;
    let seen = story.turn.started_event_id;
    assert_eq!(last.body["decisions"], json!([{ "type": "SucceedWorkflow", "result": seen }]));
    last.record(Value::Null).await;
    running.poll().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_turn_leaves_no_state_behind() {
    let (mut running, mut story) = (Running::start(|host| host).await, Story::new(1));
    running.poll().await.answer(200, &story.task()).await;
    running.answer(&story, "complete").await.record(story.next("more")).await;
    let late = running.answer(&story, "complete").await;
    // The turn timed out, and no other host has got it since.
    story.fail();
    late.refuse(409, "turn-lost", false).await;
    running.poll().await.answer(200, &story.task()).await;
    running.look_back(&story).await;
    let again = running.answer(&story, "complete").await;
    assert_eq!(again.body["context"], story.seen());
}

#[tokio::test(start_paused = true)]
async fn a_state_outdated_by_another_host_is_not_used() {
    let (mut running, mut story) = (Running::start(|host| host).await, Story::new(1));
    running.poll().await.answer(200, &story.task()).await;
    running.answer(&story, "complete").await.record(Value::Null).await;
    // Another host takes this turn.
    story.next("more");
    running.poll().await.answer(200, &story.next("more")).await;
    running.look_back(&story).await;
    assert_eq!(running.answer(&story, "complete").await.body["context"], story.seen());
}

#[tokio::test(start_paused = true)]
async fn a_state_with_an_unrecorded_answer_is_not_used_again() {
    // The state of a flow includes its requests. If the host kept the state of the lost turn, the flow would not repeat
    // them.
    let flow = Flow::new(|ctx: Context, ()| async move { ctx.activity::<()>("ship", &()).await });
    let mut running = Running::start(|host| host.register("counts", flow).concurrency(2)).await;
    let mut story = Story::new(1);
    running.poll().await.answer(200, &story.task()).await;
    let other = running.poll().await;
    let held = running.answer(&story, "complete").await;
    assert_eq!(held.body["decisions"][0]["type"], "ScheduleActivity");
    story.fail();
    other.answer(200, &story.task()).await;
    let again = running.answer(&story, "complete").await;
    assert_eq!(again.body["decisions"], held.body["decisions"], "the first answer may never be recorded");
}

#[tokio::test(start_paused = true)]
async fn a_turn_of_an_unknown_type_is_given_back() {
    let (mut running, mut story) = (Running::start(|host| host).await, Story::new(1));
    let mut task = story.task();
    task["workflowType"] = json!("other");
    running.poll().await.answer(200, &task).await;
    let back = running.answer(&story, "fail").await;
    assert_eq!(back.body["reason"], "unknown-workflow-type");
    assert_eq!(back.body["details"], "this host has no decider for `other`");
    assert!(back.body["poll"].is_object());
}

#[tokio::test(start_paused = true)]
async fn a_panic_gives_the_turn_back_and_drops_the_state() {
    let (mut running, mut story) = (Running::start(|host| host).await, Story::new(1));
    running.poll().await.answer(200, &story.task()).await;
    running.answer(&story, "complete").await.record(story.next("panic")).await;
    let back = running.answer(&story, "fail").await;
    assert_eq!((&back.body["reason"], &back.body["details"]), (&json!("panic"), &json!("as requested")));
    story.fail();
    let mut other = Story::new(2);
    back.record(other.task()).await;
    let well = running.answer(&other, "complete").await;
    assert_eq!(well.body["context"], other.seen(), "another run is not affected");
    // The state left by the panic is not used again.
    well.record(story.task()).await;
    running.look_back(&story).await;
    running.answer(&story, "fail").await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_answer_is_recorded_and_drops_the_state() {
    let (mut running, mut story) = (Running::start(|host| host).await, Story::new(1));
    running.poll().await.answer(200, &story.task()).await;
    running.answer(&story, "complete").await.record(story.next("more")).await;
    running.answer(&story, "complete").await.refuse(422, "bad-decision", false).await;
    let back = running.answer(&story, "fail").await;
    assert_eq!(back.body, json!({ "reason": "answer-refused", "details": "no: bad-decision (bad-decision)" }));
    story.fail();
    back.record(Value::Null).await;
    running.poll().await.answer(200, &story.task()).await;
    running.look_back(&story).await;
    assert_eq!(running.answer(&story, "complete").await.body["context"], story.seen());
}

#[tokio::test(start_paused = true)]
async fn a_lost_response_repeats_the_answer_and_its_poll() {
    let (mut running, mut story) = (Running::start(|host| host).await, Story::new(1));
    running.poll().await.answer(200, &story.task()).await;
    let lost = running.answer(&story, "complete").await;
    let mut body = lost.body.clone();
    lost.lose().await;
    let again = running.double.later().await;
    // The lost response may have contained a turn.
    body["poll"]["attempt"] = json!(2);
    assert_eq!(again.body, body);
    again.refuse(409, "turn-completed", false).await;
    let poll = running.poll().await;
    assert!(poll.body["pollId"] != body["poll"]["pollId"] && poll.body.get("attempt").is_none(), "{}", poll.body);
    // The answer was recorded, so the host keeps the state of this turn.
    poll.answer(200, &story.next("more")).await;
    assert_eq!(running.answer(&story, "complete").await.body["context"], story.seen());
}

#[tokio::test(start_paused = true)]
async fn an_outage_repeats_polls_and_answers_with_backoff() {
    let (mut running, mut story) = (Running::start(|host| host).await, Story::new(1));
    let first = running.poll().await;
    let (poll_id, mut last, mut waits) = (first.body["pollId"].clone(), first.at, Vec::new());
    first.refuse(503, "overloaded", true).await;
    for _ in 0..12 {
        let again = running.double.later().await;
        assert_eq!((&again.body["pollId"], again.body.get("attempt")), (&poll_id, None), "the poll took no turn");
        waits.push(again.at - last);
        last = again.at;
        again.refuse(503, "overloaded", true).await;
    }
    // Each wait is 1.5 times as long as the previous one, and is changed at random by up to half of its length.
    assert!(waits[0] < Duration::from_secs(1) && waits[11] > Duration::from_secs(3), "{waits:?}");
    running.double.later().await.answer(200, &story.task()).await;
    let refused = running.answer(&story, "complete").await;
    let body = refused.body.clone();
    refused.refuse(503, "overloaded", true).await;
    let again = running.double.later().await;
    assert_eq!(again.body, body);
    again.record(story.next("more")).await;
    assert_eq!(running.answer(&story, "complete").await.body["context"], story.seen(), "no older history is read");
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_poll_is_repeated_every_ten_seconds() {
    let mut running = Running::start(|host| host).await;
    let first = running.poll().await;
    let at = first.at;
    first.refuse(403, "forbidden", false).await;
    let again = running.double.later().await;
    assert!(again.at - at >= Duration::from_secs(10), "{:?}", again.at - at);
}

#[tokio::test(start_paused = true)]
async fn concurrent_turns_are_limited() {
    let mut running = Running::start(|host| host.concurrency(2)).await;
    let mut stories: Vec<Story> = (1..=2).map(Story::new).collect();
    let mut held = Vec::new();
    for story in &mut stories {
        let task = story.task();
        running.poll().await.answer(200, &task).await;
        held.push(running.answer(story, "complete").await);
    }
    for _ in 0..20 {
        running.double.step(Duration::from_secs(1)).await;
    }
    assert!(!running.double.has_request(), "both slots wait for the response to their answer");
    held.pop().unwrap().record(Value::Null).await;
    running.poll().await;
}

#[tokio::test(start_paused = true)]
async fn an_evicted_state_is_rebuilt_from_the_history() {
    let mut running = Running::start(|host| host.cached_states(1)).await;
    let (mut one, mut two) = (Story::new(1), Story::new(2));
    running.poll().await.answer(200, &one.task()).await;
    running.answer(&one, "complete").await.record(two.task()).await;
    running.answer(&two, "complete").await.record(two.next("more")).await;
    let second = running.answer(&two, "complete").await;
    assert_eq!(second.body["context"], two.seen(), "the newest state is kept");
    second.record(one.next("more")).await;
    running.look_back(&one).await;
    assert_eq!(running.answer(&one, "complete").await.body["context"], one.seen());
}

#[tokio::test(start_paused = true)]
async fn a_failed_history_read_gives_the_turn_back() {
    let (mut running, mut story) = (Running::start(|host| host).await, Story::new(1));
    story.task();
    running.poll().await.answer(200, &story.next("more")).await;
    running.double.next("").await.refuse(404, "unknown-token", false).await;
    let back = running.answer(&story, "fail").await;
    assert_eq!(back.body["reason"], "look-back-failed");
}

#[tokio::test(start_paused = true)]
async fn a_panicking_query_does_not_affect_the_turn() {
    let (mut running, mut story) = (Running::start(|host| host).await, Story::new(1));
    let mut task = story.task();
    task["queries"] =
        json!([{ "id": "q1", "name": "seen" }, { "id": "q2", "name": "panic" }, { "id": "q3", "name": "x" }]);
    running.poll().await.answer(200, &task).await;
    let answer = running.answer(&story, "complete").await;
    let results = &answer.body["queryResults"];
    assert_eq!(results[0], json!({ "id": "q1", "result": story.turn.started_event_id }));
    for (index, id) in [(1, "q2"), (2, "q3")] {
        assert_eq!((&results[index]["id"], results[index]["error"].is_object()), (&json!(id), true), "{results}");
    }
    assert_eq!(answer.body["context"], story.seen(), "the turn is decided anyway");
}

#[tokio::test(start_paused = true)]
async fn a_task_with_only_queries_is_answered_without_deciding() {
    let (mut running, mut story) = (Running::start(|host| host).await, Story::new(1));
    running.poll().await.answer(200, &story.task()).await;
    running.answer(&story, "complete").await.record(Value::Null).await;
    let mut task = story.next("end");
    task["queries"] = json!([{ "id": "q", "name": "seen" }]);
    task["queryOnly"] = json!(true);
    running.poll().await.answer(200, &task).await;
    let answer = running.answer(&story, "complete").await;
    assert_eq!((&answer.body["decisions"], answer.body.get("context")), (&json!([]), None));
    assert_eq!(answer.body["queryResults"][0]["result"], story.turn.started_event_id);
}

#[tokio::test(start_paused = true)]
async fn a_stopping_host_finishes_its_turn_and_takes_no_other() {
    let (mut running, mut story) = (Running::start(|host| host).await, Story::new(1));
    story.task();
    running.poll().await.answer(200, &story.next("end")).await;
    let request = running.double.next("").await;
    running.stop().await;
    let before = story.before(&request);
    request.answer(200, &before).await;
    let answer = running.answer(&story, "complete").await;
    assert_eq!(answer.body["decisions"][0]["type"], "SucceedWorkflow");
    assert_eq!(answer.body.get("poll"), None);
    answer.record(Value::Null).await;
    running.ended.await.unwrap();
    assert!(!running.double.has_request());
}

#[tokio::test(start_paused = true)]
async fn a_stopping_host_drops_polls_but_delivers_answers() {
    let mut running = Running::start(|host| host.concurrency(2)).await;
    let mut story = Story::new(1);
    running.poll().await.answer(200, &story.task()).await;
    let held = running.double.next("").await;
    // The order of the two requests is not fixed.
    let held = if held.path.ends_with("/complete") { held } else { running.answer(&story, "complete").await };
    let since = Instant::now();
    running.stop().await;
    while !running.ended.is_finished() {
        running.double.step(Duration::from_millis(100)).await;
    }
    assert!(since.elapsed() >= Duration::from_secs(2), "the host waits for an answer in flight");
    drop(held);
}
