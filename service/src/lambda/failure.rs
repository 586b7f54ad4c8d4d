//! How a call of a function fails.

/// Longest result, in characters. Source: SWF's API reference.
pub(super) const RESULT_CHARS_MAX: usize = 32_768;

/// Most bytes that are read of a result, or of what is said of a failure. Source: a character takes four at most.
pub(super) const RESULT_BYTES_MAX: usize = RESULT_CHARS_MAX * 4;

/// How a call failed.
pub(super) struct CallFailure {
    pub(super) reason: &'static str,
    pub(super) details: String,
}

impl CallFailure {
    pub(super) fn new(reason: &'static str, details: String) -> Self {
        Self { reason, details }
    }
}

/// It has written more than is read.
pub(super) fn too_large() -> CallFailure {
    let details =
        format!("the result has more than {RESULT_BYTES_MAX} bytes, at most {RESULT_CHARS_MAX} characters are taken");
    CallFailure::new("ResultTooLarge", details)
}
