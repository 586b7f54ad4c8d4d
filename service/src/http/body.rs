//! Request bodies: reads them within their limits and parses them as JSON.

mod parsed;
mod place;

use std::time::Duration;

use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

pub(crate) use self::parsed::parsed;
use self::place::place;
use super::audit::{NamedMember, Ticket, named_members};
use super::problem::Refused;
use crate::budget::{GatheredBytes, Purse};
use crate::openapi::{Operation, OperationInput};

/// Maximum size of a body in bytes. Our choice: two payloads of 256 KiB, all names at maximum length, and some space
/// for other fields.
pub(crate) const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Maximum size of a decider's answer in bytes. Our choice: a turn may schedule activities with many payloads of up to
/// 256 KiB, and the answer must fit into one commit in every store.
pub(crate) const TURN_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Maximum size of an imported run in bytes. Our choice: the limit of an imported history, which includes the JSON
/// syntax around its payloads.
pub(crate) const IMPORT_BYTES_MAX: usize = history::limits::IMPORTED_BYTES_MAX;

/// Maximum size of a poll's body in bytes. Our choice: the body contains only a few names, and stays in memory as long
/// as the poll waits.
pub(crate) const POLL_BYTES_MAX: usize = 64 * 1024;

/// Maximum memory for the elements of a body's lists, as a multiple of the maximum body size. Our choice: a body with
/// its lists and all copies of its text then takes less than eight times its size in memory. A turn with the maximum
/// number of decisions takes a twentieth of this limit.
const LISTS_PER_BYTE_MAX: usize = 5;

/// Maximum time for receiving a body. Our choice: the time for 8 MiB at 2 Mbit/s.
const BODY_WAIT: Duration = Duration::from_secs(30);

/// Extractor of a JSON body with at most `MAX` bytes. An empty body is read as `{}`.
pub(crate) struct Json<T, const MAX: usize = BODY_BYTES_MAX>(pub(crate) T);

impl<T: JsonSchema, const MAX: usize> OperationInput for Json<T, MAX> {
    const IS_BODY: bool = true;

    fn describe(call: &mut Operation<'_>) {
        call.body::<T>();
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send + 'static, const MAX: usize> FromRequest<S> for Json<T, MAX> {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        must_not_be_encoded(request.headers(), &[])?;
        let content_type = request.headers().get(CONTENT_TYPE).cloned();
        let ticket = request.extensions().get::<Ticket>().cloned();
        let bytes = read(request, MAX).await?;
        if bytes.is_empty() {
            let body = parse(b"{}")?;
            announce(ticket, Vec::new()).await?;
            return Ok(Json(body));
        }
        let is_json = content_type.as_ref().and_then(|value| value.to_str().ok()).is_some_and(|value| {
            let essence = value.split(';').next().unwrap_or_default().trim();
            essence.eq_ignore_ascii_case("application/json")
        });
        if !is_json {
            let found = content_type.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
            return Err(Refused::ContentType(found.unwrap_or_else(|| "nothing".to_owned())));
        }
        let is_announced = ticket.is_some();
        let read = move |bytes: &[u8]| {
            let body = parse(bytes)?;
            Ok::<_, Refused>((body, if is_announced { named_members(bytes) } else { Vec::new() }))
        };
        let ((body, members), bytes) = parsed(bytes, LISTS_PER_BYTE_MAX.saturating_mul(MAX), read).await?;
        drop(bytes);
        announce(ticket, members).await?;
        Ok(Json(body))
    }
}

/// Refuses a body with a content encoding. `identity` and the names in `plain` are accepted, because they mean that the
/// body is not encoded. The service decodes nothing, so the limits of a body apply to the bytes that were sent.
pub(crate) fn must_not_be_encoded(headers: &HeaderMap, plain: &[&str]) -> Result<(), Refused> {
    for value in headers.get_all(CONTENT_ENCODING) {
        let value = String::from_utf8_lossy(value.as_bytes());
        let mut encodings = value.split(',').map(str::trim).filter(|encoding| !encoding.is_empty());
        let is_plain = |found: &str| plain.iter().chain(&["identity"]).any(|known| found.eq_ignore_ascii_case(known));
        if let Some(encoding) = encodings.find(|found| !is_plain(found)) {
            return Err(Refused::ContentEncoding(encoding.to_owned()));
        }
    }
    Ok(())
}

/// Announces the change in the audit log, if there is one. This is the last step before the handler runs.
async fn announce(ticket: Option<Ticket>, members: Vec<NamedMember>) -> Result<(), Refused> {
    match ticket {
        Some(ticket) => ticket.announce_with(members).await,
        None => Ok(()),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refused> {
    // serde would accept an array for a struct, and assign its items to the fields by position.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Refused::BadJson("expected an object, `{...}`".to_owned()));
    }
    history::read_json(bytes).map_err(|error| bad(bytes, &error))
}

fn bad(bytes: &[u8], error: &serde_json::Error) -> Refused {
    let place = place(bytes, error);
    Refused::BadJson(if place.is_empty() { error.to_string() } else { format!("`{place}`: {error}") })
}

/// Reads a body of at most `max` bytes. The bytes count as in flight until the request is answered.
pub(crate) async fn read(request: Request, max: usize) -> Result<GatheredBytes, Refused> {
    // Every call with a body has a purse, which is its part of the memory budget. `in_flight::account` adds it to REST
    // calls, and SWF calls add it themselves.
    let purse = request.extensions().get::<Purse>().cloned().ok_or(Refused::Panicked)?;
    let mut body = request.into_body();
    // A body of known length that is too large is refused before it is read. A client that has sent `Expect:
    // 100-continue` then does not send the body at all.
    if body.size_hint().lower() > max as u64 {
        return Err(Refused::BodyTooLarge { max });
    }
    let expected = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    let gather = async {
        let mut gathered = GatheredBytes::new(purse);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Refused::BadJson(format!("the body could not be read: {error}")))?;
            // The bytes are copied, because a few bytes may arrive in a large buffer, which would otherwise stay in
            // memory.
            let Some(bytes) = frame.data_ref() else { continue };
            if bytes.len() > max - gathered.len() {
                return Err(Refused::BodyTooLarge { max });
            }
            gathered.push(bytes, expected).map_err(|_| Refused::Overloaded { changes_nothing: true })?;
        }
        Ok(gathered)
    };
    tokio::time::timeout(BODY_WAIT, gather).await.unwrap_or(Err(Refused::RequestTimeout))
}
