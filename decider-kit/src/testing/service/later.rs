//! What is planned for later.

use baton_history::{Command, Duration, Timestamp};
use serde::Serialize;

use super::super::commands::{request_cancel, signal, start, terminate};
use super::{Item, TestService};

/// Plans what happens later; see [`TestService::after`].
pub struct Later<'a> {
    service: &'a mut TestService,
    at: Timestamp,
}

impl Later<'_> {
    /// Starts a run; see [`TestService::start`].
    pub fn start<T: Serialize + ?Sized>(self, workflow_type: &str, workflow_id: &str, input: &T) {
        let start = start(workflow_type, workflow_id, input);
        self.service.plan(self.at, Item::Start(Box::new(start)));
    }

    /// Signals the run of this id.
    pub fn signal<T: Serialize + ?Sized>(self, workflow_id: &str, name: &str, input: &T) {
        self.ask(workflow_id, signal(name, input));
    }

    /// Asks for the run to be canceled.
    pub fn cancel(self, workflow_id: &str) {
        self.ask(workflow_id, request_cancel());
    }

    /// Terminates the run.
    pub fn terminate(self, workflow_id: &str) {
        self.ask(workflow_id, terminate());
    }

    /// Does anything to the run that somebody outside may do.
    pub fn ask(self, workflow_id: &str, command: Command) {
        let newest = self.service.newest.get(workflow_id).copied();
        if let Some(run) = newest.and_then(|index| self.service.runs.get_mut(index)) {
            run.expected += 1;
        }
        self.service.plan(self.at, Item::Ask(workflow_id.to_owned(), command, newest));
    }
}

impl TestService {
    /// Plans what happens when so much time has passed from now. What the service refuses then is in
    /// [`refused`](Self::refused).
    pub fn after(&mut self, span: Duration) -> Later<'_> {
        let at = self.now.plus(span);
        Later { service: self, at }
    }
}
