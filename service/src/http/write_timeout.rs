//! Stream whose writes fail if the client reads nothing for too long, or if this process may no longer answer.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Permission of this process to send responses. It ends when this process loses the lease on its store. Another
/// process may then have taken over, and changes that this process has recorded may be lost.
#[derive(Clone, Default)]
pub struct MayAnswer(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl MayAnswer {
    /// Permits responses as long as the function returns true. It is called before each write.
    pub fn while_true(may: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(may)))
    }

    fn check(&self) -> Result<()> {
        if self.0.as_ref().is_none_or(|may| may()) {
            return Ok(());
        }
        Err(Error::other("this process may not answer any more"))
    }
}

/// Stream whose writes fail when the peer has read nothing for the duration `wait`.
pub(super) struct WriteTimeout<S> {
    stream: S,
    wait: Duration,
    /// Timer of the write that is waiting for the peer; `None` if no write is waiting.
    stalled: Option<Pin<Box<Sleep>>>,
    may_answer: MayAnswer,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S, wait: Duration, may_answer: MayAnswer) -> Self {
        Self { stream, wait, stalled: None, may_answer }
    }

    fn judge<T>(&mut self, context: &mut Context<'_>, written: Poll<Result<T>>) -> Poll<Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let wait = self.wait;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(wait)));
        stalled.as_mut().poll(context).map(|()| Err(Error::new(ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.may_answer.check()?;
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.may_answer.check()?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn nothing_is_written_once_the_process_may_not_answer() {
        let (stream, mut peer) = tokio::io::duplex(64);
        let may = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&may);
        let may_answer = MayAnswer::while_true(move || asked.load(Ordering::SeqCst));
        let mut stream = WriteTimeout::new(stream, Duration::from_secs(60), may_answer);
        stream.write_all(b"before").await.unwrap();
        may.store(false, Ordering::SeqCst);
        stream.write_all(b"after").await.unwrap_err();
        stream.write_vectored(&[IoSlice::new(b"after")]).await.unwrap_err();
        drop(stream);
        let mut read = String::new();
        peer.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, "before");
    }
}
