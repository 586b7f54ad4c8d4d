//! Traces: contexts in headers, histories and tasks, and exported spans.

use std::sync::{Arc, Mutex};

use engine::{Engine, SampleRatio, Settings, SpanExport, TakesSpans};
use history::trace::Span;
use serde_json::{Value, json};
use service::front::Front;
use simulation::manual_clock::ManualClock;
use simulation::stores::fresh;

use crate::support::{Api, Ask, WORKFLOWS, activity_path, schedule};

const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const SIGNALED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Collects exported spans.
#[derive(Default)]
struct Basket(Mutex<Vec<Span>>);

impl TakesSpans for Basket {
    fn take(&self, _: &Arc<str>, spans: Vec<Span>) {
        self.0.lock().unwrap().extend(spans);
    }
}

impl Basket {
    /// The newest span with this name.
    fn span(&self, name: &str) -> Span {
        let spans = self.0.lock().unwrap();
        spans.iter().rev().find(|span| span.name == name).unwrap_or_else(|| panic!("{name} in {spans:?}")).clone()
    }
}

/// A service that exports spans to a basket.
async fn exporting(ratio: f64) -> (Api, Arc<Basket>) {
    let (clock, basket) = (ManualClock::new(), Arc::<Basket>::default());
    let spans = SpanExport { to: Arc::clone(&basket) as _, ratio: SampleRatio::new(ratio).unwrap() };
    let settings = Settings { seed: Some(7), spans: Some(spans), ..Settings::default() };
    let engine = Engine::open(fresh().await, Arc::clone(&clock) as _, settings).await.unwrap();
    (Api::of(Front::from(engine), clock), basket)
}

fn start(more: &Value) -> Ask {
    let mut body = json!({ "workflowId": "w", "workflowType": "order", "taskList": "deciders" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Ask::post(WORKFLOWS, &body)
}

async fn event(api: &Api, number: usize) -> Value {
    api.get(&format!("{WORKFLOWS}/w/history")).await.json(200)["events"][number - 1].clone()
}

#[tokio::test]
async fn a_trace_context_is_recorded_and_passed_on_without_export() {
    let api = Api::open().await;
    let signal = json!({ "signal": { "name": "first" } });
    api.ask(start(&signal).header("traceparent", GIVEN).header("tracestate", "a=b")).await.json(201);
    let go = Ask::post(&format!("{WORKFLOWS}/w/signals/go"), &json!({})).header("traceparent", SIGNALED);
    api.ask(go).await.json(202);
    let started = event(&api, 1).await;
    assert_eq!((&started["traceparent"], &started["tracestate"]), (&json!(GIVEN), &json!("a=b")));
    assert_eq!(event(&api, 3).await["traceparent"], json!(GIVEN));
    assert_eq!(event(&api, 4).await["traceparent"], json!(SIGNALED));
    let turn = api.decide(json!([schedule("a", "acts")])).await;
    assert_eq!((&turn["traceparent"], &turn["tracestate"]), (&json!(GIVEN), &json!("a=b")));
    let activity = api.take_activity("acts").await;
    assert_eq!((&activity["traceparent"], &activity["tracestate"]), (&json!(GIVEN), &json!("a=b")));
    // The signal has its sender's trace; the open run keeps its own.
    let again = json!({ "signal": { "name": "second" }, "conflictPolicy": "use-existing" });
    api.ask(start(&again).header("traceparent", SIGNALED)).await.json(200);
    let history = api.get(&format!("{WORKFLOWS}/w/history?reverse=true")).await.json(200);
    let signals: Vec<_> = history["events"].as_array().unwrap().iter().filter(|it| it["name"] == "second").collect();
    assert_eq!(signals[0]["traceparent"], json!(SIGNALED));
}

#[tokio::test]
async fn a_malformed_trace_context_is_ignored() {
    let long = GIVEN.repeat(300);
    for (number, traceparent) in ["00", "", &GIVEN.to_uppercase(), &long].into_iter().enumerate() {
        let api = Api::open().await;
        let ask = start(&json!({})).header("traceparent", traceparent).header("tracestate", &"v".repeat(513));
        api.ask(ask).await.json(201);
        let go = Ask::post(&format!("{WORKFLOWS}/w/signals/go"), &json!({})).header("traceparent", traceparent);
        api.ask(go).await.json(202);
        for number in [1, 3] {
            let event = event(&api, number).await;
            assert_eq!((event.get("traceparent"), event.get("tracestate")), (None, None));
        }
        let turn = api.turn().await;
        assert_eq!((turn.get("traceparent"), turn.get("tracestate")), (None, None), "{number}");
    }
}

#[tokio::test]
async fn tasks_carry_the_span_that_is_exported_later() {
    let (api, basket) = exporting(0.0).await;
    api.ask(start(&json!({})).header("traceparent", GIVEN)).await.json(201);
    let turn = api.decide(json!([schedule("a", "acts")])).await;
    let below = |task: &Value| task["traceparent"].as_str().unwrap().to_owned();
    let as_told = |span: &Span| format!("00-{}-{}-01", span.trace_id, span.span_id);
    assert_eq!(below(&turn), as_told(&basket.span("turn order")));
    let task = api.take_activity("acts").await;
    api.post(&format!("{}/success", activity_path(&task)), &json!({})).await.json(200);
    let activity = basket.span("activity do");
    assert_eq!(below(&task), as_told(&activity));
    api.decide(json!([{ "type": "SucceedWorkflow" }])).await;
    let run = basket.span("workflow order");
    assert_eq!((activity.parent, run.parent.unwrap().to_string()), (Some(run.span_id), "00f067aa0ba902b7".to_owned()));
}

#[tokio::test]
async fn each_attempt_has_a_separate_span() {
    let (api, basket) = exporting(1.0).await;
    api.ask(start(&json!({}))).await.json(201);
    let mut again = schedule("a", "acts");
    again["retry"] = json!({ "initialInterval": 10 });
    api.decide(json!([again])).await;
    let first = api.take_activity("acts").await;
    api.post(&format!("{}/failure", activity_path(&first)), &json!({ "reason": "busy", "retryAfter": 0 }))
        .await
        .json(200);
    let told = basket.span("try do");
    assert!(first["traceparent"].as_str().unwrap().contains(&told.span_id.to_string()));
    let second = api.take_activity("acts").await;
    assert_ne!(second["traceparent"], first["traceparent"]);
    api.post(&format!("{}/success", activity_path(&second)), &json!({})).await.json(200);
    assert!(second["traceparent"].as_str().unwrap().contains(&basket.span("try do").span_id.to_string()));
    assert_eq!(basket.span("try do").parent, Some(basket.span("activity do").span_id));
}

#[tokio::test]
async fn a_run_without_a_trace_starts_one_by_the_sample_ratio() {
    for (ratio, flag) in [(1.0, "-01"), (0.0, "-00")] {
        let (api, basket) = exporting(ratio).await;
        api.ask(start(&json!({ "signal": { "name": "first" } }))).await.json(201);
        let started = event(&api, 1).await;
        let traceparent = started["traceparent"].as_str().unwrap();
        assert!(traceparent.ends_with(flag), "{traceparent}");
        assert_eq!(event(&api, 3).await.get("traceparent"), None, "its sender has no trace");
        let turn = api.decide(json!([{ "type": "SucceedWorkflow" }])).await;
        assert!(turn["traceparent"].as_str().unwrap().ends_with(flag), "{turn}");
        if ratio > 0.0 {
            let run = basket.span("workflow order");
            assert_eq!((run.parent, traceparent), (None, &*format!("00-{}-{}-01", run.trace_id, run.span_id)));
        } else {
            assert!(basket.0.lock().unwrap().is_empty());
        }
    }
}

#[tokio::test]
async fn an_unsampled_trace_has_no_spans_at_any_ratio() {
    let (api, basket) = exporting(1.0).await;
    api.ask(start(&json!({})).header("traceparent", &GIVEN.replace("-01", "-00"))).await.json(201);
    let turn = api.decide(json!([{ "type": "SucceedWorkflow" }])).await;
    assert!(turn["traceparent"].as_str().unwrap().ends_with("-00"), "{turn}");
    assert!(basket.0.lock().unwrap().is_empty());
}
