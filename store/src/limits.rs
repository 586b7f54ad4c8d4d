//! Limits and counters of an engine.

/// Minimum of [`Limits::head_hard`]: the maximum size of a run's state under the rules, plus the data that the service
/// stores with the state. Chosen: a head of this size fits into a DynamoDB item, even with names of the maximum length.
pub const HEAD_HARD_MIN: usize = 388 * 1024;

/// Minimum of [`Limits::part_max`]. Chosen: enough for the largest payload, and for an event with names of the maximum
/// length.
pub const PART_MAX_MIN: usize = 288 * 1024;

/// Limits of an engine, which determine how the layer above writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Events stay in the head while its [`weight`](crate::Store::weight) is at most this many bytes. If the head is
    /// larger, and its events are a significant part of it, they are moved to a chunk.
    pub head_soft: usize,
    /// Maximum size of a body. A larger body fails with [`TooLarge`](crate::Error::TooLarge). The limit is at least
    /// [`HEAD_HARD_MIN`].
    pub head_hard: usize,
    /// Maximum size of a part. A larger part fails with [`TooLarge`](crate::Error::TooLarge). The limit is at least
    /// [`PART_MAX_MIN`].
    pub part_max: usize,
    /// Maximum size of a payload inside an event. A larger payload is stored in a pack.
    pub payload_inline_max: usize,
    /// Number of shards of the due index.
    pub due_shards: u32,
    /// Number of operation ids that a head must remember, so that a caller can recognize its commit after an unknown
    /// outcome. 0 if the engine never returns [`Unknown`](crate::Error::Unknown).
    pub op_ids: usize,
    /// True if changing `due` costs almost nothing. Otherwise the layer above avoids changes that can wait.
    pub due_moves_are_cheap: bool,
    /// True if other processes can have the store open at the same time and see each other's commits. The service then
    /// runs as a node, and divides the work among the nodes that use the store. If false, an attempt of a second
    /// process to open the store fails, or opens a different store.
    pub is_shared: bool,
}

/// Counters since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Commits that were won.
    pub commits: u64,
    /// Requests to make data durable on a device (such as fsync).
    pub syncs: u64,
    /// Bytes written to the disk.
    pub bytes_written: u64,
    /// Bytes that the store occupies now.
    pub bytes_on_disk: u64,
    /// Write units billed by the database, if it bills any.
    pub write_units: u64,
    /// Read units billed by the database, if it bills any, rounded up.
    pub read_units: u64,
    /// Rows examined for lists, including rows that did not match.
    pub rows_read: u64,
    /// Number of times that the opening of a file was postponed because the operating system lacked descriptors or
    /// memory.
    pub opens_put_off: u64,
    /// Latency of syncs of the log. Every commit waits for a sync.
    pub sync_latency: LatencyHistogram,
    /// Bytes that must be free on the disk. If fewer bytes are free, the store accepts only deletions. 0 if there is no
    /// such limit.
    pub disk_least: u64,
}

/// Histogram of latencies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LatencyHistogram {
    /// Number of measurements in each bucket. A bucket contains the latencies that are longer than the previous bound
    /// and at most the bound at the same index of [`LATENCY_BOUNDS_MICROS`]. The last bucket contains all longer ones.
    pub counts: [u64; LATENCY_BOUNDS_MICROS.len() + 1],
    /// Sum of all latencies, in microseconds.
    pub micros: u64,
}

/// Bounds of a [`LatencyHistogram`], in microseconds. Chosen: a sync takes less than a millisecond on a good disk, and
/// a tenth of a second on a bad disk.
pub const LATENCY_BOUNDS_MICROS: [u64; 11] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 2_000_000];

#[expect(clippy::cast_precision_loss, reason = "figures for people, far below 2^52")]
impl LatencyHistogram {
    /// Returns the index in `counts` for a latency.
    pub fn bucket_index(micros: u64) -> usize {
        LATENCY_BOUNDS_MICROS.iter().take_while(|bound| micros > **bound).count()
    }

    /// Returns the number of measurements.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all latencies, in seconds.
    pub fn sum(&self) -> f64 {
        self.micros as f64 / 1e6
    }

    /// Returns the cumulative buckets: pairs of a bound in seconds and the number of measurements up to this bound. The
    /// last bound is infinite.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = LATENCY_BOUNDS_MICROS.iter().map(|micros| *micros as f64 / 1e6).chain([f64::MAX]);
        bounds.zip(self.counts).collect()
    }
}
