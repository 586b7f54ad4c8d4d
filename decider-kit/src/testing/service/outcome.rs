//! What has come of runs.

use baton_history::{Event, EventKind, Fault, Run, Timestamp};

use super::TestService;
use super::closed::Closed;
use crate::testing::fail;

/// What came of it.
impl TestService {
    /// The virtual time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The history of the newest run of this id.
    #[track_caller]
    pub fn history(&self, workflow_id: &str) -> &[Event] {
        &self.at(self.index(workflow_id)).events
    }

    /// The history as a table.
    #[track_caller]
    pub fn table(&self, workflow_id: &str) -> String {
        baton_client::table::history(self.history(workflow_id))
    }

    /// The state of the newest run of this id.
    #[track_caller]
    pub fn run(&self, workflow_id: &str) -> &Run {
        &self.at(self.index(workflow_id)).run
    }

    /// How the newest run of this id closed; `None` while it is open.
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

    /// What the service refused of what was planned: for whom, and why.
    pub fn refused(&self) -> &[(String, Fault)] {
        &self.refused
    }

    /// Holds the names of a history's events against these.
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

    /// Ends the test unless this many events of the history have this name, e.g. `ActivityScheduled`.
    #[track_caller]
    pub fn assert_count(&self, workflow_id: &str, name: &str, expected: usize) {
        let events = self.history(workflow_id);
        let found = events.iter().filter(|event| event.kind.name() == name).count();
        if found != expected {
            fail(format_args!("expected {expected} of {name}, found {found}"), events);
        }
    }
}
