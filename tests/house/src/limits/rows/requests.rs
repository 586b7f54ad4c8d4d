//! Limits of request bodies, load, and pages of results.

use crate::limits::{ROW, Row, Section, Unit};

pub(super) const BODIES: Section = Section {
    title: "Bodies and parameters",
    rows: &[
        Row {
            what: "Body of a request, except for the calls in the next three rows",
            per: "request",
            constant: "service/src/http/body.rs BODY_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "413 `too-large`",
            tried_in: "service/tests/http/refusals.rs",
            test: "a_body_over_1_mib_or_without_end_is_refused",
            ..ROW
        },
        Row {
            what: "Body of an exchange, or of the answer that completes a turn",
            per: "request",
            constant: "service/src/http/body.rs TURN_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "413 `too-large`",
            tried_in: "service/tests/http/refusals.rs",
            test: "the_answer_to_a_turn_may_have_8_mib",
            ..ROW
        },
        Row {
            what: "Body of a poll",
            per: "request",
            constant: "service/src/http/body.rs POLL_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "413 `too-large`",
            tried_in: "service/tests/http/refusals.rs",
            test: "a_poll_body_over_64_kib_is_refused",
            ..ROW
        },
        Row {
            what: "Body of an imported run",
            per: "request",
            constant: "service/src/http/body.rs IMPORT_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "413 `too-large`",
            tried_in: "service/tests/http/import.rs",
            test: "an_invalid_history_is_refused_with_the_reason",
            partly: "a body of exactly the limit is not sent",
            ..ROW
        },
        Row {
            what: "Memory for lists and maps of a parsed body, as a multiple of the call's maximum body size",
            per: "request",
            constant: "service/src/http/body.rs LISTS_PER_BYTE_MAX",
            beyond: "413 `too-large`",
            tried_in: "service/tests/memory/main.rs",
            test: "an_exchange_full_of_decisions_is_refused_or_takes_less",
            partly: "the memory is measured, not the exact multiple",
            ..ROW
        },
        Row {
            what: "Time to receive the body",
            per: "request",
            constant: "service/src/http/body.rs BODY_WAIT",
            unit: Unit::Time,
            beyond: "408 `request-timeout`",
            tried_in: "service/tests/http/refusals.rs",
            test: "a_body_that_stalls_is_refused",
            ..ROW
        },
        Row {
            what: "Remaining bytes of a refused body that the service reads",
            per: "request",
            constant: "service/src/http/drain.rs DRAIN_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "the connection is closed",
            tried_in: "service/src/http/drain.rs",
            test: "a_body_is_drained_up_to_8_mib",
            ..ROW
        },
        Row {
            what: "Time to read the remaining bytes of a refused body",
            per: "request",
            constant: "service/src/http/drain.rs DRAIN_WAIT",
            unit: Unit::Time,
            beyond: "the connection is closed",
            tried_in: "service/src/http/drain.rs",
            test: "a_body_is_drained_for_one_second",
            ..ROW
        },
        Row {
            what: "Header `Idempotency-Key`",
            per: "request",
            constant: "service/src/rest/extract.rs KEY_CHARS_MAX",
            unit: Unit::Characters,
            beyond: "400 `bad-header`",
            tried_in: "service/tests/http/refusals.rs",
            test: "an_empty_overlong_or_invisible_key_is_refused",
            ..ROW
        },
        Row {
            what: "Wait in `Prefer: wait=`",
            per: "request",
            constant: "service/src/rest/extract.rs WAIT_MAX",
            unit: Unit::Time,
            beyond: "the wait is shortened to this time; `Preference-Applied` has this time",
            tried_in: "service/tests/http/histories.rs",
            test: "a_response_names_the_wait_that_was_applied",
            ..ROW
        },
        Row {
            what: "Details of all heartbeats in the description of a run",
            per: "run",
            constant: "service/src/rest/open_activities.rs HEARTBEAT_DETAILS_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "the details are left out",
            tried_in: "service/tests/http/progress.rs",
            test: "a_description_has_at_most_1_mib_of_heartbeat_details",
            ..ROW
        },
        Row {
            what: "Header `tracestate`",
            per: "request",
            constant: "history/src/limits.rs TRACESTATE_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "the header is ignored",
            tried_in: "history/src/trace/traceparent.rs",
            test: "a_tracestate_above_its_limit_is_dropped",
            ..ROW
        },
    ],
    notes: &["After the service has refused a request, it reads the remaining bytes of the request's body, within \
         the limits of bytes and time for a refused body in the table above. Otherwise the caller might not receive \
         the response."],
};

pub(super) const OUTPUT: Section = Section {
    title: "Output of activities",
    rows: &[
        Row {
            what: "Chunk of output",
            per: "request",
            constant: "history/src/limits.rs OUTPUT_CHUNK_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "413 `too-large`",
            tried_in: "service/tests/http/output.rs",
            test: "a_chunk_over_64_kib_is_refused",
            ..ROW
        },
        Row {
            what: "Chunks of output",
            per: "request",
            constant: "history/src/limits.rs OUTPUT_CHUNKS_MAX",
            beyond: "400 `invalid-field`",
            tried_in: "service/tests/http/output.rs",
            test: "more_than_1000_chunks_in_a_request_are_refused",
            ..ROW
        },
        Row {
            what: "Output that is kept, with 128 bytes per chunk and 1 KiB per activity",
            per: "activity",
            constant: "service/engine/src/tasks/outputs/memory.rs OUTPUT_ACTIVITY_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "the oldest chunks are dropped; readers get a `gap`",
            tried_in: "service/tests/http/output.rs",
            test: "an_activity_keeps_its_newest_mib_and_readers_learn_the_gap",
            ..ROW
        },
        Row {
            what: "Divisor of the memory for output; the quotient is the output of a domain",
            per: "domain",
            constant: "service/engine/src/tasks/outputs/memory.rs DOMAIN_PART",
            beyond: "ended output of the domain is dropped, then as for an activity; 429 `output-limit-exceeded` if \
                     there is still no room",
            tried_in: "service/tests/http/output.rs",
            test: "a_domain_fills_half_and_drops_ended_output_first",
            ..ROW
        },
        Row {
            what: "Time for which output is kept after the end of its activity",
            per: "activity",
            constant: "service/engine/src/tasks/outputs/memory.rs KEPT_FOR",
            unit: Unit::Time,
            beyond: "404 `output-not-kept`",
            tried_in: "service/tests/http/output.rs",
            test: "output_is_kept_for_an_hour_after_the_activity",
            ..ROW
        },
    ],
    notes: &[
        "A node keeps output in memory only. It is lost if the node stops, or if another node becomes responsible \
              for the run.",
    ],
};

pub(super) const LOAD: Section = Section {
    title: "Load",
    rows: &[
        Row {
            what: "Bytes in flight: bodies, pages and responses",
            per: "process",
            constant: "service/src/budget.rs BYTES_IN_FLIGHT_MAX",
            unit: Unit::Bytes,
            beyond: "503 `overloaded`",
            tried_in: "service/src/budget.rs",
            test: "bytes_beyond_the_budget_are_refused_until_some_are_released",
            ..ROW
        },
        Row {
            what: "Lowest limit for the bytes in flight, if a control group limits the memory of the process",
            per: "process",
            constant: "service/src/serve.rs BYTES_IN_FLIGHT_MIN",
            unit: Unit::Bytes,
            beyond: "503 `overloaded`",
            tried_in: "service/src/memory.rs",
            test: "sizes_grow_with_the_limit_up_to_those_without_one",
            ..ROW
        },
        Row {
            what: "Fraction of the bytes in flight for callers that are not yet authenticated",
            per: "process",
            constant: "service/src/budget.rs STRANGERS_PART",
            unit: Unit::Fraction,
            beyond: "503 `overloaded`",
            tried_in: "service/src/budget.rs",
            test: "unauthenticated_callers_share_an_eighth_of_the_budget",
            ..ROW
        },
        Row {
            what: "Pages of histories that are rendered at the same time",
            per: "process",
            constant: "service/src/budget.rs PAGES_AT_ONCE",
            beyond: "further requests wait",
            tried_in: "service/src/budget.rs",
            test: "no_page_is_built_that_would_not_fit",
            ..ROW
        },
        Row {
            what: "Size up to which a response is never refused because of the bytes in flight",
            per: "response",
            constant: "service/src/budget.rs ANSWER_SMALL",
            unit: Unit::Bytes,
            beyond: "503 `overloaded` if too many bytes are in flight",
            tried_in: "service/src/budget.rs",
            test: "small_answers_are_never_refused",
            ..ROW
        },
        Row {
            what: "Requests processed at the same time, per processor",
            per: "process",
            constant: "service/src/fair.rs PLACES_OF_PROCESSOR",
            option: "`--max-concurrent-requests`",
            beyond: "further requests wait; those of different domains are processed in rotation",
            tried_in: "service/src/fair/order.rs",
            test: "a_free_place_is_granted_immediately",
            ..ROW
        },
        Row {
            what: "Requests waiting to be processed",
            per: "domain",
            constant: "service/src/fair.rs WAITING_OF_DOMAIN_MAX",
            beyond: "503 `overloaded`",
            tried_in: "service/src/fair/tests.rs",
            test: "a_full_queue_still_takes_requests_that_have_begun",
            ..ROW
        },
        Row {
            what: "Requests waiting to be processed",
            per: "process",
            constant: "service/src/fair.rs WAITING_MAX",
            beyond: "503 `overloaded`",
            tried_in: "service/src/fair/tests.rs",
            test: "a_full_queue_still_takes_requests_that_have_begun",
            ..ROW
        },
        Row {
            what: "Memory for recently used runs",
            per: "process",
            constant: "service/src/memory.rs PART_MIB",
            unit: Unit::Mebibytes,
            option: "`--cache-mib`",
            beyond: "the least recently used runs are evicted, and read from the store again",
            tried_in: "service/src/memory.rs",
            test: "sizes_grow_with_the_limit_up_to_those_without_one",
            partly: "the size is tried, not the eviction",
            ..ROW
        },
        Row {
            what: "Memory for the output of activities",
            per: "process",
            constant: "service/src/memory.rs OUTPUT_MIB",
            unit: Unit::Mebibytes,
            beyond: "ended output is dropped, then the oldest chunks of the activity that appends",
            tried_in: "service/src/memory.rs",
            test: "sizes_grow_with_the_limit_up_to_those_without_one",
            partly: "the size is tried, not the dropping",
            ..ROW
        },
        Row {
            what: "Memory for commits that are not yet in the store's tables",
            per: "process",
            constant: "service/src/memory.rs PART_MIB",
            unit: Unit::Mebibytes,
            option: "`--store-memory-mib`",
            beyond: "the commits are written to the tables",
            tried_in: "service/src/memory.rs",
            test: "sizes_grow_with_the_limit_up_to_those_without_one",
            partly: "the size is tried, not the writing",
            ..ROW
        },
        Row {
            what: "Disk space reserved for open runs",
            per: "process",
            constant: "service/src/serve.rs DISK_RESERVE_MIB",
            unit: Unit::Mebibytes,
            option: "`--disk-reserve`",
            beyond: "507 `insufficient-storage` for starts of runs",
            tried_in: "service/tests/http/disk.rs",
            test: "starts_are_refused_below_the_disk_reserve",
            ..ROW
        },
    ],
    notes: &["If a control group limits the memory of the process, three limits in the table depend on this memory \
         limit. The limit for the bytes in flight is then a quarter of the memory limit, but never below the lowest \
         limit in the table, and never above the default in the table. The memory for recently used runs is at most a \
         twelfth of the memory limit. The memory for commits that are not yet in the store's tables is also at most a \
         twelfth of the memory limit. The service never refuses an answer to a task because too many requests wait."],
};

pub(super) const PAGES: Section = Section {
    title: "Pages and streams",
    rows: &[
        Row {
            what: "Events in a page of a history",
            per: "response",
            constant: "service/src/rest/history.rs EVENTS_MAX",
            beyond: "further events are on the next page",
            tried_in: "service/tests/http/histories.rs",
            test: "a_page_of_a_history_has_at_most_ten_thousand_events",
            ..ROW
        },
        Row {
            what: "Bytes in a page of a history",
            per: "response",
            constant: "service/engine/src/base/forms.rs PAGE_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "further events are on the next page; a larger event has a separate page",
            tried_in: "service/engine/tests/engine/bounds.rs",
            test: "pages_in_both_directions_are_complete_and_at_most_four_mib",
            ..ROW
        },
        Row {
            what: "Runs in a page of a list",
            per: "response",
            constant: "service/src/rest/workflows.rs LIST_MAX",
            beyond: "further runs are on the next page",
            tried_in: "service/tests/http/histories.rs",
            test: "a_page_has_at_most_a_thousand_runs_and_two_hundred_lists",
            ..ROW
        },
        Row {
            what: "Task lists in a page of a list",
            per: "response",
            constant: "service/src/rest/task_lists.rs LIST_MAX",
            beyond: "further task lists are on the next page",
            tried_in: "service/tests/http/histories.rs",
            test: "a_page_has_at_most_a_thousand_runs_and_two_hundred_lists",
            ..ROW
        },
        Row {
            what: "Types in a page of a list",
            per: "response",
            constant: "service/src/rest/types.rs LIST_MAX",
            beyond: "further types are on the next page",
            tried_in: "service/tests/http/types.rs",
            test: "a_type_is_registered_deprecated_and_deleted",
            partly: "pages are read, but not one of the largest size",
            ..ROW
        },
        Row {
            what: "Schedules in a page of a list",
            per: "response",
            constant: "service/src/rest/schedules.rs LIST_MAX",
            beyond: "further schedules are on the next page",
            tried_in: "service/tests/http/schedules.rs",
            test: "a_schedule_is_changed_and_deleted",
            partly: "pages are read, but not one of the largest size",
            ..ROW
        },
        Row {
            what: "Batches in a page of a list",
            per: "response",
            constant: "service/src/rest/batches.rs LIST_MAX",
            beyond: "further batches are on the next page",
            tried_in: "service/tests/http/batches.rs",
            test: "batches_are_listed_in_pages",
            partly: "pages are read, but not one of the largest size",
            ..ROW
        },
        Row {
            what: "Blocked runs that are grouped by failure",
            per: "request",
            constant: "service/engine/src/views/failures.rs BLOCKED_READ_MAX",
            beyond: "further runs are left out; `truncated: true`",
            why: "1,000 blocked runs take too long for a test",
            ..ROW
        },
        Row {
            what: "Failed runs that are grouped by failure",
            per: "request",
            constant: "service/engine/src/views/failures.rs FAILED_READ_MAX",
            beyond: "further runs are left out; `truncated: true`",
            why: "10,000 failed runs take too long for a test",
            ..ROW
        },
        Row {
            what: "Groups of runs with the same failure",
            per: "response",
            constant: "service/engine/src/views/failures.rs GROUPS_MAX",
            beyond: "further groups are left out; `truncated: true`",
            tried_in: "service/tests/http/batches.rs",
            test: "groups_of_failures_beyond_the_limit_are_left_out",
            ..ROW
        },
        Row {
            what: "Times in a list of the next times of a schedule",
            per: "response",
            constant: "service/src/rest/schedules.rs NEXT_MAX",
            beyond: "the list ends after this number of times",
            tried_in: "service/tests/http/schedules.rs",
            test: "at_most_1000_next_times_are_listed",
            ..ROW
        },
        Row {
            what: "Runs that a count examines",
            per: "request",
            constant: "service/src/rest/workflows.rs COUNT_EXAMINED_MAX",
            beyond: "further runs are not examined; `truncated: true`",
            why: "100,000 runs in a store take too long for a test",
            ..ROW
        },
        Row {
            what: "Domains whose changes one stream reports",
            per: "connection",
            constant: "service/src/rest/changes.rs DOMAINS_MAX",
            beyond: "the stream reports no changes of further domains",
            tried_in: "service/tests/http/changes.rs",
            test: "one_stream_follows_every_domain",
            partly: "two domains, not a hundred",
            ..ROW
        },
        Row {
            what: "Entries in a page of the audit log",
            per: "response",
            constant: "service/src/rest/audit.rs PAGE_MAX",
            beyond: "400 `bad-query`",
            tried_in: "service/tests/http/audit.rs",
            test: "an_operator_reads_the_audit_log_in_pages",
            ..ROW
        },
        Row {
            what: "Bytes in a page of the audit log (approximately)",
            per: "response",
            constant: "service/src/audit/read.rs PAGE_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "further entries are on the next page",
            tried_in: "service/src/audit/read.rs",
            test: "entries_are_found_in_all_files_and_pages_are_limited",
            ..ROW
        },
    ],
    notes: &[],
};
