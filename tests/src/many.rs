//! Many nodes over one table, in virtual time. Measures how the calls to the table and between nodes grow with the
//! number of nodes. Also measures the time until all nodes have noticed a dead node.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use engine::{Engine, EventRange, Node, Poll, RunRef, Settings};
use history::{Command, EventKind, RequestKey, ScheduleActivity, Start, SucceedWorkflow, TurnAnswer};
use store::memory::Memory;
use store::{Cas, Due, Error, Head, HeadKey, Limits, ListPage, ListQuery, PageToken, Store, UnixMs};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::drill::VirtualClock;
use crate::intercepted::{Commit, Intercepted, Interceptor};
use crate::line::Line;

const DOMAIN: &str = "default";

/// Duration of a call to the table. Source: `drill.rs`.
const LATENCY: Duration = Duration::from_millis(5);

/// Parts of the due index. Source: `store/dynamodb/src/lib.rs`.
const DUE_SHARDS: u32 = 16;

/// Durations of the phases: nodes join, are idle, work, and notice a dead node.
const COMING: Duration = Duration::from_secs(20);
const IDLE: Duration = Duration::from_secs(30);
const WORKING: Duration = Duration::from_secs(20);
const MISSED_WITHIN: Duration = Duration::from_secs(60);

/// Interval of the checks for nodes that are considered dead.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes per read unit and per write unit. Source: DynamoDB's pricing page.
const READ_UNIT: usize = 4_096;
const WRITE_UNIT: usize = 1_024;

/// Counts of requests to the table.
#[derive(Debug, Default)]
struct Counted {
    reads: AtomicU64,
    writes: AtomicU64,
    lost: AtomicU64,
    read_units: AtomicU64,
    write_units: AtomicU64,
}

/// The table. Each call takes time. A killed node gets no responses.
struct Table {
    below: Arc<dyn Store>,
    counted: Arc<Counted>,
    is_dead: Arc<AtomicBool>,
}

impl Table {
    async fn takes_its_time(&self) {
        sleep(LATENCY).await;
        if self.is_dead.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    async fn read(&self, bytes: usize) {
        self.counted.reads.fetch_add(1, Ordering::SeqCst);
        self.counted.read_units.fetch_add(bytes.div_ceil(READ_UNIT).max(1) as u64, Ordering::SeqCst);
        self.takes_its_time().await;
    }
}

#[async_trait]
impl Interceptor for Table {
    fn store(&self) -> &Arc<dyn Store> {
        &self.below
    }

    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
        let head = self.below.load(key).await?;
        self.read(head.as_ref().map_or(0, |head| head.body.len())).await;
        Ok(head)
    }

    async fn commit(&self, Commit { key, expect, head, parts }: Commit<'_>) -> Result<Cas, Error> {
        self.takes_its_time().await;
        let outcome = self.below.commit(key, expect, head, parts).await?;
        self.counted.writes.fetch_add(1, Ordering::SeqCst);
        self.counted.write_units.fetch_add(head.body.len().div_ceil(WRITE_UNIT).max(1) as u64, Ordering::SeqCst);
        self.counted.lost.fetch_add(u64::from(outcome != Cas::Won), Ordering::SeqCst);
        Ok(outcome)
    }

    async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error> {
        self.read(0).await;
        self.below.due(shard, until, after, limit).await
    }

    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
        self.read(0).await;
        self.below.list(query, page).await
    }
}

/// Measurements for one number of nodes.
#[derive(Debug, Clone, Copy)]
pub struct Many {
    /// Number of nodes.
    pub nodes: usize,
    /// Requests per node and second while idle.
    pub idle: Pace,
    /// Number of times that a live node was considered dead by another node, while idle.
    pub missed_alive: usize,
    /// Requests per workflow of one activity.
    pub working: Pace,
    /// Time until all other nodes had noticed a dead node; `None` if some nodes did not notice within a minute.
    pub missed_after: Option<Duration>,
}

/// Counts or rates of requests to the table and to other nodes.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Reads of the table.
    pub reads: f64,
    /// Writes to the table.
    pub writes: f64,
    /// Writes that lost a race.
    pub lost: f64,
    /// Read units of strongly consistent reads.
    pub read_units: f64,
    /// Write units.
    pub write_units: f64,
    /// Calls to other nodes.
    pub calls: f64,
}

#[expect(clippy::cast_precision_loss, reason = "figures for people, far below 2^52")]
fn figure(count: u64) -> f64 {
    count as f64
}

struct Crowd {
    store: Arc<dyn Store>,
    clock: Arc<VirtualClock>,
    line: Arc<Line>,
    counted: Arc<Counted>,
    random: Mutex<fastrand::Rng>,
    nodes: Mutex<Vec<(Arc<Engine>, Arc<AtomicBool>)>>,
    numbers: AtomicU64,
}

/// Runs this many nodes, from their start until one of them has died. Returns the measurements.
pub fn many(nodes: usize, seed: u64) -> Many {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(live(nodes, seed))
}

async fn live(nodes: usize, seed: u64) -> Many {
    let limits =
        Limits { due_shards: DUE_SHARDS, due_moves_are_cheap: false, is_shared: true, ..Memory::new().limits() };
    let line = Line::new(seed);
    line.calm();
    let crowd = Arc::new(Crowd {
        store: Arc::new(Memory::with_limits(limits)),
        clock: Arc::new(VirtualClock(Instant::now())),
        line,
        counted: Arc::default(),
        random: Mutex::new(fastrand::Rng::with_seed(seed)),
        nodes: Mutex::default(),
        numbers: AtomicU64::new(1),
    });
    for which in 0..nodes {
        crowd.open(which).await;
        sleep(COMING / 2 / u32::try_from(nodes).unwrap_or(u32::MAX)).await;
    }
    sleep(COMING / 2).await;
    let before = crowd.counts();
    let missed_alive = crowd.missed_within(IDLE).await;
    let idle = crowd.pace(before, figure(nodes as u64) * IDLE.as_secs_f64());
    let (workflows, before) = crowd.work().await;
    let working = crowd.pace(before, figure(workflows.max(1)));
    let missed_after = crowd.kill_one().await;
    for (engine, is_dead) in crowd.nodes().iter() {
        is_dead.store(true, Ordering::SeqCst);
        engine.begin_shutdown();
    }
    Many { nodes, idle, missed_alive, working, missed_after }
}

impl Crowd {
    fn nodes(&self) -> std::sync::MutexGuard<'_, Vec<(Arc<Engine>, Arc<AtomicBool>)>> {
        self.nodes.lock().expect("no code panics while it holds this lock")
    }

    async fn open(&self, which: usize) {
        let address = format!("http://10.0.{}.{}:7420", which / 250, which % 250);
        let is_dead = Arc::new(AtomicBool::new(false));
        let (below, counted) = (Arc::clone(&self.store), Arc::clone(&self.counted));
        let table = Arc::new(Intercepted(Table { below, counted, is_dead: Arc::clone(&is_dead) }));
        let seed = Some(self.random.lock().expect("no code panics while it holds this lock").u64(..));
        let settings = Settings { seed, node: Some(Node { address: address.clone() }), ..Settings::default() };
        let engine = Engine::open(table, Arc::clone(&self.clock) as _, settings).await.expect("a store in order");
        self.line.add(&address, &engine);
        self.nodes().push((engine, is_dead));
    }

    fn node(&self) -> Arc<Engine> {
        let nodes = self.nodes();
        let at = self.random.lock().expect("no code panics while it holds this lock").usize(..nodes.len());
        let (engine, _) = nodes.get(at).expect("there are nodes");
        Arc::clone(engine)
    }

    /// Returns all counts so far.
    fn counts(&self) -> Pace {
        let Counted { reads, writes, lost, read_units, write_units } = &*self.counted;
        let count = |count: &AtomicU64| figure(count.load(Ordering::SeqCst));
        Pace {
            reads: count(reads),
            writes: count(writes),
            lost: count(lost),
            read_units: count(read_units),
            write_units: count(write_units),
            calls: figure(self.line.calls()),
        }
    }

    /// Returns the difference from earlier counts, divided by `each`.
    fn pace(&self, before: Pace, each: f64) -> Pace {
        let now = self.counts();
        Pace {
            reads: (now.reads - before.reads) / each,
            writes: (now.writes - before.writes) / each,
            lost: (now.lost - before.lost) / each,
            read_units: (now.read_units - before.read_units) / each,
            write_units: (now.write_units - before.write_units) / each,
            calls: (now.calls - before.calls) / each,
        }
    }

    /// Returns the number of pairs of nodes in which one node does not know the other node.
    fn unknown(&self) -> usize {
        let nodes = self.nodes();
        nodes.iter().map(|(engine, _)| nodes.len().saturating_sub(engine.nodes().alive().len())).sum()
    }

    async fn missed_within(&self, time: Duration) -> usize {
        let began = Instant::now();
        let mut missed = 0;
        while began.elapsed() < time {
            sleep(CHECK_INTERVAL).await;
            missed += self.unknown();
        }
        missed
    }

    /// Starts a workflow per second at each node, with a decider and a runner for one task list. Returns the number of
    /// completed workflows, and the counts before the first one.
    async fn work(self: &Arc<Self>) -> (u64, Pace) {
        let engines: Vec<Arc<Engine>> = self.nodes().iter().map(|(engine, _)| Arc::clone(engine)).collect();
        let mut workers = JoinSet::new();
        for engine in &engines {
            workers.spawn(decide(Arc::clone(engine)));
            workers.spawn(run(Arc::clone(engine)));
        }
        // Each node announces to all others once that it has pollers.
        sleep(Duration::from_secs(2)).await;
        let before = self.counts();
        let mut callers = JoinSet::new();
        for _ in &engines {
            callers.spawn(call(Arc::clone(self)));
        }
        let done = callers.join_all().await.into_iter().sum();
        workers.shutdown().await;
        (done, before)
    }

    /// Kills a node, and returns the time until all others have noticed.
    async fn kill_one(&self) -> Option<Duration> {
        let (dead, is_dead) = self.nodes().pop()?;
        is_dead.store(true, Ordering::SeqCst);
        self.line.remove(&dead);
        dead.begin_shutdown();
        let (left, began) = (self.nodes().len(), Instant::now());
        while began.elapsed() < MISSED_WITHIN {
            sleep(CHECK_INTERVAL).await;
            if self.nodes().iter().all(|(engine, _)| engine.nodes().alive().len() <= left) {
                return Some(began.elapsed());
            }
        }
        None
    }
}

/// Starts a workflow each second.
async fn call(crowd: Arc<Crowd>) -> u64 {
    let began = Instant::now();
    let mut done = 0;
    while began.elapsed() < WORKING {
        let number = crowd.numbers.fetch_add(1, Ordering::SeqCst);
        let id = format!("w{number}");
        let start = Start { key: Some(RequestKey(number)), ..Start::new(&id, "one", "many") };
        crowd.node().commands().start(DOMAIN, start).await.expect("it starts");
        sleep(Duration::from_secs(1)).await;
        let at = RunRef { domain: DOMAIN.into(), workflow_id: id.as_str().into(), run_id: None };
        let described = crowd.node().views().describe(&at).await.expect("it is there");
        done += u64::from(!described.run.is_open());
    }
    done
}

async fn decide(engine: Arc<Engine>) {
    loop {
        let poll = Poll { wait: Duration::from_secs(60), ..Poll::default() };
        let Ok(Some(delivery)) = engine.tasks().poll_decider(DOMAIN, "many", poll).await else { continue };
        let task = delivery.task().clone();
        delivery.delivered();
        let Ok(token) = engine.tasks().decider_token(&task.token) else { continue };
        let range = EventRange { limit: 100, ..EventRange::default() };
        let Ok(page) = engine.tasks().turn_history(&token, &range).await else { continue };
        let is_done = page.events.iter().any(|event| matches!(event.kind, EventKind::ActivitySuccess(_)));
        let decision = if is_done {
            SucceedWorkflow::default().into()
        } else {
            let (activity_id, activity_type) = ("one".to_owned(), "one".to_owned());
            ScheduleActivity { activity_id, activity_type, ..ScheduleActivity::default() }.into()
        };
        let answer = TurnAnswer { decisions: vec![decision], ..TurnAnswer::default() };
        drop(engine.tasks().answer_turn(&token, Command::complete(token.turn, answer)).await);
    }
}

async fn run(engine: Arc<Engine>) {
    loop {
        let poll = Poll { wait: Duration::from_secs(60), ..Poll::default() };
        let Ok(Some(delivery)) = engine.tasks().poll_activity(DOMAIN, "many", poll).await else { continue };
        let task = delivery.task().clone();
        delivery.delivered();
        let Ok(token) = engine.tasks().activity_token(&task.token) else { continue };
        let command = Command::SucceedActivity { task: token.task, result: None };
        drop(engine.tasks().answer_activity(&token, command).await);
    }
}
