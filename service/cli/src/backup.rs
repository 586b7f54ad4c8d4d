//! `baton backup`, `baton restore`: archives of the embedded store.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueHint};
use history::{Duration, Timestamp};
use serde_json::{Value, json};
use store_archive::{
    ArchiveAddress, ArchiveError, BackupOptions, BackupReport, CopyProgress, EpochReport, RestoreOptions,
};

use super::{Done, Failed, Progress, Quiet, print_json, print_line, print_rows};

/// Back up a data directory to an archive; the service may be running
///
/// Only new data is copied; existing data of the archive is verified. Run this command on the machine of the service,
/// as its user. While the service is running, the service writes the archive itself, and uses its credentials for S3.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Backup {
    #[command(subcommand)]
    command: Option<BackupCommand>,
    /// Archive: a directory or `s3://BUCKET/PREFIX`, created if it does not exist
    #[arg(required = true, value_name = "ARCHIVE", value_hint = ValueHint::AnyPath)]
    archive: Option<ArchiveAddress>,
    /// Data directory
    #[arg(long, env = "BATON_DATA_DIR", default_value = "baton-data", value_name = "DIR")]
    data_dir: PathBuf,
    /// Remove data that is not needed to restore any instant within this time [default: remove nothing]
    #[arg(long, value_name = "DURATION")]
    keep: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    quiet: Quiet,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Verify all data of an archive, and print which instants can be restored and how many runs it contains
    Verify {
        /// Archive: a directory or `s3://BUCKET/PREFIX`
        #[arg(value_name = "ARCHIVE", value_hint = ValueHint::AnyPath)]
        archive: ArchiveAddress,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        quiet: Quiet,
    },
}

/// Restore a data directory from an archive, as of any instant
///
/// Then start the service with that directory. The service refuses answers to tasks that were dispatched before the
/// restore. These tasks time out and are dispatched again.
#[derive(Debug, Args)]
pub struct Restore {
    /// Archive of `baton backup` or `baton serve --ship-to`: a directory or `s3://BUCKET/PREFIX`
    #[arg(value_name = "ARCHIVE", value_hint = ValueHint::AnyPath)]
    archive: ArchiveAddress,
    /// New data directory: empty, or not yet existing
    #[arg(long, env = "BATON_DATA_DIR", value_name = "DIR")]
    data_dir: PathBuf,
    /// Restore the last commit at or before this instant, e.g. `2027-01-31T12:00:00Z` [default: everything]
    #[arg(long, value_name = "INSTANT")]
    to: Option<Timestamp>,
    /// Take over from the old service: it stops when it finds the takeover in the archive, and the new service can ship
    /// to the same archive
    #[arg(long)]
    take_over: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    quiet: Quiet,
}

fn failed(error: &ArchiveError) -> Failed {
    let said = match error {
        ArchiveError::TooEarly { archive, first } => {
            let first = instant(*first);
            format!("the archive `{archive}` begins later: its first base is from {first}")
        }
        ArchiveError::Away { .. }
        | ArchiveError::Damaged { .. }
        | ArchiveError::Refused { .. }
        | ArchiveError::TakenOver { .. }
        | ArchiveError::Gap { .. } => error.to_string(),
    };
    Failed::Other(1, said)
}

/// Runs an operation on an archive on a thread that may block.
///
/// # Errors
///
/// [`Failed::Other`] if the operation fails.
pub async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, ArchiveError> + Send + 'static,
) -> Result<T, Failed> {
    match tokio::task::spawn_blocking(call).await {
        Ok(done) => done.map_err(|error| failed(&error)),
        Err(error) => Err(Failed::Other(1, error.to_string())),
    }
}

/// Shows the progress of a copy.
pub fn show_progress(progress: &mut Progress, at: CopyProgress) {
    progress.at(at.pairs, Some(at.pairs_in_all));
}

/// Formats a number of bytes with a unit.
fn size(bytes: u64) -> String {
    match bytes {
        0..0x400 => format!("{bytes} bytes"),
        0x400..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

fn instant(millis: u64) -> String {
    Timestamp::from_millis(millis).to_string()
}

impl Backup {
    pub(crate) async fn run(self) -> Done {
        match (self.command, self.archive) {
            (Some(BackupCommand::Verify { archive, json, quiet }), _) => verify(archive, json, quiet).await,
            (None, Some(archive)) => {
                let report = back_up(self.data_dir, archive.clone(), self.keep, self.quiet).await?;
                if self.json {
                    print_json(&backup_json(&archive, &report))
                } else {
                    print_line(&summary(&archive, &report))
                }
            }
            (None, None) => Err(Failed::Usage("the archive is missing".to_owned())),
        }
    }
}

async fn back_up(
    data_dir: PathBuf,
    archive: ArchiveAddress,
    keep: Option<Duration>,
    quiet: Quiet,
) -> Result<BackupReport, Failed> {
    blocking(move || {
        let keep = keep.map(|keep| std::time::Duration::from_millis(keep.as_millis()));
        let options = BackupOptions { keep, ..BackupOptions::new(archive) };
        let mut progress = quiet.progress("copying", "records");
        store_archive::back_up(&data_dir, &options, &mut |at| show_progress(&mut progress, at))
    })
    .await
}

fn backup_json(archive: &ArchiveAddress, report: &BackupReport) -> Value {
    let base = report.base.map(|base| {
        let new = base.bytes.saturating_sub(base.bytes_there);
        json!({ "records": base.pairs, "bytes": base.bytes, "newBytes": new })
    });
    json!({ "archive": archive.to_string(), "epoch": report.epoch, "at": instant(report.at), "base": base })
}

fn summary(archive: &ArchiveAddress, report: &BackupReport) -> String {
    let base = report.base.map_or_else(
        || "no new base needed".to_owned(),
        |base| {
            let new = base.bytes.saturating_sub(base.bytes_there);
            format!("new base with {} records, {} of it new data", base.pairs, size(new))
        },
    );
    format!("{archive} contains everything acknowledged before {}: {base}", instant(report.at))
}

async fn verify(archive: ArchiveAddress, json: bool, quiet: Quiet) -> Done {
    let reports = blocking(move || {
        let mut progress = quiet.progress("reading", "records");
        store_archive::verify(archive, &mut |at| show_progress(&mut progress, at))
    })
    .await?;
    if json {
        return print_json(&json!({ "epochs": reports.iter().map(epoch_json).collect::<Vec<_>>() }));
    }
    let rows = reports.iter().flat_map(rows);
    print_rows(["EPOCH", "FROM", "TO", "RUNS", "BASES", "LOG", "SIZE"], rows)?;
    print_line("all files are intact")
}

fn epoch_json(report: &EpochReport) -> Value {
    let periods = report.spans.iter().map(|(from, to)| json!({ "from": instant(*from), "to": instant(*to) }));
    json!({
        "epoch": report.epoch,
        "periods": periods.collect::<Vec<_>>(),
        "runs": report.runs,
        "bases": report.bases,
        "batches": report.batches,
        "bytes": report.chunk_bytes + report.log_bytes,
    })
}

/// Returns one table row for each time range of an epoch. A store can be restored to any time in these ranges.
fn rows(report: &EpochReport) -> Vec<[String; 7]> {
    let last = report.spans.len().saturating_sub(1);
    let row = |(at, (from, to)): (usize, &(u64, u64))| {
        let of_last = |text: String| if at == last { text } else { String::new() };
        [
            report.epoch.to_string(),
            instant(*from),
            instant(*to),
            of_last(report.runs.to_string()),
            of_last(report.bases.to_string()),
            of_last(format!("{} batches", report.batches)),
            of_last(size(report.chunk_bytes + report.log_bytes)),
        ]
    };
    report.spans.iter().enumerate().map(row).collect()
}

impl Restore {
    pub(crate) async fn run(self) -> Done {
        let Self { archive, data_dir, to, take_over, json, quiet } = self;
        let shown = data_dir.display().to_string();
        let restored = blocking(move || {
            let options = RestoreOptions {
                archive,
                directory: data_dir,
                to: to.map(Timestamp::as_millis),
                takes_over: take_over,
                faults: Arc::default(),
            };
            let mut progress = quiet.progress("restoring", "records");
            store_archive::restore(&options, &mut |at| show_progress(&mut progress, at))
        })
        .await?;
        if json {
            return print_json(&json!({ "dataDir": shown, "at": instant(restored.instant) }));
        }
        print_line(&format!(
            "{shown} contains the store as of {}; start `baton serve` with it",
            instant(restored.instant)
        ))
    }
}
