use std::future::ready;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use futures_util::FutureExt as _;
use futures_util::future::lazy;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use store::memory::Memory;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use super::*;
use crate::access::Credentials;
use crate::api::router_for;
use crate::front::{Front, FrontSettings};
use engine::{Engine, Settings, SystemClock};

fn one() -> Arc<Places> {
    Places::new(Some(1))
}

/// Request that occupies a place until this is dropped.
struct AtWork(InTurn);

fn at_work(places: &Arc<Places>) -> AtWork {
    let claim = places.claim("at work", true);
    assert!(claim.claim.begin_work().is_ready(), "a place is free");
    AtWork(claim)
}

impl AtWork {
    fn ends(self) {
        drop(self.0);
    }
}

/// Yields once, so that other tasks run.
async fn yield_once() {
    let mut has_been_here = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_been_here, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Awaits the future. Fails if it does not complete within a minute.
async fn soon<T>(it: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), it).await.expect("nothing waits for ever")
}

/// Waits until `count` requests are waiting for a place.
async fn until_waiting(places: &Places, count: usize) {
    let wait = async {
        while places.waits().now != count {
            tokio::task::yield_now().await;
        }
    };
    soon(wait).await;
}

#[test]
fn each_processor_has_two_places_by_default() {
    let places = Places::new(None);
    let processors = std::thread::available_parallelism().unwrap().get();
    let at_work: Vec<_> = (0..2 * processors).map(|_| at_work(&places)).collect();
    let claim = places.claim("one more", false);
    assert!(claim.during(ready(())).now_or_never().is_none());
    drop((claim, at_work));
    assert_eq!(places.waits().now, 0);
}

#[test]
fn a_waiting_request_releases_its_place() {
    let places = one();
    let (tell, told) = oneshot::channel();
    let held = places.claim("a", false);
    let mut work = pin!(held.during(told));
    assert!(work.as_mut().now_or_never().is_none());
    let other = places.claim("b", false);
    assert_eq!(other.during(ready(7)).now_or_never(), Some(Ok(7)));
    assert_eq!(places.waits().times, 0, "and nobody waited");
    // This event lets the request of domain `a` continue. It gets the only place again, so the request of domain `c`
    // has to wait for the place.
    tell.send(()).unwrap();
    assert!(places.claim("c", false).during(ready(())).now_or_never().is_none());
    assert_eq!(work.now_or_never(), Some(Ok(Ok(()))));
    assert_eq!(places.claim("d", false).during(ready(())).now_or_never(), Some(Ok(())));
}

#[tokio::test]
async fn domains_take_turns_and_a_ready_request_queues_again() {
    let places = one();
    let at_work = at_work(&places);
    let did = Arc::new(Mutex::new(Vec::new()));
    let mut requests = Vec::new();
    for (count, name) in ["a1", "a2", "a3", "b1", "b2"].into_iter().enumerate() {
        let (claim, did) = (places.claim(&name[..1], false), Arc::clone(&did));
        requests.push(tokio::spawn(async move {
            let work = async {
                did.lock().unwrap().push(name);
                if name == "a1" {
                    yield_once().await;
                    did.lock().unwrap().push("a1 again");
                }
            };
            claim.during(Box::pin(work)).await
        }));
        until_waiting(&places, count + 1).await;
    }
    at_work.ends();
    for request in requests {
        soon(request).await.unwrap().unwrap();
    }
    assert_eq!(*did.lock().unwrap(), ["a1", "b1", "a2", "b2", "a3", "a1 again"]);
    assert_eq!(places.lock().order.give_back().map(|_| ()), None);
    assert_eq!(places.waits().times, 6);
}

#[test]
fn a_place_is_released_at_every_end_of_a_request() {
    let places = one();
    let is_free = || places.claim("probe", false).during(ready(())).now_or_never() == Some(Ok(()));
    // The request is dropped while it waits for a place.
    let busy = at_work(&places);
    let waits = places.claim("a", false);
    assert!(waits.during(ready(())).now_or_never().is_none());
    drop(waits);
    assert_eq!(places.waits().now, 0);
    // The request is dropped when it was given a place but has not used it.
    let given = places.claim("a", false);
    assert!(given.during(ready(())).now_or_never().is_none());
    busy.ends();
    assert!(!is_free());
    drop(given);
    assert!(is_free());
    // The request is dropped while it waits for an event. The event happens later.
    let (tell, told) = oneshot::channel::<()>();
    {
        let rests = places.claim("a", false);
        assert!(rests.during(told).now_or_never().is_none());
    }
    drop(tell);
    assert!(is_free());
    // The request is dropped because its work panics.
    let panics =
        AssertUnwindSafe(async { places.claim("a", false).during(lazy(|_| -> () { panic!("on purpose") })).await });
    assert!(panics.catch_unwind().now_or_never().unwrap().is_err());
    assert!(is_free());
}

#[test]
fn a_full_queue_still_takes_requests_that_have_begun() {
    let places = one();
    let (tell, told) = oneshot::channel::<()>();
    let begun = places.claim("a", false);
    let mut work = pin!(begun.during(told));
    assert!(work.as_mut().now_or_never().is_none());
    let _busy = at_work(&places);
    let ask = |domain: &str, must: bool| {
        let claim = places.claim(domain, must);
        let asked = claim.during(ready(())).now_or_never();
        (claim, asked)
    };
    let mut waiting: Vec<_> = (0..WAITING_OF_DOMAIN_MAX).map(|_| ask("a", false)).collect();
    assert!(waiting.iter().all(|(_, asked)| asked.is_none()));
    assert_eq!(ask("a", false).1, Some(Err(Crowded)));
    waiting.extend((WAITING_OF_DOMAIN_MAX..WAITING_MAX).map(|_| ask("b", false)));
    assert_eq!(ask("c", false).1, Some(Err(Crowded)));
    assert_eq!((places.waits().now, places.waits().refused), (WAITING_MAX, 2));
    drop(tell);
    assert_eq!(places.waits().now, WAITING_MAX + 1, "what has begun goes on");
    waiting.push(ask("c", true));
    assert_eq!(places.waits().now, WAITING_MAX + 2, "and so does what must");
}

/// Service with only one place.
struct Service {
    places: Arc<Places>,
    router: Router,
    front: Front,
}

impl Service {
    async fn open() -> Self {
        let engine = Engine::open(Arc::new(Memory::new()), Arc::new(SystemClock), Settings::default()).await.unwrap();
        let front = Front::of(engine, &FrontSettings { max_concurrent_requests: Some(1), ..FrontSettings::default() });
        Self { places: Arc::clone(front.places()), router: router_for(front.clone(), Credentials::default()), front }
    }

    fn ask(&self, request: Request<Body>) -> JoinHandle<(u16, Value)> {
        let answer = self.router.clone().oneshot(request);
        tokio::spawn(soon(async move { read(answer.await.unwrap()).await }))
    }

    /// Fills the queue of the default domain, until the returned handles are dropped.
    fn fill(&self) -> Vec<InTurn> {
        let claims: Vec<_> = (0..WAITING_OF_DOMAIN_MAX).map(|_| self.places.claim("default", false)).collect();
        assert!(claims.iter().all(|claim| claim.during(ready(())).now_or_never().is_none()));
        claims
    }
}

async fn read(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let retry_after = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let mut value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    if let (Value::Object(members), Some(wait)) = (&mut value, retry_after) {
        members.insert("retryAfter".to_owned(), wait.into());
    }
    (status, value)
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

fn post(path: &str, body: &Value) -> Request<Body> {
    Request::post(path).header("content-type", "application/json").body(Body::from(body.to_string())).unwrap()
}

fn swf(operation: &str, body: &Value) -> Request<Body> {
    let request = Request::post("/").header("content-type", "application/x-amz-json-1.0");
    let request = request.header("x-amz-target", format!("SimpleWorkflowService.{operation}"));
    request.body(Body::from(body.to_string())).unwrap()
}

fn of_domain() -> [Request<Body>; 2] {
    [get("/v1/domains/default"), swf("DescribeDomain", &json!({ "name": "default" }))]
}

#[tokio::test]
async fn requests_of_both_protocols_wait_and_are_measured() {
    let service = Service::open().await;
    let busy = at_work(&service.places);
    let waiting = of_domain().map(|request| service.ask(request));
    until_waiting(&service.places, 2).await;
    assert!(waiting.iter().all(|request| !request.is_finished()));
    assert!(service.front.render_metrics().contains("\nbaton_requests_queued 2\n"));
    busy.ends();
    for request in waiting {
        assert_eq!(request.await.unwrap().0, 200);
    }
    let metrics = service.front.render_metrics();
    assert!(metrics.contains("\nbaton_requests_queued 0\n"), "{metrics}");
    assert!(metrics.contains("\nbaton_request_queue_waits_total 2\n"), "{metrics}");
    let seconds = metrics.lines().find_map(|line| line.strip_prefix("baton_request_queue_wait_seconds_total "));
    assert!(seconds.unwrap().parse::<f64>().unwrap() > 0.0, "{metrics}");
}

#[tokio::test]
async fn health_and_metrics_respond_while_other_requests_wait() {
    let service = Service::open().await;
    let busy = at_work(&service.places);
    let full = service.fill();
    for path in ["/healthz", "/readyz", "/metrics", "/v1/domains"] {
        assert_eq!(service.ask(get(path)).await.unwrap().0, 200, "{path}");
    }
    drop((busy, full));
}

#[tokio::test]
async fn a_full_queue_refuses_a_request_without_effect() {
    let service = Service::open().await;
    let busy = at_work(&service.places);
    let full = service.fill();
    let start =
        post("/v1/domains/default/workflows", &json!({ "workflowId": "w", "workflowType": "t", "taskList": "l" }));
    let (status, problem) = service.ask(start).await.unwrap();
    let found = [&problem["code"], &problem["recorded"], &problem["retryable"], &problem["retryAfter"]];
    assert_eq!((status, found), (503, [&json!("overloaded"), &json!(false), &json!(true), &json!("1")]));
    let (status, fault) = service.ask(swf("DescribeDomain", &json!({ "name": "default" }))).await.unwrap();
    assert_eq!((status, &fault["retryAfter"]), (503, &json!("1")), "{fault}");
    drop((busy, full));
    assert_eq!(service.ask(get("/v1/domains/default/workflows/w")).await.unwrap().0, 404);
    assert!(service.front.render_metrics().contains("\nbaton_request_queue_refusals_total 2\n"));
}

#[tokio::test]
async fn a_waiting_poll_holds_no_place_and_task_answers_are_admitted() {
    let service = Service::open().await;
    let mut poll = post("/v1/domains/default/task-lists/l/decider/poll", &json!({}));
    poll.headers_mut().insert("prefer", "wait=60".parse().unwrap());
    let poll = service.ask(poll);
    let metrics = || service.front.render_metrics();
    let polls = "baton_pollers_waiting{domain=\"default\",kind=\"decider\",list=\"l\"} 1\n";
    while !metrics().contains(polls) {
        tokio::task::yield_now().await;
    }
    // The poll waits without holding the only place, so this request is processed.
    let start =
        post("/v1/domains/default/workflows", &json!({ "workflowId": "w", "workflowType": "t", "taskList": "l" }));
    assert_eq!(service.ask(start).await.unwrap().0, 201);
    let (status, task) = poll.await.unwrap();
    assert_eq!(status, 200, "{task}");
    let token = task["token"].as_str().or(task["taskToken"].as_str()).unwrap();
    let busy = at_work(&service.places);
    let full = service.fill();
    let complete = post(&format!("/v1/decider-tasks/{token}/complete"), &json!({}));
    let complete = service.ask(complete);
    until_waiting(&service.places, WAITING_OF_DOMAIN_MAX + 1).await;
    drop((full, busy));
    let (status, answer) = complete.await.unwrap();
    assert_eq!(status, 200, "{answer}");
}
