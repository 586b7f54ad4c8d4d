//! Budget of write units for whole workflows: the units that the table bills for the writes of the engine, including
//! writes to indexes. Source of the figures: docs/dynamodb-costs.md.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::Emulator;
use baton_store_dynamodb::{Create, Options};
use engine::{ActivityTask, DeciderTask, Delivery, Engine, EventRange, Poll, RunRef, Settings, WaitingBounds};
use history::{
    Command, Decision, Payload, RequestKey, RetryPolicy, ScheduleActivity, Start, StartTimer, SucceedWorkflow,
    TurnAnswer, check,
};
use simulation::manual_clock::ManualClock;
use store::{HeadKey, Store};
use tokio::task::JoinHandle;

const DOMAIN: &str = "default";
const DECIDERS: &str = "parallel";
const RUNNERS: &str = "work";
const ID: &str = "order-1234567890";

type Turn = Delivery<DeciderTask>;
type Task = Delivery<ActivityTask>;

/// The engine over a table, and the units counted so far.
struct Service {
    engine: Arc<Engine>,
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
    write_units: u64,
}

/// Returns 100 bytes of JSON that are hardly compressible and differ in each call.
fn payload() -> Payload {
    Payload::of(&letters()).unwrap()
}

fn letters() -> String {
    static DRAWN: AtomicU64 = AtomicU64::new(1);
    let mut state = DRAWN.fetch_add(1, Ordering::SeqCst).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from_digit(u32::try_from(state % 36).unwrap(), 36).unwrap()
    };
    (0..98).map(|_| letter()).collect()
}

fn activity(id: &str) -> Decision {
    ScheduleActivity {
        activity_id: id.to_owned(),
        activity_type: format!("Task{id}"),
        task_list: Some(RUNNERS.to_owned()),
        input: Some(payload()),
        ..ScheduleActivity::default()
    }
    .into()
}

fn succeed() -> Decision {
    SucceedWorkflow { result: Some(payload()), ..SucceedWorkflow::default() }.into()
}

fn at() -> RunRef {
    RunRef { domain: DOMAIN.into(), workflow_id: ID.into(), run_id: None }
}

fn poll(wait: u64) -> Poll {
    // Polls like the kits, with an id that the head keeps while the task is held.
    let poll_id = Some("0123456789abcdef0123456789abcdef".to_owned());
    Poll { wait: Duration::from_secs(wait), identity: Some("decider@10.0.0.1".to_owned()), poll_id, ..Poll::default() }
}

impl Service {
    async fn open() -> Self {
        Self::open_with(Settings::default()).await
    }

    async fn open_with(settings: Settings) -> Self {
        let table = Emulator::new().store_with(Options::new("baton"));
        table.create_table(Create::default()).await.unwrap();
        let store: Arc<dyn Store> = Arc::new(table);
        let clock = ManualClock::new();
        let settings = Settings { seed: Some(7), ..settings };
        let engine = Engine::open(Arc::clone(&store), Arc::clone(&clock) as _, settings).await.unwrap();
        let write_units = store.stats().write_units;
        Self { engine, clock, store, write_units }
    }

    /// Returns the write units since the previous call, and advances the clock a little.
    fn units(&mut self) -> u64 {
        self.clock.advance(history::Duration::from_millis(37));
        let now = self.store.stats().write_units;
        now - std::mem::replace(&mut self.write_units, now)
    }

    async fn start(&self) {
        let start = Start { input: Some(payload()), ..Start::new(ID, "parallel", DECIDERS) };
        self.engine.commands().start(DOMAIN, start).await.unwrap();
    }

    async fn turn(&self) -> Turn {
        self.engine.tasks().poll_decider(DOMAIN, DECIDERS, poll(0)).await.unwrap().expect("a turn")
    }

    async fn task(&self) -> Task {
        self.engine.tasks().poll_activity(DOMAIN, RUNNERS, poll(0)).await.unwrap().expect("a task")
    }

    /// Waits for a task that is created only after the run has been processed.
    async fn task_to_come(&self) -> Task {
        self.engine.tasks().poll_activity(DOMAIN, RUNNERS, poll(60)).await.unwrap().expect("a task")
    }

    async fn complete(&self, turn: Turn, decisions: Vec<Decision>) {
        let token = self.engine.tasks().decider_token(&turn.task().token).unwrap();
        turn.delivered();
        // `awaiting` is set because a run without it is flagged, which changes its row and costs an additional unit.
        let awaiting = vec!["approve".to_owned()];
        let command = Command::complete(token.turn, TurnAnswer { decisions, awaiting, ..TurnAnswer::default() });
        self.engine.tasks().answer_turn(&token, command).await.unwrap();
    }

    async fn answer(&self, task: Task) {
        let token = self.engine.tasks().activity_token(&task.task().token).unwrap();
        task.delivered();
        let command = Command::SucceedActivity { task: token.task, result: Some(payload()) };
        self.engine.tasks().answer_activity(&token, command).await.unwrap();
    }

    /// Starts a decider's poll, and returns when it is waiting.
    async fn waiting_decider(&self) -> JoinHandle<Turn> {
        let engine = Arc::clone(&self.engine);
        let waits = self.pollers();
        let poller = tokio::spawn(async move {
            engine.tasks().poll_decider(DOMAIN, DECIDERS, poll(60)).await.unwrap().expect("a turn")
        });
        self.until_pollers(waits + 1).await;
        poller
    }

    async fn waiting_runner(&self) -> JoinHandle<Task> {
        let engine = Arc::clone(&self.engine);
        let waits = self.pollers();
        let poller = tokio::spawn(async move {
            engine.tasks().poll_activity(DOMAIN, RUNNERS, poll(60)).await.unwrap().expect("a task")
        });
        self.until_pollers(waits + 1).await;
        poller
    }

    fn pollers(&self) -> u64 {
        let metrics = self.engine.render_metrics();
        let lines = metrics.lines().filter(|line| line.starts_with("baton_pollers_waiting{"));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    async fn until_pollers(&self, count: u64) {
        while self.pollers() < count {
            tokio::task::yield_now().await;
        }
    }

    async fn names(&self) -> Vec<&'static str> {
        let page = self.engine.views().history(&at(), &EventRange::default()).await.unwrap();
        check::history(&page.events).unwrap();
        page.events.iter().map(|event| event.kind.name()).collect()
    }
}

/// The canonical workflow, event by event.
const CANONICAL: [&str; 23] = [
    "WorkflowStarted",
    "DeciderScheduled",
    "DeciderStarted",
    "DeciderCompleted",
    "ActivityScheduled",
    "ActivityScheduled",
    "ActivityStarted",
    "ActivityStarted",
    "ActivitySuccess",
    "DeciderScheduled",
    "DeciderStarted",
    "ActivitySuccess",
    "DeciderScheduled",
    "DeciderCompleted",
    "ActivityScheduled",
    "DeciderStarted",
    "ActivityStarted",
    "DeciderCompleted",
    "ActivitySuccess",
    "DeciderScheduled",
    "DeciderStarted",
    "DeciderCompleted",
    "WorkflowSuccess",
];

fn check_budget(spent: &[u64], budget: u64) {
    let sum: u64 = spent.iter().sum();
    println!("units of each commit: {spent:?}, in all {sum}");
    assert!(sum > 0 && sum <= budget, "{sum} write units, at most {budget} are allowed: {spent:?}");
}

/// Runs the canonical workflow without waiting pollers. The last activity takes the time `longer`. Returns the units of
/// each step.
async fn canonical(longer: history::Duration) -> Vec<u64> {
    let mut service = Service::open().await;
    let mut spent = Vec::new();
    macro_rules! step {
        ($step:expr) => {{
            let outcome = $step;
            spent.push(service.units());
            outcome
        }};
    }
    step!(service.start().await);
    let turn = step!(service.turn().await);
    step!(service.complete(turn, vec![activity("A"), activity("B")]).await);
    let first = step!(service.task().await);
    let second = step!(service.task().await);
    step!(service.answer(first).await);
    let turn = step!(service.turn().await);
    step!(service.answer(second).await);
    step!(service.complete(turn, vec![activity("C")]).await);
    let turn = step!(service.turn().await);
    let third = step!(service.task().await);
    step!(service.complete(turn, vec![]).await);
    service.clock.advance(longer);
    step!(service.answer(third).await);
    let turn = step!(service.turn().await);
    step!(service.complete(turn, vec![succeed()]).await);
    assert_eq!(service.names().await, CANONICAL);
    spent
}

#[tokio::test]
async fn the_canonical_workflow_takes_21_units_without_pollers() {
    check_budget(&canonical(history::Duration::ZERO).await, 21);
}

#[tokio::test]
async fn a_close_after_ten_seconds_takes_one_more_unit() {
    let short = canonical(history::Duration::ZERO).await;
    let long = canonical(history::Duration::from_secs(10)).await;
    check_budget(&long, 22);
    let (Some((close, before)), Some((long_close, long_before))) = (short.split_last(), long.split_last()) else {
        panic!("there should be steps");
    };
    assert_eq!((long_before, *long_close), (before, close + 1));
}

#[tokio::test]
async fn the_canonical_workflow_takes_14_units_with_pollers() {
    let mut service = Service::open().await;
    let mut spent = Vec::new();
    let decider = service.waiting_decider().await;
    service.start().await;
    let turn = decider.await.unwrap();
    spent.push(service.units());
    let (one, other) = (service.waiting_runner().await, service.waiting_runner().await);
    service.complete(turn, vec![activity("A"), activity("B")]).await;
    let (first, second) = (one.await.unwrap(), other.await.unwrap());
    spent.push(service.units());
    let decider = service.waiting_decider().await;
    service.answer(first).await;
    let turn = decider.await.unwrap();
    spent.push(service.units());
    service.answer(second).await;
    spent.push(service.units());
    let (decider, runner) = (service.waiting_decider().await, service.waiting_runner().await);
    service.complete(turn, vec![activity("C")]).await;
    let (turn, third) = (decider.await.unwrap(), runner.await.unwrap());
    spent.push(service.units());
    service.complete(turn, vec![]).await;
    spent.push(service.units());
    let decider = service.waiting_decider().await;
    service.answer(third).await;
    let turn = decider.await.unwrap();
    spent.push(service.units());
    service.complete(turn, vec![succeed()]).await;
    spent.push(service.units());
    assert_eq!(service.names().await.len(), 23);
    check_budget(&spent, 14);
}

#[tokio::test]
async fn a_signal_takes_1_write_unit_and_its_turn_2() {
    let mut service = Service::open().await;
    service.start().await;
    let turn = service.turn().await;
    service.complete(turn, vec![]).await;
    service.units();
    let (name, input) = ("approve".to_owned(), Some(payload()));
    let signal = Command::Signal { name, input, key: None, identity: None, if_version: None };
    service.engine.commands().submit(&at(), signal).await.unwrap();
    check_budget(&[service.units()], 1);
    let turn = service.turn().await;
    service.complete(turn, vec![]).await;
    check_budget(&[service.units()], 2);
}

fn keyed(key: u64) -> Command {
    // Real keys are hashes, so this spreads the numbers evenly.
    let (name, key) = ("approve".to_owned(), Some(RequestKey(key.wrapping_mul(0x9E37_79B9_7F4A_7C15))));
    Command::Signal { name, input: None, key, identity: None, if_version: None }
}

impl Service {
    /// Starts a run that waits and has received nothing yet.
    async fn waits(&mut self) {
        self.start().await;
        let turn = self.turn().await;
        self.complete(turn, vec![]).await;
        self.units();
    }

    /// Returns the write units of each request with these keys.
    async fn tell_all(&mut self, keys: std::ops::Range<u64>) -> Vec<u64> {
        let mut spent = Vec::new();
        for key in keys {
            self.engine.commands().submit(&at(), keyed(key)).await.unwrap();
            spent.push(self.units());
        }
        spent
    }
}

/// Number of requests with a key per run that cost no more than requests without a key. Source: docs/dynamodb-costs.md,
/// "Requests with a key".
const FREE: u64 = 40;

/// Number of keys kept in the state of a run.
const IN_STATE: u64 = history::limits::REQUESTS_IN_STATE_MAX as u64;

#[tokio::test]
async fn a_requests_key_is_free_up_to_40_keys_per_run() {
    let mut service = Service::open().await;
    service.waits().await;
    // With keys, events are moved from the head to chunks a little earlier.
    check_budget(&service.tell_all(0..FREE).await, FREE + 2);
    check_budget(&service.tell_all(FREE..IN_STATE).await, (IN_STATE - FREE) * 2 + 4);
    let reads = service.store.stats().read_units;
    for key in [0, FREE, IN_STATE - 1] {
        assert!(service.engine.commands().submit(&at(), keyed(key)).await.unwrap().repeated);
    }
    assert_eq!((service.units(), service.store.stats().read_units), (0, reads), "all keys are in the state");
    // Each request costs a commit of two units and a mark. Every eighth request also costs a chunk.
    let more = 17 * 8;
    check_budget(&service.tell_all(IN_STATE..IN_STATE + more).await, more * (2 + 1) + more / 8);
    let marks = format!("baton_request_keys_offloaded_total {more}\n");
    assert!(service.engine.render_metrics().contains(&marks), "one unit each");
    for (key, is_known) in [(5, true), (500, false)] {
        let reads = service.store.stats().read_units;
        let answer = service.engine.commands().submit(&at(), keyed(key)).await.unwrap();
        assert_eq!((answer.repeated, service.store.stats().read_units - reads), (is_known, 1), "{key}");
        assert_eq!(service.units() == 0, is_known, "a repeated request writes nothing");
    }
}

#[tokio::test]
async fn a_timer_that_fires_takes_3_write_units() {
    let mut service = Service::open().await;
    service.start().await;
    let turn = service.turn().await;
    let timer = StartTimer { timer_id: "t".to_owned(), after: history::Duration::from_secs(20), control: None };
    service.complete(turn, vec![timer.into()]).await;
    service.units();
    let decider = service.waiting_decider().await;
    service.clock.advance(history::Duration::from_secs(20));
    let turn = decider.await.unwrap();
    assert!(service.names().await.contains(&"TimerExpired"));
    check_budget(&[service.units()], 3);
    turn.delivered();
}

/// Advances the clock by a day.
async fn day(service: &Service) {
    for _ in 0..24 * 3 {
        service.clock.advance(history::Duration::from_secs(20 * 60));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_run_without_pollers_takes_3_units_a_day() {
    let mut service = Service::open().await;
    service.start().await;
    let mut spent = Vec::new();
    for _ in 0..9 {
        day(&service).await;
        spent.push(service.units());
    }
    println!("write units of each day: {spent:?}");
    // The first day has the start, five wakes, and the creation of the row on the task list.
    assert!(spent[0] <= 3 + 3 * 5 + 2, "{spent:?}");
    // Each later day has one wake. The row is rewritten once a week.
    assert!(spent[1..].iter().all(|units| (1..=4).contains(units)), "{spent:?}");
    assert!(spent[1..].iter().sum::<u64>() <= 3 * 8 + 1, "{spent:?}");
    // A new poller gets the task at once.
    service.turn().await.delivered();
}

#[tokio::test(start_paused = true)]
async fn an_activity_without_pollers_takes_3_units_a_day() {
    let mut service = Service::open().await;
    service.start().await;
    let turn = service.turn().await;
    service.complete(turn, vec![activity("A")]).await;
    service.units();
    let mut spent = Vec::new();
    for _ in 0..3 {
        day(&service).await;
        spent.push(service.units());
    }
    println!("write units of each day: {spent:?}");
    assert!(spent[0] <= 3 * 5 + 2, "{spent:?}");
    // The row is rewritten once a week.
    assert!(spent[1..].iter().all(|units| (1..=3).contains(units)), "{spent:?}");
    service.task().await.delivered();
}

#[tokio::test(start_paused = true)]
async fn an_overflowed_list_is_refilled_without_reading_all_runs() {
    const WAITING: u64 = 24;
    const OTHERS: u64 = 400;
    let service = Service::open_with(Settings {
        waiting: WaitingBounds { list_tasks_max: 8, ..WaitingBounds::default() },
        ..Settings::default()
    })
    .await;
    for number in 0..OTHERS {
        let start = Start::new(&format!("other-{number}"), "parallel", &format!("list-{number}"));
        service.engine.commands().start(DOMAIN, start).await.unwrap();
    }
    for number in 0..WAITING {
        service.engine.commands().start(DOMAIN, Start::new(&format!("w{number}"), "parallel", DECIDERS)).await.unwrap();
    }
    let before = service.store.stats();
    for _ in 0..WAITING {
        let turn = service.engine.tasks().poll_decider(DOMAIN, DECIDERS, poll(60)).await.unwrap();
        turn.expect("the turn is found").delivered();
    }
    let reads = service.store.stats().read_units - before.read_units;
    println!("{reads} read units for {WAITING} tasks beside {OTHERS} open runs");
    // Each row and its run are read again whenever half of the list's eight places are free.
    assert!(reads <= 8 * WAITING, "{reads} read units for {WAITING} tasks");
}

#[tokio::test(start_paused = true)]
async fn waiting_polls_take_no_units() {
    let service = Service::open().await;
    // The first poll of a list reads its rows.
    assert!(service.engine.tasks().poll_decider(DOMAIN, DECIDERS, poll(0)).await.unwrap().is_none());
    assert!(service.engine.tasks().poll_activity(DOMAIN, RUNNERS, poll(0)).await.unwrap().is_none());
    // Reads at the start of the engine are not caused by polls.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = service.store.stats();
    let deciders =
        async { while service.engine.tasks().poll_decider(DOMAIN, DECIDERS, poll(60)).await.unwrap().is_none() {} };
    let runners =
        async { while service.engine.tasks().poll_activity(DOMAIN, RUNNERS, poll(60)).await.unwrap().is_none() {} };
    let hour = tokio::time::sleep(Duration::from_secs(3_600));
    tokio::select! {
        () = deciders => panic!("there should be no turn"),
        () = runners => panic!("there should be no task"),
        () = hour => {}
    }
    assert_eq!(service.store.stats(), before);
}

#[tokio::test]
async fn a_head_full_of_activities_does_not_chunk_each_commit() {
    let service = Service::open().await;
    service.start().await;
    let turn = service.turn().await;
    let many = (0..60).map(|_| activity(&letters())).collect();
    service.complete(turn, many).await;
    for number in 0..12 {
        let name = format!("news-{number}");
        let signal = Command::Signal { name, input: None, key: None, identity: None, if_version: None };
        service.engine.commands().submit(&at(), signal).await.unwrap();
    }
    let run_id = service.engine.views().describe(&at()).await.unwrap().run.started.run_id;
    let key = HeadKey { domain: DOMAIN.into(), workflow_id: ID.into() };
    let head = service.store.load(&key).await.unwrap().unwrap();
    let limits = service.store.limits();
    assert!(service.store.weight(&key, &head) > limits.head_soft, "the state alone exceeds one unit");
    let chunks = service.store.chunks(&key, *run_id.as_bytes(), 0, usize::MAX).await.unwrap();
    assert!((1..=3).contains(&chunks.len()), "{} chunks", chunks.len());
}

#[tokio::test]
async fn a_second_attempt_takes_4_additional_units() {
    let mut service = Service::open().await;
    service.start().await;
    let turn = service.turn().await;
    let Decision::ScheduleActivity(again) = activity("A") else { panic!("it schedules an activity") };
    let retry = Some(RetryPolicy::default());
    service.complete(turn, vec![ScheduleActivity { retry, ..again }.into()]).await;
    let fail = async |service: &mut Service| {
        let task = service.task_to_come().await;
        service.units();
        let token = service.engine.tasks().activity_token(&task.task().token).unwrap();
        task.delivered();
        let reason = "busy".to_owned();
        let command = Command::FailActivity {
            task: token.task,
            reason: Some(reason),
            details: None,
            non_retryable: false,
            retry_after: None,
        };
        service.engine.tasks().answer_activity(&token, command).await.unwrap();
        let units = service.units();
        service.clock.advance(history::Duration::from_secs(3_600));
        units
    };
    let (first, second) = (fail(&mut service).await, fail(&mut service).await);
    assert_eq!(first, second + 2, "the run is flagged once");
    let task = service.task_to_come().await;
    service.units();
    service.answer(task).await;
    check_budget(&[service.units()], 1 + 2 + 2);
}

/// Waits until the gauge of stuck runs has this value. The cached count expires in between.
async fn stuck(engine: &Arc<Engine>, count: u64) {
    let line = format!("baton_runs_stuck{{domain=\"{DOMAIN}\"}} {count}\n");
    loop {
        engine.count_runs().await;
        if engine.render_metrics().contains(&line) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn counting_by_several_engines_stays_within_budget() {
    let service = Service::open().await;
    for id in ["a", "b", "c"] {
        service.engine.commands().start(DOMAIN, Start::new(id, "parallel", DECIDERS)).await.unwrap();
        let turn = service.turn().await;
        let token = service.engine.tasks().decider_token(&turn.task().token).unwrap();
        turn.delivered();
        let (decisions, awaiting) = (Vec::new(), Vec::new());
        let command = Command::complete(token.turn, TurnAnswer { decisions, awaiting, ..TurnAnswer::default() });
        service.engine.tasks().answer_turn(&token, command).await.unwrap();
    }
    let settings = Settings { seed: Some(8), ..Settings::default() };
    let other = Engine::open(Arc::clone(&service.store), Arc::clone(&service.clock) as _, settings).await.unwrap();
    stuck(&service.engine, 3).await;
    stuck(&other, 3).await;
    let wake = Command::Signal { name: "wake".to_owned(), input: None, key: None, identity: None, if_version: None };
    let woken = RunRef { domain: DOMAIN.into(), workflow_id: "a".into(), run_id: None };
    other.commands().submit(&woken, wake).await.unwrap();
    stuck(&service.engine, 2).await;
    stuck(&other, 2).await;
    let (before, since) = (service.store.stats().read_units, tokio::time::Instant::now());
    while since.elapsed() < Duration::from_secs(60) {
        service.engine.count_runs().await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Nodes also read the due index and the domains.
    let spent = service.store.stats().read_units - before;
    println!("{spent} read units in a minute of continuous counting");
    assert!(spent <= 60 * (10 + 5), "{spent} read units, of which 10 a second are for counting");
}
