//! Pausing a run. Until the run is resumed, deciders and runners get none of its tasks. A pause can also stop the run's
//! clock.
//!
//! | run is | Pause | Resume | it closes |
//! |---|---|---|---|
//! | open | WorkflowPaused | fails with not-paused | closed |
//! | paused | fails with already-paused | WorkflowResumed | closed; its successor is paused |
//! | closed | fails with run-closed | fails with run-closed | – |
//!
//! | while the run is paused | with its clock running | with its clock stopped |
//! |---|---|---|
//! | result for a task already held | recorded | recorded |
//! | timers, and all timeouts except schedule-to-start | run on | stop, and continue on resume |
//! | schedule-to-start timeouts | restart on resume | restart on resume |
//! | delay before a retry | runs on; the task then waits for the resume | runs on; the task then waits for the resume |
//!
//! The clock of a run can be stopped [`CLOCK_STOPS_MAX`](limits::CLOCK_STOPS_MAX) times.

use crate::event::{Event, EventKind, OperatorAction, RequestKey, WorkflowPaused, WorkflowResumed};
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
        operator: &OperatorAction,
        key: Option<RequestKey>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        validate::operator(operator)?;
        must_be_open(&self.run)?;
        if self.run.paused.is_some() {
            return Err(Fault::AlreadyPaused);
        }
        if stop_clocks && self.run.clock.stops() >= limits::CLOCK_STOPS_MAX {
            let max = limits::CLOCK_STOPS_MAX;
            let problem = format!("was used {max} times in this run, which is the limit; pause it without this option");
            return Err(Fault::Invalid { field: "stopClocks".to_owned(), problem });
        }
        let OperatorAction { identity, reason } = operator.clone();
        let paused = EventKind::WorkflowPaused(WorkflowPaused { stop_clocks, identity, reason });
        self.must_have_space(&paused)?;
        self.push_keyed(now, paused, key);
        Ok(())
    }

    pub(crate) fn resume(
        &mut self,
        operator: &OperatorAction,
        key: Option<RequestKey>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        validate::operator(operator)?;
        must_be_open(&self.run)?;
        if self.run.paused.is_none() {
            return Err(Fault::NotPaused);
        }
        let OperatorAction { identity, reason } = operator.clone();
        self.push_keyed(
            now,
            EventKind::WorkflowResumed(WorkflowResumed { identity, reason, ..WorkflowResumed::default() }),
            key,
        );
        Ok(())
    }
}

impl Run {
    pub(crate) fn apply_paused(&mut self, event: &Event, it: &WorkflowPaused) {
        let operator = OperatorAction { identity: it.identity.clone(), reason: it.reason.clone() };
        let (event_id, at, stops_clock) = (event.id, event.at(), it.stop_clocks);
        self.paused = Some(Box::new(RunPause { event_id, at, stops_clock, operator }));
        if stops_clock {
            self.clock.stop(at);
        }
    }

    /// Applies the event of a resume: timers continue, and the waits for deciders and runners begin again.
    pub(crate) fn apply_resumed(&mut self, event: &Event, it: &WorkflowResumed) {
        if it.repairs_deadlines {
            self.limit_deadlines(event.at());
        }
        self.paused = None;
        self.start_clock(event.at());
        if let Some(task) = &mut self.turn_task {
            task.waits_since = event.at();
        }
        self.activities.release(Released { event_id: event.id, at: event.at() });
    }

    /// If the run's clock was stopped, starts it again and postpones the timers accordingly.
    pub(crate) fn start_clock(&mut self, at: Timestamp) {
        if let Some((stopped_at, span)) = self.clock.go(at) {
            self.postpone_timers(stopped_at, span);
        }
    }
}

#[cfg(test)]
mod tests;
