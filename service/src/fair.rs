//! Order of requests under load. Each processor has a few *concurrency slots*, and a request needs a slot while it is
//! processed. If more requests are ready than there are slots, the domains take turns in getting free slots. This
//! module contains the slots ([`Places`]) and the queues of requests that wait for a slot. `order` decides which
//! request gets the next free slot.
//!
//! A request holds a slot only while it is being processed. It gets a slot when it can continue. It releases the slot
//! when it is answered or has to wait, for example for the store or for a task. A waiting request therefore holds no
//! slot. A slot is released whenever the future of its request returns `Pending`. The code that processes requests
//! therefore does not have to report that a request waits.

mod order;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::time::Instant;

use order::{Bounds, Granting, Round};

/// Number of concurrency slots per processor. Our choice: one slot for the request that is being processed, and one for
/// the next request, so that no processor is idle between requests. A request with a slot is processed before all
/// requests that are still queued. With more slots, the requests of one domain could therefore delay those of another.
const PLACES_OF_PROCESSOR: usize = 2;

/// Maximum number of requests per domain that wait for their first concurrency slot. Our choice: at 0.1 ms per request,
/// two processors serve them in less than half a second. A client that would wait longer should retry instead.
const WAITING_OF_DOMAIN_MAX: usize = 8_192;

/// Maximum number of requests of all domains that wait for their first concurrency slot. Our choice: twice the maximum
/// of one domain.
const WAITING_MAX: usize = 16_384;

/// Error: too many requests are waiting. The refused request has changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many requests are waiting")]
pub(crate) struct Crowded;

/// Statistics about requests that wait for a concurrency slot.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Waited {
    /// Number of requests that are waiting now.
    pub(crate) now: usize,
    /// Total number of waits of all requests. A request may wait several times.
    pub(crate) times: u64,
    /// Total duration of all completed waits.
    pub(crate) long: Duration,
    /// Number of requests that were refused because too many were waiting.
    pub(crate) refused: u64,
}

#[derive(Debug)]
struct Rota {
    order: Round<Arc<Seat>>,
    waits: Waited,
}

impl Rota {
    /// Gives a slot to the request whose waker is `claim`. If no slot is free, queues or refuses the request. Updates
    /// the statistics.
    fn ask(&mut self, claim: &Arc<Seat>, must: bool) -> Granting {
        let asked = self.order.ask(&claim.domain, Arc::clone(claim), must);
        match asked {
            Granting::Given => {}
            Granting::Waits => {
                self.waits.times += 1;
                claim.set_state(SeatState::Waits { since: Instant::now() });
            }
            Granting::Refused => self.waits.refused += 1,
        }
        asked
    }

    /// Releases a slot. If a request is waiting, it gets the slot, and its waker is returned. The caller must wake the
    /// task of this request after unlocking.
    fn give_back(&mut self) -> Option<Arc<Seat>> {
        let next = self.order.give_back()?;
        if let SeatState::Waits { since } = next.set_state(SeatState::Given) {
            self.waits.long += since.elapsed();
        }
        Some(next)
    }
}

/// All concurrency slots of the service. Always behind an [`Arc`].
#[derive(Debug)]
pub struct Places {
    inner: Mutex<Rota>,
}

impl Places {
    /// Creates `at_once` slots. If `at_once` is `None`, the number of slots depends on the number of processors.
    pub(crate) fn new(at_once: Option<usize>) -> Arc<Self> {
        let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let places = at_once.unwrap_or_else(|| PLACES_OF_PROCESSOR * processors());
        let bounds = Bounds { of_domain: WAITING_OF_DOMAIN_MAX, in_all: WAITING_MAX };
        let inner = Rota { order: Round::new(places.max(1), bounds), waits: Waited::default() };
        Arc::new(Self { inner: Mutex::new(inner) })
    }

    fn lock(&self) -> MutexGuard<'_, Rota> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the statistics about requests that wait for a slot.
    pub(crate) fn waits(&self) -> Waited {
        let inner = self.lock();
        Waited { now: inner.order.waiting(), ..inner.waits }
    }

    /// Returns a handle with which a request of this domain gets concurrency slots. If `must` is true, the request
    /// waits even if the queue is full, instead of being refused.
    pub(crate) fn claim(self: &Arc<Self>, domain: &str, must: bool) -> InTurn {
        let state = Mutex::new(SeatState::Begins { must });
        let (places, domain, task) = (Arc::clone(self), Arc::from(domain), AtomicWaker::new());
        let claim = Arc::new(Seat { places, domain, state, task });
        InTurn { waker: Waker::from(Arc::clone(&claim)), claim }
    }
}

/// Processing state of a request, which determines whether the request holds or needs a concurrency slot.
#[derive(Debug, Clone, Copy)]
enum SeatState {
    /// Processing has not begun. The request needs a slot as soon as its future is polled.
    Begins { must: bool },
    /// The request waits for an event, such as a response of the store, and has no slot.
    Rests,
    /// The request can continue, but has been waiting for a slot since this time.
    Waits { since: Instant },
    /// The request has a slot, and its task was woken. The next step of processing has not begun.
    Given,
    /// The request has a slot and is being processed.
    Works,
    /// The request has a slot and is being processed. During this step, an event has occurred that lets the request
    /// continue immediately after the step.
    WorksOn,
    /// The request is complete or was dropped.
    Over,
}

/// Waker of one request. After an event that lets the request continue, the waker first gets a slot for the request and
/// then wakes the request's task.
#[derive(Debug)]
struct Seat {
    places: Arc<Places>,
    domain: Arc<str>,
    /// State of the request. Changed only while the slots are locked.
    state: Mutex<SeatState>,
    task: AtomicWaker,
}

impl Seat {
    /// Sets the state, and returns the previous one.
    fn set_state(&self, state: SeatState) -> SeatState {
        std::mem::replace(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner), state)
    }

    fn state(&self) -> SeatState {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles an event that lets the request continue.
    fn handle_wake(self: &Arc<Self>) {
        let mut places = self.places.lock();
        let is_given = match self.state() {
            SeatState::Rests => {
                let is_given = places.ask(self, true) == Granting::Given;
                if is_given {
                    self.set_state(SeatState::Given);
                }
                is_given
            }
            SeatState::Works => {
                self.set_state(SeatState::WorksOn);
                false
            }
            SeatState::Begins { .. }
            | SeatState::Waits { .. }
            | SeatState::Given
            | SeatState::WorksOn
            | SeatState::Over => false,
        };
        drop(places);
        if is_given {
            self.task.wake();
        }
    }

    /// Starts a step of processing if the request has a slot or gets one.
    fn begin_work(self: &Arc<Self>) -> Poll<Result<(), Crowded>> {
        let mut places = self.places.lock();
        match self.state() {
            SeatState::Given => {}
            SeatState::Begins { must } => match places.ask(self, must) {
                Granting::Given => {}
                Granting::Waits => return Poll::Pending,
                Granting::Refused => return Poll::Ready(Err(Crowded)),
            },
            SeatState::Rests | SeatState::Waits { .. } | SeatState::Works | SeatState::WorksOn | SeatState::Over => {
                return Poll::Pending;
            }
        }
        self.set_state(SeatState::Works);
        Poll::Ready(Ok(()))
    }

    /// Ends a step of processing and releases the slot. `is_ready` is true if the result of the work is available.
    fn end_work(self: &Arc<Self>, is_ready: bool) {
        let mut places = self.places.lock();
        let previous = self.set_state(if is_ready { SeatState::Begins { must: true } } else { SeatState::Rests });
        // The slot is first offered to waiting requests, even if this request can already continue.
        let next = places.give_back();
        let is_given = match previous {
            SeatState::WorksOn if !is_ready => {
                let is_given = places.ask(self, true) == Granting::Given;
                if is_given {
                    self.set_state(SeatState::Given);
                }
                is_given
            }
            _ => false,
        };
        drop(places);
        if let Some(next) = next {
            next.task.wake();
        }
        if is_given {
            self.task.wake();
        }
    }

    fn release(self: &Arc<Self>) {
        let mut places = self.places.lock();
        let next = match self.set_state(SeatState::Over) {
            SeatState::Waits { .. } => {
                places.order.leave(&self.domain, |other| Arc::ptr_eq(other, self));
                None
            }
            // A request still has a slot if it is dropped before its step has ended, or if its step has panicked.
            SeatState::Given | SeatState::Works | SeatState::WorksOn => places.give_back(),
            SeatState::Begins { .. } | SeatState::Rests | SeatState::Over => None,
        };
        drop(places);
        if let Some(next) = next {
            next.task.wake();
        }
    }
}

impl Wake for Seat {
    fn wake(self: Arc<Self>) {
        self.handle_wake();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.handle_wake();
    }
}

/// Handle with which a request gets concurrency slots. Dropping the handle releases the slot if the request holds one.
#[derive(Debug)]
pub(crate) struct InTurn {
    claim: Arc<Seat>,
    waker: Waker,
}

impl InTurn {
    /// Runs this work to completion, in steps. Each step is one poll of the future `work`, while the request has a
    /// slot.
    ///
    /// # Errors
    ///
    /// [`Crowded`], if the work was refused before it began.
    pub(crate) fn during<W: Future + Unpin>(&self, mut work: W) -> impl Future<Output = Result<W::Output, Crowded>> {
        // This is not an `async` function, because its future would reserve memory for the work twice.
        poll_fn(move |context| self.poll(context, |context| Pin::new(&mut work).poll(context)))
    }

    /// Runs one step of the work, if the request has a slot or gets one.
    pub(crate) fn poll<T>(
        &self,
        context: &Context<'_>,
        step: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, Crowded>> {
        // The task is registered before a slot is requested, so that no wake-up is lost.
        self.claim.task.register(context.waker());
        if let Err(crowded) = std::task::ready!(self.claim.begin_work()) {
            return Poll::Ready(Err(crowded));
        }
        let done = step(&mut Context::from_waker(&self.waker));
        self.claim.end_work(done.is_ready());
        done.map(Ok)
    }
}

impl Drop for InTurn {
    fn drop(&mut self) {
        self.claim.release();
    }
}

#[cfg(test)]
mod tests;
