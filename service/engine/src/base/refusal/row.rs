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
pub struct RefusalRow {
    /// The status of HTTP.
    pub status: u16,
    /// The stable code of the wire.
    pub code: &'static str,
    /// What to do about it.
    pub advice: &'static str,
    /// Whether the same request may succeed later, with nothing changed by the caller.
    pub is_retryable: bool,
    /// Whether the request may have left a trace.
    pub recorded: MayBeRecorded,
}

impl RefusalRow {
    /// A refusal that stays one however often it is asked, and has left nothing.
    pub const fn new(status: u16, code: &'static str, advice: &'static str) -> Self {
        Self { status, code, advice, is_retryable: false, recorded: MayBeRecorded::No }
    }

    /// Asking again may help.
    #[must_use]
    pub const fn retryable(self) -> Self {
        Self { is_retryable: true, ..self }
    }

    /// It may have left something.
    #[must_use]
    pub const fn perhaps_recorded(self) -> Self {
        Self { recorded: MayBeRecorded::Unknown, ..self }
    }
}
