//! What an effect is for the run that it is done to.

use super::{Effect, EffectKind};
use crate::command::{Command, RunId};
use crate::event::{Event, EventKind, Origin};

/// An effect on its way to another run.
#[derive(Debug, Clone, PartialEq)]
pub struct Errand {
    /// The other run's workflow id.
    pub workflow_id: String,
    /// The other run; the newest one when absent.
    pub run_id: Option<RunId>,
    /// What is done to it.
    pub command: Command,
}

impl Errand {
    /// Where it comes from, if it is told apart by that.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        match &self.command {
            Command::TakeSignal { origin, .. } | Command::TakeCancelRequest { origin, .. } => Some(origin),
            _ => None,
        }
    }
}

impl Effect {
    /// What the effect comes to that `event` of the run `run_id` asks for; `None` when that event asks for no such thing.
    pub fn errand(&self, workflow_id: &str, run_id: RunId, event: &Event) -> Option<Errand> {
        let origin = Origin { workflow_id: workflow_id.to_owned(), run_id, event_id: event.id };
        match (self.kind, &event.kind) {
            (EffectKind::Signal, EventKind::ExternalSignalScheduled(it)) => {
                let command = Command::TakeSignal { origin, name: it.name.clone(), input: it.input.clone() };
                Some(Errand { workflow_id: it.workflow_id.clone(), run_id: it.run_id, command })
            }
            (EffectKind::RequestCancel, EventKind::ExternalCancelScheduled(it)) => {
                let command = Command::TakeCancelRequest { origin, reason: it.reason.clone() };
                Some(Errand { workflow_id: it.workflow_id.clone(), run_id: it.run_id, command })
            }
            _ => None,
        }
    }
}
