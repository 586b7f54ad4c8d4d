//! Races and crashes of engines over one store that are too rare for seeds of the simulation.

mod children;
mod deletion;
mod effects;
mod poison;
mod reset;
mod schedules;
mod starts;
mod strangers;
mod take_over;
