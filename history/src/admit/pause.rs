//! Pausing and resuming a run.

use super::{Transition, must_be_open, validate};
use crate::event::{ByHand, EventKind, RequestKey, WorkflowPaused, WorkflowResumed};
use crate::fault::Fault;
use crate::limits;
use crate::time::Timestamp;

impl Transition {
    pub(super) fn pause(
        &mut self,
        stop_clocks: bool,
        by_hand: &ByHand,
        key: Option<RequestKey>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        validate::by_hand(by_hand)?;
        must_be_open(&self.run)?;
        if self.run.paused.is_some() {
            return Err(Fault::AlreadyPaused);
        }
        if stop_clocks && self.run.clock.stops() >= limits::CLOCK_STOPS_MAX {
            let problem =
                format!("has been done {} times to this run; pause it with its clocks going", limits::CLOCK_STOPS_MAX);
            return Err(Fault::Invalid { field: "stopClocks".to_owned(), problem });
        }
        let ByHand { identity, reason } = by_hand.clone();
        let paused = EventKind::WorkflowPaused(WorkflowPaused { stop_clocks, identity, reason });
        self.must_have_room(&paused)?;
        self.push_keyed(now, paused, key);
        Ok(())
    }

    pub(super) fn resume(&mut self, by_hand: &ByHand, key: Option<RequestKey>, now: Timestamp) -> Result<(), Fault> {
        validate::by_hand(by_hand)?;
        must_be_open(&self.run)?;
        if self.run.paused.is_none() {
            return Err(Fault::NotPaused);
        }
        let ByHand { identity, reason } = by_hand.clone();
        self.push_keyed(now, EventKind::WorkflowResumed(WorkflowResumed { identity, reason }), key);
        Ok(())
    }
}
