//! Output of activities: appending chunks, pages of chunks, and event streams.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use client::body;
use futures_util::stream;
use history::limits::OUTPUT_CHUNKS_MAX;
use history::{EventId, Fault};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::extract::{NoQuery, Params, Path, PreferWait, with_wait_applied};
use super::history::{EVENT_STREAM, STREAM_COMMENT_EVERY, wants_stream};
use super::workflows::run_ref;
use crate::access::Caller;
use crate::front::Front;
use crate::http::{Answer, AppState, Json, Refused, json};
use crate::openapi::{Operation, OperationInput};
use engine::{AppendedOutput, OutputChunk, OutputEnd, OutputPage, OutputRange, Refusal, RunRef};

/// Number of hexadecimal digits of a stream's id.
const STREAM_ID_DIGITS: usize = 16;

pub(super) async fn append(
    State(engine): AppState,
    Path([token]): Path<1>,
    _: NoQuery,
    Json(output): Json<body::AppendOutput>,
) -> Answer {
    let body::AppendOutput { chunks, sequence } = output;
    if chunks.len() > OUTPUT_CHUNKS_MAX {
        let problem = format!("has more than {OUTPUT_CHUNKS_MAX} chunks; append the others with another request");
        return Err(Fault::Invalid { field: "chunks".to_owned(), problem }.into());
    }
    let AppendedOutput { stream, next, cancel_requested, paused } =
        engine.outputs().append(&token, chunks, sequence).await?;
    let appended = body::AppendedOutput { stream: stream_id(stream), next, cancel_requested, paused };
    Ok(json(StatusCode::OK, &appended))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct OutputParams {
    /// Run id; the newest run by default.
    run_id: Option<Uuid>,
    /// Event id of the activity's ActivityScheduled; by default, the newest activity with this id that is open or whose
    /// output is kept.
    scheduled_event_id: Option<EventId>,
    /// Offset of the first chunk; 0 by default.
    #[serde(default)]
    from: u64,
    /// Id of the stream that was read before. If that stream is lost, the call fails with `output-not-kept`.
    stream: Option<String>,
}

/// Form of the response that the request asks for.
pub(super) enum Follows {
    /// A page.
    No,
    /// An event stream. `last` is the stream and the offset of the last chunk that the caller has received, if any.
    Yes { last: Option<(u64, u64)> },
}

impl<S: Send + Sync> FromRequestParts<S> for Follows {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        if !wants_stream(parts) {
            return Ok(Self::No);
        }
        let header = HeaderName::from_static("last-event-id");
        let Some(value) = parts.headers.get(&header) else { return Ok(Self::Yes { last: None }) };
        let last = value.to_str().ok().and_then(|text| {
            let (stream, offset) = text.split_once('-')?;
            Some((read_stream_id(stream)?, offset.parse().ok()?))
        });
        let problem = "is not the id of a chunk; send the `id` of the last message unchanged".to_owned();
        Ok(Self::Yes { last: Some(last.ok_or(Refused::BadHeader { header, problem })?) })
    }
}

impl OperationInput for Follows {
    fn describe(call: &mut Operation<'_>) {
        call.header("Accept", "`text/event-stream` for a stream with one message per chunk, until the activity ends.");
        call.header("Last-Event-ID", "Id of the message after which a stream continues.");
    }
}

fn stream_id(stream: u64) -> String {
    format!("{stream:0STREAM_ID_DIGITS$x}")
}

fn read_stream_id(text: &str) -> Option<u64> {
    let is_hex = text.len() == STREAM_ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|_| is_hex)
}

pub(super) async fn read(
    State(engine): AppState,
    State(front): State<Front>,
    Path([domain, id, activity_id]): Path<3>,
    Params(params): Params<OutputParams>,
    PreferWait(wait): PreferWait,
    follows: Follows,
    caller: Caller,
) -> Answer {
    let OutputParams { run_id, scheduled_event_id, from, stream } = params;
    let bad_stream = || Refused::BadQuery("`stream` is not the id of a stream; send it unchanged".to_owned());
    let stream = stream.map(|stream| read_stream_id(&stream).ok_or_else(bad_stream)).transpose()?;
    let at = run_ref(&domain, &id, run_id);
    let range = OutputRange { activity_id, scheduled_event_id, stream, from };
    if let Follows::Yes { last } = follows {
        return follow(front, caller, at, range, last).await;
    }
    let page = engine.outputs().read(&at, &range, wait.unwrap_or_default()).await?;
    Ok(with_wait_applied(json(StatusCode::OK, &page_body(page, &caller, &domain)), wait))
}

fn page_body(page: OutputPage, caller: &Caller, domain: &str) -> body::ActivityOutput {
    let OutputPage { run_id, scheduled_event_id, stream, first, chunks, next, end } = page;
    body::ActivityOutput {
        run_id,
        scheduled_event_id,
        stream: stream.map(stream_id),
        first,
        chunks: chunks.into_iter().map(|chunk| chunk_body(chunk, caller, domain)).collect(),
        next,
        end: end.map(end_body),
    }
}

fn chunk_body(chunk: OutputChunk, caller: &Caller, domain: &str) -> body::OutputChunk {
    let OutputChunk { offset, attempt, at, data } = chunk;
    body::OutputChunk { offset, attempt, at, data: caller.payload(domain, Some(data)) }
}

fn end_body(OutputEnd { event_id, event }: OutputEnd) -> body::OutputEnd {
    body::OutputEnd { event_id, event }
}

/// Data of a message about lost chunks.
#[derive(Serialize)]
struct Gap {
    /// Offset of the first lost chunk.
    from: u64,
    /// Offset of the next chunk.
    first: u64,
}

/// An event stream of an activity's output.
struct Follower {
    front: Front,
    caller: Caller,
    at: RunRef,
    range: OutputRange,
    /// Page that was read before the stream began.
    page: Option<OutputPage>,
    is_over: bool,
}

/// Returns a stream with one message per chunk, until the activity ends or the service stops.
async fn follow(front: Front, caller: Caller, at: RunRef, range: OutputRange, last: Option<(u64, u64)>) -> Answer {
    let range = match last {
        Some((stream, offset)) => OutputRange { stream: Some(stream), from: offset.saturating_add(1), ..range },
        None => range,
    };
    engine::admission::count_waiting().map_err(Refusal::from)?;
    // This first read reports an unknown run or lost output as an error.
    let page = front.engine().outputs().read(&at, &range, Duration::ZERO).await?;
    if last.is_some() && page.end.is_some() && page.next == range.from {
        // An `EventSource` reconnects when a stream ends, even if the stream was complete. Status 204 tells it not to
        // reconnect.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let at = RunRef { run_id: Some(page.run_id), ..at };
    let follower = Follower { front, caller, at, range, page: Some(page), is_over: false };
    let messages = stream::unfold(follower, |mut follower| async move {
        let text = follower.next_messages().await?;
        Some((Ok::<_, Infallible>(text), follower))
    });
    let mut response = Response::new(Body::from_stream(messages));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

impl Follower {
    /// Waits for messages, or for the time of the next comment. Returns `None` at the end of the stream.
    async fn next_messages(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let page = match self.page.take() {
            Some(page) => page,
            None => {
                let outputs = self.front.engine().outputs();
                match outputs.read(&self.at, &self.range, STREAM_COMMENT_EVERY).await {
                    Ok(page) => page,
                    Err(
                        refusal @ (Refusal::OutputNotKept { .. }
                        | Refusal::UnknownRun { .. }
                        | Refusal::UnknownWorkflow { .. }),
                    ) => {
                        return Some(self.lost(&refusal.into()));
                    }
                    Err(refusal) => {
                        tracing::debug!(%refusal, "a stream of output ended early");
                        return None;
                    }
                }
            }
        };
        if self.front.engine().is_stopping() && page.chunks.is_empty() {
            return None;
        }
        let Ok(_making) = self.front.budget().page().await else {
            tracing::debug!("a stream of output ended early: too many bytes are in flight");
            return None;
        };
        Some(self.messages(page))
    }

    fn lost(&mut self, refused: &Refused) -> Bytes {
        self.is_over = true;
        let mut text = String::new();
        message(&mut text, None, "lost", &refused.problem());
        Bytes::from(text)
    }

    /// Renders a page, and continues after it.
    fn messages(&mut self, page: OutputPage) -> Bytes {
        let OutputPage { scheduled_event_id, stream, chunks, next, end, .. } = page;
        let mut text = String::new();
        for chunk in chunks {
            self.skip_to(chunk.offset, &mut text);
            let id = stream.map(|stream| format!("{}-{}", stream_id(stream), chunk.offset));
            let chunk = chunk_body(chunk, &self.caller, &self.at.domain);
            message(&mut text, id, "chunk", &chunk);
            self.range.from = chunk.offset + 1;
        }
        self.skip_to(next, &mut text);
        self.range.scheduled_event_id = Some(scheduled_event_id);
        self.range.stream = stream;
        if let Some(end) = end {
            message(&mut text, None, "end", &end_body(end));
            self.is_over = true;
        }
        if text.is_empty() {
            text.push_str(": still here\n\n");
        }
        Bytes::from(text)
    }

    /// Reports lost chunks if `offset` does not follow the last chunk.
    fn skip_to(&mut self, offset: u64, text: &mut String) {
        if offset > self.range.from {
            message(text, None, "gap", &Gap { from: self.range.from, first: offset });
            self.range.from = offset;
        }
    }
}

/// Adds a message to the text of an event stream.
fn message(text: &mut String, id: Option<String>, event: &str, data: &impl Serialize) {
    // All bodies have a JSON form. Line breaks occur only between its tokens. Writing to a string cannot fail.
    let data = serde_json::to_string(data).unwrap_or_default().replace(['\r', '\n'], " ");
    if let Some(id) = id {
        let _ = writeln!(text, "id: {id}");
    }
    let _ = write!(text, "event: {event}\ndata: {data}\n\n");
}
