//! Presentation of a refusal to the caller. Problem documents, SWF's faults and the engine's own retries are
//! derived from it.

/// Whether a refused request may have been recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MayBeRecorded {
    /// Not recorded.
    No,
    /// Possibly recorded.
    Unknown,
}

/// Presentation of a refusal to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusalRow {
    /// HTTP status.
    pub status: u16,
    /// Stable error code that callers see.
    pub code: &'static str,
    /// Advice for the caller.
    pub advice: &'static str,
    /// Whether the same request may succeed later without a change by the caller.
    pub is_retryable: bool,
    /// Whether the request may have been recorded.
    pub recorded: MayBeRecorded,
}

impl RefusalRow {
    /// Creates the row of a refusal that retries do not help and that recorded nothing.
    pub const fn new(status: u16, code: &'static str, advice: &'static str) -> Self {
        Self { status, code, advice, is_retryable: false, recorded: MayBeRecorded::No }
    }

    /// Marks the request as worth retrying.
    #[must_use]
    pub const fn retryable(self) -> Self {
        Self { is_retryable: true, ..self }
    }

    /// Marks the request as possibly recorded.
    #[must_use]
    pub const fn perhaps_recorded(self) -> Self {
        Self { recorded: MayBeRecorded::Unknown, ..self }
    }
}
