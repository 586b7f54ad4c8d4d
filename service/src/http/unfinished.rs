//! Memory of unfinished requests and handshakes: bytes that were read before the caller could be authenticated. All
//! connections share one limit. If it is exceeded, the connection with the oldest unfinished bytes is closed.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures_util::task::AtomicWaker;

use super::socket::Socket;

/// Default maximum number of bytes of unfinished requests and handshakes on all connections. Our choice: 2,048
/// request heads of maximum size, or ten thousand simultaneous TLS handshakes of about 2 KiB each.
pub(super) const UNFINISHED_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Unfinished bytes of all connections of a server.
pub(super) struct UnfinishedBytes {
    max: usize,
    state: Mutex<UnfinishedTable>,
}

#[derive(Default)]
struct UnfinishedTable {
    total: usize,
    next_number: u64,
    /// Connections with unfinished bytes, by number. The connection with the lowest number has the oldest bytes.
    connections: BTreeMap<u64, UnfinishedConnection>,
    is_short: bool,
}

struct UnfinishedConnection {
    bytes: usize,
    close: Arc<CloseSignal>,
}

/// Signal that tells a connection to close.
#[derive(Default)]
struct CloseSignal {
    is_sent: AtomicBool,
    connection: AtomicWaker,
}

impl UnfinishedBytes {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, UnfinishedTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnfinishedTable {
    /// Sets the number of unfinished bytes of a connection. `number` identifies the connection in the list; if it is
    /// `None`, the connection is added. Returns its number.
    fn set(&mut self, number: Option<u64>, bytes: usize, close: &Arc<CloseSignal>) -> u64 {
        let number = number.unwrap_or_else(|| {
            self.next_number += 1;
            self.next_number
        });
        let unfinished = UnfinishedConnection { bytes, close: Arc::clone(close) };
        let before = self.connections.insert(number, unfinished).map_or(0, |before| before.bytes);
        self.total = self.total - before + bytes;
        number
    }

    fn remove(&mut self, number: u64) {
        if let Some(unfinished) = self.connections.remove(&number) {
            self.total -= unfinished.bytes;
        }
    }

    /// Tells the connections with the oldest bytes to close, until the remaining connections have at most `max` bytes.
    fn make_room(&mut self, max: usize) {
        while self.total > max
            && let Some((_, oldest)) = self.connections.pop_first()
        {
            self.total -= oldest.bytes;
            oldest.close.is_sent.store(true, Ordering::Release);
            oldest.close.connection.wake();
            if !std::mem::replace(&mut self.is_short, true) {
                tracing::warn!(max, "unfinished requests take too much memory; closing the oldest connections");
            }
        }
        if self.is_short && self.total <= max / 2 {
            self.is_short = false;
            tracing::info!("unfinished requests have enough memory again");
        }
    }
}

/// Unfinished bytes of one connection.
pub(super) struct UnfinishedPart {
    all: Arc<UnfinishedBytes>,
    close: Arc<CloseSignal>,
    /// Number of the connection in the list; `None` while it has no unfinished bytes.
    number: Option<u64>,
    bytes: usize,
}

impl UnfinishedPart {
    pub(super) fn new(all: &Arc<UnfinishedBytes>) -> Self {
        Self { all: Arc::clone(all), close: Arc::default(), number: None, bytes: 0 }
    }

    /// Runs the work of a connection and counts its unfinished bytes. Returns `None` as soon as the connection must
    /// close to free memory.
    pub(super) async fn count_during<W: Future>(&mut self, socket: &Socket, work: W) -> Option<W::Output> {
        let mut work = pin!(work);
        poll_fn(|context| {
            if self.must_close() {
                return Poll::Ready(None);
            }
            let done = work.as_mut().poll(context);
            if done.is_pending() {
                self.close.connection.register(context.waker());
            }
            self.set(if done.is_ready() { 0 } else { socket.unfinished() });
            if done.is_pending() && self.must_close() {
                return Poll::Ready(None);
            }
            done.map(Some)
        })
        .await
    }

    fn must_close(&self) -> bool {
        self.close.is_sent.load(Ordering::Acquire)
    }

    fn set(&mut self, bytes: usize) {
        if bytes == self.bytes {
            return;
        }
        self.bytes = bytes;
        let mut state = self.all.state();
        if bytes > 0 {
            self.number = Some(state.set(self.number, bytes, &self.close));
        } else if let Some(number) = self.number.take() {
            state.remove(number);
        }
        state.make_room(self.all.max);
    }
}

impl Drop for UnfinishedPart {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(max: usize, count: usize) -> (Arc<UnfinishedBytes>, Vec<UnfinishedPart>) {
        let all = UnfinishedBytes::new(max);
        let parts = (0..count).map(|_| UnfinishedPart::new(&all)).collect();
        (all, parts)
    }

    fn closed(parts: &[UnfinishedPart]) -> Vec<bool> {
        parts.iter().map(UnfinishedPart::must_close).collect()
    }

    #[test]
    fn the_oldest_is_closed_if_there_are_too_many_bytes() {
        let (all, mut parts) = parts(100, 3);
        parts[0].set(40);
        parts[1].set(40);
        parts[0].set(45);
        parts[2].set(15);
        assert_eq!(closed(&parts), [false; 3], "the bound itself is allowed");
        parts[2].set(16);
        assert_eq!(closed(&parts), [true, false, false]);
        assert_eq!(all.state().total, 56);
    }

    #[test]
    fn a_finished_request_leaves_its_place_in_the_order() {
        let (all, mut parts) = parts(100, 2);
        parts[0].set(40);
        parts[1].set(40);
        parts[0].set(0);
        parts[0].set(61);
        assert_eq!(closed(&parts), [false, true]);
        drop(parts);
        let state = all.state();
        assert_eq!((state.total, state.connections.len()), (0, 0));
    }

    #[test]
    fn one_connection_beyond_the_bound_closes_itself() {
        let (_, mut parts) = parts(100, 1);
        parts[0].set(101);
        assert_eq!(closed(&parts), [true]);
    }
}
