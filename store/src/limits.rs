//! What an engine can take, and what it counts.

/// The least that [`Limits::head_hard`] may be: what the rules let the state of a run grow to, and room for what the service keeps
/// with it. Ours: as much as fits into an item of DynamoDB under the longest names.
pub const HEAD_HARD_MIN: usize = 388 * 1024;

/// The least that [`Limits::part_max`] may be: the largest payload, or an event with the longest of all names.
pub const PART_MAX_MIN: usize = 288 * 1024;

/// What an engine can take, and how the layer above should shape what it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Events move from the head to a chunk when the head's [`weight`](crate::Store::weight) would pass this many bytes.
    pub head_soft: usize,
    /// A body above this is refused with [`TooLarge`](crate::Error::TooLarge). At least [`HEAD_HARD_MIN`].
    pub head_hard: usize,
    /// A part above this is refused with [`TooLarge`](crate::Error::TooLarge). At least [`PART_MAX_MIN`].
    pub part_max: usize,
    /// A payload above this many bytes goes to a pack rather than into an event.
    pub payload_inline_max: usize,
    /// How many shards the due index has.
    pub due_shards: u32,
    /// How many operation ids a head must remember, so that a commit of unknown outcome can be recognized. 0 for an
    /// engine that never answers [`Unknown`](crate::Error::Unknown).
    pub op_ids: usize,
    /// Whether moving `due` costs next to nothing; where it does not, it is moved lazily.
    pub due_moves_are_cheap: bool,
}

/// Counters since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Commits that were won.
    pub commits: u64,
    /// Times that a device was asked to make data durable (fsync, or its like).
    pub syncs: u64,
    /// Bytes handed to the device.
    pub bytes_written: u64,
    /// Bytes that the store occupies now.
    pub bytes_on_disk: u64,
    /// Write units that the database bills for, where it does.
    pub write_units: u64,
    /// Read units that the database bills for, where it does; rounded up.
    pub read_units: u64,
    /// Rows that lists have looked at, whether they matched or not.
    pub rows_read: u64,
    /// Times that a file could not be opened because the system was short of descriptors or memory.
    pub opens_put_off: u64,
    /// How long syncs of the log took, each of which commits wait for.
    pub syncs_took: Took,
    /// Bytes that must be free on the disk for anything but what deletes to be written; 0 where none are.
    pub disk_least: u64,
}

/// How often something took how long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Took {
    /// How often it took up to the bound of [`TOOK_MICROS`] at the same place, and in the last one longer than all of them.
    pub counts: [u64; TOOK_MICROS.len() + 1],
    /// How long all of them took together, in microseconds.
    pub micros: u64,
}

/// Bounds of [`Took`], in microseconds. Ours: a good disk takes less than a millisecond, a bad one a tenth of a second.
pub const TOOK_MICROS: [u64; 11] = [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 2_000_000];

#[expect(clippy::cast_precision_loss, reason = "figures for people, far below 2^52")]
impl Took {
    /// The place in `counts` of something that took so many microseconds.
    pub fn place(micros: u64) -> usize {
        TOOK_MICROS.iter().take_while(|bound| micros > **bound).count()
    }

    /// How often in all.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How long all of them took together, in seconds.
    pub fn sum(&self) -> f64 {
        self.micros as f64 / 1e6
    }

    /// How often by bound, in seconds; the last one has none.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = TOOK_MICROS.iter().map(|micros| *micros as f64 / 1e6).chain([f64::MAX]);
        bounds.zip(self.counts).collect()
    }
}
