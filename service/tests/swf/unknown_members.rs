//! Members that an operation does not have are ignored: by authorization, quotas, logs, and the operation itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use engine::Engine;
use engine::admission::{Limit, QuotaLimits};
use serde_json::{Map, Value, json};
use service::access::{CallAccess, Credential, Credentials, Level, Wire};
use service::access_log::AccessLog;
use service::api::{router_for, table};
use service::audit::AuditLog;
use service::http::{with_audit_log, with_request_log};
use simulation::still;
use simulation::stores::fresh;

use crate::access::as_of;
use crate::holders::{credential, one};
use crate::support::{Answer, Swf, execution, kind, ready, register_in, start};

/// The members of each operation in AWS's model; `!` marks required ones.
pub(crate) fn members() -> BTreeMap<&'static str, Vec<&'static str>> {
    let lines = include_str!("../shared/swf-members.txt").lines().filter(|line| !line.starts_with('#'));
    let operations = lines.map(|line| line.split_once(':').unwrap());
    operations.map(|(operation, members)| (operation, members.split_whitespace().collect())).collect()
}

/// Members of other operations that this operation does not have.
pub(crate) fn strangers(call: CallAccess) -> Vec<&'static str> {
    let all = members();
    let names = |of: &[&'static str]| of.iter().map(|member| member.trim_end_matches('!')).collect::<BTreeSet<_>>();
    let own = names(&all[call.name]);
    let others: BTreeSet<_> = all.values().flat_map(|members| names(members)).collect();
    others.difference(&own).copied().collect()
}

/// A run of a domain, and the values that identify it in requests.
pub(crate) struct Subject {
    domain: &'static str,
    pub(crate) run_id: String,
    turn: String,
    activity: String,
    /// Token for the next page of a turn.
    page: String,
}

impl Subject {
    /// Starts a run in a domain with lists `deciders` and `runners`, and starts a turn and an activity of it.
    async fn of(swf: &Swf, domain: &'static str) -> Self {
        register_in(swf, domain).await;
        let start = json!({ "domain": domain, "workflowId": domain, "workflowType": kind() });
        let run_id = swf.ask("StartWorkflowExecution", &start).await.json()["runId"].as_str().unwrap().to_owned();
        let list = |name: &str| json!({ "domain": domain, "taskList": { "name": name }, "maximumPageSize": 1 });
        let text = |task: &Value, member: &str| task[member].as_str().unwrap().to_owned();
        let first = swf.ask("PollForDecisionTask", &list("deciders")).await.json();
        let attributes = json!({ "activityType": { "name": "charge", "version": "1" }, "activityId": "a" });
        let decision =
            json!({ "decisionType": "ScheduleActivityTask", "scheduleActivityTaskDecisionAttributes": attributes });
        let answer = json!({ "taskToken": first["taskToken"], "decisions": [decision] });
        swf.ask("RespondDecisionTaskCompleted", &answer).await.nothing();
        let activity = text(&swf.ask("PollForActivityTask", &list("runners")).await.json(), "taskToken");
        let signal = json!({ "domain": domain, "workflowId": domain, "signalName": "s" });
        swf.ask("SignalWorkflowExecution", &signal).await.nothing();
        let turn = swf.ask("PollForDecisionTask", &list("deciders")).await.json();
        Self { domain, run_id, turn: text(&turn, "taskToken"), page: text(&turn, "nextPageToken"), activity }
    }

    /// Returns the values of a member that identify this run or its domain.
    pub(crate) fn values(&self, member: &str) -> Vec<Value> {
        let one = match member {
            "domain" | "name" | "workflowId" => json!(self.domain),
            "runId" => json!(self.run_id),
            "taskToken" => return vec![json!(self.turn), json!(self.activity)],
            "nextPageToken" => json!(self.page),
            "resourceArn" => json!(format!("arn:aws:swf:us-east-1:123456789012:/domain/{}", self.domain)),
            "execution" => json!({ "workflowId": self.domain, "runId": self.run_id }),
            "executionFilter" => json!({ "workflowId": self.domain }),
            "taskList" | "defaultTaskList" => return vec![json!({ "name": "deciders" }), json!({ "name": "runners" })],
            "workflowType" | "typeFilter" => kind(),
            "activityType" => json!({ "name": "charge", "version": "1" }),
            "registrationStatus" => json!("REGISTERED"),
            "startTimeFilter" | "closeTimeFilter" => json!({ "oldestDate": 0 }),
            "tags" | "tagKeys" | "tagList" | "decisions" => json!([]),
            "maximumPageSize" => json!(1),
            "reverseOrder" | "startAtPreviousStartedEvent" => json!(true),
            "tagFilter" => json!({ "tag": "t" }),
            "closeStatusFilter" => json!({ "status": "FAILED" }),
            "childPolicy" | "defaultChildPolicy" => json!("TERMINATE"),
            _ => json!("1"),
        };
        vec![one]
    }

    /// Returns a request about this run, with the required members only.
    pub(crate) fn input(&self, call: CallAccess) -> Value {
        let list = if call.level == Level::Decider { "deciders" } else { "runners" };
        let token = if call.level == Level::Decider { &self.turn } else { &self.activity };
        let mut input = Map::new();
        for member in members()[call.name].iter().filter_map(|member| member.strip_suffix('!')) {
            let value = match member {
                "taskList" => json!({ "name": list }),
                "taskToken" => json!(token),
                "name" if !call.name.ends_with("Domain") => json!("order"),
                member => self.values(member).remove(0),
            };
            input.insert(member.to_owned(), value);
        }
        Value::Object(input)
    }
}

/// A service with two domains, `here` and `there`.
pub(crate) struct World {
    pub(crate) engine: Arc<Engine>,
    pub(crate) open: Swf,
    pub(crate) guarded: Swf,
    pub(crate) here: Subject,
    pub(crate) there: Subject,
}

/// Every kind of credential for each of the two domains. The name is also the secret.
pub(crate) fn credentials() -> Vec<Credential> {
    let mut all = vec![
        Credential { operator: true, ..credential("operator") },
        Credential { metrics: true, ..credential("metrics") },
    ];
    for domain in ["here", "there"] {
        let name = |kind: &str| credential(&format!("{kind} {domain}"));
        let lists = |list: &str| vec![format!("{domain}/{list}")];
        all.extend([
            Credential { operators: one(domain), ..name("domain operator") },
            Credential { applications: one(domain), ..name("application") },
            Credential { readers: one(domain), ..name("reader") },
            Credential { readers_without_payloads: one(domain), ..name("bare reader") },
            Credential { deciders: lists("deciders"), ..name("decider") },
            Credential { runners: lists("runners"), ..name("runner") },
            Credential { deciders: lists("others"), runners: lists("others"), ..name("stranger") },
        ]);
    }
    all
}

impl World {
    pub(crate) async fn new() -> Self {
        let engine = still::open(fresh().await, 7).await;
        let open = Swf { router: router_for(Arc::clone(&engine), Credentials::default()) };
        for name in ["here", "there"] {
            let domain = json!({ "name": name, "workflowExecutionRetentionPeriodInDays": "1" });
            open.ask("RegisterDomain", &domain).await.nothing();
        }
        let (here, there) = (Subject::of(&open, "here").await, Subject::of(&open, "there").await);
        let guarded = Swf { router: router_for(Arc::clone(&engine), Credentials::new(credentials()).unwrap()) };
        // Authorized polls return at once.
        engine.begin_shutdown();
        Self { engine, open, guarded, here, there }
    }
}

pub(crate) fn calls() -> Vec<CallAccess> {
    table().into_iter().filter(|call| call.wire == Wire::Swf).collect()
}

/// Members that authorization reads. Tests also try values of other JSON types for them.
const LEADING: [&str; 5] = ["domain", "name", "taskToken", "nextPageToken", "resourceArn"];

/// Requests about `here`, each with one member that the operation does not have and a value of `there`.
fn with_strangers(world: &World, call: CallAccess) -> Vec<Value> {
    let plain = world.here.input(call);
    let mut requests = Vec::new();
    for member in strangers(call) {
        let mut values = world.there.values(member);
        if LEADING.contains(&member) {
            values.extend([Value::Null, json!([world.there.domain]), json!({ "name": "there" })]);
        }
        for value in values {
            let mut request = plain.clone();
            request[member] = value;
            requests.push(request);
        }
    }
    requests
}

/// A request with all such members at once.
fn with_all_strangers(world: &World, call: CallAccess) -> Value {
    let mut request = world.here.input(call);
    for member in strangers(call) {
        request[member] = world.there.values(member).remove(0);
    }
    request
}

pub(crate) fn status_and_text(answer: &Answer) -> (u16, &str) {
    (answer.status, &answer.text)
}

pub(crate) fn is_refused(answer: &Answer) -> bool {
    answer.text.contains("OperationNotPermittedFault")
}

#[tokio::test]
async fn an_unknown_member_changes_no_response() {
    // Two services that receive the same requests, except for that member.
    let (world, other) = (World::new().await, World::new().await);
    let (mut refused, mut differ) = (0, Vec::new());
    for credential in credentials() {
        let who = credential.name.as_str();
        for call in calls() {
            let plain = world.here.input(call);
            assert_eq!(plain, other.here.input(call));
            let mut expected = as_of(&world.guarded, who, call.name, &plain).await;
            as_of(&other.guarded, who, call.name, &plain).await;
            for request in with_strangers(&world, call) {
                // A refused request changes nothing, and is refused again in the same way.
                if !is_refused(&expected) {
                    expected = as_of(&world.guarded, who, call.name, &plain).await;
                }
                let answer = as_of(&other.guarded, who, call.name, &request).await;
                if status_and_text(&answer) != status_and_text(&expected) {
                    differ.push(format!("{who}: {} {request}: {answer:?}, not {expected:?}", call.name));
                }
                refused += usize::from(is_refused(&answer));
            }
        }
    }
    assert!(differ.is_empty(), "{} answers, as {:#?}", differ.len(), differ.iter().take(9).collect::<Vec<_>>());
    assert!(refused > 10_000, "{refused}");
}

#[tokio::test]
async fn a_runner_takes_no_task_with_a_token_of_another_list() {
    let world = World::new().await;
    let poll = json!({ "domain": "here", "taskList": { "name": "pci" }, "taskToken": world.here.activity });
    let refused = as_of(&world.guarded, "runner here", "PollForActivityTask", &poll).await;
    assert!(is_refused(&refused), "{refused:?}");
    let poll = json!({ "domain": "here", "taskList": { "name": "pci" }, "taskToken": world.here.turn });
    let refused = as_of(&world.guarded, "decider here", "PollForDecisionTask", &poll).await;
    assert!(is_refused(&refused), "{refused:?}");
}

/// Like `as_of`, for a body that is not a serialized JSON value.
async fn raw_as_of(swf: &Swf, who: &str, operation: &str, body: &str) -> Answer {
    let target = format!("SimpleWorkflowService.{operation}");
    let bearer = format!("Bearer {who}");
    swf.send(&[("x-amz-target", &target), ("authorization", &bearer)], body.to_owned()).await
}

#[tokio::test]
async fn a_duplicate_member_has_one_meaning_for_all_checks() {
    let world = World::new().await;
    for call in calls() {
        let (here, there) = (world.here.input(call), world.there.input(call));
        let of = |input: &Value, member: &str| json!({ member: input[member] }).to_string();
        let inner = |object: &str| object.trim_matches(['{', '}']).to_owned();
        for member in LEADING.iter().filter(|member| here[**member] != there[**member]) {
            let (own, foreign) = (inner(&of(&here, member)), inner(&of(&there, member)));
            let mut rest = here.clone();
            rest.as_object_mut().unwrap().remove(*member);
            let rest = rest.to_string();
            let rest = rest.strip_prefix('{').unwrap().trim_start_matches('}');
            let comma = if rest.is_empty() { "}" } else { "," };
            for (first, last, domain) in [(&foreign, &own, "here"), (&own, &foreign, "there")] {
                let body = format!("{{{first},{last}{comma}{rest}");
                for kind in ["domain operator", "application", "reader", "decider", "runner"] {
                    let (of_it, of_other) = if domain == "here" { ("here", "there") } else { ("there", "here") };
                    let answer = raw_as_of(&world.guarded, &format!("{kind} {of_other}"), call.name, &body).await;
                    let what = format!("{kind} {of_other}, not of {of_it}: {} {body}: {answer:?}", call.name);
                    assert!(is_refused(&answer), "{what}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_member_needs_its_exact_name_and_type() {
    let world = World::new().await;
    for call in calls() {
        let plain = world.here.input(call);
        for member in LEADING.iter().filter(|member| plain.get(**member).is_some()) {
            let (first, rest) = member.split_at(1);
            let capital = format!("{}{rest}", first.to_uppercase());
            let mut request = plain.clone();
            request[&capital] = request.as_object_mut().unwrap().remove(*member).unwrap();
            let answer = as_of(&world.guarded, "operator", call.name, &request).await;
            assert!(answer.text.contains(&format!("'{member}'")), "{} {request}: {answer:?}", call.name);
            for (value, fault) in [
                (Value::Null, "ValidationException"),
                (json!([plain[member]]), "SerializationException"),
                (json!({ "name": plain[member] }), "SerializationException"),
                (json!(true), "SerializationException"),
            ] {
                let mut request = plain.clone();
                request[member] = value;
                let answer = as_of(&world.guarded, "operator", call.name, &request).await;
                assert!(answer.text.contains(fault), "{} {request}: {answer:?}", call.name);
            }
        }
    }
}

#[tokio::test]
async fn attributes_of_a_decision_need_their_exact_name() {
    let swf = ready().await;
    let run_id = start(&swf, "w").await;
    let poll = json!({ "domain": "default", "taskList": { "name": "deciders" } });
    let turn = swf.ask("PollForDecisionTask", &poll).await.json();
    let timer = |id: &str| json!({ "timerId": id, "startToFireTimeout": "1" });
    let decision = json!({
        "decisionType": "StartTimer",
        "StartTimerDecisionAttributes": timer("not:checked"),
        "startTimerDecisionAttributes": timer("t"),
    });
    let answer = json!({ "taskToken": turn["taskToken"], "decisions": [decision] });
    swf.ask("RespondDecisionTaskCompleted", &answer).await.nothing();
    let history = swf.ask("GetWorkflowExecutionHistory", &execution("w", &run_id)).await;
    assert!(history.text.contains(r#""timerId":"t""#), "{}", history.text);
}

#[tokio::test]
async fn logs_name_nothing_from_unknown_members() {
    let world = World::new().await;
    let scratch = tempfile::tempdir().unwrap();
    let (changes, requests) = (scratch.path().join("audit"), scratch.path().join("access.jsonl"));
    let audit = AuditLog::open(&changes, Arc::clone(world.engine.clock())).unwrap();
    let lost = |lines| panic!("{lines} lines are lost");
    let access = AccessLog::open(requests.to_str().unwrap().parse().unwrap(), lost).unwrap();
    let router = with_audit_log(world.guarded.router.clone(), Arc::clone(&audit));
    let logged = Swf { router: with_request_log(router, &world.engine, Some(Arc::clone(&access))) };
    for call in calls() {
        as_of(&logged, "operator", call.name, &with_all_strangers(&world, call)).await;
    }
    audit.flush().await;
    access.flush().await;
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let file = std::fs::read_dir(&changes).unwrap().map(|entry| entry.unwrap().path());
    let file = file.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    let (changes, requests) = (file.map(|path| read(&path)).collect::<String>(), read(&requests));
    assert!(!changes.contains("there") && changes.contains("here"), "{changes}");
    for line in requests.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let of_none = ["ListDomains", "RegisterDomain"].contains(&line["operation"].as_str().unwrap());
        assert_eq!(line["domain"].as_str(), (!of_none).then_some("here"), "{line}");
    }
    assert_eq!(requests.lines().count(), calls().len());
}

#[tokio::test(start_paused = true)]
async fn a_request_counts_only_for_its_own_domain() {
    let world = World::new().await;
    for (limited, is_limited) in [("here", true), ("there", false)] {
        let limit = Limit { domain: Some(limited.to_owned()), requests_per_second: Some(1), ..Limit::default() };
        world.engine.quotas().replace(QuotaLimits::read(vec![limit]).unwrap());
        let describe = json!({ "name": limited });
        world.open.ask("DescribeDomain", &describe).await.json();
        world.open.ask("DescribeDomain", &describe).await.status_is(429);
        for call in calls() {
            let of_none = ["ListDomains", "RegisterDomain"].contains(&call.name);
            let is_of_task = members()[call.name].contains(&"taskToken!");
            let request = with_all_strangers(&world, call);
            for answer in [
                world.open.ask(call.name, &request).await,
                as_of(&world.guarded, "operator", call.name, &request).await,
            ] {
                let throttled = is_limited && !of_none && !is_of_task;
                assert_eq!(answer.status == 429, throttled, "{limited} {} {request}: {answer:?}", call.name);
            }
        }
    }
}
