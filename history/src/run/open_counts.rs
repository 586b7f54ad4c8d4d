//! Numbers of a run's open items, which stay readable after it closes.

use minicbor::{Decode, Encode};

/// Numbers of a run's open items, now or at its close.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct OpenCounts {
    /// Activities, scheduled or started.
    #[n(0)]
    pub activities: u32,
    /// Lambda tasks of an SWF run.
    #[n(1)]
    pub functions: u32,
    /// Timers.
    #[n(2)]
    pub timers: u32,
    /// Children.
    #[n(3)]
    pub children: u32,
}

impl OpenCounts {
    /// Returns `true` if all are zero; the field is then omitted from the stored form.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}
