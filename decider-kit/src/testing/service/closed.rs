//! Closed runs.

use baton_history::{Duration, Payload, Status};
use serde::de::DeserializeOwned;

/// Outcome of a closed run.
#[derive(Debug, Clone, PartialEq)]
pub struct Closed {
    /// Status of the run.
    pub status: Status,
    /// Result of a successful run, or details of a failed or canceled run.
    pub result: Option<Payload>,
    /// Reason of a failed or terminated run.
    pub reason: Option<String>,
    /// Virtual time that the run was open.
    pub after: Duration,
}

impl Closed {
    /// Returns the result as a `T`. A missing result is `null`.
    #[track_caller]
    pub fn result<T: DeserializeOwned>(&self) -> T {
        let text = self.result.as_ref().and_then(Payload::text).unwrap_or("null");
        serde_json::from_str(text).unwrap_or_else(|error| panic!("cannot read the result: {error}: {text}"))
    }
}
