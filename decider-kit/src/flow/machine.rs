//! Running a flow along a history.
//!
//! The code is run for *turns that were completed*, and for the one to be decided now; a turn that was lost (timed out,
//! given back) might as well never have been. For each turn the news up to its DeciderStarted is brought to the code one
//! event at a time, in order, and after each event the code is polled until it is quiet. So what a flow does depends on the
//! history alone: not on where windows began, nor on whether its state was at hand or made again.
//!
//! When a turn is run again, its recorded decisions are known before the code runs, so that side effects are read back;
//! afterwards the n-th decision issued must be the n-th recorded.

use std::collections::VecDeque;
use std::sync::Arc;

use baton_history::event::WorkflowStarted;
use baton_history::{
    Decision, Event, EventId, EventKind, Level, Payload, RecordMarker, Timestamp, UpdateAnswer, Verdict,
};

use super::context::Context;
use super::core::{About, Foreseen, On, ScopeNode, Shared, cancel, lock};
use super::executor::{Bell, Code, guarded, poll_until_quiet};
use super::matching::{matches, told, told_event};
use super::trouble::FlowError;
use super::updates::{accepted, is_about_update};
use crate::ended::Ended;
use crate::update::{Rejection, Update};

/// Makes the code of a run, given its input.
pub(super) type Begin = dyn Fn(Context, Option<&Payload>) -> Result<Code, serde_json::Error> + Send + Sync;

/// What a turn decides, what the flow then waits for, and what it says to updates.
type Decided = (Vec<Decision>, Vec<String>, Vec<UpdateAnswer>);

/// Updates of a turn.
#[derive(Clone, Copy)]
pub(super) enum TurnUpdates<'a> {
    /// To be judged now.
    Judge(&'a [Update]),
    /// Accepted when the turn was decided before.
    Recorded(&'a [Update]),
}

/// What happened that code may wait for.
enum CodeNews {
    Started(Box<WorkflowStarted>),
    Ended(Ended),
    Signal { name: String, input: Option<Payload> },
    CancelRequested { reason: Option<String> },
    CloseFailed,
}

impl CodeNews {
    /// What it ends, by the event that scheduled it.
    fn ends(&self) -> Option<EventId> {
        match self {
            Self::Ended(ended) => ended.scheduled_event_id(),
            Self::Started(_) | Self::Signal { .. } | Self::CancelRequested { .. } | Self::CloseFailed => None,
        }
    }
}

/// A completed turn, until all its decisions are known.
struct Batch {
    started_event_id: EventId,
    completed_event_id: EventId,
    events: Vec<Event>,
}

/// The code of a flow, and how far along its history it is.
#[derive(Default)]
pub(super) struct Machine {
    pub(super) core: Shared,
    root: Arc<ScopeNode>,
    code: Option<Code>,
    bell: Arc<Bell>,
    /// How the code ended.
    closing: Option<Decision>,
    news: VecDeque<(EventId, CodeNews)>,
    /// The newest DeciderStarted.
    started: Option<(EventId, Timestamp)>,
    /// The turn that the code has run, and whose decisions have not been held against the history yet.
    ran: Option<EventId>,
    batch: Option<Batch>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The code first, as it holds the core; then what may hold it in a circle. A panic in there concerns nobody.
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
    /// Whether it cannot go on.
    pub(super) fn trouble(&self) -> Option<FlowError> {
        lock(&self.core).trouble.clone()
    }

    fn in_trouble(&self, trouble: FlowError) {
        lock(&self.core).in_trouble(trouble);
    }

    /// Takes one more event.
    pub(super) fn evolve(&mut self, begin: &Begin, event: &Event) {
        if lock(&self.core).trouble.is_some() {
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
                self.batch = Some(Batch { started_event_id, completed_event_id, events: Vec::new() });
            }
            EventKind::DeciderTimedOut(it) => self.must_not_have_run(it.started_event_id),
            EventKind::DeciderFailed(it) => self.must_not_have_run(Some(it.started_event_id)),
            kind => {
                if let Some(news) = news(kind) {
                    self.news.push_back((event.id, news));
                }
            }
        }
    }

    /// Code cannot be taken back to before a turn: whoever keeps states drops those of lost turns.
    fn must_not_have_run(&self, lost: Option<EventId>) {
        if let (Some(ran), Some(lost)) = (self.ran, lost)
            && ran == lost
        {
            self.in_trouble(FlowError::RanAhead { ran });
        }
    }

    /// Ends the collecting of a completed turn's decisions: runs the turn, unless it has been, and holds what the code
    /// issued against them.
    pub(super) fn settle(&mut self, begin: &Begin) {
        let Some(batch) = self.batch.take() else { return };
        if self.ran != Some(batch.started_event_id) {
            self.run(begin, Some(foreseen(&batch.events)), TurnUpdates::Recorded(&accepted(&batch.events)));
        }
        self.ran = None;
        if self.trouble().is_none()
            && let Err(mismatch) = self.compare(&batch)
        {
            self.in_trouble(mismatch);
        }
        self.must_not_be_dead();
    }

    /// Decides the newest turn, unless it has been; what it decides, what it waits for, and what it says to updates.
    /// `foreseen` where it was decided before.
    pub(super) fn decide(
        &mut self,
        begin: &Begin,
        foreseen: Option<Foreseen>,
        updates: &[Update],
    ) -> Result<Decided, FlowError> {
        self.settle(begin);
        if self.ran.is_none() && self.trouble().is_none() {
            self.run(begin, foreseen, TurnUpdates::Judge(updates));
            self.must_not_be_dead();
        }
        let core = lock(&self.core);
        match &core.trouble {
            Some(trouble) => Err(trouble.clone()),
            None => {
                let decisions = core.issued.iter().map(|issued| issued.decision.clone()).collect();
                Ok((decisions, core.awaiting(), core.updates.said().to_vec()))
            }
        }
    }

    /// Runs the code for the newest turn.
    fn run(&mut self, begin: &Begin, foreseen: Option<Foreseen>, updates: TurnUpdates<'_>) {
        let Some((started_event_id, now)) = self.started else {
            self.in_trouble(FlowError::NoBeginning);
            return;
        };
        self.ran = Some(started_event_id);
        {
            let mut core = lock(&self.core);
            core.now = now;
            core.foreseen = foreseen;
            core.is_running = true;
            core.updates.begin_turn();
            let news = self.news.iter().take_while(|(event_id, _)| *event_id < started_event_id);
            core.ends = news.filter_map(|(_, news)| news.ends()).collect();
        }
        while let Some((event_id, _)) = self.news.front()
            && *event_id < started_event_id
            && self.trouble().is_none()
        {
            if let Some((event_id, news)) = self.news.pop_front() {
                self.bring(begin, event_id, news);
                self.poll();
            }
        }
        self.bring_updates(updates);
        let mut core = lock(&self.core);
        core.is_running = false;
        core.foreseen = None;
        if self.code.is_none() && self.closing.is_none() {
            core.in_trouble(FlowError::NoBeginning);
        }
    }

    /// Brings what is accepted to the code, one after the other, so that each is judged after what came before it.
    fn bring_updates(&mut self, asked: TurnUpdates<'_>) {
        let (updates, judges) = match asked {
            TurnUpdates::Judge(updates) => (updates, true),
            TurnUpdates::Recorded(updates) => (updates, false),
        };
        for update in updates {
            if self.trouble().is_some() {
                return;
            }
            if judges && let Err(Rejection { reason, details }) = self.judge(update) {
                lock(&self.core).updates.say(update.id.clone(), Verdict::Rejected { reason, details });
                continue;
            }
            let wakers = {
                let mut core = lock(&self.core);
                core.updates.say(update.id.clone(), Verdict::Later);
                core.updates.bring(update);
                core.wake_for_update(&update.name)
            };
            wakers.into_iter().for_each(std::task::Waker::wake);
            self.poll();
        }
    }

    /// Whether the code takes an update, as it is now. Code that has ended takes none.
    pub(super) fn judge(&self, update: &Update) -> Result<(), Rejection> {
        if self.code.is_none() {
            return Err(Rejection::new("flow-has-ended"));
        }
        let validator = lock(&self.core).updates.validator(&update.name)?;
        guarded(|| validator(update.input.as_ref())).unwrap_or_else(|trouble| {
            // The update's own trouble, not the run's.
            Err(Rejection::of("validator-panicked", &trouble.to_string()))
        })
    }

    fn poll(&mut self) {
        let Some(code) = &mut self.code else { return };
        match poll_until_quiet(code, &self.bell) {
            Err(trouble) => self.in_trouble(trouble),
            Ok(None) => {}
            Ok(Some(ended)) => {
                let code = self.code.take();
                if let Err(trouble) = guarded(|| drop(code)) {
                    self.in_trouble(trouble);
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

    fn must_not_be_dead(&self) {
        let mut core = lock(&self.core);
        if self.code.is_some() && !core.is_waited_for() {
            let open = core.open();
            core.in_trouble(FlowError::Deadlock { open });
        }
    }

    /// Brings one event to the code.
    fn bring(&mut self, begin: &Begin, event_id: EventId, news: CodeNews) {
        match news {
            CodeNews::Started(it) => self.begin(begin, event_id, &it),
            CodeNews::Ended(Ended::Scheduled { scheduled_event_id, outcome }) => {
                let waker = lock(&self.core).resolve(scheduled_event_id, event_id, |_| outcome);
                waker.into_iter().for_each(std::task::Waker::wake);
            }
            CodeNews::Ended(Ended::Activity { scheduled_event_id, unhappy }) => {
                let outcome = |on: &On| {
                    let (activity_id, activity_type) = match on {
                        On::Activity { activity_id, activity_type, .. } => (activity_id.clone(), activity_type.clone()),
                        On::Timer { .. }
                        | On::Child { .. }
                        | On::External { .. }
                        | On::Signal { .. }
                        | On::Update { .. }
                        | On::Cancel => <_>::default(),
                    };
                    Err(unhappy.of(activity_id, activity_type))
                };
                let waker = lock(&self.core).resolve(scheduled_event_id, event_id, outcome);
                waker.into_iter().for_each(std::task::Waker::wake);
            }
            CodeNews::Ended(Ended::NotScheduled(failure)) => {
                // The failed decision's own event stands for what it would have scheduled.
                let waker = lock(&self.core).resolve(event_id, event_id, |_| Err(failure));
                waker.into_iter().for_each(std::task::Waker::wake);
            }
            CodeNews::Signal { name, input } => {
                let wakers = lock(&self.core).signal(event_id, &name, input);
                wakers.into_iter().for_each(std::task::Waker::wake);
            }
            CodeNews::CancelRequested { reason } => cancel(&self.core, &self.root, reason),
            CodeNews::CloseFailed => {
                // The code has ended: nobody is left to look at the news that was in the way.
                if let Some(closing) = &self.closing {
                    lock(&self.core).issue(forced(closing.clone()), None);
                }
            }
        }
    }

    fn begin(&mut self, begin: &Begin, event_id: EventId, started: &WorkflowStarted) {
        lock(&self.core).about = About {
            workflow_id: started.workflow_id.clone(),
            run_id: started.run_id,
            workflow_type: started.workflow_type.clone(),
            parent: started.parent.clone(),
        };
        let context = Context::new(Arc::clone(&self.core), Arc::clone(&self.root));
        match guarded(|| begin(context, started.input.as_ref())) {
            Ok(Ok(code)) => self.code = Some(code),
            Ok(Err(error)) => {
                let (what, error) = ("the input of the run".to_owned(), error.to_string());
                self.in_trouble(FlowError::Unreadable { event_id, what, error });
            }
            Err(trouble) => self.in_trouble(trouble),
        }
    }

    /// Holds what the code issued against what is recorded, and lets those who wait know under which event.
    fn compare(&self, batch: &Batch) -> Result<(), FlowError> {
        let mut core = lock(&self.core);
        let mut issued = std::mem::take(&mut core.issued).into_iter();
        if let Some((event_id, expected, found)) = core.updates.differs(&batch.events) {
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
                Some(issued) => told(&issued.decision),
                None => "nothing more in this turn".to_owned(),
            };
            return Err(FlowError::Mismatch { event_id: event.id, expected: told_event(&event.kind), found });
        }
        match issued.next() {
            None => Ok(()),
            Some(issued) => {
                let event_id = batch.events.last().map_or(batch.completed_event_id, |event| event.id);
                let last = batch.events.last().map_or("DeciderCompleted".to_owned(), |event| told_event(&event.kind));
                let expected = format!("{last}, the last of its turn");
                Err(FlowError::Mismatch { event_id, expected, found: told(&issued.decision) })
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
        _ => {}
    }
    closing
}

/// An activity that was canceled before a runner took it: it ends in the middle of a turn's decisions.
pub(crate) fn is_canceled_unstarted(kind: &EventKind) -> bool {
    matches!(kind, EventKind::ActivityCanceled(it) if it.started_event_id.is_none())
}

/// What is known of recorded decisions before the code issues them.
fn foreseen(events: &[Event]) -> Foreseen {
    let marker = |event: &Event| match &event.kind {
        EventKind::Marker(it) => Some(RecordMarker { name: it.name.clone(), details: it.details.clone() }),
        _ => None,
    };
    events.iter().filter_map(marker).collect()
}

/// What code may wait for; `None` for what it never sees.
fn news(kind: &EventKind) -> Option<CodeNews> {
    match kind {
        EventKind::WorkflowStarted(it) => Some(CodeNews::Started(it.clone())),
        EventKind::Signal(it) => Some(CodeNews::Signal { name: it.name.clone(), input: it.input.clone() }),
        EventKind::WorkflowCancelRequested(it) => Some(CodeNews::CancelRequested { reason: it.reason.clone() }),
        EventKind::WorkflowCloseFailed(_) => Some(CodeNews::CloseFailed),
        kind => Ended::of(kind).map(CodeNews::Ended),
    }
}
