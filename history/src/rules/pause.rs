//! Pausing a run: nobody is handed a task of it, until it is resumed. Its clock goes on, or stands still.
//!
//! | while the run is | Pause | Resume | it closes |
//! |---|---|---|---|
//! | open | WorkflowPaused | refused (not-paused) | closed |
//! | paused | refused (already-paused) | WorkflowResumed | closed; the run that goes on for it is paused |
//! | closed | refused (run-closed) | refused (run-closed) | – |
//!
//! | while it is paused | with its clock going | with its clock standing still |
//! |---|---|---|
//! | what was held is answered | recorded as ever | recorded as ever |
//! | a timer, and the time that the run, a turn or an activity may take | run on | run from where they stopped |
//! | the time in which somebody must take a turn or an activity | begins anew when the run goes on | begins anew when the run goes on |
//! | the wait before another try | runs on, and the try waits for the run | runs on, and the try waits for the run |
//!
//! A clock may be stopped [`CLOCK_STOPS_MAX`](limits::CLOCK_STOPS_MAX) times in a run.

use crate::event::{ByHand, Event, EventKind, RequestKey, WorkflowPaused, WorkflowResumed};
use crate::fault::Fault;
use crate::limits;
use crate::run::{Released, Run, RunPause};
use crate::time::Timestamp;
use crate::transition::{Transition, must_be_open};
use crate::validate;

impl Transition {
    pub(crate) fn pause(
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

    pub(crate) fn resume(&mut self, by_hand: &ByHand, key: Option<RequestKey>, now: Timestamp) -> Result<(), Fault> {
        validate::by_hand(by_hand)?;
        must_be_open(&self.run)?;
        if self.run.paused.is_none() {
            return Err(Fault::NotPaused);
        }
        let ByHand { identity, reason } = by_hand.clone();
        self.push_keyed(
            now,
            EventKind::WorkflowResumed(WorkflowResumed { identity, reason, ..WorkflowResumed::default() }),
            key,
        );
        Ok(())
    }
}

impl Run {
    pub(crate) fn is_paused_by(&mut self, event: &Event, it: &WorkflowPaused) {
        let by_hand = ByHand { identity: it.identity.clone(), reason: it.reason.clone() };
        let (event_id, at, stops_clock) = (event.id, event.at(), it.stop_clocks);
        self.paused = Some(Box::new(RunPause { event_id, at, stops_clock, by_hand }));
        if stops_clock {
            self.clock.stop(at);
        }
    }

    /// What waited while it was paused waits for somebody from here on; its timers go on where they were.
    pub(crate) fn is_resumed(&mut self, event: &Event, it: &WorkflowResumed) {
        if it.repairs_deadlines {
            self.deadlines_are_repaired(event.at());
        }
        self.paused = None;
        self.start_clock(event.at());
        if let Some(task) = &mut self.turn_task {
            task.waits_since = event.at();
        }
        self.activities.release(Released { event_id: event.id, at: event.at() });
    }

    /// Its clock goes on, if it stood still, and its timers with it.
    pub(crate) fn start_clock(&mut self, at: Timestamp) {
        if let Some((stopped_at, span)) = self.clock.go(at) {
            self.timers_go_on(stopped_at, span);
        }
    }
}

#[cfg(test)]
mod tests;
