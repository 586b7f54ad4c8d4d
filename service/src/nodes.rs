//! Calls between nodes over one store. Only nodes that know the store's secret can make them; they are not part of
//! the API.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use axum::extract::{FromRequest, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use client::body::Problem;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::access::Level;
use crate::http::{Answer, AppState, BODY_BYTES_MAX, Json, NODE_SCHEME, Refused, Routes, TURN_BYTES_MAX, json};
use engine::{
    Engine, Forwarded, ForwardedOutput, ForwardedTasks, FromNode, FromOutputReader, FromOutputWriter, FromRecorder,
    FromValidator, HomeReport, LentUpdate, ListName, Offer, OutputRequest, PassedAnswer, Peers, RejectedUpdate,
    ShowLimits, SlotReports, StrayAnswer, numbers,
};

/// Timeout of a call between nodes. Our choice: longer than a healthy node takes to respond.
const PEER_WAIT: Duration = Duration::from_secs(2);

/// Timeout of recording a decider's answer at another node. Our choice: long enough for a commit that is retried
/// because the store is busy.
const RECORD_WAIT: Duration = Duration::from_secs(10);

/// Header with the format version of a message between nodes. If the header is absent, the version is the first one.
const FORM: HeaderName = HeaderName::from_static("baton-nodes");

/// Extractor of another node's message. Refuses messages with an unknown format version.
struct PeerMessage<T, const MAX: usize = BODY_BYTES_MAX>(T);

impl<S: Send + Sync, T: DeserializeOwned + Send + 'static, const MAX: usize> FromRequest<S> for PeerMessage<T, MAX> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        must_be_known(request.headers())?;
        Json::<T, MAX>::from_request(request, state).await.map(|Json(message)| Self(message))
    }
}

fn must_be_known(headers: &HeaderMap) -> Result<(), Refused> {
    let refused = |problem| Err(Refused::BadHeader { header: FORM, problem });
    let Some(form) = headers.get(FORM) else { return Ok(()) };
    match form.to_str().ok().and_then(|form| form.parse::<u32>().ok()) {
        None => refused("is not a number".to_owned()),
        Some(form) if form > numbers::MESSAGES => refused(format!(
            "is {form}, but this node, of version {}, supports at most {}: the sending node is newer",
            env!("CARGO_PKG_VERSION"),
            numbers::MESSAGES
        )),
        Some(_) => Ok(()),
    }
}

/// Message: a poller is waiting for tasks of this list at the node `at`.
#[derive(Debug, Serialize, Deserialize)]
struct WaitingThere {
    at: String,
    list: ListName,
}

/// Message: the node `by` offers a task to the receiver, which has a waiting poller.
#[derive(Debug, Serialize, Deserialize)]
struct OfferedTask {
    by: String,
    offer: Offer,
}

/// Response that tells whether the receiver has accepted something, such as an offered task.
#[derive(Debug, Serialize, Deserialize)]
struct IsTaken {
    taken: bool,
}

/// Message: the responses to these polls were lost.
#[derive(Debug, Serialize, Deserialize)]
struct Lost {
    polls: Vec<u64>,
}

/// Response to [`Lost`]: the task that had been started for one of the polls, if any.
#[derive(Debug, Serialize, Deserialize)]
struct FoundTask {
    offer: Option<Offer>,
}

async fn waiting(State(engine): AppState, PeerMessage(waiting): PeerMessage<WaitingThere>) -> Answer {
    engine.lists().waits_at(waiting.at, &waiting.list);
    Ok(json(StatusCode::OK, &serde_json::json!({})))
}

async fn forwarded(State(engine): AppState, PeerMessage(tasks): PeerMessage<ForwardedTasks>) -> Answer {
    Ok(json(StatusCode::OK, &IsTaken { taken: engine.lists().take_forwarded(&tasks) }))
}

async fn slots(State(engine): AppState, PeerMessage(reports): PeerMessage<SlotReports>) -> Answer {
    Ok(json(StatusCode::OK, &IsTaken { taken: engine.lists().take_reports(&reports) }))
}

async fn limits(State(engine): AppState, PeerMessage(request): PeerMessage<ShowLimits>) -> Answer {
    Ok(json(StatusCode::OK, &engine.lists().show_limits_to_node(&request)))
}

async fn lost(State(engine): AppState, PeerMessage(lost): PeerMessage<Lost>) -> Answer {
    let offer = engine.lists().find_lost_for_peer(&lost.polls);
    Ok(json(StatusCode::OK, &FoundTask { offer }))
}

async fn offered(State(engine): AppState, PeerMessage(offered): PeerMessage<OfferedTask>) -> Answer {
    let taken = engine.lists().take_offer(&offered.by, &offered.offer);
    Ok(json(StatusCode::OK, &IsTaken { taken }))
}

async fn asked(State(engine): AppState, PeerMessage(forwarded): PeerMessage<Forwarded>) -> Answer {
    Ok(json(StatusCode::OK, &engine.request_reply().query_for_node(forwarded).await))
}

async fn validate(State(engine): AppState, PeerMessage(lent): PeerMessage<LentUpdate>) -> Answer {
    Ok(json(StatusCode::OK, &engine.request_reply().validate_for_node(lent).await))
}

async fn recorded(State(engine): AppState, PeerMessage(answer): PeerMessage<PassedAnswer, TURN_BYTES_MAX>) -> Answer {
    Ok(json(StatusCode::OK, &engine.tasks().record_for_node(answer).await))
}

async fn withdrawn(State(engine): AppState, PeerMessage(rejected): PeerMessage<RejectedUpdate>) -> Answer {
    Ok(json(StatusCode::OK, &IsTaken { taken: engine.request_reply().withdraw_for_node(rejected) }))
}

async fn query_results(
    State(engine): AppState,
    PeerMessage(answer): PeerMessage<StrayAnswer, TURN_BYTES_MAX>,
) -> Answer {
    Ok(json(StatusCode::OK, &IsTaken { taken: engine.request_reply().deliver_answers(answer) }))
}

async fn append_output(
    State(engine): AppState,
    PeerMessage(output): PeerMessage<ForwardedOutput, TURN_BYTES_MAX>,
) -> Answer {
    Ok(json(StatusCode::OK, &engine.outputs().append_for_node(output).await))
}

async fn read_output(State(engine): AppState, PeerMessage(request): PeerMessage<OutputRequest>) -> Answer {
    Ok(json(StatusCode::OK, &engine.outputs().read_for_node(request).await))
}

/// Returns the routes of calls between nodes.
pub(super) fn routes() -> Routes {
    Routes::none()
        .post("/nodes/waiting", Level::Node, waiting)
        .post("/nodes/offer", Level::Node, offered)
        .post("/nodes/forward", Level::Node, forwarded)
        .post("/nodes/slots", Level::Node, slots)
        .post("/nodes/limits", Level::Node, limits)
        .post("/nodes/query", Level::Node, asked)
        .post("/nodes/validate-update", Level::Node, validate)
        .post("/nodes/record", Level::Node, recorded)
        .post("/nodes/withdraw-update", Level::Node, withdrawn)
        .post("/nodes/query-results", Level::Node, query_results)
        .post("/nodes/lost", Level::Node, lost)
        .post("/nodes/append-output", Level::Node, append_output)
        .post("/nodes/read-output", Level::Node, read_output)
}

/// Certificates and keys for TLS between nodes, in PEM format.
#[derive(Clone, Default)]
pub struct NodeTrust {
    /// Certificates of the trusted authorities; if absent, the authorities that the machine trusts.
    pub ca: Option<Vec<u8>>,
    /// This node's certificate with its key, for nodes that require client certificates.
    pub own: Option<Vec<u8>>,
}

impl std::fmt::Debug for NodeTrust {
    /// Formats the value without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeTrust").field("has_ca", &self.ca.is_some()).finish_non_exhaustive()
    }
}

/// Client for calls to other nodes over HTTP.
struct HttpTransport {
    http: RwLock<reqwest::Client>,
    me: String,
    /// Addresses of nodes without TLS about which a warning was already logged. A node with TLS sends no messages to
    /// nodes without TLS.
    shunned: Mutex<BTreeSet<String>>,
    /// Addresses of nodes that do not understand this node's messages, and about which a warning was already logged.
    puzzled: Mutex<BTreeSet<String>>,
    /// Engine that generates the pass, the header value with which a node authenticates its calls. Weak, because the
    /// engine owns this client.
    engine: Weak<Engine>,
}

/// Connection of this node to all other nodes. With it, the certificates of this node can be renewed.
pub struct Joined(Arc<HttpTransport>);

impl std::fmt::Debug for Joined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Joined").field("me", &self.0.me).finish_non_exhaustive()
    }
}

impl Joined {
    /// Prepares an HTTP client with new trusted authorities or a new certificate.
    ///
    /// # Errors
    ///
    /// If the data is not in PEM format.
    pub fn prepare(&self, trust: &NodeTrust) -> Result<Renewal, String> {
        http_client(&self.0.me, trust).map(Renewal)
    }

    /// Makes new connections use the prepared client.
    pub fn renew(&self, Renewal(http): Renewal) {
        *self.0.http.write().unwrap_or_else(PoisonError::into_inner) = http;
    }
}

/// Prepared HTTP client for calls to other nodes.
#[derive(Debug)]
pub struct Renewal(reqwest::Client);

fn is_encrypted(address: &str) -> bool {
    address.starts_with("https://")
}

fn http_client(me: &str, trust: &NodeTrust) -> Result<reqwest::Client, String> {
    let http = reqwest::Client::builder().connect_timeout(PEER_WAIT).tcp_nodelay(true).no_proxy();
    // Redirects are not followed, because the authentication header is only for the addressed node.
    let http = http.redirect(reqwest::redirect::Policy::none());
    if !is_encrypted(me) {
        return http.tls_certs_only([]).build().map_err(|error| error.to_string());
    }
    let http = match &trust.ca {
        None => http,
        Some(ca) => {
            let found = reqwest::Certificate::from_pem_bundle(ca).map_err(|error| error.to_string())?;
            if found.is_empty() {
                return Err("it contains no certificate of an authority; expected PEM".to_owned());
            }
            http.tls_certs_only(found)
        }
    };
    let http = match &trust.own {
        None => http,
        Some(own) => http.identity(reqwest::Identity::from_pem(own).map_err(|error| error.to_string())?),
    };
    http.https_only(true).build().map_err(|error| error.to_string())
}

impl HttpTransport {
    /// Returns the header value that authenticates the next call. It is generated for each call, because the secret
    /// that it depends on is rotated.
    fn pass(&self) -> Result<HeaderValue, String> {
        let engine = self.engine.upgrade().ok_or("this node has stopped")?;
        let mut pass =
            HeaderValue::try_from(format!("{NODE_SCHEME}{}", engine.node_pass())).map_err(|error| error.to_string())?;
        pass.set_sensitive(true);
        Ok(pass)
    }

    /// Fails if this node has TLS and the other node does not, because the authentication header must not be sent
    /// unencrypted.
    fn may_ask(&self, url: &str) -> Result<(), String> {
        if is_encrypted(url) || !is_encrypted(&self.me) {
            return Ok(());
        }
        let node = url.split("/nodes/").next().unwrap_or_default();
        let mut shunned = self.shunned.lock().unwrap_or_else(PoisonError::into_inner);
        if shunned.insert(node.to_owned()) {
            tracing::warn!(node, "messages are not sent to a node without TLS, because this node has TLS");
        }
        Err(format!("{node} is an address without TLS"))
    }

    /// Describes the refusal of a call by another node. If that node does not understand the message, this is logged
    /// once per node.
    async fn refusal(&self, url: &str, answer: reqwest::Response) -> String {
        let status = answer.status();
        let bytes = answer.bytes().await.unwrap_or_default();
        let problem: Option<Problem> = history::read_json(&bytes).ok();
        let why = problem.map_or_else(|| status.to_string(), |problem| format!("{status}: {}", problem.detail));
        let (node, call) = url.split_once("/nodes/").unwrap_or_default();
        if matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND) {
            let mut puzzled = self.puzzled.lock().unwrap_or_else(PoisonError::into_inner);
            if puzzled.insert(node.to_owned()) {
                tracing::warn!(
                    node,
                    call,
                    why,
                    "a node does not understand this one: both continue, and messages between them may be delayed \
                     until both have the same version"
                );
            }
        }
        why
    }

    async fn call(&self, url: String, body: &impl Serialize) -> Result<Vec<u8>, String> {
        self.call_within(url, body, PEER_WAIT).await
    }

    async fn call_within(&self, url: String, body: &impl Serialize, wait: Duration) -> Result<Vec<u8>, String> {
        self.may_ask(&url)?;
        let body = serde_json::to_vec(body).map_err(|error| error.to_string())?;
        let http = self.http.read().unwrap_or_else(PoisonError::into_inner).clone();
        let request = http.post(&url).header(AUTHORIZATION, self.pass()?).header("content-type", "application/json");
        let request = request.header(FORM, numbers::MESSAGES);
        let answer = request.timeout(wait).body(body).send().await.map_err(|error| error.to_string())?;
        if !answer.status().is_success() {
            return Err(self.refusal(&url, answer).await);
        }
        answer.bytes().await.map(Into::into).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl Peers for HttpTransport {
    async fn wait_on(&self, node: &str, list: &ListName) -> Result<(), String> {
        let waiting = WaitingThere { at: self.me.clone(), list: list.clone() };
        self.call(format!("{node}/nodes/waiting"), &waiting).await.map(drop)
    }

    async fn offer(&self, node: &str, offer: &Offer) -> Result<bool, String> {
        let offered = OfferedTask { by: self.me.clone(), offer: offer.clone() };
        let answer = self.call(format!("{node}/nodes/offer"), &offered).await?;
        read(&answer).map(|IsTaken { taken }| taken)
    }

    async fn forward(&self, node: &str, tasks: &ForwardedTasks) -> Result<bool, String> {
        let taken = self.call(format!("{node}/nodes/forward"), tasks).await?;
        read(&taken).map(|IsTaken { taken }| taken)
    }

    async fn report_slots(&self, node: &str, reports: &SlotReports) -> Result<bool, String> {
        let taken = self.call(format!("{node}/nodes/slots"), reports).await?;
        read(&taken).map(|IsTaken { taken }| taken)
    }

    async fn show_limits(&self, node: &str, request: &ShowLimits) -> Result<Vec<HomeReport>, String> {
        read(&self.call(format!("{node}/nodes/limits"), request).await?)
    }

    async fn lost(&self, node: &str, polls: &[u64]) -> Result<Option<Offer>, String> {
        let answer = self.call(format!("{node}/nodes/lost"), &Lost { polls: polls.to_vec() }).await?;
        read(&answer).map(|FoundTask { offer }| offer)
    }

    async fn query(&self, node: &str, forwarded: &Forwarded) -> Result<FromNode, String> {
        let answer = self.call_within(format!("{node}/nodes/query"), forwarded, forwarded.wait + PEER_WAIT).await?;
        read(&answer)
    }

    async fn validate(&self, node: &str, lent: &LentUpdate) -> Result<FromValidator, String> {
        let answer = self.call_within(format!("{node}/nodes/validate-update"), lent, lent.wait + PEER_WAIT).await?;
        read(&answer)
    }

    async fn record(&self, node: &str, answer: &PassedAnswer) -> Result<FromRecorder, String> {
        let answer = self.call_within(format!("{node}/nodes/record"), answer, RECORD_WAIT).await?;
        read(&answer)
    }

    async fn withdraw_update(&self, node: &str, rejected: &RejectedUpdate) -> Result<bool, String> {
        let answer = self.call(format!("{node}/nodes/withdraw-update"), rejected).await?;
        read(&answer).map(|IsTaken { taken }| taken)
    }

    async fn deliver_results(&self, node: &str, answer: &StrayAnswer) -> Result<bool, String> {
        let taken = self.call(format!("{node}/nodes/query-results"), answer).await?;
        read(&taken).map(|IsTaken { taken }| taken)
    }

    async fn append_output(&self, node: &str, output: &ForwardedOutput) -> Result<FromOutputWriter, String> {
        let answer = self.call(format!("{node}/nodes/append-output"), output).await?;
        read(&answer)
    }

    async fn read_output(&self, node: &str, request: &OutputRequest) -> Result<FromOutputReader, String> {
        let answer = self.call_within(format!("{node}/nodes/read-output"), request, request.wait + PEER_WAIT).await?;
        read(&answer)
    }
}

fn read<T: DeserializeOwned>(answer: &[u8]) -> Result<T, String> {
    history::read_json(answer).map_err(|error| error.to_string())
}

/// Connects this node with the other nodes over unencrypted HTTP. The engine must have been opened as a
/// [`Node`](engine::Node) with this address, and be served by [`router_for`](crate::api::router_for).
///
/// # Errors
///
/// If the HTTP client cannot be created.
pub fn join(engine: &Arc<Engine>, address: &str) -> Result<(), String> {
    join_trusting(engine, address, &NodeTrust::default()).map(drop)
}

/// Connects nodes like [`join`], but for an `https` address. Messages are sent only to nodes whose certificates are
/// trusted.
///
/// # Errors
///
/// If the HTTP client cannot be created, or the certificates are not in PEM format.
pub fn join_trusting(engine: &Arc<Engine>, address: &str, trust: &NodeTrust) -> Result<Joined, String> {
    let http = RwLock::new(http_client(address, trust)?);
    let (me, engine_of) = (address.to_owned(), Arc::downgrade(engine));
    let over_http =
        Arc::new(HttpTransport { http, me, shunned: Mutex::default(), puzzled: Mutex::default(), engine: engine_of });
    engine.join(Arc::clone(&over_http) as Arc<dyn Peers>);
    Ok(Joined(over_http))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_node_with_tls_sends_nothing_to_one_without() {
        let reach = |me: &str| {
            let http = RwLock::new(http_client(me, &NodeTrust::default()).unwrap());
            HttpTransport {
                http,
                me: me.to_owned(),
                shunned: Mutex::default(),
                puzzled: Mutex::default(),
                engine: Weak::new(),
            }
        };
        for (me, to, says) in [
            ("https://a", "http://b", "http://b is an address without TLS"),
            // Sending is permitted between these addresses. The call fails later, because this test has no engine.
            ("https://a", "https://b", "this node has stopped"),
            ("http://a", "http://b", "this node has stopped"),
            ("http://a", "https://b", "this node has stopped"),
        ] {
            assert_eq!(reach(me).lost(to, &[1]).await.unwrap_err(), says, "{me} to {to}");
        }
    }
}
