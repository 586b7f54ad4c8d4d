//! Budget of bytes in flight: memory of requests that are being read, pages that are being built, and responses that
//! are being written. One limit applies to all connections together.
//!
//! A `Purse` holds the bytes of a request from its first byte until the response exists. A `Share` holds the bytes of
//! a response until the last of them is written. Both return their bytes to the budget when they are dropped.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of bytes in flight. Our choice: thirty bodies or sixty pages of maximum size, in addition to many
/// small ones.
pub const BYTES_IN_FLIGHT_MAX: usize = 256 * 1024 * 1024;

/// Divisor for unauthenticated requests: together they may use the budget divided by this number. Our choice.
const STRANGERS_PART: usize = 8;

/// Maximum number of history pages that are built at the same time; further requests wait. Our choice: a page that is
/// being built takes several times its maximum size of 4 MiB.
const PAGES_AT_ONCE: usize = 8;

/// Maximum number of large bodies that are parsed at the same time; further requests wait. Our choice: the number of
/// cores, because parsing is pure computation.
fn parsed_at_once() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Free bytes that are required before a page is built. Our choice: about the maximum size of a page.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Maximum size of a small response in bytes. Small responses are counted but never refused, because a refused caller
/// must still receive the reason. Our choice.
const ANSWER_SMALL: usize = 16 * 1024;

/// Error: too many bytes are in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many bytes are in flight")]
pub struct Exhausted;

/// Number of bytes in use, with a maximum.
#[derive(Debug)]
struct Pool {
    what: &'static str,
    max: usize,
    taken: AtomicUsize,
    is_short: AtomicBool,
}

impl Pool {
    fn new(what: &'static str, max: usize) -> Self {
        Self { what, max, taken: AtomicUsize::new(0), is_short: AtomicBool::new(false) }
    }

    fn take(&self, bytes: usize) -> bool {
        let take = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= self.max);
        let has_room = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if !has_room && !self.is_short.swap(true, Ordering::Relaxed) {
            let (what, max) = (self.what, self.max);
            tracing::warn!(max, "too many bytes in flight of {what}; requests are refused until half is free");
        }
        has_room
    }

    fn give_back(&self, bytes: usize) {
        let left = self.taken.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        let is_over = left <= self.max / 2 && self.is_short.load(Ordering::Relaxed);
        if is_over && self.is_short.swap(false, Ordering::Relaxed) {
            tracing::info!("bytes in flight of {} are below the limit again", self.what);
        }
    }
}

/// Budget of bytes in flight of this process.
#[derive(Debug)]
pub struct Budget {
    all: Pool,
    strangers: Pool,
    pages: Arc<Semaphore>,
    parsing: Arc<Semaphore>,
    put_off: AtomicU64,
}

impl Budget {
    /// Returns a budget of `max` bytes.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            all: Pool::new("all requests and responses", max),
            strangers: Pool::new("unauthenticated requests", max / STRANGERS_PART),
            pages: Arc::new(Semaphore::new(PAGES_AT_ONCE)),
            parsing: Arc::new(Semaphore::new(parsed_at_once())),
            put_off: AtomicU64::new(0),
        })
    }

    /// Returns the number of bytes that are in flight now.
    pub fn taken(&self) -> usize {
        self.all.taken.load(Ordering::Relaxed)
    }

    /// Returns the number of requests that were refused because the budget was exhausted.
    pub fn put_off(&self) -> u64 {
        self.put_off.load(Ordering::Relaxed)
    }

    /// Waits for permission to build a history page. The permission ends when the returned permit is dropped.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] if the budget has too few free bytes for a page of maximum size.
    pub(crate) async fn page(&self) -> Result<OwnedSemaphorePermit, Exhausted> {
        // `acquire_owned` fails only after the semaphore is closed, which never happens.
        let permit = Arc::clone(&self.pages).acquire_owned().await.map_err(|_| Exhausted)?;
        if !self.all.take(PAGE_BYTES) {
            self.put_off.fetch_add(1, Ordering::Relaxed);
            return Err(Exhausted);
        }
        self.all.give_back(PAGE_BYTES);
        Ok(permit)
    }

    /// Takes the bytes of a response from the budget and returns them as a share. Small responses are never refused.
    pub(crate) fn answer(self: &Arc<Self>, bytes: usize) -> Result<Share, Exhausted> {
        let mut share = Share { budget: Arc::clone(self), who: Who::Known, bytes: 0 };
        if bytes <= ANSWER_SMALL {
            self.all.taken.fetch_add(bytes, Ordering::Relaxed);
            share.bytes = bytes;
        } else {
            share.grow(bytes)?;
        }
        Ok(share)
    }
}

/// Authentication status of a request's sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// Authenticated sender, or any sender if callers are not authenticated.
    Known,
    /// Sender that is not authenticated yet.
    Stranger,
}

/// Bytes taken from the budget, which are returned when this value is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    who: Who,
    bytes: usize,
}

impl Share {
    /// Takes more bytes from the budget.
    ///
    /// # Errors
    ///
    /// [`Exhausted`]; then no bytes are taken.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let budget = &self.budget;
        let has_room = match self.who {
            Who::Known => budget.all.take(bytes),
            Who::Stranger if !budget.strangers.take(bytes) => false,
            Who::Stranger => {
                let has_room = budget.all.take(bytes);
                if !has_room {
                    budget.strangers.give_back(bytes);
                }
                has_room
            }
        };
        if !has_room {
            budget.put_off.fetch_add(1, Ordering::Relaxed);
            return Err(Exhausted);
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Increases this share of the budget to at least this number of bytes.
    fn grow_to(&mut self, bytes: usize) -> Result<(), Exhausted> {
        match bytes.checked_sub(self.bytes) {
            None | Some(0) => Ok(()),
            Some(missing) => self.grow(missing),
        }
    }

    /// Reduces this share of the budget to at most this number of bytes.
    fn shrink_to(&mut self, bytes: usize) {
        let beyond = self.bytes.saturating_sub(bytes);
        if beyond > 0 {
            self.bytes -= beyond;
            self.give_back(beyond);
        }
    }

    fn give_back(&self, bytes: usize) {
        self.budget.all.give_back(bytes);
        match self.who {
            Who::Known => {}
            Who::Stranger => self.budget.strangers.give_back(bytes),
        }
    }

    fn mark_known(&mut self) {
        if std::mem::replace(&mut self.who, Who::Known) == Who::Stranger {
            self.budget.strangers.give_back(self.bytes);
        }
    }

    /// Returns `bytes` in a form that takes their number of bytes out of this share. When the last clone of the
    /// returned value is dropped, this part of the share returns to the budget.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] if the share is too small and cannot grow.
    pub(crate) fn hold(&mut self, bytes: Bytes) -> Result<Bytes, Exhausted> {
        struct HeldBytes {
            bytes: Bytes,
            _share: Share,
        }
        impl AsRef<[u8]> for HeldBytes {
            fn as_ref(&self) -> &[u8] {
                &self.bytes
            }
        }
        self.grow_to(bytes.len())?;
        self.bytes -= bytes.len();
        let share = Self { budget: Arc::clone(&self.budget), who: self.who, bytes: bytes.len() };
        Ok(Bytes::from_owner(HeldBytes { bytes, _share: share }))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// Bytes of the budget that one request holds until it is answered. Clones refer to the same bytes.
#[derive(Debug, Clone)]
pub(crate) struct Purse(Arc<Mutex<Share>>);

impl Purse {
    pub(crate) fn new(budget: &Arc<Budget>, who: Who) -> Self {
        Self(Arc::new(Mutex::new(Share { budget: Arc::clone(budget), who, bytes: 0 })))
    }

    fn with<T>(&self, call: impl FnOnce(&mut Share) -> T) -> T {
        call(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes more bytes from the budget, for data derived from the request.
    ///
    /// # Errors
    ///
    /// [`Exhausted`]; then no bytes are taken.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), Exhausted> {
        self.with(|share| share.grow(bytes))
    }

    /// Waits for permission to parse a large body. The permission ends when the returned permit is dropped.
    pub(crate) async fn parsing(&self) -> Option<OwnedSemaphorePermit> {
        let parsing = self.with(|share| Arc::clone(&share.budget.parsing));
        // `acquire_owned` fails only after the semaphore is closed, which never happens.
        parsing.acquire_owned().await.ok()
    }

    /// Records that the sender is now authenticated.
    pub(crate) fn mark_known(&self) {
        self.with(Share::mark_known);
    }
}

/// Received bytes of a request body. Before memory is allocated for them, it is taken from the request's purse, which
/// is its part of the budget.
#[derive(Debug)]
pub(crate) struct GatheredBytes {
    bytes: Vec<u8>,
    purse: Purse,
}

/// Minimum size of an allocation in bytes. Our choice: most bodies fit.
const GATHERED_MIN: usize = 1024;

impl GatheredBytes {
    pub(crate) fn new(purse: Purse) -> Self {
        Self { bytes: Vec::new(), purse }
    }

    /// Returns the purse (the request's part of the memory budget) from which these bytes are taken.
    pub(crate) fn purse(&self) -> &Purse {
        &self.purse
    }

    /// Appends received bytes. `expected` is the announced size of the whole body, if known.
    ///
    /// # Errors
    ///
    /// [`Exhausted`]; then no bytes are appended.
    pub(crate) fn push(&mut self, some: &[u8], expected: Option<usize>) -> Result<(), Exhausted> {
        let needed = self.bytes.len() + some.len();
        if needed > self.bytes.capacity() {
            // Memory grows with the number of received bytes. The announced size only limits this growth, because a
            // client can announce any size.
            let doubled = needed.max(2 * self.bytes.capacity()).max(GATHERED_MIN);
            let room = expected.map_or(doubled, |expected| doubled.min(expected.max(needed)));
            self.purse.with(|share| share.grow_to(room))?;
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        self.bytes.extend_from_slice(some);
        Ok(())
    }
}

impl std::ops::Deref for GatheredBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn bytes_beyond_the_budget_are_refused_until_some_are_released() {
        let budget = Budget::new(1 << 20);
        let mut share = budget.answer(1 << 20).unwrap();
        assert_eq!((budget.taken(), budget.put_off()), (1 << 20, 0));
        let purse = Purse::new(&budget, Who::Known);
        assert_eq!(GatheredBytes::new(purse.clone()).push(b"x", Some(1)), Err(Exhausted));
        assert_eq!(budget.put_off(), 1);
        share.shrink_to((1 << 20) - 1);
        GatheredBytes::new(purse.clone()).push(b"x", Some(1)).unwrap();
        assert_eq!(GatheredBytes::new(Purse::new(&budget, Who::Known)).push(b"x", Some(1)), Err(Exhausted));
        // After parsing, the purse still holds the bytes of the request, because the parsed data takes as much memory.
        assert_eq!(budget.taken(), 1 << 20);
        drop(purse);
        drop(share);
        assert_eq!((budget.taken(), budget.put_off()), (0, 2));
    }

    #[test]
    fn unauthenticated_callers_share_an_eighth_of_the_budget() {
        let budget = Budget::new(1 << 20);
        let stranger = Purse::new(&budget, Who::Stranger);
        let mut gathered = GatheredBytes::new(stranger.clone());
        gathered.push(&vec![0; 1 << 17], Some(1 << 17)).unwrap();
        let other = Purse::new(&budget, Who::Stranger);
        assert_eq!(GatheredBytes::new(other.clone()).push(b"x", Some(1)), Err(Exhausted));
        assert!(GatheredBytes::new(Purse::new(&budget, Who::Known)).push(&vec![0; 1 << 19], None).is_ok());
        stranger.mark_known();
        GatheredBytes::new(other.clone()).push(b"x", Some(1)).unwrap();
        // Authenticated callers can use all bytes that unauthenticated ones leave free.
        let rest = budget.answer((1 << 20) - budget.taken()).unwrap();
        assert_eq!(GatheredBytes::new(other).push(b"xx", Some(2)), Err(Exhausted));
        drop((rest, stranger, gathered));
        assert_eq!(budget.taken(), 0, "and nothing is lost on the way");
        assert_eq!(budget.strangers.taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn memory_grows_with_received_bytes_not_announced_ones() {
        let budget = Budget::new(1 << 20);
        let mut gathered = GatheredBytes::new(Purse::new(&budget, Who::Known));
        gathered.push(b"x", Some(1 << 20)).unwrap();
        assert_eq!(budget.taken(), GATHERED_MIN);
        for _ in 1..5_000 {
            gathered.push(b"x", None).unwrap();
        }
        assert_eq!((gathered.len(), budget.taken()), (5_000, 8 * GATHERED_MIN));
        assert!(gathered.bytes.capacity() <= budget.taken());
    }

    #[test]
    fn response_bytes_hold_their_share_until_they_are_dropped() {
        let budget = Budget::new(1 << 20);
        let mut share = budget.answer(1 << 17).unwrap();
        let first = share.hold(Bytes::from(vec![0; 1 << 16])).unwrap();
        let part = first.slice(..10);
        drop((first, share));
        assert_eq!(budget.taken(), 1 << 16);
        drop(part);
        assert_eq!(budget.taken(), 0);
        // A response that is longer than announced takes more bytes from the budget. If the budget has none left, the
        // response is not written.
        let mut share = budget.answer(10).unwrap();
        assert!(share.hold(Bytes::from(vec![0; 1 << 20])).is_ok());
        assert_eq!(share.hold(Bytes::from(vec![0; (1 << 20) + 1])), Err(Exhausted));
    }

    #[tokio::test]
    async fn no_page_is_built_that_would_not_fit() {
        let budget = Budget::new(2 * PAGE_BYTES);
        let share = budget.answer(PAGE_BYTES).unwrap();
        drop(budget.page().await.unwrap());
        let more = budget.answer(ANSWER_SMALL).unwrap();
        assert_eq!(budget.page().await.unwrap_err(), Exhausted);
        drop((share, more));
        let making: Vec<_> = futures_util::future::join_all((0..PAGES_AT_ONCE).map(|_| budget.page())).await;
        let mut next = std::pin::pin!(budget.page());
        assert!(next.as_mut().now_or_never().is_none(), "so many are made at once");
        drop(making);
        drop(next.await.unwrap());
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn small_answers_are_never_refused() {
        let budget = Budget::new(1 << 20);
        let large = budget.answer(1 << 20).unwrap();
        let small = budget.answer(ANSWER_SMALL).unwrap();
        assert_eq!(budget.answer(ANSWER_SMALL + 1).unwrap_err(), Exhausted);
        assert_eq!(budget.taken(), (1 << 20) + ANSWER_SMALL);
        drop((small, large));
        assert_eq!(budget.taken(), 0);
    }
}
