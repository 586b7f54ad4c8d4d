//! Limits of domains, types and secrets for task tokens, and quotas.

use crate::limits::{ROW, Row, Section, Unit};

pub(super) const REGISTRY: Section = Section {
    title: "Domains and types",
    rows: &[
        Row {
            what: "Domains",
            per: "all nodes",
            constant: "service/engine/src/registry/domains.rs DOMAINS_MAX",
            beyond: "409 `limit-exceeded`",
            tried_in: "service/tests/http/calls.rs",
            test: "at_most_1000_domains_can_be_created",
            ..ROW
        },
        Row {
            what: "Description of a domain or a type",
            per: "domain, type",
            constant: "service/engine/src/registry/domains.rs DESCRIPTION_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "413 `too-large`",
            tried_in: "service/tests/http/refusals.rs",
            test: "a_domain_is_created_once_and_its_fields_are_checked",
            ..ROW
        },
        Row {
            what: "Tags of a domain",
            per: "domain",
            constant: "history/src/limits.rs DOMAIN_TAGS_MAX",
            beyond: "409 `limit-exceeded`",
            tried_in: "service/tests/http/calls.rs",
            test: "domain_tags_are_changed_together_and_limited",
            ..ROW
        },
        Row {
            what: "Key of a tag",
            per: "domain",
            constant: "service/engine/src/registry/domains.rs TAG_KEY_CHARS_MAX",
            unit: Unit::Characters,
            beyond: "400 `invalid-field`",
            tried_in: "service/tests/http/calls.rs",
            test: "domain_tags_are_changed_together_and_limited",
            ..ROW
        },
        Row {
            what: "Value of a tag",
            per: "domain",
            constant: "service/engine/src/registry/domains.rs TAG_VALUE_CHARS_MAX",
            unit: Unit::Characters,
            beyond: "400 `invalid-field`",
            tried_in: "service/tests/http/calls.rs",
            test: "domain_tags_are_changed_together_and_limited",
            ..ROW
        },
        Row {
            what: "Activity types; separately, workflow types",
            per: "domain",
            constant: "service/engine/src/registry/types.rs TYPES_MAX",
            beyond: "409 `limit-exceeded`",
            why: "each registration lists all types, so that 10,000 of them take too long for a test",
            ..ROW
        },
        Row {
            what: "Version of a type",
            per: "type",
            constant: "service/engine/src/registry/types.rs VERSION_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "413 `too-large`",
            tried_in: "service/tests/http/types.rs",
            test: "an_invalid_type_is_refused",
            ..ROW
        },
        Row {
            what: "Secrets of task tokens that are valid at the same time",
            per: "all nodes",
            constant: "service/engine/src/registry/keeper.rs SECRETS_MAX",
            beyond: "409 `limit-exceeded`",
            tried_in: "service/engine/tests/engine/secrets.rs",
            test: "secrets_are_limited_except_with_a_zero_overlap",
            ..ROW
        },
        Row {
            what: "Time for which the previous secret of task tokens stays valid after a rotation",
            per: "rotation",
            constant: "service/engine/src/registry/keeper.rs SECRET_OVERLAP_MAX",
            unit: Unit::Time,
            beyond: "400 `invalid-field`",
            tried_in: "service/engine/tests/engine/secrets.rs",
            test: "the_overlap_of_a_rotation_is_at_most_ten_years",
            ..ROW
        },
    ],
    notes: &["All domains, with their descriptions and tags, are stored in one record. The record may have 1 MiB in \
         the embedded store, and less than 400 KB in DynamoDB. If the record is full, creating a domain fails with \
         409 `limit-exceeded`."],
};

pub(super) const QUOTAS: Section = Section {
    title: "Ranges of quotas",
    rows: &[
        Row {
            what: "`requests-per-second`",
            per: "domain, credential",
            constant: "service/engine/src/base/admission/limits.rs REQUESTS_PER_SECOND_MAX",
            least: "1",
            beyond: "the configuration is refused",
            tried_in: "service/engine/src/base/admission/quotas/tests.rs",
            test: "limits_at_the_ends_of_their_ranges_are_accepted",
            ..ROW
        },
        Row {
            what: "`burst`",
            per: "domain, credential",
            constant: "service/engine/src/base/admission/limits.rs BURST_MAX",
            least: "1",
            beyond: "the configuration is refused",
            tried_in: "service/engine/src/base/admission/quotas/tests.rs",
            test: "limits_at_the_ends_of_their_ranges_are_accepted",
            ..ROW
        },
        Row {
            what: "`bytes-per-second`",
            per: "domain, credential",
            constant: "service/engine/src/base/admission/limits.rs BYTES_PER_SECOND_MAX",
            least: "service/engine/src/base/admission/limits.rs BYTES_PER_SECOND_MIN",
            unit: Unit::Bytes,
            beyond: "the configuration is refused",
            tried_in: "service/engine/src/base/admission/quotas/tests.rs",
            test: "limits_at_the_ends_of_their_ranges_are_accepted",
            ..ROW
        },
        Row {
            what: "`open-runs`",
            per: "domain",
            constant: "service/engine/src/base/admission/limits.rs OPEN_RUNS_MAX",
            least: "1",
            beyond: "the configuration is refused",
            tried_in: "service/engine/src/base/admission/quotas/tests.rs",
            test: "limits_at_the_ends_of_their_ranges_are_accepted",
            ..ROW
        },
        Row {
            what: "`task-lists`",
            per: "domain",
            constant: "service/engine/src/base/admission/limits.rs TASK_LISTS_MAX",
            least: "1",
            beyond: "the configuration is refused",
            tried_in: "service/engine/src/base/admission/quotas/tests.rs",
            test: "limits_at_the_ends_of_their_ranges_are_accepted",
            ..ROW
        },
        Row {
            what: "`watchers`",
            per: "domain, credential",
            constant: "service/engine/src/base/admission/limits.rs WATCHERS_MAX",
            least: "1",
            beyond: "the configuration is refused",
            tried_in: "service/engine/src/base/admission/quotas/tests.rs",
            test: "limits_at_the_ends_of_their_ranges_are_accepted",
            ..ROW
        },
        Row {
            what: "Longest delay because of `bytes-per-second`",
            per: "domain, credential",
            constant: "service/engine/src/base/admission/rate.rs DEBT_MAX",
            unit: Unit::Time,
            beyond: "longer delays are shortened to this time",
            tried_in: "service/engine/src/base/admission/rate.rs",
            test: "a_debt_is_no_longer_than_a_minute",
            ..ROW
        },
        Row {
            what: "Domains and credentials whose usage is remembered",
            per: "process",
            constant: "service/engine/src/base/admission/quotas.rs QUOTAS_KEPT_MAX",
            beyond: "the usage of idle domains and credentials is counted from zero again",
            tried_in: "service/engine/src/base/admission/quotas/tests.rs",
            test: "names_beyond_the_maximum_are_counted_together",
            ..ROW
        },
    ],
    notes: &["By default there are no quotas. Operators configure them: see [quotas](quotas.md). A request beyond a \
         quota fails with 429 `quota-exceeded`."],
};
