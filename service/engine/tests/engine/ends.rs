//! Polls that end while a task is being dispatched to them. Once a commit has reserved a poller, the poll ends only
//! with the outcome of that commit. Therefore the end of a wait never returns a task to its list.

use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, Poll, Settings, Slots};
use history::{Decision, RetryPolicy, ScheduleActivity, Start};
use simulation::latent::Latent;
use simulation::manual_clock::ManualClock;
use simulation::stores::fresh;
use store::Store;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::updates::named;
use crate::{DOMAIN, Service, at};

/// Latency of the store. A commit takes twice as long.
const LATENCY: Duration = Duration::from_millis(3);

/// Time at which the task is created. The polls are already waiting at this time.
const MADE_AT: Duration = Duration::from_millis(2);

/// Times at which waits end, in milliseconds. They are before the creation of the task, during its commit, and after
/// the commit.
const INSTANTS: std::ops::RangeInclusive<u64> = 0..=10;

/// Cause of the end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The deadline of a poll for one task.
    Deadline,
    /// The deadline of a poll for several tasks whose response is streamed in lines.
    LinesDeadline,
    /// The deadline of a poll for several tasks that has a single response.
    AtOnceDeadline,
    /// The arrival of the first task, for a poll for several tasks that has a single response.
    AtOnceFirst,
    /// The slots stop waiting because recording the answers takes too long.
    StandDown,
    /// The service shuts down during a poll for one task.
    Stop,
    /// The service shuts down during a poll for several tasks.
    StopLines,
}

const ENDS: [End; 7] = [
    End::Deadline,
    End::LinesDeadline,
    End::AtOnceDeadline,
    End::AtOnceFirst,
    End::StandDown,
    End::Stop,
    End::StopLines,
];

/// Kind of task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Activity,
    RetriedActivity,
    Turn,
    Query,
    Update,
}

const WHATS: [What; 5] = [What::Activity, What::RetriedActivity, What::Turn, What::Query, What::Update];

impl What {
    fn is_decider(self) -> bool {
        !matches!(self, Self::Activity | Self::RetriedActivity)
    }
}

async fn slow(store: &Arc<dyn Store>) -> Service {
    let (clock, store) = (ManualClock::new(), Latent::over(Arc::clone(store), LATENCY));
    let settings = Settings { seed: Some(7), ..Settings::default() };
    let engine = Engine::open(Arc::clone(&store), Arc::clone(&clock) as _, settings).await.unwrap();
    Service { engine, clock, store }
}

fn poll(wait: Duration) -> Poll {
    Poll { wait, queries: true, updates: 8, ..Poll::default() }
}

/// The list of one case, with a run that can create a task on it.
struct Case<'a> {
    service: &'a Service,
    what: What,
    name: String,
}

impl Case<'_> {
    async fn turn(&self) -> String {
        let turn = self.service.engine.tasks().poll_decider(DOMAIN, &self.name, poll(Duration::from_secs(60))).await;
        let turn = turn.unwrap().expect("a turn");
        let token = turn.task().token.clone();
        turn.delivered();
        token
    }

    async fn answer(&self, token: &str, decisions: Vec<Decision>) {
        self.service.say(token, &[], decisions).await.unwrap();
    }

    /// Performs all steps before the command that creates the task. Returns the token that this command needs.
    async fn prepare(&self, number: u32) -> Option<String> {
        if self.what == What::Turn {
            return None;
        }
        let id = self.id(number);
        self.service.engine.commands().start(DOMAIN, Start::new(&id, "test", &self.name)).await.unwrap();
        let token = self.turn().await;
        if self.what.is_decider() {
            self.answer(&token, Vec::new()).await;
            return None;
        }
        Some(token)
    }

    fn id(&self, number: u32) -> String {
        format!("{}-{number}", self.name)
    }

    /// Creates a task after a delay.
    fn make(&self, number: u32, token: Option<String>, after: Duration) -> JoinHandle<()> {
        let (engine, what, id, list) =
            (Arc::clone(&self.service.engine), self.what, self.id(number), self.name.clone());
        tokio::spawn(async move {
            sleep(after).await;
            match what {
                What::Turn => drop(engine.commands().start(DOMAIN, Start::new(&id, "test", &list)).await.unwrap()),
                What::Query => {
                    let ask = engine::QueryRequest { name: "q".to_owned(), input: None, seen: None };
                    drop(engine.request_reply().query(&at(&id), ask, Duration::from_secs(60)).await);
                }
                What::Update => {
                    drop(engine.request_reply().update(&at(&id), named("u"), Duration::from_secs(60)).await);
                }
                What::Activity | What::RetriedActivity => {
                    let retry = (what == What::RetriedActivity).then(RetryPolicy::default);
                    let activity = ScheduleActivity {
                        activity_id: "a".to_owned(),
                        activity_type: "do".to_owned(),
                        task_list: Some(list),
                        retry,
                        ..ScheduleActivity::default()
                    };
                    let token = engine.tasks().decider_token(&token.expect("a turn is held")).unwrap();
                    let command = history::Command::complete(token.turn, vec![activity.into()]);
                    engine.tasks().answer_turn(&token, command).await.unwrap();
                }
            }
        })
    }

    async fn slots(&self, wait: Duration) -> Slots {
        let tasks = self.service.engine.tasks();
        tasks.slots(self.what.is_decider(), (DOMAIN, &self.name), &poll(wait), vec![0, 1, 2]).await.unwrap()
    }

    async fn next(&self, slots: &mut Slots, only: bool) -> usize {
        let tasks = self.service.engine.tasks();
        match (self.what.is_decider(), only) {
            (true, false) => delivered(tasks.next_turns(slots).await.unwrap()),
            (true, true) => delivered(tasks.last_turns(slots).await.unwrap()),
            (false, false) => delivered(tasks.next_activities(slots).await.unwrap()),
            (false, true) => delivered(tasks.last_activities(slots).await.unwrap()),
        }
    }

    /// Polls for one task, and returns the number of delivered tasks.
    async fn one(&self, wait: Duration) -> usize {
        let tasks = self.service.engine.tasks();
        if self.what.is_decider() {
            let polled = tasks.poll_decider(DOMAIN, &self.name, poll(wait)).await.unwrap();
            polled.map(engine::Delivery::delivered).iter().count()
        } else {
            let polled = tasks.poll_activity(DOMAIN, &self.name, poll(wait)).await.unwrap();
            polled.map(engine::Delivery::delivered).iter().count()
        }
    }

    /// Returns the number of tasks that a poll receives if its wait ends for this cause at this time.
    async fn polled(&self, end: End, instant: Duration) -> usize {
        let long = Duration::from_secs(60);
        match end {
            End::Deadline => self.one(instant).await,
            End::Stop => self.one(long).await,
            End::AtOnceDeadline => self.next(&mut self.slots(instant).await, true).await,
            End::AtOnceFirst => self.next(&mut self.slots(Duration::from_millis(40)).await, true).await,
            End::LinesDeadline | End::StopLines | End::StandDown => {
                let wait = if end == End::LinesDeadline { instant } else { long };
                let wait = if end == End::StandDown { Duration::from_millis(40) } else { wait };
                let mut slots = self.slots(wait).await;
                if end == End::StandDown {
                    slots.stand_by();
                    sleep(instant).await;
                    slots.stand_down();
                    sleep(Duration::from_millis(2)).await;
                }
                let mut came = 0;
                loop {
                    match self.next(&mut slots, false).await {
                        0 => return came,
                        more => came += more,
                    }
                }
            }
        }
    }
}

fn delivered<T>(tasks: Vec<(u32, engine::Delivery<T>)>) -> usize {
    let count = tasks.len();
    for (_, delivery) in tasks {
        delivery.delivered();
    }
    count
}

/// Returns the total number of failed deliveries.
fn failed(service: &Service) -> u64 {
    let metrics = service.engine.render_metrics();
    let counts = metrics.lines().filter_map(|line| line.strip_prefix("baton_deliveries_failed_total{"));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// Creates two tasks of one kind, half a commit apart, while a poll ends at this time. Checks that both arrive and that
/// none is returned to its list.
async fn ends(service: &Service, what: What, end: End, instant: u64) {
    let case = Case { service, what, name: format!("{what:?}-{end:?}-{instant}") };
    let mut tokens = Vec::new();
    for number in 0..2 {
        tokens.push(case.prepare(number).await);
    }
    let made: Vec<_> =
        (0..2).zip(tokens).map(|(number, token)| case.make(number, token, MADE_AT + LATENCY * number)).collect();
    let mut came = case.polled(end, Duration::from_millis(instant)).await;
    while came < 2 {
        let next = case.one(Duration::from_secs(30)).await;
        assert_eq!(next, 1, "{}: a task is lost", case.name);
        came += next;
    }
    assert_eq!(failed(service), 0, "{}", case.name);
    for made in made {
        if matches!(what, What::Query | What::Update) {
            made.abort();
        } else {
            made.await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_arrives_at_whatever_instant_its_wait_ends() {
    let store = fresh().await;
    let service = slow(&store).await;
    for what in WHATS {
        for end in ENDS.into_iter().filter(|end| !matches!(end, End::Stop | End::StopLines)) {
            for instant in INSTANTS {
                ends(&service, what, end, instant).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_arrives_or_waits_at_whatever_instant_its_node_stops() {
    // The command that creates the task may be lost with its node. In that case its caller gets an error.
    for what in [What::Activity, What::RetriedActivity, What::Turn] {
        for end in [End::Stop, End::StopLines] {
            for instant in INSTANTS {
                let store = fresh().await;
                let service = slow(&store).await;
                let case = Case { service: &service, what, name: format!("{what:?}-{end:?}-{instant}") };
                let token = case.prepare(0).await;
                let made = case.make(0, token, MADE_AT);
                let stopping = Arc::clone(&service.engine);
                let stops = tokio::spawn(async move {
                    sleep(Duration::from_millis(instant)).await;
                    stopping.begin_shutdown();
                });
                let mut came = case.polled(end, Duration::ZERO).await;
                stops.await.unwrap();
                made.await.unwrap();
                // Waits long enough for the return of tasks that could not be delivered.
                sleep(Duration::from_secs(1)).await;
                assert_eq!(failed(&service), 0, "{}", case.name);
                let heir = slow(&store).await;
                if came == 0 {
                    came = Case { service: &heir, what, name: case.name.clone() }.one(Duration::from_secs(60)).await;
                }
                assert_eq!(came, 1, "{}", case.name);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_cut_off_loses_its_delivery() {
    let store = fresh().await;
    for what in [What::Activity, What::RetriedActivity, What::Turn] {
        let service = slow(&store).await;
        for instant in INSTANTS {
            let case = Case { service: &service, what, name: format!("cut-{what:?}-{instant}") };
            let token = case.prepare(0).await;
            let made = case.make(0, token, MADE_AT);
            // The caller drops its poll, as it would at a deadline.
            drop(timeout(Duration::from_millis(instant), case.one(Duration::from_secs(60))).await);
            made.await.unwrap();
        }
        assert!(failed(&service) > 0, "{what:?}: no wait was cut off during its commit");
    }
}

#[tokio::test(start_paused = true)]
async fn a_single_response_includes_reserved_tasks() {
    let store = fresh().await;
    let service = slow(&store).await;
    let case = Case { service: &service, what: What::Turn, name: "at-once".to_owned() };
    // When the first task arrives, the commit of the second task has already reserved a slot.
    let made = [case.make(0, None, MADE_AT), case.make(1, None, MADE_AT + LATENCY)];
    assert_eq!(case.polled(End::AtOnceFirst, Duration::ZERO).await, 2);
    for made in made {
        made.await.unwrap();
    }
    let turn = service.engine.tasks().poll_decider(DOMAIN, "at-once", Poll::default()).await.unwrap();
    assert!(turn.is_none());
    for id in ["at-once-0", "at-once-1"] {
        assert_eq!(service.names(id).await, ["WorkflowStarted", "DeciderScheduled", "DeciderStarted"]);
    }
}
