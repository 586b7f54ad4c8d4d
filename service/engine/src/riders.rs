//! Queries and updates: riders, which wait beside a run for a turn that takes them along, or for a task of their own. What can
//! happen to one is the table of [`place`](place); there is one of everything that both need, and two only of what they differ in.
//!
//! | | a query | an update |
//! |---|---|---|
//! | its task takes | a copy: whoever answers first has answered | the update itself: whoever has it may accept it |
//! | what is said to it | goes to whoever waits, and is recorded nowhere | is recorded with the turn, unless it is rejected |
//! | a task of its own | only asks | is a speculative turn |
//! | at another node it is | asked once more | lent |
//! | it is asked of | any run, closed ones, too | the open run |

pub(super) mod answer;
pub(super) mod carrier;
pub(super) mod heard;
mod nodes;
pub(super) mod place;
pub(super) mod put;
pub(super) mod query;
mod rejections;
mod rider;
pub(super) mod task;
pub(super) mod update;
pub(super) mod waiting;
