//! A world: nodes over a store, their clients, and faults.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use engine::{Engine, EventRange, Node, RunRef, Settings};
use history::{Duration, Run, Timestamp};
use store::fault::{Chances, FaultStore};
use store::memory::Memory;
use store::{ListQuery, Store};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::actors;
use crate::asking::{self, ReplyCounts};
use crate::broken::{Break, Broken, Dying};
use crate::chronicle::Chronicle;
use crate::clock::{AHEAD_MAX, CLOCK_SET_MAX, Clocks, NodeClock, Time};
use crate::facts::{Facts, Histories};
use crate::hosts::{Exchanged, Host};
use crate::intercepted::Intercepted;
use crate::limiting;
use crate::line::Line;
use crate::record::{Record, Recorder};
use crate::reluctant::Reluctant;
use crate::repairing;
use crate::repeating::{self, Repeats};
use crate::resetting;
use crate::rules::{Rule, Undone};
use crate::waits::{self, Waits};

/// Domain of every run.
pub(crate) const DOMAIN: &str = "default";

/// Maximum delay of a late commit in worlds with short lives, in commits. Our choice: about as many as three runs make.
const LATE_BY: u32 = 200;

/// Parameters of a world.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each makes worlds of another kind")]
pub struct Plan {
    /// Number of engines over the store.
    pub nodes: usize,
    /// Number of workflow ids, each used several times.
    pub workflows: usize,
    /// Number of steps with faults.
    pub steps: u32,
    /// True for many short lives: runs continue as new and are deleted soon after they close, so that their ids begin
    /// again.
    pub short_lives: bool,
    /// True if runs are reset.
    pub resets: bool,
    /// True if runs are queried and updated. Nodes then know and reach each other, because a node that knows no other
    /// nodes answers from memory.
    pub asks: bool,
    /// True if requests are repeated late. Runs then continue as new.
    pub repeats: bool,
    /// True if deciders and runners are hosts, which exchange many tasks at once.
    pub hosts: bool,
    /// Way in which polls end if they get no task.
    pub waits: Waits,
    /// True if the task list has limits, which an operator changes, and runs have concurrency keys. Before a node is
    /// replaced, it dies, as a process does. If there are several nodes, they know each other, and die less often.
    pub limits: bool,
    /// True if the clocks of nodes are set, each separately, by up to two days ahead and back. When faults end, an
    /// operator corrects the clocks, confirms them to the service, and repairs late deadlines.
    pub sets_clocks: bool,
    /// True if the runs of every second workflow id consist of a single activity and have no decider.
    pub single_activities: bool,
    /// Minutes without pollers before the world comes to rest with new nodes. 0 if there are always pollers.
    pub deserted_minutes: u32,
    /// Defect of the store.
    pub how: Break,
    /// Rule that the engine lacks, if any.
    pub without: Option<Rule>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            nodes: 3,
            workflows: 4,
            steps: 400,
            short_lives: false,
            resets: false,
            asks: false,
            repeats: false,
            hosts: false,
            waits: Waits::Long,
            limits: false,
            sets_clocks: false,
            single_activities: false,
            deserted_minutes: 0,
            how: Break::Nothing,
            without: None,
        }
    }
}

/// Outcome of a world.
#[derive(Debug)]
pub struct Outcome {
    /// Violations of promises and invariants. Empty if the world passed.
    pub violations: Vec<String>,
    /// All histories, as tables.
    pub trace: String,
    /// Number of runs.
    pub runs: usize,
    /// Number of closed runs that consisted of a single activity.
    pub single_activities: usize,
    /// Number of branches: runs that were created by a reset.
    pub branches: usize,
    /// Number of faults of the store.
    pub faults: u64,
    /// Counts of answers to queries and updates.
    pub replies: ReplyCounts,
    /// Number of repeated requests that had been answered before.
    pub repeats: Repeats,
    /// Counts of exchanged tasks.
    pub exchanged: Exchanged,
    /// Number of late deadlines that an operator has repaired.
    pub repaired: usize,
    /// The complete record.
    pub record: Record,
}

/// A scripted run. In different executions its node dies at different writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tale {
    /// A run with two activities, a timer, a child, and a signal to another run.
    Single,
    /// The same run, but it continues as new once, and so does its child.
    GoesOn,
}

impl Tale {
    /// Returns the workflow id. Deciders recognize the script by it.
    fn workflow_id(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::GoesOn => "going-on",
        }
    }
}

/// A world, as its actors see it.
#[expect(clippy::struct_excessive_bools, reason = "as for its plan")]
pub(crate) struct World {
    pub(crate) time: Arc<Time>,
    /// See [`Plan::short_lives`].
    pub(crate) short_lives: bool,
    /// See [`Plan::asks`].
    pub(crate) asks: bool,
    /// True if runs continue as new.
    pub(crate) continues_as_new: bool,
    pub(crate) waits: Waits,
    /// See [`Plan::sets_clocks`].
    pub(crate) sets_clocks: bool,
    /// True if an operator repairs late deadlines.
    pub(crate) repairs: bool,
    /// See [`Plan::single_activities`].
    pub(crate) single_activities: bool,
    /// See [`Plan::limits`].
    pub(crate) limits: bool,
    /// Stores of nodes, which end with their nodes. Only in worlds with limits.
    mortals: Mutex<Vec<(Arc<Engine>, Arc<Dying>)>>,
    clocks: Clocks,
    chronicle: Chronicle,
    pub(crate) recorder: Recorder,
    /// Store of the nodes.
    pub(crate) store: Arc<dyn Store>,
    /// True if nodes know of each other.
    knows_nodes: bool,
    /// Connections of nodes, if they know of each other.
    line: Option<Arc<Line>>,
    nodes: Mutex<Vec<Arc<Engine>>>,
    /// Replaced nodes. They are kept only if the tasks that they give back are counted.
    former: Mutex<Vec<Arc<Engine>>>,
    random: Mutex<fastrand::Rng>,
    pub(crate) facts: Mutex<Facts>,
    /// Number of nodes that have vanished so far.
    deaths: AtomicU64,
    is_calm: AtomicBool,
    is_deserted: AtomicBool,
    is_over: AtomicBool,
}

impl World {
    pub(crate) fn random(&self) -> MutexGuard<'_, fastrand::Rng> {
        self.random.lock().expect("no code panics while it holds this lock")
    }

    /// Returns a random number less than `below`.
    pub(crate) fn dice(&self, below: u64) -> u64 {
        self.random().u64(..below)
    }

    /// Returns whether a fault happens now. Returns false after faults have ended.
    pub(crate) fn bad_luck(&self, percent: u64) -> bool {
        self.dice(100) < percent && !self.is_calm.load(Ordering::SeqCst) && self.waits == Waits::Long
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::SeqCst)
    }

    /// Waits until there are pollers again.
    pub(crate) async fn while_deserted(&self) {
        while self.is_deserted.load(Ordering::SeqCst) {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    pub(crate) fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().expect("no code panics while it holds this lock")
    }

    /// Returns a random node.
    pub(crate) fn node(&self) -> Arc<Engine> {
        let nodes = self.nodes.lock().expect("no code panics while it holds this lock");
        let at = self.random().usize(..nodes.len());
        Arc::clone(nodes.get(at).expect("a world has nodes"))
    }

    /// Ends the store of the node with this number, as the end of its process does. Only in worlds with limits.
    fn kill_node(&self, at: usize) {
        let nodes = self.nodes.lock().expect("no code panics while it holds this lock");
        let mut mortals = self.mortals.lock().expect("no code panics while it holds this lock");
        mortals.retain(|(engine, mortal)| {
            let is_it = nodes.get(at).is_some_and(|node| Arc::ptr_eq(node, engine));
            if is_it {
                mortal.kill();
            }
            !is_it
        });
    }

    async fn open_node(&self) -> Arc<Engine> {
        let ahead = Duration::from_millis(self.dice(AHEAD_MAX.as_millis()));
        let seed = self.dice(u64::MAX);
        let clock = Arc::new(NodeClock::new(Arc::clone(&self.time), ahead));
        self.clocks.add(&clock);
        let address = format!("http://{seed:016x}");
        let node = self.knows_nodes.then(|| Node { address: address.clone() });
        let settings = Settings { seed: Some(seed), node, ..Settings::default() };
        let mortal = self.limits.then(|| Arc::new(Dying::new(Arc::clone(&self.store), u64::MAX, false)));
        let store = mortal.clone().map_or_else(|| Arc::clone(&self.store), |mortal| mortal as Arc<dyn Store>);
        loop {
            let opened = Engine::open(Arc::clone(&store), Arc::clone(&clock) as _, settings.clone()).await;
            if let Ok(engine) = opened {
                if let Some(line) = &self.line {
                    line.add(&address, &engine);
                }
                if let Some(mortal) = mortal {
                    let mut mortals = self.mortals.lock().expect("no code panics while it holds this lock");
                    mortals.push((Arc::clone(&engine), mortal));
                }
                return engine;
            }
        }
    }

    /// Replaces a node by another with nothing in memory. Pending work of the old node continues: that node is slow
    /// rather than dead, which causes more conflicts.
    async fn replace_node(&self) {
        let count = self.nodes.lock().expect("no code panics while it holds this lock").len();
        if self.limits {
            let at = self.random().usize(..count);
            self.kill_node(at);
            return self.replace_node_with(at, self.open_node().await);
        }
        let fresh = self.open_node().await;
        let at = self.random().usize(..count);
        self.replace_node_with(at, fresh);
    }

    fn replace_node_with(&self, at: usize, fresh: Arc<Engine>) {
        let old = {
            let mut nodes = self.nodes.lock().expect("no code panics while it holds this lock");
            std::mem::replace(nodes.get_mut(at).expect("a world has nodes"), fresh)
        };
        if let Some(line) = &self.line {
            line.remove(&old);
        }
        self.deaths.fetch_add(1, Ordering::SeqCst);
        old.begin_shutdown();
        if self.waits != Waits::Long {
            self.former.lock().expect("no code panics while it holds this lock").push(old);
        }
    }

    /// Checks that no task was given back because of a broken connection, for worlds in which no connection breaks.
    fn judge_deliveries(&self) {
        let nodes =
            [&self.nodes, &self.former].map(|of| of.lock().expect("no code panics while it holds this lock").clone());
        let given_back: u64 = nodes.iter().flatten().map(|node| waits::given_back(node)).sum();
        if given_back > 0 {
            self.facts().violations.push(format!("{given_back} tasks that were taken did not arrive"));
        }
    }

    /// Returns the number of nodes that have vanished so far.
    pub(crate) fn deaths(&self) -> u64 {
        self.deaths.load(Ordering::SeqCst)
    }

    /// Returns whether a run has a successor.
    pub(crate) fn has_gone_on(&self, run_id: Uuid) -> bool {
        self.chronicle.has_gone_on(run_id)
    }

    async fn go_wrong(&self, steps: u32, faults: &FaultStore<Intercepted<Broken>>) {
        // A new home node of limits needs seconds until it lets tasks start.
        let spares_nodes = self.limits && self.knows_nodes;
        for _ in 0..steps {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            let jump = if self.dice(50) == 0 { self.dice(90_000) } else { self.dice(1_500) };
            self.time.advance(Duration::from_millis(jump));
            if self.sets_clocks && self.dice(12) == 0 {
                self.clocks.set_one(&mut self.random());
            }
            match self.dice(40) {
                0 if spares_nodes && self.dice(12) > 0 => {}
                0 => self.replace_node().await,
                1 | 2 => faults.set_on(false),
                3..6 => faults.set_on(true),
                _ => {}
            }
        }
    }

    /// Simulates a time without pollers until the wakes of runs are a day apart, and then discards all state in memory.
    async fn be_deserted(&self, minutes: u32, nodes: usize) {
        self.is_deserted.store(true, Ordering::SeqCst);
        for _ in 0..minutes {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            self.time.advance(Duration::from_secs(60));
        }
        for at in 0..nodes {
            let fresh = self.open_node().await;
            self.replace_node_with(at, fresh);
        }
        self.is_deserted.store(false, Ordering::SeqCst);
    }

    /// Returns whether no run needs another wake: every run has closed and has delivered its effects.
    async fn is_at_rest(&self) -> bool {
        let query = ListQuery { domain: DOMAIN.into(), open: Some(true), limit: 1, ..ListQuery::default() };
        let open = self.store.list(&query, None).await;
        let due = self.store.due(0, u64::MAX, None, 1).await;
        open.is_ok_and(|page| page.rows.is_empty()) && due.is_ok_and(|due| due.is_empty())
    }

    /// Describes the runs that are not at rest.
    async fn left(&self) -> String {
        let now = self.time.now();
        let due = self.store.due(0, u64::MAX, None, 10).await.unwrap_or_default().into_iter();
        let describe =
            |due: store::Due| format!("{} is due at {}", due.key.workflow_id, Timestamp::from_millis(due.at));
        format!("it is {now}, {}", due.map(describe).collect::<Vec<_>>().join(", "))
    }

    /// Lets time pass. Returns whether every run ends.
    async fn come_to_rest(&self) -> bool {
        for second in 0..3_000_u32 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            self.time.advance(Duration::from_secs(1));
            if self.sets_clocks && second.is_multiple_of(20) {
                repairing::repair_all(self).await;
            }
            if self.is_at_rest().await {
                return true;
            }
        }
        false
    }

    /// Returns the histories of all runs that ever existed. Records the violations that a fresh node finds in the
    /// store's runs.
    async fn histories(&self) -> Histories {
        let engine = self.open_node().await;
        let mut histories = self.chronicle.histories();
        self.facts().violations.extend(self.chronicle.violations());
        let query = ListQuery { domain: DOMAIN.into(), limit: 10_000, ..ListQuery::default() };
        let (mut rows, mut next) = (Vec::new(), None);
        loop {
            match self.store.list(&query, next.as_ref()).await {
                Ok(page) => {
                    rows.extend(page.rows);
                    next = page.next;
                }
                Err(error) => {
                    self.facts().violations.push(format!("the list of runs: {error}"));
                    return histories;
                }
            }
            if next.is_none() {
                break;
            }
        }
        for row in rows {
            let run_id = Uuid::from_bytes(row.run);
            let at = RunRef { domain: DOMAIN.into(), workflow_id: row.workflow_id, run_id: Some(run_id) };
            let page = EventRange { limit: 100_000, ..EventRange::default() };
            match (engine.views().history(&at, &page).await, engine.views().describe(&at).await) {
                (Ok(page), Ok(described)) => {
                    if Run::replay(&page.events).map(Run::history_derived) != Some(described.run.history_derived()) {
                        self.facts().violations.push(format!("run {run_id}: the state is not the fold of the history"));
                    }
                    if histories.insert(run_id, page.events.clone()) != Some(page.events) {
                        self.facts().violations.push(format!("run {run_id}: what is read is not what was written"));
                    }
                }
                (Err(refusal), _) | (_, Err(refusal)) => {
                    self.facts().violations.push(format!("run {run_id} cannot be read: {refusal}"));
                }
            }
        }
        engine.begin_shutdown();
        histories
    }
}

fn in_one_thread<T>(life: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(life)
}

/// Returns whether the nodes in the world of this seed know each other. The record of such a world is not fully
/// determined by the seed.
pub fn know_each_other(seed: u64) -> bool {
    seed % 2 == 1
}

/// Runs one seed, from the first start until everything is at rest.
pub fn simulate(seed: u64, plan: Plan) -> Outcome {
    simulate_over(seed, plan, async || Arc::new(Memory::new()) as _, || {})
}

/// Runs one seed over another kind of store. `settle` is called when faults end: after this call, nothing lags.
pub fn simulate_over(seed: u64, plan: Plan, make: impl AsyncFnOnce() -> Arc<dyn Store>, settle: impl Fn()) -> Outcome {
    in_one_thread(async { live(seed, plan, make().await, settle).await })
}

/// Runs one workflow on a node that dies at its `op`th write, and then on a node that replaces it. The node dies after
/// the write if it `lands`, otherwise before the write. With `hosts`, deciders and runners are hosts. Otherwise they
/// poll for one task at a time. Returns `None` if there are fewer writes.
pub fn crash_at(tale: Tale, op: u64, lands: bool, hosts: bool) -> Option<Outcome> {
    in_one_thread(crash(tale, op, lands, hosts))
}

impl World {
    fn new(seed: u64, chronicle: Chronicle, recorder: Recorder, store: Arc<dyn Store>, is_calm: bool) -> Self {
        Self {
            time: Time::new(),
            short_lives: false,
            asks: false,
            continues_as_new: false,
            waits: Waits::Long,
            sets_clocks: false,
            single_activities: false,
            repairs: true,
            limits: false,
            mortals: Mutex::default(),
            clocks: Clocks::default(),
            chronicle,
            recorder,
            store,
            // Histories must be correct in both cases, so whether nodes know each other depends on the seed.
            knows_nodes: know_each_other(seed),
            line: None,
            nodes: Mutex::default(),
            former: Mutex::default(),
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
            facts: Mutex::default(),
            deaths: AtomicU64::new(0),
            is_calm: AtomicBool::new(is_calm),
            is_deserted: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    fn employ(self: &Arc<Self>, each: usize, hosts: bool) -> JoinSet<()> {
        let mut actors = JoinSet::new();
        if hosts {
            for is_decider in [true, true, false, false] {
                actors.spawn(Host::live(Arc::clone(self), is_decider));
            }
            return actors;
        }
        for _ in 0..each {
            actors.spawn(actors::decider(Arc::clone(self)));
            actors.spawn(actors::runner(Arc::clone(self)));
        }
        actors
    }

    /// Ends the world and compares the histories with the promises.
    async fn judge(&self, mut actors: JoinSet<()>, faults: u64) -> Outcome {
        self.is_over.store(true, Ordering::SeqCst);
        for node in self.nodes.lock().expect("no code panics while it holds this lock").iter() {
            node.begin_shutdown();
        }
        while let Some(ended) = actors.join_next().await {
            if let Err(error) = ended {
                self.facts().violations.push(error.to_string());
            }
        }
        if self.waits != Waits::Long {
            self.judge_deliveries();
        }
        let histories = self.histories().await;
        self.facts().judge(&histories);
        let table = |(run_id, events): (&Uuid, &Vec<_>)| format!("run {run_id}\n{}", tables::history(events));
        let trace: Vec<String> = histories.iter().map(table).collect();
        let violations = std::mem::take(&mut self.facts().violations);
        let branches = histories.values().filter(|events| resetting::branched(events).is_some()).count();
        let single_activities = histories.values().filter(|events| is_closed_single_activity(events)).count();
        let replies = self.facts().replies;
        let repeats = self.facts().repeats;
        let exchanged = self.facts().exchanged;
        let repaired = self.facts().repaired;
        let mut record = self.recorder.take();
        record.note_histories(&histories);
        Outcome {
            violations,
            trace: trace.join("\n\n"),
            runs: histories.len(),
            single_activities,
            branches,
            faults,
            replies,
            repeats,
            exchanged,
            repaired,
            record,
        }
    }
}

fn is_closed_single_activity(events: &[history::Event]) -> bool {
    let first = events.first().map(|event| &event.kind);
    matches!(first, Some(history::EventKind::WorkflowStarted(it)) if it.one_activity)
        && events.last().is_some_and(|event| event.kind.closes())
}

async fn live(seed: u64, plan: Plan, store: Arc<dyn Store>, settle: impl Fn()) -> Outcome {
    let recorder = Recorder::default();
    let chronicle = Chronicle::of(Arc::new(Intercepted(recorder.over(store))));
    let mut below: Arc<dyn Store> = Arc::new(Intercepted(chronicle.clone()));
    let time = Time::new();
    if plan.short_lives {
        below = Arc::new(Intercepted(Reluctant::over(below, Arc::clone(&time), seed)));
    }
    let mut exceeded = None;
    if plan.limits {
        let (watched, violations) = limiting::Watched::over(below);
        (below, exceeded) = (Arc::new(Intercepted(watched)), Some(violations));
    }
    let late_by = if plan.short_lives { LATE_BY } else { 0 };
    let mut chances = Chances { late_by, ..Chances::frequent() };
    if plan.limits {
        // A store for one node applies no write of a process after the process has ended.
        chances.late = 0;
    }
    if plan.waits != Waits::Long {
        // Each call takes time, so that polls end at every instant of a commit.
        chances = Chances { delay: 1000, delay_max: waits::DELAY_MAX, ..chances };
    }
    let faults = Arc::new(FaultStore::new(Arc::new(Broken::over(below, plan.how)), seed, chances));
    faults.set_on(false);
    let mut store: Arc<dyn Store> = Arc::clone(&faults) as _;
    if let Some(rule) = plan.without {
        store = Arc::new(Intercepted(Undone::new(store, rule)));
    }
    let world = World::new(seed, chronicle, recorder, store, false);
    let asks = plan.asks || plan.repeats;
    let shares_limits = plan.limits && plan.nodes > 1;
    let knows_nodes = if plan.limits { shares_limits } else { world.knows_nodes || asks };
    let line = (asks || shares_limits).then(|| Line::new(seed));
    let continues_as_new = plan.short_lives || plan.repeats;
    let (sets_clocks, limits) = (plan.sets_clocks, plan.limits);
    let repairs = plan.without != Some(Rule::LateDeadlinesAreRepaired);
    let short_lives = plan.short_lives;
    let world = World {
        time,
        short_lives,
        asks,
        continues_as_new,
        sets_clocks,
        single_activities: plan.single_activities,
        limits,
        repairs,
        waits: plan.waits,
        knows_nodes,
        line,
        ..world
    };
    let world = Arc::new(world);
    for _ in 0..plan.nodes {
        let node = world.open_node().await;
        world.nodes.lock().expect("no code panics while it holds this lock").push(node);
    }
    if plan.limits {
        limiting::begin(&world).await;
    }
    faults.set_on(true);
    let mut actors = world.employ(3, plan.hosts);
    if plan.short_lives {
        actors.spawn(actors::reaper(Arc::clone(&world)));
    }
    let mut clients = JoinSet::new();
    if plan.limits {
        clients.spawn(limiting::operator(Arc::clone(&world)));
    }
    for number in 0..plan.workflows {
        clients.spawn(actors::client(Arc::clone(&world), format!("w{number}")));
        if plan.resets {
            clients.spawn(resetting::resetter(Arc::clone(&world), format!("w{number}")));
        }
        if plan.repeats {
            clients.spawn(repeating::repeater(Arc::clone(&world), format!("w{number}")));
        }
        if plan.asks {
            clients.spawn(asking::asker(Arc::clone(&world), format!("w{number}")));
        }
    }
    world.go_wrong(plan.steps, &faults).await;
    faults.set_on(false);
    settle();
    if plan.sets_clocks {
        world.clocks.set_right(&mut world.random());
        world.facts().set_by = CLOCK_SET_MAX.times(2);
    }
    world.is_calm.store(true, Ordering::SeqCst);
    if let Some(line) = &world.line {
        line.calm();
    }
    while clients.join_next().await.is_some() {}
    if plan.deserted_minutes > 0 {
        world.be_deserted(plan.deserted_minutes, plan.nodes).await;
    }
    if !world.come_to_rest().await {
        let left = world.left().await;
        world.facts().violations.push(format!("some runs do not come to an end: {left}"));
    }
    if let Some(exceeded) = exceeded {
        limiting::judge(&mut world.facts(), &exceeded);
    }
    world.judge(actors, faults.injected()).await
}

async fn crash(tale: Tale, op: u64, lands: bool, hosts: bool) -> Option<Outcome> {
    let chronicle = Chronicle::of(Arc::new(Memory::new()));
    let memory: Arc<dyn Store> = Arc::new(Broken::over(Arc::new(Intercepted(chronicle.clone())), Break::Nothing));
    let dying = Arc::new(Dying::new(Arc::clone(&memory), op, lands));
    let world = Arc::new(World::new(op, chronicle, Recorder::default(), memory, true));
    let clock = Arc::new(NodeClock::new(Arc::clone(&world.time), Duration::ZERO));
    let settings = Settings { seed: Some(op), ..Settings::default() };
    let opened = Engine::open(Arc::clone(&dying) as _, clock, settings);
    let first = tokio::select! {
        biased;
        () = dying.died() => world.open_node().await,
        opened = opened => opened.expect("a node over a store in order"),
    };
    world.nodes.lock().expect("no code panics while it holds this lock").push(first);
    let actors = world.employ(2, hosts);
    let client = tokio::spawn(actors::single(Arc::clone(&world), tale.workflow_id()));
    let (heir, death) = (Arc::clone(&world), Arc::clone(&dying));
    let replaces = tokio::spawn(async move {
        death.died().await;
        heir.replace_node().await;
    });
    while !client.is_finished() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        world.time.advance(Duration::from_millis(500));
    }
    if !world.come_to_rest().await {
        world.facts().violations.push("the run does not come to an end".to_owned());
    }
    replaces.abort();
    let outcome = world.judge(actors, 1).await;
    dying.is_dead().then_some(outcome)
}
