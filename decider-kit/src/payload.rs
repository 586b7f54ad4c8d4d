//! Conversion of values to payloads.

use baton_history::Payload;
use serde::Serialize;

/// Converts a value to a payload.
///
/// # Panics
///
/// If the value has no JSON form (such as a map whose keys are not strings) or is nested too deeply. This is a
/// programming error. Like any panic of a decider, it gives the turn back with the message of the panic.
pub(crate) fn payload<T: Serialize + ?Sized>(value: &T) -> Payload {
    Payload::of(value).expect("the value can be serialized as a payload")
}
