//! How runs have closed.

use baton_history::{Duration, Payload, Status};
use serde::de::DeserializeOwned;

/// How a run closed.
#[derive(Debug, Clone, PartialEq)]
pub struct Closed {
    /// How.
    pub status: Status,
    /// The result of a success, the details of a failure or a cancellation.
    pub result: Option<Payload>,
    /// Why, when it failed or was terminated.
    pub reason: Option<String>,
    /// How long it was open, in virtual time.
    pub after: Duration,
}

impl Closed {
    /// The result, read as a `T`; absent is `null`.
    #[track_caller]
    pub fn result<T: DeserializeOwned>(&self) -> T {
        let text = self.result.as_ref().and_then(Payload::text).unwrap_or("null");
        serde_json::from_str(text).unwrap_or_else(|error| panic!("the result is something else: {error}: {text}"))
    }
}
