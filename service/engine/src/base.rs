//! What every room stands on, and which knows of none of them.

pub(super) mod agenda;
pub(super) mod background;
pub(super) mod clock;
pub(super) mod disk;
pub(super) mod forms;
pub(super) mod metrics;
pub(super) mod notices;
pub mod numbers;
pub(super) mod records;
pub(super) mod refusal;
pub mod shares;
pub(super) mod token;
pub(super) mod traces;
pub(super) mod watch;
