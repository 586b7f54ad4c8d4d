//! The `OpenAPI` document, generated from the code. `calls.rs` lists each call once, for both the router and the
//! document. The service responds with the copy recorded in `openapi.json.gz`, so that the program does not contain the
//! code that generates schemas. A test checks that the copy equals the generated document.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::LazyLock;

use axum::handler::Handler;
use axum::http::{Method, StatusCode};
use axum::routing::MethodFilter;
use bytes::Bytes;
use flate2::read::GzDecoder;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::access::{CallEffect, Level};
use crate::front::Front;
use crate::http::Routes;
use crate::openapi::{Operation, OperationHandler, combine, header, parameter, plain, plain_form};

type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

/// Possible response of a call.
struct CallReply {
    status: u16,
    what: &'static str,
    content: Vec<(&'static str, MakeSchema)>,
    headers: Vec<(&'static str, &'static str)>,
}

/// Parts of a call's documentation that cannot be generated from its handler's signature. Schemas are included only if
/// `DOC` is true, which is the case when the document is generated.
pub(crate) struct Doc<const DOC: bool> {
    id: &'static str,
    summary: &'static str,
    replies: Vec<CallReply>,
    refusals: Vec<(u16, &'static [&'static str])>,
}

impl<const DOC: bool> Doc<DOC> {
    /// Returns the documentation of a call with this operation id and summary.
    pub(crate) fn of(id: &'static str, summary: &'static str) -> Self {
        Self { id, summary, replies: Vec::new(), refusals: Vec::new() }
    }

    fn reply(mut self, status: u16, what: &'static str) -> Self {
        self.replies.push(CallReply { status, what, content: Vec::new(), headers: Vec::new() });
        self
    }

    /// Adds a body of type `T` with this media type to the last response.
    fn or<T: JsonSchema>(mut self, kind: &'static str) -> Self {
        if DOC && let Some(reply) = self.replies.last_mut() {
            reply.content.push((kind, |schemas| schemas.subschema_for::<T>()));
        }
        self
    }

    /// Adds a response with a JSON body of type `T`.
    pub(crate) fn answers<T: JsonSchema>(self, status: u16, what: &'static str) -> Self {
        self.reply(status, what).or::<T>("application/json")
    }

    /// Adds a response with a text body of this media type.
    pub(crate) fn answers_text(self, kind: &'static str, what: &'static str) -> Self {
        self.reply(200, what).or::<String>(kind)
    }

    /// Adds a response without a body.
    pub(crate) fn answers_nothing(self, status: u16, what: &'static str) -> Self {
        self.reply(status, what)
    }

    /// Adds a text body of this media type as an alternative to the last response.
    pub(crate) fn or_text(self, kind: &'static str) -> Self {
        self.or::<String>(kind)
    }

    /// Adds a header to the last response.
    pub(crate) fn with_header(mut self, name: &'static str, what: &'static str) -> Self {
        if let Some(reply) = self.replies.last_mut() {
            reply.headers.push((name, what));
        }
        self
    }

    /// Adds error codes to those that all calls have in common.
    pub(crate) fn refuses(mut self, status: u16, codes: &'static [&'static str]) -> Self {
        self.refusals.push((status, codes));
        self
    }
}

/// Media type of problem documents (RFC 9457).
const PROBLEM: &str = "application/problem+json";

struct CallRow<const DOC: bool> {
    method: Method,
    path: &'static str,
    effect: CallEffect,
    takes: fn(&mut Operation<'_>),
    doc: Doc<DOC>,
}

/// Calls of the API: their routes if `DOC` is false, their documentation if it is true.
pub(crate) struct CallTable<const DOC: bool> {
    routes: Routes,
    calls: Vec<CallRow<DOC>>,
}

macro_rules! methods {
    ($($name:ident $method:ident)*) => {
        impl<const DOC: bool> CallTable<DOC> {
            $(
                pub(crate) fn $name<H, T, D>(
                    self,
                    path: &'static str,
                    level: Level,
                    effect: CallEffect,
                    handler: H,
                    doc: Doc<DOC>,
                ) -> Self
                where
                    H: Handler<T, Front> + OperationHandler<D>,
                    T: 'static,
                {
                    let method = (Method::$method, stringify!($method), MethodFilter::$method);
                    self.call(method, path, (level, effect), handler, doc)
                }
            )*
        }
    };
}
methods!(put PUT post POST patch PATCH delete DELETE);

impl<const DOC: bool> CallTable<DOC> {
    pub(crate) fn none() -> Self {
        Self { routes: Routes::none(), calls: Vec::new() }
    }

    /// Adds a `GET` call, which changes nothing.
    pub(crate) fn get<H, T, D>(self, path: &'static str, level: Level, handler: H, doc: Doc<DOC>) -> Self
    where
        H: Handler<T, Front> + OperationHandler<D>,
        T: 'static,
    {
        self.call((Method::GET, "GET", MethodFilter::GET), path, (level, CallEffect::Reads), handler, doc)
    }

    fn call<H, T, D>(
        mut self,
        (method, name, filter): (Method, &'static str, MethodFilter),
        path: &'static str,
        (level, effect): (Level, CallEffect),
        handler: H,
        doc: Doc<DOC>,
    ) -> Self
    where
        H: Handler<T, Front> + OperationHandler<D>,
        T: 'static,
    {
        if DOC {
            self.calls.push(CallRow { method, path, effect, takes: H::describe, doc });
        } else {
            self.routes.add((name, filter), path, (level, effect), H::HAS_BODY, handler);
        }
        self
    }
}

impl CallTable<false> {
    pub(crate) fn into_routes(self) -> Routes {
        self.routes
    }
}

impl CallTable<true> {
    /// Generates the `OpenAPI` document.
    pub(crate) fn document(&self) -> Value {
        let settings = |place: &str| {
            let settings = SchemaSettings::draft2020_12().with(|it| {
                it.definitions_path = format!("/components/{place}").into();
                it.meta_schema = None;
            });
            settings.with_transform(RecursiveTransform(plain_form))
        };
        let strict = settings("schemas").for_deserialize().with_transform(RecursiveTransform(refuse_unknown_fields));
        let mut requests = strict.into_generator();
        let mut answers = settings("answers").for_serialize().into_generator();
        let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
        for call in &self.calls {
            let operation = operation(call, &mut requests, &mut answers);
            paths.entry(call.path).or_default().insert(call.method.as_str().to_lowercase(), operation);
        }
        answers.subschema_for::<client::body::Problem>();
        let (mut paths, mut responses) = (json!(paths), json!(shared_problems()));
        let (requests, answers) = (requests.take_definitions(true), answers.take_definitions(true));
        let schemas = combine(requests, answers, [&mut paths, &mut responses]);
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Baton",
                "version": env!("CARGO_PKG_VERSION"),
                "description": INTRODUCTION,
            },
            "security": [{}, { "secret": [] }],
            "tags": TAGS.map(|(name, what)| json!({ "name": name, "description": what })),
            "paths": paths,
            "components": {
                "schemas": schemas,
                "responses": responses,
                "securitySchemes": {
                    "secret": { "type": "http", "scheme": "bearer", "description": SECRET_DESCRIPTION },
                },
            },
        })
    }
}

/// Returns the recorded `OpenAPI` document as compact JSON.
pub fn recorded_document() -> Bytes {
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
        let (mut recorded, mut text) = (GzDecoder::new(include_bytes!("openapi.json.gz").as_slice()), Vec::new());
        recorded.read_to_end(&mut text).expect("a test reads it");
        text.into()
    });
    DOCUMENT.clone()
}

/// Description of the authentication scheme in the `OpenAPI` document.
const SECRET_DESCRIPTION: &str = "Needed if the service has credentials.";

/// Introduction at the beginning of the `OpenAPI` document.
const INTRODUCTION: &str = "Durable workflows as plain histories. Payloads (`input`, `result`, `details`, ...) are any \
    JSON value of at most 256 KiB and are stored byte for byte. Requests with unknown fields or parameters fail. Ignore \
    unknown fields in responses.";

/// Groups of calls in the `OpenAPI` document, with their descriptions.
const TAGS: [(&str, &str); 7] = [
    ("domains", "Domains, the namespaces of all names."),
    ("types", "Registered types of workflows and activities."),
    ("workflows", "Runs: start, signal, query, update, read, end and operate them."),
    ("schedules", "Schedules, which start runs at given times."),
    ("batches", "Batches: one operation on many runs."),
    ("tasks", "Polls of deciders and runners, and answers to tasks."),
    ("service", "The service itself."),
];

/// Returns the group of the calls at a path.
fn tag(path: &str) -> &'static str {
    let mut segments = path.split('/').skip(1);
    match (segments.next(), segments.next(), segments.nth(1)) {
        (Some("v1"), Some("domains"), Some("workflows" | "failures")) => "workflows",
        (Some("v1"), Some("domains"), Some("schedules")) => "schedules",
        (Some("v1"), Some("domains"), Some("batches")) => "batches",
        (Some("v1"), Some("domains"), Some("activity-types" | "workflow-types")) => "types",
        (Some("v1"), Some("domains"), Some("limit-groups" | "task-lists")) => "tasks",
        (Some("v1"), Some("domains"), _) => "domains",
        (Some("v1"), Some("audit" | "credentials" | "nodes" | "session"), _) => "service",
        (Some("v1"), ..) => "tasks",
        _ => "service",
    }
}

/// Error codes that all calls below `/v1` have in common, by status.
const REFUSALS: [(u16, &[&str]); 8] = [
    (400, &["bad-header", "bad-path", "bad-query"]),
    (
        401,
        &[
            "certificate-refused",
            "credential-expired",
            "credential-not-yet-valid",
            "credential-revoked",
            "session-expired",
            "token-refused",
            "unauthorized",
        ],
    ),
    (403, &["cross-site", "csrf-token-missing", "forbidden"]),
    (404, &["unknown-domain"]),
    (421, &["misdirected-request"]),
    (429, &["quota-exceeded", "too-many-failed-attempts"]),
    (500, &["corrupt", "internal"]),
    (503, &["outcome-unknown", "overloaded", "stopping", "unavailable"]),
];

/// Error codes that all calls have in common, by status.
const REFUSALS_EVERYWHERE: [(u16, &[&str]); 2] =
    [(400, &["bad-header", "tls-required"]), (421, &["misdirected-request"])];

/// Further error codes of calls that change something, with or without a body.
const REFUSALS_OF_WRITES: [(u16, &[&str]); 2] = [(415, &["unsupported-media-type"]), (507, &["disk-full"])];

/// Further error codes of calls with an audit entry. In the `OpenAPI` document, these calls share this response under
/// the name `CHANGE_UNAVAILABLE`.
const REFUSALS_OF_CHANGES: [(u16, &[&str]); 1] =
    [(503, &["audit-log-unavailable", "outcome-unknown", "overloaded", "stopping", "unavailable"])];
const CHANGE_UNAVAILABLE: &str = "ChangeUnavailable";

/// Further error codes of calls with a body.
const REFUSALS_OF_BODIES: [(u16, &[&str]); 4] = [
    (400, &["bad-json", "invalid-field"]),
    (408, &["request-timeout"]),
    (413, &["too-large"]),
    (415, &["unsupported-media-type"]),
];

/// Marks unknown fields as refused in a schema for requests. Requests refuse them even if the type itself ignores
/// unknown fields.
fn refuse_unknown_fields(schema: &mut Schema) {
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
        schema.insert("additionalProperties".to_owned(), false.into());
    }
}

/// Returns the description of the path parameter with this name.
fn segment(name: &str) -> &'static str {
    match name {
        "domain" => "Domain.",
        "activity" => "Activity id of an open activity, chosen by the decider.",
        "id" => "Id of the workflow, schedule or batch, as in the path.",
        "list" => "Name of the task list.",
        "group" => "Name of the limit group. 1 to 256 characters.",
        "type" => "Name of the type, or `name/version` if it has a version.",
        "token" => "Task token, unchanged from the poll.",
        "name" => "Name of the signal, query or update. 1 to 256 characters.",
        _ => "",
    }
}

/// Returns the error responses of a call, by status.
fn problems(call: &CallRow<true>, has_body: bool) -> Map<String, Value> {
    let mut codes: BTreeMap<u16, BTreeSet<&str>> = BTreeMap::new();
    let everywhere = if call.path.starts_with("/v1/") { REFUSALS.as_slice() } else { &REFUSALS_EVERYWHERE };
    let of_bodies = if has_body { REFUSALS_OF_BODIES.as_slice() } else { &[] };
    let is_write = call.method != Method::GET && call.method != Method::DELETE;
    let of_writes = if is_write { REFUSALS_OF_WRITES.as_slice() } else { &[] };
    let of_changes = if call.effect == CallEffect::Changes { REFUSALS_OF_CHANGES.as_slice() } else { &[] };
    let of_writes = of_writes.iter().chain(of_changes);
    for (status, more) in everywhere.iter().chain(of_bodies).chain(of_writes).chain(&call.doc.refusals) {
        codes.entry(*status).or_default().extend(*more);
    }
    let response = |(status, codes): (u16, BTreeSet<&str>)| {
        let is_shared =
            |refusal: &&(u16, &[&str])| refusal.0 == status && refusal.1.iter().copied().eq(codes.iter().copied());
        let shared = REFUSALS.iter().chain(&REFUSALS_OF_BODIES).find(is_shared);
        let shared = shared.map(|(status, _)| shared_name(*status));
        let shared =
            shared.or_else(|| REFUSALS_OF_CHANGES.iter().find(is_shared).map(|_| CHANGE_UNAVAILABLE.to_owned()));
        let response = match shared {
            Some(name) => json!({ "$ref": format!("#/components/responses/{name}") }),
            None => problem(status, &codes),
        };
        (status.to_string(), response)
    };
    codes.into_iter().map(response).collect()
}

/// Returns the error responses that several calls share, by name.
fn shared_problems() -> Map<String, Value> {
    // If both `REFUSALS_OF_BODIES` and `REFUSALS` contain a status, the codes in `REFUSALS` get the shared name. Calls
    // with a body then have a separate response for this status, with the codes of both lists.
    let refusals = REFUSALS_OF_BODIES.iter().chain(&REFUSALS);
    let named = refusals.map(|refusal| (shared_name(refusal.0), refusal));
    let named = named.chain(REFUSALS_OF_CHANGES.iter().map(|refusal| (CHANGE_UNAVAILABLE.to_owned(), refusal)));
    named.map(|(name, (status, codes))| (name, problem(*status, &codes.iter().copied().collect()))).collect()
}

/// Returns the name of a shared response, such as `NotFound` for 404.
fn shared_name(status: u16) -> String {
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    reason.unwrap_or_default().replace(' ', "")
}

fn problem(status: u16, codes: &BTreeSet<&str>) -> Value {
    let words: Vec<&str> = codes.iter().copied().collect();
    let mut response = json!({
        "description": words.join(", "),
        "content": { PROBLEM: { "schema": {
            "$ref": "#/components/schemas/Problem",
            "properties": { "code": { "enum": codes } },
        } } },
    });
    let header_of_status = match status {
        401 => Some(("WWW-Authenticate", "`Bearer`")),
        429 | 503 | 507 => Some(("Retry-After", "Delay in seconds before the next attempt, if known.")),
        _ => None,
    };
    if let (Some(response), Some((name, what))) = (response.as_object_mut(), header_of_status) {
        response.insert("headers".to_owned(), json!({ name: header(what) }));
    }
    response
}

fn operation(call: &CallRow<true>, requests: &mut SchemaGenerator, answers: &mut SchemaGenerator) -> Value {
    let mut operation = Operation { requests, parameters: Vec::new(), body: None, answer_headers: Map::new() };
    let in_path = call.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    for name in in_path {
        operation.parameters.push(parameter("path", name, true, segment(name), &json!({ "type": "string" })));
    }
    (call.takes)(&mut operation);
    let Operation { parameters, body, answer_headers, .. } = operation;
    let mut responses = Map::new();
    for reply in &call.doc.replies {
        let mut response = json!({ "description": reply.what });
        let content: Map<String, Value> = reply
            .content
            .iter()
            .map(|(kind, make)| ((*kind).to_owned(), json!({ "schema": plain(make(answers)) })))
            .collect();
        let mut headers = if reply.status < 400 { answer_headers.clone() } else { Map::new() };
        headers.extend(reply.headers.iter().map(|(name, what)| ((*name).to_owned(), header(what))));
        if let Some(response) = response.as_object_mut() {
            if !content.is_empty() {
                response.insert("content".to_owned(), content.into());
            }
            if !headers.is_empty() {
                response.insert("headers".to_owned(), headers.into());
            }
        }
        responses.insert(reply.status.to_string(), response);
    }
    responses.extend(problems(call, body.is_some()));
    let mut operation = json!({
        "operationId": call.doc.id,
        "tags": [tag(call.path)],
        "summary": call.doc.summary,
        "parameters": parameters,
        "responses": responses,
    });
    if let (Some(operation), Some(body)) = (operation.as_object_mut(), body) {
        operation.insert("requestBody".to_owned(), body);
    }
    operation
}
