//! The form in which an error is presented to callers. The service derives its problem documents, SWF's faults and the
//! engine's own retries from this form.

/// States whether a failed request may have been recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MayBeRecorded {
    /// The request was certainly not recorded.
    No,
    /// The request may have been recorded.
    Unknown,
}

/// The form in which an error is presented to callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusalRow {
    /// HTTP status code.
    pub status: u16,
    /// Stable error code that is sent to callers.
    pub code: &'static str,
    /// Advice for the caller.
    pub advice: &'static str,
    /// True if the same request may succeed later without a change by the caller.
    pub is_retryable: bool,
    /// States whether the request may have been recorded.
    pub recorded: MayBeRecorded,
}

impl RefusalRow {
    /// Creates the presentation of an error. The error is not retryable, and the request was not recorded.
    pub const fn new(status: u16, code: &'static str, advice: &'static str) -> Self {
        Self { status, code, advice, is_retryable: false, recorded: MayBeRecorded::No }
    }

    /// Marks the error as retryable.
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
