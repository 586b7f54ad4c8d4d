//! The engine: brings commands, tasks and time to runs. Moves bytes and wakes waiters; the rules are `history`'s.
//!
//! One call's way: the inbox of the run's cell → `worker.rs` admits what waits there by `history::Transition` and writes
//! one commit → the [store](store::Store) → answers, waiting pollers and watchers are told.

mod after;
mod background;
mod clock;
mod commit;
mod forms;
mod lists;
mod metrics;
mod nodes;
mod refusal;
mod registry;
mod riders;
mod run;
mod schedules;
mod tasks;
mod time;
mod token;
mod views;
mod watch;

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};

use background::Background;
use forms::head_key;
use history::{Author, Command, Duration, Run, Start, Timestamp};
use lists::ListKey;
use run::cell::{Reply, Request};
use store::{Count, HeadKey, ListPage, ListQuery, PageToken, Store};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use uuid::Uuid;
use views::metrics_page;

use crate::audit;
use crate::budget::{BYTES_IN_FLIGHT_MAX, Budget};
use crate::fair::Places;
use crate::reload::Reloads;
use crate::shares::Shares;
use crate::tls::TlsStanding;

pub use clock::{Clock, SystemClock};
pub use forms::{Described, HistoryPage, Outcome, Page, RunRef, Seen, Started, Told, Unpolled};
pub use lists::WaitingBounds;
pub use metrics::Metrics;
pub use nodes::Node;
pub use nodes::messages::{
    Forwarded, FromJudge, FromNode, FromRecorder, LentUpdate, ListName, Offer, PassedAnswer, Peers, RejectedUpdate,
    Said,
};
pub(crate) use refusal::Row;
pub use refusal::{Limited, Recorded, Refusal};
pub use registry::quotas::Quotas;
pub use registry::{DEFAULT_DOMAIN, Domain, RegisteredType, Registry, TYPES_MAX, TypeKind, split_type_name, type_name};
pub use riders::query::{Answered, Ask};
pub use riders::update::{Update, Updated};
pub use run::delete::Deletion;
pub use run::reset::{Reset, WasReset};
pub use schedules::{ScheduleRow, ScheduleView};
pub use tasks::polls::Poll;
pub use tasks::{ActivityTask, DeciderTask, Delivery, Question, Receipt};
pub use time::guard::{CLOCK_AHEAD_MAX, Doubt};
pub(crate) use token::TOKEN_CHARS_MAX;
pub use token::secrets::{Rotated, SECRET_OVERLAP, SECRET_OVERLAP_MAX};
pub use token::{ActivityToken, TurnToken};
pub use views::fsck::{Finding, FsckReport};

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

/// See the module. Always behind an [`Arc`].
pub struct Engine {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    limits: store::Limits,
    ids: clock::Ids,
    mint: Arc<token::Mint>,
    secrets: token::secrets::SecretKeeper,
    reader: commit::read::Reader,
    marks: registry::known::Marks,
    registry: Arc<Registry>,
    cache: run::cache::Cache,
    matching: Arc<lists::Matching>,
    backlog: lists::backlog::Backlog,
    nodes: Arc<nodes::Nodes>,
    elsewhere: Arc<lists::elsewhere::Elsewhere>,
    polls: tasks::polls::Polls,
    pollers: lists::pollers::Pollers,
    agenda: time::agenda::Agenda,
    watchers: watch::Watchers,
    riders: riders::waiting::Riders,
    metrics: Arc<Metrics>,
    budget: Arc<Budget>,
    shares: Arc<Shares>,
    places: Arc<Places>,
    reloads: Reloads,
    /// Of the listener, where it has TLS.
    tls: OnceLock<Arc<TlsStanding>>,
    /// Of the audit log, where there is one.
    audit: OnceLock<Arc<audit::Counts>>,
    open_runs: Arc<registry::quotas::OpenRuns>,
    run_counts: Arc<registry::run_counts::RunCounts>,
    guard: time::guard::Guard,
    /// Who calls functions is told the domains in which Lambda tasks wait.
    lambda: OnceLock<UnboundedSender<Arc<str>>>,
    /// How often the due index was read.
    rescans: AtomicU32,
    background: Arc<Background>,
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
            engine.nodes.beat().await?;
        }
        if let Err(refusal) = engine.guard.believed_now().await {
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
        let secrets = token::secrets::secrets(&*store, settings.seed).await?;
        let ids = clock::Ids::new(settings.seed);
        let records = registry::Records::new(Arc::clone(&store));
        let nodes = Arc::new(nodes::Nodes::new(records.clone(), settings.node, ids.op()));
        let shares = Arc::<Shares>::default();
        let metrics = Arc::new(Metrics::new(shares.counts()));
        let registry = Arc::new(Registry::new(Arc::clone(&store), Arc::clone(&clock), Arc::clone(&nodes)));
        let agenda = time::agenda::Agenda::new(nodes.is_shared().then_some(time::sweep::RESCAN_EVERY));
        let mint = Arc::new(token::Mint::new(Arc::clone(&clock), &secrets));
        let (matching, elsewhere) = (Arc::new(lists::Matching::new(settings.waiting)), Arc::default());
        let background = Background::new();
        Ok(Arc::new(Self {
            limits,
            ids,
            secrets: token::secrets::SecretKeeper::new(
                records.clone(),
                Arc::clone(&clock),
                Arc::clone(&nodes),
                Arc::clone(&mint),
            ),
            pollers: lists::pollers::Pollers::new(
                Arc::clone(&clock),
                Arc::clone(&shares),
                Arc::clone(&matching),
                Arc::clone(&elsewhere),
            ),
            open_runs: Arc::new(registry::quotas::OpenRuns::new(
                Arc::clone(&store),
                Arc::clone(&shares),
                settings.quotas,
            )),
            run_counts: Arc::new(registry::run_counts::RunCounts::new(
                Arc::clone(&store),
                Arc::clone(&clock),
                Arc::clone(&registry),
                Arc::clone(&background),
            )),
            guard: time::guard::Guard::new(records, Arc::clone(&clock)),
            nodes,
            elsewhere,
            polls: tasks::polls::Polls::default(),
            mint,
            reader: commit::read::Reader::new(Arc::clone(&store)),
            marks: registry::known::Marks::new(Arc::clone(&store), Arc::clone(&clock), Arc::clone(&metrics)),
            registry,
            cache: run::cache::Cache::new(settings.cache_bytes),
            matching,
            backlog: lists::backlog::Backlog::new(settings.waiting),
            agenda,
            watchers: watch::Watchers::default(),
            riders: riders::waiting::Riders::default(),
            metrics,
            shares,
            budget: Budget::new(settings.bytes_in_flight_max),
            places: Places::new(settings.requests_at_once),
            reloads: Reloads::default(),
            tls: OnceLock::new(),
            audit: OnceLock::new(),
            lambda: OnceLock::new(),
            rescans: AtomicU32::new(0),
            background,
            store,
            clock,
        }))
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
        let gauges = metrics_page::Gauges {
            cached_runs,
            cached_bytes,
            agenda: self.agenda.len(),
            watched_runs: self.watchers.len(),
            askers: self.riders.askers(),
            updates: self.riders.updates(),
            bytes_in_flight: self.budget.taken(),
            requests_put_off: self.budget.put_off(),
            waits: self.places.waits(),
            lists: metrics_page::shown(self.matching.depths()),
            store: self.store.stats(),
            runs: self.run_counts.gauged(),
            is_clock_doubted: self.guard.doubt().is_some(),
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
        self.background.stop();
        self.watchers.close();
    }

    /// Whether [`begin_shutdown`](Self::begin_shutdown) was called.
    pub fn is_stopping(&self) -> bool {
        self.background.is_stopping()
    }

    /// Ends every wait, waits for what is under way, then closes the store.
    ///
    /// # Errors
    ///
    /// When the store could not finish what it had begun.
    pub async fn shutdown(&self) -> Result<(), Refusal> {
        self.begin_shutdown();
        if let Err(refusal) = self.nodes.leave().await {
            tracing::warn!(%refusal, "the other nodes could not be told that this one stops");
        }
        self.background.finish().await;
        Ok(self.store.close().await?)
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

    /// What programs over SWF's wire are held to, if anything.
    pub fn quotas(&self) -> Option<&Quotas> {
        self.open_runs.quotas()
    }

    /// Holds a poll over SWF's wire to how many may wait on its list.
    ///
    /// # Errors
    ///
    /// [`Refusal::LimitExceeded`].
    pub fn must_have_room_for_poller(&self, domain: &str, list: &str, is_decider: bool) -> Result<(), Refusal> {
        let list = ListKey::new(domain, is_decider, list);
        match self.quotas().map(|quotas| quotas.pollers).filter(|max| self.matching.pollers(&list) >= *max) {
            Some(max) => Err(Refusal::LimitExceeded { what: Limited::Pollers, max }),
            None => Ok(()),
        }
    }

    /// Holds a registration over SWF's wire to how many domains there may be.
    ///
    /// # Errors
    ///
    /// [`Refusal::LimitExceeded`], or the store's.
    pub async fn must_have_room_for_domain(&self) -> Result<(), Refusal> {
        match self.quotas() {
            Some(quotas) if self.registry.domains().await?.len() >= quotas.domains => {
                Err(Refusal::LimitExceeded { what: Limited::Domains, max: quotas.domains })
            }
            _ => Ok(()),
        }
    }

    /// Lists on which tasks of a run wait and nobody polls.
    pub fn unpolled(&self, domain: &Arc<str>, run: &Run) -> Vec<Unpolled> {
        self.pollers.unpolled(domain, run)
    }

    /// Lists of a domain on which tasks wait at this node and nobody polls: some of them, where there are very many lists.
    pub fn unpolled_lists(&self, domain: &str) -> Vec<Unpolled> {
        self.pollers.unpolled_lists(domain)
    }

    /// Counts what is open and how it stands, if that was not done a moment ago. Where it takes long, it goes on when this
    /// has ended, and [`render_metrics`](Self::render_metrics) tells what was counted before; likewise where the store cannot
    /// be read.
    pub async fn count_runs(&self) {
        self.run_counts.refresh().await;
    }

    /// How many runs a list would have; stops counting when there are `at_most`, or some more.
    ///
    /// # Errors
    ///
    /// As for [`list`](Self::list).
    pub async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Refusal> {
        self.registry.must_know(&query.domain).await?;
        Ok(self.store.count(query, at_most).await?)
    }

    /// Whether this is one of several nodes over one store.
    pub fn is_node(&self) -> bool {
        self.nodes.is_shared()
    }

    /// Addresses of all nodes that are alive, and this one's; none when the store is not shared.
    pub fn nodes_alive(&self) -> Vec<String> {
        self.nodes.alive()
    }

    /// Why the clock is not believed, and nothing is deleted by retention; `None` where it is.
    pub fn clock_doubt(&self) -> Option<Doubt> {
        self.guard.doubt()
    }

    /// Believes the clock as it is now; answers what it says.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn confirm_clock(&self) -> Result<Timestamp, Refusal> {
        self.guard.confirm().await
    }

    /// Makes another secret, which task tokens and the pass of nodes are made with from now on, where there are several nodes
    /// a little later. What was made before is good for the overlap, [`SECRET_OVERLAP`] unless given, and at most as long as
    /// an earlier rotation has said.
    ///
    /// # Errors
    ///
    /// [`Refusal::LimitExceeded`] where too many secrets are good still, a fault for an overlap that is too long, or the
    /// store's. Nothing was recorded, but for [`Refusal::OutcomeUnknown`].
    pub async fn rotate_secret(&self, overlap: Option<Duration>) -> Result<Rotated, Refusal> {
        self.secrets.rotate(overlap).await
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
