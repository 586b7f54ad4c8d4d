//! Limits of schedules.

use crate::limits::{ROW, Row, Section, Unit};

pub(super) const SCHEDULES: Section = Section {
    title: "Schedules",
    rows: &[
        Row {
            what: "Definition of a schedule, as JSON",
            per: "schedule",
            constant: "history/src/limits.rs SCHEDULE_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "413 `too-large`",
            tried_in: "service/tests/http/schedules.rs",
            test: "a_schedule_over_its_size_limits_is_refused",
            ..ROW
        },
        Row {
            what: "`note` of a schedule",
            per: "schedule",
            constant: "history/src/limits.rs SCHEDULE_NOTE_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "413 `too-large`",
            tried_in: "service/tests/http/schedules.rs",
            test: "a_schedule_over_its_size_limits_is_refused",
            ..ROW
        },
        Row {
            what: "Cron expressions, calendar entries and intervals together; exclusions are counted separately",
            per: "schedule",
            constant: "history/src/limits.rs SCHEDULE_ENTRIES_MAX",
            beyond: "400 `invalid-field`",
            tried_in: "history/src/schedule/times/tests.rs",
            test: "a_spec_at_its_limits_is_accepted",
            ..ROW
        },
        Row {
            what: "Length of an interval",
            per: "entry",
            constant: "history/src/limits.rs SPAN_MAX",
            least: "history/src/limits.rs SCHEDULE_INTERVAL_MIN",
            unit: Unit::Time,
            beyond: "400 `invalid-field`",
            tried_in: "history/src/schedule/times/tests.rs",
            test: "a_spec_at_its_limits_is_accepted",
            ..ROW
        },
        Row {
            what: "`jitter` of a schedule",
            per: "schedule",
            constant: "history/src/limits.rs SCHEDULE_JITTER_MAX",
            unit: Unit::Time,
            beyond: "400 `invalid-field`",
            tried_in: "history/src/schedule/times/tests.rs",
            test: "a_spec_at_its_limits_is_accepted",
            ..ROW
        },
        Row {
            what: "Successive excluded times after which a search for the next time pauses",
            per: "search",
            constant: "history/src/schedule/times.rs EXCLUDED_MAX",
            beyond: "the search continues later, from `searchedUntil`",
            tried_in: "history/src/schedule/times/tests.rs",
            test: "evaluations_of_searches_and_lists_are_limited",
            ..ROW
        },
        Row {
            what: "Evaluations of entries and exclusions of a schedule for one list of next times",
            per: "request",
            constant: "history/src/schedule/times.rs EVALUATIONS_MAX",
            beyond: "the list is shortened, and ends at `searchedUntil`",
            tried_in: "history/src/schedule/times/tests.rs",
            test: "evaluations_of_searches_and_lists_are_limited",
            ..ROW
        },
        Row {
            what: "Actions waiting for earlier runs to close",
            per: "schedule",
            constant: "history/src/limits.rs SCHEDULE_WAITING_MAX",
            beyond: "further actions are skipped and counted",
            tried_in: "history/src/schedule/state/tests.rs",
            test: "the_state_of_a_schedule_is_limited",
            ..ROW
        },
        Row {
            what: "Open runs whose end a schedule observes",
            per: "schedule",
            constant: "history/src/limits.rs SCHEDULE_RUNNING_MAX",
            beyond: "the end of the oldest run is no longer observed",
            tried_in: "history/src/schedule/state/tests.rs",
            test: "the_state_of_a_schedule_is_limited",
            ..ROW
        },
        Row {
            what: "Actions in `recentActions`",
            per: "schedule",
            constant: "history/src/limits.rs SCHEDULE_RECENT_MAX",
            beyond: "the oldest action is left out",
            tried_in: "history/src/schedule/state/tests.rs",
            test: "the_state_of_a_schedule_is_limited",
            ..ROW
        },
        Row {
            what: "Actions whose runs are being started at the same time",
            per: "schedule",
            constant: "history/src/limits.rs SCHEDULE_STARTS_AT_ONCE",
            beyond: "further actions wait until a run has been started",
            tried_in: "history/src/schedule/state/tests.rs",
            test: "missed_times_are_caught_up_oldest_first",
            ..ROW
        },
        Row {
            what: "Times in a backfill",
            per: "request",
            constant: "history/src/limits.rs SCHEDULE_BACKFILL_MAX",
            beyond: "400 `invalid-field`",
            tried_in: "service/tests/http/schedules.rs",
            test: "a_trigger_or_backfill_acts_once_besides_the_schedule",
            ..ROW
        },
        Row {
            what: "Missed times that are counted one by one",
            per: "schedule",
            constant: "history/src/limits.rs SCHEDULE_MISSED_MAX",
            beyond: "the schedule skips to the current time",
            tried_in: "history/src/schedule/state/tests.rs",
            test: "the_state_of_a_schedule_is_limited",
            ..ROW
        },
        Row {
            what: "Default age up to which a schedule still acts for a missed time",
            per: "schedule",
            constant: "history/src/limits.rs SCHEDULE_CATCH_UP_DEFAULT",
            unit: Unit::Time,
            option: "`catchUpWindow`",
            beyond: "older missed times are skipped and counted",
            tried_in: "history/src/schedule/state/tests.rs",
            test: "missed_times_are_caught_up_oldest_first",
            ..ROW
        },
    ],
    notes: &[],
};
