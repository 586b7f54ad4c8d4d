//! Memory of requests: for every body with a list or map, one of maximum size, full of the smallest entries.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::indexing_slicing, reason = "a test that cannot go on fails")]

extern crate baton_service as service;

mod limits;
mod schema;
mod swf;

use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use bytes::Bytes;
use engine::{Engine, Settings, SystemClock};
use http_body_util::BodyExt as _;
use peak_alloc::PeakAlloc;
use schema::Fill;
use serde_json::Value;
use simulation::stores::fresh;
use tower::ServiceExt as _;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Tests run one at a time, because the allocator counts for the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Memory that a request may take, as a multiple of its body.
const PER_BYTE_MAX: usize = 8;

/// Larger than the limit of any body.
const TOO_LARGE: usize = 64 * 1024 * 1024;

/// The service in process.
struct Measured {
    router: Router,
    runtime: tokio::runtime::Runtime,
    _alone: MutexGuard<'static, ()>,
}

/// Response, and the peak of memory before it.
struct Found {
    status: u16,
    text: String,
    peak: usize,
}

impl Measured {
    fn open() -> Self {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let settings = Settings { seed: Some(7), ..Settings::default() };
        let router = runtime.block_on(async {
            let engine = Engine::open(fresh().await, std::sync::Arc::new(SystemClock), settings).await.unwrap();
            service::api::router(engine)
        });
        Self { router, runtime, _alone: alone }
    }

    /// Sends a request and measures its memory, without its body.
    fn ask(&self, request: Request<Body>) -> Found {
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let (status, bytes) = self.runtime.block_on(async {
            let (parts, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
            (parts.status.as_u16(), body.collect().await.unwrap().to_bytes())
        });
        let peak = MEMORY.peak_usage().saturating_sub(before);
        Found { status, text: String::from_utf8_lossy(&bytes).into_owned(), peak }
    }

    fn call(&self, method: &str, path: &str, body: &Bytes) -> Found {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        // A poll in an exchange does not wait.
        self.ask(request.header("prefer", "wait=0").body(Body::from(body.clone())).unwrap())
    }

    fn document(&self) -> Value {
        serde_json::from_str(&self.call("GET", "/openapi.json", &Bytes::new()).text).unwrap()
    }
}

/// Path of the document with a value for each parameter.
fn filled(path: &str) -> String {
    let segments = path.split('/').map(|segment| if segment.starts_with('{') { "default" } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

#[test]
fn a_body_of_smallest_entries_takes_under_8_times_its_bytes() {
    let service = Measured::open();
    let document = service.document();
    let too_large = Bytes::from(vec![b' '; TOO_LARGE]);
    let mut measured = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, call) in methods.as_object().unwrap() {
            let body = &call["requestBody"]["content"]["application/json"]["schema"];
            if body.is_null() {
                continue;
            }
            let (method, target) = (method.to_uppercase(), filled(path));
            let refusal: Value = serde_json::from_str(&service.call(&method, &target, &too_large).text).unwrap();
            assert_eq!(refusal["code"], "too-large", "{method} {path}: {refusal}");
            let max = usize::try_from(refusal["max"].as_u64().unwrap()).unwrap();
            for list in schema::lists(&document, body) {
                let name = format!("{method} {path} {list}");
                assert!(list.is_bounded(), "{name} has no `maxItems` or `maxProperties`");
                // With one entry per list the call accepts the body, so the bodies below are valid, too.
                let one = list.body(&document, body, Fill::Nothing, max);
                let found = service.call(&method, &target, &Bytes::from(one));
                assert!(!found.text.contains("\"bad-json\""), "{name}: {}", found.text);
                for fill in [Fill::Outermost, Fill::Innermost] {
                    let bytes = Bytes::from(list.body(&document, body, fill, max));
                    // An entry with full lists in it may take a third of the largest body.
                    assert!(bytes.len() > max / 2 && bytes.len() <= max, "{name}: {} of {max}", bytes.len());
                    let found = service.call(&method, &target, &bytes);
                    println!("{:6.2} {} {name} {fill:?}", per_byte(found.peak, bytes.len()), found.status);
                    assert!(found.peak < PER_BYTE_MAX * bytes.len(), "{name}: {} for {}", found.peak, bytes.len());
                }
                measured.push(name);
            }
        }
    }
    assert!(measured.len() > 50, "{measured:#?}");
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn per_byte(peak: usize, bytes: usize) -> f64 {
    peak as f64 / bytes as f64
}

#[test]
fn an_exchange_full_of_decisions_is_refused_or_takes_less() {
    let service = Measured::open();
    let path = "/v1/domains/default/task-lists/default/decider/exchange";
    for decision in [r#"{"type":"ContinueAsNew"}"#, r#"{"type":"StartChild","workflowId":"","workflowType":""}"#] {
        let decisions = vec![decision; 2_500].join(",");
        let answer = format!(r#"{{"token":"","complete":{{"decisions":[{decisions}]}}}}"#);
        let answers = vec![answer.as_str(); 8 * 1024 * 1024 / (answer.len() + 1) - 1].join(",");
        let body = Bytes::from(format!(r#"{{"answers":[{answers}]}}"#));
        let found = service.call("POST", path, &body);
        println!("{:6.2} {} {decision}", per_byte(found.peak, body.len()), found.status);
        assert!(found.peak < PER_BYTE_MAX * body.len(), "{} for {}", found.peak, body.len());
        let refusal: Value = serde_json::from_str(&found.text).unwrap();
        assert_eq!((found.status, &refusal["code"]), (413, &Value::from("too-large")), "{refusal}");
    }
}
