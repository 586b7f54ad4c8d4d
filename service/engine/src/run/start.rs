//! Starts runs. Also handles workflow ids that are already in use, signals and updates that are sent with a start, and
//! successors of runs.

use history::admit::{Starting, is_cancel_request, starting, starting_for};
use history::{
    ActivityDefaults, Author, Command, Event, EventKind, Fault, PlannedReset, Registration, RequestKey, Run, Start,
    StartActivity, StartWorkflow, Successor, Transition, WorkflowDefaults,
};
use store::HeadKey;

use crate::TypeKind;
use crate::base::admission::open_runs::RunPermit;
use crate::commit::StoredRun;
use crate::lists::sync_match::waiting_turn;
use crate::riders::submitted::SubmittedUpdate;
use crate::run::context::RunContext;
use crate::run::worker::RunWorker;
use crate::{EventRange, Refusal, Registry, Started};

/// Recorded reason for the termination of a run that a new start replaces.
const REPLACED: &str = "replaced by a new start";

/// Returns the parameters of the start that a request body describes. Missing fields get the defaults of the domain and
/// the workflow type.
pub(crate) async fn start_of(
    registry: &Registry,
    domain: &str,
    start: StartWorkflow,
    key: Option<RequestKey>,
) -> Result<Start, Refusal> {
    let retention = match start.retention {
        Some(retention) => retention,
        None => registry.domain(domain).await?.retention,
    };
    let registration: Registration<WorkflowDefaults> = registry.registration(domain, &start.workflow_type).await?;
    if registration == Registration::Deprecated {
        return Err(Refusal::TypeDeprecated { kind: WorkflowDefaults::WORD, name: start.workflow_type });
    }
    Ok(start.with_defaults(registration.defaults().cloned().unwrap_or_default(), retention, key))
}

/// Returns the parameters of the start of a run that consists of a single activity. Missing fields get the defaults of
/// the domain and the activity type.
pub(crate) async fn start_of_activity(
    registry: &Registry,
    (domain, list): (&str, &str),
    start: StartActivity,
    workflow_id: impl FnOnce() -> String,
    key: Option<RequestKey>,
) -> Result<Start, Refusal> {
    let retention = registry.domain(domain).await?.retention;
    let registration: Registration<ActivityDefaults> = registry.registration(domain, &start.activity_type).await?;
    if registration == Registration::Deprecated {
        return Err(Refusal::TypeDeprecated { kind: ActivityDefaults::WORD, name: start.activity_type });
    }
    let registered = registration.defaults().cloned().unwrap_or_default();
    Ok(start.with_defaults(list, &registered, retention, workflow_id, key))
}

impl RunWorker<'_> {
    /// Starts a run. If an update is sent with the start, adds the update before a poller can take the first turn.
    pub(crate) async fn run_start(
        &mut self,
        start: &Start,
        mut update: Option<&mut SubmittedUpdate>,
    ) -> Result<Started, Refusal> {
        let (context, key) = (self.context, self.key);
        let mut attempt = 0;
        let author = Author::of_start(start);
        // If the new run replaces an open run, it needs no additional capacity in its domain or on the disk.
        let (mut room, mut replaces) = (None, false);
        loop {
            let before = self.state.was_cached();
            Box::pin(self.start_successor()).await?;
            let now = context.clock.now();
            let run_id = context.ids.run_id(now);
            let mut existing = self.loaded().await?.map(|loaded| loaded.run().clone());
            let starting = context.starting(key, existing.as_mut(), start, update.as_deref()).await?;
            // An error or an "already running" response must not be based on a cached state.
            let needs_proof = match &starting {
                Err(fault) => fault.depends_on_state(),
                Ok(Starting::Existing { .. }) => start.signal.is_none(),
                Ok(Starting::New | Starting::Repeated { .. } | Starting::TerminateFirst) => false,
            };
            if needs_proof && self.state.invalidate_if_served_from_cache(before) {
                continue;
            }
            match (starting?, existing) {
                (Starting::Repeated { run_id }, _) => {
                    return Ok(Started { run_id, repeated: true, existing: false });
                }
                (Starting::Existing { run_id }, Some(run)) => {
                    let told = signal_of(start);
                    if told.is_none()
                        || self.run_command(run, told.as_ref().map(|it| (it, &author)), &mut attempt).await?
                    {
                        return Ok(Started { run_id, repeated: false, existing: true });
                    }
                    continue;
                }
                (Starting::TerminateFirst, Some(run)) => {
                    let terminate = Command::Terminate {
                        reason: Some(REPLACED.to_owned()),
                        details: None,
                        identity: start.identity.clone(),
                        key: None,
                        child_policy: None,
                    };
                    // If another command has closed the run in the meantime, the next iteration finds the closed run.
                    self.run_command(run, Some((&terminate, &author)), &mut attempt).await?;
                    replaces = true;
                    continue;
                }
                (Starting::New | Starting::Existing { .. } | Starting::TerminateFirst, _) => {}
            }
            let mut transition = Transition::start(&context.traces.rooted(start, run_id), run_id, now)?;
            if room.is_none() && !replaces {
                room = context.room_for(&key.domain, start, update.is_some()).await?;
            }
            if let Some(earlier) = self.state.known() {
                earlier.hand_over(&mut transition, context.marks.past());
            }
            if let Some(update) = update.as_deref_mut() {
                update.put_ahead(&context.riders, key, run_id, context.clock.now())?;
            }
            let written = self.write(transition, 0, 0, &mut attempt).await;
            if let Ok(Some(())) = written {
                if let Some(room) = room {
                    room.began();
                }
                return Ok(Started { run_id, repeated: false, existing: false });
            }
            if let Some(update) = update.as_deref_mut() {
                update.take_back(&context.riders, key);
            }
            written?;
        }
    }

    /// If a run has continued as new, is retried or was reset, starts its successor, unless the successor has already
    /// started. Until the successor has started, the workflow id counts as in use, and every request to the run starts
    /// the successor first.
    pub(crate) async fn start_successor(&mut self) -> Result<(), Refusal> {
        let (context, key) = (self.context, self.key);
        let mut attempt = 0;
        loop {
            let Some(loaded) = self.loaded().await? else { return Ok(()) };
            if !loaded.has_successor() {
                return Ok(());
            }
            let newest = EventRange { reverse: true, limit: 1, ..EventRange::default() };
            let closing = context.reader.read_page(key, loaded, &newest).await?.events.pop();
            let planned = loaded.body.links.reset.as_deref().cloned();
            let planned = planned.or_else(|| closing.as_ref().and_then(PlannedReset::of));
            let (run, now) = (loaded.run(), context.clock.now());
            let by = closing.as_ref().and_then(|event| event.by.clone());
            let asked = if planned.is_none() { context.cancel_request(key, loaded).await? } else { None };
            let asked = asked.as_ref();
            let mut transition = match (planned, closing.map(|event| event.kind)) {
                (Some(reset), _) => context.branch(key, loaded, &reset).await?,
                (None, Some(EventKind::WorkflowContinuedAsNew(it))) => Transition::successor(run, &it, by, asked, now),
                (None, closing) => {
                    let followed_by = closing.and_then(|closing| closing.followed_by());
                    let Some(Successor { run_id, not_before }) = followed_by else {
                        let what = format!("the last event of run {} names no successor", run.started.run_id);
                        return Err(Refusal::Corrupt { what });
                    };
                    let first = EventRange { limit: 1, ..EventRange::default() };
                    let first = context.reader.read_page(key, loaded, &first).await?.events.pop();
                    let input = first.and_then(|first| first.kind.payload().cloned());
                    Transition::retry(run, run_id, input, not_before.unwrap_or(now), asked, now)
                }
            };
            loaded.hand_over(&mut transition, context.marks.past());
            if self.write(transition, 0, 0, &mut attempt).await?.is_some() {
                return Ok(());
            }
        }
    }

    /// Admits a command in this state of a run and commits the result. Returns false if nothing was committed because
    /// the store may have a newer state. The caller must then read the newer state and admit the command in it.
    pub(crate) async fn run_command(
        &mut self,
        run: Run,
        told: Option<(&Command, &Author)>,
        attempt: &mut u32,
    ) -> Result<bool, Refusal> {
        let context = self.context;
        let (last_event_id, waiting_turn) = (run.last_event_id, waiting_turn(&run));
        let Some(loaded) = self.state.known() else { return Ok(false) };
        let mut transition = Transition::linked(run, loaded.body.links.clone());
        if let Some((command, author)) = told
            && transition.repeated(command, None).is_none()
        {
            transition.admit_as(command, author, context.clock.now())?;
        }
        Ok(self.write(transition, last_event_id, waiting_turn, attempt).await?.is_some())
    }
}

impl RunContext {
    /// Returns the newest cancel request of a run; `None` if there is none.
    async fn cancel_request(&self, key: &HeadKey, loaded: &StoredRun) -> Result<Option<Event>, Refusal> {
        if !loaded.run().cancel_requested {
            return Ok(None);
        }
        let mut range = EventRange { reverse: true, ..EventRange::default() };
        loop {
            let page = self.reader.read_page(key, loaded, &range).await?;
            if let Some(found) = page.events.into_iter().find(is_cancel_request) {
                return Ok(Some(found));
            }
            match page.next {
                Some(before) => range.before = Some(before),
                None => return Ok(None),
            }
        }
    }

    /// Reserves capacity for another run in its domain and checks the free disk space. If there is too little disk
    /// space, counts the error in metrics. Does not count it for an update, because errors of updates are counted
    /// elsewhere.
    async fn room_for(&self, domain: &str, start: &Start, is_for_update: bool) -> Result<Option<RunPermit>, Refusal> {
        if let Err(refusal) = self.disk.must_have_room() {
            if !is_for_update {
                self.metrics.refused(refusal.code());
            }
            return Err(refusal);
        }
        self.open_runs.room_for(domain, start).await
    }

    /// Decides how a start is handled, after reading all records of its idempotency key. A start is a repetition only
    /// if the run that was started with this key still exists.
    async fn starting(
        &self,
        key: &HeadKey,
        mut existing: Option<&mut Run>,
        start: &Start,
        update: Option<&SubmittedUpdate>,
    ) -> Result<Result<Starting, Fault>, Refusal> {
        let judge = |existing: Option<&Run>| match update {
            Some(update) => starting_for(existing, start, &update.asked),
            None => starting(existing, start),
        };
        let requests = start.requests(update.map(|update| update.asked.update_id.as_str()));
        if let Some(run) = &mut existing {
            self.marks.recall(key, run, &requests).await?;
        }
        let starting = judge(existing.as_deref());
        if let (Ok(Starting::Repeated { run_id }), Some(run)) = (&starting, existing)
            && *run_id != run.started.run_id
            && self.store.load_run(key, *run_id.as_bytes()).await?.is_none()
        {
            for request in requests {
                run.forget_request(request);
            }
            return Ok(judge(Some(run)));
        }
        Ok(starting)
    }
}

/// Returns the signal that is sent with a start. If a run is open, the signal is sent to this run.
fn signal_of(start: &Start) -> Option<Command> {
    let signal = start.signal.clone()?;
    let (name, input, identity, key) = (signal.name, signal.input, start.identity.clone(), start.key);
    Some(Command::Signal { name, input, identity, key, if_version: None })
}
