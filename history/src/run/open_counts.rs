//! Numbers of a run's open items. The numbers stay available after the run has closed.

use minicbor::{Decode, Encode};

/// Numbers of a run's open items. For a closed run, the numbers at its close.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct OpenCounts {
    /// Activities that are waiting or held.
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
    /// Returns `true` if all numbers are zero. The field is then not stored.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}
