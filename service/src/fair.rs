//! The order in which requests are worked on where there is more to do than the processors can: domains take turns. Owns the
//! places, of which there are a few for each processor, and the queues of those who wait for one; who is next says `order`.
//!
//! A request has a place only while it is worked on: from when something has come that it can go on with until it is answered
//! or waits again, for the store, a task, a change, or more of its body. So nobody has a place while they wait, whatever they
//! wait for, and nothing has to say where waiting begins.

mod order;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::time::Instant;

use order::{Bounds, Granting, Round};

/// Places for each processor. Ours: one that is at work and one that is next, so that no processor waits for work. What has a
/// place is worked on before whoever comes next, so more would let a domain's requests pile up before another's again.
const PLACES_OF_PROCESSOR: usize = 2;

/// Requests of a domain that may wait for their first place. Ours: at a ten-thousandth of a second each, two processors need
/// less than half a second for as many, and whoever would wait longer is better told to ask again.
const WAITING_OF_DOMAIN_MAX: usize = 8_192;

/// Requests of all domains that may. Ours: of two domains as many as may.
const WAITING_MAX: usize = 16_384;

/// As many requests wait as may. Nothing was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("as many requests wait for their turn as may")]
pub(crate) struct Crowded;

/// What has come of waiting for a place, all in all.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Waited {
    /// How many wait now.
    pub(crate) now: usize,
    /// How often somebody has waited.
    pub(crate) times: u64,
    /// How long they have.
    pub(crate) long: Duration,
    /// How many were refused.
    pub(crate) refused: u64,
}

#[derive(Debug)]
struct Rota {
    order: Round<Arc<Seat>>,
    waits: Waited,
}

impl Rota {
    /// Asks for a place for a claim; whether it has one.
    fn ask(&mut self, claim: &Arc<Seat>, must: bool) -> Granting {
        let asked = self.order.ask(&claim.domain, Arc::clone(claim), must);
        match asked {
            Granting::Given => {}
            Granting::Waits => {
                self.waits.times += 1;
                claim.stands(SeatState::Waits { since: Instant::now() });
            }
            Granting::Refused => self.waits.refused += 1,
        }
        asked
    }

    /// Gives a place back; who has it from now on, and is to be woken when the lock is free.
    fn give_back(&mut self) -> Option<Arc<Seat>> {
        let next = self.order.give_back()?;
        if let SeatState::Waits { since } = next.stands(SeatState::Given) {
            self.waits.long += since.elapsed();
        }
        Some(next)
    }
}

/// See the module. Always behind an [`Arc`].
#[derive(Debug)]
pub struct Places {
    inner: Mutex<Rota>,
}

impl Places {
    /// So many at once; as the processors are when absent.
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

    /// What has come of waiting.
    pub(crate) fn waits(&self) -> Waited {
        let inner = self.lock();
        Waited { now: inner.order.waiting(), ..inner.waits }
    }

    /// A request of this domain, which is worked on in turns from now on. One that `must` be is never refused.
    pub(crate) fn claim(self: &Arc<Self>, domain: &str, must: bool) -> InTurn {
        let standing = Mutex::new(SeatState::Begins { must });
        let (places, domain, task) = (Arc::clone(self), Arc::from(domain), AtomicWaker::new());
        let claim = Arc::new(Seat { places, domain, standing, task });
        InTurn { waker: Waker::from(Arc::clone(&claim)), claim }
    }
}

/// How a request stands with its place.
#[derive(Debug, Clone, Copy)]
enum SeatState {
    /// Asks for a place when it is looked at.
    Begins { must: bool },
    /// Waits for something, and has no place.
    Rests,
    /// Could go on, and waits for a place.
    Waits { since: Instant },
    /// Has a place, and its task was woken.
    Given,
    /// Is worked on.
    Works,
    /// Is worked on, and can go on when that ends.
    WorksOn,
    /// Wants no place any more.
    Over,
}

/// What a request is to the places. What it waits for wakes this, and this wakes the request's task when it has a place.
#[derive(Debug)]
struct Seat {
    places: Arc<Places>,
    domain: Arc<str>,
    /// Changed under the lock of the places alone.
    standing: Mutex<SeatState>,
    task: AtomicWaker,
}

impl Seat {
    /// How it stands from now on; answers how it stood.
    fn stands(&self, standing: SeatState) -> SeatState {
        std::mem::replace(&mut *self.standing.lock().unwrap_or_else(PoisonError::into_inner), standing)
    }

    fn standing(&self) -> SeatState {
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something has come that it can go on with.
    fn is_woken(self: &Arc<Self>) {
        let mut places = self.places.lock();
        let is_given = match self.standing() {
            SeatState::Rests => {
                let is_given = places.ask(self, true) == Granting::Given;
                if is_given {
                    self.stands(SeatState::Given);
                }
                is_given
            }
            SeatState::Works => {
                self.stands(SeatState::WorksOn);
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

    /// Takes up the work, where it has a place or is given one.
    fn begins_to_work(self: &Arc<Self>) -> Poll<Result<(), Crowded>> {
        let mut places = self.places.lock();
        match self.standing() {
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
        self.stands(SeatState::Works);
        Poll::Ready(Ok(()))
    }

    /// Lays the work down, for now or until it is looked at again.
    fn ends_to_work(self: &Arc<Self>, is_ready: bool) {
        let mut places = self.places.lock();
        let stood = self.stands(if is_ready { SeatState::Begins { must: true } } else { SeatState::Rests });
        // Others first, if there are any.
        let next = places.give_back();
        let is_given = match stood {
            SeatState::WorksOn if !is_ready => {
                let is_given = places.ask(self, true) == Granting::Given;
                if is_given {
                    self.stands(SeatState::Given);
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

    fn is_over(self: &Arc<Self>) {
        let mut places = self.places.lock();
        let next = match self.stands(SeatState::Over) {
            SeatState::Waits { .. } => {
                places.order.leave(&self.domain, |other| Arc::ptr_eq(other, self));
                None
            }
            // Also where the work ended in a panic.
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
        self.is_woken();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken();
    }
}

/// A request that is worked on in turns. Gives its place back when it is dropped, too.
#[derive(Debug)]
pub(crate) struct InTurn {
    claim: Arc<Seat>,
    waker: Waker,
}

impl InTurn {
    /// The outcome of this work.
    ///
    /// # Errors
    ///
    /// [`Crowded`], having done nothing of it.
    pub(crate) fn during<W: Future + Unpin>(&self, mut work: W) -> impl Future<Output = Result<W::Output, Crowded>> {
        // Without `async`, which would have room for the work twice.
        poll_fn(move |context| self.poll(context, |context| Pin::new(&mut work).poll(context)))
    }

    /// The same, a step at a time.
    pub(crate) fn poll<T>(
        &self,
        context: &Context<'_>,
        step: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, Crowded>> {
        // Before it is seen whether there is a place, so that none is given unheard.
        self.claim.task.register(context.waker());
        if let Err(crowded) = std::task::ready!(self.claim.begins_to_work()) {
            return Poll::Ready(Err(crowded));
        }
        let done = step(&mut Context::from_waker(&self.waker));
        self.claim.ends_to_work(done.is_ready());
        done.map(Ok)
    }
}

impl Drop for InTurn {
    fn drop(&mut self) {
        self.claim.is_over();
    }
}

#[cfg(test)]
mod tests;
