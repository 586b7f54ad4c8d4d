//! Counts how the code hangs together: which file imports which, where they do so in a circle, which names mean several
//! types, which references lead nowhere, and which messages have Rust's `Debug` forms.
//!
//! `cargo run -p baton-tests-house` prints it all; the test of this crate holds what was reached.

pub mod arrows;
pub mod debugged;
pub mod limits;
pub mod measures;
pub mod names;
pub mod references;
pub mod sources;
pub mod texts;

pub use arrows::{Arrow, Arrows};
pub use sources::{Sources, root};
