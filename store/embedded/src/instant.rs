//! When each batch was begun: a pair in it, which any version can read. What is restored to an instant goes by it. Nothing
//! else here reads a clock, and nothing is decided by what it says.

use bytes::Bytes;
use store::UnixMs;

use crate::frame::{BatchOperation, Frame, operations};
use crate::keys;
use crate::shared::State;

/// What the machine's clock says.
#[expect(
    clippy::disallowed_methods,
    reason = "the store stamps its batches when it writes them, and a restore asks for what people's clocks said"
)]
pub(crate) fn now() -> UnixMs {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    UnixMs::try_from(since.as_millis()).unwrap_or(UnixMs::MAX)
}

/// What the stamp adds to a batch.
pub(crate) const BYTES: usize = 9 + 1 + 8;

/// Stamps the open batch.
pub(crate) fn put(state: &mut State) {
    state.put(&[keys::INSTANT], Bytes::copy_from_slice(&now().to_be_bytes()), false);
}

/// The instant of a batch; `None` where a version wrote it that did not say.
pub(crate) fn of(frame: &Frame<'_>) -> Option<UnixMs> {
    operations(frame.operations).filter_map(Result::ok).filter_map(|operation| read(&operation)).last()
}

fn read(operation: &BatchOperation<'_>) -> Option<UnixMs> {
    match operation {
        BatchOperation::Put { key: [keys::INSTANT], value, .. } => (*value).try_into().ok().map(UnixMs::from_be_bytes),
        BatchOperation::Put { .. } | BatchOperation::Delete { .. } => None,
    }
}
