//! Write units are a budget: what the real engine makes this store write for whole workflows, as the table's answers
//! bill it, indexes included. Source of the figures: docs/dynamodb-costs.md.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_store_dynamodb::{Create, Options};
use engine::{ActivityTask, DeciderTask, Delivery, Engine, EventRange, Poll, RunRef, Settings, WaitingBounds};
use history::{
    Command, Decision, Payload, RequestKey, RetryPolicy, ScheduleActivity, Start, StartTimer, SucceedWorkflow,
    TurnAnswer, check,
};
use simulation::told::Told;
use store::{HeadKey, Store};
use support::Emulator;
use tokio::task::JoinHandle;

const DOMAIN: &str = "default";
const DECIDERS: &str = "parallel";
const RUNNERS: &str = "work";
const ID: &str = "order-1234567890";

type Turn = Delivery<DeciderTask>;
type Task = Delivery<ActivityTask>;

/// The engine over a table, and how many units were told of so far.
struct Service {
    engine: Arc<Engine>,
    clock: Arc<Told>,
    store: Arc<dyn Store>,
    told: u64,
}

/// 100 bytes as JSON, that cannot be made smaller by much: no two are alike, and no letter tells of the next.
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
    // As the kits poll: with an id, which the head keeps while the task is held.
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
        let clock = Told::new();
        let settings = Settings { seed: Some(7), ..settings };
        let engine = Engine::open(Arc::clone(&store), Arc::clone(&clock) as _, settings).await.unwrap();
        let told = store.stats().write_units;
        Self { engine, clock, store, told }
    }

    /// Write units since the last time; and a moment passes.
    fn units(&mut self) -> u64 {
        self.clock.advance(history::Duration::from_millis(37));
        let now = self.store.stats().write_units;
        now - std::mem::replace(&mut self.told, now)
    }

    async fn start(&self) {
        let start = Start { input: Some(payload()), ..Start::new(ID, "parallel", DECIDERS) };
        self.engine.commands().start(DOMAIN, start).await.unwrap();
    }

    async fn turn(&self) -> Turn {
        self.engine.tasks().poll_decider(DOMAIN, DECIDERS, poll(0)).await.unwrap().expect("a turn waits")
    }

    async fn task(&self) -> Task {
        self.engine.tasks().poll_activity(DOMAIN, RUNNERS, poll(0)).await.unwrap().expect("a task waits")
    }

    /// A task that is held back, and comes once the run has been looked at.
    async fn task_to_come(&self) -> Task {
        self.engine.tasks().poll_activity(DOMAIN, RUNNERS, poll(60)).await.unwrap().expect("a task comes")
    }

    async fn complete(&self, turn: Turn, decisions: Vec<Decision>) {
        let token = self.engine.tasks().decider_token(&turn.task().token).unwrap();
        turn.delivered();
        // A run that waits for nothing at all is flagged, which shows in its row and costs a unit of its own.
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

    /// A decider that waits for its turn, once it waits.
    async fn waiting_decider(&self) -> JoinHandle<Turn> {
        let engine = Arc::clone(&self.engine);
        let waits = self.pollers();
        let poller = tokio::spawn(async move {
            engine.tasks().poll_decider(DOMAIN, DECIDERS, poll(60)).await.unwrap().expect("a turn comes")
        });
        self.until_pollers(waits + 1).await;
        poller
    }

    async fn waiting_runner(&self) -> JoinHandle<Task> {
        let engine = Arc::clone(&self.engine);
        let waits = self.pollers();
        let poller = tokio::spawn(async move {
            engine.tasks().poll_activity(DOMAIN, RUNNERS, poll(60)).await.unwrap().expect("a task comes")
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

/// The canonical workflow, event for event.
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
    assert!(sum > 0 && sum <= budget, "{sum} write units where {budget} are allowed: {spent:?}");
}

/// The canonical workflow when nobody waits for its tasks, `longer` than it takes by itself: the units of each step.
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
async fn the_canonical_workflow_takes_21_write_units_when_nobody_waits_for_its_tasks() {
    check_budget(&canonical(history::Duration::ZERO).await, 21);
}

#[tokio::test]
async fn the_canonical_workflow_takes_one_more_at_its_close_when_it_was_open_for_more_than_ten_seconds() {
    let short = canonical(history::Duration::ZERO).await;
    let long = canonical(history::Duration::from_secs(10)).await;
    check_budget(&long, 22);
    let (Some((close, before)), Some((long_close, long_before))) = (short.split_last(), long.split_last()) else {
        panic!("it has steps");
    };
    assert_eq!((long_before, *long_close), (before, close + 1));
}

#[tokio::test]
async fn the_canonical_workflow_takes_14_write_units_when_deciders_and_runners_wait() {
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
    service.engine.commands().tell(&at(), signal).await.unwrap();
    check_budget(&[service.units()], 1);
    let turn = service.turn().await;
    service.complete(turn, vec![]).await;
    check_budget(&[service.units()], 2);
}

fn keyed(key: u64) -> Command {
    // Keys are hashes.
    let (name, key) = ("approve".to_owned(), Some(RequestKey(key.wrapping_mul(0x9E37_79B9_7F4A_7C15))));
    Command::Signal { name, input: None, key, identity: None, if_version: None }
}

impl Service {
    /// A run that waits, and was told nothing yet.
    async fn waits(&mut self) {
        self.start().await;
        let turn = self.turn().await;
        self.complete(turn, vec![]).await;
        self.units();
    }

    /// Write units of each request with these keys.
    async fn tell_all(&mut self, keys: std::ops::Range<u64>) -> Vec<u64> {
        let mut spent = Vec::new();
        for key in keys {
            self.engine.commands().tell(&at(), keyed(key)).await.unwrap();
            spent.push(self.units());
        }
        spent
    }
}

/// Requests with a key that cost what others do. Source: docs/dynamodb-costs.md, "Requests with a key".
const FREE: u64 = 40;

/// Those that are in the state of a run.
const IN_STATE: u64 = history::limits::REQUESTS_IN_STATE_MAX as u64;

#[tokio::test]
async fn a_request_with_a_key_takes_no_unit_more_up_to_40_one_more_up_to_64_and_two_more_beyond() {
    let mut service = Service::open().await;
    service.waits().await;
    // Events leave the head for chunks of their own, a little sooner than they would without keys.
    check_budget(&service.tell_all(0..FREE).await, FREE + 2);
    check_budget(&service.tell_all(FREE..IN_STATE).await, (IN_STATE - FREE) * 2 + 4);
    let reads = service.store.stats().read_units;
    for key in [0, FREE, IN_STATE - 1] {
        assert!(service.engine.commands().tell(&at(), keyed(key)).await.unwrap().repeated);
    }
    assert_eq!((service.units(), service.store.stats().read_units), (0, reads), "all of them are in the state");
    // The commit, twice as large; its mark; and a chunk for every eight.
    let more = 17 * 8;
    check_budget(&service.tell_all(IN_STATE..IN_STATE + more).await, more * (2 + 1) + more / 8);
    let marks = format!("baton_request_marks_written_total {more}\n");
    assert!(service.engine.render_metrics().contains(&marks), "a unit each");
    for (key, is_known) in [(5, true), (500, false)] {
        let reads = service.store.stats().read_units;
        let told = service.engine.commands().tell(&at(), keyed(key)).await.unwrap();
        assert_eq!((told.repeated, service.store.stats().read_units - reads), (is_known, 1), "{key}");
        assert_eq!(service.units() == 0, is_known, "what is repeated is not written");
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

/// A day goes by.
async fn day(service: &Service) {
    for _ in 0..24 * 3 {
        service.clock.advance(history::Duration::from_secs(20 * 60));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_run_that_nobody_polls_for_takes_3_write_units_a_day() {
    let mut service = Service::open().await;
    service.start().await;
    let mut spent = Vec::new();
    for _ in 0..9 {
        day(&service).await;
        spent.push(service.units());
    }
    println!("write units of each day: {spent:?}");
    // Its start; five looks on the first day, and the row on its list.
    assert!(spent[0] <= 3 + 3 * 5 + 2, "{spent:?}");
    // One look a day, and its row anew in a week.
    assert!(spent[1..].iter().all(|units| (1..=4).contains(units)), "{spent:?}");
    assert!(spent[1..].iter().sum::<u64>() <= 3 * 8 + 1, "{spent:?}");
    // Whoever comes finds it at once.
    service.turn().await.delivered();
}

#[tokio::test(start_paused = true)]
async fn an_open_run_whose_activity_nobody_polls_for_takes_3_write_units_a_day_too() {
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
    // Its row is written anew once a week.
    assert!(spent[1..].iter().all(|units| (1..=3).contains(units)), "{spent:?}");
    service.task().await.delivered();
}

#[tokio::test(start_paused = true)]
async fn what_overflowed_a_list_is_read_for_what_waits_there_not_for_all_open_runs() {
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
        turn.expect("it is found").delivered();
    }
    let reads = service.store.stats().read_units - before.read_units;
    println!("{reads} read units for {WAITING} tasks beside {OTHERS} open runs");
    // Each row is read again whenever the list has room, and so is its run; here that is for half of eight.
    assert!(reads <= 8 * WAITING, "{reads} read units for {WAITING} tasks");
}

#[tokio::test(start_paused = true)]
async fn polls_that_wait_for_an_hour_take_no_unit_at_all() {
    let service = Service::open().await;
    // The first poll of a list has its rows read.
    assert!(service.engine.tasks().poll_decider(DOMAIN, DECIDERS, poll(0)).await.unwrap().is_none());
    assert!(service.engine.tasks().poll_activity(DOMAIN, RUNNERS, poll(0)).await.unwrap().is_none());
    // What the engine reads when it starts is no poll's doing.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = service.store.stats();
    let deciders =
        async { while service.engine.tasks().poll_decider(DOMAIN, DECIDERS, poll(60)).await.unwrap().is_none() {} };
    let runners =
        async { while service.engine.tasks().poll_activity(DOMAIN, RUNNERS, poll(60)).await.unwrap().is_none() {} };
    let hour = tokio::time::sleep(Duration::from_secs(3_600));
    tokio::select! {
        () = deciders => panic!("a turn came"),
        () = runners => panic!("a task came"),
        () = hour => {}
    }
    assert_eq!(service.store.stats(), before);
}

#[tokio::test]
async fn a_head_full_of_open_activities_does_not_write_a_chunk_with_each_commit() {
    let service = Service::open().await;
    service.start().await;
    let turn = service.turn().await;
    let many = (0..60).map(|_| activity(&letters())).collect();
    service.complete(turn, many).await;
    for number in 0..12 {
        let name = format!("news-{number}");
        let signal = Command::Signal { name, input: None, key: None, identity: None, if_version: None };
        service.engine.commands().tell(&at(), signal).await.unwrap();
    }
    let run_id = service.engine.views().describe(&at()).await.unwrap().run.started.run_id;
    let key = HeadKey { domain: DOMAIN.into(), workflow_id: ID.into() };
    let head = service.store.load(&key).await.unwrap().unwrap();
    let limits = service.store.limits();
    assert!(service.store.weight(&key, &head) > limits.head_soft, "the state alone is too large for one unit");
    let chunks = service.store.chunks(&key, *run_id.as_bytes(), 0, usize::MAX).await.unwrap();
    assert!((1..=3).contains(&chunks.len()), "{} chunks", chunks.len());
}

#[tokio::test]
async fn an_activity_past_its_first_try_takes_2_write_units_more_once_and_2_when_it_is_done() {
    let mut service = Service::open().await;
    service.start().await;
    let turn = service.turn().await;
    let Decision::ScheduleActivity(again) = activity("A") else { panic!("it schedules one") };
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
    assert_eq!(first, second + 2, "it is flagged once");
    let task = service.task_to_come().await;
    service.units();
    service.answer(task).await;
    check_budget(&[service.units()], 1 + 2 + 2);
}

/// The gauge of stuck runs, once it is this: what was counted a moment ago is gone by.
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
async fn every_engine_over_a_table_counts_the_same_runs_and_pays_no_more_than_is_said() {
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
    other.commands().tell(&woken, wake).await.unwrap();
    stuck(&service.engine, 2).await;
    stuck(&other, 2).await;
    let (before, since) = (service.store.stats().read_units, tokio::time::Instant::now());
    while since.elapsed() < Duration::from_secs(60) {
        service.engine.count_runs().await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Nodes read the due index, too, and what domains there are.
    let spent = service.store.stats().read_units - before;
    println!("{spent} read units in a minute of asking all the time");
    assert!(spent <= 60 * (10 + 5), "{spent} read units, where 10 a second are for counting");
}
