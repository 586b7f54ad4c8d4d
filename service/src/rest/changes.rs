//! Event streams that report changes in one or all domains. Pages of the console that show a domain use these streams
//! to stay up to date.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::{future, stream};

use super::extract::{NoQuery, Path};
use super::history::EVENT_STREAM;
use crate::access::Caller;
use crate::http::{Answer, AppState};
use engine::DomainWatch;

/// Minimum time between two messages of a stream. One message can stand for many changes. Our choice: often enough for
/// pages, which reload their data at each message.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(1);

/// First message of a stream. It confirms that all later changes will be reported.
const BEGINS: Bytes = Bytes::from_static(b": from now on\n\n");

const CHANGED: Bytes = Bytes::from_static(b"event: changed\ndata: {}\n\n");

enum StreamProgress {
    New,
    Begun,
    Changed,
}

/// Maximum number of domains per stream. Our choice: a change in one of the domains makes the stream check all of them.
const DOMAINS_MAX: usize = 100;

pub(super) async fn follow(State(engine): AppState, Path([domain]): Path<1>, _: NoQuery) -> Answer {
    Ok(change_stream(vec![engine.views().watch_domain(&domain).await?]))
}

pub(super) async fn follow_all(State(engine): AppState, _: NoQuery, caller: Caller) -> Answer {
    let mut watching = Vec::new();
    let domains = engine.registry().domains().await?.into_iter().filter(|domain| caller.may_read(&domain.name));
    for domain in domains.take(DOMAINS_MAX) {
        watching.push(engine.views().watch_domain(&domain.name).await?);
    }
    // An `EventSource` reconnects when a stream ends. Status 204 tells it not to reconnect.
    Ok(if watching.is_empty() { StatusCode::NO_CONTENT.into_response() } else { change_stream(watching) })
}

/// Returns a stream with a message for each change in any of the domains, until the service stops.
fn change_stream(watching: Vec<DomainWatch>) -> Response {
    let messages = stream::unfold((watching, StreamProgress::New), |(mut watching, progress)| async move {
        match progress {
            StreamProgress::New => return Some((Ok::<_, Infallible>(BEGINS), (watching, StreamProgress::Begun))),
            StreamProgress::Begun => {}
            // The delay applies only after a change, so that an idle stream has no running timer.
            StreamProgress::Changed => tokio::time::sleep(MESSAGE_INTERVAL).await,
        }
        let news = watching.iter_mut().map(|domain| Box::pin(domain.changed()));
        let (continues, ..) = future::select_all(news).await;
        continues.then_some((Ok(CHANGED), (watching, StreamProgress::Changed)))
    });
    let mut response = Response::new(Body::from_stream(messages));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
