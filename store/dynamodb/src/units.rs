//! What DynamoDB bills: read off every answer, so that budgets can be tested and operators see what they pay.

use std::sync::atomic::{AtomicU64, Ordering};

use aws_sdk_dynamodb::types::ConsumedCapacity;

/// Bytes of an item that one write unit pays for. Source: the DynamoDB developer guide, "Read and write operations".
pub(crate) const WRITE_UNIT_BYTES: usize = 1_024;

/// Units since the store was made. In halves, because an eventually consistent read of one item is half a unit.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    write_halves: AtomicU64,
    read_halves: AtomicU64,
    rows: AtomicU64,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "units are small and never negative")]
pub(crate) fn halves(told: Option<&ConsumedCapacity>) -> u64 {
    (told.and_then(ConsumedCapacity::capacity_units).unwrap_or(0.0).max(0.0) * 2.0).round() as u64
}

impl Meter {
    pub(crate) fn wrote(&self, told: Option<&ConsumedCapacity>) {
        self.write_halves.fetch_add(halves(told), Ordering::Relaxed);
    }

    /// A conditional write that was refused is billed by the item it met, and its answer does not say so (STORAGE F5).
    pub(crate) fn lost(&self, item_bytes: usize) {
        let units = item_bytes.div_ceil(WRITE_UNIT_BYTES).max(1);
        self.write_halves.fetch_add(units as u64 * 2, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, told: Option<&ConsumedCapacity>) {
        self.read_halves.fetch_add(halves(told), Ordering::Relaxed);
    }

    /// A row of an index was read.
    pub(crate) fn looked_at_row(&self) {
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
