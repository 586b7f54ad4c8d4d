//! Order of work under load: if there is more work than the processors can do, domains take turns. This module owns the
//! places, of which each processor has a few, and the queues of requests that wait for one. `order` decides which
//! request is next.
//!
//! A request holds a place only while it is being worked on: from when it can continue until it is answered or waits
//! again, for the store, a task, a change, or more of its body. So no waiting request holds a place, and no code needs
//! to mark where waiting begins.

mod order;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::time::Instant;

use order::{Bounds, Granting, Round};

/// Places per processor. Our choice: one at work and one that is next, so that no processor waits for work. Requests
/// with a place run before later ones, so more places would let the requests of one domain pile up before those of
/// another.
const PLACES_OF_PROCESSOR: usize = 2;

/// Maximum number of requests of a domain that wait for their first place. Our choice: at 0.1 ms each, two processors
/// need less than half a second for them. A client that would wait longer should retry instead.
const WAITING_OF_DOMAIN_MAX: usize = 8_192;

/// Maximum number of waiting requests of all domains. Our choice: twice the maximum of one domain.
const WAITING_MAX: usize = 16_384;

/// Error of a full queue. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many requests are waiting")]
pub(crate) struct Crowded;

/// Totals of waiting for a place.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Waited {
    /// Number of requests that wait now.
    pub(crate) now: usize,
    /// Number of times that a request has waited.
    pub(crate) times: u64,
    /// Total waiting time.
    pub(crate) long: Duration,
    /// Number of refused requests.
    pub(crate) refused: u64,
}

#[derive(Debug)]
struct Rota {
    order: Round<Arc<Seat>>,
    waits: Waited,
}

impl Rota {
    /// Requests a place for a seat, and records the outcome.
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

    /// Releases a place. Returns its next owner, which the caller must wake after unlocking.
    fn give_back(&mut self) -> Option<Arc<Seat>> {
        let next = self.order.give_back()?;
        if let SeatState::Waits { since } = next.set_state(SeatState::Given) {
            self.waits.long += since.elapsed();
        }
        Some(next)
    }
}

/// Places for requests. Always behind an [`Arc`].
#[derive(Debug)]
pub struct Places {
    inner: Mutex<Rota>,
}

impl Places {
    /// Returns this number of places; if absent, a number that depends on the processors.
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

    /// Returns the totals of waiting.
    pub(crate) fn waits(&self) -> Waited {
        let inner = self.lock();
        Waited { now: inner.order.waiting(), ..inner.waits }
    }

    /// Returns a handle with which a request of this domain works in turns. A request that `must` be admitted is never
    /// refused.
    pub(crate) fn claim(self: &Arc<Self>, domain: &str, must: bool) -> InTurn {
        let state = Mutex::new(SeatState::Begins { must });
        let (places, domain, task) = (Arc::clone(self), Arc::from(domain), AtomicWaker::new());
        let claim = Arc::new(Seat { places, domain, state, task });
        InTurn { waker: Waker::from(Arc::clone(&claim)), claim }
    }
}

/// State of a request with regard to its place.
#[derive(Debug, Clone, Copy)]
enum SeatState {
    /// Will request a place when it is polled.
    Begins { must: bool },
    /// Waits for an event, without a place.
    Rests,
    /// Can continue, and waits for a place.
    Waits { since: Instant },
    /// Has a place, and its task was woken.
    Given,
    /// Is being worked on.
    Works,
    /// Is being worked on, and can continue after that.
    WorksOn,
    /// Needs no more places.
    Over,
}

/// Waker of one request: events wake the seat, and the seat wakes the request's task when it has a place.
#[derive(Debug)]
struct Seat {
    places: Arc<Places>,
    domain: Arc<str>,
    /// Changed only while the places are locked.
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

    /// Reacts to an event with which the request can continue.
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

    /// Starts work, if the request has a place or gets one.
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

    /// Ends work, finally or until the next poll.
    fn end_work(self: &Arc<Self>, is_ready: bool) {
        let mut places = self.places.lock();
        let previous = self.set_state(if is_ready { SeatState::Begins { must: true } } else { SeatState::Rests });
        // Other waiting requests come first.
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
            // Also reached if the work panicked.
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

/// Request that works in turns. Dropping it releases its place.
#[derive(Debug)]
pub(crate) struct InTurn {
    claim: Arc<Seat>,
    waker: Waker,
}

impl InTurn {
    /// Runs this work to its end.
    ///
    /// # Errors
    ///
    /// [`Crowded`], with nothing of it done.
    pub(crate) fn during<W: Future + Unpin>(&self, mut work: W) -> impl Future<Output = Result<W::Output, Crowded>> {
        // Not an `async` function, because its future would reserve memory for the work twice.
        poll_fn(move |context| self.poll(context, |context| Pin::new(&mut work).poll(context)))
    }

    /// Runs one step of the work.
    pub(crate) fn poll<T>(
        &self,
        context: &Context<'_>,
        step: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, Crowded>> {
        // Registered before requesting a place, so that no wake-up is lost.
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
