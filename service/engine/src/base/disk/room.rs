//! Free space of a disk, with the reserve for open runs.

/// Number of bytes in a MiB.
const MIB: u64 = 1 << 20;

/// Free space of a disk, with its thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRoom {
    /// Free bytes.
    pub free: u64,
    /// Bytes reserved for open runs; 0 if there is no reserve.
    pub reserve: u64,
    /// If fewer bytes than this are free, the store only deletes.
    pub least: u64,
}

impl DiskRoom {
    /// Returns true if no new run may start. Free space that equals the reserve is sufficient.
    pub fn is_low(self) -> bool {
        self.free < self.reserve || self.is_full()
    }

    /// Returns true if the store only deletes.
    pub fn is_full(self) -> bool {
        self.free < self.least
    }
}

/// Formats sizes in whole MiB, the unit of the configured reserve.
impl std::fmt::Display for DiskRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (free, reserve) = (self.free / MIB, self.reserve.div_ceil(MIB));
        write!(f, "{free} MiB are free on the disk of the store, and {reserve} MiB are reserved for open runs")
    }
}
