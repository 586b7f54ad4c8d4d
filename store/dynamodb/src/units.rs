//! Units billed by DynamoDB. They are taken from every response, so that tests can check budgets and operators can see
//! the cost.

use std::sync::atomic::{AtomicU64, Ordering};

use aws_sdk_dynamodb::types::ConsumedCapacity;

/// Size of an item in bytes that one write unit covers. Source: the DynamoDB developer guide, "Read and write
/// operations".
pub(crate) const WRITE_UNIT_BYTES: usize = 1_024;

/// Units consumed since the store was created. They are counted in halves, because an eventually consistent read of one
/// item consumes half a unit.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    write_halves: AtomicU64,
    read_halves: AtomicU64,
    rows: AtomicU64,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "units are small and never negative")]
pub(crate) fn halves(reported: Option<&ConsumedCapacity>) -> u64 {
    (reported.and_then(ConsumedCapacity::capacity_units).unwrap_or(0.0).max(0.0) * 2.0).round() as u64
}

impl Meter {
    pub(crate) fn wrote(&self, reported: Option<&ConsumedCapacity>) {
        self.write_halves.fetch_add(halves(reported), Ordering::Relaxed);
    }

    /// Counts a conditional write that failed. DynamoDB bills it by the size of the existing item, which the response
    /// does not contain.
    pub(crate) fn lost(&self, item_bytes: usize) {
        let units = item_bytes.div_ceil(WRITE_UNIT_BYTES).max(1);
        self.write_halves.fetch_add(units as u64 * 2, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, reported: Option<&ConsumedCapacity>) {
        self.read_halves.fetch_add(halves(reported), Ordering::Relaxed);
    }

    /// Counts a row read from an index.
    pub(crate) fn count_row(&self) {
        self.rows.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn rows_read(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    pub(crate) fn write_units(&self) -> u64 {
        self.write_halves.load(Ordering::Relaxed).div_ceil(2)
    }

    pub(crate) fn read_units(&self) -> u64 {
        self.read_halves.load(Ordering::Relaxed).div_ceil(2)
    }
}
