//! Runs that nothing will ever wake are found at once, and what time will do to the others is told in order.

use std::sync::Arc;

use serde_json::{Value, json};
use simulation::poison::{Poison, Trouble};
use simulation::stores::fresh;

use crate::support::{Api, Ask, COUNT, WORKFLOWS, schedule, turn_path};

async fn answer(api: &Api, body: Value) {
    let path = format!("{}/complete", turn_path(&api.turn().await));
    assert_eq!(api.post(&path, &body).await.json(200), json!({}));
}

/// The ids of the runs in a list.
async fn listed(api: &Api, query: &str) -> Vec<String> {
    let page = api.get(&format!("{WORKFLOWS}?{query}")).await.json(200);
    let ids = page["workflows"].as_array().unwrap().iter().map(|run| run["workflowId"].as_str().unwrap().to_owned());
    let mut ids: Vec<_> = ids.collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn a_run_with_nothing_pending_is_flagged_at_once_and_no_longer_when_it_is_woken() {
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

    // A restart forgets nothing of it.
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
async fn what_time_will_do_is_told_in_order_and_by_name() {
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
async fn a_turn_that_waits_for_too_much_is_refused() {
    let api = Api::open().await;
    api.start("w").await;
    let path = format!("{}/complete", turn_path(&api.turn().await));
    let names: Vec<_> = (0..33).map(|number| format!("s{number}")).collect();
    api.refused(Ask::post(&path, &json!({ "awaiting": names })), 400, "invalid-field").await;
}

#[tokio::test]
async fn what_a_run_owes_to_others_is_shown_until_it_is_done() {
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

    // Whoever mends the store need do no more.
    let api = Api::over(store).await;
    api.clock.advance(history::Duration::from_secs(5 * 3_600));
    while !api.names("w").await.iter().any(|name| name == "ExternalSignalFailed") {
        tokio::task::yield_now().await;
    }
    let run = api.get(&format!("{WORKFLOWS}/w")).await.json(200);
    assert_eq!((run.get("outbox"), run.get("outboxRetries")), (None, None), "{run}");
}
