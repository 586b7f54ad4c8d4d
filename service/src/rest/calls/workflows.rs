//! Calls for runs: starting, messaging and reading them.

use client::body;

use super::super::document::{CallTable, Doc};
use super::super::{describe, history, queries, updates, workflows};
use super::codes::{ETAG, NO_RUN, NO_START, NO_WRITE, QUERY_ETAG};
use crate::access::{CallEffect as E, Level as L};

pub(super) fn all<const DOC: bool>(calls: CallTable<DOC>) -> CallTable<DOC> {
    calls
        .get(
            "/v1/domains/{domain}/workflows",
            L::Reader,
            workflows::list,
            Doc::of("listWorkflows", "List runs, newest start first unless asked otherwise")
                .answers::<body::Workflows>(200, "A page of runs.")
                .refuses(400, &["bad-page"]),
        )
        .post(
            "/v1/domains/{domain}/workflows",
            L::Application,
            E::Changes,
            workflows::start,
            Doc::of("startWorkflow", "Start a run, and wait for its close if asked to")
                .answers::<body::Started>(201, "It was started.")
                .answers::<body::Started>(200, "It was started before, with the same Idempotency-Key.")
                .refuses(409, NO_START)
                .refuses(507, &["disk-low"]),
        )
        .get(
            "/v1/domains/{domain}/workflow-count",
            L::Reader,
            workflows::count,
            Doc::of("countWorkflows", "Count runs").answers::<body::Count>(200, "The count."),
        )
        .get(
            "/v1/domains/{domain}/workflows/{id}",
            L::Reader,
            describe::describe,
            Doc::of("describeWorkflow", "Describe a run")
                .answers::<body::Described>(200, "The state.")
                .with_header("ETag", ETAG)
                .answers_nothing(304, "The run had no news in time beyond what `If-None-Match` names.")
                .with_header("ETag", ETAG)
                .refuses(404, NO_RUN),
        )
        .get(
            "/v1/domains/{domain}/workflows/{id}/history",
            L::Reader,
            history::read,
            Doc::of("readHistory", "List events of a run, as a page or as a stream")
                .answers::<body::History>(
                    200,
                    "A page of events; or a stream, whose messages have an Event each in `data`.",
                )
                .or_text(history::EVENT_STREAM)
                .answers_nothing(
                    204,
                    "Of a stream: the run has closed and the caller has all of its events, so there is nothing to \
                     reconnect for.",
                )
                .refuses(404, NO_RUN),
        )
        .get(
            "/v1/domains/{domain}/workflows/{id}/result",
            L::Reader,
            workflows::result,
            Doc::of("awaitResult", "Get the result of a run, and wait for it if asked to")
                .answers::<body::RunResult>(200, "It has closed.")
                .with_header("ETag", ETAG)
                .answers::<body::RunResult>(202, "It is still open.")
                .with_header("ETag", ETAG)
                .answers_nothing(304, "When the wait was over it was still, or again, as `If-None-Match` names it.")
                .with_header("ETag", ETAG)
                .refuses(404, NO_RUN),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/signals/{name}",
            L::Application,
            E::Changes,
            workflows::signal,
            Doc::of("signalWorkflow", "Signal a run")
                .answers::<body::Recorded>(202, "The signal is recorded.")
                .refuses(404, NO_RUN)
                .refuses(409, NO_WRITE)
                .refuses(412, &["version-moved"]),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/queries/{name}",
            L::Reader,
            E::Reads,
            queries::query,
            Doc::of("queryWorkflow", "Query a run, or wait until its answer changes")
                .answers::<body::QueryAnswer>(
                    200,
                    "The decider's answer, which shows all that was recorded before the call.",
                )
                .with_header("ETag", QUERY_ETAG)
                .answers_nothing(304, "There was nothing else in time than what `If-None-Match` names.")
                .with_header("ETag", QUERY_ETAG)
                .refuses(404, NO_RUN)
                .refuses(404, &["unknown-query"])
                .refuses(422, &["query-failed"])
                .refuses(429, &["too-many-waiting"])
                .refuses(504, &["query-not-answered"]),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/updates/{name}",
            L::Application,
            E::Changes,
            updates::update,
            Doc::of("updateWorkflow", "Update a run, or get the answer to an earlier update again")
                .answers::<body::Updated>(200, "It was accepted, and this is the decider's answer.")
                .with_header("ETag", ETAG)
                .answers::<body::Updated>(202, "It was accepted, and a later turn will answer.")
                .refuses(404, NO_RUN)
                .refuses(409, NO_WRITE)
                .refuses(409, NO_START)
                .refuses(412, &["version-moved"])
                .refuses(422, &["update-failed", "update-rejected"])
                .refuses(429, &["open-updates-limit", "too-many-waiting"])
                .refuses(504, &["update-not-answered"])
                .refuses(507, &["disk-low"]),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/cancel",
            L::Application,
            E::Changes,
            workflows::cancel,
            Doc::of("cancelWorkflow", "Request that a run be canceled")
                .answers::<body::Recorded>(202, "The request is recorded; the run's decider says what it means.")
                .refuses(404, NO_RUN)
                .refuses(409, NO_WRITE),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/terminate",
            L::Application,
            E::Changes,
            workflows::terminate,
            Doc::of("terminateWorkflow", "Terminate a run")
                .answers::<body::Recorded>(200, "It has ended.")
                .refuses(404, NO_RUN)
                .refuses(409, NO_WRITE),
        )
}
