//! The stream of a connection that is spoken over again: what is read first, and whether all is written.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream, and what is to be read before what comes over it.
pub(super) struct Resumed<S> {
    stream: S,
    before: Bytes,
    /// Something is to be written that was not yet. Whoever writes says so: flushes come when nothing else is left.
    writes: Arc<AtomicBool>,
}

impl<S> Resumed<S> {
    pub(super) fn new(stream: S, before: Bytes, writes: Arc<AtomicBool>) -> Self {
        writes.store(false, Relaxed);
        Self { stream, before, writes }
    }

    /// The stream, and what is still to be read before.
    pub(super) fn into_parts(self) -> (S, Bytes) {
        (self.stream, self.before)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Resumed<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        if self.before.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let read = self.before.len().min(buffer.remaining());
        buffer.put_slice(&self.before.split_to(read));
        if !self.before.has_remaining() {
            // Frees what it was a part of.
            self.before = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Resumed<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.writes.store(true, Relaxed);
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.writes.store(true, Relaxed);
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.writes.store(false, Relaxed);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
