//! Pauses of task lists that stop the schedule-to-start timeouts of waiting tasks.

use engine::list_settings::STOPPED_LISTS_MAX;
use serde_json::{Value, json};
use store_embedded::{Embedded, Options};

use crate::support::{Api, Ask, PATIENCE, WORKFLOWS, schedule};

const LISTS: &str = "/v1/domains/default/task-lists";
const ACTS: &str = "/v1/domains/default/task-lists/acts/activity";

fn advance(api: &Api, seconds: u64) {
    api.clock.advance(history::Duration::from_secs(seconds));
}

/// Starts a run with an activity on list `acts` whose schedule-to-start timeout is 60 s.
async fn wait_on_list(api: &Api, id: &str) {
    api.start(id).await;
    let mut decision = schedule("a", "acts");
    decision["timeouts"] = json!({ "scheduleToStart": 60 });
    api.decide(json!([decision])).await;
}

async fn pause(api: &Api, list: &str, stops: bool) -> Value {
    let body = json!({ "stopClocks": stops, "identity": "ann", "reason": "maintenance" });
    api.post(&format!("{list}/pause"), &body).await.json(200)["paused"].clone()
}

async fn resume(api: &Api, list: &str) {
    api.ask(Ask::new("POST", &format!("{list}/resume"))).await.json(200);
}

/// The time left until the task of a run times out, in milliseconds.
async fn left(api: &Api, id: &str) -> Option<u64> {
    let described = api.get(&format!("{WORKFLOWS}/{id}")).await.json(200);
    let deadlines = described["deadlines"].as_array().unwrap().clone();
    let kind = |it: &&Value| it["kind"].as_str().unwrap().ends_with("schedule-to-start");
    let at: history::Timestamp = serde_json::from_value(deadlines.iter().find(kind)?["at"].clone()).unwrap();
    Some(at.since(engine::Clock::now(&*api.clock)).as_millis())
}

async fn has(api: &Api, id: &str, event: &str) -> bool {
    api.names(id).await.iter().any(|name| name == event)
}

/// Lets the service do what is due.
async fn settle() {
    for _ in 0..300 {
        tokio::task::yield_now().await;
    }
}

/// Checks that a run records an event when `seconds` have passed, and not a second before.
async fn records_after(api: &Api, seconds: u64, id: &str, event: &str) {
    advance(api, seconds - 1);
    settle().await;
    assert!(!has(api, id, event).await, "{id}: {event} is too early");
    advance(api, 1);
    let recorded = async {
        while !has(api, id, event).await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, recorded).await.expect("the timeout is recorded");
}

/// Lets time pass in steps, so that the service wakes the run many times.
async fn pass(api: &Api, steps: u64) {
    for _ in 0..steps {
        advance(api, 61);
        settle().await;
    }
}

const LATE: &str = "ActivityScheduledTimeout";

async fn no_findings(api: &Api) {
    let report = api.engine.views().fsck("default", |_| {}).await.unwrap();
    assert_eq!(report.findings, vec![]);
}

#[tokio::test]
async fn a_waiting_activity_keeps_its_time_left_through_a_pause() {
    let api = Api::open().await;
    wait_on_list(&api, "w").await;
    advance(&api, 20);
    let paused = pause(&api, ACTS, true).await;
    assert_eq!(paused["stopClocks"], json!(true));
    let shown = api.get(&format!("{LISTS}/acts")).await.json(200);
    let shown = shown["taskLists"].as_array().unwrap().iter().find(|list| list["kind"] == "activity").unwrap();
    assert_eq!(shown["paused"], paused);
    pass(&api, 40).await;
    assert!(!has(&api, "w", LATE).await);
    assert_eq!(left(&api, "w").await, None, "the time is not known");
    resume(&api, ACTS).await;
    assert_eq!(left(&api, "w").await, Some(40_000));
    settle().await;
    records_after(&api, 40, "w", LATE).await;
    no_findings(&api).await;
}

#[tokio::test]
async fn without_the_option_a_waiting_activity_times_out() {
    let api = Api::open().await;
    wait_on_list(&api, "w").await;
    let paused = pause(&api, ACTS, false).await;
    assert_eq!(paused.get("stopClocks"), None);
    assert_eq!(left(&api, "w").await, Some(60_000));
    records_after(&api, 60, "w", LATE).await;
}

#[tokio::test]
async fn the_time_of_two_pauses_does_not_count() {
    let api = Api::open().await;
    wait_on_list(&api, "w").await;
    for passed in [10, 20] {
        advance(&api, passed);
        pause(&api, ACTS, true).await;
        pass(&api, 3).await;
        resume(&api, ACTS).await;
    }
    assert_eq!(left(&api, "w").await, Some(30_000));
    // A pause without stopped clocks counts.
    pause(&api, ACTS, false).await;
    advance(&api, 5);
    resume(&api, ACTS).await;
    assert_eq!(left(&api, "w").await, Some(25_000));
    settle().await;
    records_after(&api, 25, "w", LATE).await;
}

#[tokio::test]
async fn a_task_scheduled_during_a_pause_has_its_full_time() {
    let api = Api::open().await;
    pause(&api, ACTS, true).await;
    advance(&api, 500);
    wait_on_list(&api, "w").await;
    pass(&api, 10).await;
    resume(&api, ACTS).await;
    assert_eq!(left(&api, "w").await, Some(60_000));
    settle().await;
    records_after(&api, 60, "w", LATE).await;
}

#[tokio::test]
async fn stopped_timeouts_survive_a_restart() {
    let directory = tempfile::TempDir::new().unwrap();
    let open = async || Api::over(Embedded::open(Options::new(directory.path())).await.unwrap()).await;
    let restarted = async |api: Api, after: u64| {
        let now = engine::Clock::now(&*api.clock);
        api.engine.shutdown().await.unwrap();
        drop(api);
        let next = open().await;
        next.clock.advance(now.since(engine::Clock::now(&*next.clock)));
        advance(&next, after);
        settle().await;
        next
    };
    let api = open().await;
    wait_on_list(&api, "w").await;
    advance(&api, 20);
    pause(&api, ACTS, true).await;
    let api = restarted(api, 2_000).await;
    assert!(!has(&api, "w", LATE).await);
    resume(&api, ACTS).await;
    settle().await;
    let api = restarted(api, 10).await;
    assert_eq!(left(&api, "w").await, Some(30_000));
    records_after(&api, 30, "w", LATE).await;
}

#[tokio::test]
async fn a_waiting_turn_keeps_its_time_left_through_a_pause() {
    let api = Api::open().await;
    let start = json!({
        "workflowId": "w", "workflowType": "order", "taskList": "deciders", "deciderScheduleToStart": 60
    });
    api.post(WORKFLOWS, &start).await.json(201);
    advance(&api, 59);
    let list = format!("{LISTS}/deciders/decider");
    pause(&api, &list, true).await;
    pass(&api, 20).await;
    assert!(!has(&api, "w", "DeciderTimedOut").await);
    resume(&api, &list).await;
    assert_eq!(left(&api, "w").await, Some(1_000));
    settle().await;
    records_after(&api, 1, "w", "DeciderTimedOut").await;
    no_findings(&api).await;
}

#[tokio::test]
async fn a_paused_list_stops_no_timeouts_of_other_lists() {
    let api = Api::open().await;
    wait_on_list(&api, "w").await;
    for other in ["acts/decider", "acts2/activity"] {
        pause(&api, &format!("{LISTS}/{other}"), true).await;
    }
    records_after(&api, 60, "w", LATE).await;
}

#[tokio::test]
async fn a_domain_has_200_lists_with_stopped_clocks() {
    let api = Api::open().await;
    let list = |number: usize| format!("{LISTS}/l{number}/activity");
    for number in 0..STOPPED_LISTS_MAX {
        pause(&api, &list(number), true).await;
        advance(&api, 1);
        resume(&api, &list(number)).await;
    }
    let one_more = format!("{}/pause", list(STOPPED_LISTS_MAX));
    let refused = async || {
        let problem = api.post(&one_more, &json!({ "stopClocks": true })).await.problem(409, "limit-exceeded");
        assert!(problem["detail"].as_str().unwrap().contains(&STOPPED_LISTS_MAX.to_string()), "{problem}");
    };
    refused().await;
    api.post(&one_more, &json!({})).await.json(200);
    resume(&api, &list(STOPPED_LISTS_MAX)).await;
    pause(&api, &list(0), true).await;
    resume(&api, &list(0)).await;
    // The pause of the first list is kept for 30 days after its end.
    advance(&api, 30 * 86_400 - (STOPPED_LISTS_MAX as u64 - 1));
    refused().await;
    advance(&api, 1);
    api.post(&one_more, &json!({ "stopClocks": true })).await.json(200);
}
