//! Limits of task lists, polls, exchanges, queries and updates.

use crate::limits::{ROW, Row, Section, Unit};

pub(super) const TASKS: Section = Section {
    title: "Polls, exchanges and task lists",
    rows: &[
        Row {
            what: "Attempts of a poll with one `pollId`",
            per: "poll",
            constant: "history/src/limits.rs POLL_ATTEMPTS_MAX",
            beyond: "400 `invalid-field`",
            tried_in: "history/src/admit/tests/fields.rs",
            test: "a_poll_has_at_most_32_attempts",
            ..ROW
        },
        Row {
            what: "Answers in an exchange; separately, slots of an exchange",
            per: "request",
            constant: "history/src/limits.rs EXCHANGE_ANSWERS_MAX",
            beyond: "400 `invalid-field`",
            tried_in: "service/tests/http/exchange.rs",
            test: "an_exchange_takes_256_answers_and_slots",
            ..ROW
        },
        Row {
            what: "Bytes of the tasks in one line of an exchange's response",
            per: "response",
            constant: "service/engine/src/tasks/slots.rs EXCHANGE_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "further tasks follow on the next line",
            tried_in: "service/engine/tests/engine/bounds.rs",
            test: "turns_of_an_exchange_are_complete_and_at_most_eight_mib",
            ..ROW
        },
        Row {
            what: "Length of a task token",
            per: "request",
            constant: "service/engine/src/base/token.rs TOKEN_CHARS_MAX",
            unit: Unit::Characters,
            beyond: "400 `bad-token`",
            tried_in: "service/engine/src/base/token.rs",
            test: "the_longest_names_fit_into_a_token",
            partly: "the longest token that the service makes is shorter",
            ..ROW
        },
        Row {
            what: "Task lists in memory that have waiting tasks and are not polled",
            per: "process",
            constant: "service/engine/src/lists/matching.rs LISTS_MAX",
            beyond: "the tasks are read from the store when the list is polled",
            tried_in: "service/engine/src/lists/matching/tests.rs",
            test: "lists_in_memory_are_bounded_except_polled_ones",
            ..ROW
        },
        Row {
            what: "Waiting tasks in memory",
            per: "task list",
            constant: "service/engine/src/lists/matching.rs LIST_TASKS_MAX",
            beyond: "further tasks are read from the store later",
            tried_in: "service/engine/src/lists/matching/tests.rs",
            test: "tasks_of_a_list_are_bounded_and_overflow_is_reported",
            ..ROW
        },
        Row {
            what: "Waiting tasks in memory",
            per: "process",
            constant: "service/engine/src/lists/matching.rs TASKS_MAX",
            beyond: "further tasks are read from the store later",
            tried_in: "service/engine/src/lists/matching/tests.rs",
            test: "tasks_of_all_lists_are_bounded_with_a_minimum_for_each",
            partly: "with a smaller value",
            ..ROW
        },
        Row {
            what: "Tasks in flight that are counted for task lists",
            per: "process",
            constant: "service/engine/src/lists/in_flight.rs TASKS_MAX",
            beyond: "further tasks are not counted",
            tried_in: "service/engine/src/lists/in_flight.rs",
            test: "lists_and_tasks_are_bounded",
            ..ROW
        },
        Row {
            what: "Waiting tasks that are shown in the description of a task list",
            per: "task list",
            constant: "service/engine/src/lists/report.rs TASKS_LISTED_MAX",
            beyond: "further tasks are only counted",
            tried_in: "service/tests/http/task_lists.rs",
            test: "a_list_shows_100_waiting_tasks_by_priority",
            ..ROW
        },
        Row {
            what: "Pollers that are named in the description of a task list",
            per: "task list",
            constant: "service/src/rest/task_lists.rs POLLERS_MAX",
            beyond: "further pollers are only counted",
            tried_in: "service/tests/http/task_lists.rs",
            test: "twenty_pollers_are_named_and_all_are_counted",
            ..ROW
        },
        Row {
            what: "Time for which a poller is shown after its last poll",
            per: "task list",
            constant: "service/engine/src/lists/pollers.rs POLLER_KEPT_FOR",
            unit: Unit::Time,
            beyond: "the poller is no longer shown in the description",
            tried_in: "service/tests/http/task_lists.rs",
            test: "a_poller_is_listed_until_five_minutes_after_its_poll",
            ..ROW
        },
    ],
    notes: &["The number of polls is limited only by the number of connections, by `watchers` of a quota, and over \
         the SWF protocol by `--swf-limits`. Tasks that do not fit into memory are not lost: the service reads them \
         from the store when their task list is polled."],
};

pub(super) const LIMITS: Section = Section {
    title: "Limits of task lists",
    rows: &[
        Row {
            what: "Task lists with limits or a pause",
            per: "domain",
            constant: "service/engine/src/base/list_settings.rs LISTS_WITH_SETTINGS_MAX",
            beyond: "409 `limit-exceeded`",
            tried_in: "service/tests/http/list_limits.rs",
            test: "a_domain_has_limits_for_200_lists_and_50_groups",
            ..ROW
        },
        Row {
            what: "Task lists that are paused with `stopClocks`, or were so in the last 30 days",
            per: "domain",
            constant: "service/engine/src/base/list_settings.rs STOPPED_LISTS_MAX",
            beyond: "409 `limit-exceeded`",
            tried_in: "service/tests/http/list_clocks.rs",
            test: "a_domain_has_200_lists_with_stopped_clocks",
            ..ROW
        },
        Row {
            what: "Past pauses with `stopClocks` that are kept, for 30 days",
            per: "task list",
            constant: "history/src/limits.rs LIST_STOPS_MAX",
            beyond: "two pauses are joined, and timeouts can expire later",
            tried_in: "history/src/run/stopped_lists/tests.rs",
            test: "joined_pauses_postpone_timeouts_and_keep_the_bound",
            ..ROW
        },
        Row {
            what: "Limit groups",
            per: "domain",
            constant: "service/engine/src/base/list_settings.rs LIMIT_GROUPS_MAX",
            beyond: "409 `limit-exceeded`",
            tried_in: "service/tests/http/list_limits.rs",
            test: "a_domain_has_limits_for_200_lists_and_50_groups",
            ..ROW
        },
        Row {
            what: "Concurrency keys with separate limits",
            per: "task list",
            constant: "history/src/limits.rs LIMITED_KEYS_MAX",
            beyond: "400 `invalid-field`",
            tried_in: "service/tests/http/list_limits.rs",
            test: "invalid_limits_are_refused_and_those_at_the_edge_are_not",
            ..ROW
        },
        Row {
            what: "`maxRunning` of a limit",
            per: "limit",
            constant: "service/engine/src/base/list_settings.rs MAX_RUNNING_MAX",
            least: "1",
            beyond: "400 `invalid-field`",
            tried_in: "service/tests/http/list_limits.rs",
            test: "invalid_limits_are_refused_and_those_at_the_edge_are_not",
            ..ROW
        },
        Row {
            what: "`perSecond` of a rate (at least 0.001)",
            per: "limit",
            constant: "service/engine/src/base/list_settings.rs PER_SECOND_MAX",
            beyond: "400 `invalid-field`",
            tried_in: "service/tests/http/list_limits.rs",
            test: "invalid_limits_are_refused_and_those_at_the_edge_are_not",
            ..ROW
        },
        Row {
            what: "`burst` of a rate",
            per: "limit",
            constant: "service/engine/src/base/list_settings.rs BURST_MAX",
            least: "1",
            beyond: "400 `invalid-field`",
            tried_in: "service/tests/http/list_limits.rs",
            test: "invalid_limits_are_refused_and_those_at_the_edge_are_not",
            ..ROW
        },
        Row {
            what: "`weight` of a concurrency key",
            per: "key",
            constant: "service/engine/src/base/list_settings.rs KEY_WEIGHT_MAX",
            least: "1",
            beyond: "400 `invalid-field`",
            tried_in: "service/tests/http/list_limits.rs",
            test: "invalid_limits_are_refused_and_those_at_the_edge_are_not",
            ..ROW
        },
        Row {
            what: "Concurrency keys that the description of a task list shows",
            per: "task list",
            constant: "service/engine/src/lists/report.rs KEYS_SHOWN_MAX",
            beyond: "further keys are not shown",
            tried_in: "service/tests/http/list_limits.rs",
            test: "a_list_shows_its_50_busiest_keys",
            ..ROW
        },
    ],
    notes: &["Names of concurrency keys and limit groups have 1 to 256 characters. [Limit and pause a task \
         list](limit-task-lists.md) describes how to set these limits."],
};

pub(super) const RIDERS: Section = Section {
    title: "Queries and updates",
    rows: &[
        Row {
            what: "Waiting queries; separately, waiting updates",
            per: "run",
            constant: "service/engine/src/riders/waiting.rs RIDERS_PER_RUN_MAX",
            beyond: "429 `too-many-waiting`",
            tried_in: "service/engine/src/riders/waiting/tests.rs",
            test: "a_run_has_room_for_so_many_riders_of_a_kind",
            ..ROW
        },
        Row {
            what: "Bytes of waiting queries; separately, bytes of waiting updates",
            per: "run",
            constant: "service/engine/src/riders/waiting.rs RIDER_BYTES_PER_RUN_MAX",
            unit: Unit::Bytes,
            beyond: "429 `too-many-waiting`",
            tried_in: "service/engine/src/riders/waiting/tests.rs",
            test: "a_run_has_room_for_8_mib_of_riders_of_a_kind",
            ..ROW
        },
        Row {
            what: "Callers waiting for answers to queries",
            per: "process",
            constant: "service/engine/src/riders/waiting.rs ASKERS_MAX",
            beyond: "429 `too-many-waiting`",
            tried_in: "service/engine/src/riders/waiting/tests.rs",
            test: "a_node_has_room_for_100_000_callers_of_queries",
            ..ROW
        },
        Row {
            what: "Bytes of the queries in one task; separately, bytes of the updates in one task",
            per: "turn",
            constant: "service/engine/src/riders/carrier.rs TASK_RIDER_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "further queries and updates are handed out with a later task",
            tried_in: "service/engine/src/riders/waiting/tests.rs",
            test: "a_task_takes_riders_in_order_up_to_its_bytes",
            ..ROW
        },
        Row {
            what: "Rejections of updates that are remembered",
            per: "process",
            constant: "service/engine/src/riders/rejections.rs REJECTIONS_MAX",
            beyond: "a repeated update is validated again",
            tried_in: "service/engine/src/riders/rejections.rs",
            test: "the_oldest_rejection_makes_room_for_the_next",
            ..ROW
        },
        Row {
            what: "Time for which the rejection of an update is remembered",
            per: "update",
            constant: "service/engine/src/riders/rejections.rs REJECTION_KEPT",
            unit: Unit::Time,
            beyond: "a repeated update is validated again",
            tried_in: "service/engine/src/riders/rejections.rs",
            test: "a_rejection_is_remembered_for_two_minutes",
            ..ROW
        },
        Row {
            what: "Details of a rejection that is remembered",
            per: "update",
            constant: "service/engine/src/riders/rejections.rs REJECTION_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "a rejection with longer details is not remembered",
            tried_in: "service/engine/src/riders/rejections.rs",
            test: "only_rejections_with_short_details_are_remembered",
            ..ROW
        },
    ],
    notes: &["Identical queries of several callers count as one query. If a caller repeats an update with the same \
         update id while the update waits, both requests get the answer to the update, and they count as one update."],
};
