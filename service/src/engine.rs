//! The engine: brings commands, tasks and time to runs. Moves bytes and wakes waiters; the rules are `history`'s.
//!
//! One call's way: the inbox of the run's cell → `worker.rs` admits what waits there by `history::Transition` and writes
//! one commit → the [store](store::Store) → answers, waiting pollers and watchers are told.

mod after;
mod agenda;
mod answers;
mod ask;
mod backlog;
mod cache;
mod cell;
mod clock;
mod commit;
mod delete;
mod effects;
mod elsewhere;
mod fsck;
mod grant;
mod guard;
mod hand_out;
mod head;
mod inbox;
mod judge;
mod known;
mod matching;
mod metrics;
mod nodes;
mod pollers;
mod polls;
mod questions;
mod quotas;
mod read;
mod refusal;
mod registry;
mod reset;
mod run_counts;
mod schedules;
mod secrets;
mod start;
mod sweep;
mod tasks;
mod token;
mod update;
mod updates;
mod views;
mod wait;
mod watch;
mod worker;
mod write;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use history::{Author, Beat, Command, Event, EventId, Outbox, Run, Start, UpdateStanding};
use store::{HeadKey, ListPage, ListQuery, PageToken, Store};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

use crate::audit;
use crate::budget::{BYTES_IN_FLIGHT_MAX, Budget};
use crate::fair::Places;
use crate::reload::Reloads;
use crate::shares::Shares;
use crate::tls::TlsStanding;

pub use ask::{Answered, Ask, Forwarded, FromNode, Said, Seen};
pub use clock::{Clock, SystemClock};
pub use delete::Deletion;
pub use elsewhere::{ListName, Offer, Peers};
pub use fsck::{Finding, FsckReport};
pub use guard::{CLOCK_AHEAD_MAX, Doubt};
pub use matching::WaitingBounds;
pub use metrics::Metrics;
pub use nodes::Node;
pub use pollers::Unpolled;
pub use polls::Poll;
pub use questions::Outcome;
pub use quotas::Quotas;
pub use refusal::{Limited, Recorded, Refusal};
pub use registry::{DEFAULT_DOMAIN, Domain, RegisteredType, Registry, TYPES_MAX, TypeKind, split_type_name, type_name};
pub use reset::{Reset, WasReset};
pub use schedules::{ScheduleRow, ScheduleView};
pub use secrets::{Rotated, SECRET_OVERLAP, SECRET_OVERLAP_MAX};
pub use tasks::{ActivityTask, DeciderTask, Delivery, Question, Receipt};
pub(crate) use token::TOKEN_CHARS_MAX;
pub use token::{ActivityToken, TurnToken};
pub use update::{FromJudge, FromRecorder, LentUpdate, PassedAnswer, RejectedUpdate, Update, Updated};

use cell::{Reply, Request};

/// What an operator may set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How much memory recently used runs may take, in bytes, about.
    pub cache_bytes: usize,
    /// Fixes every id, for tests; random when `None`.
    pub seed: Option<u64>,
    /// Which of several nodes over one store this is; `None` when no other works over it.
    pub node: Option<Node>,
    /// What programs over SWF's wire are held to; `None` where to nothing but what all runs are.
    pub quotas: Option<Quotas>,
    /// The most tasks that wait in memory; more of them wait in the store alone.
    pub waiting: WaitingBounds,
    /// The most bytes of requests and answers in flight.
    pub bytes_in_flight_max: usize,
    /// How many requests are worked on at once; as the processors are when `None`.
    pub requests_at_once: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cache_bytes: 64 * 1024 * 1024,
            seed: None,
            node: None,
            quotas: None,
            waiting: WaitingBounds::default(),
            bytes_in_flight_max: BYTES_IN_FLIGHT_MAX,
            requests_at_once: None,
        }
    }
}

/// Names a run, or with no run id the newest one of its workflow id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRef {
    /// The domain.
    pub domain: Arc<str>,
    /// The workflow id.
    pub workflow_id: Arc<str>,
    /// The run.
    pub run_id: Option<Uuid>,
}

/// A start that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    /// The new run.
    pub run_id: Uuid,
    /// Whether it is an earlier request with the same key that started it.
    pub repeated: bool,
    /// Whether the run was open already, and is used instead of a new one.
    pub existing: bool,
}

/// A command that was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// On this run.
    pub run_id: Uuid,
    /// The first of its events.
    pub event_id: EventId,
    /// Whether it is an earlier request with the same key that was recorded.
    pub repeated: bool,
    /// For the answer to a turn: the newest news that the decider's answer reflects (D11). Where the decider has not seen all
    /// news, it is a version that the run no longer has.
    pub reflects: Option<EventId>,
    /// For the answer to a turn with updates: how each of the answers leaves its update.
    pub judged: Vec<UpdateStanding>,
    /// The run's version after it.
    pub version: EventId,
}

/// The state of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Described {
    /// The fold of its history.
    pub run: Run,
    /// The newest heartbeats of its open activities.
    pub beats: Vec<Beat>,
    /// What it owes to others, and runs of its workflow id before it; nothing unless it is the newest.
    pub owed: Outbox,
    /// The run that goes on from an earlier event of it, or of one before it, since it was reset.
    pub reset_as: Option<Uuid>,
}

/// Which events to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Only events after this one; 0 for all.
    pub after: EventId,
    /// Only events before this one.
    pub before: Option<EventId>,
    /// Newest first.
    pub reverse: bool,
    /// At most so many; 0 is taken as 1.
    pub limit: usize,
    /// About so many bytes; at least one event is always read.
    pub bytes_max: usize,
}

impl Default for Page {
    fn default() -> Self {
        Self { after: 0, before: None, reverse: false, limit: 1_000, bytes_max: 4 * 1024 * 1024 }
    }
}

/// Events of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryPage {
    /// The run.
    pub run_id: Uuid,
    /// The events, in the order asked for.
    pub events: Vec<Event>,
    /// The run's newest event.
    pub last_event_id: EventId,
    /// Whether the run has closed.
    pub closed: bool,
    /// Where to go on: the next page's `after`, or with `reverse` its `before`. `None` when nothing is left.
    pub next: Option<EventId>,
}

/// See the module. Always behind an [`Arc`].
pub struct Engine {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    limits: store::Limits,
    ids: clock::Ids,
    mint: token::Mint,
    reader: read::Reader,
    marks: known::Marks,
    records: registry::Records,
    registry: Registry,
    cache: cache::Cache,
    matching: matching::Matching,
    backlog: backlog::Backlog,
    nodes: Arc<nodes::Nodes>,
    elsewhere: elsewhere::Elsewhere,
    polls: polls::Polls,
    pollers: pollers::Pollers,
    agenda: agenda::Agenda,
    watchers: watch::Watchers,
    questions: questions::Questions,
    updates: updates::Updates,
    metrics: Arc<Metrics>,
    budget: Arc<Budget>,
    shares: Arc<Shares>,
    places: Arc<Places>,
    reloads: Reloads,
    /// Of the listener, where it has TLS.
    tls: OnceLock<Arc<TlsStanding>>,
    /// Of the audit log, where there is one.
    audit: OnceLock<Arc<audit::Counts>>,
    quotas: Option<Quotas>,
    open_runs: Arc<quotas::OpenRuns>,
    run_counts: run_counts::RunCounts,
    guard: guard::Guard,
    /// Where tasks go back to that do not reach their takers.
    returns: grant::Returns,
    /// Who calls functions is told the domains in which Lambda tasks wait.
    lambda: OnceLock<UnboundedSender<Arc<str>>>,
    /// How often the due index was read.
    rescans: AtomicU32,
    is_stopping: AtomicBool,
    stopping: Notify,
}

impl Engine {
    /// Opens the engine over a store, and starts what it does on its own: timers, timeouts, retention.
    ///
    /// # Errors
    ///
    /// Whatever keeps the store from being read and written.
    pub async fn open(store: Arc<dyn Store>, clock: Arc<dyn Clock>, settings: Settings) -> Result<Arc<Self>, Refusal> {
        let engine = Self::open_for_reading(store, clock, settings).await?;
        engine.registry.ensure_default_domain().await?;
        if engine.nodes.is_shared() {
            engine.beat().await?;
        }
        if let Err(refusal) = engine.believed_now().await {
            tracing::warn!(%refusal, "it could not be seen whether the clock is right");
        }
        engine.start_sweeping();
        Ok(engine)
    }

    /// Opens the engine without starting anything: no timer fires, nothing is forgotten.
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
        let secrets = secrets::secrets(&*store, settings.seed).await?;
        let ids = clock::Ids::new(settings.seed);
        let nodes = Arc::new(nodes::Nodes::new(settings.node, ids.op()));
        let shares = Arc::<Shares>::default();
        let metrics = Arc::new(Metrics::new(shares.counts()));
        let registry = Registry::new(Arc::clone(&store), Arc::clone(&clock), Arc::clone(&nodes));
        let agenda = agenda::Agenda::new(nodes.is_shared().then_some(sweep::RESCAN_EVERY));
        let (returns, returned) = grant::Returns::new();
        let engine = Arc::new(Self {
            limits,
            ids,
            nodes,
            elsewhere: elsewhere::Elsewhere::default(),
            polls: polls::Polls::default(),
            pollers: pollers::Pollers::new(clock.now()),
            mint: token::Mint::new(Arc::clone(&clock), &secrets),
            reader: read::Reader::new(Arc::clone(&store)),
            marks: known::Marks::new(Arc::clone(&store), Arc::clone(&clock), Arc::clone(&metrics)),
            records: registry::Records::new(Arc::clone(&store)),
            registry,
            cache: cache::Cache::new(settings.cache_bytes),
            matching: matching::Matching::new(settings.waiting),
            backlog: backlog::Backlog::new(settings.waiting),
            agenda,
            watchers: watch::Watchers::default(),
            questions: questions::Questions::default(),
            updates: updates::Updates::default(),
            metrics,
            shares,
            budget: Budget::new(settings.bytes_in_flight_max),
            places: Places::new(settings.requests_at_once),
            reloads: Reloads::default(),
            tls: OnceLock::new(),
            audit: OnceLock::new(),
            quotas: settings.quotas,
            open_runs: Arc::default(),
            run_counts: run_counts::RunCounts::default(),
            guard: guard::Guard::default(),
            returns,
            lambda: OnceLock::new(),
            rescans: AtomicU32::new(0),
            is_stopping: AtomicBool::new(false),
            stopping: Notify::new(),
            store,
            clock,
        });
        tokio::spawn(Self::take_back_tasks(Arc::downgrade(&engine), returned));
        Ok(engine)
    }

    /// Counters and gauges.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What requests and answers may take of this process's memory.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// What each domain and each credential may take of the service.
    pub fn shares(&self) -> &Arc<Shares> {
        &self.shares
    }

    /// Where requests are worked on, one domain in turn with another.
    pub fn places(&self) -> &Arc<Places> {
        &self.places
    }

    /// What came of files that were read again.
    pub fn reloads(&self) -> &Reloads {
        &self.reloads
    }

    /// Has the metrics tell how TLS stands.
    pub fn tells_of_tls(&self, standing: &Arc<TlsStanding>) {
        drop(self.tls.set(Arc::clone(standing)));
    }

    /// Has the metrics tell of the audit log.
    pub fn tells_of_audit_log(&self, counts: &Arc<audit::Counts>) {
        drop(self.audit.set(Arc::clone(counts)));
    }

    /// Everything that is measured, as Prometheus text; runs as they were [counted](Self::count_runs) last. Takes some
    /// milliseconds of a processor where there are many lists.
    pub fn render_metrics(&self) -> String {
        let (cached_runs, cached_bytes) = self.cache.size();
        let gauges = metrics::Gauges {
            cached_runs,
            cached_bytes,
            agenda: self.agenda.len(),
            watched_runs: self.watchers.len(),
            askers: self.questions.askers(),
            updates: self.updates.len(),
            bytes_in_flight: self.budget.taken(),
            requests_put_off: self.budget.put_off(),
            waits: self.places.waits(),
            lists: metrics::shown(self.matching.depths()),
            store: self.store.stats(),
            runs: self.run_counts.gauged(),
            is_clock_doubted: self.clock_doubt().is_some(),
            reloads: self.reloads.all(),
            audit: self.audit.get().cloned(),
            tls: self.tls.get().map(|tls| (Arc::clone(tls), self.clock.now())),
        };
        self.metrics.render(&gauges)
    }

    /// Says that there are functions to be called. The domains in which Lambda tasks wait are told from then on, each time
    /// that one waits; to the first who asks.
    pub fn lambda_tasks(self: &Arc<Self>) -> UnboundedReceiver<Arc<str>> {
        let (sender, receiver) = unbounded_channel();
        drop(self.lambda.set(sender));
        self.seek_lambda_tasks();
        receiver
    }

    /// The store below.
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

    /// Ends every wait: polls and watchers are answered with what there is. Writes are still taken.
    pub fn begin_shutdown(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.stopping.notify_waiters();
        self.watchers.close();
    }

    /// Whether [`begin_shutdown`](Self::begin_shutdown) was called.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Ends every wait, then closes the store.
    ///
    /// # Errors
    ///
    /// When the store could not finish what it had begun.
    pub async fn shutdown(&self) -> Result<(), Refusal> {
        self.begin_shutdown();
        if let Err(refusal) = self.leave().await {
            tracing::warn!(%refusal, "the other nodes could not be told that this one stops");
        }
        Ok(self.store.close().await?)
    }

    /// Resolves when the service stops.
    async fn stopped(&self) {
        let stopping = self.stopping.notified();
        tokio::pin!(stopping);
        // Registered before the flag is read, so that it cannot be missed.
        stopping.as_mut().enable();
        if !self.is_stopping() {
            stopping.await;
        }
    }

    /// Starts a run.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::DomainDeprecated`], a fault of the rules, or the store's. Nothing was recorded,
    /// but for [`Refusal::OutcomeUnknown`].
    pub async fn start(self: &Arc<Self>, domain: &str, start: Start) -> Result<Started, Refusal> {
        let domain = self.registry.domain_in_use(domain).await?.name;
        let key = commit::head_key(&domain, &start.workflow_id);
        let start = Box::new(start);
        self.ask(&key, |reply| Request::Start { start, reply }).await
    }

    /// Has a command admitted to a run: a signal, a cancel request, a termination.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start); also when there is no such run, or it is not the current one.
    pub async fn tell(self: &Arc<Self>, at: &RunRef, command: Command) -> Result<Told, Refusal> {
        self.tell_of(at, command, Author::default()).await
    }

    /// The same, of this author.
    ///
    /// # Errors
    ///
    /// As for [`tell`](Self::tell).
    pub async fn tell_of(self: &Arc<Self>, at: &RunRef, command: Command, author: Author) -> Result<Told, Refusal> {
        self.registry.must_know(&at.domain).await?;
        let told = self.tell_key_of(&head_key(at), at.run_id, command, author).await;
        if let (Err(Refusal::RunNotCurrent { .. }), Some(run_id)) = (&told, at.run_id) {
            // An earlier run, or none at all?
            self.reader.load_run(&head_key(at), run_id).await?;
        }
        told
    }

    async fn tell_key(
        self: &Arc<Self>,
        key: &HeadKey,
        run_id: Option<Uuid>,
        command: Command,
    ) -> Result<Told, Refusal> {
        self.tell_key_of(key, run_id, command, Author::default()).await
    }

    /// The same, of this author.
    async fn tell_key_of(
        self: &Arc<Self>,
        key: &HeadKey,
        run_id: Option<Uuid>,
        command: Command,
        author: Author,
    ) -> Result<Told, Refusal> {
        self.ask(key, |reply| Request::Tell { run_id, command, author, reply }).await
    }

    /// Asks something of a run and waits for the answer.
    async fn ask<T>(self: &Arc<Self>, key: &HeadKey, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, Refusal> {
        let (reply, mut answer) = oneshot::channel();
        let cell = self.cache.cell(key);
        let work = self.submit(&cell, request(reply));
        drop(cell);
        let answered = match work {
            None => answer.await,
            Some(work) => tokio::select! {
                biased;
                answered = &mut answer => answered,
                () = work => answer.await,
            },
        };
        let lost = |_| Refusal::OutcomeUnknown { why: "the task that worked on this run has ended early".to_owned() };
        answered.map_err(lost)?
    }

    /// Runs, in the order that the query asks for.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or the store's.
    pub async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Refusal> {
        self.registry.must_know(&query.domain).await?;
        Ok(self.store.list(query, page).await?)
    }
}

fn head_key(at: &RunRef) -> HeadKey {
    HeadKey { domain: Arc::clone(&at.domain), workflow_id: Arc::clone(&at.workflow_id) }
}
