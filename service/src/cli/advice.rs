//! What to do about a problem, in the words of the command line: the service's own are those of its REST API.

use client::TlsProblem;
use client::body::Problem;
use serde_json::Value;

/// What is wrong, with the names of options where the API has fields.
pub(crate) fn detail(problem: &Problem) -> String {
    let field = problem.members.get("field").and_then(Value::as_str).unwrap_or_default();
    match option(field) {
        Some(option) => problem.detail.replace(&format!("`{field}`"), &format!("`{option}`")),
        None => problem.detail.clone(),
    }
}

/// What to do about it.
pub(crate) fn advice(problem: &Problem) -> String {
    match problem.code.as_str() {
        // The decider says more.
        "unknown-query" => match known(problem) {
            Some(known) => format!("correct the name; the decider knows {known}"),
            None => "correct the name".to_owned(),
        },
        code => spoken(code).unwrap_or(&problem.advice).to_owned(),
    }
}

/// What to do where nothing can be encrypted.
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

/// The option that sets a field.
fn option(field: &str) -> Option<&'static str> {
    Some(match field.rsplit('.').next()? {
        "workflowType" => "--type",
        "taskList" => "--list",
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

/// The advice for a code, where the service's own is of no use to whoever types commands.
fn spoken(code: &str) -> Option<&'static str> {
    Some(match code {
        "workflow-already-open" => "use the open run (`--conflict use-existing` does), or choose another workflow id",
        "workflow-id-reuse-refused" => "choose another workflow id, or start with `--reuse allow-duplicate`",
        "unknown-domain" => "`baton domain create` makes one, `baton domain list` shows those that there are",
        "unknown-workflow" => {
            "`baton workflow list` shows those that there are; runs are forgotten after their retention"
        }
        "unknown-run" => "correct --run, or leave it out for the newest run",
        "run-not-current" => "leave --run out to reach the current run",
        "domain-in-use" => {
            "`baton domain deprecate`, `workflow delete` and `schedule delete` make it ready; closed runs go after their retention"
        }
        "run-open" => "end it first; `--terminate` does so with the same command",
        "run-paused" => "`baton workflow resume` has it go on",
        "already-paused" => "nothing is left to do; `resume` has it go on",
        "activity-closed" => {
            "`baton workflow show` lists the open activities, `baton history` what became of the others"
        }
        "activity-not-retryable" => "`baton workflow show` says how its open activities stand",
        "not-a-reset-point" => "choose one of those with --at",
        "reset-refused" => "choose another event with --at; `baton history` shows them",
        "version-moved" => "look at it again, and take the tag that it has now",
        "schedule-exists" => "choose another id, or delete this one first",
        "unknown-schedule" => "`baton schedule list` shows those that there are",
        "query-not-answered" => {
            "ask again, with a longer --wait; see to it that a decider polls the run's list and answers queries"
        }
        "update-not-answered" => {
            "ask again with the same --id; see to it that a decider polls the run's list and takes updates"
        }
        "outcome-unknown" => "ask again; with --key, where a command has it, that is always safe",
        "bad-json" | "bad-query" | "bad-header" | "bad-path" | "no-such-path" | "method-not-allowed" => {
            "this `baton` and the service may be of different versions; `baton --version` tells one, the service's log the other"
        }
        "expired-secret" | "early-secret" | "revoked-secret" => {
            "give another secret with --secret-file or BATON_SECRET; `baton credential list` shows until when each is good"
        }
        "expired-token" | "early-token" | "token-refused" => {
            "give another token of its issuer with --secret-file or BATON_SECRET"
        }
        "certificate-refused" => {
            "show another with --client-cert and --client-key, or give a credential's secret with --secret-file or BATON_SECRET"
        }
        "unauthorized" | "too-many-guesses" => "give a credential's secret with --secret-file or BATON_SECRET",
        "invalid-field" => "correct it",
        "unknown-type" | "type-deprecated" => "correct the name of the type; types with a version are registered first",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problem(code: &str, detail: &str, advice: &str, members: Value) -> Problem {
        let Value::Object(members) = members else { unreachable!() };
        let (code, detail, advice) = (code.to_owned(), detail.to_owned(), advice.to_owned());
        Problem { code, detail, advice, members, ..Problem::default() }
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
    fn a_query_that_nobody_knows_is_answered_with_those_that_are_known() {
        let unknown = problem("unknown-query", "", "`known` has those", json!({"known": ["total", "status"]}));
        assert_eq!(advice(&unknown), "correct the name; the decider knows `total`, `status`");
        assert_eq!(advice(&problem("unknown-query", "", "", json!({"known": []}))), "correct the name");
    }
}
