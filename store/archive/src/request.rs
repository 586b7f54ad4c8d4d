//! Backup requests to the process that has a data directory open. A request is made through files in that directory, so
//! users who may write to the directory may also have it copied.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::backup::run;
use super::sealed::{Files, read_sealed};
use super::{ArchiveAddress, ArchiveError, BackupOptions, BackupReport, CopyProgress};
use store::Error;
use store_embedded::files::{Phase, storage_error};
use store_embedded::private::{self, LockAttempt};
use store_embedded::{Embedded, LogSource, Options};

/// File with the request for a backup.
const REQUEST: &str = "BACKUP";
/// File with the progress of the backup.
const STATE: &str = "BACKUP-STATE";
/// Lock file of the requesting process.
const BACKUP_LOCK: &str = "BACKUP-LOCK";
/// Interval at which the service checks for a request. Our choice: short enough for an interactive command.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval at which the progress is written and read.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum time that a service needs to start a requested backup.
const BEGINS_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct BackupRequest {
    /// Id of the request. The response contains the same id.
    id: u64,
    archive: ArchiveAddress,
    keep_ms: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct BackupState {
    id: u64,
    pairs: u64,
    pairs_in_all: u64,
    bytes: u64,
    done: Option<BackupReport>,
    failed: Option<String>,
}

/// Starts a thread that handles backup requests of other processes until the store closes.
///
/// # Errors
///
/// [`Error::Failed`] if the system cannot start a thread.
pub fn serve_backups(store: &Embedded) -> Result<(), Error> {
    let source = store.source().clone();
    store.source().spawn("store-backup", move || serve(&source))
}

/// Backs up a data directory. If another process has the directory open, that process makes the backup. Otherwise this
/// process makes it. `tick` receives the progress. The call blocks on disks.
///
/// # Errors
///
/// * [`ArchiveError::Away`] if a file cannot be read or written.
/// * [`ArchiveError::Refused`] if the archive belongs to another store or is being written.
/// * [`ArchiveError::Damaged`] if the data directory or the archive is damaged.
///
/// The earlier content of the archive is kept.
pub fn back_up(
    directory: &Path,
    options: &BackupOptions,
    tick: &mut dyn FnMut(CopyProgress),
) -> Result<BackupReport, ArchiveError> {
    if !directory.join("FORMAT").is_file() {
        return Err(ArchiveError::Refused { why: format!("there is no store in `{}`", directory.display()) });
    }
    let store = match Embedded::open_blocking(&Options { verify_all: true, ..Options::new(directory) }) {
        Err(Error::InUse { .. }) => return request_backup(directory, options, tick),
        opened => opened?,
    };
    let done = run(store.source(), options, tick);
    store.close_blocking()?;
    done
}

/// Handles backup requests until the store closes.
fn serve(source: &LogSource) {
    let directory = source.directory();
    while source.wait(POLL_INTERVAL) == Phase::Open {
        match read_sealed::<BackupRequest>(directory, REQUEST) {
            Ok(None) => {}
            Ok(Some(request)) => answer(source, directory, &request),
            Err(error) => match ArchiveError::from(error) {
                // The operating system may lack file descriptors for the moment. The next check tries again.
                ArchiveError::Away { why } => tracing::debug!(why, "cannot check for backup requests now"),
                error => {
                    tracing::warn!(%error, "cannot read a backup request");
                    drop(std::fs::remove_file(directory.join(REQUEST)));
                }
            },
        }
    }
}

fn answer(source: &LogSource, directory: &Path, request: &BackupRequest) {
    let files = Files::default();
    let mut state = BackupState { id: request.id, pairs: 0, pairs_in_all: 0, bytes: 0, done: None, failed: None };
    let write_state = |state: &BackupState| {
        if let Err(error) = files.write_sealed(directory, STATE, state) {
            tracing::warn!(%error, "cannot write the progress of the backup");
        }
    };
    write_state(&state);
    drop(std::fs::remove_file(directory.join(REQUEST)));
    let keep = request.keep_ms.map(Duration::from_millis);
    let options = BackupOptions { keep, ..BackupOptions::new(request.archive.clone()) };
    let mut reported_at = Instant::now();
    let done = run(source, &options, &mut |CopyProgress { pairs, pairs_in_all, bytes }| {
        if reported_at.elapsed() >= REPORT_INTERVAL {
            reported_at = Instant::now();
            (state.pairs, state.pairs_in_all, state.bytes) = (pairs, pairs_in_all, bytes);
            write_state(&state);
        }
    });
    match done {
        Ok(report) => {
            let BackupReport { epoch, batch, batches_new, base, .. } = report;
            let (base_pairs, base_bytes) = base.map(|base| (base.pairs, base.bytes)).unzip();
            let archive = request.archive.display();
            tracing::info!(%archive, epoch, batch, batches_new, base_pairs, base_bytes, "the store was backed up");
            state.done = Some(report);
        }
        Err(error) => {
            tracing::error!(archive = %request.archive.display(), %error, "the store could not be backed up");
            state.failed = Some(error.to_string());
        }
    }
    write_state(&state);
}

/// Requests a backup and waits for its result.
pub(crate) fn request_backup(
    directory: &Path,
    options: &BackupOptions,
    tick: &mut dyn FnMut(CopyProgress),
) -> Result<BackupReport, ArchiveError> {
    let refused = |why: String| ArchiveError::Refused { why };
    let failed = |error: std::io::Error| storage_error(&error, "request a backup in", directory);
    let _lock = match private::take_lock(&directory.join(BACKUP_LOCK)).map_err(failed)? {
        LockAttempt::Ours(file) => file,
        LockAttempt::By(process) => {
            return Err(refused(format!("a backup requested by process {process} is already in progress")));
        }
    };
    let id = store_embedded::files::draw_id();
    let archive = options.archive.absolute();
    let keep_ms = options.keep.map(|keep| u64::try_from(keep.as_millis()).unwrap_or(u64::MAX));
    Files::default().write_sealed(directory, REQUEST, &BackupRequest { id, archive, keep_ms })?;
    let mut answered_at = Instant::now();
    loop {
        std::thread::sleep(REPORT_INTERVAL);
        let state = read_sealed::<BackupState>(directory, STATE)?.filter(|state| state.id == id);
        if let Some(BackupState { pairs, pairs_in_all, bytes, done, failed, .. }) = state {
            answered_at = Instant::now();
            tick(CopyProgress { pairs, pairs_in_all, bytes });
            if let Some(report) = done {
                return Ok(report);
            }
            if let Some(why) = failed {
                return Err(ArchiveError::Away { why });
            }
        } else if answered_at.elapsed() > BEGINS_WITHIN {
            drop(std::fs::remove_file(directory.join(REQUEST)));
            return Err(refused(format!(
                "the process that has `{}` open has not started the backup within {} s: is it a service of the same \
                 version and user?",
                directory.display(),
                BEGINS_WITHIN.as_secs()
            )));
        }
        if let LockAttempt::Ours(_) = private::take_lock(&directory.join("LOCK")).map_err(failed)? {
            drop(std::fs::remove_file(directory.join(REQUEST)));
            return Err(refused("the service ended before the backup was complete: request it again".to_owned()));
        }
    }
}
