//! Calls for tasks: polls, and answers to tasks.

use client::body;

use super::super::document::{CallTable, Doc};
use super::super::{exchange, history, output, tasks};
use super::codes::{BAD_TOKEN, NO_ACTIVITY, NO_POLLERS, NO_RUN, NO_TURN};
use crate::access::{CallEffect as E, Level as L};

pub(super) fn all<const DOC: bool>(calls: CallTable<DOC>) -> CallTable<DOC> {
    calls
        .post(
            "/v1/domains/{domain}/task-lists/{list}/decider/poll",
            L::Decider,
            E::Takes,
            tasks::poll_decider,
            Doc::of("pollDecider", "Poll for a turn")
                .answers::<body::DeciderTask>(200, "The turn.")
                .answers_nothing(204, "The poll ended without a task.")
                .with_header("Baton-No-Pollers", NO_POLLERS),
        )
        .post(
            "/v1/domains/{domain}/task-lists/{list}/activity/poll",
            L::Runner,
            E::Takes,
            tasks::poll_activity,
            Doc::of("pollActivity", "Poll for an activity")
                .answers::<body::ActivityTask>(200, "The activity.")
                .answers_nothing(204, "The poll ended without a task.")
                .with_header("Baton-No-Pollers", NO_POLLERS),
        )
        .post(
            "/v1/domains/{domain}/task-lists/{list}/decider/exchange",
            L::Decider,
            E::Takes,
            exchange::turns,
            Doc::of("exchangeTurns", "Answer several turns and take new ones")
                .answers::<body::Exchanged<body::DeciderTask>>(200, "Receipts for the answers, and new turns.")
                .refuses(503, &["audit-log-unavailable"]),
        )
        .post(
            "/v1/domains/{domain}/task-lists/{list}/activity/exchange",
            L::Runner,
            E::Takes,
            exchange::activities,
            Doc::of("exchangeActivities", "Answer several activities and take new ones")
                .answers::<body::Exchanged<body::ActivityTask>>(200, "Receipts for the answers, and new activities.")
                .refuses(503, &["audit-log-unavailable"]),
        )
        .get(
            "/v1/decider-tasks/{token}/history",
            L::Decider,
            history::read_turn,
            Doc::of("readEarlierHistory", "List events of a turn's run, up to the DeciderStarted of the turn")
                .answers::<body::History>(200, "Page of events.")
                .refuses(400, BAD_TOKEN)
                .refuses(404, NO_RUN)
                .refuses(409, &["query-task-lost", "run-closed", "turn-completed", "turn-lost"]),
        )
        .post(
            "/v1/decider-tasks/{token}/complete",
            L::Decider,
            E::Changes,
            tasks::complete_turn,
            Doc::of("completeTurn", "Complete a turn with decisions")
                .answers::<body::Answered>(200, "The answer is recorded.")
                .refuses(400, BAD_TOKEN)
                .refuses(404, NO_RUN)
                .refuses(409, NO_TURN),
        )
        .post(
            "/v1/decider-tasks/{token}/fail",
            L::Decider,
            E::Changes,
            tasks::fail_turn,
            Doc::of("failTurn", "Fail a turn; the service then retries it")
                .answers::<body::Answered>(200, "The answer is recorded.")
                .refuses(400, BAD_TOKEN)
                .refuses(404, NO_RUN)
                .refuses(409, NO_TURN),
        )
        .post(
            "/v1/activity-tasks/{token}/success",
            L::Runner,
            E::Changes,
            tasks::succeed_activity,
            Doc::of("succeedActivity", "Report that an activity succeeded")
                .answers::<body::Answered>(200, "The answer is recorded.")
                .refuses(400, BAD_TOKEN)
                .refuses(404, NO_RUN)
                .refuses(409, NO_ACTIVITY),
        )
        .post(
            "/v1/activity-tasks/{token}/failure",
            L::Runner,
            E::Changes,
            tasks::fail_activity,
            Doc::of("failActivity", "Report that an activity failed")
                .answers::<body::Answered>(200, "The answer is recorded.")
                .refuses(400, BAD_TOKEN)
                .refuses(404, NO_RUN)
                .refuses(409, NO_ACTIVITY),
        )
        .post(
            "/v1/activity-tasks/{token}/canceled",
            L::Runner,
            E::Changes,
            tasks::cancel_activity,
            Doc::of("confirmActivityCanceled", "Report that an activity stopped after a cancel request")
                .answers::<body::Answered>(200, "The answer is recorded.")
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
            Doc::of("recordHeartbeat", "Record a heartbeat of an activity")
                .answers::<body::HeartbeatResult>(
                    200,
                    "The heartbeat is recorded. If the request has `Prefer: wait`, this wait has ended. \
                     `cancelRequested` states whether the activity should stop.",
                )
                .refuses(400, BAD_TOKEN)
                .refuses(404, NO_RUN)
                .refuses(409, NO_ACTIVITY),
        )
        .post(
            "/v1/activity-tasks/{token}/output",
            L::Runner,
            E::Takes,
            output::append,
            Doc::of("appendOutput", "Append chunks to the output of an activity")
                .answers::<body::AppendedOutput>(
                    200,
                    "The chunks are kept. `cancelRequested` tells whether the activity should stop.",
                )
                .refuses(400, BAD_TOKEN)
                .refuses(409, NO_ACTIVITY)
                .refuses(429, &["output-limit-exceeded"]),
        )
}
