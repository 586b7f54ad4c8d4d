//! Every call of the API, once: its route, its handler, and what the handler's signature does not say of it.

mod looked_at;

use ::history::{ActivityDefaults, WorkflowDefaults};
use client::body;

use super::document::{CallTable, Doc};
use super::{
    activities, audit, clock, describe, domains, history, operate, process, queries, schedules, secret, tasks, types,
    updates, workflows,
};
use crate::access::{CallEffect as E, Level as L};

/// What a poll in vain is told.
const UNPOLLED: &str = "Lists of the domain on which tasks wait and nobody polls, as `name;decider;since=…` or \
     `name;activity;since=…`, ten at most; only for those who may look at its runs.";

/// `ETag` of a run.
const ETAG: &str = "The run and its version; what `If-Match` takes.";

/// `ETag` of a query's answer.
const QUERY_ETAG: &str =
    "The run, the version that the answer reflects, and the result; what `If-None-Match` and `If-Match` take.";

/// Codes of calls that name a run.
const NO_RUN: &[&str] = &["unknown-run", "unknown-workflow"];

/// Codes of calls that name a type.
const NO_TYPE: &[&str] = &["unknown-type"];

/// Codes of calls that start a run.
const NO_START: &[&str] =
    &["domain-deprecated", "type-deprecated", "workflow-already-open", "workflow-id-reuse-refused"];

/// Codes of calls that write to a run.
const NO_WRITE: &[&str] = &["run-closed", "run-not-current"];

/// Codes of calls that answer a turn.
const NO_TURN: &[&str] =
    &["query-task-lost", "run-closed", "turn-completed", "turn-lost", "update-known", "update-unknown"];

/// Codes of calls that answer an activity.
const NO_ACTIVITY: &[&str] = &["activity-closed", "run-closed"];

/// Codes of calls that name a schedule.
const NO_SCHEDULE: &[&str] = &["unknown-schedule"];

/// Codes of calls with a token.
const BAD_TOKEN: &[&str] = &["bad-token"];

pub(crate) fn calls() -> CallTable {
    let calls = by_hand(domains_and_workflows(CallTable::none()));
    let calls = of_schedules(task_lists(looked_at::all(calls)));
    let calls = types_of_workflows(types_of_activities(calls));
    calls
        .get(
            "/healthz",
            L::Nothing,
            process::healthy,
            Doc::of("isHealthy", "Check that the process answers").answers_text("text/plain", "It does."),
        )
        .get(
            "/readyz",
            L::Nothing,
            process::ready,
            Doc::of("isReady", "Check that the service accepts work")
                .answers_text("text/plain", "It does.")
                .refuses(503, &["stopping"]),
        )
        .get(
            "/metrics",
            L::Metrics,
            process::metrics,
            Doc::of("readMetrics", "Get metrics for Prometheus")
                .answers_text("application/openmetrics-text", "The metrics, as OpenMetrics text.")
                .refuses(401, &["early-secret", "expired-secret", "revoked-secret", "unauthorized"])
                .refuses(403, &["forbidden"])
                .refuses(429, &["quota-exceeded", "too-many-guesses"]),
        )
        .post(
            "/v1/clock/confirm",
            L::Operator,
            E::Changes,
            clock::confirm,
            Doc::of(
                "confirmClock",
                "Confirm that the service's clock is right after it has jumped ahead; for operators",
            )
            .answers::<body::ConfirmedClock>(200, "It is believed."),
        )
        .post(
            "/v1/secret/rotate",
            L::Operator,
            E::Changes,
            secret::rotate,
            Doc::of("rotateSecret", "Rotate the secret of task tokens, with an overlap; for operators")
                .answers::<body::RotatedSecret>(200, "It was made.")
                .refuses(409, &["limit-exceeded"]),
        )
        .get(
            "/v1/audit",
            L::Operator,
            audit::list,
            Doc::of("listAudit", "List changes and who made them, from the audit log of this node; for operators")
                .answers::<body::AuditEntries>(200, "A page of entries, oldest first.")
                .refuses(404, &["no-audit-log"])
                .refuses(503, &["audit-log-unavailable"]),
        )
        .get(
            "/openapi.json",
            L::Nothing,
            process::openapi,
            Doc::of("readOpenApi", "Get this document")
                .answers::<serde_json::Map<String, serde_json::Value>>(200, "This document."),
        )
}

fn of_schedules(calls: CallTable) -> CallTable {
    calls
        .get(
            "/v1/domains/{domain}/schedules",
            L::Reader,
            schedules::list,
            Doc::of("listSchedules", "List schedules, newest first")
                .answers::<body::Schedules>(200, "A page of schedules.")
                .refuses(400, &["bad-page"]),
        )
        .post(
            "/v1/domains/{domain}/schedules",
            L::DomainOperator,
            E::Changes,
            schedules::create,
            Doc::of("createSchedule", "Create a schedule")
                .answers::<body::DescribedSchedule>(201, "It was created.")
                .refuses(409, &["domain-deprecated", "schedule-exists", "type-deprecated"]),
        )
        .get(
            "/v1/domains/{domain}/schedules/{id}",
            L::Reader,
            schedules::show,
            Doc::of("describeSchedule", "Describe a schedule: what it has done, and what it will do next")
                .answers::<body::DescribedSchedule>(200, "The schedule.")
                .refuses(404, NO_SCHEDULE),
        )
        .put(
            "/v1/domains/{domain}/schedules/{id}",
            L::DomainOperator,
            E::Changes,
            schedules::change,
            Doc::of("changeSchedule", "Replace a schedule")
                .answers::<body::DescribedSchedule>(200, "The schedule.")
                .refuses(404, NO_SCHEDULE)
                .refuses(409, &["domain-deprecated", "type-deprecated"]),
        )
        .delete(
            "/v1/domains/{domain}/schedules/{id}",
            L::DomainOperator,
            E::Changes,
            schedules::forget,
            Doc::of("deleteSchedule", "Delete a schedule; its runs go on")
                .answers::<serde_json::Map<String, serde_json::Value>>(200, "It is forgotten.")
                .refuses(404, NO_SCHEDULE),
        )
        .post(
            "/v1/domains/{domain}/schedules/{id}/pause",
            L::DomainOperator,
            E::Changes,
            schedules::pause,
            Doc::of("pauseSchedule", "Pause a schedule")
                .answers::<body::DescribedSchedule>(200, "The schedule.")
                .refuses(404, NO_SCHEDULE),
        )
        .post(
            "/v1/domains/{domain}/schedules/{id}/resume",
            L::DomainOperator,
            E::Changes,
            schedules::resume,
            Doc::of("resumeSchedule", "Resume a schedule, from now on")
                .answers::<body::DescribedSchedule>(200, "The schedule.")
                .refuses(404, NO_SCHEDULE),
        )
        .post(
            "/v1/domains/{domain}/schedules/{id}/trigger",
            L::DomainOperator,
            E::Changes,
            schedules::trigger,
            Doc::of("triggerSchedule", "Trigger a schedule now")
                .answers::<body::DescribedSchedule>(200, "The schedule.")
                .refuses(404, NO_SCHEDULE),
        )
        .post(
            "/v1/domains/{domain}/schedules/{id}/backfill",
            L::DomainOperator,
            E::Changes,
            schedules::backfill,
            Doc::of("backfillSchedule", "Act for the times of a past span")
                .answers::<body::DescribedSchedule>(200, "The schedule.")
                .refuses(404, NO_SCHEDULE)
                .refuses(413, &["run-too-large"]),
        )
        .get(
            "/v1/domains/{domain}/schedules/{id}/next",
            L::Reader,
            schedules::next,
            Doc::of("readNextTimes", "List the next times of a schedule")
                .answers::<body::NextTimes>(200, "The times.")
                .refuses(404, NO_SCHEDULE),
        )
}

fn domains_and_workflows(calls: CallTable) -> CallTable {
    calls
        .get(
            "/v1/domains",
            L::Known,
            domains::list,
            Doc::of("listDomains", "List domains").answers::<body::Domains>(200, "The domains."),
        )
        .post(
            "/v1/domains",
            L::Operator,
            E::Changes,
            domains::create,
            Doc::of("createDomain", "Create a domain")
                .answers::<body::Domain>(201, "It was created.")
                .refuses(409, &["domain-exists", "limit-exceeded"]),
        )
        .get(
            "/v1/domains/{domain}",
            L::Related,
            domains::show,
            Doc::of("showDomain", "Describe a domain").answers::<body::Domain>(200, "The domain."),
        )
        .patch(
            "/v1/domains/{domain}",
            L::DomainOperator,
            E::Changes,
            domains::change,
            Doc::of("changeDomain", "Change a domain's description, or how long its next runs are kept")
                .answers::<body::Domain>(200, "The domain as it is now."),
        )
        .delete(
            "/v1/domains/{domain}",
            L::Operator,
            E::Changes,
            domains::delete,
            Doc::of("deleteDomain", "Delete a deprecated domain that has no runs and no schedules")
                .answers_nothing(204, "It is deleted, and the types that were registered in it.")
                .refuses(409, &["domain-in-use"]),
        )
        .post(
            "/v1/domains/{domain}/deprecate",
            L::DomainOperator,
            E::Changes,
            domains::deprecate,
            Doc::of("deprecateDomain", "Deprecate a domain: nothing new starts or is registered in it")
                .answers::<body::Domain>(200, "It is deprecated.")
                .refuses(409, &["domain-deprecated"]),
        )
        .post(
            "/v1/domains/{domain}/undeprecate",
            L::DomainOperator,
            E::Changes,
            domains::undeprecate,
            Doc::of("undeprecateDomain", "Undeprecate a domain")
                .answers::<body::Domain>(200, "It is in use.")
                .refuses(409, &["domain-exists"]),
        )
        .post(
            "/v1/domains/{domain}/tags",
            L::DomainOperator,
            E::Changes,
            domains::tag,
            Doc::of("tagDomain", "Add, replace or remove tags of a domain")
                .answers::<body::Domain>(200, "The domain with its tags.")
                .refuses(409, &["limit-exceeded"]),
        )
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
                .refuses(409, NO_START),
        )
        .get(
            "/v1/domains/{domain}/workflows/count",
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
                .refuses(504, &["update-not-answered"]),
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

/// One row of `by_hand`.
fn act(id: &'static str, what: &'static str) -> Doc {
    Doc::of(id, what)
        .answers::<body::Recorded>(200, "It is recorded.")
        .refuses(404, NO_RUN)
        .refuses(409, NO_WRITE)
        .refuses(409, &["activity-closed"])
}

fn by_hand(calls: CallTable) -> CallTable {
    calls
        .delete(
            "/v1/domains/{domain}/workflows/{id}",
            L::DomainOperator,
            E::Changes,
            operate::delete,
            Doc::of("deleteWorkflow", "Delete a run, or all runs of a workflow id")
                .answers::<body::Deleted>(200, "They are gone.")
                .refuses(404, NO_RUN)
                .refuses(409, &["run-open"]),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/pause",
            L::DomainOperator,
            E::Changes,
            operate::pause,
            Doc::of("pauseWorkflow", "Pause a run: none of its tasks is handed out")
                .answers::<body::Recorded>(200, "It is paused.")
                .refuses(404, NO_RUN)
                .refuses(409, NO_WRITE)
                .refuses(409, &["already-paused", "state-limit"]),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/resume",
            L::DomainOperator,
            E::Changes,
            operate::resume,
            Doc::of("resumeWorkflow", "Resume a paused run")
                .answers::<body::Recorded>(200, "It goes on.")
                .refuses(404, NO_RUN)
                .refuses(409, NO_WRITE)
                .refuses(409, &["not-paused"]),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/reset",
            L::DomainOperator,
            E::Changes,
            operate::reset,
            Doc::of("resetWorkflow", "Reset a run: a new run goes on from one of its events")
                .answers::<body::WasReset>(
                    201,
                    "The new run has begun, and the newest before it is terminated if it was open.",
                )
                .answers::<body::WasReset>(200, "An earlier request with the same key did it.")
                .refuses(404, NO_RUN)
                .refuses(409, &["not-a-reset-point", "reset-refused"]),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/activities/{activity}/success",
            L::DomainOperator,
            E::Changes,
            activities::succeed,
            act("completeByHand", "Complete an open activity by hand, whoever has it"),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/activities/{activity}/failure",
            L::DomainOperator,
            E::Changes,
            activities::fail,
            act("failByHand", "Fail an open activity by hand, whatever its retry policy says"),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/activities/{activity}/retry",
            L::DomainOperator,
            E::Changes,
            activities::retry,
            act("retryByHand", "Retry an open activity now").refuses(409, &["activity-not-retryable", "state-limit"]),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/activities/{activity}/pause",
            L::DomainOperator,
            E::Changes,
            activities::pause,
            act("pauseActivity", "Pause an open activity").refuses(409, &["already-paused", "state-limit"]),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/activities/{activity}/resume",
            L::DomainOperator,
            E::Changes,
            activities::resume,
            act("resumeActivity", "Resume a paused activity").refuses(409, &["not-paused"]),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/activities/{activity}/options",
            L::DomainOperator,
            E::Changes,
            activities::change,
            act("changeActivity", "Change timeouts, retry policy or task list of an open activity")
                .refuses(409, &["activity-not-retryable", "state-limit"]),
        )
}

fn task_lists(calls: CallTable) -> CallTable {
    calls
        .post(
            "/v1/domains/{domain}/task-lists/{list}/decider/poll",
            L::Decider,
            E::Takes,
            tasks::poll_decider,
            Doc::of("pollDecider", "Poll for a turn")
                .answers::<body::DeciderTask>(200, "A turn to be decided.")
                .answers_nothing(204, "None came.")
                .with_header("Baton-Unpolled", UNPOLLED),
        )
        .post(
            "/v1/domains/{domain}/task-lists/{list}/activity/poll",
            L::Runner,
            E::Takes,
            tasks::poll_activity,
            Doc::of("pollActivity", "Poll for an activity")
                .answers::<body::ActivityTask>(200, "An activity to be done.")
                .answers_nothing(204, "None came.")
                .with_header("Baton-Unpolled", UNPOLLED),
        )
        .get(
            "/v1/decider-tasks/{token}/history",
            L::Decider,
            history::read_turn,
            Doc::of("lookBack", "List events of a turn's run, up to the turn's own DeciderStarted")
                .answers::<body::History>(200, "A page of events.")
                .refuses(400, BAD_TOKEN)
                .refuses(404, NO_RUN)
                .refuses(409, &["query-task-lost", "run-closed", "turn-completed", "turn-lost"]),
        )
        .post(
            "/v1/decider-tasks/{token}/complete",
            L::Decider,
            E::Changes,
            tasks::complete_turn,
            Doc::of("completeTurn", "Complete a turn with decisions, and take the next if asked to")
                .answers::<body::Answered<body::DeciderTask>>(200, "It is recorded.")
                .refuses(400, BAD_TOKEN)
                .refuses(404, NO_RUN)
                .refuses(409, NO_TURN),
        )
        .post(
            "/v1/decider-tasks/{token}/fail",
            L::Decider,
            E::Changes,
            tasks::fail_turn,
            Doc::of("failTurn", "Fail a turn, which is then tried again, and take the next if asked to")
                .answers::<body::Answered<body::DeciderTask>>(200, "It is recorded.")
                .refuses(400, BAD_TOKEN)
                .refuses(404, NO_RUN)
                .refuses(409, NO_TURN),
        )
        .post(
            "/v1/activity-tasks/{token}/success",
            L::Runner,
            E::Changes,
            tasks::succeed_activity,
            Doc::of("succeedActivity", "Report that an activity succeeded, and take the next if asked to")
                .answers::<body::Answered<body::ActivityTask>>(200, "It is recorded.")
                .refuses(400, BAD_TOKEN)
                .refuses(404, NO_RUN)
                .refuses(409, NO_ACTIVITY),
        )
        .post(
            "/v1/activity-tasks/{token}/failure",
            L::Runner,
            E::Changes,
            tasks::fail_activity,
            Doc::of("failActivity", "Report that an activity failed, and take the next if asked to")
                .answers::<body::Answered<body::ActivityTask>>(200, "It is recorded.")
                .refuses(400, BAD_TOKEN)
                .refuses(404, NO_RUN)
                .refuses(409, NO_ACTIVITY),
        )
        .post(
            "/v1/activity-tasks/{token}/canceled",
            L::Runner,
            E::Changes,
            tasks::cancel_activity,
            Doc::of("cancelActivity", "Report that an activity was canceled, and take the next if asked to")
                .answers::<body::Answered<body::ActivityTask>>(200, "It is recorded.")
                .refuses(400, BAD_TOKEN)
                .refuses(404, NO_RUN)
                .refuses(409, NO_ACTIVITY)
                .refuses(409, &["cancel-not-requested"]),
        )
        .post(
            "/v1/activity-tasks/{token}/heartbeat",
            L::Runner,
            E::Takes,
            tasks::heartbeat,
            Doc::of("heartbeat", "Record a heartbeat of an activity")
                .answers::<body::Beaten>(200, "Whether it should stop.")
                .refuses(400, BAD_TOKEN)
                .refuses(404, NO_RUN)
                .refuses(409, NO_ACTIVITY),
        )
}

fn types_of_workflows(calls: CallTable) -> CallTable {
    calls
        .get(
            "/v1/domains/{domain}/workflow-types",
            L::Related,
            types::list::<WorkflowDefaults>,
            Doc::of("listWorkflowTypes", "List workflow types, by name")
                .answers::<body::Types>(200, "A page of types."),
        )
        .post(
            "/v1/domains/{domain}/workflow-types",
            L::DomainOperator,
            E::Changes,
            types::register::<WorkflowDefaults>,
            Doc::of("registerWorkflowType", "Register a workflow type")
                .answers::<body::RegisteredType<WorkflowDefaults>>(201, "It is registered.")
                .refuses(409, &["domain-deprecated", "limit-exceeded", "type-exists"]),
        )
        .get(
            "/v1/domains/{domain}/workflow-types/{type}",
            L::Related,
            types::show::<WorkflowDefaults>,
            Doc::of("showWorkflowType", "Describe a workflow type")
                .answers::<body::RegisteredType<WorkflowDefaults>>(200, "The type.")
                .refuses(404, NO_TYPE),
        )
        .delete(
            "/v1/domains/{domain}/workflow-types/{type}",
            L::DomainOperator,
            E::Changes,
            types::delete::<WorkflowDefaults>,
            Doc::of("deleteWorkflowType", "Delete a deprecated workflow type")
                .answers_nothing(204, "It is gone.")
                .refuses(404, NO_TYPE)
                .refuses(409, &["type-in-use"]),
        )
        .post(
            "/v1/domains/{domain}/workflow-types/{type}/deprecate",
            L::DomainOperator,
            E::Changes,
            types::deprecate::<WorkflowDefaults>,
            Doc::of("deprecateWorkflowType", "Deprecate a workflow type: nothing new of it begins")
                .answers::<body::RegisteredType<WorkflowDefaults>>(200, "It is deprecated.")
                .refuses(404, NO_TYPE)
                .refuses(409, &["type-deprecated"]),
        )
        .post(
            "/v1/domains/{domain}/workflow-types/{type}/undeprecate",
            L::DomainOperator,
            E::Changes,
            types::undeprecate::<WorkflowDefaults>,
            Doc::of("undeprecateWorkflowType", "Undeprecate a workflow type")
                .answers::<body::RegisteredType<WorkflowDefaults>>(200, "It is in use.")
                .refuses(404, NO_TYPE)
                .refuses(409, &["type-exists"]),
        )
}

fn types_of_activities(calls: CallTable) -> CallTable {
    calls
        .get(
            "/v1/domains/{domain}/activity-types",
            L::Related,
            types::list::<ActivityDefaults>,
            Doc::of("listActivityTypes", "List activity types, by name")
                .answers::<body::Types>(200, "A page of types."),
        )
        .post(
            "/v1/domains/{domain}/activity-types",
            L::DomainOperator,
            E::Changes,
            types::register::<ActivityDefaults>,
            Doc::of("registerActivityType", "Register an activity type")
                .answers::<body::RegisteredType<ActivityDefaults>>(201, "It is registered.")
                .refuses(409, &["domain-deprecated", "limit-exceeded", "type-exists"]),
        )
        .get(
            "/v1/domains/{domain}/activity-types/{type}",
            L::Related,
            types::show::<ActivityDefaults>,
            Doc::of("showActivityType", "Describe an activity type")
                .answers::<body::RegisteredType<ActivityDefaults>>(200, "The type.")
                .refuses(404, NO_TYPE),
        )
        .delete(
            "/v1/domains/{domain}/activity-types/{type}",
            L::DomainOperator,
            E::Changes,
            types::delete::<ActivityDefaults>,
            Doc::of("deleteActivityType", "Delete a deprecated activity type")
                .answers_nothing(204, "It is gone.")
                .refuses(404, NO_TYPE)
                .refuses(409, &["type-in-use"]),
        )
        .post(
            "/v1/domains/{domain}/activity-types/{type}/deprecate",
            L::DomainOperator,
            E::Changes,
            types::deprecate::<ActivityDefaults>,
            Doc::of("deprecateActivityType", "Deprecate an activity type: nothing new of it begins")
                .answers::<body::RegisteredType<ActivityDefaults>>(200, "It is deprecated.")
                .refuses(404, NO_TYPE)
                .refuses(409, &["type-deprecated"]),
        )
        .post(
            "/v1/domains/{domain}/activity-types/{type}/undeprecate",
            L::DomainOperator,
            E::Changes,
            types::undeprecate::<ActivityDefaults>,
            Doc::of("undeprecateActivityType", "Undeprecate an activity type")
                .answers::<body::RegisteredType<ActivityDefaults>>(200, "It is in use.")
                .refuses(404, NO_TYPE)
                .refuses(409, &["type-exists"]),
        )
}
