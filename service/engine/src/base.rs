//! Parts that all others build on. They depend on no other part of the engine.

pub mod admission;
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
pub(super) mod token;
pub(super) mod traces;
pub(super) mod watch;
