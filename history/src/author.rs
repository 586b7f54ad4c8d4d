//! Who gives a command: the name of the credential that was shown, and what that credential may decide.

use std::sync::Arc;

use crate::caller::CallerName;
use crate::permissions::Permissions;
use crate::start::Start;
use crate::trace::Traceparent;

/// Who gives a command, as far as that is known. The default is nobody: time, the service itself, or a caller who was not asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Author {
    /// The name of the credential.
    pub by: Option<CallerName>,
    /// What it may decide: whatever one of these allows; everything where that is not limited.
    pub may: Option<Arc<[Permissions]>>,
    /// The trace in which it is given.
    pub traceparent: Option<Traceparent>,
}

impl Author {
    /// Whoever has this credential, and may decide everything.
    pub fn named(by: Option<CallerName>) -> Self {
        Self { by, ..Self::default() }
    }

    /// The same, in this trace.
    #[must_use]
    pub fn traced(self, traceparent: Option<Traceparent>) -> Self {
        Self { traceparent, ..self }
    }

    /// Whoever starts a run, and tells what comes with the start.
    pub fn of_start(start: &Start) -> Self {
        Self::named(start.by.clone()).traced(start.trace.as_ref().map(|trace| trace.traceparent))
    }
}
