//! Other runs, as the checker sees them: what is sent to them has one outcome, what comes from them comes once.

use std::collections::BTreeMap;

use super::{Rule, Violation, broken};
use crate::event::{EventId, EventKind, Origin};

/// A signal or a cancel request to another run.
struct External {
    is_signal: bool,
    workflow_id: String,
    closed: Option<EventId>,
}

#[derive(Default)]
pub(super) struct Others {
    externals: BTreeMap<EventId, External>,
    origins: Vec<(Origin, EventId)>,
}

impl Others {
    /// What an event has to do with other runs, and whether it may.
    pub(super) fn read(&mut self, id: EventId, kind: &EventKind) -> Result<(), Violation> {
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
            _ => Ok(()),
        }
    }

    fn comes_from(&mut self, id: EventId, origin: Option<&Origin>) -> Result<(), Violation> {
        let Some(origin) = origin else { return Ok(()) };
        if let Some((_, first)) = self.origins.iter().find(|(known, _)| known == origin) {
            let found = format!("event {} of run {} came as event {first}", origin.event_id, origin.run_id);
            return broken(Rule::OriginOnce, id, found);
        }
        self.origins.push((origin.clone(), id));
        Ok(())
    }

    fn sent(&mut self, id: EventId, is_signal: bool, workflow_id: &str) {
        let external = External { is_signal, workflow_id: workflow_id.to_owned(), closed: None };
        self.externals.insert(id, external);
    }

    fn settled(&mut self, id: EventId, scheduled: EventId, is_signal: bool, to: &str) -> Result<(), Violation> {
        let sent = self.externals.get_mut(&scheduled).filter(|sent| sent.is_signal == is_signal);
        let Some(sent) = sent else {
            return broken(Rule::Link, id, format!("event {scheduled} sent no such thing before it"));
        };
        if sent.workflow_id != to {
            return broken(Rule::Link, id, format!("it names `{to}`, event {scheduled} `{}`", sent.workflow_id));
        }
        if let Some(closed) = sent.closed {
            return broken(Rule::EffectOnce, id, format!("event {closed} said already what became of it"));
        }
        sent.closed = Some(id);
        Ok(())
    }
}
