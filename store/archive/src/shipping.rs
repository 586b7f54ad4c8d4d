//! The shipping thread: copies durable data to the archive ten times per second (less often for a bucket), without
//! delaying commits. It retries after failures, and stops the store if another store has taken over.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use store::Error;
use store_embedded::faults::Faults;
use store_embedded::files::{Lease, LogHold, Phase};
use store_embedded::{Embedded, LogSource};
use tokio::time::Instant;

use super::layout::is_claimed;
use super::opened::Archive;
use super::place::Intervals;
use super::sealed::{Files, read_sealed};
use super::ship::{ArchiveWriter, Shipper};
use super::{ArchiveAddress, ArchiveError};

/// Time to wait after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which data that is no longer needed is removed from the archive.
const FORGET: Duration = Duration::from_secs(600);
/// File in the data directory that names the archive to which the store was shipped.
const SHIPPED: &str = "SHIPPED";

/// Options of shipping.
#[derive(Debug, Clone)]
pub struct ShipTo {
    /// Archive, created if it does not exist.
    pub archive: ArchiveAddress,
    /// Time for which a restore to any instant must remain possible. Data that is not needed for this is removed.
    pub keep: Duration,
    /// Time for which the store acknowledges commits while it cannot reach the archive, including time that the machine
    /// sleeps. Zero means that the time is unlimited.
    pub lease: Duration,
    /// Fault injection for tests.
    #[doc(hidden)]
    pub faults: Arc<Faults>,
}

impl ShipTo {
    /// Creates options that keep data for a week, and let the store continue without the archive.
    pub fn new(archive: impl Into<ArchiveAddress>) -> Self {
        let keep = Duration::from_secs(7 * 24 * 3_600);
        Self { archive: archive.into(), keep, lease: Duration::ZERO, faults: Arc::default() }
    }
}

/// Status of shipping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShippingStatus {
    /// Age of the oldest commit that is not yet in the archive. Zero if there is none.
    pub lag: Duration,
    /// Last batch in the archive.
    pub shipped: u64,
    /// Current error, if any.
    pub error: Option<String>,
}

/// Content of the file `SHIPPED`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Shipped {
    archive: ArchiveAddress,
    epoch: u64,
}

/// Returns the archive that the store in a data directory was last shipped to, or `None` if it never was.
///
/// # Errors
///
/// [`Error::Corrupt`] if this information cannot be read.
pub fn shipped_to(directory: &Path) -> Result<Option<ArchiveAddress>, Error> {
    let shipped: Option<Shipped> = read_sealed(directory, SHIPPED)?;
    Ok(shipped.map(|shipped| shipped.archive))
}

/// Interval at which the lease is checked while no commit is acknowledged.
const LEASE_EVERY: Duration = Duration::from_millis(100);

/// Stops the store when its lease expires. This is done in a separate thread, because the shipping thread may hang.
fn watch_lease(source: &LogSource, lease: &Lease) {
    while source.wait(LEASE_EVERY) == Phase::Open {
        if lease.is_over() {
            return source.fail(&lease.expired_reason());
        }
    }
}

/// A store that is being shipped.
#[derive(Debug, Clone)]
pub struct Shipment {
    source: LogSource,
    state: Arc<ShipState>,
}

impl Shipment {
    /// Returns the status of shipping.
    pub fn standing(&self) -> ShippingStatus {
        self.state.standing(self.source.durable())
    }
}

/// Starts shipping everything durable to an archive. Must be called before the first commit, because a store that has
/// been taken over must not write.
///
/// # Errors
///
/// * [`ArchiveError::TakenOver`] if another store has taken over.
/// * [`ArchiveError::Refused`] if the store is shipped already, or if the archive belongs to another store, is ahead of
///   this store, or existed and no longer exists.
/// * [`ArchiveError::Away`] and [`ArchiveError::Damaged`] if the archive cannot be read or written.
pub async fn ship(store: &Embedded, to: ShipTo) -> Result<Shipment, ArchiveError> {
    let source = store.source().clone();
    let begun = tokio::task::spawn_blocking(move || Shipping::begin(source, to)).await;
    let shipping = begun.map_err(|error| ArchiveError::Away { why: error.to_string() })??;
    let (source, state) = (store.source().clone(), Arc::clone(&shipping.state));
    if !source.begin_shipping() {
        return Err(ArchiveError::Refused { why: "this store is already being shipped".to_owned() });
    }
    if let Some(lease) = &state.lease {
        source.set_lease(Arc::clone(lease));
        let (watched, lease) = (source.clone(), Arc::clone(lease));
        source.spawn("store-lease", move || watch_lease(&watched, &lease))?;
    }
    source.spawn("store-ship", move || shipping.run())?;
    Ok(Shipment { source, state })
}

/// State of the shipping thread, readable by other threads.
#[derive(Debug)]
struct ShipState {
    shipped: AtomicU64,
    seen: Mutex<Seen>,
    /// Lease of the store. `None` if the store continues without the archive.
    lease: Option<Arc<Lease>>,
}

#[derive(Debug)]
struct Seen {
    /// Last time at which the archive contained all durable batches of the store.
    all_at: Instant,
    error: Option<String>,
}

impl ShipState {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn standing(&self, durable: u64) -> ShippingStatus {
        let seen = self.lock();
        let shipped = self.shipped.load(Ordering::SeqCst);
        let lag = if shipped < durable { seen.all_at.elapsed() } else { Duration::ZERO };
        ShippingStatus { lag, shipped, error: seen.error.clone() }
    }

    fn all(&self, shipped: u64, at: Instant) {
        self.shipped.store(shipped, Ordering::SeqCst);
        let mut seen = self.lock();
        seen.all_at = at;
        if seen.error.take().is_some() {
            tracing::info!("the archive is reachable again");
        }
    }

    /// Returns the current time of the lease's clock, for [`written`](Self::written).
    fn lease_clock(&self) -> u64 {
        self.lease.as_ref().map_or(0, |lease| lease.now())
    }

    /// Renews the lease after a write to the archive, which happened at this time of the lease's clock.
    fn written(&self, at: u64) {
        if let Some(lease) = &self.lease {
            lease.renew(at);
        }
    }

    fn set_error(&self, error: &ArchiveError) {
        let mut seen = self.lock();
        let message = error.to_string();
        if seen.error.as_ref() != Some(&message) {
            tracing::error!(%error, "cannot ship the log; the service continues and retries");
            seen.error = Some(message);
        }
    }
}

/// State of the shipping thread while it runs.
struct Shipping {
    source: LogSource,
    to: ShipTo,
    archive: Archive,
    writer: ArchiveWriter,
    intervals: Intervals,
    epoch: u64,
    shipper: Option<Shipper>,
    /// Hold on the log. It keeps uncopied batches in the log, even between two attempts to reach the archive.
    hold: LogHold,
    state: Arc<ShipState>,
    heartbeat_at: Option<Instant>,
    forgot_at: Instant,
}

fn taken_over(archive: &Archive) -> ArchiveError {
    ArchiveError::TakenOver { why: format!("another store has taken over according to the archive `{archive}`") }
}

impl Shipping {
    /// Opens the archive. This must be done before the store accepts its first commit, because a store that was taken
    /// over must not write.
    fn begin(source: LogSource, to: ShipTo) -> Result<Self, ArchiveError> {
        let directory = source.directory().to_owned();
        let directory = directory.as_path();
        let hold = source.hold(0);
        let address = to.archive.absolute();
        let archive = Archive::open(&address, &to.faults)?;
        let known: Option<Shipped> = read_sealed(directory, SHIPPED)?;
        if let Some(known) = known.filter(|known| known.archive == address)
            && !is_claimed(&archive, known.epoch)?
        {
            let hint = if archive.is_bucket() { "was it removed?" } else { "is it mounted?" };
            return Err(ArchiveError::Refused {
                why: format!(
                    "the archive `{archive}`, to which this store was shipped, does not exist: {hint} Without it, the \
                     service cannot determine whether another store has taken over. If it is permanently lost, name \
                     another location",
                ),
            });
        }
        let (writer, mut intervals) = (ArchiveWriter::draw(), archive.place.intervals());
        if !to.lease.is_zero() {
            intervals.heartbeat = intervals.heartbeat.min(to.lease / 3);
        }
        let shipper = Shipper::open(source.clone(), &archive, to.lease, writer)?;
        let shipped = Shipped { archive: address, epoch: shipper.epoch() };
        Files::default().write_sealed(directory, SHIPPED, &shipped)?;
        let now = Instant::now();
        let seen = Mutex::new(Seen { all_at: now, error: None });
        let lease = || Arc::new(Lease::new(to.lease, to.archive.display().to_string(), Arc::clone(&to.faults)));
        let lease = (!to.lease.is_zero()).then(lease);
        let state = Arc::new(ShipState { shipped: AtomicU64::new(shipper.shipped()), seen, lease });
        let to = ShipTo { archive: shipped.archive, ..to };
        let (epoch, shipper) = (shipper.epoch(), Some(shipper));
        let (heartbeat_at, forgot_at) = (None, now);
        Ok(Self { source, to, archive, writer, intervals, epoch, shipper, hold, state, heartbeat_at, forgot_at })
    }

    /// Runs until the store has closed or failed.
    fn run(mut self) {
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 5);
        loop {
            // `is_complete` is read before the step, so that the last step copies everything that was durable when the
            // store closed.
            let is_last = self.source.is_complete();
            let began = Instant::now();
            match self.step() {
                Ok(()) => {}
                Err(ArchiveError::TakenOver { why }) => return self.give_up(&why),
                Err(ArchiveError::Gap { batch }) => {
                    tracing::warn!(
                        batch,
                        "the log was not kept long enough for the archive; shipping starts over with a new base"
                    );
                    self.shipper = None;
                }
                Err(error) => {
                    self.state.set_error(&error);
                    self.shipper = None;
                }
            }
            if is_last {
                self.shipper.iter_mut().for_each(Shipper::release);
                return;
            }
            let pause = if self.shipper.is_some() { self.intervals.every } else { RETRY_INTERVAL };
            self.source.wait(pause.saturating_sub(began.elapsed()));
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
        if shipper.needs_base() && self.source.phase() == Phase::Open {
            let source = &self.source;
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
                if source.phase() == Phase::Open {
                    return Ok(());
                }
                Err(ArchiveError::Away { why: "the store is closing, and the base is incomplete".to_owned() })
            })?;
            tracing::info!(%archive, pairs = taken.pairs, bytes = taken.bytes, "a base was taken");
        } else if is_idle && self.heartbeat_at.is_some_and(|at| at.elapsed() < self.intervals.heartbeat) {
            self.state.all(shipper.shipped(), began);
            return Ok(());
        }
        let shipped = shipper.catch_up()?;
        self.heartbeat_at = Some(began);
        self.hold.set(shipped);
        self.state.all(shipped, began);
        self.state.written(began_at);
        if self.forgot_at.elapsed() > FORGET {
            self.forgot_at = began;
            shipper.forget(self.to.keep)?;
        }
        Ok(())
    }

    /// Stops acknowledging commits, copies everything that was acknowledged, records the end in the archive, and then
    /// stops the store.
    fn give_up(mut self, why: &str) {
        self.source.fail_silently(why);
        let ended = match &mut self.shipper {
            Some(shipper) => shipper.end(),
            None => Err(ArchiveError::Away { why: "the archive could not be opened".to_owned() }),
        };
        match ended {
            Ok(()) => tracing::error!("the archive contains everything that was acknowledged"),
            Err(error) => tracing::error!(%error, "the archive does not contain the last commits"),
        }
        self.source.fail(why);
    }
}
