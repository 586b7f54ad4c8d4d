//! Inspection of runs.

use baton_history::{Event, EventKind, Fault, Run, Timestamp};

use super::TestService;
use super::closed::Closed;
use crate::testing::fail;

/// State and history of runs.
impl TestService {
    /// Returns the virtual time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the history of the newest run of this id.
    #[track_caller]
    pub fn history(&self, workflow_id: &str) -> &[Event] {
        &self.at(self.index(workflow_id)).events
    }

    /// Returns the history as a table.
    #[track_caller]
    pub fn table(&self, workflow_id: &str) -> String {
        baton_tables::history(self.history(workflow_id))
    }

    /// Returns the state of the newest run of this id.
    #[track_caller]
    pub fn run(&self, workflow_id: &str) -> &Run {
        &self.at(self.index(workflow_id)).run
    }

    /// Returns the outcome of the newest run of this id, or `None` while the run is open.
    #[track_caller]
    pub fn closed(&self, workflow_id: &str) -> Option<Closed> {
        let run = self.at(self.index(workflow_id));
        let after = run.run.closed_at?.since(run.run.started.at);
        let (result, reason) = match &run.events.last()?.kind {
            EventKind::WorkflowSuccess(it) => (it.result.clone(), None),
            EventKind::WorkflowFailed(it) => (it.details.clone(), Some(it.reason.clone())),
            EventKind::WorkflowCanceled(it) => (it.details.clone(), None),
            EventKind::WorkflowTerminated(it) => (it.details.clone(), it.reason.clone()),
            _ => (None, None),
        };
        Some(Closed { status: run.run.status, result, reason, after })
    }

    /// Returns the planned actions that the service refused: the workflow id, and the reason.
    pub fn refused(&self) -> &[(String, Fault)] {
        &self.refused
    }

    /// Compares the names of a history's events with `expected`, and fails the test if they differ.
    #[track_caller]
    pub fn assert_events(&self, workflow_id: &str, expected: &[&str]) {
        let events = self.history(workflow_id);
        let found: Vec<_> = events.iter().map(|event| event.kind.name()).collect();
        if found != expected {
            let place = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
            let name = |names: &[&str]| names.get(place).copied().unwrap_or("nothing").to_owned();
            let (expected, found) = (name(expected), name(&found));
            fail(format_args!("expected {expected} as event {}, found {found}", place + 1), events);
        }
    }

    /// Fails the test unless exactly this many events of the history have this name, e.g. `ActivityScheduled`.
    #[track_caller]
    pub fn assert_count(&self, workflow_id: &str, name: &str, expected: usize) {
        let events = self.history(workflow_id);
        let found = events.iter().filter(|event| event.kind.name() == name).count();
        if found != expected {
            fail(format_args!("expected {expected} of {name}, found {found}"), events);
        }
    }
}
