//! The `OpenAPI` document, made from one table of the API's calls. A test holds the table against the router.

use serde_json::{Map, Value, json};

/// One call of the API.
pub(crate) struct Call {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    summary: &'static str,
    /// The request's fields: name, JSON type, whether it must be there.
    body: &'static [Field],
    query: &'static [Field],
    answers: &'static [(u16, &'static str)],
}

type Field = (&'static str, &'static str, bool);

const RUN: &[Field] = &[("runId", "string", false)];
const PAGE: &[Field] = &[
    ("runId", "string", false),
    ("after", "integer", false),
    ("before", "integer", false),
    ("reverse", "boolean", false),
    ("limit", "integer", false),
];
const LIST: &[Field] = &[
    ("status", "string", false),
    ("type", "string", false),
    ("workflowId", "string", false),
    ("tag", "string", false),
    ("startedFrom", "string", false),
    ("startedBefore", "string", false),
    ("limit", "integer", false),
    ("page", "string", false),
];
const NEXT: Field = ("next", "object", false);

macro_rules! call {
    ($method:literal $path:literal $summary:literal, body $body:expr, query $query:expr, answers $answers:expr) => {
        Call { method: $method, path: $path, summary: $summary, body: $body, query: $query, answers: $answers }
    };
}

/// Every call.
pub(crate) const CALLS: &[Call] = &[
    call!("get" "/v1/domains" "Every domain", body &[], query &[], answers &[(200, "The domains")]),
    call!("post" "/v1/domains" "Create a domain",
        body &[("name", "string", true), ("description", "string", false), ("retention", "duration", false)],
        query &[], answers &[(201, "The domain"), (409, "domain-exists")]),
    call!("get" "/v1/domains/{domain}" "One domain", body &[], query &[],
        answers &[(200, "The domain"), (404, "unknown-domain")]),
    call!("get" "/v1/domains/{domain}/workflows" "Runs, newest start first", body &[], query LIST,
        answers &[(200, "A page of runs"), (404, "unknown-domain")]),
    call!("post" "/v1/domains/{domain}/workflows" "Start a run; `Prefer: wait` for its end",
        body &[("workflowId", "string", true), ("workflowType", "string", true), ("taskList", "string", false),
            ("input", "payload", false), ("executionTimeout", "duration", false),
            ("deciderStartToClose", "duration", false), ("deciderScheduleToStart", "duration", false),
            ("activityTimeouts", "object", false), ("tags", "array", false), ("retention", "duration", false),
            ("reusePolicy", "string", false), ("identity", "string", false)],
        query &[],
        answers &[(201, "Started"), (200, "Repeated with the same Idempotency-Key"),
            (409, "workflow-already-open, workflow-id-reuse-refused")]),
    call!("get" "/v1/domains/{domain}/workflows/count" "How many runs", body &[], query LIST,
        answers &[(200, "The count")]),
    call!("get" "/v1/domains/{domain}/workflows/{id}" "The state of a run", body &[], query RUN,
        answers &[(200, "The state, with an ETag"), (404, "unknown-workflow, unknown-run")]),
    call!("get" "/v1/domains/{domain}/workflows/{id}/history" "Events of a run; `Prefer: wait` or an event stream",
        body &[], query PAGE, answers &[(200, "A page of events"), (404, "unknown-workflow, unknown-run")]),
    call!("get" "/v1/domains/{domain}/workflows/{id}/result" "How a run ended; `Prefer: wait`", body &[], query RUN,
        answers &[(200, "It has closed"), (202, "It is open"), (404, "unknown-workflow, unknown-run")]),
    call!("post" "/v1/domains/{domain}/workflows/{id}/signals/{name}" "Signal a run",
        body &[("input", "payload", false), ("identity", "string", false)], query RUN,
        answers &[(202, "Recorded"), (409, "run-closed, run-not-current"), (412, "version-moved")]),
    call!("post" "/v1/domains/{domain}/workflows/{id}/cancel" "Ask for a run to be canceled",
        body &[("reason", "string", false), ("identity", "string", false)], query RUN,
        answers &[(202, "Recorded"), (409, "run-closed, run-not-current")]),
    call!("post" "/v1/domains/{domain}/workflows/{id}/terminate" "End a run",
        body &[("reason", "string", false), ("details", "payload", false), ("identity", "string", false)], query RUN,
        answers &[(200, "Recorded"), (409, "run-closed, run-not-current")]),
    call!("post" "/v1/domains/{domain}/task-lists/{list}/decider/poll" "Take a turn; `Prefer: wait`",
        body &[("identity", "string", false), ("maxEvents", "integer", false)], query &[],
        answers &[(200, "A decider task"), (204, "None came")]),
    call!("post" "/v1/domains/{domain}/task-lists/{list}/activity/poll" "Take an activity; `Prefer: wait`",
        body &[("identity", "string", false)], query &[], answers &[(200, "An activity task"), (204, "None came")]),
    call!("get" "/v1/decider-tasks/{token}/history" "Look back, never past the turn's own DeciderStarted", body &[],
        query PAGE, answers &[(200, "A page of events"), (400, "bad-token")]),
    call!("post" "/v1/decider-tasks/{token}/complete" "Answer a turn",
        body &[("decisions", "array", false), ("context", "payload", false), NEXT], query &[],
        answers &[(200, "Recorded"), (409, "turn-completed, turn-lost, run-closed")]),
    call!("post" "/v1/decider-tasks/{token}/fail" "Give a turn back",
        body &[("reason", "string", false), ("details", "payload", false), NEXT], query &[],
        answers &[(200, "Recorded"), (409, "turn-completed, turn-lost, run-closed")]),
    call!("post" "/v1/activity-tasks/{token}/success" "The activity is done",
        body &[("result", "payload", false), NEXT], query &[],
        answers &[(200, "Recorded"), (409, "activity-closed, run-closed")]),
    call!("post" "/v1/activity-tasks/{token}/failure" "The activity could not be done",
        body &[("reason", "string", true), ("details", "payload", false), ("nonRetryable", "boolean", false), NEXT],
        query &[], answers &[(200, "Recorded"), (409, "activity-closed, run-closed")]),
    call!("post" "/v1/activity-tasks/{token}/canceled" "The activity stopped, as it was asked to",
        body &[("details", "payload", false), NEXT], query &[],
        answers &[(200, "Recorded"), (409, "activity-closed, cancel-not-requested, run-closed")]),
    call!("post" "/v1/activity-tasks/{token}/heartbeat" "The activity is alive",
        body &[("details", "payload", false)], query &[],
        answers &[(200, "Whether it should stop"), (409, "activity-closed")]),
    call!("get" "/healthz" "Whether the process answers", body &[], query &[], answers &[(200, "It does")]),
    call!("get" "/readyz" "Whether the service takes work", body &[], query &[],
        answers &[(200, "It does"), (503, "stopping")]),
    call!("get" "/metrics" "Metrics, as OpenMetrics text", body &[], query &[], answers &[(200, "The metrics")]),
    call!("get" "/openapi.json" "This document", body &[], query &[], answers &[(200, "This document")]),
];

fn schema(kind: &str) -> Value {
    match kind {
        "payload" => json!({ "description": "Any JSON value, kept byte for byte, at most 256 KiB" }),
        "duration" => json!({
            "description": "An ISO 8601 duration such as PT30S, or a number of seconds",
            "oneOf": [{ "type": "string" }, { "type": "number" }],
        }),
        "array" => json!({ "type": "array", "items": {} }),
        kind => json!({ "type": kind }),
    }
}

fn operation(call: &Call) -> Value {
    let in_path = call.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = in_path
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    parameters.extend(call.query.iter().map(
        |(name, kind, required)| json!({ "name": name, "in": "query", "required": required, "schema": schema(kind) }),
    ));
    let mut responses: Map<String, Value> =
        call.answers.iter().map(|(status, what)| (status.to_string(), json!({ "description": what }))).collect();
    responses.insert(
        "default".to_owned(),
        json!({
            "description": "A problem (RFC 9457)",
            "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
        }),
    );
    let mut operation = json!({ "summary": call.summary, "parameters": parameters, "responses": responses });
    if call.method == "post"
        && let Some(operation) = operation.as_object_mut()
    {
        let properties: Map<String, Value> =
            call.body.iter().map(|(name, kind, _)| ((*name).to_owned(), schema(kind))).collect();
        let required: Vec<&str> = call.body.iter().filter(|(_, _, must)| *must).map(|(name, _, _)| *name).collect();
        let body =
            json!({ "type": "object", "additionalProperties": false, "properties": properties, "required": required });
        operation.insert("requestBody".to_owned(), json!({ "content": { "application/json": { "schema": body } } }));
    }
    operation
}

/// The document.
pub(crate) fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for call in CALLS {
        let path = paths.entry(call.path).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(call.method.to_owned(), operation(call));
        }
    }
    let decisions: Vec<Value> = history::Decision::NAMES.iter().map(|name| json!(name)).collect();
    let events: Vec<Value> = history::EventKind::NAMES.iter().map(|name| json!(name)).collect();
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Baton", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": { "schemas": {
            "Problem": {
                "type": "object",
                "required": ["type", "title", "status", "detail", "code", "retryable", "recorded", "advice"],
                "properties": {
                    "type": { "type": "string" }, "title": { "type": "string" }, "status": { "type": "integer" },
                    "detail": { "type": "string" }, "code": { "type": "string" },
                    "retryable": { "type": "boolean" }, "recorded": { "enum": [false, "unknown"] },
                    "advice": { "type": "string" },
                },
            },
            "Decision": { "type": "object", "required": ["type"], "properties": { "type": { "enum": decisions } } },
            "Event": {
                "type": "object",
                "required": ["id", "timestamp", "type"],
                "properties": {
                    "id": { "type": "integer" },
                    "timestamp": { "type": "string", "format": "date-time" },
                    "type": { "enum": events },
                },
            },
        } },
    })
}
