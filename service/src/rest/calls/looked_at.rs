//! Calls with which people inspect the service: task lists, sessions and credentials, and streams of changes.

use client::body;

use super::super::document::{CallTable, Doc};
use super::super::history::EVENT_STREAM;
use super::super::{changes, session, task_lists};
use crate::access::{CallEffect as E, Level as L};

pub(super) fn all<const DOC: bool>(calls: CallTable<DOC>) -> CallTable<DOC> {
    of_changes(of_sessions(of_task_lists(calls)))
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
                "Describe the two task lists of a name, for turns and for activities, as known to this node",
            )
            .answers::<body::ListedTaskLists>(200, "Both lists, even if the node knows nothing about them."),
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
