//! The `by` of events: each event has the name of the credential that caused it, whatever identity the caller claims.

use std::sync::Arc;

use history::Duration;
use serde_json::{Value, json};
use service::access::{Credential, Credentials};
use service::api::router_for;

use crate::holders::{credential, one};
use crate::support::{Answer, Api, Ask, DECIDERS, WORKFLOWS, activity_path, schedule, turn_path};

/// Identity that every caller claims.
const CLAIMED: &str = "ops@corp";

/// A service with credentials, and the last event of `w` that the test has checked.
struct Guarded {
    open: Api,
    asks: Api,
    seen: u64,
}

impl Guarded {
    async fn open() -> Self {
        let open = Api::open().await;
        let credentials = vec![
            Credential { applications: one("default"), ..credential("app") },
            Credential { operators: one("default"), ..credential("operator") },
            Credential { deciders: one("default/*"), ..credential("decider") },
            Credential { deciders: one("default/*"), ..credential("decider two") },
            Credential { runners: one("default/*"), ..credential("runner") },
            Credential { runners: one("default/*"), ..credential("runner two") },
        ];
        let router = router_for(Arc::clone(&open.engine), Credentials::new(credentials).unwrap());
        let asks = open.with(router);
        Self { open, asks, seen: 0 }
    }

    async fn say(&self, who: &str, path: &str, body: &Value) -> Answer {
        let ask = Ask::post(path, body).header("authorization", &format!("Bearer {who}"));
        // Only polls have a wait: a start with one would wait for the run to close.
        let ask = if path.ends_with("/poll") { ask.header("prefer", "wait=20") } else { ask };
        let answer = self.asks.ask(ask).await;
        assert!(answer.status.is_success(), "{who} {path}: {}", answer.text);
        answer
    }

    async fn start(&self, who: &str, id: &str, more: &Value) -> Value {
        let mut start = json!({ "workflowId": id, "workflowType": "t", "taskList": "deciders", "identity": CLAIMED });
        start.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_str(&self.say(who, WORKFLOWS, &start).await.text).unwrap()
    }

    async fn turn(&self, who: &str) -> Value {
        let poll = json!({ "identity": CLAIMED, "updates": 8 });
        serde_json::from_str(&self.say(who, DECIDERS, &poll).await.text).unwrap()
    }

    async fn complete(&self, who: &str, turn: &Value, complete: &Value) {
        self.say(who, &format!("{}/complete", turn_path(turn)), complete).await;
    }

    async fn take(&self, who: &str, list: &str) -> Value {
        let path = format!("/v1/domains/default/task-lists/{list}/activity/poll");
        serde_json::from_str(&self.say(who, &path, &json!({ "identity": CLAIMED })).await.text).unwrap()
    }

    async fn events(&self, id: &str, run_id: Option<&str>, after: u64) -> Vec<Value> {
        let query = run_id.map(|run_id| format!("&runId={run_id}")).unwrap_or_default();
        let path = format!("{WORKFLOWS}/{id}/history?after={after}{query}");
        self.open.get(&path).await.json(200)["events"].as_array().unwrap().clone()
    }

    /// Checks types and callers of these events.
    #[track_caller]
    fn check(events: &[Value], expected: &[(&str, Option<&str>)]) {
        let found: Vec<_> =
            events.iter().map(|event| (event["type"].as_str().unwrap(), event["by"].as_str())).collect();
        assert_eq!(found, expected);
        // The claimed identity is recorded unchanged.
        for event in events.iter().filter(|event| event.get("identity").is_some()) {
            assert_eq!(event["identity"], CLAIMED, "{event}");
        }
    }

    async fn check_new(&mut self, expected: &[(&str, Option<&str>)]) -> Vec<Value> {
        let events = self.events("w", None, self.seen).await;
        Self::check(&events, expected);
        self.seen += events.len() as u64;
        events
    }
}

fn of(verb: &str) -> String {
    format!("{WORKFLOWS}/w/{verb}")
}

#[tokio::test]
async fn every_event_names_the_credential_that_caused_it() {
    let mut it = Guarded::open().await;
    let (app, operator, decider) = (Some("app"), Some("operator"), Some("decider"));
    let (runner, runner_two) = (Some("runner"), Some("runner two"));
    let who = json!({ "identity": CLAIMED });
    it.start("app", "w", &json!({ "signal": { "name": "first" } })).await;
    it.check_new(&[("WorkflowStarted", app), ("DeciderScheduled", app), ("Signal", app)]).await;
    let turn = it.turn("decider").await;
    it.check_new(&[("DeciderStarted", decider)]).await;
    it.say("app", &of("signals/s"), &who).await;
    it.check_new(&[("Signal", app), ("DeciderScheduled", app)]).await;
    // The decider that responds need not be the one that took the turn.
    it.say("decider two", &format!("{}/fail", turn_path(&turn)), &json!({ "reason": "r" })).await;
    it.check_new(&[("DeciderFailed", Some("decider two"))]).await;
    it.open.clock.advance(Duration::from_secs(60));

    let turn = it.turn("decider").await;
    it.check_new(&[("DeciderStarted", decider)]).await;
    let mut tried = schedule("tried", "tried");
    tried["retry"] = json!({ "initialInterval": 1, "maximumAttempts": 3 });
    let decisions = json!([
        schedule("a", "acts"), tried, schedule("b", "hand"), schedule("c", "later"),
        { "type": "StartTimer", "timerId": "t", "after": 3_600 }, { "type": "RecordMarker", "name": "m" },
        { "type": "CancelActivity", "activityId": "c" },
    ]);
    it.complete("decider", &turn, &json!({ "decisions": decisions })).await;
    it.check_new(&[
        ("DeciderCompleted", decider),
        ("ActivityScheduled", decider),
        ("ActivityScheduled", decider),
        ("ActivityScheduled", decider),
        ("ActivityScheduled", decider),
        ("TimerScheduled", decider),
        ("Marker", decider),
        ("ActivityTaskCancel", decider),
        ("ActivityCanceled", decider),
        ("DeciderScheduled", decider),
    ])
    .await;

    let task = it.take("runner", "acts").await;
    it.check_new(&[("ActivityStarted", runner)]).await;
    it.say("runner two", &format!("{}/heartbeat", activity_path(&task)), &json!({})).await;
    it.say("runner two", &format!("{}/success", activity_path(&task)), &json!({})).await;
    it.check_new(&[("ActivitySuccess", runner_two)]).await;
    // A failed attempt leaves no event. The last attempt is recorded when the activity closes.
    let task = it.take("runner two", "tried").await;
    it.say("runner two", &format!("{}/failure", activity_path(&task)), &json!({ "reason": "busy" })).await;
    it.open.clock.advance(Duration::from_secs(60));
    let task = it.take("runner", "tried").await;
    it.check_new(&[]).await;
    let failure = json!({ "reason": "no", "nonRetryable": true });
    it.say("runner two", &format!("{}/failure", activity_path(&task)), &failure).await;
    it.check_new(&[("ActivityStarted", runner), ("ActivityFailed", runner_two)]).await;

    for (verb, event) in [("pause", "ActivityPaused"), ("resume", "ActivityResumed")] {
        it.say("operator", &of(&format!("activities/b/{verb}")), &who).await;
        it.check_new(&[(event, operator)]).await;
    }
    let change = json!({ "taskList": "hand", "identity": CLAIMED });
    it.say("operator", &of("activities/b/options"), &change).await;
    it.check_new(&[("ActivityOptionsChanged", operator)]).await;
    it.say("operator", &of("activities/b/pause"), &who).await;
    it.say("operator", &of("activities/b/retry"), &who).await;
    it.check_new(&[("ActivityPaused", operator), ("ActivityRetried", operator)]).await;
    it.say("operator", &of("activities/b/success"), &json!({ "result": 1, "identity": CLAIMED })).await;
    it.check_new(&[("ActivityStarted", operator), ("ActivitySuccess", operator)]).await;
    for (verb, event) in [("pause", "WorkflowPaused"), ("resume", "WorkflowResumed")] {
        it.say("operator", &of(verb), &who).await;
        it.check_new(&[(event, operator)]).await;
    }
    it.say("app", &of("cancel"), &who).await;
    it.check_new(&[("WorkflowCancelRequested", app)]).await;

    // Events of timeouts have no author.
    let turn = it.turn("decider").await;
    it.check_new(&[("DeciderStarted", decider)]).await;
    it.complete("decider", &turn, &json!({ "decisions": [schedule("d", "hand")] })).await;
    it.check_new(&[("DeciderCompleted", decider), ("ActivityScheduled", decider)]).await;
    it.open.clock.advance(Duration::from_secs(3_600));
    let turn = it.turn("decider").await;
    let events = it.events("w", None, it.seen).await;
    let expired = events.iter().find(|event| event["type"] == "TimerExpired").unwrap();
    assert_eq!(expired.get("by"), None, "{expired}");
    it.seen += events.len() as u64;
    it.complete("decider", &turn, &json!({})).await;
    it.check_new(&[("DeciderCompleted", decider)]).await;
    it.say("operator", &of("activities/d/failure"), &json!({ "failureReason": "r", "identity": CLAIMED })).await;
    it.check_new(&[("ActivityStarted", operator), ("ActivityFailed", operator), ("DeciderScheduled", operator)]).await;
    let terminate = json!({ "reason": "r", "identity": CLAIMED });
    it.say("app", &of("terminate"), &terminate).await;
    it.check_new(&[("WorkflowTerminated", app)]).await;
}

#[tokio::test]
async fn an_update_has_its_callers_name_and_its_answer_the_deciders() {
    let mut it = Guarded::open().await;
    let (app, decider, other) = (Some("app"), Some("decider"), Some("decider two"));
    it.start("app", "w", &json!({})).await;
    let turn = it.turn("decider").await;
    it.complete("decider", &turn, &json!({ "decisions": [schedule("a", "acts")] })).await;
    it.seen = 5;
    let judge = async {
        let turn = it.turn("decider").await;
        assert_eq!(
            turn["events"].as_array().unwrap().last().unwrap()["by"],
            "decider",
            "it is the name that will be recorded"
        );
        let result = json!({ "id": turn["updates"][0]["id"], "accepted": 1 });
        it.complete("decider two", &turn, &json!({ "updateResults": [result] })).await;
    };
    let update = json!({ "identity": CLAIMED });
    let path = of("updates/u");
    tokio::join!(it.say("app", &path, &update), judge);
    it.check_new(&[
        ("DeciderScheduled", decider),
        ("DeciderStarted", decider),
        ("DeciderCompleted", other),
        ("UpdateAccepted", app),
        ("UpdateCompleted", other),
    ])
    .await;

    // An update that starts its run.
    let start = json!({ "workflowId": "x", "workflowType": "t", "taskList": "deciders" });
    let update = json!({ "updateId": "u", "start": start });
    let judge = async {
        let turn = it.turn("decider").await;
        let result = json!({ "id": "u", "accepted": 1 });
        it.complete("decider", &turn, &json!({ "updateResults": [result] })).await;
    };
    let path = format!("{WORKFLOWS}/x/updates/u");
    tokio::join!(it.say("app", &path, &update), judge);
    let events = it.events("x", None, 0).await;
    Guarded::check(
        &events,
        &[
            ("WorkflowStarted", app),
            ("DeciderScheduled", app),
            ("DeciderStarted", decider),
            ("DeciderCompleted", decider),
            ("UpdateAccepted", app),
            ("UpdateCompleted", decider),
        ],
    );
}

#[tokio::test]
async fn only_effects_that_a_decider_requested_have_its_name() {
    let mut it = Guarded::open().await;
    let (app, decider) = (Some("app"), Some("decider"));
    it.start("app", "w", &json!({})).await;
    let turn = it.turn("decider").await;
    it.start("app", "other", &json!({ "taskList": "others" })).await;
    let child = json!({ "type": "StartChild", "workflowId": "child", "workflowType": "t", "taskList": "others" });
    let decisions = json!([
        child,
        { "type": "SignalExternal", "workflowId": "other", "name": "s" },
        { "type": "CancelExternal", "workflowId": "other" },
    ]);
    it.complete("decider", &turn, &json!({ "decisions": decisions })).await;
    let delivered = async {
        while it.events("w", None, 0).await.iter().filter(|event| event.get("by").is_none()).count() < 3 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, delivered).await.expect("all effects are delivered");
    let child = it.events("child", None, 0).await;
    Guarded::check(&child, &[("WorkflowStarted", decider), ("DeciderScheduled", decider)]);
    let other = it.events("other", None, 2).await;
    let mut found: Vec<_> = other.iter().map(|event| (event["type"].as_str().unwrap(), event["by"].as_str())).collect();
    found.sort_unstable();
    assert_eq!(found, [("Signal", decider), ("WorkflowCancelRequested", decider)]);
    for event in it.events("w", None, 0).await {
        let kind = event["type"].as_str().unwrap();
        let is_heard = ["ChildStarted", "ExternalSignalDelivered", "ExternalCancelDelivered"].contains(&kind);
        // A turn that is scheduled because of a delivered event has no author either.
        assert_eq!(event.get("by").is_none(), is_heard || (kind == "DeciderScheduled" && event["id"] != 2), "{event}");
    }

    // The decider is the author of the run that continues as new. A run that a start terminates has the name of the
    // caller of that start.
    let turn = it.turn("decider").await;
    it.complete("decider", &turn, &json!({ "decisions": [{ "type": "ContinueAsNew" }] })).await;
    let next = it.events("w", None, 0).await;
    Guarded::check(&next, &[("WorkflowStarted", decider), ("DeciderScheduled", decider)]);
    let old = next[0]["runId"].as_str().unwrap().to_owned();
    it.start("app", "w", &json!({ "conflictPolicy": "terminate-existing" })).await;
    let ended = it.events("w", Some(&old), 2).await;
    Guarded::check(&ended, &[("WorkflowTerminated", app)]);
    it.seen = 0;
    it.check_new(&[("WorkflowStarted", app), ("DeciderScheduled", app)]).await;
    let signal = json!({ "signal": { "name": "s" } });
    it.start("app", "w", &signal).await;
    it.check_new(&[("Signal", app)]).await;
}

#[tokio::test]
async fn a_reset_has_its_operators_name_and_copied_events_keep_theirs() {
    for closes in [false, true] {
        let it = Guarded::open().await;
        let (app, decider, operator) = (Some("app"), Some("decider"), Some("operator"));
        let started = it.start("app", "w", &json!({})).await;
        let old = started["runId"].as_str().unwrap();
        let turn = it.turn("decider").await;
        it.complete("decider", &turn, &json!({ "decisions": [schedule("a", "acts")] })).await;
        it.say("app", &of("signals/s"), &json!({ "identity": CLAIMED })).await;
        if closes {
            it.say("app", &of("terminate"), &json!({})).await;
        }
        let reset = json!({ "eventId": 5, "identity": CLAIMED });
        let new = it.say("operator", &of("reset"), &reset).await.json(201);
        let last = it.events("w", Some(old), 7).await;
        Guarded::check(&last, &[("WorkflowTerminated", if closes { app } else { operator })]);
        let branch = it.events("w", new["runId"].as_str(), 0).await;
        Guarded::check(
            &branch,
            &[
                ("WorkflowStarted", app),
                ("DeciderScheduled", app),
                ("DeciderStarted", decider),
                ("DeciderCompleted", decider),
                ("ActivityScheduled", decider),
                ("WorkflowReset", operator),
                ("DeciderScheduled", operator),
                ("Signal", app),
            ],
        );
    }
}

#[tokio::test]
async fn a_scheduled_start_has_the_schedules_id_and_no_author() {
    let it = Guarded::open().await;
    let action = json!({ "workflowId": "w", "workflowType": "t", "taskList": "deciders" });
    let schedule = json!({ "spec": { "cron": ["0 0 1 1 *"] }, "action": action });
    let schedule = json!({ "scheduleId": "s", "schedule": schedule });
    let path = "/v1/domains/default/schedules";
    let ask = Ask::post(path, &schedule).header("authorization", "Bearer operator");
    let answer = it.asks.ask(ask).await;
    assert_eq!(answer.status.as_u16(), 201, "{}", answer.text);
    it.say("operator", &format!("{path}/s/trigger"), &json!({})).await;
    let turn = it.turn("decider").await;
    let started = &turn["events"][0];
    assert_eq!((started.get("by"), &started["schedule"]["scheduleId"]), (None, &json!("s")), "{started}");
}

#[tokio::test]
async fn a_caller_cannot_set_its_own_name() {
    let it = Guarded::open().await;
    it.start("app", "w", &json!({})).await;
    let start = json!({ "workflowId": "x", "workflowType": "t", "by": "operator" });
    let forged = json!({ "by": "operator" });
    for (who, path, body) in [
        ("app", WORKFLOWS.to_owned(), &start),
        ("app", of("signals/s"), &forged),
        ("app", of("cancel"), &forged),
        ("app", of("terminate"), &forged),
        ("app", of("updates/u"), &forged),
        ("operator", of("pause"), &forged),
        ("operator", of("reset"), &forged),
        ("decider", DECIDERS.to_owned(), &forged),
    ] {
        let ask = Ask::post(&path, body).header("authorization", &format!("Bearer {who}"));
        let answer = it.asks.ask(ask.header("prefer", "wait=0")).await;
        assert_eq!(answer.status.as_u16(), 400, "{path}: {}", answer.text);
    }
}

#[tokio::test]
async fn without_credentials_events_have_no_author() {
    let api = Api::open().await;
    let task = api.activity("w").await;
    api.post(&format!("{}/success", activity_path(&task)), &json!({})).await.json(200);
    let history = api.get(&format!("{WORKFLOWS}/w/history")).await;
    history.json(200);
    assert!(!history.text.contains("\"by\""), "{}", history.text);
}
