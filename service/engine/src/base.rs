//! Modules that all other parts of the engine use. They depend on no other part.

pub mod admission;
pub(super) mod agenda;
pub(super) mod background;
pub(super) mod clock;
pub(super) mod disk;
pub(super) mod forms;
pub(crate) mod list_reports;
pub mod list_settings;
pub(super) mod metrics;
pub(super) mod notices;
pub mod numbers;
pub(super) mod records;
pub(super) mod refusal;
pub(super) mod token;
pub(super) mod traces;
pub(super) mod watch;
