//! A backup: copies data of an open store to its archive, if the archive does not contain the data yet.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use store::UnixMs;
use store_embedded::LogSource;
use store_embedded::faults::Faults;
use store_embedded::files::Phase;

use super::opened::Archive;
use super::ship::{ArchiveWriter, Shipper};
use super::{ArchiveAddress, ArchiveError, CopyProgress};

/// Options of a backup.
#[derive(Debug, Clone)]
pub struct BackupOptions {
    /// Archive, created if it does not exist.
    pub archive: ArchiveAddress,
    /// Time for which a restore to any instant must remain possible. Data that is not needed for this is removed.
    /// `None` removes nothing.
    pub keep: Option<Duration>,
    /// Fault injection for tests.
    #[doc(hidden)]
    pub faults: Arc<Faults>,
}

impl BackupOptions {
    /// Creates options that keep everything.
    pub fn new(archive: impl Into<ArchiveAddress>) -> Self {
        Self { archive: archive.into(), keep: None, faults: Arc::default() }
    }
}

/// Result of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupReport {
    /// Epoch of the archive: the period in which one store writes the archive. Epochs are numbered.
    pub epoch: u64,
    /// Number of the last batch of commits in the archive.
    pub batch: u64,
    /// Number of batches that this backup has added.
    pub batches_new: u64,
    /// Time of the backup, in milliseconds since 1970. Everything that the store acknowledged before this time is in
    /// the backup.
    pub at: UnixMs,
    /// Base (a snapshot of the store) that this backup has written. `None` if the archive already has a base that the
    /// log continues.
    pub base: Option<BaseReport>,
}

/// A base (a snapshot of the store) that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseReport {
    /// Number of key-value pairs in the base.
    pub pairs: u64,
    /// Size of the pairs in bytes.
    pub bytes: u64,
    /// Bytes that already existed in the archive and were checked instead of written.
    pub bytes_there: u64,
}

/// Copies data of an open store to its archive, if the archive does not contain the data yet.
pub(crate) fn run(
    source: &LogSource,
    options: &BackupOptions,
    tick: &mut dyn FnMut(CopyProgress),
) -> Result<BackupReport, ArchiveError> {
    let archive = Archive::open(&options.archive, &options.faults)?;
    let mut writer = ArchiveWriter::draw();
    let mut shipper = Shipper::open(source.clone(), &archive, Duration::ZERO, writer)?;
    let before = shipper.shipped();
    let mut done = update_archive(&mut shipper, source, options, before, tick);
    // The log no longer contains the batches that the archive needs next, so the backup starts again with a new base.
    if let Err(ArchiveError::Gap { .. }) = done {
        drop(shipper);
        writer = writer.again();
        shipper = Shipper::open(source.clone(), &archive, Duration::ZERO, writer)?;
        done = update_archive(&mut shipper, source, options, before, tick);
    }
    shipper.release();
    done
}

fn update_archive(
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
            match source.phase() {
                Phase::Open => Ok(()),
                Phase::Closing | Phase::Stopping => {
                    Err(ArchiveError::Away { why: "the service is stopping".to_owned() })
                }
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
