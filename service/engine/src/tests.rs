//! What concerns several rooms.

mod nodes;
mod successors;
