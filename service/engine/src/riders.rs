//! Riders: queries and updates that wait in memory for a decider. They are handed out with a turn of their run, or with
//! a separate task. [`place`](place) defines their states and transitions. Most of the code handles both queries and
//! updates. They differ as follows:
//!
//! | | query | update |
//! |---|---|---|
//! | a task takes | a copy; the first answer counts | the update itself; only this task can accept it |
//! | the answer | is sent to the callers, and not recorded | is recorded with the turn, unless the update is rejected |
//! | a separate task | only answers queries | is a speculative turn |
//! | with a decider at another node | the query is forwarded | the update is lent to that node |
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
