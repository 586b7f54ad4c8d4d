//! Bytes in flight: what requests that are being read, pages that are being made and answers that are being written take of
//! this process's memory, held to one bound for all connections together.
//!
//! Bytes are held by way of a `Purse`, which a request has from its first byte to its answer, or of a `Share` that goes
//! with the bytes of an answer until the last of them is written. Either gives back what it took when it is dropped.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most bytes in flight. Ours: thirty of the largest bodies, or sixty of the largest pages, beside many small ones.
pub const BYTES_IN_FLIGHT_MAX: usize = 256 * 1024 * 1024;

/// The part of them that requests may take before it is known who sends them: one of so many. Ours.
const STRANGERS_PART: usize = 8;

/// Pages of histories that are made at once; further ones wait. Ours: each takes some times its 4 MiB while it is made.
const PAGES_AT_ONCE: usize = 8;

/// Maximum number of large bodies that are parsed at the same time; further ones wait. Ours: as many as there are cores, for
/// parsing does nothing but compute.
fn parsed_at_once() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// A large page: there must be room for it before one is made. Ours: about what the calls that make them have as their bound.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Answers up to this size are counted and never refused. Ours: whoever may do nothing else must still hear why.
const ANSWER_SMALL: usize = 16 * 1024;

/// There is no room for these bytes now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many bytes are in flight")]
pub struct Exhausted;

/// Bytes that are taken, of a bound.
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
            tracing::warn!(max, "too many bytes in flight of {what}; requests are put off until half of that is free");
        }
        has_room
    }

    fn give_back(&self, bytes: usize) {
        let left = self.taken.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        let is_over = left <= self.max / 2 && self.is_short.load(Ordering::Relaxed);
        if is_over && self.is_short.swap(false, Ordering::Relaxed) {
            tracing::info!("there is room again for bytes in flight of {}", self.what);
        }
    }
}

/// What a process has for bytes in flight.
#[derive(Debug)]
pub struct Budget {
    all: Pool,
    strangers: Pool,
    pages: Arc<Semaphore>,
    parsing: Arc<Semaphore>,
    put_off: AtomicU64,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            all: Pool::new("all requests and answers", max),
            strangers: Pool::new("requests whose senders are not known yet", max / STRANGERS_PART),
            pages: Arc::new(Semaphore::new(PAGES_AT_ONCE)),
            parsing: Arc::new(Semaphore::new(parsed_at_once())),
            put_off: AtomicU64::new(0),
        })
    }

    /// Bytes that are in flight now.
    pub fn taken(&self) -> usize {
        self.all.taken.load(Ordering::Relaxed)
    }

    /// Requests that were put off because there was no room for them or their answers.
    pub fn put_off(&self) -> u64 {
        self.put_off.load(Ordering::Relaxed)
    }

    /// Waits until a page of a history may be made; another may be when what this answers is dropped.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] where there is no room for a large one: it would be made in vain.
    pub(crate) async fn page(&self) -> Result<OwnedSemaphorePermit, Exhausted> {
        // Nobody closes it.
        let permit = Arc::clone(&self.pages).acquire_owned().await.map_err(|_| Exhausted)?;
        if !self.all.take(PAGE_BYTES) {
            self.put_off.fetch_add(1, Ordering::Relaxed);
            return Err(Exhausted);
        }
        self.all.give_back(PAGE_BYTES);
        Ok(permit)
    }

    /// A share for an answer of so many bytes. Small ones have theirs in any case.
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

/// Whose bytes they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// Of somebody who may ask for something, or of anybody where nobody is asked who they are.
    Known,
    /// Of somebody who has not shown who they are.
    Stranger,
}

/// Bytes of the budget. They are free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    who: Who,
    bytes: usize,
}

impl Share {
    /// Takes more.
    ///
    /// # Errors
    ///
    /// [`Exhausted`], having taken nothing.
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

    /// Takes as many more as it has fewer than that.
    fn grow_to(&mut self, bytes: usize) -> Result<(), Exhausted> {
        match bytes.checked_sub(self.bytes) {
            None | Some(0) => Ok(()),
            Some(missing) => self.grow(missing),
        }
    }

    /// Gives back what it has beyond that.
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

    fn is_known(&mut self) {
        if std::mem::replace(&mut self.who, Who::Known) == Who::Stranger {
            self.budget.strangers.give_back(self.bytes);
        }
    }

    /// These bytes, with as much of the share as they need for as long as somebody has them.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] where the share is smaller than they are and cannot grow.
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

/// What one request holds until it is answered. All clones are the same purse.
#[derive(Debug, Clone)]
pub(crate) struct Purse(Arc<Mutex<Share>>);

impl Purse {
    pub(crate) fn new(budget: &Arc<Budget>, who: Who) -> Self {
        Self(Arc::new(Mutex::new(Share { budget: Arc::clone(budget), who, bytes: 0 })))
    }

    fn with<T>(&self, call: impl FnOnce(&mut Share) -> T) -> T {
        call(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes more bytes, for what is made of the request.
    ///
    /// # Errors
    ///
    /// [`Exhausted`], having taken nothing.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), Exhausted> {
        self.with(|share| share.grow(bytes))
    }

    /// Waits until a large body may be parsed; another may be when the permit is dropped.
    pub(crate) async fn parsing(&self) -> Option<OwnedSemaphorePermit> {
        let parsing = self.with(|share| Arc::clone(&share.budget.parsing));
        // The semaphore is never closed.
        parsing.acquire_owned().await.ok()
    }

    /// The sender is known from now on.
    pub(crate) fn is_known(&self) {
        self.with(Share::is_known);
    }
}

/// Bytes of a request while they come. Each has room in the purse before it is copied here.
#[derive(Debug)]
pub(crate) struct GatheredBytes {
    bytes: Vec<u8>,
    purse: Purse,
}

/// The least room that is made at once. Ours: most bodies fit.
const GATHERED_MIN: usize = 1024;

impl GatheredBytes {
    pub(crate) fn new(purse: Purse) -> Self {
        Self { bytes: Vec::new(), purse }
    }

    /// Purse that holds these bytes.
    pub(crate) fn purse(&self) -> &Purse {
        &self.purse
    }

    /// Appends what has come; `expected` is how much will come in all, where that is known.
    ///
    /// # Errors
    ///
    /// [`Exhausted`], having appended nothing.
    pub(crate) fn push(&mut self, some: &[u8], expected: Option<usize>) -> Result<(), Exhausted> {
        let needed = self.bytes.len() + some.len();
        if needed > self.bytes.capacity() {
            // Grows as it comes, whatever was promised: a promise costs its sender nothing.
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
    fn what_fits_to_the_last_byte_is_taken_and_what_does_not_is_put_off_until_there_is_room() {
        let budget = Budget::new(1 << 20);
        let mut share = budget.answer(1 << 20).unwrap();
        assert_eq!((budget.taken(), budget.put_off()), (1 << 20, 0));
        let purse = Purse::new(&budget, Who::Known);
        assert_eq!(GatheredBytes::new(purse.clone()).push(b"x", Some(1)), Err(Exhausted));
        assert_eq!(budget.put_off(), 1);
        share.shrink_to((1 << 20) - 1);
        GatheredBytes::new(purse.clone()).push(b"x", Some(1)).unwrap();
        assert_eq!(GatheredBytes::new(Purse::new(&budget, Who::Known)).push(b"x", Some(1)), Err(Exhausted));
        // The request goes on holding its byte when the bytes were read: what was made of them is as large.
        assert_eq!(budget.taken(), 1 << 20);
        drop(purse);
        drop(share);
        assert_eq!((budget.taken(), budget.put_off()), (0, 2));
    }

    #[test]
    fn strangers_have_an_eighth_and_leave_it_when_they_are_known() {
        let budget = Budget::new(1 << 20);
        let stranger = Purse::new(&budget, Who::Stranger);
        let mut gathered = GatheredBytes::new(stranger.clone());
        gathered.push(&vec![0; 1 << 17], Some(1 << 17)).unwrap();
        let other = Purse::new(&budget, Who::Stranger);
        assert_eq!(GatheredBytes::new(other.clone()).push(b"x", Some(1)), Err(Exhausted));
        assert!(GatheredBytes::new(Purse::new(&budget, Who::Known)).push(&vec![0; 1 << 19], None).is_ok());
        stranger.is_known();
        GatheredBytes::new(other.clone()).push(b"x", Some(1)).unwrap();
        // Those who are known take what strangers could have had.
        let rest = budget.answer((1 << 20) - budget.taken()).unwrap();
        assert_eq!(GatheredBytes::new(other).push(b"xx", Some(2)), Err(Exhausted));
        drop((rest, stranger, gathered));
        assert_eq!(budget.taken(), 0, "and nothing is lost on the way");
        assert_eq!(budget.strangers.taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_request_takes_room_as_it_comes_and_not_as_it_was_promised() {
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
    fn the_bytes_of_an_answer_hold_their_share_until_nobody_has_them() {
        let budget = Budget::new(1 << 20);
        let mut share = budget.answer(1 << 17).unwrap();
        let first = share.hold(Bytes::from(vec![0; 1 << 16])).unwrap();
        let part = first.slice(..10);
        drop((first, share));
        assert_eq!(budget.taken(), 1 << 16);
        drop(part);
        assert_eq!(budget.taken(), 0);
        // One that is longer than was said takes more, or is not written.
        let mut share = budget.answer(10).unwrap();
        assert!(share.hold(Bytes::from(vec![0; 1 << 20])).is_ok());
        assert_eq!(share.hold(Bytes::from(vec![0; (1 << 20) + 1])), Err(Exhausted));
    }

    #[tokio::test]
    async fn no_page_is_made_for_which_there_would_be_no_room() {
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
