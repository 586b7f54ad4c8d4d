//! Calls for runs: starting, messaging and reading them.

use client::body;

use super::super::document::{CallTable, Doc};
use super::super::{describe, failures, history, output, queries, updates, workflows};
use super::codes::{ETAG, NO_DECIDER, NO_RUN, NO_START, NO_WRITE, QUERY_ETAG};
use crate::access::{CallEffect as E, Level as L};

pub(super) fn all<const DOC: bool>(calls: CallTable<DOC>) -> CallTable<DOC> {
    calls
        .get(
            "/v1/domains/{domain}/workflows",
            L::Reader,
            workflows::list,
            Doc::of("listWorkflows", "List runs, by default the newest start first")
                .answers::<body::Workflows>(200, "Page of runs.")
                .refuses(400, &["bad-page"]),
        )
        .post(
            "/v1/domains/{domain}/workflows",
            L::Application,
            E::Changes,
            workflows::start,
            Doc::of("startWorkflow", "Start a run, and optionally wait for its close")
                .answers::<body::Started>(201, "The run was started.")
                .answers::<body::Started>(200, "An earlier request with the same Idempotency-Key started the run.")
                .refuses(409, NO_START)
                .refuses(409, NO_DECIDER)
                .refuses(507, &["insufficient-storage"]),
        )
        .post(
            "/v1/domains/{domain}/task-lists/{list}/activities",
            L::ActivityStarter,
            E::Changes,
            workflows::start_activity,
            Doc::of(
                "startActivity",
                "Start a run of a single activity without a decider, and optionally wait for its close",
            )
            .answers::<body::Started>(201, "The run was started.")
            .answers::<body::Started>(200, "An earlier request with the same Idempotency-Key started the run.")
            .refuses(409, NO_START)
            .refuses(507, &["insufficient-storage"]),
        )
        .get(
            "/v1/domains/{domain}/workflow-count",
            L::Reader,
            workflows::count,
            Doc::of("countWorkflows", "Count runs").answers::<body::Count>(200, "Number of runs."),
        )
        .get(
            "/v1/domains/{domain}/failures",
            L::Reader,
            failures::list,
            Doc::of("listFailures", "Group the failures of blocked and failed runs by workflow type and reason")
                .answers::<body::Failures>(200, "Groups of failures."),
        )
        .get(
            "/v1/domains/{domain}/workflows/{id}",
            L::Reader,
            describe::describe,
            Doc::of("describeWorkflow", "Describe a run")
                .answers::<body::Described>(200, "Current state of the run.")
                .with_header("ETag", ETAG)
                .answers_nothing(304, "At the end of the wait, the run still had the version in `If-None-Match`.")
                .with_header("ETag", ETAG)
                .refuses(404, NO_RUN),
        )
        .get(
            "/v1/domains/{domain}/workflows/{id}/history",
            L::Reader,
            history::read,
            Doc::of("readHistory", "List events of a run, as a page or as a stream")
                .answers::<body::History>(200, "Page of events, or a stream of messages with one Event each in `data`.")
                .or_text(history::EVENT_STREAM)
                .answers_nothing(
                    204,
                    "Only for a stream: the run is closed and the caller has all its events. Do not reconnect.",
                )
                .refuses(404, NO_RUN),
        )
        .get(
            "/v1/domains/{domain}/workflows/{id}/result",
            L::Reader,
            workflows::result,
            Doc::of("getResult", "Get the result of a run, and optionally wait for it")
                .answers::<body::RunResult>(200, "The run is closed.")
                .with_header("ETag", ETAG)
                .answers::<body::RunResult>(202, "The run is still open.")
                .with_header("ETag", ETAG)
                .answers_nothing(304, "At the end of the wait, the run still had the version in `If-None-Match`.")
                .with_header("ETag", ETAG)
                .refuses(404, NO_RUN),
        )
        .get(
            "/v1/domains/{domain}/workflows/{id}/activities/{activity}/output",
            L::Reader,
            output::read,
            Doc::of("readOutput", "Get the output of an activity, as a page or as a stream")
                .answers::<body::ActivityOutput>(
                    200,
                    "Page of chunks; or a stream of the messages `chunk` (an OutputChunk), `gap` (chunks were lost), \
                     `end` (an OutputEnd) and `lost` (a Problem).",
                )
                .or_text(history::EVENT_STREAM)
                .answers_nothing(
                    204,
                    "Only for a stream: the activity has ended and the caller has all its output. Do not reconnect.",
                )
                .refuses(404, NO_RUN)
                .refuses(404, &["output-not-kept"]),
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
                .refuses(409, NO_DECIDER)
                .refuses(412, &["version-mismatch"]),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/queries/{name}",
            L::Reader,
            E::Reads,
            queries::query,
            Doc::of("queryWorkflow", "Query a run, and optionally wait until the answer changes")
                .answers::<body::QueryAnswer>(
                    200,
                    "The decider's answer. It reflects all events recorded before the call.",
                )
                .with_header("ETag", QUERY_ETAG)
                .answers_nothing(304, "At the end of the wait, the result still had the tag in `If-None-Match`.")
                .with_header("ETag", QUERY_ETAG)
                .refuses(404, NO_RUN)
                .refuses(404, &["unknown-query"])
                .refuses(409, NO_DECIDER)
                .refuses(422, &["query-failed"])
                .refuses(429, &["too-many-waiting"])
                .refuses(504, &["query-timed-out"]),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/updates/{name}",
            L::Application,
            E::Changes,
            updates::update,
            Doc::of("updateWorkflow", "Update a run, or get the answer to an earlier update")
                .answers::<body::Updated>(200, "The update was accepted and completed.")
                .with_header("ETag", ETAG)
                .answers::<body::Updated>(202, "The update was accepted; a later turn will complete it.")
                .refuses(404, NO_RUN)
                .refuses(409, NO_WRITE)
                .refuses(409, NO_DECIDER)
                .refuses(409, NO_START)
                .refuses(412, &["version-mismatch"])
                .refuses(422, &["update-failed", "update-rejected"])
                .refuses(429, &["open-updates-limit", "too-many-waiting"])
                .refuses(504, &["update-timed-out"])
                .refuses(507, &["insufficient-storage"]),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/cancel",
            L::Application,
            E::Changes,
            workflows::cancel,
            Doc::of("cancelWorkflow", "Request the cancellation of a run")
                .answers::<body::Recorded>(202, "The request is recorded; the run's decider chooses how to react.")
                .refuses(404, NO_RUN)
                .refuses(409, NO_WRITE),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/terminate",
            L::Application,
            E::Changes,
            workflows::terminate,
            Doc::of("terminateWorkflow", "Terminate a run")
                .answers::<body::Recorded>(200, "The run is terminated.")
                .refuses(404, NO_RUN)
                .refuses(409, NO_WRITE),
        )
}
