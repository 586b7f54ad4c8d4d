//! Checks of links to other runs: each outgoing request has at most one outcome, and each incoming request is recorded
//! once.

use std::collections::BTreeMap;

use super::rule::{Rule, Violation, broken};
use crate::event::{EventId, EventKind, Origin};

/// A signal or cancel request to another run.
struct CheckedExternal {
    is_signal: bool,
    workflow_id: String,
    closed: Option<EventId>,
}

/// A child that the run has asked to start.
struct CheckedChild {
    workflow_id: String,
    started: Option<EventId>,
    closed: Option<EventId>,
}

#[derive(Default)]
pub(super) struct CheckedLinks {
    children: BTreeMap<EventId, CheckedChild>,
    externals: BTreeMap<EventId, CheckedExternal>,
    origins: Vec<(Origin, EventId)>,
    is_swf: bool,
}

impl CheckedLinks {
    /// Checks an event's links to other runs.
    pub(super) fn read(&mut self, id: EventId, kind: &EventKind) -> Result<(), Violation> {
        if let EventKind::WorkflowStarted(it) = kind {
            self.is_swf = it.swf.is_some();
        }
        match kind {
            EventKind::Signal(it) => self.comes_from(id, it.origin.as_ref()),
            EventKind::WorkflowCancelRequested(it) => self.comes_from(id, it.origin.as_ref()),
            EventKind::ExternalSignalScheduled(it) => {
                self.sent(id, true, &it.workflow_id);
                Ok(())
            }
            EventKind::ExternalCancelScheduled(it) => {
                self.sent(id, false, &it.workflow_id);
                Ok(())
            }
            EventKind::ExternalSignalDelivered(it) => self.settled(id, it.scheduled_event_id, true, &it.workflow_id),
            EventKind::ExternalCancelDelivered(it) => self.settled(id, it.scheduled_event_id, false, &it.workflow_id),
            EventKind::ExternalSignalFailed(it) => match it.scheduled_event_id {
                Some(scheduled) => self.settled(id, scheduled, true, &it.workflow_id),
                None => Ok(()),
            },
            EventKind::ExternalCancelFailed(it) => match it.scheduled_event_id {
                Some(scheduled) => self.settled(id, scheduled, false, &it.workflow_id),
                None => Ok(()),
            },
            EventKind::WorkflowTerminated(it) => self.comes_from(id, it.origin.as_ref()),
            EventKind::ChildScheduled(it) => self.wanted(id, &it.workflow_id),
            EventKind::ChildScheduleFailed(it) => match it.scheduled_event_id {
                Some(scheduled) => self.not_started(id, scheduled, &it.workflow_id),
                None => Ok(()),
            },
            EventKind::ChildStarted(it) => self.started(id, it.scheduled_event_id, &it.workflow_id),
            EventKind::ChildSuccess(it) => self.closed(id, it.scheduled_event_id, &it.workflow_id, it.started_event_id),
            EventKind::ChildFailed(it) => self.closed(id, it.scheduled_event_id, &it.workflow_id, it.started_event_id),
            EventKind::ChildTimedOut(it) => {
                self.closed(id, it.scheduled_event_id, &it.workflow_id, it.started_event_id)
            }
            EventKind::ChildCanceled(it) => {
                self.closed(id, it.scheduled_event_id, &it.workflow_id, it.started_event_id)
            }
            EventKind::ChildTerminated(it) => {
                self.closed(id, it.scheduled_event_id, &it.workflow_id, it.started_event_id)
            }
            EventKind::WorkflowStarted(_)
            | EventKind::WorkflowSuccess(_)
            | EventKind::WorkflowFailed(_)
            | EventKind::WorkflowCanceled(_)
            | EventKind::WorkflowTimedOut(_)
            | EventKind::WorkflowCloseFailed(_)
            | EventKind::DeciderScheduled(_)
            | EventKind::DeciderStarted(_)
            | EventKind::DeciderCompleted(_)
            | EventKind::DeciderTimedOut(_)
            | EventKind::DeciderFailed(_)
            | EventKind::ActivityScheduled(_)
            | EventKind::ActivityScheduleFailed(_)
            | EventKind::ActivityStarted(_)
            | EventKind::ActivitySuccess(_)
            | EventKind::ActivityFailed(_)
            | EventKind::ActivityCanceled(_)
            | EventKind::ActivityTimedOut(_)
            | EventKind::ActivityScheduledTimeout(_)
            | EventKind::ActivityTaskCancel(_)
            | EventKind::ActivityTaskCancelFailed(_)
            | EventKind::TimerScheduled(_)
            | EventKind::TimerScheduleFailed(_)
            | EventKind::TimerExpired(_)
            | EventKind::TimerCanceled(_)
            | EventKind::TimerCancelFailed(_)
            | EventKind::Marker(_)
            | EventKind::MarkerFailed(_)
            | EventKind::WorkflowContinuedAsNew(_)
            | EventKind::UpdateAccepted(_)
            | EventKind::UpdateCompleted(_)
            | EventKind::UpdateFailed(_)
            | EventKind::ActivityPaused(_)
            | EventKind::ActivityResumed(_)
            | EventKind::ActivityRetried(_)
            | EventKind::ActivityOptionsChanged(_)
            | EventKind::WorkflowPaused(_)
            | EventKind::WorkflowResumed(_)
            | EventKind::WorkflowReset(_) => Ok(()),
        }
    }

    /// Returns the id of a request that was sent to another run and has no outcome yet.
    pub(super) fn open(&self) -> Option<EventId> {
        let children = self.children.iter().filter(|(_, child)| child.closed.is_none()).map(|(id, _)| *id);
        children.chain(self.externals.iter().filter(|(_, sent)| sent.closed.is_none()).map(|(id, _)| *id)).min()
    }

    fn wanted(&mut self, id: EventId, workflow_id: &str) -> Result<(), Violation> {
        let is_open = |child: &CheckedChild| child.closed.is_none() && child.workflow_id == workflow_id;
        // In an SWF run, a second child with the same workflow id is scheduled first and fails later.
        if let Some((other, _)) = self.children.iter().find(|(_, child)| is_open(child)).filter(|_| !self.is_swf) {
            return broken(Rule::IdInUse, id, format!("child `{workflow_id}` has been open since event {other}"));
        }
        let child = CheckedChild { workflow_id: workflow_id.to_owned(), started: None, closed: None };
        self.children.insert(id, child);
        Ok(())
    }

    fn open_child(
        &mut self,
        id: EventId,
        scheduled: EventId,
        workflow_id: &str,
    ) -> Result<&mut CheckedChild, Violation> {
        let Some(child) = self.children.get_mut(&scheduled) else {
            return broken(Rule::Link, id, format!("event {scheduled} is not a ChildScheduled that precedes it"));
        };
        if child.workflow_id != workflow_id {
            return broken(
                Rule::Link,
                id,
                format!("it refers to `{workflow_id}`, but event {scheduled} to `{}`", child.workflow_id),
            );
        }
        if let Some(closed) = child.closed {
            return broken(Rule::ChildLife, id, format!("event {closed} closed the child"));
        }
        Ok(child)
    }

    fn not_started(&mut self, id: EventId, scheduled: EventId, workflow_id: &str) -> Result<(), Violation> {
        let child = self.open_child(id, scheduled, workflow_id)?;
        if let Some(started) = child.started {
            return broken(Rule::ChildLife, id, format!("event {started} started it"));
        }
        child.closed = Some(id);
        Ok(())
    }

    fn started(&mut self, id: EventId, scheduled: EventId, workflow_id: &str) -> Result<(), Violation> {
        let child = self.open_child(id, scheduled, workflow_id)?;
        if let Some(started) = child.started {
            return broken(Rule::ChildLife, id, format!("event {started} already started it"));
        }
        child.started = Some(id);
        Ok(())
    }

    fn closed(
        &mut self,
        id: EventId,
        scheduled: EventId,
        workflow_id: &str,
        started: EventId,
    ) -> Result<(), Violation> {
        let child = self.open_child(id, scheduled, workflow_id)?;
        match child.started {
            None => return broken(Rule::ChildLife, id, "the child was not started"),
            Some(found) if found != started => {
                return broken(Rule::Link, id, format!("it refers to start {started}, but the child's is {found}"));
            }
            Some(_) => {}
        }
        child.closed = Some(id);
        Ok(())
    }

    fn comes_from(&mut self, id: EventId, origin: Option<&Origin>) -> Result<(), Violation> {
        let Some(origin) = origin else { return Ok(()) };
        if let Some((_, first)) = self.origins.iter().find(|(known, _)| known == origin) {
            let Origin { event_id, run_id, .. } = origin;
            let found = format!("event {event_id} of run {run_id} was already recorded as event {first}");
            return broken(Rule::OriginOnce, id, found);
        }
        self.origins.push((origin.clone(), id));
        Ok(())
    }

    fn sent(&mut self, id: EventId, is_signal: bool, workflow_id: &str) {
        let external = CheckedExternal { is_signal, workflow_id: workflow_id.to_owned(), closed: None };
        self.externals.insert(id, external);
    }

    fn settled(&mut self, id: EventId, scheduled: EventId, is_signal: bool, to: &str) -> Result<(), Violation> {
        let sent = self.externals.get_mut(&scheduled).filter(|sent| sent.is_signal == is_signal);
        let Some(sent) = sent else {
            return broken(Rule::Link, id, format!("event {scheduled} is not an earlier request of this kind"));
        };
        if sent.workflow_id != to {
            let found = format!("it refers to `{to}`, but event {scheduled} to `{}`", sent.workflow_id);
            return broken(Rule::Link, id, found);
        }
        if let Some(closed) = sent.closed {
            return broken(Rule::EffectOnce, id, format!("event {closed} already has its outcome"));
        }
        sent.closed = Some(id);
        Ok(())
    }
}
