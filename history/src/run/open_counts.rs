//! How much a run has open, which stays readable after it closed.

use minicbor::{Decode, Encode};

/// How much a run has open, or had when it closed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct OpenCounts {
    /// Activities, scheduled or started.
    #[n(0)]
    pub activities: u32,
    /// Lambda tasks of SWF's dialect.
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
    /// Whether all are zero: then no byte is kept of them.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}
