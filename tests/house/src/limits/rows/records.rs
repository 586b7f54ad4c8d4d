//! Limits of logs, traces, metrics and functions.

use crate::limits::{ROW, Row, Section, Unit};

pub(super) const RECORDS: Section = Section {
    title: "Logs, traces and metrics",
    rows: &[
        Row {
            what: "Lines of the access log that wait to be written",
            per: "process",
            constant: "service/src/access_log.rs LINES_MAX",
            beyond: "further lines are dropped and counted",
            tried_in: "service/src/access_log.rs",
            test: "what_cannot_be_written_is_counted_and_goes_on_when_it_can",
            partly: "lines are dropped because of the disk, not because of a full queue",
            ..ROW
        },
        Row {
            what: "Path in the access log",
            per: "line",
            constant: "service/src/http/record.rs PATH_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "the path is cut off",
            tried_in: "service/src/http/record.rs",
            test: "a_path_and_a_value_are_kept_up_to_their_limits",
            ..ROW
        },
        Row {
            what: "Value of a query parameter in the access log",
            per: "line",
            constant: "service/src/http/record.rs QUERY_VALUE_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "the parameter is left out",
            tried_in: "service/src/http/record.rs",
            test: "a_path_and_a_value_are_kept_up_to_their_limits",
            ..ROW
        },
        Row {
            what: "Changes waiting for the audit log",
            per: "process",
            constant: "service/src/audit/log.rs CHANGES_MAX",
            beyond: "503 `audit-log-unavailable`",
            tried_in: "service/src/audit/log/tests.rs",
            test: "as_many_changes_wait_as_may_and_one_more_is_refused",
            ..ROW
        },
        Row {
            what: "Name in the audit log",
            per: "entry",
            constant: "service/src/audit/chain.rs NAME_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "the name is cut off",
            tried_in: "service/src/audit/chain.rs",
            test: "long_names_are_cut_at_a_character_boundary",
            ..ROW
        },
        Row {
            what: "Size of a file of the audit log (approximately)",
            per: "file",
            constant: "service/src/audit/files.rs FILE_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "a new file begins",
            tried_in: "service/src/audit/log/tests.rs",
            test: "a_full_file_is_followed_by_another_of_the_same_chain",
            ..ROW
        },
        Row {
            what: "Line of the audit log that `baton audit verify` reads",
            per: "line",
            constant: "service/src/audit/verify.rs LINE_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "the line is reported as damaged",
            tried_in: "service/src/audit/verify.rs",
            test: "every_changed_byte_is_reported_with_its_line",
            partly: "damaged lines of ordinary length",
            ..ROW
        },
        Row {
            what: "Spans waiting for the collector",
            per: "process",
            constant: "service/src/otlp/queue.rs QUEUE_SPANS_MAX",
            beyond: "further spans are dropped and counted",
            tried_in: "service/src/otlp/tests.rs",
            test: "a_hanging_collector_delays_nothing_and_drops_are_counted",
            ..ROW
        },
        Row {
            what: "Spans in one request to the collector",
            per: "request",
            constant: "service/src/otlp.rs BATCH_SPANS_MAX",
            beyond: "further spans follow in the next request",
            tried_in: "service/src/otlp/tests.rs",
            test: "spans_go_out_in_batches_and_what_waits_goes_out_at_the_end",
            ..ROW
        },
        Row {
            what: "Time for a request to the collector",
            per: "request",
            constant: "service/src/otlp/collector.rs EXPORT_WAIT",
            unit: Unit::Time,
            beyond: "the request is retried",
            tried_in: "service/src/otlp/tests.rs",
            test: "a_hanging_collector_delays_nothing_and_drops_are_counted",
            partly: "the request is not waited for until its time has passed",
            ..ROW
        },
        Row {
            what: "Time for all retries of a request to the collector",
            per: "request",
            constant: "service/src/otlp.rs RETRY_FOR",
            unit: Unit::Time,
            beyond: "the spans are dropped and counted",
            tried_in: "service/src/otlp/tests.rs",
            test: "a_busy_collector_is_retried_but_not_a_refusing_one",
            partly: "attempts, except the last",
            ..ROW
        },
        Row {
            what: "Time for which a stopping service waits for the collector",
            per: "process",
            constant: "service/src/otlp.rs FINISH_WAIT",
            unit: Unit::Time,
            beyond: "the remaining spans are dropped and counted",
            tried_in: "service/src/otlp/tests.rs",
            test: "a_hanging_collector_delays_nothing_and_drops_are_counted",
            ..ROW
        },
        Row {
            what: "Combinations of label values that have a separate series",
            per: "metric",
            constant: "service/engine/src/base/metrics/label.rs SERIES_MAX",
            beyond: "all further combinations are counted together in one series",
            tried_in: "service/engine/src/base/metrics/label.rs",
            test: "the_first_series_are_separate_and_all_others_merged",
            ..ROW
        },
        Row {
            what: "Domains whose open runs are counted separately in the metrics",
            per: "process",
            constant: "service/engine/src/registry/run_counts.rs DOMAINS_SHOWN_MAX",
            beyond: "the open runs of all other domains are counted together",
            tried_in: "service/engine/src/registry/run_counts.rs",
            test: "domains_beyond_the_maximum_are_counted_together",
            ..ROW
        },
        Row {
            what: "Lines of the service log per minute for one kind of message (per hour for messages about the clock)",
            per: "process",
            constant: "service/engine/src/base/notices/kinds.rs KIND_LINES_MAX",
            beyond: "further messages are counted in one line",
            tried_in: "service/engine/src/base/notices/rate_limit.rs",
            test: "a_kind_has_so_many_lines_a_span_and_the_rest_is_counted",
            ..ROW
        },
        Row {
            what: "Text from callers in a line of the service log",
            per: "line",
            constant: "service/engine/src/base/notices.rs TEXT_CHARS_MAX",
            unit: Unit::Characters,
            beyond: "the text is cut off",
            tried_in: "service/engine/src/base/notices/tests.rs",
            test: "text_of_others_stays_on_one_line_and_is_cut",
            ..ROW
        },
    ],
    notes: &[],
};
