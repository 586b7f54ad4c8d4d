//! Author of a command: the credential that authenticated it and the permissions of that credential.

use std::sync::Arc;

use crate::caller::CallerName;
use crate::permissions::Permissions;
use crate::start::Start;
use crate::trace::Traceparent;

/// Author of a command. The default has no credential. It is used for deadlines, for commands of the service itself,
/// and for unauthenticated callers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Author {
    /// Name of the credential.
    pub by: Option<CallerName>,
    /// Permissions of the credential. A decision is permitted if any of these entries allows it. `None` allows
    /// everything.
    pub may: Option<Arc<[Permissions]>>,
    /// Trace context of the command.
    pub traceparent: Option<Traceparent>,
}

impl Author {
    /// Creates an author with this credential and no restrictions.
    pub fn named(by: Option<CallerName>) -> Self {
        Self { by, ..Self::default() }
    }

    /// Returns the author with this trace context.
    #[must_use]
    pub fn traced(self, traceparent: Option<Traceparent>) -> Self {
        Self { traceparent, ..self }
    }

    /// Returns the author of the request that started a run.
    pub fn of_start(start: &Start) -> Self {
        Self::named(start.by.clone()).traced(start.trace.as_ref().map(|trace| trace.traceparent))
    }
}
