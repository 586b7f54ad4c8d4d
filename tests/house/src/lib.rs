//! Measures the structure of the code:
//!
//! * dependencies between files, and their cycles
//! * type names with several meanings
//! * references in comments and documentation to missing pages
//! * messages with Rust's `Debug` output
//!
//! `cargo run -p baton-tests-house` prints the results. The tests of this crate compare them with fixed bounds.

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
