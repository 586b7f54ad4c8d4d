//! Calls that report the state of the service to people.

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

fn of_changes<const DOC: bool>(calls: CallTable<DOC>) -> CallTable<DOC> {
    calls
        .get(
            "/v1/domains/{domain}/changes",
            L::Reader,
            changes::follow,
            Doc::of("followChanges", "Follow a domain: a message when something in its runs has changed")
                .answers_text(EVENT_STREAM, "A stream, with one message a second at most."),
        )
        .get(
            "/v1/changes",
            L::Known,
            changes::follow_all,
            Doc::of(
                "followAllChanges",
                "Follow the domains whose runs the caller may read: a message when something in any of them has \
                 changed",
            )
            .answers_text(EVENT_STREAM, "A stream, with one message a second at most.")
            .answers_nothing(204, "There is no domain whose runs the caller may read."),
        )
}

fn of_sessions<const DOC: bool>(calls: CallTable<DOC>) -> CallTable<DOC> {
    calls
        .get(
            "/v1/session",
            L::Known,
            session::show,
            Doc::of("showSession", "Describe who asks, and what they may do")
                .answers::<body::SessionInfo>(200, "Who asks."),
        )
        .post(
            "/v1/session",
            L::Known,
            E::Changes,
            session::begin,
            Doc::of("beginSession", "Sign in: have a browser keep a cookie in place of a secret or a token")
                .answers::<body::SessionInfo>(201, "The session, whose cookie is in `Set-Cookie`."),
        )
        .delete(
            "/v1/session",
            L::Known,
            E::Changes,
            session::end,
            Doc::of("endSession", "Sign out").answers_nothing(204, "The session is over."),
        )
        .get(
            "/v1/credentials",
            L::Operator,
            session::credentials,
            Doc::of("listCredentials", "List credentials and what they may do, without secrets; for operators")
                .answers::<body::CredentialList>(200, "The credentials."),
        )
        .get(
            "/v1/nodes",
            L::Operator,
            session::nodes,
            Doc::of("listNodes", "List the nodes over the store that are alive; for operators")
                .answers::<body::NodeList>(200, "The nodes."),
        )
}
