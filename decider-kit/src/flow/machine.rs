//! The machine: runs a flow along a history.
//!
//! The code runs for *completed turns* and for the turn to be decided now. A lost turn (timed out or given back) leaves
//! no trace. For each turn, the machine delivers the events up to the turn's DeciderStarted to the code, one at a time
//! and in order. After each event it polls the code until the code waits. A flow therefore depends only on its history.
//! It does not depend on where windows began, or on whether its state was cached or rebuilt.
//!
//! When a turn is replayed, its recorded markers are known before the code runs, so that side effects can be read back.
//! Afterwards the n-th decision of the code must match the n-th recorded decision.

use std::collections::VecDeque;
use std::sync::Arc;

use baton_history::event::WorkflowStarted;
use baton_history::{
    Decision, Event, EventId, EventKind, Level, Payload, RecordMarker, Timestamp, UpdateAnswer, Verdict,
};

use super::context::Context;
use super::core::{RecordedMarkers, RunIdentity, ScopeNode, Shared, WaitTarget, cancel, lock};
use super::error::FlowError;
use super::executor::{Code, WakeFlag, guarded, poll_until_quiet};
use super::matching::{describe, describe_event, matches};
use super::updates::{UpdateMismatch, accepted, is_about_update};
use crate::ended::Ended;
use crate::update::{Rejection, Update};

/// Function that creates the code of a run from its input.
pub(super) type Begin = dyn Fn(Context, Option<&Payload>) -> Result<Code, serde_json::Error> + Send + Sync;

/// Decisions of a turn, the signals that the flow awaits after it, and the answers to updates.
pub(super) struct TurnDecided {
    pub(super) decisions: Vec<Decision>,
    pub(super) awaiting: Vec<String>,
    pub(super) update_answers: Vec<UpdateAnswer>,
}

/// Updates of a turn.
#[derive(Clone, Copy)]
pub(super) enum TurnUpdates<'a> {
    /// Updates to judge now.
    Judge(&'a [Update]),
    /// Updates accepted when the turn was first decided.
    Recorded(&'a [Update]),
}

/// Content of an event that the code receives.
enum CodeNews {
    Started(Box<WorkflowStarted>),
    Ended(Ended),
    Signal { name: String, input: Option<Payload> },
    CancelRequested { reason: Option<String> },
    CloseFailed,
}

impl CodeNews {
    /// If this event ends a step, returns the id of the event that scheduled the step.
    fn ends(&self) -> Option<EventId> {
        match self {
            Self::Ended(ended) => ended.scheduled_event_id(),
            Self::Started(_) | Self::Signal { .. } | Self::CancelRequested { .. } | Self::CloseFailed => None,
        }
    }
}

/// A completed turn whose decisions are still being collected.
struct CompletedTurn {
    started_event_id: EventId,
    completed_event_id: EventId,
    events: Vec<Event>,
}

/// Code of a flow, and its position in the history.
#[derive(Default)]
pub(super) struct Machine {
    pub(super) core: Shared,
    root: Arc<ScopeNode>,
    code: Option<Code>,
    wake_flag: Arc<WakeFlag>,
    /// Decision with which the code ended.
    closing: Option<Decision>,
    news: VecDeque<(EventId, CodeNews)>,
    /// Id and time of the newest DeciderStarted event.
    started: Option<(EventId, Timestamp)>,
    /// Id of the DeciderStarted event of a turn that the code has run, if the turn's decisions have not been compared
    /// with the history yet.
    ran: Option<EventId>,
    batch: Option<CompletedTurn>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The code is dropped first, because it refers to the core. Then the closures are dropped, because they may
        // refer to the core that contains them. Panics of these drops are ignored.
        let code = self.code.take();
        drop(guarded(|| drop(code)));
        let (queries, validators) = {
            let mut core = lock(&self.core);
            (std::mem::take(&mut core.queries), core.updates.validators())
        };
        drop(guarded(|| drop((queries, validators))));
    }
}

impl Machine {
    /// Returns the error that prevents the flow from continuing.
    pub(super) fn error(&self) -> Option<FlowError> {
        lock(&self.core).error.clone()
    }

    fn record_error(&self, error: FlowError) {
        lock(&self.core).record_error(error);
    }

    /// Applies one event.
    pub(super) fn evolve(&mut self, begin: &Begin, event: &Event) {
        if lock(&self.core).error.is_some() {
            return;
        }
        if let Some(batch) = &mut self.batch {
            if event.kind.level() == Level::Decider {
                batch.events.push(event.clone());
            } else if !is_canceled_unstarted(&event.kind) {
                self.settle(begin);
            }
        }
        match &event.kind {
            EventKind::DeciderStarted(_) => self.started = Some((event.id, event.timestamp)),
            EventKind::DeciderCompleted(it) => {
                let (started_event_id, completed_event_id) = (it.started_event_id, event.id);
                self.batch = Some(CompletedTurn { started_event_id, completed_event_id, events: Vec::new() });
            }
            EventKind::DeciderTimedOut(it) => self.check_turn_not_run(it.started_event_id),
            EventKind::DeciderFailed(it) => self.check_turn_not_run(Some(it.started_event_id)),
            kind => {
                if let Some(news) = news(kind) {
                    self.news.push_back((event.id, news));
                }
            }
        }
    }

    /// Records an error if the code has already run this lost turn. Code cannot be rolled back, so the host must drop
    /// the state of a lost turn.
    fn check_turn_not_run(&self, lost: Option<EventId>) {
        if let (Some(ran), Some(lost)) = (self.ran, lost)
            && ran == lost
        {
            self.record_error(FlowError::RanAhead { ran });
        }
    }

    /// Finishes a completed turn once all its decisions are known: runs the turn if the code has not run it yet, and
    /// compares the decisions.
    pub(super) fn settle(&mut self, begin: &Begin) {
        let Some(batch) = self.batch.take() else { return };
        if self.ran != Some(batch.started_event_id) {
            self.run(begin, Some(recorded_markers(&batch.events)), TurnUpdates::Recorded(&accepted(&batch.events)));
        }
        self.ran = None;
        if self.error().is_none()
            && let Err(mismatch) = self.compare(&batch)
        {
            self.record_error(mismatch);
        }
        self.check_for_deadlock();
    }

    /// Decides the newest turn, unless the code has already run it. `recorded_markers` is set if the turn was already
    /// decided.
    pub(super) fn decide(
        &mut self,
        begin: &Begin,
        recorded_markers: Option<RecordedMarkers>,
        updates: &[Update],
    ) -> Result<TurnDecided, FlowError> {
        self.settle(begin);
        if self.ran.is_none() && self.error().is_none() {
            self.run(begin, recorded_markers, TurnUpdates::Judge(updates));
            self.check_for_deadlock();
        }
        let core = lock(&self.core);
        match &core.error {
            Some(error) => Err(error.clone()),
            None => {
                let decisions = core.issued.iter().map(|issued| issued.decision.clone()).collect();
                let (awaiting, update_answers) = (core.awaiting(), core.updates.answers().to_vec());
                Ok(TurnDecided { decisions, awaiting, update_answers })
            }
        }
    }

    /// Runs the code for the newest turn.
    fn run(&mut self, begin: &Begin, recorded_markers: Option<RecordedMarkers>, updates: TurnUpdates<'_>) {
        let Some((started_event_id, now)) = self.started else {
            self.record_error(FlowError::NoBeginning);
            return;
        };
        self.ran = Some(started_event_id);
        {
            let mut core = lock(&self.core);
            core.now = now;
            core.recorded_markers = recorded_markers;
            core.is_running = true;
            core.updates.begin_turn();
            let news = self.news.iter().take_while(|(event_id, _)| *event_id < started_event_id);
            core.ends = news.filter_map(|(_, news)| news.ends()).collect();
        }
        while let Some((event_id, _)) = self.news.front()
            && *event_id < started_event_id
            && self.error().is_none()
        {
            if let Some((event_id, news)) = self.news.pop_front() {
                self.deliver(begin, event_id, news);
                self.poll();
            }
        }
        self.deliver_updates(updates);
        let mut core = lock(&self.core);
        core.is_running = false;
        core.recorded_markers = None;
        if self.code.is_none() && self.closing.is_none() {
            core.record_error(FlowError::NoBeginning);
        }
    }

    /// Delivers updates to the code one after the other, so that each update is judged after the effects of the
    /// previous updates.
    fn deliver_updates(&mut self, turn_updates: TurnUpdates<'_>) {
        let (updates, judges) = match turn_updates {
            TurnUpdates::Judge(updates) => (updates, true),
            TurnUpdates::Recorded(updates) => (updates, false),
        };
        for update in updates {
            if self.error().is_some() {
                return;
            }
            if judges && let Err(Rejection { reason, details }) = self.judge(update) {
                lock(&self.core).updates.answer(update.id.clone(), Verdict::Rejected { reason, details });
                continue;
            }
            let wakers = {
                let mut core = lock(&self.core);
                core.updates.answer(update.id.clone(), Verdict::Later);
                core.updates.deliver(update);
                core.wake_for_update(&update.name)
            };
            wakers.into_iter().for_each(std::task::Waker::wake);
            self.poll();
        }
    }

    /// Judges an update with the current code. Code that has ended rejects every update.
    pub(super) fn judge(&self, update: &Update) -> Result<(), Rejection> {
        if self.code.is_none() {
            return Err(Rejection::new("flow-has-ended"));
        }
        let validator = lock(&self.core).updates.validator(&update.name)?;
        guarded(|| validator(update.input.as_ref())).unwrap_or_else(|error| {
            // A panicking validator rejects the update and does not affect the run.
            Err(Rejection::of("validator-panicked", &error.to_string()))
        })
    }

    fn poll(&mut self) {
        let Some(code) = &mut self.code else { return };
        match poll_until_quiet(code, &self.wake_flag) {
            Err(error) => self.record_error(error),
            Ok(None) => {}
            Ok(Some(ended)) => {
                let code = self.code.take();
                if let Err(error) = guarded(|| drop(code)) {
                    self.record_error(error);
                }
                let closing = match ended {
                    Ok(result) => baton_history::SucceedWorkflow { result: Some(result), force: false }.into(),
                    Err(failure) => failure.closing(),
                };
                lock(&self.core).issue(closing.clone(), None);
                self.closing = Some(closing);
            }
        }
    }

    fn check_for_deadlock(&self) {
        let mut core = lock(&self.core);
        if self.code.is_some() && !core.is_waited_for() {
            let open = core.open();
            core.record_error(FlowError::Deadlock { open });
        }
    }

    /// Delivers one event to the code.
    fn deliver(&mut self, begin: &Begin, event_id: EventId, news: CodeNews) {
        match news {
            CodeNews::Started(it) => self.begin(begin, event_id, &it),
            CodeNews::Ended(Ended::Scheduled { scheduled_event_id, outcome }) => {
                let waker = lock(&self.core).resolve(scheduled_event_id, event_id, |_| outcome);
                waker.into_iter().for_each(std::task::Waker::wake);
            }
            CodeNews::Ended(Ended::Activity { scheduled_event_id, unsuccessful }) => {
                let outcome = |on: &WaitTarget| {
                    let (activity_id, activity_type) = match on {
                        WaitTarget::Activity { activity_id, activity_type, .. } => {
                            (activity_id.clone(), activity_type.clone())
                        }
                        WaitTarget::Timer { .. }
                        | WaitTarget::Child { .. }
                        | WaitTarget::External { .. }
                        | WaitTarget::Signal { .. }
                        | WaitTarget::Update { .. }
                        | WaitTarget::Cancel => <_>::default(),
                    };
                    Err(unsuccessful.of(activity_id, activity_type))
                };
                let waker = lock(&self.core).resolve(scheduled_event_id, event_id, outcome);
                waker.into_iter().for_each(std::task::Waker::wake);
            }
            CodeNews::Ended(Ended::NotScheduled(failure)) => {
                // The event of the failed decision replaces the missing scheduling event.
                let waker = lock(&self.core).resolve(event_id, event_id, |_| Err(failure));
                waker.into_iter().for_each(std::task::Waker::wake);
            }
            CodeNews::Signal { name, input } => {
                let wakers = lock(&self.core).signal(event_id, &name, input);
                wakers.into_iter().for_each(std::task::Waker::wake);
            }
            CodeNews::CancelRequested { reason } => cancel(&self.core, &self.root, reason),
            CodeNews::CloseFailed => {
                // The code has ended and will not process the events that prevented the close, so the close is forced.
                if let Some(closing) = &self.closing {
                    lock(&self.core).issue(forced(closing.clone()), None);
                }
            }
        }
    }

    fn begin(&mut self, begin: &Begin, event_id: EventId, started: &WorkflowStarted) {
        lock(&self.core).identity = RunIdentity {
            workflow_id: started.workflow_id.clone(),
            run_id: started.run_id,
            workflow_type: started.workflow_type.clone(),
            parent: started.parent.clone(),
        };
        let context = Context::new(Arc::clone(&self.core), Arc::clone(&self.root));
        match guarded(|| begin(context, started.input.as_ref())) {
            Ok(Ok(code)) => self.code = Some(code),
            Ok(Err(error)) => {
                let (what, error) = ("the run's input".to_owned(), error.to_string());
                self.record_error(FlowError::Unreadable { event_id, what, error });
            }
            Err(error) => self.record_error(error),
        }
    }

    /// Compares the code's decisions with the recorded decisions, and connects the waits with their events.
    fn compare(&self, batch: &CompletedTurn) -> Result<(), FlowError> {
        let mut core = lock(&self.core);
        let mut issued = std::mem::take(&mut core.issued).into_iter();
        if let Some(UpdateMismatch { event_id, expected, found }) = core.updates.differs(&batch.events) {
            return Err(FlowError::Mismatch {
                event_id: event_id.unwrap_or(batch.completed_event_id),
                expected,
                found,
            });
        }
        for event in batch.events.iter().filter(|event| !is_about_update(event)) {
            let next = issued.next();
            let found = match &next {
                Some(issued) if matches(&issued.decision, &event.kind) => {
                    if let Some(key) = issued.key {
                        core.bind(key, event.id);
                    }
                    continue;
                }
                Some(issued) => describe(&issued.decision),
                None => "no further decision in this turn".to_owned(),
            };
            return Err(FlowError::Mismatch { event_id: event.id, expected: describe_event(&event.kind), found });
        }
        match issued.next() {
            None => Ok(()),
            Some(issued) => {
                let event_id = batch.events.last().map_or(batch.completed_event_id, |event| event.id);
                let last =
                    batch.events.last().map_or("DeciderCompleted".to_owned(), |event| describe_event(&event.kind));
                let expected = format!("{last}, the last decision of its turn");
                Err(FlowError::Mismatch { event_id, expected, found: describe(&issued.decision) })
            }
        }
    }
}

fn forced(mut closing: Decision) -> Decision {
    match &mut closing {
        Decision::SucceedWorkflow(it) => it.force = true,
        Decision::FailWorkflow(it) => it.force = true,
        Decision::CancelWorkflow(it) => it.force = true,
        Decision::ContinueAsNew(it) => it.force = true,
        Decision::ScheduleActivity(_)
        | Decision::CancelActivity(_)
        | Decision::StartTimer(_)
        | Decision::CancelTimer(_)
        | Decision::RecordMarker(_)
        | Decision::StartChild(_)
        | Decision::SignalExternal(_)
        | Decision::CancelExternal(_) => {}
    }
    closing
}

/// Returns whether this event cancels an activity before a runner took it. Such an event is recorded among the events
/// of a turn's decisions.
pub(crate) fn is_canceled_unstarted(kind: &EventKind) -> bool {
    matches!(kind, EventKind::ActivityCanceled(it) if it.started_event_id.is_none())
}

/// Returns the recorded markers of a turn, which must be known before the code runs.
fn recorded_markers(events: &[Event]) -> RecordedMarkers {
    let marker = |event: &Event| {
        let EventKind::Marker(it) = &event.kind else { return None };
        Some(RecordMarker { name: it.name.clone(), details: it.details.clone() })
    };
    events.iter().filter_map(marker).collect()
}

/// Returns the content of an event that the code receives, or `None` if the code does not receive the event.
fn news(kind: &EventKind) -> Option<CodeNews> {
    match kind {
        EventKind::WorkflowStarted(it) => Some(CodeNews::Started(it.clone())),
        EventKind::Signal(it) => Some(CodeNews::Signal { name: it.name.clone(), input: it.input.clone() }),
        EventKind::WorkflowCancelRequested(it) => Some(CodeNews::CancelRequested { reason: it.reason.clone() }),
        EventKind::WorkflowCloseFailed(_) => Some(CodeNews::CloseFailed),
        kind => Ended::of(kind).map(CodeNews::Ended),
    }
}
