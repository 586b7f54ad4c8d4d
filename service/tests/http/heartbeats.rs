//! Heartbeats that wait until the activity should stop.

use std::sync::Arc;
use std::time::Duration;

use engine::admission::{Limit, QuotaLimits};
use serde_json::{Value, json};
use service::access::{Credential, Credentials};
use service::api::router_for;
use service::http::ServerLimits;
use tokio::time::Instant;

use crate::holders::credential;
use crate::sockets::Socket;
use crate::support::{Answer, Api, Ask, PATIENCE, WORKFLOWS, activity_path, schedule};

/// A service with run `w`, and the path of heartbeats of its activity.
async fn open() -> (Api, String) {
    let api = Api::open().await;
    let beat = format!("{}/heartbeat", activity_path(&api.activity("w").await));
    (api, beat)
}

fn beat(path: &str, wait: &str) -> Ask {
    Ask::post(path, &json!({ "details": 7 })).header("prefer", &format!("wait={wait}"))
}

fn run(verb: &str) -> String {
    format!("{WORKFLOWS}/w/{verb}")
}

/// Waits until this many runs are watched.
async fn until_watched(api: &Api, runs: u32) {
    let wait = async {
        while !api.engine.render_metrics().contains(&format!("baton_watched_runs {runs}\n")) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("the number of watched runs");
}

/// Decides to cancel the activity.
async fn cancel(api: &Api) {
    api.post(&run("signals/s"), &json!({})).await.json(202);
    api.decide(json!([{ "type": "CancelActivity", "activityId": "a" }])).await;
}

/// Makes a heartbeat wait, lets `act` happen, and returns the response. The wait must not have ended by itself.
async fn ended_by(api: &Api, path: &str, act: impl Future<Output = ()>) -> Answer {
    let meanwhile = async {
        until_watched(api, 1).await;
        act.await;
        Instant::now()
    };
    let (answer, acted) = tokio::join!(api.ask(beat(path, "60")), meanwhile);
    assert!(acted.elapsed() < Duration::from_secs(1), "{:?}", acted.elapsed());
    until_watched(api, 0).await;
    answer
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_is_recorded_before_it_waits() {
    let (api, path) = open().await;
    let recorded = async {
        until_watched(&api, 1).await;
        let described = api.get(&format!("{WORKFLOWS}/w")).await.json(200);
        assert!(described["openActivities"][0]["lastHeartbeatAt"].is_string(), "{described}");
    };
    let began = Instant::now();
    let (answer, ()) = tokio::join!(api.ask(beat(&path, "2.5")), recorded);
    assert_eq!(answer.json(200), json!({ "cancelRequested": false }));
    assert_eq!(answer.header("preference-applied"), "wait=2.5");
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(2_500) && took < Duration::from_secs(4), "{took:?}");
    until_watched(&api, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_waits_at_most_a_minute_and_0_does_not_wait() {
    let (api, path) = open().await;
    for (wait, applied, seconds) in [("0", "wait=0", 0), ("60.5", "wait=60", 60), ("1e300", "wait=60", 60)] {
        let began = Instant::now();
        let answer = api.ask(beat(&path, wait)).await;
        assert_eq!(answer.json(200), json!({ "cancelRequested": false }));
        assert_eq!((answer.header("preference-applied"), began.elapsed().as_secs()), (applied, seconds));
    }
    for wait in ["-1", "soon", "NaN"] {
        api.refused(beat(&path, wait), 400, "bad-header").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_request_ends_the_wait_of_a_heartbeat() {
    let (api, path) = open().await;
    let answer = ended_by(&api, &path, cancel(&api)).await;
    assert_eq!(answer.json(200), json!({ "cancelRequested": true }));
    // The request was made before this call.
    let began = Instant::now();
    assert_eq!(api.ask(beat(&path, "60")).await.json(200), json!({ "cancelRequested": true }));
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_waits_through_other_events_of_its_run() {
    let (api, path) = open().await;
    let others = async {
        until_watched(&api, 1).await;
        for _ in 0..10 {
            api.post(&run("signals/s"), &json!({})).await.json(202);
            api.decide(json!([])).await;
        }
        api.post(&run("cancel"), &json!({})).await.json(202);
        Instant::now()
    };
    let (answer, done) = tokio::join!(api.ask(beat(&path, "30")), others);
    assert_eq!(answer.json(200), json!({ "cancelRequested": false }));
    assert!(done.elapsed() > Duration::from_secs(20), "{:?}", done.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_pause_ends_the_wait_of_a_heartbeat_once() {
    let (api, path) = open().await;
    for verb in ["activities/a/pause", "pause"] {
        let pause = async { drop(api.post(&run(verb), &json!({})).await.json(200)) };
        let answer = ended_by(&api, &path, pause).await;
        assert_eq!(answer.json(200), json!({ "cancelRequested": false, "paused": true }), "{verb}");
        // The runner may continue, so the next heartbeat waits. A resume does not end the wait, another pause does.
        let again = async {
            api.post(&run(&verb.replace("pause", "resume")), &json!({})).await.json(200);
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            api.post(&run(verb), &json!({})).await.json(200);
        };
        let answer = ended_by(&api, &path, again).await;
        assert_eq!(answer.json(200), json!({ "cancelRequested": false, "paused": true }), "{verb}");
        api.post(&run(&verb.replace("pause", "resume")), &json!({})).await.json(200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_run_ends_the_wait_of_a_heartbeat() {
    let (api, path) = open().await;
    let terminate = async { drop(api.post(&run("terminate"), &json!({})).await.json(200)) };
    let problem = ended_by(&api, &path, terminate).await.json(409);
    assert_eq!((&problem["code"], &problem["runStatus"]), (&json!("run-closed"), &json!("terminated")));
    let began = Instant::now();
    api.refused(beat(&path, "60"), 409, "run-closed").await;
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_run_closed_and_replaced_ends_the_wait() {
    let (api, path) = open().await;
    let replace = async {
        api.post(&run("signals/s"), &json!({})).await.json(202);
        api.decide(json!([{ "type": "ContinueAsNew" }])).await;
    };
    ended_by(&api, &path, replace).await.problem_of_recorded(409, "run-closed");
}

#[tokio::test(start_paused = true)]
async fn an_answered_activity_ends_the_wait_of_its_heartbeat() {
    let (api, path) = open().await;
    let success = path.replace("heartbeat", "success");
    let succeed = async { drop(api.post(&success, &json!({})).await.json(200)) };
    ended_by(&api, &path, succeed).await.problem_of_recorded(409, "activity-closed");
}

#[tokio::test(start_paused = true)]
async fn a_lost_attempt_ends_the_wait_of_its_heartbeat() {
    let api = Api::open().await;
    api.start("w").await;
    let mut decision = schedule("a", "acts");
    decision["timeouts"] = json!({ "heartbeat": 20 });
    decision["retry"] = json!({ "initialInterval": "PT10S" });
    api.decide(json!([decision])).await;
    let path = format!("{}/heartbeat", activity_path(&api.take_activity("acts").await));
    let events = api.names("w").await;
    let time_out = async {
        api.clock.advance(history::Duration::from_secs(21));
        while api.get(&format!("{WORKFLOWS}/w")).await.json(200)["openActivities"][0]["attempt"] != 2 {
            tokio::task::yield_now().await;
        }
    };
    ended_by(&api, &path, time_out).await.problem_of_recorded(409, "activity-closed");
    assert_eq!(api.names("w").await, events, "the lost attempt has left no event");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_answers_a_waiting_heartbeat() {
    let (api, path) = open().await;
    let answer = ended_by(&api, &path, async { api.engine.begin_shutdown() }).await;
    assert_eq!(answer.json(200), json!({ "cancelRequested": false }));
}

#[tokio::test(start_paused = true)]
async fn a_revoked_credential_ends_the_wait_of_a_heartbeat() {
    let (open, path) = open().await;
    let runner = |name: &str| Credential { runners: vec!["default/*".to_owned()], ..credential(name) };
    let credentials = Credentials::new(vec![runner("gone"), runner("stays")]).unwrap();
    let guarded = open.with(router_for(Arc::clone(&open.engine), credentials.clone()));
    let revoke = async {
        until_watched(&open, 1).await;
        credentials.replace(vec![runner("stays")]).unwrap();
        Instant::now()
    };
    let waiting = guarded.call(beat(&path, "60").header("authorization", "Bearer gone"));
    let (answer, revoked) = tokio::join!(waiting, revoke);
    assert!(revoked.elapsed() <= service::access::REVOKED_WAIT, "{:?}", revoked.elapsed());
    assert_eq!(Answer::read(answer).await.json(401)["code"], "credential-revoked");
    until_watched(&open, 0).await;
}

#[tokio::test]
async fn a_runner_that_disconnects_ends_its_waiting_heartbeat() {
    let (api, path) = open().await;
    let socket = Socket::of(api, ServerLimits::default()).await;
    let peer = socket.call("POST", &path, "prefer: wait=60\r\n", "{}").await;
    until_watched(&socket.api, 1).await;
    drop(peer);
    tokio::time::timeout(Duration::from_secs(30), until_watched(&socket.api, 0)).await.expect("before the wait ends");
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_may_not_wait_is_answered_at_once() {
    let (api, path) = open().await;
    let limit = Limit { domain: Some("default".to_owned()), watchers: Some(1), ..Limit::default() };
    api.engine.quotas().replace(QuotaLimits::read(vec![limit]).unwrap());
    let other = async {
        until_watched(&api, 1).await;
        let began = Instant::now();
        let answer = api.ask(beat(&path, "60")).await;
        assert_eq!(answer.json(200), json!({ "cancelRequested": false }));
        assert_eq!((answer.header("preference-applied"), began.elapsed().as_secs()), ("wait=0", 0));
    };
    let (answer, ()) = tokio::join!(api.ask(beat(&path, "5")), other);
    assert_eq!(answer.header("preference-applied"), "wait=5");
}

impl Answer {
    /// Checks the refusal of a heartbeat after its wait.
    #[track_caller]
    fn problem_of_recorded(&self, status: u16, code: &str) {
        let problem: Value = self.json(status);
        assert_eq!(problem["code"], code, "{problem}");
    }
}
