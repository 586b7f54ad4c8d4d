//! Advice about errors for users of the command line. The advice in the service's responses is for users of the REST
//! API, who can send requests of any form.

use client::TlsProblem;
use client::body::Problem;
use serde_json::Value;

/// Returns the detail of a problem, in which names of API fields are replaced by the options that set them.
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
        // The names of the known queries come from the decider.
        "unknown-query" => match known(problem) {
            Some(known) => format!("correct the name; the decider knows {known}"),
            None => "correct the name".to_owned(),
        },
        // A newer service may report codes that this program does not know.
        code => spoken(code).unwrap_or(&problem.advice).to_owned(),
    }
}

/// Returns advice about a TLS connection that has failed.
pub(crate) fn of_tls(problem: &TlsProblem) -> &'static str {
    match problem {
        TlsProblem::UnknownAuthority => "--ca-file or BATON_CA_FILE names the certificates of an authority of your own",
        TlsProblem::OtherName { .. } => "--url or BATON_URL: ask for it by a name that its certificate has",
        TlsProblem::Expired => "the service's operator renews it; this machine's clock may be ahead",
        TlsProblem::NotYetValid => "this machine's clock may be behind",
        TlsProblem::NotEncrypted => "--url or BATON_URL: it may be http:// there, or another program's port",
        TlsProblem::CertificateWanted => "--client-cert and --client-key show one",
        TlsProblem::CertificateRefused(_) => {
            "--client-cert and --client-key: show one that is good, of an authority that the service takes"
        }
        TlsProblem::BadCertificate(_) | TlsProblem::Other(_) => "the service's log may say more",
    }
}

fn known(problem: &Problem) -> Option<String> {
    let known = problem.members.get("known")?.as_array()?;
    let names: Vec<String> = known.iter().filter_map(Value::as_str).map(|name| format!("`{name}`")).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Returns the option that sets a field of the API.
fn option(field: &str) -> Option<&'static str> {
    Some(match field.rsplit('.').next()? {
        "workflowType" => "--type",
        "taskList" => "--list",
        "maxRunning" if field.starts_with("perKey") => "--per-key-max-running",
        "perSecond" if field.starts_with("perKey") => "--per-key-rate",
        "maxRunning" | "perSecond" if field.starts_with("limits[") => "--key",
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
        "jitter" if field.contains("retry") => "--retry-jitter",
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
        "timeZone" => "--time-zone",
        "catchUpWindow" => "--catch-up",
        "note" => "--note",
        "remainingActions" => "--times",
        _ => return None,
    })
}

/// Returns advice about a problem with this code, if the service's own advice is of little use on the command line.
/// Returns `None` for an unknown code.
fn spoken(code: &str) -> Option<&'static str> {
    of_runs(code).or_else(|| of_others(code)).or_else(|| of_access(code)).or_else(|| of_calls(code))
}

fn of_runs(code: &str) -> Option<&'static str> {
    Some(match code {
        "workflow-already-open" => "use the open run (`--conflict use-existing` does), or choose another workflow id",
        "workflow-id-reuse-refused" => "choose another workflow id, or start with `--reuse allow-duplicate`",
        "unknown-workflow" => {
            "`baton workflow list` shows those that there are; runs are forgotten after their retention"
        }
        "unknown-run" => "correct --run, or leave it out for the newest run",
        "run-not-current" => "leave --run out to reach the current run",
        "run-open" => "end it first; `--terminate` does so with the same command",
        "bad-history" => {
            "export it again, from a service of no later version than this one; open runs stay where they are"
        }
        "history-mismatch" => {
            "compare `baton history` of both services; `baton workflow delete --run` removes the one that is there, \
                if it is the wrong one"
        }
        "clock-suspect" => {
            "correct the clocks of all nodes (NTP); where they are right: `baton clock confirm`, then the same \
                command again"
        }
        "run-closed" => "nothing more can happen to this run; start another one",
        "run-paused" => "`baton workflow resume` has it go on",
        "already-paused" => "nothing is left to do; `resume` has it go on",
        "not-paused" => "nothing is left to do: it goes on",
        "run-too-large" => {
            "have fewer activities and timers open at once, or shorter names; of a schedule, fewer times that wait"
        }
        "state-limit" => "wait until some of what is open in the run is over, then ask again",
        "activity-closed" => {
            "`baton workflow show` lists the open activities, `baton history` what became of the others"
        }
        "activity-not-retryable" => "`baton workflow show` says how its open activities stand",
        "invalid-reset-point" => "choose one of those with --at",
        "reset-not-possible" => "choose another event with --at; `baton history` shows them",
        "version-mismatch" => "look at it again, and take the tag that it has now",
        "query-failed" => "read the reason; the run goes on as if nothing had been asked",
        "query-timed-out" => {
            "ask again, with a longer --wait; see to it that a decider polls the run's list and answers queries"
        }
        "too-many-waiting" => "ask again after a moment",
        "update-rejected" => "read the reason; nothing of it is recorded",
        "update-failed" => "read the reason; the history has the update",
        "update-timed-out" => {
            "ask again with the same --id; see to it that a decider polls the run's list and takes updates"
        }
        "open-updates-limit" => "wait until the run has answered some of them",
        "bad-token"
        | "cancel-not-requested"
        | "query-task-lost"
        | "turn-completed"
        | "turn-lost"
        | "update-already-accepted"
        | "unknown-update" => "deciders and runners are told this; they drop their answer and poll again",
        _ => return None,
    })
}

fn of_others(code: &str) -> Option<&'static str> {
    Some(match code {
        "unknown-domain" => "`baton domain create` makes one, `baton domain list` shows those that there are",
        "domain-exists" => "use it",
        "domain-deprecated" => "use another domain; `baton domain list` shows those that there are",
        "domain-in-use" => {
            "`baton domain deprecate`, `workflow delete` and `schedule delete` make it ready; closed runs go after \
                their retention"
        }
        "unknown-type" | "type-deprecated" => "correct the name of the type; types with a version are registered first",
        "type-exists" => "use it, or register another version",
        "type-in-use" => "deprecate it first",
        "schedule-exists" => "choose another id, or delete this one first",
        "unknown-schedule" => "`baton schedule list` shows those that there are",
        "unknown-limit-group" => "`baton limit-group set` creates a group, `baton limit-group list` shows all of them",
        "limit-group-in-use" => "first replace the limits of its task lists with `baton task-list limit`",
        "task-list-already-paused" => "nothing to do; `baton task-list resume` resumes it",
        "task-list-not-paused" => "nothing to do",
        "task-list-settings-with-nodes" => "limit the runners instead: let fewer of them poll at once",
        "limit-exceeded" => "use or change one of those that there are",
        "audit-log-disabled" => "start the service with --audit-log to have one",
        _ => return None,
    })
}

fn of_access(code: &str) -> Option<&'static str> {
    Some(match code {
        "credential-expired" | "credential-not-yet-valid" | "credential-revoked" => {
            "give another secret or token with --secret-file or BATON_SECRET; `baton credential list` shows when each \
                secret is valid"
        }
        "token-refused" => "give another token of its issuer with --secret-file or BATON_SECRET",
        "certificate-refused" => {
            "show another with --client-cert and --client-key, or give a credential's secret with --secret-file or \
                BATON_SECRET"
        }
        "unauthorized" | "too-many-failed-attempts" => "give a credential's secret with --secret-file or BATON_SECRET",
        "forbidden" => {
            "give the secret of a credential that may with --secret-file or BATON_SECRET; whoever looks after the \
                service knows which"
        }
        "session-expired" | "csrf-token-missing" => {
            "give a credential's secret with --secret-file or BATON_SECRET: a program needs no session"
        }
        "cross-site" => "--url or BATON_URL: what stands before the service there makes this look like a web page's",
        "misdirected-request" => {
            "--url or BATON_URL: ask for it as localhost, or have it started with this name in --allowed-hosts"
        }
        "tls-required" => "--url or BATON_URL: it begins with https:// there",
        _ => return None,
    })
}

fn of_calls(code: &str) -> Option<&'static str> {
    Some(match code {
        "outcome-unknown" | "overloaded" => "ask again; with --key, where a command has it, that is always safe",
        "quota-exceeded" => "ask again after a moment; whoever looks after the service may raise the limit",
        "insufficient-storage" => {
            "ask again later; whoever looks after the service makes room on its disk, or starts it with a lower \
                --disk-reserve"
        }
        "disk-full" => {
            "ask again later; whoever looks after the service makes room on its disk, or deletes closed runs"
        }
        "stopping" | "unavailable" | "request-timeout" => "ask again after a moment",
        "audit-log-unavailable" => "ask again after a moment; the service's log has the cause",
        "invalid-field" => "correct it",
        "too-large" => "make it smaller, or keep the content elsewhere and pass where it is",
        "headers-too-large" => "give fewer or shorter options",
        "bad-page" => "list from the beginning",
        "bad-json"
        | "bad-query"
        | "bad-header"
        | "bad-path"
        | "unknown-path"
        | "method-not-allowed"
        | "unsupported-media-type" => {
            "this `baton` and the service may be of different versions; `baton --version` tells one, the service's \
                log the other"
        }
        "corrupt" => "tell whoever looks after the service; `baton fsck` says more",
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
        assert_eq!(advice(&unknown), "correct the name; the decider knows `total`, `status`");
        assert_eq!(advice(&problem("unknown-query", "", "", json!({"known": []}))), "correct the name");
    }
}
