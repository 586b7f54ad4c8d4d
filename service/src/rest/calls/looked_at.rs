//! Calls with which people inspect the service: task lists, sessions and credentials, and streams of changes.

use client::body;

use super::super::document::{CallTable, Doc};
use super::super::history::EVENT_STREAM;
use super::super::{changes, session, task_lists};
use crate::access::{CallEffect as E, Level as L};

pub(super) fn all<const DOC: bool>(calls: CallTable<DOC>) -> CallTable<DOC> {
    of_changes(of_sessions(of_groups(of_activity_lists(of_decider_lists(of_task_lists(calls))))))
}

fn of_task_lists<const DOC: bool>(calls: CallTable<DOC>) -> CallTable<DOC> {
    calls
        .get(
            "/v1/domains/{domain}/task-lists",
            L::Reader,
            task_lists::list,
            Doc::of("listTaskLists", "List task lists as known to this node, with their tasks and pollers")
                .answers::<body::ListedTaskLists>(200, "Page of task lists.")
                .refuses(400, &["bad-page"]),
        )
        .get(
            "/v1/domains/{domain}/task-lists/{list}",
            L::Reader,
            task_lists::show,
            Doc::of(
                "describeTaskList",
                "Describe the decider list and the activity list with the same name, as known to this node",
            )
            .answers::<body::ListedTaskLists>(
                200,
                "The decider list and the activity list with this name, even if the node knows nothing about them.",
            ),
        )
}

/// Adds the calls that change one kind of task lists.
macro_rules! settings_of {
    ($function:ident, $is_decider:literal, $kind:literal, $Kind:literal) => {
        fn $function<const DOC: bool>(calls: CallTable<DOC>) -> CallTable<DOC> {
            calls
                .put(
                    concat!("/v1/domains/{domain}/task-lists/{list}/", $kind, "/limits"),
                    L::DomainOperator,
                    E::Changes,
                    task_lists::set_limits::<$is_decider>,
                    Doc::of(concat!("limit", $Kind, "List"), concat!("Replace the limits of one ", $kind, " list"))
                        .answers::<body::TaskListSettings>(200, "The limits apply.")
                        .refuses(404, &["unknown-limit-group"])
                        .refuses(409, &["limit-exceeded"]),
                )
                .post(
                    concat!("/v1/domains/{domain}/task-lists/{list}/", $kind, "/pause"),
                    L::DomainOperator,
                    E::Changes,
                    task_lists::pause::<$is_decider>,
                    Doc::of(
                        concat!("pause", $Kind, "List"),
                        concat!("Pause one ", $kind, " list: its tasks wait until the list is resumed"),
                    )
                    .answers::<body::TaskListSettings>(200, "The list is paused.")
                    .refuses(409, &["limit-exceeded", "task-list-already-paused"]),
                )
                .post(
                    concat!("/v1/domains/{domain}/task-lists/{list}/", $kind, "/resume"),
                    L::DomainOperator,
                    E::Changes,
                    task_lists::resume::<$is_decider>,
                    Doc::of(concat!("resume", $Kind, "List"), concat!("Resume one paused ", $kind, " list"))
                        .answers::<body::TaskListSettings>(200, "The list dispatches tasks again.")
                        .refuses(409, &["task-list-not-paused"]),
                )
        }
    };
}
settings_of!(of_decider_lists, true, "decider", "Decider");
settings_of!(of_activity_lists, false, "activity", "Activity");

fn of_groups<const DOC: bool>(calls: CallTable<DOC>) -> CallTable<DOC> {
    calls
        .get(
            "/v1/domains/{domain}/limit-groups",
            L::Reader,
            task_lists::groups,
            Doc::of("listLimitGroups", "List limit groups, whose limits task lists share")
                .answers::<body::LimitGroups>(200, "All groups of the domain."),
        )
        .get(
            "/v1/domains/{domain}/limit-groups/{group}",
            L::Reader,
            task_lists::show_group,
            Doc::of("describeLimitGroup", "Describe a limit group")
                .answers::<body::LimitGroup>(200, "The group.")
                .refuses(404, &["unknown-limit-group"]),
        )
        .put(
            "/v1/domains/{domain}/limit-groups/{group}",
            L::DomainOperator,
            E::Changes,
            task_lists::set_group,
            Doc::of("setLimitGroup", "Create a limit group, or replace its limits")
                .answers::<body::LimitGroup>(200, "The limits apply.")
                .refuses(409, &["limit-exceeded"]),
        )
        .delete(
            "/v1/domains/{domain}/limit-groups/{group}",
            L::DomainOperator,
            E::Changes,
            task_lists::delete_group,
            Doc::of("deleteLimitGroup", "Delete a limit group that no task list uses")
                .answers_nothing(204, "The group was deleted.")
                .refuses(404, &["unknown-limit-group"])
                .refuses(409, &["limit-group-in-use"]),
        )
}

fn of_changes<const DOC: bool>(calls: CallTable<DOC>) -> CallTable<DOC> {
    calls
        .get(
            "/v1/domains/{domain}/changes",
            L::Reader,
            changes::follow,
            Doc::of("followChanges", "Stream a message whenever runs of a domain have changed")
                .answers_text(EVENT_STREAM, "Stream with at most one message per second."),
        )
        .get(
            "/v1/changes",
            L::Known,
            changes::follow_all,
            Doc::of(
                "followAllChanges",
                "Stream a message whenever runs have changed in any domain that the caller may read",
            )
            .answers_text(EVENT_STREAM, "Stream with at most one message per second.")
            .answers_nothing(204, "The caller may not read the runs of any domain."),
        )
}

fn of_sessions<const DOC: bool>(calls: CallTable<DOC>) -> CallTable<DOC> {
    calls
        .get(
            "/v1/session",
            L::Known,
            session::show,
            Doc::of("describeSession", "Describe the caller and its permissions")
                .answers::<body::SessionInfo>(200, "The caller."),
        )
        .post(
            "/v1/session",
            L::Known,
            E::Changes,
            session::begin,
            Doc::of("createSession", "Sign in: exchange a secret or token for a session cookie")
                .answers::<body::SessionInfo>(201, "The session was created; `Set-Cookie` has its cookie."),
        )
        .delete(
            "/v1/session",
            L::Known,
            E::Changes,
            session::end,
            Doc::of("deleteSession", "Sign out").answers_nothing(204, "The session has ended."),
        )
        .get(
            "/v1/credentials",
            L::Operator,
            session::credentials,
            Doc::of("listCredentials", "List credentials with their permissions, without secrets (operators only)")
                .answers::<body::CredentialList>(200, "Credentials."),
        )
        .get(
            "/v1/nodes",
            L::Operator,
            session::nodes,
            Doc::of("listNodes", "List the live nodes that share the store (operators only)")
                .answers::<body::NodeList>(200, "Live nodes."),
        )
}
