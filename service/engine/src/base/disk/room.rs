//! How much room a disk has, and how much of it is kept.

/// Bytes of a MiB.
const MIB: u64 = 1 << 20;

/// How the disk stands against its reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRoom {
    /// Bytes that are free.
    pub free: u64,
    /// Bytes that are kept for what is open; 0 where nothing is.
    pub reserve: u64,
    /// Bytes that must be free for anything but what deletes to be written.
    pub least: u64,
}

impl DiskRoom {
    /// Whether nothing new is to begin. What is free may be exactly the reserve.
    pub fn is_low(self) -> bool {
        self.free < self.reserve || self.is_full()
    }

    /// Whether nothing is written but what deletes.
    pub fn is_full(self) -> bool {
        self.free < self.least
    }
}

/// In whole MiB, as the reserve is given.
impl std::fmt::Display for DiskRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (free, reserve) = (self.free / MIB, self.reserve.div_ceil(MIB));
        write!(f, "{free} MiB are free on the disk of the store, and {reserve} MiB are kept for runs that are open")
    }
}
