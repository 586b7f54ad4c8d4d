//! What goes across subjects, one line a case: what a command adds to a run, or the code of its refusal.

mod clock;
mod commands;
mod decisions;
mod fields;
mod permitted;
mod timeouts;
mod types;
