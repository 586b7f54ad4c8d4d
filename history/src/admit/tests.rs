//! Rules that span several subjects, one case per line: the events that a command adds, or the code of its refusal.

mod clock;
mod commands;
mod decisions;
mod fields;
mod permitted;
mod timeouts;
mod types;
