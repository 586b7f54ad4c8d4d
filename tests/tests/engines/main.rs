//! Races and crashes of several engines over one store, which the random seeds of the simulation produce too rarely.

mod children;
mod deletion;
mod effects;
mod poison;
mod reset;
mod schedules;
mod starts;
mod strangers;
mod take_over;
