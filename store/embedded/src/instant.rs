//! Timestamps of batches. A batch contains its timestamp as a key-value pair, which earlier versions of Baton can read,
//! too. Timestamps are used only to restore a store to an instant, and no other module of this crate reads the time of
//! day.

use bytes::Bytes;
use store::UnixMs;

use crate::frame::{BatchOperation, Frame, operations};
use crate::keys;
use crate::shared::State;

/// Returns the current time of the machine's clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the store stamps its batches when it writes them, and a restore refers to wall-clock time"
)]
pub fn now() -> UnixMs {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    UnixMs::try_from(since.as_millis()).unwrap_or(UnixMs::MAX)
}

/// Number of bytes that a timestamp adds to a batch.
pub(crate) const BYTES: usize = 9 + 1 + 8;

/// Adds the timestamp to the open batch.
pub(crate) fn put(state: &mut State) {
    state.put(&[keys::INSTANT], Bytes::copy_from_slice(&now().to_be_bytes()), false);
}

/// Returns the timestamp of a batch. Returns `None` if the batch has none because an earlier version of Baton wrote it.
pub fn of(frame: &Frame<'_>) -> Option<UnixMs> {
    operations(frame.operations).filter_map(Result::ok).filter_map(|operation| read(&operation)).last()
}

fn read(operation: &BatchOperation<'_>) -> Option<UnixMs> {
    match operation {
        BatchOperation::Put { key: [keys::INSTANT], value, .. } => (*value).try_into().ok().map(UnixMs::from_be_bytes),
        BatchOperation::Put { .. } | BatchOperation::Delete { .. } => None,
    }
}
