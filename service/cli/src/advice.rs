//! Advice about errors, for users of the command line. The advice in the service's responses is not suitable for them:
//! it is for programs that use the REST API, and names its calls and fields.

use client::TlsProblem;
use client::body::Problem;
use serde_json::Value;

/// Returns the detail of a problem. Names of API fields in it are replaced by the options that set these fields.
pub(crate) fn detail(problem: &Problem) -> String {
    let field = problem.members.get("field").and_then(Value::as_str).unwrap_or_default();
    match option(field) {
        Some(option) => problem.detail.replace(&format!("`{field}`"), &format!("`{option}`")),
        None => problem.detail.clone(),
    }
}

/// Returns advice about a problem that the service has reported.
pub(crate) fn advice(problem: &Problem) -> String {
    match problem.code.as_str() {
        // The problem contains the names of the known queries, which come from the decider.
        "unknown-query" => match known(problem) {
            Some(known) => format!("correct the name; the decider answers {known}"),
            None => "correct the name".to_owned(),
        },
        // If this file has no text for a code, the service's advice is shown. A newer service may report codes that
        // this program does not know.
        code => spoken(code).unwrap_or(&problem.advice).to_owned(),
    }
}

/// Returns advice about a TLS connection that has failed.
pub(crate) fn of_tls(problem: &TlsProblem) -> &'static str {
    match problem {
        TlsProblem::UnknownAuthority => {
            "set --ca-file or BATON_CA_FILE to the certificates of the authority that signed the service's certificate"
        }
        TlsProblem::OtherName { .. } => "set --url or BATON_URL to a name that is in the service's certificate",
        TlsProblem::Expired => {
            "the service's operator must renew the certificate, unless this machine's clock is ahead"
        }
        TlsProblem::NotYetValid => "this machine's clock may be behind",
        TlsProblem::NotEncrypted => {
            "check --url or BATON_URL: the service may use http://, or the port may belong to another program"
        }
        TlsProblem::CertificateWanted => "set --client-cert and --client-key",
        TlsProblem::CertificateRefused(_) => {
            "set --client-cert and --client-key to a valid certificate of an authority that the service accepts"
        }
        TlsProblem::BadCertificate(_) | TlsProblem::Other(_) => "the service's log may have details",
    }
}

fn known(problem: &Problem) -> Option<String> {
    let known = problem.members.get("known")?.as_array()?;
    let names: Vec<String> = known.iter().filter_map(Value::as_str).map(|name| format!("`{name}`")).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Returns the option that sets a field of the API.
fn option(field: &str) -> Option<&'static str> {
    match field {
        "operation.name" => Some("--signal"),
        "filter.reason" => Some("--closed-reason"),
        "perKey.maxRunning" => Some("--per-key-max-running"),
        "perKey.rate.perSecond" => Some("--per-key-rate"),
        field if field.starts_with("limits[") => Some("--key"),
        field if field.contains("retry") && field.ends_with("jitter") => Some("--retry-jitter"),
        field => named_option(field.rsplit('.').next()?),
    }
}

/// Returns the option that sets a field of this name, wherever the field is.
fn named_option(name: &str) -> Option<&'static str> {
    Some(match name {
        "workflowType" | "activityType" => "--type",
        "concurrencyKey" => "--concurrency-key",
        "taskPriority" => "--priority",
        "scheduleToStart" => "--schedule-to-start",
        "startToClose" => "--start-to-close",
        "scheduleToClose" => "--schedule-to-close",
        "heartbeat" => "--heartbeat",
        "taskList" => "--list",
        "maxRunning" => "--max-running",
        "perSecond" => "--rate",
        "burst" => "--burst",
        "input" => "--input",
        "tags" => "--tag",
        "executionTimeout" => "--execution-timeout",
        "runTimeout" => "--run-timeout",
        "deciderStartToClose" => "--turn-timeout",
        "reusePolicy" => "--reuse",
        "conflictPolicy" => "--conflict",
        "startAfter" => "--start-after",
        "maximumAttempts" => "--retry-attempts",
        "initialInterval" => "--retry-interval",
        "backoffCoefficient" => "--retry-coefficient",
        "maximumInterval" => "--retry-interval-max",
        "jitter" => "--jitter",
        "nonRetryableReasons" => "--no-retry-on",
        "identity" => "--identity",
        "reason" => "--reason",
        "failureReason" => "--failure",
        "details" => "--details",
        "result" => "--result",
        "updateId" => "--id",
        "eventId" => "--at",
        "retention" => "--retention",
        "description" => "--description",
        "cron" => "--cron",
        "status" => "--status",
        "workflowIds" => "--ids",
        "pace" => "--pace",
        "to" => "--to",
        "stopClocks" => "--stop-clocks",
        "timeZone" => "--time-zone",
        "catchUpWindow" => "--catch-up",
        "note" => "--note",
        "remainingActions" => "--times",
        _ => return None,
    })
}

/// Returns advice about a problem with this code. Returns `None` if the code is unknown, or if the service's advice
/// also fits the command line.
fn spoken(code: &str) -> Option<&'static str> {
    of_runs(code).or_else(|| of_others(code)).or_else(|| of_access(code)).or_else(|| of_calls(code))
}

fn of_runs(code: &str) -> Option<&'static str> {
    Some(match code {
        "workflow-already-open" => "use the open run (`--conflict use-existing` does), or choose another workflow id",
        "workflow-id-reuse-refused" => "choose another workflow id, or start with `--reuse allow-duplicate`",
        "unknown-workflow" => "`baton workflow list` lists the runs; closed runs are deleted after their retention",
        "unknown-run" => "correct --run, or omit it to use the newest run",
        "run-not-current" => "omit --run to use the current run",
        "run-open" => "close the run first, or repeat the command with `--terminate`",
        "bad-history" => {
            "export the run again, from a service that is not newer than this one; open runs cannot be moved"
        }
        "history-mismatch" => {
            "compare `baton history` of both services; if the existing run is the wrong one, delete it with \
                `baton workflow delete --run`"
        }
        "clock-suspect" => {
            "correct the clocks of all nodes (NTP); if they are right, run `baton clock confirm`; then repeat the \
                command"
        }
        "run-closed" => "a closed run cannot change; start another one",
        "no-decider" => {
            "the run is a single activity; `baton activity` changes it, and `baton workflow cancel` ends it"
        }
        "run-paused" => "resume it with `baton workflow resume`",
        "already-paused" => "nothing to do; `resume` continues it",
        "not-paused" => "nothing to do; it is not paused",
        "run-too-large" => {
            "open fewer activities and timers at once, or use shorter names; for a schedule, let fewer actions wait"
        }
        "state-limit" => "wait until some of the run's open activities, timers or children have closed, then retry",
        "activity-closed" => {
            "`baton workflow show` lists the open activities, and `baton history` shows how the others ended"
        }
        "output-not-kept" => {
            "`baton workflow show` lists the open activities; output is kept in memory, until an hour after the \
                activity has ended"
        }
        "activity-not-retryable" => "`baton workflow show` shows the state of its open activities",
        "invalid-reset-point" => "choose one of these events with --at",
        "reset-not-possible" => "choose another event with --at; `baton history` lists the events",
        "version-mismatch" => "read the run again and use its new tag",
        "query-failed" => "see the reason; the run is not affected",
        "query-timed-out" => {
            "retry with a longer --wait; make sure that a decider polls the run's task list and answers queries"
        }
        "too-many-waiting" => "retry after a moment",
        "update-rejected" => "see the reason; nothing is recorded",
        "update-failed" => "see the reason; the update is in the history",
        "update-timed-out" => {
            "retry with the same --id; make sure that a decider polls the run's task list and accepts updates"
        }
        "open-updates-limit" => "wait until the run has completed some of them, then retry",
        "bad-token"
        | "cancel-not-requested"
        | "output-limit-exceeded"
        | "query-task-lost"
        | "turn-completed"
        | "turn-lost"
        | "update-already-accepted"
        | "unknown-update" => "this error is for deciders and runners, which must drop their answer and poll again",
        _ => return None,
    })
}

fn of_others(code: &str) -> Option<&'static str> {
    Some(match code {
        "unknown-domain" => "create it with `baton domain create`, or choose one from `baton domain list`",
        "domain-exists" => "use the existing domain, or choose another name",
        "domain-deprecated" => "use another domain; `baton domain list` lists them",
        "domain-in-use" => {
            "deprecate it (`baton domain deprecate`), delete its schedules, and delete its runs or wait for their \
                retention"
        }
        "unknown-type" | "type-deprecated" => {
            "correct the name of the type, see `baton type list`; a type with a version must be registered first"
        }
        "type-exists" => "use the existing type, or register another version",
        "type-in-use" => "deprecate it first, with `baton type deprecate`",
        "schedule-exists" => "choose another id, or delete the existing schedule first",
        "unknown-batch" => "`baton batch list` shows those that there are; completed ones are kept for 30 days",
        "batch-running" => "`baton batch stop` stops it; or wait until it is completed",
        "batch-completed" => "nothing is left to do; create another batch for more runs",
        "unknown-schedule" => "`baton schedule list` lists the schedules",
        "unknown-limit-group" => "`baton limit-group set` creates a group, `baton limit-group list` shows all of them",
        "limit-group-in-use" => "first replace the limits of its task lists with `baton task-list limit`",
        "task-list-already-paused" => "nothing to do; `baton task-list resume` resumes it",
        "task-list-not-paused" => "nothing to do",
        "limit-exceeded" => "use or change an existing one, or delete one",
        "audit-log-disabled" => "start the service with --audit-log",
        _ => return None,
    })
}

fn of_access(code: &str) -> Option<&'static str> {
    Some(match code {
        "credential-expired" | "credential-not-yet-valid" | "credential-revoked" => {
            "use another secret or token with --secret-file or BATON_SECRET; `baton credential list` shows when each \
                secret is valid"
        }
        "token-refused" => "use another token of the issuer with --secret-file or BATON_SECRET",
        "certificate-refused" => {
            "use another certificate with --client-cert and --client-key, or a credential's secret with --secret-file or \
                BATON_SECRET"
        }
        "unauthorized" => {
            "check the secret in --secret-file or BATON_SECRET; `baton credential list` lists the credentials"
        }
        "too-many-failed-attempts" => "wait a second, and check the secret in --secret-file or BATON_SECRET",
        "forbidden" => {
            "use a credential with this permission, with --secret-file or BATON_SECRET; the service's operator can \
                create one"
        }
        "session-expired" | "csrf-token-missing" => {
            "use a credential's secret with --secret-file or BATON_SECRET; programs need no session"
        }
        "cross-site" => {
            "check --url or BATON_URL: a proxy in front of the service makes this request look like one from a web page"
        }
        "misdirected-request" => {
            "set --url or BATON_URL to localhost, or start the service with this name in --allowed-hosts"
        }
        "tls-required" => "set --url or BATON_URL to an address with https://",
        _ => return None,
    })
}

fn of_calls(code: &str) -> Option<&'static str> {
    Some(match code {
        "outcome-unknown" | "overloaded" => "retry; if the command has --key, a retry with the same key is always safe",
        "quota-exceeded" => "retry after a moment; the service's operator can raise the limit",
        "insufficient-storage" => {
            "retry later; the service's operator must free space on its disk, or start it with a lower \
                --disk-reserve"
        }
        "disk-full" => "retry later; the service's operator must free space on its disk, or delete closed runs",
        "stopping" | "unavailable" | "request-timeout" => "retry after a moment",
        "audit-log-unavailable" => "retry after a moment; the service's log shows the cause",
        "invalid-field" => "correct the value",
        "too-large" => "shorten it, or store the content elsewhere and pass a reference",
        "headers-too-large" => "use fewer or shorter options",
        "bad-page" => "repeat the command without the page",
        "bad-json"
        | "bad-query"
        | "bad-header"
        | "bad-path"
        | "unknown-path"
        | "method-not-allowed"
        | "unsupported-media-type" => {
            "this `baton` and the service may have different versions; compare `baton --version` with the first \
                line of the service's log"
        }
        "corrupt" => "report it to the service's operator; `baton fsck` shows details",
        "internal" => "report it, with the service's log",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    fn problem(code: &str, detail: &str, advice: &str, members: Value) -> Problem {
        let Value::Object(members) = members else { unreachable!() };
        let (code, detail, advice) = (code.to_owned(), detail.to_owned(), advice.to_owned());
        Problem { code, detail, advice, members, ..Problem::default() }
    }

    /// Terms of the REST API that must not occur in advice, because users of the command line do not know them.
    const FORBIDDEN: [&str; 18] = [
        "POST",
        "PUT",
        "GET ",
        "/v1",
        "openapi",
        "updateId",
        "runId",
        "=true",
        "Policy",
        "Idempotency",
        "Retry-After",
        "If-Match",
        "Authorization",
        "header",
        "body",
        "JSON",
        "percent-encode",
        "`field`",
    ];

    /// Collects all error codes that calls can return, from the API's document.
    fn codes(value: &Value, is_code: bool, into: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    codes(value, name == "code" || is_code && name == "enum", into);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| codes(item, is_code, into)),
            Value::String(code) if is_code => {
                into.insert(code.clone());
            }
            _ => {}
        }
    }

    #[test]
    fn every_refusal_has_advice_in_the_words_of_the_command_line() {
        let document: Value = serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap();
        let mut all = BTreeSet::from(["headers-too-large", "method-not-allowed", "unknown-path"].map(str::to_owned));
        codes(&document["components"], false, &mut all);
        codes(&document["paths"], false, &mut all);
        assert!(all.len() > 70 && all.contains("quota-exceeded") && all.contains("stopping"), "{all:?}");
        for code in &all {
            let said = advice(&problem(code, "", "Retry-After", json!({})));
            let foreign: Vec<_> = FORBIDDEN.into_iter().filter(|word| said.contains(word)).collect();
            assert!(!said.is_empty() && foreign.is_empty(), "{code}: {foreign:?} in {said:?}");
        }
    }

    #[test]
    fn a_field_is_called_as_its_option_is() {
        let bad =
            problem("invalid-field", "`taskList` must not be empty", "correct the field", json!({"field": "taskList"}));
        assert_eq!(detail(&bad), "`--list` must not be empty");
        let other =
            problem("invalid-field", "`workflowId` is too long", "correct the field", json!({"field": "workflowId"}));
        assert_eq!(detail(&other), "`workflowId` is too long", "it has no option");
    }

    #[test]
    fn an_unknown_query_is_answered_with_the_known_names() {
        let unknown = problem("unknown-query", "", "`known` has those", json!({"known": ["total", "status"]}));
        assert_eq!(advice(&unknown), "correct the name; the decider answers `total`, `status`");
        assert_eq!(advice(&problem("unknown-query", "", "", json!({"known": []}))), "correct the name");
    }
}
