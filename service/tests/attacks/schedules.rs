//! A schedule without any time, and callers that ask for its times.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::line::Line;
use crate::support::{Scratch, Service};

/// Minimum number of other responses during eight searches. Some hundred are usual.
const LOOKS_MIN: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn searches_for_schedule_times_delay_no_other_requests() {
    let scratch = Scratch::new("hard-schedule");
    let service = Service::start(&scratch.0, &[]);
    let address = service.url.trim_start_matches("http://").to_owned();
    let mut line = Line::to(&address);
    let spec = json!({ "cron": vec!["* * * * * *"; 100], "exclude": vec![json!({ "year": "*" }); 100] });
    let action = json!({ "workflowId": "w", "workflowType": "order/1", "taskList": "deciders" });
    let create = json!({ "scheduleId": "s", "schedule": { "spec": spec, "action": action.clone() } });
    let made = line.call("POST", "/v1/domains/default/schedules", &[], Some(&create)).await;
    assert_eq!(made.json(400)["field"], json!("spec"), "it has no time");
    let cron: Vec<String> = (0..100).map(|second| format!("{} * * * * *", second % 60)).collect();
    let spec = json!({ "cron": cron, "exclude": vec![json!({ "minute": "1-59" }); 100] });
    let create = json!({ "scheduleId": "s", "schedule": { "spec": spec, "action": action } });
    line.call("POST", "/v1/domains/default/schedules", &[], Some(&create)).await.json(201);
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let (mut line, path) = (Line::to(&address), "/v1/domains/default/schedules/s/next?limit=1000");
            tokio::spawn(async move { line.call("GET", path, &[], None).await.status })
        })
        .collect();
    // All eight searches run until the first returns.
    let (began, mut looks, mut longest) = (Instant::now(), 0, Duration::ZERO);
    while !calls.iter().any(tokio::task::JoinHandle::is_finished) {
        let begin = Instant::now();
        line.call("GET", "/healthz", &[], None).await.json(200);
        longest = longest.max(begin.elapsed());
        looks += 1;
    }
    let all = began.elapsed();
    println!("{looks} requests in {all:?}, {longest:?} at most");
    for call in calls {
        assert_eq!(call.await.unwrap(), 200);
    }
    // Without yielding there would be one response before and one after each search. Each of the eight yields a hundred
    // times.
    assert!(looks >= LOOKS_MIN, "{looks} requests in {all:?}, {longest:?} at most");
}
