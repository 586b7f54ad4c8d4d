//! What a refusal is for who asked: one row, from which problem documents, SWF's faults and what the engine itself tries again are made.

/// Whether a refused request may have left a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MayBeRecorded {
    /// It has not.
    No,
    /// It may have.
    Unknown,
}

/// What a refusal is for who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RefusalRow {
    /// The status of HTTP.
    pub(crate) status: u16,
    /// The stable code of the wire.
    pub(crate) code: &'static str,
    /// What to do about it.
    pub(crate) advice: &'static str,
    /// Whether the same request may succeed later, with nothing changed by the caller.
    pub(crate) is_retryable: bool,
    /// Whether the request may have left a trace.
    pub(crate) recorded: MayBeRecorded,
}

impl RefusalRow {
    /// A refusal that stays one however often it is asked, and has left nothing.
    pub(crate) const fn new(status: u16, code: &'static str, advice: &'static str) -> Self {
        Self { status, code, advice, is_retryable: false, recorded: MayBeRecorded::No }
    }

    /// Asking again may help.
    pub(crate) const fn retryable(self) -> Self {
        Self { is_retryable: true, ..self }
    }

    /// It may have left something.
    pub(crate) const fn perhaps_recorded(self) -> Self {
        Self { recorded: MayBeRecorded::Unknown, ..self }
    }
}
