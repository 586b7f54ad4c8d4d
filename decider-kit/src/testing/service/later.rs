//! Actions planned for later.

use baton_history::{Command, Duration, Timestamp};
use serde::Serialize;

use super::super::commands::{request_cancel, signal, start, terminate};
use super::{Item, TestService};

/// Builder of an action at a later time; see [`TestService::after`].
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

    /// Signals the newest run of this id.
    pub fn signal<T: Serialize + ?Sized>(self, workflow_id: &str, name: &str, input: &T) {
        self.command(workflow_id, signal(name, input));
    }

    /// Requests the cancellation of the newest run of this id.
    pub fn cancel(self, workflow_id: &str) {
        self.command(workflow_id, request_cancel());
    }

    /// Terminates the newest run of this id.
    pub fn terminate(self, workflow_id: &str) {
        self.command(workflow_id, terminate());
    }

    /// Applies any external command to the newest run of this id.
    pub fn command(self, workflow_id: &str, command: Command) {
        let newest = self.service.newest.get(workflow_id).copied();
        if let Some(run) = newest.and_then(|index| self.service.runs.get_mut(index)) {
            run.expected += 1;
        }
        self.service.plan(self.at, Item::Command(workflow_id.to_owned(), command, newest));
    }
}

impl TestService {
    /// Plans an action that happens once the service's clock has advanced by this span of time. If the service then
    /// refuses the action, it is listed in [`refused`](Self::refused).
    pub fn after(&mut self, span: impl Into<Duration>) -> Later<'_> {
        let at = self.now.plus(span.into());
        Later { service: self, at }
    }
}
