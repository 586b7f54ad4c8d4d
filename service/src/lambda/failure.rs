//! Failed calls of functions.

/// Maximum length of a result in characters. Source: SWF's API reference.
pub(super) const RESULT_CHARS_MAX: usize = 32_768;

/// Maximum number of bytes that are read of a result or a failure message. Source: a character has at most four bytes
/// in UTF-8.
pub(super) const RESULT_BYTES_MAX: usize = RESULT_CHARS_MAX * 4;

/// Failure of a call of a function.
pub(super) struct CallFailure {
    pub(super) reason: &'static str,
    pub(super) details: String,
}

impl CallFailure {
    pub(super) fn new(reason: &'static str, details: String) -> Self {
        Self { reason, details }
    }
}

/// Returns the failure of a call whose output exceeds the maximum size.
pub(super) fn too_large() -> CallFailure {
    let details =
        format!("the result has more than {RESULT_BYTES_MAX} bytes, at most {RESULT_CHARS_MAX} characters are allowed");
    CallFailure::new("ResultTooLarge", details)
}
