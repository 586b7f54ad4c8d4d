//! One backup: an archive brought up to a store that is open.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use store::UnixMs;

use super::opened::Archive;
use super::ship::{ArchiveWriter, Shipper};
use super::source::LogSource;
use super::{ArchiveAddress, ArchiveError, CopyProgress};
use crate::faults::Faults;
use crate::shared::Phase;

/// What to back up to.
#[derive(Debug, Clone)]
pub struct BackupOptions {
    /// The archive; made if it is not there.
    pub archive: ArchiveAddress,
    /// What is older goes, but for what a restore to an instant within so long needs; nothing goes where `None`.
    pub keep: Option<Duration>,
    /// Failures on demand, for tests.
    #[doc(hidden)]
    pub faults: Arc<Faults>,
}

impl BackupOptions {
    /// Keeps everything.
    pub fn new(archive: impl Into<ArchiveAddress>) -> Self {
        Self { archive: archive.into(), keep: None, faults: Arc::default() }
    }
}

/// What came of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupReport {
    /// The epoch of the archive.
    pub epoch: u64,
    /// The last batch that is in it.
    pub batch: u64,
    /// How many of them are new.
    pub batches_new: u64,
    /// When it was so, in milliseconds since 1970: everything that was acknowledged before is there.
    pub at: UnixMs,
    /// The base that was taken, if one was.
    pub base: Option<BaseReport>,
}

/// A base that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseReport {
    /// Pairs of the store.
    pub pairs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many of these were there already, and were checked.
    pub bytes_there: u64,
}

/// Brings an archive up to a store that is open.
pub(crate) fn run(
    source: &LogSource,
    options: &BackupOptions,
    tick: &mut dyn FnMut(CopyProgress),
) -> Result<BackupReport, ArchiveError> {
    let archive = Archive::open(&options.archive, &options.faults)?;
    let mut writer = ArchiveWriter::draw();
    let mut shipper = Shipper::open(source.clone(), &archive, Duration::ZERO, writer)?;
    let before = shipper.shipped();
    let mut done = bring_up(&mut shipper, source, options, before, tick);
    // It begins again with a base.
    if let Err(ArchiveError::Gap { .. }) = done {
        drop(shipper);
        writer = writer.again();
        shipper = Shipper::open(source.clone(), &archive, Duration::ZERO, writer)?;
        done = bring_up(&mut shipper, source, options, before, tick);
    }
    shipper.release();
    done
}

fn bring_up(
    shipper: &mut Shipper,
    source: &LogSource,
    options: &BackupOptions,
    before: u64,
    tick: &mut dyn FnMut(CopyProgress),
) -> Result<BackupReport, ArchiveError> {
    shipper.catch_up()?;
    let base = if shipper.needs_base() {
        let written = shipper.take_base(&mut |progress, _| {
            tick(progress);
            match source.shared.lock().phase {
                Phase::Open => Ok(()),
                Phase::Closing | Phase::Stopping => Err(ArchiveError::Away { why: "the service stops".to_owned() }),
            }
        })?;
        Some(BaseReport { pairs: written.pairs, bytes: written.bytes, bytes_there: written.bytes_there })
    } else {
        None
    };
    let batch = shipper.catch_up()?;
    if let Some(keep) = options.keep {
        shipper.forget(keep)?;
    }
    let batches_new = batch.saturating_sub(before);
    Ok(BackupReport { epoch: shipper.epoch(), batch, batches_new, at: shipper.at(), base })
}
