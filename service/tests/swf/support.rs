//! The service in process, and raw requests over the SWF protocol.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use engine::{Engine, Settings, SystemClock};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use simulation::stores::fresh;
use tower::ServiceExt;

pub(crate) const SWF: &str = "com.amazonaws.swf.base.model#";

pub(crate) struct Swf {
    pub(crate) router: Router,
}

/// A response with its whole body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    /// Returns the body of a success.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text);
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    #[track_caller]
    pub(crate) fn status_is(&self, status: u16) {
        assert_eq!(self.status, status, "{}", self.text);
    }

    /// Checks for a success without a body.
    #[track_caller]
    pub(crate) fn nothing(&self) {
        assert_eq!((self.status, self.text.as_str()), (200, ""));
    }

    /// Checks for a fault with exactly this type and message.
    #[track_caller]
    pub(crate) fn fault(&self, kind: &str, message: &str) {
        assert_eq!(self.status, 400, "{}", self.text);
        let fault: Value = serde_json::from_str(&self.text).unwrap();
        assert_eq!(fault, json!({ "__type": kind, "message": message }));
    }

    /// Checks for a validation fault with exactly this message.
    #[track_caller]
    pub(crate) fn invalid(&self, message: &str) {
        self.fault("com.amazon.coral.validate#ValidationException", message);
    }
}

impl Swf {
    pub(crate) async fn open() -> Self {
        let settings = Settings { seed: Some(7), ..Settings::default() };
        let engine = Engine::open(fresh().await, Arc::new(SystemClock), settings).await.unwrap();
        Self { router: service::api::router(engine) }
    }

    /// Sends a request to the protocol's only path.
    pub(crate) async fn send(&self, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
        let mut request = Request::post("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.request(request.body(body.into()).unwrap()).await
    }

    /// Sends any request.
    pub(crate) async fn request(&self, request: Request<Body>) -> Answer {
        let (parts, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answer { status: parts.status.as_u16(), headers: parts.headers, text }
    }

    /// Sends an operation like an SDK.
    pub(crate) async fn ask(&self, operation: &str, body: &Value) -> Answer {
        let target = format!("SimpleWorkflowService.{operation}");
        let headers = [("x-amz-target", target.as_str()), ("content-type", "application/x-amz-json-1.0")];
        self.send(&headers, body.to_string()).await
    }
}

/// A service with registered types in domain `default`.
pub(crate) async fn ready() -> Swf {
    let swf = Swf::open().await;
    register(&swf).await;
    swf
}

/// Registers the types of domain `default`.
pub(crate) async fn register(swf: &Swf) {
    register_in(swf, "default").await;
}

/// Registers a domain's types.
pub(crate) async fn register_in(swf: &Swf, domain: &str) {
    let workflow = json!({
        "domain": domain, "name": "order", "version": "1",
        "defaultTaskStartToCloseTimeout": "60", "defaultExecutionStartToCloseTimeout": "3600",
        "defaultTaskList": { "name": "deciders" }, "defaultChildPolicy": "TERMINATE",
    });
    swf.ask("RegisterWorkflowType", &workflow).await.nothing();
    let activity = json!({
        "domain": domain, "name": "charge", "version": "1",
        "defaultTaskStartToCloseTimeout": "60", "defaultTaskHeartbeatTimeout": "NONE",
        "defaultTaskScheduleToStartTimeout": "60", "defaultTaskScheduleToCloseTimeout": "120",
        "defaultTaskList": { "name": "runners" },
    });
    swf.ask("RegisterActivityType", &activity).await.nothing();
}

pub(crate) fn kind() -> Value {
    json!({ "name": "order", "version": "1" })
}

pub(crate) async fn start(swf: &Swf, id: &str) -> String {
    let start = json!({ "domain": "default", "workflowId": id, "workflowType": kind(), "input": "in" });
    swf.ask("StartWorkflowExecution", &start).await.json()["runId"].as_str().unwrap().to_owned()
}

pub(crate) fn execution(id: &str, run_id: &str) -> Value {
    json!({ "domain": "default", "execution": { "workflowId": id, "runId": run_id } })
}
