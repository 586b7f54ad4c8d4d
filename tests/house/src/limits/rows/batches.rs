//! Limits of batches.

use crate::limits::{ROW, Row, Section, Unit};

pub(super) const BATCHES: Section = Section {
    title: "Batches",
    rows: &[
        Row {
            what: "Batches that are not completed",
            per: "domain",
            constant: "history/src/limits.rs BATCHES_OPEN_MAX",
            beyond: "409 `limit-exceeded`",
            tried_in: "service/engine/tests/engine/batches.rs",
            test: "batches_beyond_the_limit_are_refused",
            ..ROW
        },
        Row {
            what: "Operation, filter, reason and identity of a batch together, as JSON",
            per: "batch",
            constant: "history/src/limits.rs BATCH_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "413 `too-large`",
            tried_in: "history/src/batch/tests.rs",
            test: "a_definition_over_its_size_is_refused",
            ..ROW
        },
        Row {
            what: "Workflow ids in `workflowIds`",
            per: "batch",
            constant: "history/src/limits.rs BATCH_IDS_MAX",
            beyond: "400 `invalid-field`",
            tried_in: "history/src/batch/tests.rs",
            test: "an_invalid_definition_is_refused_with_its_field",
            ..ROW
        },
        Row {
            what: "Pace of a batch, in runs per second",
            per: "batch",
            constant: "history/src/limits.rs BATCH_PACE_MAX",
            beyond: "400 `invalid-field`",
            tried_in: "history/src/batch/tests.rs",
            test: "a_pace_outside_its_limits_is_refused",
            ..ROW
        },
        Row {
            what: "Runs in one step of a batch",
            per: "batch",
            constant: "history/src/limits.rs BATCH_PAGE_MAX",
            beyond: "further runs are in the next step",
            tried_in: "history/src/batch/tests.rs",
            test: "the_next_step_follows_from_the_state",
            ..ROW
        },
        Row {
            what: "Refusals that are listed in `refusals`",
            per: "batch",
            constant: "history/src/limits.rs BATCH_REFUSALS_MAX",
            beyond: "further refusals are only counted",
            tried_in: "history/src/batch/tests.rs",
            test: "refusals_beyond_the_limit_are_only_counted",
            ..ROW
        },
        Row {
            what: "`reason` of a refusal",
            per: "refusal",
            constant: "history/src/limits.rs BATCH_REFUSAL_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "the reason is cut off",
            tried_in: "history/src/batch/tests.rs",
            test: "the_text_of_a_refusal_is_cut_at_its_limit",
            ..ROW
        },
        Row {
            what: "Attempts of an operation on a run, if each attempt fails with a temporary error",
            per: "run of a batch",
            constant: "history/src/limits.rs BATCH_ATTEMPTS_MAX",
            beyond: "the run is counted as refused",
            tried_in: "history/src/batch/tests.rs",
            test: "an_unavailable_run_is_tried_again_up_to_the_limit",
            ..ROW
        },
        Row {
            what: "Runs that a dry run lists",
            per: "request",
            constant: "service/engine/src/batches.rs DRY_RUN_LISTED_MAX",
            beyond: "further runs are only counted",
            tried_in: "service/tests/http/batches.rs",
            test: "a_dry_run_counts_and_lists_runs_and_changes_nothing",
            ..ROW
        },
        Row {
            what: "Runs that are examined to estimate the number of runs of a batch",
            per: "request",
            constant: "service/engine/src/batches.rs ESTIMATE_EXAMINED_MAX",
            beyond: "further runs are not examined; `truncated: true`, `estimateTruncated: true`",
            why: "100,000 runs in a store take too long for a test",
            ..ROW
        },
        Row {
            what: "Time for which a completed batch is kept",
            per: "batch",
            constant: "history/src/limits.rs BATCH_RETENTION",
            unit: Unit::Time,
            beyond: "the batch is deleted",
            tried_in: "service/engine/tests/engine/batches.rs",
            test: "a_completed_batch_is_kept_for_thirty_days",
            ..ROW
        },
    ],
    notes: &[],
};
