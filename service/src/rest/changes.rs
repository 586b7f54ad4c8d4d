//! A stream that says that something in a domain has changed, for pages that show it.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;

use super::extract::{NoQuery, Path};
use super::history::EVENT_STREAM;
use crate::http::{Answer, AppState};
use engine::DomainWatch;

/// How far apart messages are at least, so that one stands for many changes. Ours: pages read something anew for each.
const MESSAGES_APART: Duration = Duration::from_secs(1);

/// What comes first, so that whoever asks knows that changes are told from now on.
const BEGINS: Bytes = Bytes::from_static(b": from now on\n\n");

const CHANGED: Bytes = Bytes::from_static(b"event: changed\ndata: {}\n\n");

enum Told {
    Nothing,
    ThatItBegins,
    AChange,
}

pub(super) async fn follow(State(engine): AppState, Path([domain]): Path<1>, _: NoQuery) -> Answer {
    let watching = engine.views().watch_domain(&domain).await?;
    let messages = stream::unfold((watching, Told::Nothing), |(mut watching, told): (DomainWatch, Told)| async move {
        match told {
            Told::Nothing => return Some((Ok::<_, Infallible>(BEGINS), (watching, Told::ThatItBegins))),
            Told::ThatItBegins => {}
            // The only timer there is: while nothing happens there is none.
            Told::AChange => tokio::time::sleep(MESSAGES_APART).await,
        }
        watching.changed().await.then_some((Ok(CHANGED), (watching, Told::AChange)))
    });
    let mut response = Response::new(Body::from_stream(messages));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
