//! The invariants of every history, checked on the events alone.
//!
//! This is deliberately a second opinion: it shares no code with `admit` or `evolve`, so that a mistake there shows here.
