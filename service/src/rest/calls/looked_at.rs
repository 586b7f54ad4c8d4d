//! Those that say how the service stands, for people who look.

use client::body;

use super::super::document::{CallTable, Doc};
use super::super::task_lists;
use crate::access::Level as L;

pub(super) fn of_task_lists(calls: CallTable) -> CallTable {
    calls
        .get(
            "/v1/domains/{domain}/task-lists",
            L::Reader,
            task_lists::list,
            Doc::of(
                "listTaskLists",
                "List task lists as this node knows them: what waits, what is in flight, who polls",
            )
            .answers::<body::ListedTaskLists>(200, "A page of task lists.")
            .refuses(400, &["bad-page"]),
        )
        .get(
            "/v1/domains/{domain}/task-lists/{list}",
            L::Reader,
            task_lists::show,
            Doc::of(
                "showTaskList",
                "Describe the task lists of a name, the deciders' and the runners', as this node knows them",
            )
            .answers::<body::ListedTaskLists>(200, "Both, also where nothing is known of them."),
        )
}
