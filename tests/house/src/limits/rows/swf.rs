//! Limits of the SWF protocol that differ from those of the REST API.

use crate::limits::{ROW, Row, Section, Unit};

pub(super) const SWF: Section = Section {
    title: "SWF protocol",
    rows: &[
        Row {
            what: "Problems listed in a ValidationException",
            per: "response",
            constant: "service/src/swf/shape.rs PROBLEMS_NAMED_MAX",
            beyond: "further problems are only counted",
            tried_in: "service/tests/memory/swf.rs",
            test: "a_fault_counts_all_problems_and_names_a_hundred",
            ..ROW
        },
        Row {
            what: "Memory for members of a parsed request, as a multiple of the operation's maximum body size",
            per: "request",
            constant: "service/src/swf.rs MEMBERS_PER_BYTE_MAX",
            beyond: "`RequestEntityTooLarge`",
            tried_in: "service/tests/memory/swf.rs",
            test: "decisions_of_all_types_take_under_8_times_their_bytes",
            partly: "the memory is measured, not the exact multiple",
            ..ROW
        },
        Row {
            what: "Input, result, details, `control`, `executionContext`",
            per: "field",
            constant: "service/src/swf/operations.rs DATA_MAX",
            unit: Unit::Characters,
            beyond: "ValidationException",
            tried_in: "service/tests/swf/histories.rs",
            test: "an_invalid_batch_applies_nothing_and_keeps_its_token",
            ..ROW
        },
        Row {
            what: "Length of the role for Lambda functions",
            per: "run",
            constant: "history/src/limits.rs LAMBDA_ROLE_CHARS_MAX",
            unit: Unit::Characters,
            beyond: "ValidationException",
            tried_in: "history/src/admit/tests/fields.rs",
            test: "the_lambda_role_of_a_type_has_its_limit",
            ..ROW
        },
        Row {
            what: "Items of a page (`maximumPageSize`)",
            per: "response",
            constant: "service/src/swf/page.rs PAGE_DEFAULT",
            beyond: "ValidationException",
            tried_in: "service/tests/swf/edges.rs",
            test: "an_integer_member_takes_only_integers",
            ..ROW
        },
        Row {
            what: "Retention of a domain, in days",
            per: "domain",
            constant: "service/src/swf/shape.rs DAYS_MAX",
            least: "0",
            unit: Unit::Count,
            beyond: "ValidationException",
            tried_in: "service/tests/swf/domains.rs",
            test: "retention_is_a_number_of_days_or_none",
            ..ROW
        },
        Row {
            what: "Timeout of a Lambda function",
            per: "task",
            constant: "service/src/swf/shape.rs FUNCTION_SECONDS_MAX",
            unit: Unit::Time,
            beyond: "ValidationException",
            tried_in: "service/src/swf/shape.rs",
            test: "a_function_has_at_most_900_seconds",
            ..ROW
        },
        Row {
            what: "Result of a Lambda function",
            per: "task",
            constant: "service/src/lambda/failure.rs RESULT_CHARS_MAX",
            unit: Unit::Characters,
            beyond: "LambdaFunctionFailed `ResultTooLarge`",
            tried_in: "service/src/lambda/command.rs",
            test: "a_command_with_endless_output_is_killed_with_children",
            partly: "by far more, not by one",
            ..ROW
        },
        Row {
            what: "Calls of Lambda functions at the same time",
            per: "domain",
            constant: "service/src/lambda.rs CALLS_MAX",
            beyond: "further tasks wait on their task list",
            why: "64 functions that wait take as many processes or connections",
            ..ROW
        },
        Row {
            what: "Difference between the clocks of caller and service in a signed request",
            per: "request",
            constant: "service/src/swf/signature.rs SKEW_MAX",
            unit: Unit::Time,
            beyond: "InvalidSignatureException",
            tried_in: "service/tests/swf/signatures.rs",
            test: "a_clock_may_differ_by_five_minutes",
            ..ROW
        },
        Row {
            what: "Events of a run, with `--swf-limits`",
            per: "run",
            constant: "history/src/limits.rs SWF_EVENTS_MAX",
            beyond: "WorkflowExecutionTerminated `EVENT_LIMIT_EXCEEDED`",
            tried_in: "history/src/rules/swf/tests.rs",
            test: "exceeding_the_event_limit_terminates_the_run",
            partly: "with a smaller value; another test has the value",
            ..ROW
        },
        Row {
            what: "Time that a run is open, with `--swf-limits`",
            per: "run",
            constant: "history/src/limits.rs SWF_RUN_TIME_MAX",
            unit: Unit::Time,
            beyond: "the run times out",
            tried_in: "history/src/rules/swf/tests.rs",
            test: "the_execution_timeout_is_capped_by_the_limit",
            ..ROW
        },
        Row {
            what: "Open runs, with `--swf-limits`",
            per: "domain",
            constant: "service/engine/src/base/admission/open_runs.rs OPEN_RUNS_MAX",
            beyond: "LimitExceededFault",
            tried_in: "tests/swf/tests/sdk/limits.rs",
            test: "as_many_runs_are_open_in_a_domain_as_may_be_children_included",
            partly: "with a smaller value; `the_limits_are_those_of_aws` has the value",
            ..ROW
        },
        Row {
            what: "Domains, with `--swf-limits`",
            per: "all nodes",
            constant: "service/engine/src/base/admission/open_runs.rs DOMAINS_MAX",
            beyond: "LimitExceededFault",
            tried_in: "tests/swf/tests/sdk/limits.rs",
            test: "there_are_as_many_domains_as_may_be_deprecated_ones_included",
            partly: "with a smaller value; `the_limits_are_those_of_aws` has the value",
            ..ROW
        },
        Row {
            what: "Waiting polls, with `--swf-limits`",
            per: "task list",
            constant: "service/engine/src/base/admission/open_runs.rs POLLERS_MAX",
            beyond: "LimitExceededFault",
            tried_in: "tests/swf/tests/sdk/limits.rs",
            test: "as_many_polls_wait_on_a_list_as_may_be",
            partly: "with a smaller value; `the_limits_are_those_of_aws` has the value",
            ..ROW
        },
        Row {
            what: "Highest number that a count of runs returns",
            per: "request",
            constant: "service/src/swf/visibility.rs COUNTED_MAX",
            beyond: "`truncated: true`",
            why: "100,000 runs in a store take too long for a test",
            ..ROW
        },
        Row {
            what: "Reads of the store for a count or a page",
            per: "request",
            constant: "service/src/swf/visibility.rs ASKED_MAX",
            beyond: "a count has `truncated: true`; a list continues on the next page",
            why: "a hundred reads that find no run need as many thousands of runs",
            ..ROW
        },
    ],
    notes: &["Over the SWF protocol, fields have the limits that AWS documents for SWF. The [SWF \
         reference](swf-reference.md) lists the differences. With `--swf-limits`, the service also applies AWS's \
         quotas."],
};
