//! Reads: histories by page, by long poll and as a stream; lists and counts; unusual names in paths.

use axum::response::Response;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::support::{Api, Ask, COUNT, PATIENCE, WORKFLOWS, ids, segment, turn_path};

/// Starts a run of 22 events: two of the start, then signals.
async fn busy(api: &Api, id: &str) {
    api.start(id).await;
    for number in 0..20 {
        api.post(&format!("{WORKFLOWS}/{id}/signals/s"), &json!({ "input": number })).await.json(202);
    }
}

#[tokio::test]
async fn a_history_is_paged_forward_and_back() {
    let api = Api::open().await;
    busy(&api, "w").await;
    let (mut on, mut after) = (Vec::new(), 0);
    loop {
        let page = api.get(&format!("{WORKFLOWS}/w/history?after={after}&limit=7")).await.json(200);
        assert_eq!((&page["lastEventId"], &page["closed"]), (&json!(22), &json!(false)));
        on.extend(ids(&page));
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(on, (1..=22).collect::<Vec<_>>());
    let (mut back, mut before) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("{WORKFLOWS}/w/history?reverse=true&limit=5{before}")).await.json(200);
        back.extend(ids(&page));
        match page["next"].as_u64() {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    assert_eq!(back, (1..=22).rev().collect::<Vec<_>>());
    let part = api.get(&format!("{WORKFLOWS}/w/history?after=3&before=6")).await.json(200);
    assert_eq!(ids(&part), [4, 5]);
    assert_eq!(part["next"], Value::Null);
}

#[tokio::test]
async fn pages_at_numeric_limits_are_empty() {
    let api = Api::open().await;
    api.start("w").await;
    let most = u64::MAX;
    let empty = [
        "after=2",
        "before=0",
        "before=1",
        "before=0&reverse=true",
        "after=5&before=3",
        "after=5&before=3&reverse=true",
    ];
    let extreme =
        [format!("after={most}"), format!("after={most}&reverse=true"), format!("after={most}&before={most}")];
    for query in empty.into_iter().map(str::to_owned).chain(extreme) {
        let page = api.get(&format!("{WORKFLOWS}/w/history?{query}")).await.json(200);
        assert_eq!(ids(&page), [0; 0], "{query}");
    }
    for query in [format!("before={most}"), format!("limit={}", usize::MAX), "limit=10000&reverse=false".to_owned()] {
        let page = api.get(&format!("{WORKFLOWS}/w/history?{query}")).await.json(200);
        assert_eq!(ids(&page), [1, 2], "{query}");
    }
    assert_eq!(ids(&api.get(&format!("{WORKFLOWS}/w/history?limit=0")).await.json(200)), [1]);
    let turn = crate::support::turn_path(&api.turn().await);
    for query in [format!("after={most}"), format!("after={most}&reverse=true")] {
        let page = api.get(&format!("{turn}/history?{query}")).await.json(200);
        assert_eq!(ids(&page), [0; 0], "{query}");
    }
}

#[tokio::test]
async fn a_waiting_history_request_returns_the_next_event() {
    let api = Api::open().await;
    api.start("w").await;
    let path = format!("{WORKFLOWS}/w/history?after=2");
    let wait = api.ask(Ask::get(&path).header("prefer", "wait=20"));
    let signal = async { api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202) };
    let (page, _) = tokio::join!(wait, signal);
    assert_eq!(ids(&page.json(200)), [3]);
    let page = api.ask(Ask::get(&format!("{WORKFLOWS}/w/history?after=3")).header("prefer", "wait=0.01")).await;
    assert_eq!(ids(&page.json(200)), [0; 0], "the wait has ended");
    api.post(&format!("{WORKFLOWS}/w/terminate"), &json!({})).await.json(200);
    let page = api.ask(Ask::get(&format!("{WORKFLOWS}/w/history?after=4")).header("prefer", "wait=60")).await;
    assert_eq!(page.json(200)["closed"], true, "the history is complete");
}

/// Reads a stream to its end, or at most this many messages.
async fn messages(response: Response, most: usize) -> Vec<(u64, String, Value)> {
    let mut body = response.into_body();
    let mut text = String::new();
    let mut messages = Vec::new();
    while messages.len() < most {
        let frame = tokio::time::timeout(PATIENCE, body.frame()).await.expect("a message or the end");
        let Some(frame) = frame else { break };
        text.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
        while let Some((message, rest)) = text.split_once("\n\n") {
            let mut lines = message.lines();
            let mut field = |name: &str| lines.next().unwrap().strip_prefix(name).unwrap().to_owned();
            let (id, name, data) = (field("id: "), field("event: "), field("data: "));
            messages.push((id.parse().unwrap(), name, serde_json::from_str(&data).unwrap()));
            text = rest.to_owned();
        }
    }
    messages
}

fn stream(path: &str) -> Ask {
    Ask::get(path).header("accept", "text/event-stream")
}

#[tokio::test]
async fn a_stream_has_a_message_per_event_and_ends_with_the_run() {
    let api = Api::open().await;
    api.start("w").await;
    let response = api.call(stream(&format!("{WORKFLOWS}/w/history"))).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let go_on = async {
        let input = "{\"input\": {\n\"a\":\r\n1}}";
        api.ask(Ask::text(&format!("{WORKFLOWS}/w/signals/s"), input)).await.json(202);
        api.decide(json!([{ "type": "SucceedWorkflow" }])).await;
    };
    let (messages, ()) = tokio::join!(messages(response, usize::MAX), go_on);
    let ids: Vec<u64> = messages.iter().map(|(id, ..)| *id).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6]);
    for (id, name, event) in &messages {
        assert_eq!((&event["id"], &event["type"]), (&json!(id), &json!(name)));
    }
    assert_eq!(messages[2].2["input"], json!({ "a": 1 }));
    assert_eq!(messages[5].1, "WorkflowSuccess");
}

#[tokio::test]
async fn a_stream_resumes_after_the_last_event_id() {
    let api = Api::open().await;
    api.succeeded("w").await;
    let path = format!("{WORKFLOWS}/w/history");
    let after = |id: &str| stream(&path).header("last-event-id", id);
    let seen: Vec<u64> = messages(api.call(after("3")).await, 9).await.iter().map(|(id, ..)| *id).collect();
    assert_eq!(seen, [4, 5]);
    assert_eq!(messages(api.call(stream(&format!("{path}?after=4"))).await, 9).await.len(), 1);
    api.refused(after("x"), 400, "bad-header").await;
    api.refused(stream(&format!("{WORKFLOWS}/nobody/history")), 404, "unknown-workflow").await;
}

/// An `EventSource` reconnects whenever a stream ends, and stops only after a 204 (WHATWG HTML, 9.2).
#[tokio::test]
async fn a_reconnect_after_the_last_event_returns_204() {
    let api = Api::open().await;
    api.start("w").await;
    let path = format!("{WORKFLOWS}/w/history");
    let open = messages(api.call(stream(&path)).await, 2).await;
    let last_of_open = open.last().unwrap().0.to_string();
    let (rest, _) = tokio::join!(
        async { messages(api.call(stream(&path).header("last-event-id", &last_of_open)).await, usize::MAX).await },
        api.decide(json!([{ "type": "SucceedWorkflow" }])),
    );
    let last = rest.last().unwrap().0;
    let next_to_last = (last - 1).to_string();
    let missed = messages(api.call(stream(&path).header("last-event-id", &next_to_last)).await, 9).await;
    assert_eq!(missed.len(), 1, "missed events come first");
    for end in [last, last + 1, u64::MAX] {
        for ask in [stream(&path).header("last-event-id", &end.to_string()), stream(&format!("{path}?after={end}"))] {
            let answer = api.ask(ask).await;
            assert_eq!((answer.status.as_u16(), answer.text.as_str()), (204, ""), "after {end}");
        }
    }
    let page = api.get(&format!("{path}?after={last}")).await.json(200);
    assert_eq!(page["events"], json!([]), "a page does not end a stream");
}

#[tokio::test]
async fn a_stream_ends_when_the_service_shuts_down() {
    let api = Api::open().await;
    api.start("w").await;
    let response = api.call(stream(&format!("{WORKFLOWS}/w/history"))).await;
    let (messages, ()) = tokio::join!(messages(response, usize::MAX), async { api.engine.begin_shutdown() });
    assert_eq!(messages.len(), 2);
}

#[tokio::test]
async fn a_stream_reads_only_as_fast_as_its_client() {
    let api = Api::open().await;
    api.start("w").await;
    let input = "x".repeat(200 * 1024);
    for _ in 0..30 {
        api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({ "input": input })).await.json(202);
    }
    let mut body = api.call(stream(&format!("{WORKFLOWS}/w/history"))).await.into_body();
    let (mut frames, mut bytes) = (0, 0);
    while bytes < 30 * 200 * 1024 {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(frame.len() <= 1024 * 1024, "{} bytes at once", frame.len());
        (frames, bytes) = (frames + 1, bytes + frame.len());
    }
    assert!(frames > 6, "{frames} frames");
}

#[tokio::test]
async fn a_page_of_large_events_is_shortened_and_has_next() {
    let api = Api::open().await;
    api.start("w").await;
    let input = "x".repeat(250 * 1024);
    for _ in 0..20 {
        api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({ "input": input })).await.json(202);
    }
    let page = api.get(&format!("{WORKFLOWS}/w/history")).await;
    assert!(page.text.len() < 5 * 1024 * 1024, "{} bytes", page.text.len());
    let page = page.json(200);
    assert_eq!(page["next"], json!(ids(&page).last()));
}

#[tokio::test]
async fn runs_are_listed_filtered_paged_and_counted() {
    let api = Api::open().await;
    for number in 0..7 {
        let list = json!({
            "workflowId": format!("w{number}"), "workflowType": if number % 2 == 0 { "even" } else { "odd" },
            "taskList": "deciders", "tags": [format!("t{}", number % 3)],
        });
        api.post(WORKFLOWS, &list).await.json(201);
        api.clock.advance(history::Duration::from_secs(60));
    }
    api.post(&format!("{WORKFLOWS}/w1/terminate"), &json!({})).await.json(200);
    api.clock.advance(history::Duration::from_secs(60));
    api.decide(json!([{ "type": "SucceedWorkflow" }])).await;
    let all = async |query: &str| {
        let (mut found, mut page) = (Vec::new(), String::new());
        loop {
            let path = format!("{WORKFLOWS}?limit=2&{query}{page}");
            let listed = api.get(&path).await.json(200);
            let runs = listed["workflows"].as_array().unwrap();
            assert!(runs.len() <= 2);
            found.extend(runs.iter().map(|run| run["workflowId"].as_str().unwrap().to_owned()));
            match listed["nextPage"].as_str() {
                Some(next) => page = format!("&page={next}"),
                None => break,
            }
        }
        let count = api.get(&format!("{COUNT}?{query}")).await.json(200);
        assert_eq!((&count["count"], &count["truncated"]), (&json!(found.len()), &json!(false)), "{query}");
        let by_status = count["byStatus"].as_object().unwrap().values().map(|it| it.as_u64().unwrap());
        assert_eq!(by_status.sum::<u64>(), found.len() as u64, "{query}: {count}");
        found
    };
    assert_eq!(all("").await, ["w6", "w5", "w4", "w3", "w2", "w1", "w0"]);
    let count = api.get(COUNT).await.json(200);
    assert_eq!(count["byStatus"], json!({ "open": 5, "success": 1, "terminated": 1 }));
    assert_eq!(all("status=open").await, ["w6", "w5", "w4", "w3", "w2"]);
    assert_eq!(all("status=closed").await, ["w1", "w0"]);
    assert_eq!(all("status=success").await, ["w0"]);
    assert_eq!(all("status=terminated").await, ["w1"]);
    assert_eq!(all("status=timed-out").await, [""; 0]);
    assert_eq!(all("type=odd").await, ["w5", "w3", "w1"]);
    assert_eq!(all("type=odd&status=open").await, ["w5", "w3"]);
    assert_eq!(all("workflowId=w4").await, ["w4"]);
    assert_eq!(all("workflowIdPrefix=w").await, all("").await);
    assert_eq!(all("workflowIdPrefix=w4").await, ["w4"]);
    assert_eq!(all("workflowIdPrefix=w&type=odd&status=open").await, ["w5", "w3"]);
    assert_eq!(all("workflowIdPrefix=4").await, [""; 0]);
    assert_eq!(all("tag=t1").await, ["w4", "w1"]);
    let from = segment("2023-11-14T22:15:20Z");
    let before = segment("2023-11-14T22:17:20.000Z");
    assert_eq!(all(&format!("startedFrom={from}&startedBefore={before}")).await, ["w3", "w2"]);
    assert_eq!(all("order=-startedAt").await, all("").await);
    assert_eq!(all("order=startedAt").await, ["w0", "w1", "w2", "w3", "w4", "w5", "w6"]);
    assert_eq!(all("order=startedAt&type=odd&status=open").await, ["w3", "w5"]);
    // Ordered by close, only closed runs are listed.
    assert_eq!(all("order=-closedAt").await, ["w0", "w1"]);
    assert_eq!(all("order=closedAt").await, ["w1", "w0"]);
    assert_eq!(all("order=closedAt&status=open").await, [""; 0]);
    let between = segment("2023-11-14T22:21:00Z");
    assert_eq!(all(&format!("closedFrom={between}")).await, ["w0"]);
    assert_eq!(all(&format!("order=closedAt&closedBefore={between}")).await, ["w1"]);
    let next = api.get(&format!("{WORKFLOWS}?limit=1")).await.json(200)["nextPage"].as_str().unwrap().to_owned();
    let elsewhere = api.get(&format!("{WORKFLOWS}?limit=1&order=closedAt&page={next}")).await.json(400);
    assert_eq!(elsewhere["code"], "bad-page");
    let unknown = api.get(&format!("{WORKFLOWS}?order=newest")).await.json(400);
    assert!(unknown["detail"].as_str().unwrap().contains("-closedAt"), "{unknown}");
    let one = api.get(&format!("{WORKFLOWS}?workflowId=w1")).await.json(200)["workflows"][0].clone();
    assert_eq!((&one["status"], &one["tags"]), (&json!("terminated"), &json!(["t1"])));
    assert_eq!(one["startedAt"], "2023-11-14T22:14:20.000Z");
    assert_eq!(one["closedAt"], "2023-11-14T22:20:20.000Z");
}

#[tokio::test]
async fn ids_with_special_characters_work_in_paths() {
    let api = Api::open().await;
    for id in ["a/b", "100%", "%2F", "../x", "été 漢字 🎻", "a?b#c&d=e", "+ +", "...", "a;b", "\"q\"", "~"] {
        let start = json!({ "workflowId": id, "workflowType": "t", "taskList": id });
        let run_id = api.post(WORKFLOWS, &start).await.json(201)["runId"].clone();
        let workflow = format!("{WORKFLOWS}/{}", segment(id));
        let described = api.get(&workflow).await.json(200);
        assert_eq!((&described["workflowId"], &described["runId"]), (&json!(id), &run_id));
        api.post(&format!("{workflow}/signals/{}", segment(id)), &json!({})).await.json(202);
        let history = api.get(&format!("{workflow}/history")).await.json(200);
        assert_eq!(history["events"][2]["name"], id, "{history}");
        let poll = format!("/v1/domains/default/task-lists/{}/decider/poll", segment(id));
        assert_eq!(api.post(&poll, &json!({})).await.json(200)["workflowId"], id);
        let found = api.get(&format!("{WORKFLOWS}?workflowId={}", segment(id))).await.json(200);
        assert_eq!(found["workflows"][0]["workflowId"], id);
    }
}

#[tokio::test]
async fn dot_names_are_refused_and_their_aliases_are_reached() {
    let api = Api::open().await;
    api.start("w").await;
    for dots in [".", ".."] {
        let start = |more: Value| {
            let mut start = json!({ "workflowId": "v", "workflowType": "t", "taskList": "l" });
            start.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            Ask::post(WORKFLOWS, &start)
        };
        let alias = format!("{dots}~");
        let of = |path: &str| format!("/v1/domains/default/{path}");
        let schedule = json!({ "scheduleId": dots, "schedule": { "spec": { "cron": ["30 2 * * *"] },
            "action": { "workflowId": "s", "workflowType": "t", "taskList": "l" } } });
        for refused in [
            start(json!({ "workflowId": dots })),
            start(json!({ "workflowType": dots })),
            start(json!({ "taskList": dots })),
            start(json!({ "signal": { "name": dots } })),
            Ask::post(&format!("{WORKFLOWS}/w/signals/{alias}"), &json!({})),
            Ask::post(&format!("{WORKFLOWS}/w/queries/{alias}"), &json!({})),
            Ask::post(&format!("{WORKFLOWS}/w/updates/{alias}"), &json!({})),
            Ask::post(&of(&format!("task-lists/{alias}/decider/poll")), &json!({})),
            Ask::post(&of(&format!("task-lists/{alias}/activity/poll")), &json!({})),
            Ask::post("/v1/domains", &json!({ "name": dots })),
            Ask::post(&of("workflow-types"), &json!({ "name": dots })),
            Ask::post(&of("activity-types"), &json!({ "name": dots })),
            Ask::post(&of("schedules"), &schedule),
        ] {
            let problem = api.refused(refused, 400, "invalid-field").await;
            assert!(problem["detail"].as_str().unwrap().contains(&format!("must not be `{dots}`")), "{problem}");
        }
        // Decisions with such names are refused, too.
        let turn = api.turn().await;
        let mut activity = schedule_of(dots);
        for decisions in [
            json!([activity]),
            json!([{ "type": "StartTimer", "timerId": dots, "after": "PT1S" }]),
            json!([{ "type": "StartChild", "workflowId": dots, "workflowType": "t" }]),
            json!([{ "type": "SignalExternal", "workflowId": dots, "name": "s" }]),
            json!([{ "type": "CancelExternal", "workflowId": dots }]),
            json!([{ "type": "RecordMarker", "name": dots }]),
        ] {
            let complete = Ask::post(&format!("{}/complete", turn_path(&turn)), &json!({ "decisions": decisions }));
            let problem = api.refused(complete, 400, "invalid-field").await;
            assert!(problem["detail"].as_str().unwrap().contains(&format!("must not be `{dots}`")), "{problem}");
        }
        activity["activityId"] = json!(alias);
        let done = json!({ "decisions": [activity] });
        api.post(&format!("{}/complete", turn_path(&turn)), &done).await.json(200);
        // The alias reaches only entities of an earlier version that have such a name.
        api.refused(Ask::get(&format!("{WORKFLOWS}/{alias}")), 404, "unknown-workflow").await;
        let pause = |segment: &str| Ask::post(&format!("{WORKFLOWS}/w/activities/{segment}/pause"), &json!({}));
        api.refused(pause(&alias), 409, "activity-closed").await;
        api.ask(pause(&format!("{alias}~"))).await.json(200);
        api.post(&format!("{WORKFLOWS}/w/signals/again"), &json!({})).await.json(202);
    }
}

fn schedule_of(activity_id: &str) -> Value {
    json!({ "type": "ScheduleActivity", "activityId": activity_id, "activityType": "t", "taskList": "l" })
}

#[tokio::test]
async fn a_workflow_id_like_a_word_of_a_path_is_reached() {
    let api = Api::open().await;
    api.start("count").await;
    for segment in ["count", "%63ount"] {
        assert_eq!(api.get(&format!("{WORKFLOWS}/{segment}")).await.json(200)["workflowId"], "count");
    }
    assert_eq!(api.get(COUNT).await.json(200)["count"], 1);
}

#[tokio::test]
async fn a_response_names_the_wait_that_was_applied() {
    let api = Api::open().await;
    api.start("w").await;
    let path = format!("{WORKFLOWS}/w/history");
    let history = api.ask(Ask::get(&path).header("prefer", "wait=600")).await;
    assert_eq!(history.header("preference-applied"), "wait=60");
    let turn = api.ask(Ask::post(crate::support::DECIDERS, &json!({})).header("prefer", "wait=0.5")).await;
    assert_eq!((turn.status.as_u16(), turn.header("preference-applied")), (200, "wait=0.5"));
    assert!(!api.get(&path).await.headers.contains_key("preference-applied"));
}

#[tokio::test]
async fn a_page_of_a_history_has_at_most_ten_thousand_events() {
    let api = Api::open().await;
    api.start("w").await;
    let markers = vec![json!({ "type": "RecordMarker", "name": "m" }); 2_500];
    for _ in 0..4 {
        api.decide(json!(markers)).await;
        api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
    }
    for limit in ["10000", "10001", "1000000"] {
        let page = api.get(&format!("{WORKFLOWS}/w/history?limit={limit}")).await.json(200);
        assert_eq!((ids(&page).len(), &page["next"]), (10_000, &json!(10_000)), "{limit}");
    }
    // The page limit also applies to a task with the full history.
    let poll = json!({ "history": "full", "maxEvents": 1_000_000 });
    let task = api.post(crate::support::DECIDERS, &poll).await.json(200);
    assert_eq!(task["events"].as_array().unwrap().len(), 10_000);
}

#[tokio::test]
async fn a_page_has_at_most_a_thousand_runs_and_two_hundred_lists() {
    let api = Api::open().await;
    for number in 0..=1_000 {
        let start =
            json!({ "workflowId": format!("w{number}"), "workflowType": "t", "taskList": format!("l{number}") });
        api.post(WORKFLOWS, &start).await.json(201);
    }
    for (path, kind, most) in [(WORKFLOWS, "workflows", 1_000), ("/v1/domains/default/task-lists", "taskLists", 200)] {
        let page = api.get(&format!("{path}?limit={}", most + 1)).await.json(200);
        assert_eq!(page[kind].as_array().unwrap().len(), most, "{path}");
        assert!(page["nextPage"].is_string(), "{path}");
    }
}
