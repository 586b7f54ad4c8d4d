//! Values as payloads.

use baton_history::Payload;
use serde::Serialize;

/// A value as a payload. What has no JSON form (a map whose keys are not strings, say), or one that is nested too deep, is
/// a mistake in the program, and like any panic of a decider gives the turn back with the message.
pub(crate) fn payload<T: Serialize + ?Sized>(value: &T) -> Payload {
    Payload::of(value).expect("the value has a JSON form that may be a payload")
}
