//! Histories of runs: pages, long polls, event streams.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use client::body;
use futures_util::stream;
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::extract::{Params, Path, PreferWait, with_wait_applied};
use super::workflows::run_ref;
use crate::access::Caller;
use crate::front::Front;
use crate::http::{Answer, AppState, Refused, json};
use crate::openapi::{Operation, OperationInput};
use engine::{EventRange, HistoryPage, PAGE_BYTES_MAX, RunRef};

/// Default and maximum number of events on a page.
const EVENTS_DEFAULT: usize = 1_000;
const EVENTS_MAX: usize = 10_000;

/// Range of events that a stream reads at once. It is small, because the events stay in memory until a slow client has
/// received them.
const STREAM_PAGE: EventRange = EventRange {
    after: 0,
    before: None,
    reverse: false,
    limit: 100,
    bytes_max: 512 * 1024,
    leaves_payloads_out: false,
    names_activities: true,
};

/// Number that is greater than every event id, and small enough to be increased without overflow.
const EVENT_ID_BEYOND: u64 = u64::MAX / 2;

/// Time between two comments in an idle stream, which show the client that the connection is alive.
pub(super) const STREAM_COMMENT_EVERY: Duration = Duration::from_secs(15);

macro_rules! page_of_events {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $fdoc:literal])+ $field:ident: $type:ty,)* }) => {
        $(#[doc = $doc])+
        #[derive(Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub(super) struct $name {
            $( $(#[doc = $fdoc])+ $field: $type, )*
            /// Only events after the event with this id.
            after: Option<u64>,
            /// Only events before the event with this id.
            before: Option<u64>,
            /// True to list the newest event first.
            #[serde(default)]
            reverse: bool,
            /// Maximum number of events on a page, 1 to 10,000; 1,000 by default. A page has at most 4 MiB of events,
            /// or one event that is larger.
            limit: Option<usize>,
        }

        impl $name {
            fn page(&self) -> EventRange {
                EventRange {
                    after: self.after.unwrap_or(0).min(EVENT_ID_BEYOND),
                    before: self.before,
                    reverse: self.reverse,
                    limit: self.limit.unwrap_or(EVENTS_DEFAULT).clamp(1, EVENTS_MAX),
                    bytes_max: PAGE_BYTES_MAX,
                    leaves_payloads_out: false,
                    names_activities: true,
                }
            }
        }
    };
}

// Two separate types are needed, because a common part with `serde(flatten)` would accept unknown parameters.
page_of_events! {
    /// Query parameters that select events of a run.
    HistoryParams {
        /// Run id; the newest run by default.
        run_id: Option<Uuid>,
    }
}
page_of_events! {
    /// Query parameters that select events of the run to which a turn belongs.
    TurnHistoryParams {}
}

fn render(page: HistoryPage) -> body::History {
    let HistoryPage { run_id, events, last_event_id, closed, next } = page;
    body::History { events, run_id, last_event_id, closed, next }
}

pub(super) async fn read(
    State(engine): AppState,
    State(front): State<Front>,
    Path([domain, id]): Path<2>,
    Params(params): Params<HistoryParams>,
    PreferWait(wait): PreferWait,
    streamed: Streamed,
    caller: Caller,
) -> Answer {
    let at = run_ref(&domain, &id, params.run_id);
    let page = EventRange { leaves_payloads_out: !caller.sees_payloads(&domain), ..params.page() };
    if let Streamed::Yes { last } = streamed {
        let after = last.map_or(page.after, |last| last.min(EVENT_ID_BEYOND));
        return stream_events(front, caller, at, after).await;
    }
    let patience = wait.unwrap_or_default();
    let mut making = front.budget().page().await?;
    let mut found = engine.views().history(&at, &page).await?;
    if found.events.is_empty() && !found.closed && !patience.is_zero() && page.before.is_none() {
        let at = RunRef { run_id: Some(found.run_id), ..at };
        drop(making);
        engine.views().wait_beyond(&at, found.run_id, page.after, patience).await?;
        making = front.budget().page().await?;
        found = engine.views().history(&at, &page).await?;
    }
    caller.shown(&domain, &mut found.events);
    let answer = json(StatusCode::OK, &render(found));
    drop(making);
    Ok(with_wait_applied(answer, wait))
}

pub(super) async fn read_turn(
    State(engine): AppState,
    State(front): State<Front>,
    Path([token]): Path<1>,
    Params(params): Params<TurnHistoryParams>,
) -> Answer {
    let token = engine.tasks().decider_token(&token)?;
    let _making = front.budget().page().await?;
    let page = engine.tasks().turn_history(&token, &params.page()).await?;
    Ok(json(StatusCode::OK, &render(page)))
}

/// Form of the response that the request asks for.
pub(super) enum Streamed {
    /// A single page.
    No,
    /// A stream. `last` is the last event that the caller has received, if any.
    Yes { last: Option<u64> },
}

/// Returns whether the request asks for an event stream.
pub(super) fn wants_stream(parts: &Parts) -> bool {
    parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).is_some_and(|value| {
        value.split(',').any(|kind| kind.split(';').next().unwrap_or_default().trim() == EVENT_STREAM)
    })
}

impl<S: Send + Sync> FromRequestParts<S> for Streamed {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        if !wants_stream(parts) {
            return Ok(Self::No);
        }
        let header = HeaderName::from_static("last-event-id");
        let Some(value) = parts.headers.get(&header) else {
            return Ok(Self::Yes { last: None });
        };
        let last: Option<u64> = value.to_str().ok().and_then(|text| text.parse().ok());
        let bad = || Refused::BadHeader { header, problem: "is not an event id; expected a number".to_owned() };
        Ok(Self::Yes { last: Some(last.ok_or_else(bad)?) })
    }
}

impl OperationInput for Streamed {
    fn describe(call: &mut Operation<'_>) {
        call.header("Accept", "`text/event-stream` for a stream with one message per event, until the run has closed.");
        call.header("Last-Event-ID", "Event id after which a stream continues.");
    }
}

/// Media type of event streams.
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// Returns a stream with one message per event, until the run closes or the service stops.
async fn stream_events(front: Front, caller: Caller, at: RunRef, after: u64) -> Answer {
    struct StreamReader {
        front: Front,
        caller: Caller,
        at: RunRef,
        after: u64,
        closed: bool,
    }
    engine::admission::count_waiting().map_err(engine::Refusal::from)?;
    // This first read reports an unknown run as an error.
    let run = front.engine().views().describe(&at).await?.run;
    if !run.is_open() && after >= run.last_event_id {
        // An `EventSource` reconnects when a stream ends, even if the stream was complete. Status 204 tells it not to
        // reconnect.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let at = RunRef { run_id: Some(run.started.run_id), ..at };
    let reader = StreamReader { front, caller, at, after, closed: false };
    let messages = stream::unfold(reader, |mut reader| async move {
        loop {
            if reader.closed {
                return None;
            }
            let Ok(making) = reader.front.budget().page().await else {
                tracing::debug!("an event stream ended early: too many bytes are in flight");
                return None;
            };
            let leaves_payloads_out = !reader.caller.sees_payloads(&reader.at.domain);
            let page = EventRange { after: reader.after, leaves_payloads_out, ..STREAM_PAGE };
            let mut found = match reader.front.engine().views().history(&reader.at, &page).await {
                Ok(found) => found,
                Err(refusal) => {
                    tracing::warn!(%refusal, "an event stream ended early");
                    return None;
                }
            };
            if let Some(last) = found.events.last() {
                reader.after = last.id;
                reader.closed = found.closed && last.id == found.last_event_id;
                reader.caller.shown(&reader.at.domain, &mut found.events);
                let mut text = Vec::new();
                for event in &found.events {
                    text.extend_from_slice(
                        format!("id: {}\nevent: {}\ndata: ", event.id, event.kind.name()).as_bytes(),
                    );
                    // An event that was read can always be serialized. Line breaks occur only between its JSON
                    // tokens.
                    let json = serde_json::to_string(event).unwrap_or_default().replace(['\r', '\n'], " ");
                    text.extend_from_slice(json.as_bytes());
                    text.extend_from_slice(b"\n\n");
                }
                return Some((Ok::<_, Infallible>(Bytes::from(text)), reader));
            }
            drop(making);
            if found.closed || reader.front.engine().is_stopping() {
                return None;
            }
            let StreamReader { front, at, after, .. } = &reader;
            let engine = front.engine();
            if engine.views().wait_beyond(at, found.run_id, *after, STREAM_COMMENT_EVERY).await.is_err() {
                return None;
            }
            let page = EventRange { after: *after, limit: 1, leaves_payloads_out: true, ..STREAM_PAGE };
            match engine.views().history(at, &page).await {
                Ok(found) if found.events.is_empty() && !found.closed && !engine.is_stopping() => {
                    return Some((Ok(Bytes::from_static(b": still here\n\n")), reader));
                }
                _ => {}
            }
        }
    });
    let mut response = Response::new(Body::from_stream(messages));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
