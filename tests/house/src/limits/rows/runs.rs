//! Limits of runs: fields, turns, open items, and times.

use crate::limits::{ROW, Row, Section, Unit};

pub(super) const FIELDS: Section = Section {
    title: "Fields of requests and decisions",
    rows: &[
        Row {
            what: "Payload: input, result, details",
            per: "field",
            constant: "history/src/limits.rs PAYLOAD_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "413 `too-large`",
            tried_in: "history/src/admit/tests/fields.rs",
            test: "the_fields_of_requests_have_their_limits",
            ..ROW
        },
        Row {
            what: "Depth of nested lists and objects in a payload",
            per: "field",
            constant: "history/src/limits.rs PAYLOAD_DEPTH_MAX",
            beyond: "400 `bad-json`",
            tried_in: "history/src/payload.rs",
            test: "the_nesting_depth_of_payloads_is_limited",
            ..ROW
        },
        Row {
            what: "Length of a number in a payload",
            per: "field",
            constant: "history/src/limits.rs PAYLOAD_NUMBER_CHARS_MAX",
            unit: Unit::Characters,
            beyond: "400 `bad-json`",
            tried_in: "history/src/payload.rs",
            test: "only_numbers_that_every_reader_can_represent_are_accepted",
            ..ROW
        },
        Row {
            what: "Context of a run",
            per: "run",
            constant: "history/src/limits.rs CONTEXT_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "413 `too-large`",
            tried_in: "history/src/admit/tests/fields.rs",
            test: "the_fields_of_answers_have_their_limits",
            ..ROW
        },
        Row {
            what: "Name or id",
            per: "field",
            constant: "history/src/limits.rs NAME_CHARS_MAX",
            unit: Unit::Characters,
            beyond: "413 `too-large`",
            tried_in: "history/src/admit/tests/fields.rs",
            test: "names_of_a_start_have_their_limits",
            ..ROW
        },
        Row {
            what: "Name or id, in UTF-8",
            per: "field",
            constant: "history/src/limits.rs NAME_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "413 `too-large`",
            tried_in: "history/src/admit/tests/fields.rs",
            test: "names_of_a_start_have_their_limits",
            ..ROW
        },
        Row {
            what: "Name of a type together with its version",
            per: "field",
            constant: "history/src/limits.rs TYPE_CHARS_MAX",
            unit: Unit::Characters,
            beyond: "413 `too-large`",
            tried_in: "history/src/admit/tests/fields.rs",
            test: "names_of_a_start_have_their_limits",
            ..ROW
        },
        Row {
            what: "Name of a type together with its version, in UTF-8",
            per: "field",
            constant: "history/src/limits.rs TYPE_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "413 `too-large`",
            tried_in: "history/src/admit/tests/fields.rs",
            test: "names_of_a_start_have_their_limits",
            ..ROW
        },
        Row {
            what: "`reason` of a request or a decision",
            per: "field",
            constant: "history/src/limits.rs REASON_CHARS_MAX",
            unit: Unit::Characters,
            beyond: "413 `too-large`",
            tried_in: "history/src/admit/tests/fields.rs",
            test: "the_fields_of_requests_have_their_limits",
            ..ROW
        },
        Row {
            what: "`control` of a decision",
            per: "field",
            constant: "history/src/limits.rs CONTROL_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "413 `too-large`",
            tried_in: "service/tests/http/decisions.rs",
            test: "each_field_of_each_decision_is_checked_and_named",
            ..ROW
        },
        Row {
            what: "Tags of a run",
            per: "run",
            constant: "history/src/limits.rs TAGS_MAX",
            beyond: "400 `invalid-field`",
            tried_in: "history/src/admit/tests/fields.rs",
            test: "a_start_has_at_most_five_tags",
            ..ROW
        },
        Row {
            what: "Reasons in `nonRetryableReasons` of a retry policy",
            per: "field",
            constant: "history/src/limits.rs NON_RETRYABLE_REASONS_MAX",
            beyond: "400 `invalid-field`",
            tried_in: "history/src/admit/tests/fields.rs",
            test: "the_fields_of_decisions_have_their_limits",
            ..ROW
        },
        Row {
            what: "Details of a failed attempt in `lastFailure`",
            per: "activity",
            constant: "history/src/limits.rs RETRIED_DETAILS_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "the details are left out",
            tried_in: "history/src/rules/activity/runner/tests.rs",
            test: "small_details_of_earlier_attempts_are_kept",
            ..ROW
        },
        Row {
            what: "Details of a closed run in lists",
            per: "run",
            constant: "history/src/limits.rs CLOSE_DETAILS_CHARS_MAX",
            unit: Unit::Characters,
            beyond: "the details are cut off",
            tried_in: "history/src/closed.rs",
            test: "details_are_cut_to_their_first_line",
            ..ROW
        },
    ],
    notes: &["A number in a payload must also fit into a 64-bit floating-point number. Send longer or larger \
         numbers as text. If a field of a decision exceeds its limit, the whole answer to the turn is refused, and \
         none of its decisions is recorded."],
};

pub(super) const TURNS: Section = Section {
    title: "Turns",
    rows: &[
        Row {
            what: "Decisions in the answer to a turn",
            per: "turn",
            constant: "history/src/limits.rs DECISIONS_MAX",
            beyond: "400 `invalid-field`",
            tried_in: "history/src/admit/tests/fields.rs",
            test: "decisions_of_an_answer_are_limited",
            ..ROW
        },
        Row {
            what: "Signals in `awaiting` of an answer",
            per: "turn",
            constant: "history/src/limits.rs AWAITING_MAX",
            beyond: "400 `invalid-field`",
            tried_in: "history/src/admit/tests/fields.rs",
            test: "a_turn_awaits_at_most_32_signals_with_8_kib_of_names",
            ..ROW
        },
        Row {
            what: "Results of queries in an answer",
            per: "turn",
            constant: "history/src/limits.rs QUERY_RESULTS_MAX",
            beyond: "400 `invalid-field`",
            tried_in: "service/tests/memory/limits.rs",
            test: "lists_of_a_turns_answer_are_limited",
            ..ROW
        },
        Row {
            what: "Results of updates in an answer",
            per: "turn",
            constant: "history/src/limits.rs UPDATE_RESULTS_MAX",
            beyond: "400 `invalid-field`",
            tried_in: "service/tests/memory/limits.rs",
            test: "lists_of_a_turns_answer_are_limited",
            ..ROW
        },
        Row {
            what: "Query names that a decider lists in its error for an unknown query",
            per: "query",
            constant: "history/src/limits.rs KNOWN_QUERIES_MAX",
            beyond: "further names are dropped",
            tried_in: "service/tests/memory/limits.rs",
            test: "lists_of_a_turns_answer_are_limited",
            ..ROW
        },
        Row {
            what: "Total length of the names of the signals in `awaiting`",
            per: "turn",
            constant: "history/src/limits.rs AWAITING_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "413 `too-large`",
            tried_in: "history/src/admit/tests/fields.rs",
            test: "a_turn_awaits_at_most_32_signals_with_8_kib_of_names",
            ..ROW
        },
        Row {
            what: "Updates handed out with a turn",
            per: "turn",
            constant: "history/src/limits.rs UPDATES_PER_TURN_MAX",
            beyond: "further updates are handed out with a later turn",
            tried_in: "service/engine/tests/engine/updates.rs",
            test: "a_run_takes_at_most_1000_waiting_updates",
            ..ROW
        },
        Row {
            what: "Events in a task's window",
            per: "turn",
            constant: "service/engine/src/lists/polls.rs EVENTS_MAX",
            beyond: "further events are read with the history call of the task",
            tried_in: "service/tests/http/histories.rs",
            test: "a_page_of_a_history_has_at_most_ten_thousand_events",
            ..ROW
        },
        Row {
            what: "Bytes of a task's window",
            per: "turn",
            constant: "service/engine/src/lists/polls.rs EVENTS_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "further events are read with the history call of the task",
            tried_in: "service/engine/tests/engine/bounds.rs",
            test: "a_window_has_at_most_four_mib_and_only_its_packs_are_read",
            ..ROW
        },
        Row {
            what: "Delay of the next turn after successive failed turns",
            per: "run",
            constant: "history/src/limits.rs TURN_BACKOFF_MAX",
            least: "history/src/limits.rs TURN_BACKOFF_FIRST",
            unit: Unit::Time,
            beyond: "after further failed turns, the delay stays at its maximum",
            tried_in: "history/src/rules/turn/tests.rs",
            test: "failed_turns_are_delayed_with_a_growing_backoff",
            ..ROW
        },
    ],
    notes: &[],
};

pub(super) const RUN: Section = Section {
    title: "Open items and state of a run",
    rows: &[
        Row {
            what: "Size of the state, including the space reserved for open items",
            per: "run",
            constant: "history/src/limits.rs STATE_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "an event with the cause `StateLimit` for a decision; 409 `state-limit` for a request",
            tried_in: "history/tests/state_budget.rs",
            test: "items_that_do_not_fit_are_recorded_as_failed",
            ..ROW
        },
        Row {
            what: "Open activities",
            per: "run",
            constant: "history/src/limits.rs OPEN_ACTIVITIES_MAX",
            beyond: "ActivityScheduleFailed `OpenActivitiesLimit`",
            tried_in: "history/src/rules/activity/tests.rs",
            test: "open_activities_are_limited",
            ..ROW
        },
        Row {
            what: "Open timers",
            per: "run",
            constant: "history/src/limits.rs OPEN_TIMERS_MAX",
            beyond: "TimerScheduleFailed `OpenTimersLimit`",
            tried_in: "history/src/rules/timer.rs",
            test: "open_timers_are_limited",
            ..ROW
        },
        Row {
            what: "Open children",
            per: "run",
            constant: "history/src/limits.rs OPEN_CHILDREN_MAX",
            beyond: "ChildScheduleFailed `OpenChildrenLimit`",
            tried_in: "history/src/rules/child/tests.rs",
            test: "open_children_are_limited",
            ..ROW
        },
        Row {
            what: "Undelivered signals and cancel requests to other runs",
            per: "run",
            constant: "history/src/limits.rs OPEN_EXTERNALS_MAX",
            beyond: "ExternalSignalFailed or ExternalCancelFailed `OpenExternalsLimit`",
            tried_in: "history/src/rules/effect/tests.rs",
            test: "pending_effects_are_limited",
            ..ROW
        },
        Row {
            what: "Accepted updates without a result",
            per: "run",
            constant: "history/src/limits.rs OPEN_UPDATES_MAX",
            beyond: "429 `open-updates-limit`",
            tried_in: "history/src/rules/update/tests.rs",
            test: "accepted_updates_without_an_answer_are_limited",
            ..ROW
        },
        Row {
            what: "Record of the signals, cancel requests and results received from other runs",
            per: "run",
            constant: "history/src/limits.rs SEEN_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "further signals, cancel requests and results are delivered later, exactly once",
            tried_in: "tests/tests/engines/poison.rs",
            test: "a_signal_to_a_run_that_is_full_waits_until_that_has_room",
            partly: "the run is full for another reason",
            ..ROW
        },
        Row {
            what: "Time for which idempotency keys and update ids are remembered, at least",
            per: "workflow id",
            constant: "history/src/limits.rs REQUESTS_KEPT",
            unit: Unit::Time,
            beyond: "a repeated request counts as a new request",
            tried_in: "history/src/admit/tests/clock.rs",
            test: "a_request_is_known_for_a_day_of_the_corrected_clock",
            ..ROW
        },
        Row {
            what: "Idempotency keys and update ids that are remembered",
            per: "workflow id",
            constant: "history/src/limits.rs REQUESTS_MAX",
            beyond: "the oldest keys and ids are forgotten",
            tried_in: "history/src/run/known/tests.rs",
            test: "requests_above_the_limit_are_forgotten_oldest_first",
            ..ROW
        },
        Row {
            what: "Pauses of a run with `stopClocks`",
            per: "run",
            constant: "history/src/limits.rs CLOCK_STOPS_MAX",
            beyond: "400 `invalid-field`",
            tried_in: "history/src/rules/pause/tests.rs",
            test: "stops_of_the_clock_are_limited",
            ..ROW
        },
    ],
    notes: &[
        "The history of a run may have any number of events and bytes. There is one exception: with `--swf-limits`, \
         the service terminates a run over the SWF protocol that exceeds the number of events in [SWF \
         protocol](#swf-protocol).",
        "When an item, such as an activity or a timer, is opened, the service reserves space for every outcome of the \
         item in the state of the run. Therefore a run whose state is full still accepts results, expiring timers and \
         signals.",
    ],
};

pub(super) const TIMES: Section = Section {
    title: "Times and retention",
    rows: &[
        Row {
            what: "Timeout, timer, retention or retry interval",
            per: "field",
            constant: "history/src/limits.rs SPAN_MAX",
            unit: Unit::Time,
            beyond: "400 `invalid-field`",
            tried_in: "history/src/admit/tests/fields.rs",
            test: "timeouts_of_a_start_are_positive_and_bounded",
            ..ROW
        },
        Row {
            what: "Default execution timeout",
            per: "run",
            constant: "history/src/limits.rs EXECUTION_TIMEOUT_DEFAULT",
            unit: Unit::Time,
            option: "`executionTimeout`",
            beyond: "WorkflowTimedOut",
            tried_in: "history/src/admit/tests/timeouts.rs",
            test: "a_run_times_out_after_a_year_without_an_option",
            ..ROW
        },
        Row {
            what: "Default start-to-close timeout of a turn",
            per: "turn",
            constant: "history/src/limits.rs DECIDER_START_TO_CLOSE_DEFAULT",
            unit: Unit::Time,
            option: "`deciderStartToClose`",
            beyond: "DeciderTimedOut",
            tried_in: "history/src/admit/tests/timeouts.rs",
            test: "a_turn_times_out_after_thirty_seconds_without_an_option",
            ..ROW
        },
        Row {
            what: "Default start-to-close timeout of an activity",
            per: "activity",
            constant: "history/src/limits.rs ACTIVITY_START_TO_CLOSE_DEFAULT",
            unit: Unit::Time,
            option: "`timeouts.startToClose`",
            beyond: "ActivityTimedOut",
            tried_in: "history/src/admit/tests/timeouts.rs",
            test: "an_activity_times_out_after_five_minutes_without_an_option",
            ..ROW
        },
        Row {
            what: "Default retention of a closed run",
            per: "run",
            constant: "history/src/limits.rs RETENTION_DEFAULT",
            unit: Unit::Time,
            option: "`retention`",
            beyond: "the run is deleted",
            tried_in: "history/src/admit/tests/decisions.rs",
            test: "a_decision_is_recorded_after_its_turn",
            ..ROW
        },
        Row {
            what: "Time by which the clock may be ahead of the newest time that nodes have recorded in the store",
            per: "all nodes",
            constant: "service/engine/src/base/clock.rs CLOCK_AHEAD_MAX",
            unit: Unit::Time,
            beyond: "closed runs are not deleted for a day",
            tried_in: "service/engine/src/time/guard.rs",
            test: "a_clock_that_jumps_is_doubted_until_it_is_back",
            ..ROW
        },
    ],
    notes: &[],
};

pub(super) const MOVING: Section = Section {
    title: "Resets, exports and imports",
    rows: &[
        Row {
            what: "Size of the history that a reset copies",
            per: "run",
            constant: "history/src/limits.rs RESET_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "409 `reset-not-possible`",
            tried_in: "history/src/rules/reset/tests.rs",
            test: "the_copied_history_is_limited",
            partly: "with a smaller value",
            ..ROW
        },
        Row {
            what: "Size of the history of an imported run",
            per: "run",
            constant: "history/src/limits.rs IMPORTED_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "413 `too-large`",
            tried_in: "history/src/imported/tests.rs",
            test: "an_import_above_the_size_limit_is_refused",
            ..ROW
        },
        Row {
            what: "Events of an imported run",
            per: "request",
            constant: "history/src/limits.rs IMPORTED_EVENTS_MAX",
            beyond: "400 `invalid-field`",
            tried_in: "service/tests/memory/main.rs",
            test: "a_body_of_smallest_entries_takes_under_8_times_its_bytes",
            partly: "a body with so many events is refused for their memory first",
            ..ROW
        },
        Row {
            what: "Size of an imported event as JSON",
            per: "event",
            constant: "history/src/limits.rs IMPORTED_EVENT_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "400 `bad-history`",
            tried_in: "history/src/imported/tests.rs",
            test: "an_imported_event_above_the_length_limit_is_refused",
            ..ROW
        },
        Row {
            what: "Time by which the last event of an imported run is ahead of the service's clock",
            per: "run",
            constant: "history/src/limits.rs IMPORTED_AHEAD_MAX",
            unit: Unit::Time,
            beyond: "400 `bad-history`",
            tried_in: "history/src/imported/tests.rs",
            test: "an_import_from_the_future_is_refused",
            ..ROW
        },
        Row {
            what: "Shortest time for which an imported run is kept after the import",
            per: "run",
            constant: "history/src/limits.rs IMPORTED_KEPT_MIN",
            unit: Unit::Time,
            beyond: "a run with a shorter retention is kept for this time",
            tried_in: "service/tests/http/import.rs",
            test: "an_imported_run_is_kept_for_its_retention_at_least_a_week",
            ..ROW
        },
        Row {
            what: "Line of a file that `baton import` reads",
            per: "file",
            constant: "service/cli/src/moved.rs LINE_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "the file is refused",
            tried_in: "service/cli/src/moved/tests.rs",
            test: "a_line_and_a_run_have_their_bounds",
            ..ROW
        },
    ],
    notes: &["The bytes of a history are the bytes of its payloads, plus 64 bytes for each event."],
};
