//! A standby: a copy of a store that follows an archive and takes over on command.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use store::UnixMs;
use store_embedded::faults::Faults;
use store_embedded::files::{draw_id, now, storage_error};
use tokio::time::Instant;

use super::copy::{COPY, Copy};
use super::layout::{claim, is_claimed, owner, store_text};
use super::opened::Archive;
use super::read::{EpochView, no_archive, read_epochs};
use super::sealed::Files;
use super::{ArchiveAddress, ArchiveError, CopyProgress, Restored};

/// File that asks the process of the standby to take over.
const PROMOTE: &str = "PROMOTE";
/// Interval at which the standby checks whether the old store has stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Additional time for which the standby waits after the lease of the old store has expired. Our choice: an upper bound
/// for the duration of a step of the old store plus the difference between the clocks.
const LEASE_MARGIN: Duration = Duration::from_secs(2);

/// Options of a standby.
#[derive(Debug, Clone)]
pub struct StandbyOptions {
    /// Archive to follow.
    pub archive: ArchiveAddress,
    /// Data directory of the standby. It must be empty or contain a copy that follows this archive.
    pub directory: PathBuf,
    /// Fault injection for tests.
    #[doc(hidden)]
    pub faults: Arc<Faults>,
}

/// Progress of a standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Followed {
    /// Epoch of the archive that the standby follows.
    pub epoch: u64,
    /// Last batch that was applied.
    pub batch: u64,
    /// Number of batches that this step has applied.
    pub batches_new: u64,
    /// Time up to which everything acknowledged has been applied, in milliseconds since 1970 by the clock of the
    /// machine that writes the archive.
    pub at: UnixMs,
    /// Difference between `at` and the clock of this machine.
    pub lag: Duration,
    /// True if this step has discarded the copy and started again with a new base.
    pub has_begun: bool,
}

/// Result of taking over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promotion {
    /// Epoch of the archive that this store now owns.
    pub epoch: u64,
    /// Last batch of the old store that was applied.
    pub batch: u64,
    /// Time up to which everything acknowledged by the old store has been applied, in milliseconds since 1970.
    pub at: UnixMs,
    /// True if the old store has recorded that it stopped, and everything that it acknowledged has been applied.
    pub is_all: bool,
}

/// A copy that follows an archive.
pub struct Standby {
    copy: Copy,
    archive: Archive,
}

impl std::fmt::Debug for Standby {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Standby").field("archive", &self.archive.address).finish_non_exhaustive()
    }
}

impl Standby {
    /// Opens the directory of a standby.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Refused`] or [`ArchiveError::Away`] if the directory is in use, or contains anything but a copy
    /// from this archive.
    pub fn open(options: &StandbyOptions) -> Result<Self, ArchiveError> {
        let archive = Archive::open(&options.archive.absolute(), &options.faults)?;
        let copy = Copy::take(&options.directory, Files { faults: Arc::clone(&options.faults) }, true)?;
        if let Some(other) = copy.following.as_ref().filter(|following| following.archive != archive.address) {
            let (directory, other) = (options.directory.display(), other.archive.display());
            let why = format!("`{directory}` follows the archive `{other}`: name that archive, or another directory");
            return Err(ArchiveError::Refused { why });
        }
        Ok(Self { copy, archive })
    }

    /// Applies new data from the archive.
    ///
    /// # Errors
    ///
    /// The errors of [`restore`](super::restore). Data that was applied before the error is kept, and the next call
    /// continues after it.
    pub fn step(&mut self, tick: &mut dyn FnMut(CopyProgress)) -> Result<Followed, ArchiveError> {
        let view = self.newest()?;
        self.follow(&view, tick)
    }

    /// Returns the newest epoch that has a base. In a bucket, this tries to read the next epochs instead of listing the
    /// bucket, because listing a bucket costs more than reading.
    fn newest(&self) -> Result<EpochView, ArchiveError> {
        let Some(following) = &self.copy.following else {
            return read_epochs(&self.archive)?.pop().ok_or_else(|| no_archive(&self.archive));
        };
        let mut epoch = following.epoch;
        while is_claimed(&self.archive, epoch + 1)? {
            epoch += 1;
        }
        for epoch in (following.epoch..=epoch).rev() {
            if let Some(view) = EpochView::read(&self.archive, epoch)? {
                return Ok(view);
            }
        }
        Err(no_archive(&self.archive))
    }

    fn follow(&mut self, view: &EpochView, tick: &mut dyn FnMut(CopyProgress)) -> Result<Followed, ArchiveError> {
        let following = self.copy.following.as_ref().filter(|following| following.epoch == view.epoch);
        let continues = following
            .zip(self.copy.copied)
            .is_some_and(|(following, copied)| view.continues(following.line, copied + 1));
        let before = if continues { self.copy.copied.unwrap_or_default() } else { 0 };
        if !continues {
            let base = view.last_base().ok_or_else(|| ArchiveError::Refused {
                why: "the archive has no base yet; wait for the service to write one".to_owned(),
            })?;
            self.copy.begin(view, base, tick)?;
        }
        let end = view.end().max(self.copy.copied.unwrap_or_default());
        self.copy.apply(view, end)?;
        let at = view.newest.at;
        let lag = Duration::from_millis(now().saturating_sub(at));
        let batches_new = end - before;
        Ok(Followed { epoch: view.epoch, batch: end, batches_new, at, lag, has_begun: !continues })
    }

    /// Returns whether a user has asked this standby to take over.
    pub fn is_promotion_requested(&self) -> bool {
        self.copy.path().join(PROMOTE).exists()
    }

    /// Takes over. Records in the archive that the old store must stop. Then waits until the old store has copied
    /// everything that it acknowledged, but at most for the longer of `wait` and the old store's lease.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Refused`] if another store has taken over, or if the copy is incomplete. Otherwise the errors of
    /// [`step`](Self::step).
    pub fn promote(mut self, wait: Duration) -> Result<Promotion, ArchiveError> {
        let followed = self.step(&mut |_| ())?;
        let Some(mut following) = self.copy.following.clone() else {
            return Err(ArchiveError::Refused {
                why: "this standby has not copied anything from its archive yet".to_owned(),
            });
        };
        if followed.batch < following.whole_at {
            let why = "the copy is incomplete: the archive has not reached the end of its base yet".to_owned();
            return Err(ArchiveError::Refused { why });
        }
        let id = following.claims.unwrap_or_else(draw_id);
        if following.claims.is_none() {
            following.claims = Some(id);
            self.copy.files.write_sealed(self.copy.path(), COPY, &following)?;
            self.copy.following = Some(following.clone());
        }
        let epoch = self.take_epoch(following.epoch, id)?;
        let began = Instant::now();
        let (followed, is_all) = loop {
            let view = EpochView::read(&self.archive, following.epoch)?;
            let view =
                view.ok_or_else(|| ArchiveError::Damaged { what: "the followed epoch no longer exists".to_owned() })?;
            let followed = self.follow(&view, &mut |_| ())?;
            if view.ended.as_ref().is_some_and(|ended| ended.batch == followed.batch) {
                break (followed, true);
            }
            let lease = Duration::from_millis(view.newest.lease_ms);
            let lease_is_over = lease.is_zero() || followed.lag > lease + LEASE_MARGIN;
            if began.elapsed() >= wait && lease_is_over {
                break (followed, false);
            }
            std::thread::sleep(POLL_INTERVAL);
        };
        drop(std::fs::remove_file(self.copy.path().join(PROMOTE)));
        let Followed { batch, at, .. } = followed;
        let restored =
            Restored { archive: self.archive.address.clone(), epoch: following.epoch, batch, instant: at, is_all };
        self.copy.finish(id, &restored)?;
        Ok(Promotion { epoch, batch, at, is_all })
    }

    fn take_epoch(&self, followed: u64, id: u64) -> Result<u64, ArchiveError> {
        let (next, me) = (followed + 1, store_text(id));
        if let Some(claimed) = claim(&self.archive, followed, &me)? {
            return Ok(claimed);
        }
        let is_mine = owner(&self.archive, next)?.is_some_and(|owner| owner.store == me);
        if is_mine && !is_claimed(&self.archive, next + 1)? {
            return Ok(next);
        }
        let why = format!("this standby cannot take over: another store has taken epoch {next} of `{}`", self.archive);
        Err(ArchiveError::Refused { why })
    }
}

/// Asks the process of a standby to take over, and waits until it has. If no process follows the archive, this process
/// takes over itself.
///
/// # Errors
///
/// The errors of [`Standby::promote`].
pub fn promote(directory: &Path, wait: Duration) -> Result<Option<Promotion>, ArchiveError> {
    let following: Option<super::copy::Following> = super::sealed::read_sealed(directory, COPY)?;
    let Some(following) = following else {
        return Err(ArchiveError::Refused { why: format!("`{}` is not a standby", directory.display()) });
    };
    let options =
        StandbyOptions { archive: following.archive, directory: directory.to_owned(), faults: Arc::default() };
    match Standby::open(&options) {
        Ok(standby) => standby.promote(wait).map(Some),
        Err(ArchiveError::Refused { .. }) => request_promotion(directory),
        Err(error) => Err(error),
    }
}

/// Asks the process of the standby to take over. Returns `None`, because that process reports the result.
fn request_promotion(directory: &Path) -> Result<Option<Promotion>, ArchiveError> {
    let failed = |error: std::io::Error| storage_error(&error, "request a promotion from the standby in", directory);
    let request = directory.join(PROMOTE);
    drop(store_embedded::private::create(&request).map_err(failed)?);
    loop {
        std::thread::sleep(POLL_INTERVAL);
        if !directory.join(COPY).exists() {
            return Ok(None);
        }
        let lock = store_embedded::private::take_lock(&directory.join("LOCK")).map_err(failed)?;
        if let store_embedded::private::LockAttempt::Ours(_) = lock {
            drop(std::fs::remove_file(&request));
            let why = "the standby has ended without taking over: its output contains the reason".to_owned();
            return Err(ArchiveError::Refused { why });
        }
    }
}
