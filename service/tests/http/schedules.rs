//! Schedules: creation, actions, overlap policies, pauses and limits.

use history::{Duration, Timestamp};
use serde_json::{Value, json};
use store::fault::{Chances, FaultStore};
use store::memory::Memory;

use crate::support::{Api, Ask, COUNT, PATIENCE, WORKFLOWS};

const SCHEDULES: &str = "/v1/domains/default/schedules";

fn schedule(cron: &str) -> Value {
    json!({ "spec": { "cron": [cron], "timeZone": "Europe/Berlin" },
            "action": { "workflowId": "report", "workflowType": "t", "taskList": "deciders", "input": { "n": 1.0 } } })
}

async fn create(api: &Api, schedule: &Value) -> Value {
    api.post(SCHEDULES, &json!({ "scheduleId": "nightly", "schedule": schedule })).await.json(201)
}

async fn show(api: &Api) -> Value {
    api.get(&format!("{SCHEDULES}/nightly")).await.json(200)
}

fn path(rest: &str) -> String {
    format!("{SCHEDULES}/nightly/{rest}")
}

/// Advances the clock to this time.
fn until(api: &Api, at: Timestamp) {
    api.clock.advance(at.since(api.engine.clock().now()));
}

/// The schedule once it meets a condition.
async fn once(api: &Api, is_so: impl Fn(&Value) -> bool) -> Value {
    let look = async {
        loop {
            let shown = show(api).await;
            if is_so(&shown) {
                return shown;
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("the condition is met in time")
}

fn total(shown: &Value, name: &str) -> u64 {
    shown["totals"][name].as_u64().unwrap()
}

fn words(shown: &Value, field: &str) -> Vec<String> {
    let actions = shown["recentActions"].as_array().unwrap();
    actions.iter().rev().map(|action| action[field].as_str().unwrap_or("-").to_owned()).collect()
}

async fn succeed(api: &Api) -> Value {
    api.decide(json!([{ "type": "SucceedWorkflow" }])).await
}

#[tokio::test]
async fn a_schedule_starts_a_run_at_each_time_and_reports_results() {
    let api = Api::open().await;
    api.clock.advance(Duration::from_millis(1_000));
    let begun = api.engine.clock().now();
    let created = create(&api, &schedule("30 2 * * *")).await;
    assert_eq!((&created["scheduleId"], &created["running"]), (&json!("nightly"), &json!(0)));
    assert_eq!(created["schedule"]["action"]["input"], json!({ "n": 1.0 }));
    let next: Vec<Timestamp> = serde_json::from_value(created["nextTimes"].clone()).unwrap();
    assert!(next.len() == 5 && next.is_sorted() && next[0] > begun);
    let limited = api.get(&path("next?limit=2")).await.json(200);
    assert_eq!(limited["times"], json!(next[..2]));
    let listed = api.get(SCHEDULES).await.json(200);
    assert_eq!(listed["schedules"][0]["scheduleId"], json!("nightly"));
    assert_eq!(api.get(WORKFLOWS).await.json(200)["workflows"], json!([]), "a schedule is not a run");

    until(&api, next[0]);
    let shown = once(&api, |shown| total(shown, "started") == 1).await;
    assert_eq!((words(&shown, "outcome"), &shown["running"]), (vec!["open".to_owned()], &json!(1)));
    let turn = succeed(&api).await;
    let event = &turn["events"][0];
    let id = format!("report-{}", next[0].to_string().replace(".000Z", "Z"));
    assert_eq!((&event["workflowId"], &event["input"]), (&json!(id), &json!({ "n": 1.0 })));
    assert_eq!(event["schedule"], json!({ "scheduleId": "nightly", "action": 1, "nominalTime": next[0] }));
    // The third action is skipped while the run of the second is open.
    until(&api, next[1]);
    once(&api, |shown| total(shown, "started") == 2).await;
    until(&api, next[2]);
    let shown = once(&api, |shown| total(shown, "skipped") == 1).await;
    assert_eq!(words(&shown, "outcome"), ["success", "open"]);
    assert_eq!(shown["totals"], json!({ "started": 2, "refused": 0, "skipped": 1, "missed": 0 }));
    assert!(api.engine.render_metrics().contains("baton_schedule_actions_total{outcome=\"started\"} 2"));
}

#[tokio::test]
async fn a_trigger_or_backfill_acts_once_besides_the_schedule() {
    let api = Api::open().await;
    create(&api, &schedule("0 0 1 1 *")).await;
    let trigger = || Ask::post(&path("trigger"), &json!({ "overlap": "allow-all" })).header("idempotency-key", "k");
    for _ in 0..2 {
        assert_eq!(api.ask(trigger()).await.json(200)["totals"]["started"], json!(1));
    }
    // A repetition is known even after many other requests.
    for number in 0..2 * history::limits::SCHEDULE_REQUESTS_MAX {
        let span = json!({ "from": "2021-12-30T00:00:00Z", "to": "2021-12-30T00:00:01Z" });
        let ask = Ask::post(&path("backfill"), &span).header("idempotency-key", &number.to_string());
        api.ask(ask).await.json(200);
    }
    assert_eq!(api.ask(trigger()).await.json(200)["totals"]["started"], json!(1));
    let span = json!({ "from": "2021-12-31T00:00:00Z", "to": "2024-12-31T23:00:00Z", "overlap": "buffer-all" });
    let filled = api.post(&path("backfill"), &span).await.json(200);
    assert_eq!((&filled["running"], &filled["waiting"]), (&json!(1), &json!(4)));
    // The buffered action starts as soon as the run before it has closed.
    for _ in 0..5 {
        succeed(&api).await;
    }
    let shown = once(&api, |shown| shown["running"] == json!(0) && shown["waiting"] == json!(0)).await;
    assert_eq!(words(&shown, "cause"), ["trigger", "backfill", "backfill", "backfill", "backfill"]);
    let times = words(&shown, "nominalTime");
    assert_eq!(
        times[1..],
        [
            "2021-12-31T23:00:00.000Z",
            "2022-12-31T23:00:00.000Z",
            "2023-12-31T23:00:00.000Z",
            "2024-12-31T23:00:00.000Z"
        ]
    );
    // The largest backfill that is allowed.
    let many = json!({ "from": "2000-01-01T00:00:00Z", "to": "2999-12-31T23:59:59Z" });
    api.post(&path("backfill"), &many).await.json(200);
    let more = json!({ "from": "2000-01-01T00:00:00Z", "to": "3100-01-01T00:00:00Z" });
    let refused = api.post(&path("backfill"), &more).await.problem(400, "invalid-field");
    assert!(refused["detail"].as_str().unwrap().contains("more than 1000 times"), "{refused}");
}

/// A wake requested by the close must not be lost to a check of the schedule that is already running.
#[tokio::test]
async fn a_close_during_a_check_of_the_schedule_starts_the_next_run() {
    let slow = Chances { delay: 1_000, delay_max: std::time::Duration::from_millis(15), ..Chances::NONE };
    let api = Api::over(std::sync::Arc::new(FaultStore::new(std::sync::Arc::new(Memory::new()), 5, slow))).await;
    create(&api, &schedule("0 0 1 1 *")).await;
    let span = json!({ "from": "2014-12-31T00:00:00Z", "to": "2023-12-31T23:00:00Z", "overlap": "buffer-all" });
    api.post(&path("backfill"), &span).await.json(200);
    // The clock does not advance, so no late deadline starts the buffered actions.
    for _ in 0..9 {
        succeed(&api).await;
    }
    once(&api, |shown| shown["running"] == json!(0) && shown["waiting"] == json!(0)).await;
}

#[tokio::test]
async fn a_paused_schedule_skips_actions_until_it_is_resumed() {
    let api = Api::open().await;
    create(&api, &schedule("0 * * * *")).await;
    let paused = api.post(&path("pause"), &json!({ "reason": "maintenance" })).await.json(200);
    assert_eq!((&paused["pauseReason"], &paused["nextTimes"]), (&json!("maintenance"), &json!([])));
    assert_eq!(api.get(SCHEDULES).await.json(200)["schedules"][0]["paused"], json!(true));
    api.clock.advance(Duration::from_secs(10 * 3_600));
    assert_eq!(api.post(&path("resume"), &json!({})).await.json(200)["totals"]["started"], json!(0));
    api.clock.advance(Duration::from_secs(3_600));
    assert_eq!(
        once(&api, |shown| total(shown, "started") > 0).await["totals"],
        json!({ "started": 1, "refused": 0, "skipped": 0, "missed": 0 })
    );
}

#[tokio::test]
async fn a_schedule_is_changed_and_deleted() {
    let api = Api::open().await;
    create(&api, &schedule("0 * * * *")).await;
    let mut other = schedule("0 12 * * *");
    other["remainingActions"] = json!(1);
    other["note"] = json!("at noon");
    let shown = api
        .ask(
            Ask::new("PUT", &format!("{SCHEDULES}/nightly"))
                .body(other.to_string())
                .header("content-type", "application/json"),
        )
        .await
        .json(200);
    assert_eq!(
        (&shown["schedule"]["note"], &shown["schedule"]["spec"]["cron"]),
        (&json!("at noon"), &json!(["0 12 * * *"]))
    );
    api.clock.advance(Duration::from_days(3));
    let shown = once(&api, |shown| total(shown, "started") > 0).await;
    assert_eq!((&shown["totals"]["started"], &shown["schedule"]["remainingActions"]), (&json!(1), &json!(0)));
    assert_eq!(shown["nextTimes"], json!([]));
    assert_eq!(api.ask(Ask::new("DELETE", &format!("{SCHEDULES}/nightly"))).await.json(200), json!({}));
    api.get(&format!("{SCHEDULES}/nightly")).await.problem(404, "unknown-schedule");
    assert_eq!(api.get(SCHEDULES).await.json(200)["schedules"], json!([]));
    api.clock.advance(Duration::from_days(3));
    assert_eq!(api.get(COUNT).await.json(200)["count"], json!(1), "its run continues");
    create(&api, &schedule("0 * * * *")).await;
}

#[tokio::test]
async fn an_invalid_schedule_is_refused_with_the_field() {
    let api = Api::open().await;
    let cases = [
        (
            "/spec/cron",
            json!(["0 25 * * *"]),
            "invalid-field",
            "`spec.cron[0]` has `25` as field 2, the hour; expected 0 to 23",
        ),
        ("/spec/cron", json!(["0 0 30 2 *"]), "invalid-field", "matches no existing day"),
        (
            "/spec/cron",
            json!([]),
            "invalid-field",
            "`spec` specifies no time: expected `cron`, `calendars` or `intervals`",
        ),
        (
            "/spec/timeZone",
            json!("Mars/Base"),
            "invalid-field",
            "`spec.timeZone` is `Mars/Base`, expected the name of a time zone",
        ),
        ("/spec/endAt", json!("1971-01-01T00:00:00Z"), "invalid-field", "`spec` specifies no time after"),
        ("/spec/crons", json!([]), "bad-json", "unknown field `crons`"),
        ("/overlap", json!("both"), "bad-json", "unknown variant `both`"),
        ("/catchUpWindow", json!("P9999D"), "invalid-field", "`catchUpWindow` is P9999D, at most"),
        ("/note", json!("x".repeat(1_025)), "too-large", "`note` has 1025 bytes, at most 1024"),
        ("/action/workflowId", json!("x".repeat(250)), "too-large", "`action.workflowId` has "),
        ("/action/workflowType", json!(""), "invalid-field", "`action.workflowType` is empty"),
        ("/action/input", json!("x".repeat(70_000)), "too-large", "`schedule` has "),
        ("/action/retries", json!(3), "bad-json", "unknown field `retries`"),
    ];
    for (at, value, code, expected) in cases {
        let mut wrong = schedule("0 0 * * *");
        let (parent, name) = at.rsplit_once('/').unwrap();
        wrong.pointer_mut(parent).unwrap()[name] = value;
        let status = if code == "too-large" { 413 } else { 400 };
        let refused =
            api.post(SCHEDULES, &json!({ "scheduleId": "nightly", "schedule": wrong })).await.problem(status, code);
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(expected), "{detail}\n  instead of\n{expected}");
    }
    for (id, code) in [("", "invalid-field"), ("a\nb", "invalid-field")] {
        let body = json!({ "scheduleId": id, "schedule": schedule("0 0 * * *") });
        api.post(SCHEDULES, &body).await.problem(400, code);
    }
    api.post("/v1/domains/nowhere/schedules", &json!({ "scheduleId": "a", "schedule": schedule("0 0 * * *") }))
        .await
        .problem(404, "unknown-domain");
    create(&api, &schedule("0 0 * * *")).await;
    api.post(SCHEDULES, &json!({ "scheduleId": "nightly", "schedule": schedule("0 0 * * *") }))
        .await
        .problem(409, "schedule-exists");
    for call in ["pause", "resume", "trigger"] {
        api.post(&format!("{SCHEDULES}/none/{call}"), &json!({})).await.problem(404, "unknown-schedule");
    }
}

#[tokio::test]
async fn a_year_of_a_monthly_schedule_has_twelve_runs() {
    let api = Api::open().await;
    let mut monthly = schedule("0 6 L * *");
    monthly["overlap"] = json!("buffer-all");
    create(&api, &monthly).await;
    let year: Vec<Timestamp> =
        serde_json::from_value(api.get(&path("next?limit=12")).await.json(200)["times"].clone()).unwrap();
    for (done, at) in (1..).zip(&year) {
        until(&api, *at);
        once(&api, |shown| total(shown, "started") == done).await;
        succeed(&api).await;
    }
    let shown = once(&api, |shown| words(shown, "outcome").iter().all(|outcome| outcome == "success")).await;
    assert_eq!(words(&shown, "nominalTime"), year.iter().map(Timestamp::to_string).collect::<Vec<_>>());
    // November has winter time, July has summer time.
    assert_eq!(
        (year[0].to_string(), year[8].to_string()),
        ("2023-11-30T05:00:00.000Z".to_owned(), "2024-07-31T04:00:00.000Z".to_owned())
    );
    assert_eq!(api.get(COUNT).await.json(200)["count"], json!(12));
}

#[tokio::test]
async fn missed_actions_in_the_catch_up_window_start_oldest_first() {
    let store = simulation::stores::fresh().await;
    let api = Api::over(std::sync::Arc::clone(&store)).await;
    let mut hourly = schedule("0 * * * *");
    hourly["overlap"] = json!("allow-all");
    hourly["catchUpWindow"] = json!("PT3H");
    create(&api, &hourly).await;
    api.engine.begin_shutdown();
    let later = Api::over(store).await;
    later.clock.advance(Duration::from_secs(24 * 3_600));
    let shown = once(&later, |shown| total(shown, "missed") > 0 && total(shown, "started") == 3).await;
    assert_eq!(total(&shown, "missed"), 21);
    let times = words(&shown, "nominalTime");
    assert!(times.is_sorted() && times.len() == 3, "{times:?}");
}

#[tokio::test]
async fn a_failed_run_pauses_its_schedule_and_overlaps_terminate() {
    let api = Api::open().await;
    let mut hourly = schedule("0 * * * *");
    hourly["overlap"] = json!("terminate-other");
    hourly["pauseOnFailure"] = json!(true);
    create(&api, &hourly).await;
    for count in 1..3 {
        api.clock.advance(Duration::from_secs(3_600));
        once(&api, |shown| total(shown, "started") == count).await;
    }
    once(&api, |shown| words(shown, "outcome") == ["terminated", "open"]).await;
    api.decide(json!([{ "type": "FailWorkflow", "reason": "no" }])).await;
    let paused = once(&api, |shown| shown.get("pausedAt").is_some()).await;
    assert!(paused["pauseReason"].as_str().unwrap().contains("did not succeed"), "{paused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_for_sparse_times_yields_and_reports_its_end() {
    let api = Api::open().await;
    let cron: Vec<String> = (0..100).map(|at| format!("* * {hour}-23,0-{hour} * * *", hour = at % 24)).collect();
    let exclude: Vec<Value> = (0..100).map(|at| json!({ "second": if at < 99 { "0-29" } else { "30-58" } })).collect();
    let mut it = schedule("@daily");
    it["spec"] = json!({ "cron": cron, "exclude": exclude });
    create(&api, &it).await;
    let begin = tokio::time::Instant::now();
    let path = path("next?limit=1000");
    let mut calls: Vec<_> = (0..8).map(|_| Box::pin(api.get(&path))).collect();
    let all = futures_util::future::join_all(calls.drain(..));
    tokio::pin!(all);
    let mut looks = 0;
    let answers = loop {
        // Each iteration checks that the service responds while the searches run.
        tokio::select! {
            biased;
            answer = api.get("/healthz") => {
                assert_eq!(answer.status, 200);
                looks += 1;
                tokio::select! {
                    answers = &mut all => break answers,
                    () = tokio::task::yield_now() => {}
                }
            }
            answers = &mut all => break answers,
        }
    };
    // A search yields a hundred times, and a request takes two to four iterations of this loop.
    assert!(looks >= 20, "{looks} requests in {:?}", begin.elapsed());
    for answer in answers {
        let answer = answer.json(200);
        let found = answer["times"].as_array().unwrap().len();
        assert!((10..1_000).contains(&found), "one a minute, up to the end of the search: {found}");
        assert!(answer["searchedUntil"].is_string());
    }
    // A schedule that excludes every time is refused at once.
    it["spec"] = json!({ "cron": ["* * * * * *"], "exclude": [{ "year": "*" }] });
    let refused = api.post(SCHEDULES, &json!({ "scheduleId": "never", "schedule": it })).await;
    assert_eq!(refused.problem(400, "invalid-field")["field"], "spec");
}

#[tokio::test]
async fn at_most_1000_next_times_are_listed() {
    let api = Api::open().await;
    create(&api, &schedule("* * * * *")).await;
    for (limit, found) in [("1000", 1_000), ("1001", 1_000), ("999", 999)] {
        let next = api.get(&format!("{}?limit={limit}", path("next"))).await.json(200);
        assert_eq!(next["times"].as_array().unwrap().len(), found, "{limit}");
    }
}

#[tokio::test]
async fn a_schedule_over_its_size_limits_is_refused() {
    let api = Api::open().await;
    let with = |note: usize, input: usize| {
        let mut it = schedule("0 0 * * *");
        it["note"] = json!("x".repeat(note));
        it["action"]["input"] = json!("x".repeat(input));
        it
    };
    let ask = |schedule: Value| Ask::post(SCHEDULES, &json!({ "scheduleId": "nightly", "schedule": schedule }));
    let found = |problem: Value| (problem["field"].clone(), problem["found"].as_u64().unwrap(), problem["max"].clone());
    let (note, max) = (1_024, 64 * 1_024);
    let refused = api.ask(ask(with(note + 1, 1))).await.problem(413, "too-large");
    assert_eq!(found(refused), (json!("note"), 1_025, json!(note)));
    // A refusal tells the size of the schedule without its input.
    let refused = api.ask(ask(with(note, max))).await.problem(413, "too-large");
    let around = usize::try_from(refused["found"].as_u64().unwrap()).unwrap() - max;
    let refused = api.ask(ask(with(note, max - around + 1))).await.problem(413, "too-large");
    assert_eq!(found(refused), (json!("schedule"), 65_537, json!(max)));
    api.ask(ask(with(note, max - around))).await.json(201);
}
