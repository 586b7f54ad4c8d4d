//! Nodes over one store talk to each other: a few small calls, for those who know the store's secret. No part of the API.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use axum::extract::State;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};

use super::auth::NODE_SCHEME;
use super::extract::{Json, TURN_BYTES_MAX};
use super::{Answer, AppState, Routes, json};
use crate::access::Level;
use crate::engine::{
    Engine, Forwarded, FromJudge, FromNode, FromRecorder, LentUpdate, ListName, Offer, PassedAnswer, Peers,
    RejectedUpdate, Said,
};

/// How long a node may take to answer another. Longer than any pause that is not a failure.
const PEER_WAIT: Duration = Duration::from_secs(2);

/// How long a node may take to record what a decider said. Ours: a commit that has to be tried again because the store is busy.
const RECORD_WAIT: Duration = Duration::from_secs(10);

/// Somebody waits at a node.
#[derive(Debug, Serialize, Deserialize)]
struct Waiting {
    at: String,
    list: ListName,
}

/// A node has a task.
#[derive(Debug, Serialize, Deserialize)]
struct Offered {
    by: String,
    offer: Offer,
}

/// Whether somebody takes it.
#[derive(Debug, Serialize, Deserialize)]
struct Taken {
    taken: bool,
}

/// The answers to these polls were lost.
#[derive(Debug, Serialize, Deserialize)]
struct Lost {
    polls: Vec<u64>,
}

/// What had been started for one of them.
#[derive(Debug, Serialize, Deserialize)]
struct Found {
    offer: Option<Offer>,
}

async fn waiting(State(engine): AppState, Json(waiting): Json<Waiting>) -> Answer {
    engine.waits_at(waiting.at, &waiting.list);
    Ok(json(StatusCode::OK, &serde_json::json!({})))
}

async fn lost(State(engine): AppState, Json(lost): Json<Lost>) -> Answer {
    let offer = engine.find_lost_for_peer(&lost.polls);
    Ok(json(StatusCode::OK, &Found { offer }))
}

async fn offered(State(engine): AppState, Json(offered): Json<Offered>) -> Answer {
    let taken = engine.take_offer(&offered.by, &offered.offer);
    Ok(json(StatusCode::OK, &Taken { taken }))
}

async fn asked(State(engine): AppState, Json(forwarded): Json<Forwarded>) -> Answer {
    Ok(json(StatusCode::OK, &engine.query_for_node(forwarded).await))
}

async fn judged(State(engine): AppState, Json(lent): Json<LentUpdate>) -> Answer {
    Ok(json(StatusCode::OK, &engine.judge_for_node(lent).await))
}

async fn recorded(State(engine): AppState, Json(answer): Json<PassedAnswer, TURN_BYTES_MAX>) -> Answer {
    Ok(json(StatusCode::OK, &engine.record_for_node(answer).await))
}

async fn given_up(State(engine): AppState, Json(rejected): Json<RejectedUpdate>) -> Answer {
    Ok(json(StatusCode::OK, &Taken { taken: engine.give_up_for_node(rejected) }))
}

async fn said(State(engine): AppState, Json(said): Json<Said, TURN_BYTES_MAX>) -> Answer {
    Ok(json(StatusCode::OK, &Taken { taken: engine.hear_answers(said) }))
}

/// What nodes say to each other.
pub(super) fn routes() -> Routes {
    Routes::none()
        .post("/nodes/waiting", Level::Node, waiting)
        .post("/nodes/offer", Level::Node, offered)
        .post("/nodes/query", Level::Node, asked)
        .post("/nodes/judge", Level::Node, judged)
        .post("/nodes/record", Level::Node, recorded)
        .post("/nodes/given-up", Level::Node, given_up)
        .post("/nodes/said", Level::Node, said)
        .post("/nodes/lost", Level::Node, lost)
}

/// Reaches other nodes over HTTP.
struct OverHttp {
    http: reqwest::Client,
    me: String,
    /// Whose pass is shown. The engine has this, so this must not have the engine.
    engine: Weak<Engine>,
}

impl OverHttp {
    /// Made for each call: the secret behind it is rotated.
    fn pass(&self) -> Result<HeaderValue, String> {
        let engine = self.engine.upgrade().ok_or("this node has ended")?;
        let mut pass =
            HeaderValue::try_from(format!("{NODE_SCHEME}{}", engine.node_pass())).map_err(|error| error.to_string())?;
        pass.set_sensitive(true);
        Ok(pass)
    }

    async fn call(&self, url: String, body: &impl Serialize) -> Result<Vec<u8>, String> {
        self.call_within(url, body, PEER_WAIT).await
    }

    async fn call_within(&self, url: String, body: &impl Serialize, wait: Duration) -> Result<Vec<u8>, String> {
        let body = serde_json::to_vec(body).map_err(|error| error.to_string())?;
        let request =
            self.http.post(url).header(AUTHORIZATION, self.pass()?).header("content-type", "application/json");
        let answer = request.timeout(wait).body(body).send().await.map_err(|error| error.to_string())?;
        let status = answer.status();
        if !status.is_success() {
            return Err(status.to_string());
        }
        answer.bytes().await.map(Into::into).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl Peers for OverHttp {
    async fn wait_on(&self, node: &str, list: &ListName) -> Result<(), String> {
        let waiting = Waiting { at: self.me.clone(), list: list.clone() };
        self.call(format!("{node}/nodes/waiting"), &waiting).await.map(drop)
    }

    async fn offer(&self, node: &str, offer: &Offer) -> Result<bool, String> {
        let offered = Offered { by: self.me.clone(), offer: offer.clone() };
        let answer = self.call(format!("{node}/nodes/offer"), &offered).await?;
        let Taken { taken } = serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
        Ok(taken)
    }

    async fn lost(&self, node: &str, polls: &[u64]) -> Result<Option<Offer>, String> {
        let answer = self.call(format!("{node}/nodes/lost"), &Lost { polls: polls.to_vec() }).await?;
        let Found { offer } = serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
        Ok(offer)
    }

    async fn query(&self, node: &str, forwarded: &Forwarded) -> Result<FromNode, String> {
        let answer = self.call_within(format!("{node}/nodes/query"), forwarded, forwarded.wait + PEER_WAIT).await?;
        serde_json::from_slice(&answer).map_err(|error| error.to_string())
    }

    async fn judge(&self, node: &str, lent: &LentUpdate) -> Result<FromJudge, String> {
        let answer = self.call_within(format!("{node}/nodes/judge"), lent, lent.wait + PEER_WAIT).await?;
        serde_json::from_slice(&answer).map_err(|error| error.to_string())
    }

    async fn record(&self, node: &str, answer: &PassedAnswer) -> Result<FromRecorder, String> {
        let answer = self.call_within(format!("{node}/nodes/record"), answer, RECORD_WAIT).await?;
        serde_json::from_slice(&answer).map_err(|error| error.to_string())
    }

    async fn give_up(&self, node: &str, rejected: &RejectedUpdate) -> Result<bool, String> {
        let answer = self.call(format!("{node}/nodes/given-up"), rejected).await?;
        let Taken { taken } = serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
        Ok(taken)
    }

    async fn say(&self, node: &str, said: &Said) -> Result<bool, String> {
        let answer = self.call(format!("{node}/nodes/said"), said).await?;
        let Taken { taken } = serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
        Ok(taken)
    }
}

/// Lets this node reach the others, and them this one, over HTTP. For an engine that was opened as a
/// [`Node`](crate::engine::Node) with this address, behind [`router_for`](super::router_for).
///
/// # Errors
///
/// When there can be no HTTP client.
pub fn join(engine: &Arc<Engine>, address: &str) -> Result<(), String> {
    let http = reqwest::Client::builder().connect_timeout(PEER_WAIT).tcp_nodelay(true).no_proxy().build();
    let http = http.map_err(|error| error.to_string())?;
    engine.join(Arc::new(OverHttp { http, me: address.to_owned(), engine: Arc::downgrade(engine) }));
    Ok(())
}
