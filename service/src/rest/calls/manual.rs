//! Calls for manual operations on runs and activities.

use client::body;

use super::super::document::{CallTable, Doc};
use super::super::{activities, clock, moved, operate};
use super::codes::{NO_RUN, NO_WRITE};
use crate::access::{CallEffect as E, Level as L};

pub(super) fn all<const DOC: bool>(calls: CallTable<DOC>) -> CallTable<DOC> {
    calls
        .delete(
            "/v1/domains/{domain}/workflows/{id}",
            L::DomainOperator,
            E::Changes,
            operate::delete,
            Doc::of("deleteWorkflow", "Delete a run, or all runs of a workflow id")
                .answers::<body::Deleted>(200, "The runs were deleted.")
                .refuses(404, NO_RUN)
                .refuses(409, &["run-open"]),
        )
        .post(
            "/v1/domains/{domain}/imported-runs",
            L::Operator,
            E::Changes,
            moved::import,
            Doc::of("importRun", "Import a closed run of another service with its history (operators only)")
                .answers::<body::ImportedRun>(201, "The run was imported.")
                .answers::<body::ImportedRun>(200, "The run was already imported with this history.")
                .refuses(400, &["bad-history"])
                .refuses(409, &["history-mismatch"])
                .refuses(507, &["insufficient-storage"]),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/pause",
            L::DomainOperator,
            E::Changes,
            operate::pause,
            Doc::of("pauseWorkflow", "Pause a run: none of its tasks is dispatched")
                .answers::<body::Recorded>(200, "The run is paused.")
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
                .answers::<body::Recorded>(200, "The run continues.")
                .refuses(404, NO_RUN)
                .refuses(409, NO_WRITE)
                .refuses(409, &["not-paused"]),
        )
        .get(
            "/v1/domains/{domain}/late-runs",
            L::DomainOperator,
            clock::late_runs,
            Doc::of(
                "listLateRuns",
                "List open runs whose deadlines are too late because they were set while the clock was ahead",
            )
            .answers::<body::LateRuns>(200, "Page of runs.")
            .refuses(400, &["bad-page"]),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/repair-deadlines",
            L::DomainOperator,
            E::Changes,
            clock::repair_deadlines,
            Doc::of("repairDeadlines", "Repair the deadlines of a run that were set while the clock was ahead")
                .answers::<body::RepairedDeadlines>(200, "The deadlines are repaired.")
                .refuses(404, NO_RUN)
                .refuses(409, NO_WRITE)
                .refuses(409, &["clock-suspect", "state-limit"]),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/reset",
            L::DomainOperator,
            E::Changes,
            operate::reset,
            Doc::of("resetWorkflow", "Reset a run: a new run continues from an event of the old run")
                .answers::<body::WasReset>(
                    201,
                    "The new run was created. If the newest run was open, it was terminated.",
                )
                .answers::<body::WasReset>(200, "An earlier request with the same Idempotency-Key reset the run.")
                .refuses(404, NO_RUN)
                .refuses(409, &["invalid-reset-point", "reset-not-possible"]),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/activities/{activity}/success",
            L::DomainOperator,
            E::Changes,
            activities::succeed,
            act("completeActivityManually", "Complete an open activity manually, even while a runner holds it"),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/activities/{activity}/failure",
            L::DomainOperator,
            E::Changes,
            activities::fail,
            act("failActivityManually", "Fail an open activity manually, regardless of its retry policy"),
        )
        .post(
            "/v1/domains/{domain}/workflows/{id}/activities/{activity}/retry",
            L::DomainOperator,
            E::Changes,
            activities::retry,
            act("retryActivity", "Retry an open activity now").refuses(409, &["activity-not-retryable", "state-limit"]),
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
            act("changeActivityOptions", "Change timeouts, retry policy or task list of an open activity")
                .refuses(409, &["activity-not-retryable", "state-limit"]),
        )
}

/// Returns the part of the documentation that all calls of this file have in common.
fn act<const DOC: bool>(id: &'static str, what: &'static str) -> Doc<DOC> {
    Doc::of(id, what)
        .answers::<body::Recorded>(200, "The operation is recorded.")
        .refuses(404, NO_RUN)
        .refuses(409, NO_WRITE)
        .refuses(409, &["activity-closed"])
}
