//! Tests across several parts of the engine.

mod nodes;
mod successors;
