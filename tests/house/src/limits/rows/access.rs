//! Limits of credentials, sessions, tokens of issuers, and files that the service reads.

use crate::limits::{ROW, Row, Section, Unit};

pub(super) const CREDENTIALS: Section = Section {
    title: "Credentials and sessions",
    rows: &[
        Row {
            what: "Name of a credential",
            per: "credential",
            constant: "history/src/limits.rs CALLER_NAME_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "the configuration is refused",
            tried_in: "history/src/caller.rs",
            test: "a_name_has_a_bound_and_no_control_characters",
            ..ROW
        },
        Row {
            what: "Secrets, signing keys and certificates of a credential",
            per: "credential",
            constant: "service/src/access/secret.rs SECRETS_MAX",
            beyond: "the configuration is refused",
            tried_in: "service/tests/http/credentials.rs",
            test: "invalid_credentials_are_refused_by_name",
            ..ROW
        },
        Row {
            what: "Minimum length of a secret in clear text in the configuration",
            per: "secret",
            constant: "service/src/access/secret.rs SECRET_CHARS_MIN",
            unit: Unit::Characters,
            beyond: "with a shorter secret, the configuration is refused",
            tried_in: "service/tests/http/credentials.rs",
            test: "a_guessable_secret_is_refused_by_name",
            ..ROW
        },
        Row {
            what: "Time before the expiry of a secret or a key at which the warnings begin",
            per: "secret",
            constant: "service/src/access/secret.rs EXPIRY_WARNING",
            unit: Unit::Time,
            beyond: "earlier, there is no warning",
            tried_in: "service/tests/http/credentials.rs",
            test: "secrets_that_expire_within_a_week_are_reported",
            ..ROW
        },
        Row {
            what: "Wrong secrets and signatures that are verified per second",
            per: "process",
            constant: "service/src/access/denials.rs GUESSES_PER_SECOND_MAX",
            beyond: "429 `too-many-failed-attempts`; valid credentials are not delayed",
            tried_in: "service/tests/http/guard.rs",
            test: "failed_attempts_are_throttled_and_valid_secrets_are_not",
            ..ROW
        },
        Row {
            what: "Time for a request in progress after its credential is revoked",
            per: "request",
            constant: "service/src/access/pass.rs REVOKED_WAIT",
            unit: Unit::Time,
            beyond: "the request is cut off",
            tried_in: "service/tests/http/credentials.rs",
            test: "a_poll_with_a_revoked_credential_ends_without_a_task",
            ..ROW
        },
        Row {
            what: "Sessions",
            per: "process",
            constant: "service/src/access/session.rs SESSIONS_MAX",
            beyond: "the least recently used session ends",
            tried_in: "service/src/access/session.rs",
            test: "too_many_sessions_end_the_least_recently_used",
            ..ROW
        },
        Row {
            what: "Sessions of one credential",
            per: "credential",
            constant: "service/src/access/session.rs SESSIONS_OF_ONE_MAX",
            beyond: "the credential's least recently used session ends",
            tried_in: "service/src/access/session.rs",
            test: "too_many_sessions_of_a_credential_end_its_least_recent",
            ..ROW
        },
        Row {
            what: "Age of a session",
            per: "session",
            constant: "service/src/access/session.rs SESSION_AGE_MAX",
            unit: Unit::Time,
            beyond: "401 `session-expired`",
            tried_in: "service/src/access/session.rs",
            test: "a_session_ends_when_it_is_closed_idle_or_too_old",
            ..ROW
        },
        Row {
            what: "Idle time of a session",
            per: "session",
            constant: "service/src/access/session.rs SESSION_IDLE_MAX",
            unit: Unit::Time,
            beyond: "401 `session-expired`",
            tried_in: "service/src/access/session.rs",
            test: "a_session_ends_when_it_is_closed_idle_or_too_old",
            ..ROW
        },
    ],
    notes: &[],
};

pub(super) const TOKENS: Section = Section {
    title: "Tokens of issuers",
    rows: &[
        Row {
            what: "Issuers",
            per: "process",
            constant: "service/src/access/issuer.rs ISSUERS_MAX",
            beyond: "the configuration is refused",
            tried_in: "service/tests/http/issuers.rs",
            test: "issuers_names_and_rules_are_accepted_up_to_their_limits",
            ..ROW
        },
        Row {
            what: "Rules of an issuer",
            per: "issuer",
            constant: "service/src/access/issuer.rs RULES_MAX",
            beyond: "the configuration is refused",
            tried_in: "service/tests/http/issuers.rs",
            test: "issuers_names_and_rules_are_accepted_up_to_their_limits",
            ..ROW
        },
        Row {
            what: "Name of an issuer",
            per: "issuer",
            constant: "service/src/access/issuer.rs ISSUER_NAME_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "the configuration is refused",
            tried_in: "service/tests/http/issuers.rs",
            test: "issuers_names_and_rules_are_accepted_up_to_their_limits",
            ..ROW
        },
        Row {
            what: "Token in a request",
            per: "request",
            constant: "service/src/access/token.rs TOKEN_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "401 `token-refused`",
            tried_in: "service/tests/http/tokens.rs",
            test: "every_invalid_token_is_refused_with_the_same_problem",
            partly: "no token of exactly the limit; with its header it is larger than a head may be",
            ..ROW
        },
        Row {
            what: "Difference between the clocks of issuer and service",
            per: "token",
            constant: "service/src/access/token.rs LEEWAY",
            unit: Unit::Time,
            beyond: "401 `credential-expired` or `credential-not-yet-valid`",
            tried_in: "service/tests/http/tokens.rs",
            test: "an_expired_or_early_token_is_refused_with_its_time",
            ..ROW
        },
        Row {
            what: "Keys in the key set of an issuer",
            per: "issuer",
            constant: "service/src/access/jwks.rs KEYS_MAX",
            beyond: "the key set is refused; the known keys stay in use",
            tried_in: "service/src/access/jwks.rs",
            test: "a_set_of_keys_at_its_limits_is_taken_and_one_above_refused",
            ..ROW
        },
        Row {
            what: "Size of the key set of an issuer",
            per: "issuer",
            constant: "service/src/access/jwks.rs KEYS_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "the key set is refused; the known keys stay in use",
            tried_in: "service/src/access/jwks.rs",
            test: "a_set_of_keys_at_its_limits_is_taken_and_one_above_refused",
            ..ROW
        },
        Row {
            what: "Time to fetch the keys of an issuer",
            per: "issuer",
            constant: "service/src/access/remote.rs FETCH_WAIT",
            unit: Unit::Time,
            beyond: "the fetch fails, and the known keys stay in use",
            tried_in: "service/tests/http/issuers.rs",
            test: "known_keys_stay_while_the_issuer_fails",
            ..ROW
        },
        Row {
            what: "Minimum time between two fetches because of tokens with an unknown key",
            per: "issuer",
            constant: "service/src/access/remote.rs KEYS_REFETCH_WAIT",
            unit: Unit::Time,
            beyond: "the keys are not fetched earlier",
            tried_in: "service/tests/http/issuers.rs",
            test: "an_unknown_key_fetches_keys_at_most_once_a_minute",
            ..ROW
        },
        Row {
            what: "Age of fetched keys",
            per: "issuer",
            constant: "service/src/access/remote.rs KEYS_AGE_MAX",
            unit: Unit::Time,
            beyond: "the keys are fetched again",
            tried_in: "service/tests/http/issuers.rs",
            test: "keys_are_fetched_at_the_start_and_periodically",
            ..ROW
        },
    ],
    notes: &[],
};

pub(super) const FILES: Section = Section {
    title: "Files that the service reads",
    rows: &[
        Row {
            what: "File with a certificate, a key or a list of authorities",
            per: "file",
            constant: "service/src/tls/read.rs FILE_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "the file is refused",
            tried_in: "service/tests/http/tls.rs",
            test: "invalid_files_are_refused_at_the_start",
            partly: "no file of exactly the limit",
            ..ROW
        },
        Row {
            what: "Bytes of a file that are compared to find changes",
            per: "file",
            constant: "service/src/reload.rs FILE_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "further bytes are not compared",
            tried_in: "service/src/reload.rs",
            test: "changes_are_noticed_in_the_first_16_mib_of_a_file",
            ..ROW
        },
        Row {
            what: "Time between two checks of a file for changes",
            per: "process",
            constant: "service/src/reload.rs CHECK_INTERVAL",
            unit: Unit::Time,
            beyond: "a changed file is noticed at the next check",
            tried_in: "service/src/reload.rs",
            test: "a_file_is_reloaded_only_after_its_content_changed",
            ..ROW
        },
    ],
    notes: &[],
};
