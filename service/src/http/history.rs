//! Histories: pages, long polls, event streams.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use client::body;
use futures_util::stream;
use serde::Deserialize;
use uuid::Uuid;

use super::extract::{Path, Query, wait, with_wait_applied};
use super::problem::Refused;
use super::workflows::run_ref;
use super::{Answer, AppState, json};
use crate::engine::{Engine, HistoryPage, Page, RunRef};

/// Events on a page where the request does not say, and at most.
const EVENTS_DEFAULT: usize = 1_000;
const EVENTS_MAX: usize = 10_000;

/// Bytes of a page, about.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Events that a stream reads at once: what one slow reader costs in memory.
const STREAM_EVENTS: usize = 100;
const STREAM_BYTES: usize = 512 * 1024;

/// Beyond every event id, with room to count on.
const EVENT_ID_BEYOND: u64 = u64::MAX / 2;

/// How often a stream without news says that it is alive.
const STREAM_COMMENT_EVERY: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct HistoryParams {
    run_id: Option<Uuid>,
    after: Option<u64>,
    before: Option<u64>,
    #[serde(default)]
    reverse: bool,
    limit: Option<usize>,
}

impl HistoryParams {
    fn page(&self) -> Page {
        Page {
            after: self.after.unwrap_or(0).min(EVENT_ID_BEYOND),
            before: self.before,
            reverse: self.reverse,
            limit: self.limit.unwrap_or(EVENTS_DEFAULT).clamp(1, EVENTS_MAX),
            bytes_max: PAGE_BYTES_MAX,
        }
    }
}

fn render(page: HistoryPage) -> body::History {
    let HistoryPage { run_id, events, last_event_id, closed, next } = page;
    body::History { events, run_id, last_event_id, closed, next }
}

pub(super) async fn read(
    State(engine): AppState,
    Path([domain, id]): Path<2>,
    Query(params): Query<HistoryParams>,
    headers: HeaderMap,
) -> Answer {
    let at = run_ref(&domain, &id, params.run_id);
    let mut page = params.page();
    let streams = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).is_some_and(|value| {
        value.split(',').any(|kind| kind.split(';').next().unwrap_or_default().trim() == "text/event-stream")
    });
    if streams {
        if let Some(value) = headers.get("last-event-id") {
            let last: Option<u64> = value.to_str().ok().and_then(|text| text.parse().ok());
            let header = HeaderName::from_static("last-event-id");
            let last = last.ok_or_else(|| Refused::BadHeader { header, problem: "is not an event id".to_owned() })?;
            page.after = last.min(EVENT_ID_BEYOND);
        }
        return stream_events(engine, at, page.after).await;
    }
    let wait = wait(&headers)?;
    let patience = wait.unwrap_or_default();
    let mut found = engine.history(&at, &page).await?;
    if found.events.is_empty() && !found.closed && !patience.is_zero() && page.before.is_none() {
        let at = RunRef { run_id: Some(found.run_id), ..at };
        engine.wait_beyond(&at, found.run_id, page.after, patience).await?;
        found = engine.history(&at, &page).await?;
    }
    Ok(with_wait_applied(json(StatusCode::OK, &render(found)), wait))
}

pub(super) async fn read_turn(
    State(engine): AppState,
    Path([token]): Path<1>,
    Query(params): Query<HistoryParams>,
) -> Answer {
    let token = engine.decider_token(&token)?;
    let page = engine.turn_history(&token, &params.page()).await?;
    Ok(json(StatusCode::OK, &render(page)))
}

/// One event a message, until the run closes or the service stops.
async fn stream_events(engine: Arc<Engine>, at: RunRef, after: u64) -> Answer {
    struct Reader {
        engine: Arc<Engine>,
        at: RunRef,
        after: u64,
        closed: bool,
    }
    // The first look answers whether there is such a run at all.
    let run = engine.describe(&at).await?.run;
    let at = RunRef { run_id: Some(run.started.run_id), ..at };
    let reader = Reader { engine, at, after, closed: false };
    let messages = stream::unfold(reader, |mut reader| async move {
        loop {
            if reader.closed {
                return None;
            }
            let page = Page { after: reader.after, limit: STREAM_EVENTS, bytes_max: STREAM_BYTES, ..Page::default() };
            let found = match reader.engine.history(&reader.at, &page).await {
                Ok(found) => found,
                Err(refusal) => {
                    tracing::warn!(%refusal, "an event stream ends early");
                    return None;
                }
            };
            if let Some(last) = found.events.last() {
                reader.after = last.id;
                reader.closed = found.closed && last.id == found.last_event_id;
                let mut text = Vec::new();
                for event in &found.events {
                    text.extend_from_slice(
                        format!("id: {}\nevent: {}\ndata: ", event.id, event.kind.name()).as_bytes(),
                    );
                    // An event that was read has a JSON form; payloads hold no line breaks that JSON would not allow.
                    let json = serde_json::to_string(event).unwrap_or_default().replace(['\r', '\n'], " ");
                    text.extend_from_slice(json.as_bytes());
                    text.extend_from_slice(b"\n\n");
                }
                return Some((Ok::<_, Infallible>(Bytes::from(text)), reader));
            }
            if found.closed || reader.engine.is_stopping() {
                return None;
            }
            let Reader { engine, at, after, .. } = &reader;
            if engine.wait_beyond(at, found.run_id, *after, STREAM_COMMENT_EVERY).await.is_err() {
                return None;
            }
            let page = Page { after: *after, limit: 1, ..Page::default() };
            match engine.history(at, &page).await {
                Ok(found) if found.events.is_empty() && !found.closed && !engine.is_stopping() => {
                    return Some((Ok(Bytes::from_static(b": still here\n\n")), reader));
                }
                _ => {}
            }
        }
    });
    let mut response = Response::new(Body::from_stream(messages));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
