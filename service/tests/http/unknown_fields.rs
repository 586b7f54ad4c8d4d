//! Parameters, members and headers that a call does not have. They never change authorization, the audit log's entry,
//! or the run of a call. Unknown parameters and members are refused; unknown headers are ignored.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use engine::admission::{Limit, QuotaLimits};
use serde_json::{Value, json};
use service::access::{CallAccess, Level, Wire};
use service::api::table;
use service::audit::AuditLog;
use service::http::with_audit_log;

use crate::access::{bearer, guarded, kinds, request};
use crate::support::{Answer, Api, Ask, WORKFLOWS, activity_path, turn_path};

/// Names that the `OpenAPI` document lists for one call.
pub(crate) struct Documented {
    pub(crate) query: BTreeSet<String>,
    pub(crate) headers: BTreeSet<String>,
    /// Absent for a call without a body.
    pub(crate) members: Option<BTreeSet<String>>,
}

impl Documented {
    /// Empty for calls that the document does not have, such as the console's pages.
    pub(crate) fn of(call: CallAccess) -> Self {
        static DOCUMENT: LazyLock<Value> = LazyLock::new(|| json!(service::api::document()));
        let document = &*DOCUMENT;
        let path = call.name.split("{*").next().unwrap();
        let operation = &document["paths"][path][call.method.to_lowercase()];
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let names = |place: &str| {
            let of_place = parameters.clone().filter(|it| it["in"] == place);
            of_place.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
        };
        let mut schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        if let Some(name) = schema["$ref"].as_str() {
            schema = &document["components"]["schemas"][name.rsplit('/').next().unwrap()];
        }
        let members = schema.is_object().then(|| schema["properties"].as_object().into_iter().flatten());
        let members = members.map(|members| members.map(|(name, _)| name.clone()).collect());
        Self { query: names("query"), headers: names("header"), members }
    }
}

/// Names that could influence authorization if it read them.
const LEADING: [&str; 10] =
    ["domain", "list", "taskList", "token", "taskToken", "id", "workflowId", "runId", "name", "activity"];

/// Headers that have a meaning for other servers.
const HEADERS: [&str; 8] = [
    "x-amz-target",
    "x-http-method-override",
    "x-original-url",
    "x-rewrite-url",
    "x-forwarded-for",
    "x-forwarded-host",
    "baton-domain",
    "cookie",
];

/// A service with a run in each of the domains `default` and `other`, whose turn and activity are started.
struct Both {
    open: Api,
    guarded: Api,
    turn: String,
    activity: String,
}

impl Both {
    async fn open() -> Self {
        let open = Api::open().await;
        open.post("/v1/domains", &json!({ "name": "other" })).await.json(201);
        let start = json!({ "workflowId": "other", "workflowType": "t", "taskList": "deciders" });
        open.post("/v1/domains/other/workflows", &start).await.json(201);
        let activity = activity_path(&open.activity("w").await);
        open.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
        let turn = turn_path(&open.turn().await);
        let guarded = guarded(&open);
        // Authorized polls return at once.
        open.engine.begin_shutdown();
        Self { open, guarded, turn, activity }
    }

    /// A request to a call in domain `default`, with this text appended to its path.
    fn ask(&self, call: CallAccess, more: &str) -> Ask {
        let name = format!("{}{more}", call.name).leak();
        request(CallAccess { name, ..call }, &self.turn, &self.activity)
    }

    async fn answer(&self, who: &str, ask: Ask) -> Answer {
        Answer::read(self.guarded.call(bearer(ask, who)).await).await
    }
}

fn calls() -> impl Iterator<Item = CallAccess> {
    table().into_iter().filter(|call| call.wire == Wire::Rest)
}

fn is_denied(answer: &Answer) -> bool {
    [401, 403].contains(&answer.status.as_u16())
}

/// Requests to a call with one query parameter, body member or header of another call, whose value names `other`.
fn unknowns(both: &Both, call: CallAccess) -> Vec<(String, Ask)> {
    let (mut query, mut headers, mut members) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for other in calls().map(Documented::of) {
        query.extend(other.query);
        headers.extend(other.headers);
        members.extend(other.members.into_iter().flatten());
    }
    let own = Documented::of(call);
    query.extend(LEADING.map(str::to_owned));
    members.extend(LEADING.map(str::to_owned));
    headers.extend(HEADERS.map(str::to_owned));
    let mut asks = Vec::new();
    for name in query.difference(&own.query) {
        asks.push((format!("?{name}=other"), both.ask(call, &format!("?{name}=other"))));
    }
    let own_members = own.members.unwrap_or_default();
    for name in members.difference(&own_members) {
        let body = json!({ name: "other" }).to_string();
        let ask = both.ask(call, "").header("content-type", "application/json").body(body.clone());
        asks.push((body, ask));
    }
    for name in headers.difference(&own.headers) {
        let name = name.to_ascii_lowercase();
        asks.push((name.clone(), both.ask(call, "").header(name.leak(), "other")));
    }
    asks
}

#[tokio::test]
async fn an_unknown_field_authorizes_no_one() {
    let both = Both::open().await;
    let before = both.open.everything().await;
    let mut denied = 0;
    for call in calls() {
        for (credential, levels) in kinds() {
            let who = credential.name.as_str();
            if levels.contains(&call.level) {
                continue;
            }
            let plain = both.answer(who, both.ask(call, "")).await;
            for (what, ask) in unknowns(&both, call) {
                let answer = both.answer(who, ask).await;
                let told = |answer: &Answer| (answer.status, answer.text.clone());
                assert_eq!(told(&answer), told(&plain), "{who}: {} {} {what}", call.method, call.name);
                denied += 1;
            }
        }
    }
    assert!(denied > 10_000, "{denied}");
    assert_eq!(both.open.everything().await, before);
}

#[tokio::test]
async fn an_unknown_field_is_refused_or_ignored() {
    let both = Both::open().await;
    let mut differ = Vec::new();
    for call in calls() {
        let of = Documented::of(call);
        for (what, ask) in unknowns(&both, call) {
            let answer = both.answer("operator", ask).await;
            let told = format!("{} {} {what}: {} {}", call.method, call.name, answer.status, answer.text);
            assert!(!is_denied(&answer), "{told}");
            let is_refused = (what.starts_with('?') && ![Level::Nothing, Level::Metrics].contains(&call.level))
                || (what.starts_with('{') && of.members.is_some());
            if is_refused && answer.status != 400 {
                differ.push(told);
            }
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
}

#[tokio::test]
async fn a_domain_is_the_decoded_segment_of_its_path() {
    let both = Both::open().await;
    let in_domain = || calls().filter(|call| call.name.contains("{domain}"));
    let ask = |call: CallAccess, segment: &str| {
        let name = call.name.replace("{domain}", segment).leak();
        request(CallAccess { name, ..call }, &both.turn, &both.activity)
    };
    for call in in_domain() {
        let answer = both.answer("operator", ask(call, "%64efault")).await;
        assert!(!is_denied(&answer), "{} {}: {answer:?}", call.method, call.name);
        for segment in ["%64efault", "other%2Fdefault", "other%2F..%2Fdefault", "other%00", "%6Fther%20", "OTHER"] {
            // The stranger's permissions name a task list of the domain.
            let is_known = segment == "%64efault" && call.level == Level::Related;
            let answer = both.answer("stranger", ask(call, segment)).await;
            assert!(is_known || is_denied(&answer), "{} {} {segment}: {answer:?}", call.method, call.name);
        }
        let answer = both.answer("stranger", ask(call, "other/../default")).await;
        assert_eq!(answer.status, 404, "{} {}: {answer:?}", call.method, call.name);
    }
}

#[tokio::test]
async fn a_duplicate_query_parameter_is_refused() {
    let both = Both::open().await;
    for call in calls() {
        for name in Documented::of(call).query {
            let ask = both.ask(call, &format!("?{name}=1&{name}=2"));
            let answer = both.answer("operator", ask).await;
            assert_eq!(answer.status, 400, "{} {}?{name}: {}", call.method, call.name, answer.text);
        }
    }
}

#[tokio::test]
async fn a_duplicate_body_member_is_refused() {
    let both = Both::open().await;
    for call in calls() {
        for name in Documented::of(call).members.into_iter().flatten() {
            let body = format!(r#"{{"{name}":null,"{name}":null}}"#);
            let ask = both.ask(call, "").header("content-type", "application/json").body(body);
            let answer = both.answer("operator", ask).await;
            assert_eq!(answer.status, 400, "{} {} {name}: {}", call.method, call.name, answer.text);
        }
    }
}

#[tokio::test]
async fn the_audit_log_and_the_quotas_take_the_domain_from_the_path() {
    let both = Both::open().await;
    let scratch = tempfile::tempdir().unwrap();
    let log = AuditLog::open(scratch.path(), Arc::clone(both.open.engine.clock())).unwrap();
    let audited = both.guarded.with(with_audit_log(both.guarded.router.clone(), Arc::clone(&log)));
    let limit = Limit { domain: Some("other".to_owned()), requests_per_second: Some(1), ..Limit::default() };
    both.open.engine.quotas().replace(QuotaLimits::read(vec![limit]).unwrap());
    for call in calls().filter(|call| call.name.contains("{domain}") || call.name.contains("{token}")) {
        for (what, ask) in unknowns(&both, call) {
            let status = audited.call(bearer(ask, "operator")).await.status();
            assert_ne!(status, 429, "{} {} {what}", call.method, call.name);
        }
    }
    log.flush().await;
    let mut entries = 0;
    for entry in service::audit::read_after(scratch.path(), 0, log.last(), 100_000).unwrap().entries {
        let entry: Value = serde_json::from_str(entry.get()).unwrap();
        if entry["call"].is_string() {
            assert_eq!(entry["domain"], "default", "{entry}");
            entries += 1;
        }
    }
    assert!(entries > 1_000, "{entries}");
}
