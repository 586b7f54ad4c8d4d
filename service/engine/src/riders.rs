//! Riders: queries and updates that wait in memory for a turn of their run, or for a separate task.
//! [`place`](place) defines their states and transitions. Everything both kinds need exists once; only the
//! differences are separate:
//!
//! | | a query | an update |
//! |---|---|---|
//! | a task takes | a copy; the first answer counts | the update itself; its holder may accept it |
//! | the answer | is sent to the callers, and not recorded | is recorded with the turn, unless the update is rejected |
//! | a separate task | only answers queries | is a speculative turn |
//! | at another node it is | asked again | lent |
//! | it is sent to | any run, including closed ones | the open run |

pub(super) mod answer;
pub(super) mod carrier;
mod nodes;
pub(super) mod outcome;
pub(super) mod place;
pub(super) mod query;
mod rejections;
mod rider;
pub(super) mod submitted;
pub(super) mod task;
pub(super) mod update;
pub(super) mod waiting;
