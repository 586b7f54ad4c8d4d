//! Whether what is to be opened has room in the state of the run.

use super::Transition;
use crate::event::EventKind;
use crate::fault::Fault;
use crate::limits;
use crate::room::{self, Room};
use crate::run::PendingActivity;
use crate::time::Timestamp;

impl Transition {
    /// Whether there is room for what takes so much.
    pub(crate) fn has_room(&mut self, bytes: impl Fn(&Room) -> usize) -> bool {
        let room = self.room.get_or_insert_with(|| Room::of(&self.run, &self.links));
        if room.has(bytes(room)) {
            return true;
        }
        // Something of this very answer may have given room back.
        if room.is_stale {
            *room = Room::of(&self.run, &self.links);
        }
        room.has(bytes(room))
    }

    /// Counts what an event opens.
    pub(super) fn take_room(&mut self, kind: &EventKind) {
        let Some(room) = &mut self.room else { return };
        match kind {
            EventKind::ActivityScheduled(it) => room.take_activity(&PendingActivity::new(it, Timestamp::default())),
            EventKind::TimerScheduled(it) => room.take(room::timer(&it.timer_id)),
            EventKind::ChildScheduled(it) => room.take(room::child(&it.workflow_id)),
            EventKind::ExternalSignalScheduled(it) => room.take(room::external(&it.workflow_id)),
            EventKind::ExternalCancelScheduled(it) => room.take(room::external(&it.workflow_id)),
            EventKind::UpdateAccepted(it) => room.take(room::update(&it.update_id, &it.name)),
            EventKind::TimerCanceled(_)
            | EventKind::ActivityCanceled(_)
            | EventKind::ActivityScheduledTimeout(_)
            | EventKind::UpdateCompleted(_)
            | EventKind::UpdateFailed(_) => room.is_stale = true,
            _ => {}
        }
    }

    /// Whether what somebody does by hand has room, which this event would record.
    pub(super) fn must_have_room(&self, kind: &EventKind) -> Result<(), Fault> {
        let before = self.run.reserved_bytes(&self.links);
        let mut after = self.clone();
        after.push(self.run.last_timestamp, kind.clone());
        let (found, max) = (after.run.reserved_bytes(&after.links), limits::STATE_BYTES_MAX);
        if found > max && found > before { Err(Fault::StateLimit { found, max }) } else { Ok(()) }
    }
}
