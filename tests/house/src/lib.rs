//! Measures of the code's structure: imports between files and their cycles, names with several types, references that
//! lead nowhere, and messages with Rust's `Debug` forms.
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
