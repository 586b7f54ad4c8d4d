//! The protocol of AWS SWF, so that programs written for SWF run unchanged: `POST /` with `X-Amz-Target` and AWS JSON
//! 1.0. This module translates requests and responses; it contains no workflow rules.
//!
//! Path of a call:
//!
//! * `call` finds the operation.
//! * `access` authenticates the caller by the signature.
//! * `read::request` reads only the members that the operation has (`operations.rs`), and `shape::reduce` checks them
//!   before authorization or any other code uses them.
//! * The function of the operation calls the engine.
//! * The response gets a request id.

mod access;
mod call;
mod decisions;
mod domains;
mod events;
mod fault;
mod fields;
mod operations;
mod page;
mod read;
mod shape;
mod signature;
mod tasks;
mod types;
mod visibility;
mod words;
mod workflows;

use std::sync::Arc;

use axum::Extension;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::post;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::access::{CallEffect, Caller, Credentials, Need, Pass};
use crate::audit::Names;
use crate::budget::{Purse, Who};
use crate::front::Front;
use crate::http::{
    Admission, Audited, Code, Interrupted, PeerPresence, RequestId, RequestNotes, SwfOperation, hold_answer,
    must_not_be_encoded, of_token, parsed, read_body, trace_of,
};
use crate::tls::Peer;
use call::{Answer, SwfCall};
use engine::Engine;
use engine::admission::RequestOrigin;
use fault::{FaultKind, SwfFault};
use operations::Operation;

pub(crate) use operations::rows;

/// Header with the name of the operation, after its last dot.
const TARGET: &str = "x-amz-target";

/// Header with the request id, which responses and logs contain.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");

/// Accepted content types: AWS JSON, and the type that boto 2 sends.
const CONTENT_TYPES: [&str; 3] = ["application/x-amz-json-1.0", "application/x-amz-json-1.1", "application/json"];

/// Maximum memory for the members of a request, as a multiple of the maximum request size. Our choice: enough for the
/// maximum number of decisions, each with the four objects that the largest kind of decision has.
const MEMBERS_PER_BYTE_MAX: usize = 7;

/// Content encoding that older AWS SDKs declare although their bodies are not encoded.
const PLAIN_ENCODINGS: [&str; 1] = ["amz-1.0"];

/// Region of requests whose signature contains none.
const REGION_DEFAULT: &str = "us-east-1";

/// Path of all operations.
pub(crate) const PATH: &str = "/";

/// Returns the router of the protocol, which has only one route.
pub(crate) fn router(front: Front, credentials: Credentials) -> Router {
    #[expect(clippy::disallowed_methods, reason = "its operations have their levels themselves")]
    let router = Router::new().route(PATH, post(call));
    router.layer(Extension(credentials)).with_state(front)
}

async fn call(State(front): State<Front>, request: Request) -> Response {
    let id = request.extensions().get::<RequestId>().cloned().unwrap_or_else(RequestId::new);
    let operation = operation(request.headers()).ok().map(|operation| SwfOperation(operation.name()));
    let response = match admit(&front, request).await {
        Ok(admitted) => run(admitted).await,
        Err(fault) => fault.into_response(),
    };
    with_request_id(&front, response, operation, &id)
}

/// Adds the request id and the name of the operation to a response, and charges the response to the memory budget. If
/// the budget is exhausted, returns a fault instead.
fn with_request_id(front: &Front, response: Response, operation: Option<SwfOperation>, id: &RequestId) -> Response {
    let held = hold_answer(front.budget(), response);
    let mut response = held.unwrap_or_else(|_| SwfFault::overloaded().into_response());
    if let Some(operation) = operation {
        response.extensions_mut().insert(operation);
    }
    if let Ok(id) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Parts of an admitted request that its operation needs. While a request waits, only these are kept in memory.
struct AdmittedAction {
    operation: Operation,
    call: SwfCall,
    input: Map<String, Value>,
    audited: Option<Audited>,
    admission: Admission,
    /// Credentials of the service; `None` if callers are not authenticated.
    credentials: Option<Credentials>,
    purse: Purse,
}

/// Runs the operation of an admitted request.
fn run(admitted: AdmittedAction) -> BoxFuture<'static, Response> {
    let AdmittedAction { operation, call, input, audited, admission, credentials, purse } = admitted;
    let engine = Arc::clone(&call.engine);
    let answer = match audited {
        None => operations::perform(operation, call, input),
        Some(audited) => Box::pin(perform(operation, call, input, audited)),
    };
    let work = admission.run(Box::pin(answer.map(into_response)));
    Box::pin(async move {
        let response = match work.await {
            Ok(response) => response,
            Err(Interrupted::Crowded(_)) => SwfFault::crowded().into_response(),
            Err(Interrupted::Revoked(holder)) => {
                let (fault, who) = (SwfFault::revoked(), Some(holder.name()));
                match &credentials {
                    Some(credentials) => noted(fault, credentials, &engine, who, operation).into_response(),
                    None => fault.into_response(),
                }
            }
        };
        drop(purse);
        response
    })
}

fn into_response(answer: Answer) -> Response {
    match answer {
        Ok(Some(response)) => response,
        Ok(None) => Response::new(Body::empty()),
        Err(fault) => fault.into_response(),
    }
}

/// Checks and reads a request: finds its operation, authenticates the caller, and checks its permission and quotas.
async fn admit(front: &Front, mut request: Request) -> Result<AdmittedAction, SwfFault> {
    let engine = front.engine();
    let operation = operation(request.headers())?;
    let log = request.extensions().get::<RequestNotes>().cloned().unwrap_or_default();
    let audited = Audited::of(&request).filter(|_| operation.effect() == CallEffect::Changes);
    log.operation(operation.name());
    must_be_json(request.headers())?;
    must_not_be_encoded(request.headers(), &PLAIN_ENCODINGS)?;
    let region = region(request.headers()).unwrap_or(REGION_DEFAULT).to_owned();
    let trace = trace_of(request.headers());
    let peer = request.extensions().get::<PeerPresence>().cloned().unwrap_or_default();
    let credentials = request.extensions().get::<Credentials>().cloned();
    let credentials = credentials.ok_or_else(|| SwfFault::new(FaultKind::Internal, "no credentials to look at"))?;
    // If no credentials are configured, callers are not authenticated.
    let credentials = Some(credentials).filter(|credentials| !credentials.is_empty());
    let signed = credentials.map(|credentials| (credentials, request.uri().clone(), request.headers().clone()));
    let claim = match &signed {
        Some((credentials, _, headers)) => {
            let peer = request.extensions().get::<Arc<Peer>>();
            let claim = access::claim(credentials, engine, headers, peer);
            Some(claim.map_err(|fault| noted(fault, credentials, engine, None, operation))?)
        }
        None => None,
    };
    // A caller with a signature is not authenticated until the signature has been verified with the body.
    let who = if claim.as_ref().is_none_or(access::Claim::is_proven) { Who::Known } else { Who::Stranger };
    let purse = Purse::new(front.budget(), who);
    request.extensions_mut().insert(purse.clone());
    let bytes = read_body(request, operation.body_bytes_max()).await?;
    let admitted = match (claim, &signed) {
        (Some(claim), Some((credentials, uri, headers))) => {
            let proven = claim.prove(credentials, engine, uri, headers, &bytes);
            Some(proven.map_err(|fault| noted(fault, credentials, engine, None, operation))?)
        }
        _ => None,
    };
    let holder = admitted.as_ref().map(|admitted| Arc::clone(admitted.holder()));
    log.by(holder.and_then(|holder| Caller::holding(holder).by()));
    purse.mark_known();
    // The parsed request contains only members that the operation has.
    let parse = move |bytes: &[u8]| shape::reduce(operation.fields(), object(operation, bytes)?);
    let (input, bytes) = parsed(bytes, MEMBERS_PER_BYTE_MAX * operation.body_bytes_max(), parse).await?;
    let need = access::need(operation, engine, &input);
    if let Some(domain) = need.as_ref().ok().and_then(Need::domain) {
        log.domain(domain);
    }
    let size = bytes.len() as u64;
    drop(bytes);
    let (Some(admitted), Some((credentials, ..))) = (admitted, signed) else {
        // An invalid task token is ignored at this point, because the operation itself reports it.
        let admission = admit_under_quotas(front, None, need.ok().as_ref(), operation, &input)?;
        admission.count_bytes(size);
        let call = SwfCall::new(front, Caller::anonymous(), region, trace, peer);
        return Ok(AdmittedAction { operation, call, input, audited, admission, credentials: None, purse });
    };
    let noted = |fault, who: &str| noted(fault, &credentials, engine, Some(who), operation);
    let may = need.and_then(|need| access::check(admitted.holder(), need));
    let need = may.map_err(|fault| noted(fault, admitted.holder().name()))?;
    let admission = admit_under_quotas(front, Some(admitted.holder().name()), Some(&need), operation, &input)?;
    admission.count_bytes(size);
    let pass = Pass::new(&credentials, engine.clock(), admitted, need);
    let caller = Caller::holding(Arc::clone(pass.holder()));
    let call = SwfCall::new(front, caller, region, trace, peer);
    let admission = admission.with_pass(Some(pass));
    Ok(AdmittedAction { operation, call, input, audited, admission, credentials: Some(credentials), purse })
}

/// Runs an operation that changes something, with an audit entry before it and an entry with the outcome after it.
async fn perform(operation: Operation, call: SwfCall, input: Map<String, Value>, audited: Audited) -> Answer {
    let names = names(&call.engine, operation, &input);
    let ticket = audited.change(call.caller.by(), operation.name().to_owned(), names);
    ticket.announce().await?;
    let answer = operations::perform(operation, call, input).await;
    match &answer {
        Ok(answer) => {
            let status = answer.as_ref().map_or(StatusCode::OK, Response::status);
            let code = answer.as_ref().and_then(|answer| answer.extensions().get::<Code>());
            ticket.tell(status, code.map(|code| code.0));
        }
        Err(fault) => ticket.tell(fault.status(), Some(fault.code())),
    }
    answer
}

/// Returns the names to record in the audit log, from the members of a request.
fn names(engine: &Engine, operation: Operation, input: &Map<String, Value>) -> Names {
    let mut names = Names::default();
    for (member, value) in input {
        let named = match value {
            Value::Object(group) => group.get("name").unwrap_or(value),
            value => value,
        };
        match (member.as_str(), named) {
            ("taskToken", Value::String(token)) => of_token(engine, operation.level(), token, &mut names),
            (member, Value::String(name)) => names.put(member, name),
            _ => {}
        }
    }
    names
}

/// Admits a request if its quotas permit it.
fn admit_under_quotas(
    front: &Front,
    credential: Option<&str>,
    need: Option<&Need>,
    operation: Operation,
    input: &Map<String, Value>,
) -> Result<Admission, SwfFault> {
    let has = |name: &str| input.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    // A request for a further page of a decision task names a task that was already dispatched. It is not counted as a
    // poll.
    let is_page = operation == Operation::PollForDecisionTask && has("nextPageToken");
    let asking = RequestOrigin {
        credential,
        domain: need.and_then(Need::domain),
        is_of_task: operation.is_of_task() || is_page,
    };
    Admission::new(front, asking).map_err(|throttled| SwfFault::from(&throttled))
}

/// Counts and logs a fault if it denies access, and returns the fault.
fn noted(fault: SwfFault, credentials: &Credentials, engine: &Engine, who: Option<&str>, asked: Operation) -> SwfFault {
    if let Some(denied) = fault.denied() {
        credentials.denials().note(engine, denied, who, asked.name());
    }
    fault
}

fn operation(headers: &HeaderMap) -> Result<Operation, SwfFault> {
    if headers.get_all(TARGET).iter().nth(1).is_some() {
        // If the header is repeated, a proxy and this service might use different values.
        let message = "X-Amz-Target must be sent exactly once".to_owned();
        return Err(SwfFault::new(FaultKind::UnknownOperation, message));
    }
    let target = headers.get(TARGET).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let name = target.rsplit('.').next().unwrap_or_default();
    Operation::named(name).ok_or_else(|| {
        let message = if name.is_empty() { String::new() } else { format!("Operation {name} is not known") };
        SwfFault::new(FaultKind::UnknownOperation, message)
    })
}

fn must_be_json(headers: &HeaderMap) -> Result<(), SwfFault> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if CONTENT_TYPES.iter().any(|known| essence.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    let message = format!("Content-Type must be {}, found '{essence}'", CONTENT_TYPES[0]);
    Err(SwfFault::new(FaultKind::UnknownOperation, message))
}

/// Returns the region in a signature's scope: `Credential=<key>/<date>/<region>/swf/aws4_request`.
fn region(headers: &HeaderMap) -> Option<&str> {
    let authorization = headers.get("authorization")?.to_str().ok()?;
    let (_, scope) = authorization.split_once("Credential=")?;
    let region = scope.split(',').next()?.split('/').nth(2)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    Some(region).filter(|region| !region.is_empty() && region.bytes().all(is_plain))
}

/// Parses the body as an object with the members that the operation has. An empty body is an empty object.
fn object(operation: Operation, bytes: &[u8]) -> Result<Map<String, Value>, SwfFault> {
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    // The fault has no message, as in AWS SWF.
    read::request(operation.fields(), bytes).map_err(|_| SwfFault::new(FaultKind::Serialization, String::new()))
}
