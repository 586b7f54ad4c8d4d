//! The thread that ships: what is durable goes to the archive, ten times a second, to a bucket less often, and commits do not wait for it. Owns how
//! it goes on after a failure, and the end of a store that another has taken over.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use store::Error;
use tokio::time::Instant;

use super::holds::LogHold;
use super::layout::is_claimed;
use super::opened::Archive;
use super::place::Paces;
use super::sealed::{Files, read_sealed};
use super::ship::{ArchiveWriter, Shipper};
use super::source::LogSource;
use super::{ArchiveAddress, ArchiveError};
use crate::faults::Faults;
use crate::lease::Lease;
use crate::shared::{Phase, Shared};

/// How long after a failure it is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// How often what is too old is removed.
const FORGET: Duration = Duration::from_secs(600);
/// In the data directory: which archive it was shipped to.
const SHIPPED: &str = "SHIPPED";

/// Where a store is shipped to.
#[derive(Debug, Clone)]
pub struct ShipTo {
    /// The archive; made if it is not there.
    pub archive: ArchiveAddress,
    /// To any instant within so long the store can be restored; what is older goes.
    pub keep: Duration,
    /// How long the store acknowledges commits without the archive, by a clock that runs while the machine sleeps; for ever when zero.
    pub lease: Duration,
    /// Failures on demand, for tests.
    #[doc(hidden)]
    pub faults: Arc<Faults>,
}

impl ShipTo {
    /// Keeps a week, and goes on without the archive.
    pub fn new(archive: impl Into<ArchiveAddress>) -> Self {
        let keep = Duration::from_secs(7 * 24 * 3_600);
        Self { archive: archive.into(), keep, lease: Duration::ZERO, faults: Arc::default() }
    }
}

/// How shipping stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShipStanding {
    /// How long the oldest commit has waited that is not in the archive; zero when none waits.
    pub lag: Duration,
    /// The last batch that is there.
    pub shipped: u64,
    /// What is wrong, while something is.
    pub trouble: Option<String>,
}

/// Where a data directory was shipped to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Shipped {
    archive: ArchiveAddress,
    epoch: u64,
}

/// The archive that a data directory was last shipped to; `None` if it never was.
pub(crate) fn shipped_to(directory: &std::path::Path) -> Result<Option<ArchiveAddress>, Error> {
    let shipped: Option<Shipped> = read_sealed(directory, SHIPPED)?;
    Ok(shipped.map(|shipped| shipped.archive))
}

/// How often a lease is looked at while no commit is acknowledged.
const LEASE_EVERY: Duration = Duration::from_millis(100);

/// Fails a store whose archive was not written for as long as its lease; apart from the thread that writes, which may hang.
pub(crate) fn watch_lease(shared: &Shared, lease: &Lease) {
    loop {
        let locked = shared.lock();
        let is_open = |state: &mut crate::shared::State| state.phase == Phase::Open;
        let waited = shared.pace.wait_timeout_while(locked, LEASE_EVERY, is_open);
        if waited.unwrap_or_else(PoisonError::into_inner).0.phase != Phase::Open {
            return;
        }
        if lease.is_over() {
            return shared.fail(&lease.why_over());
        }
    }
}

/// What others may see of the thread.
#[derive(Debug)]
pub(crate) struct ShipState {
    shipped: AtomicU64,
    seen: Mutex<Seen>,
    /// `None` where the store goes on without the archive.
    pub(crate) lease: Option<Arc<Lease>>,
}

#[derive(Debug)]
struct Seen {
    /// Everything that was durable then is in the archive.
    all_at: Instant,
    trouble: Option<String>,
}

impl ShipState {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn standing(&self, durable: u64) -> ShipStanding {
        let seen = self.lock();
        let shipped = self.shipped.load(Ordering::SeqCst);
        let lag = if shipped < durable { seen.all_at.elapsed() } else { Duration::ZERO };
        ShipStanding { lag, shipped, trouble: seen.trouble.clone() }
    }

    fn all(&self, shipped: u64, at: Instant) {
        self.shipped.store(shipped, Ordering::SeqCst);
        let mut seen = self.lock();
        seen.all_at = at;
        if seen.trouble.take().is_some() {
            tracing::info!("the archive takes the log again");
        }
    }

    /// What the clock of the lease says, to renew it with.
    fn lease_clock(&self) -> u64 {
        self.lease.as_ref().map_or(0, |lease| lease.now())
    }

    /// The archive was written at this time.
    fn written(&self, at: u64) {
        if let Some(lease) = &self.lease {
            lease.renew(at);
        }
    }

    fn trouble(&self, error: &ArchiveError) {
        let mut seen = self.lock();
        let said = error.to_string();
        if seen.trouble.as_ref() != Some(&said) {
            tracing::error!(%error, "the log cannot be shipped; the service goes on, and it is tried again");
            seen.trouble = Some(said);
        }
    }
}

/// Ships a store.
pub(crate) struct Shipping {
    source: LogSource,
    pub(crate) to: ShipTo,
    archive: Archive,
    writer: ArchiveWriter,
    paces: Paces,
    epoch: u64,
    shipper: Option<Shipper>,
    /// Between two tries, too.
    hold: LogHold,
    pub(crate) state: Arc<ShipState>,
    beat_at: Option<Instant>,
    forgot_at: Instant,
}

fn taken_over(archive: &Archive) -> ArchiveError {
    ArchiveError::TakenOver { why: format!("another store has taken over, as the archive `{archive}` says") }
}

impl Shipping {
    /// Finds the archive before the store takes its first commit: nothing may be written by a store that another has taken over.
    pub(crate) fn begin(source: LogSource, directory: &std::path::Path, to: ShipTo) -> Result<Self, ArchiveError> {
        let hold = source.shared.segments.holds.hold(0);
        let address = to.archive.absolute();
        let archive = Archive::open(&address, &to.faults)?;
        let known: Option<Shipped> = read_sealed(directory, SHIPPED)?;
        if let Some(known) = known.filter(|known| known.archive == address)
            && !is_claimed(&archive, known.epoch)?
        {
            let hint = if archive.is_bucket() { "was it removed?" } else { "is it mounted?" };
            return Err(ArchiveError::Refused {
                why: format!(
                    "the archive `{archive}`, to which this store was shipped, is not there: {hint} Whether another store has \
                     taken over cannot be told without it. Where it is lost for good, name another place",
                ),
            });
        }
        let (writer, mut paces) = (ArchiveWriter::draw(), archive.place.paces());
        if !to.lease.is_zero() {
            paces.beat = paces.beat.min(to.lease / 3);
        }
        let shipper = Shipper::open(source.clone(), &archive, to.lease, writer)?;
        let shipped = Shipped { archive: address, epoch: shipper.epoch() };
        Files::default().write_sealed(directory, SHIPPED, &shipped)?;
        let now = Instant::now();
        let seen = Mutex::new(Seen { all_at: now, trouble: None });
        let lease = || Arc::new(Lease::new(to.lease, to.archive.display().to_string(), Arc::clone(&to.faults)));
        let lease = (!to.lease.is_zero()).then(lease);
        let state = Arc::new(ShipState { shipped: AtomicU64::new(shipper.shipped()), seen, lease });
        let to = ShipTo { archive: shipped.archive, ..to };
        let (epoch, shipper) = (shipper.epoch(), Some(shipper));
        let (beat_at, forgot_at) = (None, now);
        Ok(Self { source, to, archive, writer, paces, epoch, shipper, hold, state, beat_at, forgot_at })
    }

    /// Runs until the store has closed or failed.
    pub(crate) fn run(mut self) {
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 5);
        loop {
            // Asked before the step: what became durable until then is in it.
            let is_last = self.is_over();
            let began = Instant::now();
            match self.step() {
                Ok(()) => {}
                Err(ArchiveError::TakenOver { why }) => return self.give_up(&why),
                Err(ArchiveError::Gap { batch }) => {
                    tracing::warn!(
                        batch,
                        "the log was not kept long enough for the archive, which begins again with a new base"
                    );
                    self.shipper = None;
                }
                Err(error) => {
                    self.state.trouble(&error);
                    self.shipper = None;
                }
            }
            if is_last {
                self.shipper.iter_mut().for_each(Shipper::release);
                return;
            }
            let pause = if self.shipper.is_some() { self.paces.every } else { AGAIN };
            self.wait(pause.saturating_sub(began.elapsed()));
        }
    }

    fn is_over(&self) -> bool {
        let state = self.source.shared.lock();
        match state.phase {
            Phase::Open => false,
            Phase::Closing => state.builder.is_empty() && state.durable_batch + 1 == state.open_batch,
            Phase::Stopping => true,
        }
    }

    fn wait(&self, pause: Duration) {
        let shared = &self.source.shared;
        let state = shared.lock();
        let is_open = |state: &mut crate::shared::State| state.phase == Phase::Open;
        if state.phase == Phase::Open {
            drop(shared.pace.wait_timeout_while(state, pause, is_open));
        } else {
            // The committer has the last batch in hand.
            drop(shared.pace.wait_timeout(state, Duration::from_millis(1)));
        }
    }

    fn step(&mut self) -> Result<(), ArchiveError> {
        let (began, began_at) = (Instant::now(), self.state.lease_clock());
        let shipper = match &mut self.shipper {
            Some(shipper) => shipper,
            None => {
                self.writer = self.writer.again();
                let (source, lease) = (self.source.clone(), self.to.lease);
                self.shipper.insert(Shipper::open_again(source, &self.archive, self.epoch, lease, self.writer)?)
            }
        };
        if shipper.is_taken_over()? {
            return Err(taken_over(&self.archive));
        }
        let is_idle = self.source.durable() == shipper.shipped();
        if shipper.needs_base() && self.source.shared.lock().phase == Phase::Open {
            let shared = Arc::clone(&self.source.shared);
            let (state, hold) = (&self.state, &self.hold);
            let (archive, next) = (&self.archive, self.epoch + 1);
            let taken = shipper.take_base(&mut |_, shipped| {
                let now = Instant::now();
                state.written(state.lease_clock());
                if let Some(shipped) = shipped {
                    hold.set(shipped);
                    state.all(shipped, now);
                }
                if is_claimed(archive, next)? {
                    return Err(taken_over(archive));
                }
                if shared.lock().phase == Phase::Open {
                    return Ok(());
                }
                Err(ArchiveError::Away { why: "the store closes, and the base was not finished".to_owned() })
            })?;
            tracing::info!(%archive, pairs = taken.pairs, bytes = taken.bytes, "a base was taken");
        } else if is_idle && self.beat_at.is_some_and(|at| at.elapsed() < self.paces.beat) {
            self.state.all(shipper.shipped(), began);
            return Ok(());
        }
        let shipped = shipper.catch_up()?;
        self.beat_at = Some(began);
        self.hold.set(shipped);
        self.state.all(shipped, began);
        self.state.written(began_at);
        if self.forgot_at.elapsed() > FORGET {
            self.forgot_at = began;
            shipper.forget(self.to.keep)?;
        }
        Ok(())
    }

    /// Answers nothing any more, ships what was answered, says so, and ends.
    fn give_up(mut self, why: &str) {
        self.source.shared.silence(why);
        let ended = match &mut self.shipper {
            Some(shipper) => shipper.end(),
            None => Err(ArchiveError::Away { why: "it could not be opened".to_owned() }),
        };
        match ended {
            Ok(()) => tracing::error!("everything that was acknowledged is in the archive"),
            Err(error) => tracing::error!(%error, "the last commits are not in the archive"),
        }
        self.source.shared.fail(why);
    }
}
