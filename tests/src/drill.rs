//! Nodes that die under load while the store has faults, and the time during which runs make no progress. Time is
//! virtual: only waits of the nodes count, not the speed of the machine.
//!
//! The load is the same as in `baton-bench drill`. As on DynamoDB, attempts are refused, take too long, or lose their
//! responses.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use engine::{ActivityTask, Clock, DeciderTask, Delivery, Engine, EventRange, Node, Poll, Refusal, RunRef, Settings};
use history::{
    Command, Decision, Event, EventKind, RequestKey, ScheduleActivity, Start, StartTimer, SucceedWorkflow, Timestamp,
    TurnAnswer,
};
use store::memory::Memory;
use store::{Cas, Due, Error, Head, HeadKey, Limits, ListPage, ListQuery, PageToken, RunId, Store, UnixMs};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::intercepted::{Commit, Intercepted, Interceptor};
use crate::line::Line;

mod gaps;

const DOMAIN: &str = "default";
const LIST: &str = "drill";
const NODES: usize = 3;
const WORKFLOWS_AT_ONCE: usize = 16;
const ACTIVITIES: usize = 3;
const TIMER: history::Duration = history::Duration::from_secs(1);

/// Duration of the faults, and the time after them in which the last workflows must end.
const TROUBLES: Duration = Duration::from_secs(60);
const REST: Duration = Duration::from_secs(90);

/// Two durations, used in turn, for which a killed node stays away; and the minimum time between its return and the
/// next kill.
const AWAY: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(9)];
const CALM: Duration = Duration::from_secs(2);

/// Duration of a successful attempt, and the timeouts of a read attempt and of a write attempt. Source:
/// `store/dynamodb/src/lib.rs`.
const LATENCY: Duration = Duration::from_millis(5);
const READ_ATTEMPT: Duration = Duration::from_millis(500);
const WRITE_ATTEMPT: Duration = Duration::from_secs(1);

/// Number of attempts of a read, and the maximum wait before the second attempt; the wait doubles with each further
/// attempt. Source: `service/src/dynamodb.rs`.
const READ_TRIES: u32 = 8;
const READ_AGAIN_AFTER: u64 = 50;

/// Outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    Refused,
    /// The request or its response arrives too late.
    Late,
    AnswerLate,
    AnswerLost,
}

/// Percentages of attempts that are refused, that are late, whose response is late, and whose response is lost.
type Weather = [u64; 4];

const FAIR: Weather = [2, 1, 1, 1];
const STORMS: [Weather; 3] = [[60, 0, 0, 0], [0, 30, 30, 0], [10, 0, 0, 30]];
const OVER: Weather = [0; 4];

pub(crate) struct VirtualClock(pub(crate) Instant);

#[async_trait]
impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let elapsed = u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_millis(crate::manual_clock::BEGIN + elapsed)
    }

    async fn sleep_until(&self, at: Timestamp) {
        sleep(Duration::from_millis(at.since(self.now()).as_millis())).await;
    }
}

/// State shared by all parts of a drill.
struct Drill {
    clock: Arc<VirtualClock>,
    store: Arc<dyn Store>,
    weather: Mutex<Weather>,
    random: Mutex<fastrand::Rng>,
    line: Arc<Line>,
    nodes: Mutex<Vec<Option<Arc<Mortal>>>>,
    next: AtomicUsize,
    numbers: AtomicU64,
    is_over: AtomicBool,
}

/// A node that can be killed.
struct Mortal {
    engine: Arc<Engine>,
    death: Arc<Death>,
}

#[derive(Default)]
struct Death {
    is_dead: AtomicBool,
    dies: Notify,
}

impl Death {
    async fn died(&self) {
        let dies = self.dies.notified();
        tokio::pin!(dies);
        dies.as_mut().enable();
        if !self.is_dead.load(Ordering::SeqCst) {
            dies.await;
        }
    }

    /// Returns the outcome of a call. Never returns if the node dies.
    async fn unless<T>(&self, call: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            () = self.died() => std::future::pending().await,
            done = call => done,
        }
    }
}

/// Connection of one node to the store.
struct Way {
    drill: Arc<Drill>,
    death: Arc<Death>,
}

impl Way {
    async fn read<T, F: Future<Output = Result<T, Error>>>(&self, call: impl Fn() -> F) -> Result<T, Error> {
        let attempts = async {
            for again in 0..READ_TRIES {
                match self.drill.trouble() {
                    Trouble::None => {
                        sleep(LATENCY).await;
                        return call().await;
                    }
                    Trouble::Refused | Trouble::AnswerLost => sleep(LATENCY).await,
                    Trouble::Late | Trouble::AnswerLate => sleep(READ_ATTEMPT).await,
                }
                sleep(Duration::from_millis(self.drill.dice(READ_AGAIN_AFTER << again))).await;
            }
            Err(Error::NotApplied { why: "a drill".to_owned(), retry_after: None })
        };
        self.death.unless(attempts).await
    }

    async fn write<T, F: Future<Output = Result<T, Error>>>(&self, call: impl FnOnce() -> F) -> Result<T, Error> {
        let unknown = || Err(Error::Unknown { why: "a drill".to_owned() });
        let attempt = async {
            sleep(LATENCY).await;
            match self.drill.trouble() {
                Trouble::None => call().await,
                Trouble::Refused => Err(Error::NotApplied { why: "a drill".to_owned(), retry_after: None }),
                Trouble::Late => {
                    sleep(WRITE_ATTEMPT).await;
                    unknown()
                }
                Trouble::AnswerLate => {
                    call().await?;
                    sleep(WRITE_ATTEMPT).await;
                    unknown()
                }
                Trouble::AnswerLost => {
                    call().await?;
                    unknown()
                }
            }
        };
        self.death.unless(attempt).await
    }
}

#[async_trait]
impl Interceptor for Way {
    fn store(&self) -> &Arc<dyn Store> {
        &self.drill.store
    }

    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
        self.read(|| self.drill.store.load(key)).await
    }

    async fn load_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Head>, Error> {
        self.read(|| self.drill.store.load_run(key, run)).await
    }

    async fn commit(&self, Commit { key, expect, head, parts }: Commit<'_>) -> Result<Cas, Error> {
        self.write(|| self.drill.store.commit(key, expect, head, parts)).await
    }

    async fn chunks(
        &self,
        key: &HeadKey,
        run: RunId,
        from_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        self.read(|| self.drill.store.chunks(key, run, from_event, max_bytes)).await
    }

    async fn drop_run(&self, key: &HeadKey, run: RunId) -> Result<(), Error> {
        self.write(|| self.drill.store.drop_run(key, run)).await
    }

    async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error> {
        self.read(|| self.drill.store.due(shard, until, after, limit)).await
    }

    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
        self.read(|| self.drill.store.list(query, page)).await
    }
}

/// No response arrived.
struct Lost;

impl Drill {
    fn random(&self) -> MutexGuard<'_, fastrand::Rng> {
        self.random.lock().expect("no code panics while it holds this lock")
    }

    fn dice(&self, below: u64) -> u64 {
        self.random().u64(..below.max(1))
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }

    fn trouble(&self) -> Trouble {
        let weather = *self.weather.lock().expect("no code panics while it holds this lock");
        let kinds = [Trouble::Refused, Trouble::Late, Trouble::AnswerLate, Trouble::AnswerLost];
        let mut roll = self.dice(100);
        for (kind, chance) in kinds.into_iter().zip(weather) {
            if roll < chance {
                return kind;
            }
            roll -= chance;
        }
        Trouble::None
    }

    fn set_weather(&self, weather: Weather) {
        *self.weather.lock().expect("no code panics while it holds this lock") = weather;
    }

    async fn open(self: &Arc<Self>, which: usize) -> Arc<Mortal> {
        let address = format!("http://node{which}");
        let death = Arc::new(Death::default());
        let store: Arc<dyn Store> = Arc::new(Intercepted(Way { drill: Arc::clone(self), death: Arc::clone(&death) }));
        loop {
            let node = Some(Node { address: address.clone() });
            let settings = Settings { seed: Some(self.dice(u64::MAX)), node, ..Settings::default() };
            let opened = Engine::open(Arc::clone(&store), Arc::clone(&self.clock) as _, settings).await;
            if let Ok(engine) = opened {
                self.line.add(&address, &engine);
                return Arc::new(Mortal { engine, death });
            }
        }
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Option<Arc<Mortal>>>> {
        self.nodes.lock().expect("no code panics while it holds this lock")
    }

    /// Returns the next node that accepts a connection.
    fn node(&self) -> Arc<Mortal> {
        let nodes = self.nodes();
        let first = self.next.fetch_add(1, Ordering::SeqCst);
        let alive = (0..nodes.len()).find_map(|at| nodes.get((first + at) % nodes.len())?.clone());
        alive.expect("some node is alive")
    }

    fn kill(&self, which: usize) {
        let node = self.nodes().get_mut(which).and_then(Option::take);
        let Some(node) = node else { return };
        node.death.is_dead.store(true, Ordering::SeqCst);
        node.death.dies.notify_waiters();
        self.line.remove(&node.engine);
        node.engine.begin_shutdown();
    }

    /// Calls a node until it responds or is dead.
    async fn call_until_answered<T, F: Future<Output = Result<T, Refusal>>>(
        &self,
        call: impl FnOnce(Arc<Engine>) -> F,
    ) -> Result<T, Lost> {
        let node = self.node();
        tokio::select! {
            biased;
            () = node.death.died() => Err(Lost),
            answer = call(Arc::clone(&node.engine)) => answer.map_err(|_| Lost),
        }
    }

    /// Calls nodes until one responds, as patient callers do.
    async fn insist<T, F: Future<Output = Result<T, Refusal>>>(&self, call: impl Fn(Arc<Engine>) -> F) -> T {
        loop {
            if let Ok(answer) = self.call_until_answered(&call).await {
                return answer;
            }
            sleep(Duration::from_millis(50 + self.dice(150))).await;
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

fn at(workflow_id: &str) -> RunRef {
    RunRef { domain: DOMAIN.into(), workflow_id: workflow_id.into(), run_id: None }
}

/// Starts workflows one after the other, signals each, and waits for its end.
async fn drive(drill: Arc<Drill>) {
    while !drill.is_over() {
        let id = format!("w{}", drill.number());
        let start = Start { key: Some(RequestKey(drill.number())), ..Start::new(&id, "chain", LIST) };
        drill
            .insist(|node| {
                let start = start.clone();
                async move { node.commands().start(DOMAIN, start).await }
            })
            .await;
        let key = Some(RequestKey(drill.number()));
        let signal = Command::Signal { name: "go".to_owned(), input: None, identity: None, key, if_version: None };
        drill
            .insist(|node| {
                let (at, signal) = (at(&id), signal.clone());
                async move { node.commands().submit(&at, signal).await }
            })
            .await;
        loop {
            sleep(Duration::from_millis(300)).await;
            let at = at(&id);
            let described = drill
                .insist(|node| {
                    let at = at.clone();
                    async move { node.views().describe(&at).await }
                })
                .await;
            if !described.run.is_open() {
                break;
            }
        }
    }
}

/// Polls repeatedly, each time with an id, and repeats a poll whose response was lost.
struct Polls {
    id: u64,
    attempt: u32,
}

impl Polls {
    fn new(drill: &Drill) -> Self {
        Self { id: drill.number(), attempt: 1 }
    }

    fn poll(&self) -> Poll {
        let (poll_id, attempt) = (Some(self.id.to_string()), Some(self.attempt));
        Poll { wait: Duration::from_secs(10), poll_id, attempt, ..Poll::default() }
    }

    async fn record_response<T>(
        &mut self,
        drill: &Drill,
        response: Result<Option<Delivery<T>>, Lost>,
    ) -> Option<Delivery<T>> {
        let Ok(delivery) = response else {
            self.attempt += 1;
            if self.attempt > history::limits::POLL_ATTEMPTS_MAX {
                *self = Self::new(drill);
            }
            sleep(Duration::from_millis(50 + drill.dice(100))).await;
            return None;
        };
        *self = Self::new(drill);
        delivery
    }
}

async fn decide(drill: Arc<Drill>) {
    let mut polls = Polls::new(&drill);
    loop {
        let poll = polls.poll();
        let response =
            drill.call_until_answered(|node| async move { node.tasks().poll_decider(DOMAIN, LIST, poll).await }).await;
        let Some(delivery): Option<Delivery<DeciderTask>> = polls.record_response(&drill, response).await else {
            continue;
        };
        let task = delivery.task().clone();
        delivery.delivered();
        let page = EventRange { limit: 1_000, ..EventRange::default() };
        let Ok(token) = drill.node().engine.tasks().decider_token(&task.token) else { continue };
        let history = timeout(
            Duration::from_secs(30),
            drill.insist(|node| {
                let token = token.clone();
                async move { node.tasks().turn_history(&token, &page).await }
            }),
        );
        let Ok(history) = history.await else { continue };
        let (decisions, awaiting) = (chain(&history.events), vec!["go".to_owned()]);
        let command = Command::complete(token.turn, TurnAnswer { decisions, awaiting, ..TurnAnswer::default() });
        answer(&drill, |node| {
            let (token, command) = (token.clone(), command.clone());
            async move { node.tasks().answer_turn(&token, command).await }
        })
        .await;
    }
}

/// Sends an answer until it is recorded or refused.
async fn answer<F: Future<Output = Result<(), Refusal>>>(drill: &Drill, call: impl Fn(Arc<Engine>) -> F) {
    loop {
        let node = drill.node();
        let answered = tokio::select! {
            biased;
            () = node.death.died() => None,
            answered = call(Arc::clone(&node.engine)) => Some(answered),
        };
        match answered {
            Some(Ok(())) => return,
            Some(Err(refusal)) if !refusal.is_retryable() => return,
            _ => sleep(Duration::from_millis(50 + drill.dice(100))).await,
        }
    }
}

/// Decides: three activities in sequence and a timer, then success after the timer has expired and the signal has
/// arrived.
fn chain(events: &[Event]) -> Vec<Decision> {
    let count = |is_it: fn(&EventKind) -> bool| events.iter().filter(|event| is_it(&event.kind)).count();
    let scheduled = count(|kind| matches!(kind, EventKind::ActivityScheduled(_)));
    let succeeded = count(|kind| matches!(kind, EventKind::ActivitySuccess(_)));
    let timed_out =
        count(|kind| matches!(kind, EventKind::ActivityTimedOut(_) | EventKind::ActivityScheduledTimeout(_)));
    let is_set = count(|kind| matches!(kind, EventKind::TimerScheduled(_))) > 0;
    let is_over = count(|kind| matches!(kind, EventKind::TimerExpired(_))) > 0;
    let is_signaled = count(|kind| matches!(kind, EventKind::Signal(_))) > 0;
    if scheduled > succeeded + timed_out {
        return Vec::new();
    }
    if succeeded < ACTIVITIES {
        let (activity_id, activity_type) = (format!("step-{scheduled}"), "step".to_owned());
        return vec![ScheduleActivity { activity_id, activity_type, ..ScheduleActivity::default() }.into()];
    }
    if !is_set {
        return vec![StartTimer { timer_id: "rest".to_owned(), after: TIMER, control: None }.into()];
    }
    if is_over && is_signaled { vec![SucceedWorkflow::default().into()] } else { Vec::new() }
}

async fn work(drill: Arc<Drill>) {
    let mut polls = Polls::new(&drill);
    loop {
        let poll = polls.poll();
        let response =
            drill.call_until_answered(|node| async move { node.tasks().poll_activity(DOMAIN, LIST, poll).await }).await;
        let Some(delivery): Option<Delivery<ActivityTask>> = polls.record_response(&drill, response).await else {
            continue;
        };
        let task = delivery.task().clone();
        delivery.delivered();
        let Ok(token) = drill.node().engine.tasks().activity_token(&task.token) else { continue };
        let command = Command::SucceedActivity { task: token.task, result: None };
        answer(&drill, |node| {
            let (token, command) = (token.clone(), command.clone());
            async move { node.tasks().answer_activity(&token, command).await }
        })
        .await;
    }
}

async fn storms(drill: Arc<Drill>) {
    loop {
        for storm in STORMS {
            drill.set_weather(FAIR);
            sleep(Duration::from_millis(1_500 + drill.dice(2_500))).await;
            drill.set_weather(storm);
            sleep(Duration::from_millis(300 + drill.dice(1_200))).await;
        }
    }
}

/// Result of a drill.
#[derive(Debug, Default)]
pub struct Drilled {
    /// Times for which a run made no progress after the death of a node. Each ends when the run continued or the next
    /// node died.
    pub standstills: Vec<Duration>,
    /// Description of the longest standstill.
    pub longest: String,
    /// Number of runs.
    pub runs: usize,
    /// Number of runs that did not end.
    pub open: usize,
}

/// Runs one drill.
pub fn drill(seed: u64) -> Drilled {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(live(seed))
}

async fn live(seed: u64) -> Drilled {
    let limits = Limits { due_shards: 16, due_moves_are_cheap: false, is_shared: true, ..Memory::new().limits() };
    let line = Line::new(seed);
    line.calm();
    let drill = Arc::new(Drill {
        clock: Arc::new(VirtualClock(Instant::now())),
        store: Arc::new(Memory::with_limits(limits)),
        weather: Mutex::new(OVER),
        random: Mutex::new(fastrand::Rng::with_seed(seed)),
        line,
        nodes: Mutex::default(),
        next: AtomicUsize::new(0),
        numbers: AtomicU64::new(1),
        is_over: AtomicBool::new(false),
    });
    for which in 0..NODES {
        let node = drill.open(which).await;
        drill.nodes().push(Some(node));
    }
    let (mut drivers, mut workers) = (JoinSet::new(), JoinSet::new());
    for _ in 0..WORKFLOWS_AT_ONCE {
        drivers.spawn(drive(Arc::clone(&drill)));
        workers.spawn(decide(Arc::clone(&drill)));
        workers.spawn(work(Arc::clone(&drill)));
    }
    let weather = tokio::spawn(storms(Arc::clone(&drill)));
    let (began, mut deaths) = (Instant::now(), Vec::new());
    while began.elapsed() < TROUBLES {
        // The random part lets nodes die at different times within a heartbeat interval.
        sleep(CALM + Duration::from_millis(drill.dice(1_000))).await;
        let which = drill.random().usize(..NODES);
        deaths.push(drill.clock.now());
        drill.kill(which);
        sleep(AWAY.get(deaths.len() % AWAY.len()).copied().unwrap_or_default()).await;
        let node = drill.open(which).await;
        if let Some(place) = drill.nodes().get_mut(which) {
            *place = Some(node);
        }
    }
    weather.abort();
    drill.set_weather(OVER);
    drill.is_over.store(true, Ordering::SeqCst);
    let all = async { while drivers.join_next().await.is_some() {} };
    drop(timeout(REST, all).await);
    workers.shutdown().await;
    let drilled = measure(&drill, &deaths).await;
    drivers.shutdown().await;
    for which in 0..NODES {
        drill.kill(which);
    }
    drilled
}

async fn measure(drill: &Drill, deaths: &[Timestamp]) -> Drilled {
    let engine = Arc::clone(&drill.node().engine);
    let query = ListQuery { domain: DOMAIN.into(), limit: 10_000, ..ListQuery::default() };
    let rows = drill.store.list(&query, None).await.expect("a list").rows;
    let (mut drilled, mut longest) = (Drilled { runs: rows.len(), ..Drilled::default() }, Duration::ZERO);
    for row in rows {
        let page = EventRange { limit: 10_000, ..EventRange::default() };
        let history = engine.views().history(&at(&row.workflow_id), &page).await.expect("a history");
        drilled.open += usize::from(!history.closed);
        for gaps::Gap { what, from, to } in gaps::gaps(&history.events) {
            let within: Vec<Timestamp> = deaths.iter().copied().filter(|at| from <= *at && *at <= to).collect();
            let ends = within.iter().copied().skip(1).chain([to]);
            for (death, end) in within.iter().zip(ends) {
                let stood = Duration::from_millis(end.since(*death).as_millis());
                if stood > longest {
                    longest = stood;
                    drilled.longest = format!("{stood:?} of {} {what}", row.workflow_id);
                }
                drilled.standstills.push(stood);
            }
        }
    }
    drilled
}
