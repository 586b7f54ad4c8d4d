//! One HTTP connection: passes its requests to the router, one after the other, until either side closes it.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use futures_util::future::BoxFuture;
use hyper::Request;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::body_filter::{BodyFilter, NextFrame, filter_body, next_frame};
use super::call::{Encryption, answer};
use super::record::PeerAddress;
use super::socket::{PeerState, Socket};
use crate::tls::Peer;

/// Accepted connection, after the TLS handshake if there is one.
pub(super) struct Connection {
    pub(super) http: Arc<http1::Builder>,
    pub(super) router: Router,
    pub(super) remote: PeerAddress,
    pub(super) encryption: Encryption,
    /// Certificate that the client presented; absent if it presented none.
    pub(super) certificate: Option<Arc<Peer>>,
    pub(super) socket: Socket,
    /// True once the service is stopping.
    pub(super) stopping: watch::Receiver<bool>,
    /// True while new connections wait to be accepted because there are too many.
    pub(super) crowded: watch::Receiver<bool>,
}

/// Event on a connection.
enum ConnectionEvent {
    Ended(hyper::Result<()>),
    /// The client has closed its sending half or reset the connection. hyper does not notice this during a call.
    Departed(PeerState),
}

impl Connection {
    /// Serves requests until the connection ends. `stream` is the connection's socket, or the TLS stream over that
    /// socket.
    pub(super) async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let Self { http, router, remote, encryption, certificate, socket, mut stopping, mut crowded } = self;
        let calls = Calls { router, remote, encryption, certificate, socket: socket.clone() };
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), calls));
        let (mut is_stopping, mut has_left) = (false, false);
        loop {
            let event = poll_fn(|context| {
                let had_call = socket.has_call();
                // The client's departure is checked before hyper makes progress, so that a client that has left gets no
                // task.
                if had_call && let Poll::Ready(state) = socket.poll_departure(context) {
                    return Poll::Ready(ConnectionEvent::Departed(state));
                }
                if let Poll::Ready(ended) = connection.as_mut().poll(context) {
                    return Poll::Ready(ConnectionEvent::Ended(ended));
                }
                if !had_call && socket.has_call() {
                    socket.poll_departure(context).map(ConnectionEvent::Departed)
                } else {
                    Poll::Pending
                }
            });
            tokio::select! {
                biased;
                event = event => match event {
                    ConnectionEvent::Departed(PeerState::SendsNoMore | PeerState::Present) => has_left = true,
                    ConnectionEvent::Departed(PeerState::Reset) => {
                        return tracing::debug!("connection reset by the client during a call");
                    }
                    ConnectionEvent::Ended(Err(error)) => return tracing::debug!(%error, "connection ended early"),
                    ConnectionEvent::Ended(Ok(())) => return,
                },
                _ = stopping.wait_for(|stopping| *stopping), if !is_stopping => {
                    is_stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                _ = crowded.wait_for(|crowded| *crowded), if has_left => {
                    return tracing::debug!("idle connection closed because others wait");
                }
            }
        }
    }
}

/// hyper service that passes the requests of one connection to the router.
struct Calls {
    router: Router,
    remote: PeerAddress,
    encryption: Encryption,
    certificate: Option<Arc<Peer>>,
    socket: Socket,
}

impl hyper::service::Service<Request<Incoming>> for Calls {
    type Response = Response;
    type Error = Infallible;
    type Future = CallResponse;

    fn call(&self, mut request: Request<Incoming>) -> CallResponse {
        let under_way = CallUnderWay::new(&self.socket);
        let extensions = request.extensions_mut();
        extensions.insert(self.remote);
        extensions.insert(self.socket.presence());
        if let Some(certificate) = &self.certificate {
            extensions.insert(Arc::clone(certificate));
        }
        CallResponse { answer: answer(self.router.clone(), self.encryption, request), under_way: Some(under_way) }
    }
}

/// Future of a call's response.
struct CallResponse {
    answer: BoxFuture<'static, Response>,
    under_way: Option<CallUnderWay>,
}

impl Future for CallResponse {
    type Output = Result<Response, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let response = ready!(self.answer.as_mut().poll(context));
        let under_way = self.under_way.take();
        // A body of unknown length is produced while it is sent. Its call is in progress until the body ends.
        let is_stream = response.body().size_hint().exact().is_none();
        Poll::Ready(Ok(match under_way.filter(|_| is_stream) {
            Some(under_way) => response.map(|body| filter_body(body, StreamUnderWay { _call: under_way })),
            None => response,
        }))
    }
}

/// Guard of a call, which counts as in progress until this value is dropped.
struct CallUnderWay(Socket);

impl CallUnderWay {
    fn new(socket: &Socket) -> Self {
        socket.begin_call();
        Self(socket.clone())
    }
}

impl Drop for CallUnderWay {
    fn drop(&mut self) {
        self.0.end_call();
    }
}

/// Streamed body that keeps its call in progress.
struct StreamUnderWay {
    _call: CallUnderWay,
}

impl BodyFilter for StreamUnderWay {
    fn next(&mut self, body: &mut Body, context: &mut Context<'_>) -> Poll<NextFrame> {
        next_frame(body, context)
    }
}
