//! TCP sockets of connections, and detection of clients that have left.
//!
//! During a call, hyper does not notice that a client has closed its sending half. A client that did so therefore still
//! receives its response. The service cannot distinguish such a client from one that is gone. Calls that take tasks
//! must not hand any task to a client that is gone. They therefore treat both cases as a client that has left
//! ([`PeerPresence::left`]).

use std::convert::Infallible;
use std::io::Result;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::openapi::{Operation, OperationInput};

/// Poll flag that reports a closed sending half of the peer, even if earlier bytes are still unread.
#[cfg(target_os = "linux")]
const SENDING_HALF_CLOSED: PollFlags = PollFlags::RDHUP;
#[cfg(not(target_os = "linux"))]
const SENDING_HALF_CLOSED: PollFlags = PollFlags::HUP;

/// Maximum number of unfinished bytes that are counted for one connection. Source: the maximum that rustls buffers of a
/// handshake.
const UNFINISHED_OF_ONE_MAX: usize = 64 * 1024;

/// State of a connection's peer, as far as the operating system knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerState {
    Present,
    /// The peer has closed its sending half. It may still be reading.
    SendsNoMore,
    /// The connection was reset.
    Reset,
}

/// Connected TCP socket. Clones share the socket.
#[derive(Clone)]
pub(super) struct Socket(Arc<SharedSocket>);

struct SharedSocket {
    socket: Mutex<SocketInner>,
    has_left: AtomicBool,
    left: Notify,
}

struct SocketInner {
    stream: TcpStream,
    /// True if there may be unread bytes whose arrival the runtime has already reported and will not report again. The
    /// next read then asks the operating system directly.
    has_unreported: bool,
    /// Number of calls in progress. hyper begins a call only after it has written the response to the previous one.
    calls: u32,
    /// Number of bytes read since the last call ended. They belong to an unfinished request or handshake. Bytes read
    /// during a call are not included: they belong to the call's body, and are counted as bytes in flight.
    unfinished: usize,
}

impl Socket {
    pub(super) fn new(stream: TcpStream) -> Self {
        let socket = Mutex::new(SocketInner { stream, has_unreported: false, calls: 0, unfinished: 0 });
        Self(Arc::new(SharedSocket { socket, has_left: AtomicBool::new(false), left: Notify::new() }))
    }

    /// Returns a handle with which the calls of this connection detect that the client has left.
    pub(super) fn presence(&self) -> PeerPresence {
        PeerPresence(Some(self.clone()))
    }

    /// Returns the number of bytes that were read and belong to no complete request or handshake.
    pub(super) fn unfinished(&self) -> usize {
        self.inner().unfinished
    }

    /// Records that the handshake is complete, so that its bytes no longer count as unfinished.
    pub(super) fn end_handshake(&self) {
        self.inner().unfinished = 0;
    }

    /// Records that a request is complete and its call begins.
    pub(super) fn begin_call(&self) {
        let mut inner = self.inner();
        inner.calls += 1;
        inner.unfinished = 0;
    }

    /// Records that a call has ended.
    pub(super) fn end_call(&self) {
        self.inner().calls -= 1;
    }

    /// Returns whether a call is in progress.
    pub(super) fn has_call(&self) -> bool {
        self.inner().calls > 0
    }

    /// Waits for the next byte without consuming it. Returns `None` at the end of the stream.
    pub(super) async fn peek(&self) -> Result<Option<u8>> {
        let mut first = [0];
        let peeked =
            std::future::poll_fn(|context| self.inner().stream.poll_peek(context, &mut ReadBuf::new(&mut first)));
        Ok((peeked.await? > 0).then_some(first[0]))
    }

    /// Waits until the client leaves. Used during a call, when hyper does not read from the socket. If this returns
    /// `Pending`, the task is woken at the next event of the socket.
    pub(super) fn poll_departure(&self, context: &mut Context<'_>) -> Poll<PeerState> {
        if self.0.has_left.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        let mut inner = self.inner();
        loop {
            if inner.stream.poll_read_ready(context).is_pending() {
                return Poll::Pending;
            }
            let state = inner.peer_state();
            if state != PeerState::Present {
                drop(inner);
                self.note_departure();
                return Poll::Ready(state);
            }
            // The client is present and has sent bytes of a later request, which stay unread until the call ends.
            // Clearing the readiness lets the runtime report later events.
            inner.has_unreported = true;
            let nothing: Result<()> =
                inner.stream.try_io(Interest::READABLE, || Err(std::io::ErrorKind::WouldBlock.into()));
            drop(nothing);
        }
    }

    fn has_left(&self) -> bool {
        if !self.0.has_left.load(Ordering::Relaxed) {
            if self.inner().peer_state() == PeerState::Present {
                return false;
            }
            self.note_departure();
        }
        true
    }

    fn note_departure(&self) {
        self.0.has_left.store(true, Ordering::Relaxed);
        self.0.left.notify_waiters();
    }

    fn inner(&self) -> MutexGuard<'_, SocketInner> {
        self.0.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SocketInner {
    /// Asks the operating system for the state of the peer.
    fn peer_state(&self) -> PeerState {
        let mut polled = [PollFd::new(&self.stream, SENDING_HALF_CLOSED)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut polled, Some(&now)).is_err() {
            return PeerState::Present;
        }
        let seen = polled[0].revents();
        if seen.intersects(PollFlags::ERR | PollFlags::NVAL) {
            PeerState::Reset
        } else if seen.intersects(SENDING_HALF_CLOSED | PollFlags::HUP) {
            PeerState::SendsNoMore
        } else {
            PeerState::Present
        }
    }

    fn read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        if std::mem::take(&mut self.has_unreported) && buffer.remaining() > 0 {
            match rustix::io::read(&self.stream, buffer.initialize_unfilled()) {
                Ok(bytes) => {
                    // If the read filled the buffer, more bytes may be left on the socket.
                    self.has_unreported = bytes == buffer.remaining();
                    buffer.advance(bytes);
                    return Poll::Ready(Ok(()));
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let mut inner = self.inner();
        let read = inner.read(context, buffer);
        if inner.calls == 0 {
            // The bytes may also be the rest of a refused body, which is drained after the call. Drained bytes are
            // discarded and take almost no memory, so the number of counted bytes is limited.
            let read = buffer.filled().len() - before;
            inner.unfinished = inner.unfinished.saturating_add(read).min(UNFINISHED_OF_ONE_MAX);
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.inner().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[std::io::IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.inner().stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner().stream).poll_shutdown(context)
    }
}

/// Handle for detecting whether the client that sent a request has left. Without a socket, the client counts as
/// present.
#[derive(Clone, Default)]
pub(crate) struct PeerPresence(Option<Socket>);

impl PeerPresence {
    /// Returns whether the client is gone or has closed its sending half, according to the operating system.
    pub(crate) fn has_left(&self) -> bool {
        self.0.as_ref().is_some_and(Socket::has_left)
    }

    /// Waits until the client is gone or has closed its sending half.
    pub(crate) async fn left(&self) {
        let Some(socket) = &self.0 else { return std::future::pending().await };
        loop {
            let left = socket.0.left.notified();
            if socket.0.has_left.load(Ordering::Relaxed) {
                return;
            }
            left.await;
        }
    }

    /// Awaits `tasks`, which takes tasks for the client. If the client has left, returns no tasks, and the taken tasks
    /// return to their list.
    pub(crate) async fn take<T: Default, E>(
        &self,
        tasks: impl Future<Output = std::result::Result<T, E>>,
    ) -> std::result::Result<T, E> {
        tokio::select! {
            biased;
            () = self.left() => Ok(T::default()),
            taken = tasks => if self.has_left() { Ok(T::default()) } else { taken },
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PeerPresence {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> std::result::Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

impl OperationInput for PeerPresence {
    fn describe(_: &mut Operation<'_>) {}
}
