//! A run that branched off the history of another.

use minicbor::{Decode, Encode};
use uuid::Uuid;

use super::Run;
use crate::event::{Event, EventId, WorkflowReset};
use crate::time::Timestamp;

/// Where a run comes from that began with the history of another.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Branched {
    /// Its WorkflowReset.
    #[n(0)]
    pub event_id: EventId,
    /// The other run.
    #[n(1)]
    #[cbor(with = "crate::codec::uuid")]
    pub run_id: Uuid,
    /// The last of that one's events that this one has.
    #[n(2)]
    pub base_event_id: EventId,
    /// The other run's workflow id, where that is another one.
    #[n(3)]
    pub workflow_id: Option<String>,
}

impl Run {
    /// From here on it is a run of its own. Whoever has an activity has it of the other run, so it is handed out once more;
    /// the time since the other run was here does not count. `since` is when that was.
    pub(super) fn branch(&mut self, it: &WorkflowReset, event: &Event, since: Timestamp) {
        let at = event.timestamp;
        // A clock that stands still goes on standing still, since whenever it does.
        if self.clock.stopped_at().is_none() && since < at {
            self.clock.stop(since);
            self.start_clock(at);
        }
        if let Some(task) = &mut self.turn_task {
            task.waits_since = at;
        }
        self.activities.begin_anew(super::Released { event_id: event.id, at });
        let (workflow_id, run_id, base_event_id) = (it.workflow_id.clone(), it.run_id, it.event_id);
        self.branched = Some(Box::new(Branched { event_id: event.id, run_id, base_event_id, workflow_id }));
    }
}
