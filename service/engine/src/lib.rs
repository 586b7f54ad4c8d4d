//! The engine: applies commands, task results and deadlines to runs. It stores the runs and wakes waiting callers. The
//! crate `history` defines which changes of a run are allowed.
//!
//! How a call is handled:
//!
//! 1. The call enters the in-memory inbox of its run.
//! 2. `run/worker.rs` admits all waiting calls of the run with `history::Transition` and writes one commit to the
//!    [store](store::Store).
//! 3. The engine notifies the callers, waiting pollers and watchers of the run.

mod base;
mod batches;
mod commit;
mod lists;
mod nodes;
mod registry;
mod riders;
mod run;
mod schedules;

mod tasks;
mod time;
mod views;

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};

use base::background::Background;
use store::Store;
use views::metrics_page;

use crate::base::admission::Quotas;
use crate::base::disk::DiskReserve;

pub use base::admission;
pub use base::admission::open_runs::SwfQuotas;
pub use base::clock::{CLOCK_AHEAD_MAX, CLOCK_MOVED_MIN, Clock, ClockMove, ClockStanding, SystemClock};
pub use base::disk::room::DiskRoom;
pub use base::forms::{
    Admitted, AppendedOutput, Deletion, EventRange, HistoryPage, OutputChunk, OutputEnd, OutputPage, OutputRange,
    PAGE_BYTES_MAX, QueryOutcome, Reset, RunRef, RunState, SeenVersion, Started, TurnWait, Unpolled, WasImported,
    WasReset,
};
pub use base::list_reports::{Behind, HomeReport, LimitHold, LimitScope, LimitUse, TaskReport};
pub use base::list_settings;
pub use base::metrics::{BRIEF, LabelValue, Metrics};
pub use base::numbers;
pub use base::refusal::{Limited, MayBeRecorded, Refusal, RefusalRow, TokenKind};
pub use base::token::TOKEN_CHARS_MAX;
pub use base::token::{ActivityToken, TurnToken};
pub use base::traces::{SampleRatio, SpanExport, TakesSpans};
pub use base::watch::news::DomainWatch;
pub use batches::{BatchRow, BatchView, Batches, DryRun, NewBatch, status_query};
pub use lists::hand_out::TaskLists;
pub use lists::matching::WaitingBounds;
pub use lists::pollers::{PollerReport, Pollers};
pub use lists::polls::{Poll, SLOTS_MAX};
pub use lists::report::{HeldTask, ListReport, ReportPage};
pub use nodes::messages::{
    Forwarded, ForwardedOutput, ForwardedTasks, FromNode, FromOutputReader, FromOutputWriter, FromRecorder,
    FromValidator, LentUpdate, ListName, Offer, OutputRequest, PassedAnswer, Peers, RejectedUpdate, ShowLimits,
    SlotReports, StrayAnswer,
};
pub use nodes::{Node, Nodes};
pub use registry::keeper::{Rotated, SECRET_OVERLAP, SECRET_OVERLAP_MAX, SecretKeeper};
pub use registry::{DEFAULT_DOMAIN, Domain, Registry, TYPES_MAX, TypeKind, TypeRecord, split_type_name, type_name};
pub use riders::query::{QueryReply, QueryRequest};
pub use riders::task::RequestReply;
pub use riders::update::{UpdateProgress, UpdateRequest};
pub use run::commands::Commands;
pub use schedules::{ScheduleRow, ScheduleView, Scheduler};
pub use tasks::outputs::Outputs;
pub use tasks::outputs::memory::OUTPUT_ACTIVITY_BYTES_MAX;
pub use tasks::slots::{EXCHANGE_BYTES_MAX, Slots};
pub use tasks::{ActivityTask, DeciderTask, Delivery, PendingQuery, Receipt, Tasks};
pub use time::guard::{Doubt, Guard};
pub use time::repair::{DeadlineRepair, LateRun, LateRuns, RepairedRun};
pub use views::Views;
pub use views::failures::{FailureGroup, Failures};
pub use views::fsck::{Finding, FsckReport};
pub use views::metrics_page::{MetricKind, MetricsPage, PageLabels};

/// Settings of the engine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Approximate memory for recently used runs, in bytes.
    pub cache_bytes: usize,
    /// Seed that makes all ids reproducible, for tests. If `None`, ids are random.
    pub seed: Option<u64>,
    /// This node, if several share the store; `None` for a single node.
    pub node: Option<Node>,
    /// SWF's quotas. If `None`, only the limits that apply to all runs are enforced.
    pub swf_quotas: Option<SwfQuotas>,
    /// Bytes of the store's disk that are reserved for open runs. With less free space, the service starts no run. 0
    /// means no reserve.
    pub disk_reserve: u64,
    /// Maximum numbers of tasks that wait in memory. Tasks beyond them wait only in the store.
    pub waiting: WaitingBounds,
    /// Maximum memory for the output of activities, in bytes.
    pub output_bytes: usize,
    /// Destination of the spans of runs. If `None`, no spans are made.
    pub spans: Option<SpanExport>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cache_bytes: 64 * 1024 * 1024,
            seed: None,
            node: None,
            swf_quotas: None,
            disk_reserve: 0,
            waiting: WaitingBounds::default(),
            output_bytes: 64 * 1024 * 1024,
            spans: None,
        }
    }
}

/// Constructs a part of the engine in an [`Arc`]. For each name in brackets, the macro sets the field of that name to a
/// clone of the local variable of that name. The fields after the brackets have the given values.
macro_rules! part {
    ($($room:ident)::+ [$($shared:ident),*] $($own:ident: $of:expr),*) => {
        Arc::new($($room)::+ { $($shared: $shared.clone(),)* $($own: $of,)* })
    };
}

/// The engine with all its parts. The constructors return it in an [`Arc`].
pub struct Engine {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    mint: Arc<base::token::Mint>,
    secrets: Arc<registry::keeper::SecretKeeper>,
    registry: Arc<Registry>,
    nodes: Arc<nodes::Nodes>,
    runs: Arc<run::runs::Runs>,
    commands: Arc<run::commands::Commands>,
    lists: Arc<lists::hand_out::TaskLists>,
    riders: Arc<riders::waiting::Riders>,
    request_reply: Arc<riders::task::RequestReply>,
    tasks: Arc<tasks::Tasks>,
    outputs: Arc<tasks::outputs::Outputs>,
    schedules: Arc<schedules::Scheduler>,
    batches: Arc<batches::Batches>,
    views: Arc<views::Views>,
    watchers: Arc<base::watch::Watchers>,
    agenda: Arc<base::agenda::Agenda>,
    sweep: Arc<time::sweep::Sweeper>,
    guard: Arc<time::guard::Guard>,
    repair: Arc<time::repair::DeadlineRepair>,
    disk: Arc<DiskReserve>,
    open_runs: Arc<base::admission::open_runs::OpenRuns>,
    run_counts: Arc<registry::run_counts::RunCounts>,
    metrics: Arc<Metrics>,
    quotas: Arc<Quotas>,
    background: Arc<Background>,
    /// Executor of the runs, kept alive by the engine because the runs hold only a weak reference to it.
    _run_context: Arc<run::context::RunContext>,
}

impl Engine {
    /// Opens the engine over a store and starts its background work: timers, timeouts, and deletion of expired runs.
    ///
    /// # Errors
    ///
    /// The errors of the store.
    pub async fn open(store: Arc<dyn Store>, clock: Arc<dyn Clock>, settings: Settings) -> Result<Arc<Self>, Refusal> {
        let engine = Self::open_for_reading(store, clock, settings).await?;
        engine.registry.ensure_default_domain().await?;
        if engine.nodes.is_shared() {
            engine.nodes.beat().await?;
        }
        if let Err(refusal) = engine.guard.believed_now().await {
            tracing::warn!(%refusal, "the clock could not be checked");
        }
        engine.lists.restore_limits().await?;
        engine.sweep.start_sweeping();
        engine.secrets.start_reading(&engine.background);
        engine.outputs.start_expiring();
        Ok(engine)
    }

    /// Opens the engine without background work: no timer fires and no run is deleted.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub async fn open_for_reading(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Result<Arc<Self>, Refusal> {
        let limits = store.limits();
        commit::must_have_room(&limits)?;
        let secrets = base::token::secrets::secrets(&*store, settings.seed).await?;
        Ok(Arc::new(Self::compose(store, clock, &secrets, settings)))
    }

    /// Constructs the parts of the engine. Each part receives only the parts that it needs, which must already exist.
    fn compose(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        secrets: &base::token::secrets::Secrets,
        settings: Settings,
    ) -> Self {
        let limits = store.limits();
        let background = Background::new();
        let quotas = Arc::<Quotas>::default();
        let metrics = Arc::new(Metrics::new(quotas.counts()));
        let notices = Arc::<base::notices::Notices>::default();
        let traces = Arc::new(base::traces::Traces::new(settings.spans));
        let ids = Arc::new(base::clock::Ids::new(settings.seed));
        let mint = Arc::new(base::token::Mint::new(clock.clone(), secrets));
        let records = base::records::Records::new(store.clone());
        let nodes = Arc::new(nodes::Nodes::new(records.clone(), settings.node, ids.op(), clock.clone()));
        let secrets = Arc::new(registry::keeper::SecretKeeper::new(
            records.clone(),
            clock.clone(),
            nodes.is_shared(),
            mint.clone(),
        ));
        let registry = Arc::new(Registry::new(store.clone(), clock.clone(), nodes.is_shared()));
        let newest = Arc::<base::clock::NewestTime>::default();
        let marks =
            Arc::new(registry::known::Marks::new(store.clone(), clock.clone(), newest.clone(), metrics.clone()));
        let open_runs =
            Arc::new(base::admission::open_runs::OpenRuns::new(store.clone(), quotas.clone(), settings.swf_quotas));
        let disk = Arc::new(DiskReserve::new(store.clone(), settings.disk_reserve));
        let run_counts = Arc::new(registry::run_counts::RunCounts::new(
            store.clone(),
            clock.clone(),
            registry.clone(),
            background.clone(),
        ));
        let node = nodes.address().map(str::to_owned);
        let guard = Arc::new(time::guard::Guard::new(records, clock.clone(), notices.clone(), node, newest.clone()));
        let agenda = base::agenda::Agenda::new(nodes.is_shared().then_some(time::sweep::RESCAN_EVERY));
        let agenda = Arc::new(agenda);
        let watchers = Arc::<base::watch::Watchers>::default();
        let riders = Arc::<riders::waiting::Riders>::default();
        let reader = Arc::new(commit::read::RunReader::new(store.clone()));

        let runs = Arc::new(run::runs::Runs::new(
            store.clone(),
            reader.clone(),
            nodes.clone(),
            settings.cache_bytes,
            background.clone(),
        ));
        let commands = part!(run::commands::Commands [runs, reader, registry, ids]);
        let matching = Arc::new(lists::matching::Matching::new(settings.waiting));
        let elsewhere = Arc::<lists::elsewhere::Elsewhere>::default();
        let pollers =
            Arc::new(lists::pollers::Pollers::new(clock.clone(), quotas.clone(), matching.clone(), elsewhere.clone()));
        let undelivered = part!(lists::undelivered::UndeliveredTasks [runs, notices, metrics, background]
            riders: OnceLock::new());
        let lists = part!(lists::hand_out::TaskLists [
            runs, store, clock, registry, nodes, agenda, background, matching, elsewhere, pollers, notices,
            undelivered
        ] backlog: lists::backlog::Backlog::new(settings.waiting),
            polls: lists::polls::PollMemory::default(),
            in_flight: lists::in_flight::InFlight::default(),
            home: lists::limits::home_line::HomeLine::default(),
            changing_limits: tokio::sync::Mutex::default(),
            configured: lists::limits::configured::Configured::default(),
            stopped: lists::limits::stopped::StoppedByDomain::default(),
            unpolled: lists::unpolled::ReportedUnpolled::default(),
            lambda: OnceLock::new());
        let lookup = part!(run::lookup::RunLookup [runs, reader, registry, nodes, pollers, watchers]);
        let views = part!(views::Views [lookup, reader, store, registry, nodes, watchers, background]);
        let request_reply = part!(riders::task::RequestReply [
            runs, lists, riders, lookup, reader, marks, registry, nodes, watchers, mint, ids, clock, metrics, traces,
            background
        ]);
        undelivered.set_riders(Arc::downgrade(&request_reply) as _);
        let effects = part!(run::effects::Effects [runs, reader, store, open_runs, metrics, background]);
        let run_context = part!(run::context::RunContext [
            runs, store, limits, reader, marks, disk, open_runs, nodes, lists, riders, request_reply, effects, watchers,
            agenda, ids, clock, newest, metrics, traces, notices
        ]);
        runs.set_executor(Arc::downgrade(&run_context) as _);
        background.keeps(Arc::downgrade(&run_context) as _);
        let tasks = part!(tasks::Tasks [
            runs, lists, request_reply, riders, lookup, reader, registry, open_runs, nodes, watchers, mint,
            background
        ]);
        let outputs = part!(tasks::outputs::Outputs [
            lookup, reader, store, lists, nodes, watchers, mint, ids, clock, metrics, background
        ] memory: std::sync::Mutex::new(tasks::outputs::memory::OutputMemory::new(settings.output_bytes)),
            waiting: std::sync::Mutex::default());
        let schedules = part!(schedules::Scheduler [
            runs, commands, store, registry, marks, agenda, ids, clock, metrics
        ]);
        let batches = part!(batches::Batches [
            runs, commands, lookup, store, registry, agenda, ids, clock, metrics
        ] busy: batches::BusyBatches::default());
        let repair = part!(time::repair::DeadlineRepair [runs, lookup, store, nodes, guard, clock]);
        let sweep = part!(time::sweep::Sweeper [
            runs, lists, schedules, batches, store, limits, nodes, agenda, watchers, guard, clock, metrics,
            background
        ] rescans: AtomicU32::new(0));
        Self {
            store,
            clock,
            mint,
            secrets,
            registry,
            nodes,
            runs,
            commands,
            lists,
            riders,
            request_reply,
            tasks,
            outputs,
            schedules,
            batches,
            views,
            watchers,
            agenda,
            sweep,
            guard,
            repair,
            disk,
            open_runs,
            run_counts,
            metrics,
            quotas,
            background,
            _run_context: run_context,
        }
    }

    /// Commands to runs.
    pub fn commands(&self) -> &Commands {
        &self.commands
    }

    /// Polls for tasks, and answers to tasks.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Output of activities.
    pub fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// Task lists.
    pub fn lists(&self) -> &Arc<TaskLists> {
        &self.lists
    }

    /// Pollers of task lists. They also know which lists have no poller.
    pub fn pollers(&self) -> &Pollers {
        &self.lists.pollers
    }

    /// Queries and updates.
    pub fn request_reply(&self) -> &Arc<RequestReply> {
        &self.request_reply
    }

    /// Schedules.
    pub fn schedules(&self) -> &Scheduler {
        &self.schedules
    }

    /// Batches.
    pub fn batches(&self) -> &Batches {
        &self.batches
    }

    /// Read access to runs.
    pub fn views(&self) -> &Views {
        &self.views
    }

    /// Sets the connection to the other nodes. Without a connection, a node finds another node's tasks only through the
    /// store's due index.
    pub fn join(&self, peers: Arc<dyn Peers>) {
        self.lists.elsewhere.join(peers);
    }

    /// Nodes that share the store.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Free space of the store's disk; `None` if the store has no disk or the system does not report it.
    pub fn disk_room(&self) -> Option<DiskRoom> {
        self.disk.room()
    }

    /// Guard, which checks that the clock is right.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Repair of deadlines that were set while the clock was ahead.
    pub fn repair(&self) -> &DeadlineRepair {
        &self.repair
    }

    /// Secrets that sign tokens.
    pub fn secrets(&self) -> &SecretKeeper {
        &self.secrets
    }

    /// Returns the secret with which nodes authenticate to each other. It is derived from the secrets in the store.
    pub fn node_pass(&self) -> String {
        self.mint.node_pass()
    }

    /// Returns true if `pass` equals [`node_pass`](Self::node_pass).
    pub fn is_node_pass(&self, pass: &str) -> bool {
        self.mint.is_node_pass(pass)
    }

    /// Counters and gauges.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Quotas of domains and credentials.
    pub fn quotas(&self) -> &Arc<Quotas> {
        &self.quotas
    }

    /// Renders all metrics as Prometheus text. The numbers of runs are those of the [last count](Self::count_runs).
    /// With thousands of task lists, rendering takes some milliseconds of CPU time.
    pub fn render_metrics(&self) -> String {
        self.metrics_page().end()
    }

    /// Renders all metrics into a page to which the caller can append other metrics.
    pub fn metrics_page(&self) -> MetricsPage {
        let (cached_runs, cached_bytes) = self.runs.in_memory();
        let gauges = metrics_page::Gauges {
            cached_runs,
            cached_bytes,
            agenda: self.agenda.len(),
            watched_runs: self.watchers.len(),
            query_callers: self.riders.query_callers(),
            updates: self.riders.updates(),
            outputs: self.outputs.counts(),
            lists: lists::shown::list_depths(self.lists.matching.depths()),
            limited: lists::shown::limited_uses(self.lists.matching.limited_depths()),
            node_versions: self.nodes.versions(),
            disk: self.disk_room(),
            store: self.store.stats(),
            runs: self.run_counts.gauged(),
            clock: self.guard.standing(),
            clocks_apart: self.nodes.clocks_apart(),
        };
        self.metrics.page(&gauges, self.clock.now())
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Domains and types.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Ends all waits: polls and watchers return with their current result. Writes are still accepted.
    pub fn begin_shutdown(&self) {
        self.background.stop();
        self.watchers.close();
    }

    /// Returns true if [`begin_shutdown`](Self::begin_shutdown) was called.
    pub fn is_stopping(&self) -> bool {
        self.background.is_stopping()
    }

    /// Ends all waits, waits for the background work to finish, then closes the store.
    ///
    /// # Errors
    ///
    /// If the store cannot finish its pending writes.
    pub async fn shutdown(&self) -> Result<(), Refusal> {
        self.begin_shutdown();
        if let Err(refusal) = self.nodes.leave().await {
            tracing::warn!(%refusal, "the other nodes could not be notified that this node stops");
        }
        self.background.finish().await;
        Ok(self.store.close().await?)
    }

    /// SWF's quotas, if they are enforced.
    pub fn swf_quotas(&self) -> Option<&SwfQuotas> {
        self.open_runs.swf_quotas()
    }

    /// Counts the open runs by status, unless the previous count is recent. A slow count continues after this function
    /// returns. Until it ends, or if the store cannot be read, [`render_metrics`](Self::render_metrics) shows the
    /// previous count.
    pub async fn count_runs(&self) {
        self.run_counts.refresh().await;
    }

    /// Returns a signature over the parts of a page token. Callers cannot forge it.
    pub fn page_seal(&self, parts: &[&[u8]]) -> String {
        self.mint.page_seal(parts)
    }

    /// Returns true if `seal` is the [signature](Self::page_seal) over these parts.
    pub fn is_page_seal(&self, parts: &[&[u8]], seal: &str) -> bool {
        self.mint.is_page_seal(parts, seal)
    }
}

#[cfg(test)]
mod tests;
