//! Stuck runs, which nothing will ever wake, are flagged at once. Deadlines of the others are listed in order.

use std::sync::Arc;

use serde_json::{Value, json};
use simulation::poison::{Poison, Trouble};
use simulation::stores::fresh;

use crate::support::{Api, Ask, COUNT, WORKFLOWS, schedule, turn_path};

async fn answer(api: &Api, body: Value) {
    let path = format!("{}/complete", turn_path(&api.turn().await));
    assert_eq!(api.post(&path, &body).await.json(200), json!({}));
}

/// The workflow ids of the runs in a list.
async fn listed(api: &Api, query: &str) -> Vec<String> {
    let page = api.get(&format!("{WORKFLOWS}?{query}")).await.json(200);
    let ids = page["workflows"].as_array().unwrap().iter().map(|run| run["workflowId"].as_str().unwrap().to_owned());
    let mut ids: Vec<_> = ids.collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn a_stuck_run_is_flagged_until_it_is_woken() {
    let api = Api::open().await;
    for id in ["forgotten", "patient", "busy"] {
        api.start(id).await;
    }
    assert_eq!(listed(&api, "status=stuck").await, Vec::<String>::new());
    answer(&api, json!({})).await;
    answer(&api, json!({ "awaiting": ["approve"] })).await;
    answer(&api, json!({ "decisions": [{ "type": "StartTimer", "timerId": "t", "after": 60 }] })).await;

    assert_eq!(listed(&api, "status=stuck").await, ["forgotten"]);
    assert_eq!(listed(&api, "status=open").await, ["busy", "forgotten", "patient"]);
    assert_eq!(api.get(&format!("{COUNT}?status=stuck")).await.json(200)["count"], json!(1));
    let page = api.get(&format!("{WORKFLOWS}?status=stuck")).await.json(200);
    assert_eq!((&page["workflows"][0]["status"], &page["workflows"][0]["stuck"]), (&json!("open"), &json!(true)));
    for (id, is_stuck, awaiting) in
        [("forgotten", true, json!([])), ("patient", false, json!(["approve"])), ("busy", false, json!([]))]
    {
        let run = api.get(&format!("{WORKFLOWS}/{id}")).await.json(200);
        assert_eq!((&run["stuck"], &run["awaiting"], &run["status"]), (&json!(is_stuck), &awaiting, &json!("open")));
    }

    // The flag survives a restart.
    let api = Api::over(Arc::clone(api.engine.store())).await;
    assert_eq!(listed(&api, "status=stuck").await, ["forgotten"]);
    api.post(&format!("{WORKFLOWS}/forgotten/signals/wake"), &json!({})).await.json(202);
    assert_eq!(listed(&api, "status=stuck").await, Vec::<String>::new());
    answer(&api, json!({ "decisions": [{ "type": "SucceedWorkflow" }] })).await;
    assert_eq!(listed(&api, "status=success").await, ["forgotten"]);
    let report = api.engine.views().fsck("default", |_| {}).await.unwrap();
    assert_eq!((report.runs, report.findings), (3, vec![]));
}

#[tokio::test]
async fn deadlines_are_listed_in_order_with_names() {
    let api = Api::open().await;
    api.start("w").await;
    let mut slow = schedule("slow", "acts");
    slow["timeouts"] = json!({ "scheduleToStart": 90 });
    let timer = |id: &str, after: u64| json!({ "type": "StartTimer", "timerId": id, "after": after });
    api.decide(json!([timer("late", 100), slow, timer("soon", 10)])).await;
    let run = api.get(&format!("{WORKFLOWS}/w")).await.json(200);
    let told = |it: &Value| format!("{} {}", it["kind"].as_str().unwrap(), it["name"].as_str().unwrap_or("-"));
    let future: Vec<_> = run["deadlines"].as_array().unwrap().iter().map(told).collect();
    assert_eq!(future, ["timer soon", "activity-schedule-to-start slow", "timer late", "execution -"]);
}

#[tokio::test]
async fn a_turn_awaits_at_most_32_signals() {
    let api = Api::open().await;
    api.start("w").await;
    let path = format!("{}/complete", turn_path(&api.turn().await));
    let names: Vec<_> = (0..33).map(|number| format!("s{number}")).collect();
    api.refused(Ask::post(&path, &json!({ "awaiting": names })), 400, "invalid-field").await;
}

#[tokio::test]
async fn undelivered_effects_are_shown_until_they_are_done() {
    let store = fresh().await;
    let api = Api::over(Poison::over(Arc::clone(&store), Trouble::Corrupt)).await;
    api.start("w").await;
    api.decide(json!([{ "type": "SignalExternal", "workflowId": "poison", "name": "s" }])).await;
    for tries in 0..3 {
        let run = loop {
            let run = api.get(&format!("{WORKFLOWS}/w")).await.json(200);
            let is_put_off = run["deadlines"].as_array().unwrap().iter().any(|deadline| deadline["kind"] == "effects");
            if is_put_off && run["outboxRetries"].as_u64().unwrap_or_default() == tries {
                break run;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(run["outbox"], json!([{ "kind": "signal", "eventId": 5 }]), "{run}");
        api.clock.advance(history::Duration::from_secs(3_600));
    }

    // Repairing the store is enough.
    let api = Api::over(store).await;
    api.clock.advance(history::Duration::from_secs(5 * 3_600));
    while !api.names("w").await.iter().any(|name| name == "ExternalSignalFailed") {
        tokio::task::yield_now().await;
    }
    let run = api.get(&format!("{WORKFLOWS}/w")).await.json(200);
    assert_eq!((run.get("outbox"), run.get("outboxRetries")), (None, None), "{run}");
}
