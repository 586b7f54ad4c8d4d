//! Tests that involve several parts of the engine.

mod nodes;
mod successors;
