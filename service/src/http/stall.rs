//! The stream of a connection: what is seen of its peer, and whether anything may be told to it. A peer that does not read ends the
//! connection once nothing could be written to it for too long; one that has hung up is seen at once where somebody wants to know.

use std::future::poll_fn;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Whether the peer of a connection is to be looked at, whatever the reactor knows of it.
#[derive(Debug, Clone, Default)]
pub(super) struct LooksAtPeer(Arc<AtomicBool>);

impl LooksAtPeer {
    /// What a connection does, which can [`look_at_connection`] from now on.
    pub(super) fn around<W: Future>(self, work: W) -> impl Future<Output = W::Output> {
        LOOKS.scope(self, work)
    }
}

tokio::task_local! {
    /// Of the connection whose task this is.
    static LOOKS: LooksAtPeer;
}

/// Has a connection see whether its peer has hung up before this goes on: a connection that ends drops its call, and a task that was taken
/// for it goes back.
pub(crate) async fn look_at_connection() {
    if LOOKS.try_with(|looks| looks.0.store(true, Ordering::Relaxed)).is_err() {
        // Not in a connection's task. Then by way of the reactor.
        return tokio::task::yield_now().await;
    }
    // The connection reads before it looks at its call again.
    let mut has_looked = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_looked, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Whether this process may still answer. One whose lease on the store is over may not: another may have taken over since, and
/// what was recorded here may be lost.
#[derive(Clone, Default)]
pub struct MayAnswer(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl MayAnswer {
    /// For as long as this says so. It is asked before each write.
    pub fn while_so(may: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(may)))
    }

    fn check(&self) -> Result<()> {
        if self.0.as_ref().is_none_or(|may| may()) {
            return Ok(());
        }
        Err(Error::other("this process may not answer any more"))
    }
}

/// A stream whose writes fail once its peer has taken nothing for `wait`.
pub(super) struct Stalling<S> {
    stream: S,
    wait: Duration,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
    looks: LooksAtPeer,
    may_answer: MayAnswer,
}

impl<S> Stalling<S> {
    pub(super) fn new(stream: S, wait: Duration, looks: LooksAtPeer, may_answer: MayAnswer) -> Self {
        Self { stream, wait, stalled: None, looks, may_answer }
    }

    /// The stream itself.
    pub(super) fn of(&self) -> &S {
        &self.stream
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

impl<S: AsyncRead + AsFd + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() || !self.looks.0.swap(false, Ordering::Relaxed) || buffer.remaining() == 0 {
            return read;
        }
        // What the reactor has not heard of yet. It will, and nothing is there then.
        match rustix::io::read(&self.stream, buffer.initialize_unfilled()) {
            Ok(bytes) => {
                buffer.advance(bytes);
                Poll::Ready(Ok(()))
            }
            Err(Errno::AGAIN | Errno::INTR) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
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
    use std::pin::pin;

    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Whether a read has anything, asked in a task of which the reactor is not heard meanwhile.
    fn reads(stream: &mut Stalling<TcpStream>, bytes: &mut [u8]) -> Option<usize> {
        let mut buffer = ReadBuf::new(bytes);
        let context = &mut Context::from_waker(std::task::Waker::noop());
        match Pin::new(stream).poll_read(context, &mut buffer) {
            Poll::Ready(read) => {
                read.unwrap();
                Some(buffer.filled().len())
            }
            Poll::Pending => None,
        }
    }

    /// What a look sees that comes from a peer: `does` is done to it before.
    async fn seen(does: impl FnOnce(std::net::TcpStream) -> Option<std::net::TcpStream>) -> usize {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let looks = LooksAtPeer::default();
        let mut stream = Stalling::new(
            listener.accept().await.unwrap().0,
            Duration::from_secs(60),
            looks.clone(),
            MayAnswer::default(),
        );
        // Until the reactor has said all that it knows.
        while reads(&mut stream, &mut [0; 8]).is_some() {}
        let _peer = does(peer);
        looks
            .around(async {
                loop {
                    assert_eq!(reads(&mut stream, &mut [0; 8]), None, "the reactor has not been asked");
                    let mut look = pin!(look_at_connection());
                    let context = &mut Context::from_waker(std::task::Waker::noop());
                    assert!(look.as_mut().poll(context).is_pending(), "it goes on when the connection has read");
                    let seen = reads(&mut stream, &mut [0; 8]);
                    assert!(look.poll(context).is_ready());
                    if let Some(seen) = seen {
                        return seen;
                    }
                }
            })
            .await
    }

    #[tokio::test]
    async fn a_look_sees_that_the_peer_has_hung_up_before_the_reactor_does() {
        assert_eq!(seen(|_| None).await, 0);
    }

    #[tokio::test]
    async fn what_a_look_reads_is_not_lost() {
        use std::io::Write as _;
        let write = |mut peer: std::net::TcpStream| {
            peer.write_all(b"GET ").unwrap();
            Some(peer)
        };
        assert_eq!(seen(write).await, 4);
    }

    #[tokio::test]
    async fn nothing_is_written_once_the_process_may_not_answer() {
        use tokio::io::AsyncWriteExt as _;
        let (stream, mut peer) = tokio::io::duplex(64);
        let may = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&may);
        let may_answer = MayAnswer::while_so(move || asked.load(Ordering::SeqCst));
        let mut stream = Stalling::new(stream, Duration::from_secs(60), LooksAtPeer::default(), may_answer);
        stream.write_all(b"before").await.unwrap();
        may.store(false, Ordering::SeqCst);
        stream.write_all(b"after").await.unwrap_err();
        stream.write_vectored(&[IoSlice::new(b"after")]).await.unwrap_err();
        drop(stream);
        let mut read = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut peer, &mut read).await.unwrap();
        assert_eq!(read, "before");
    }

    #[tokio::test]
    async fn outside_a_connection_a_look_goes_by_way_of_the_reactor() {
        look_at_connection().await;
    }
}
