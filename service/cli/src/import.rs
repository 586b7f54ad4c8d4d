//! `baton import`: sends the runs in an exported file to a service.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;
use client::body::{ImportRun, ImportedRun};
use client::{Client, Error};
use engine::{Clock as _, SystemClock};
use futures_util::{StreamExt as _, stream};
use serde_json::json;
use tokio::sync::mpsc;

use super::export::PATIENCE;
use super::moved::{AT_ONCE, BadFile, Counts, FileReader, FileRun};
use super::{Done, Failed, Quiet, Target, note, print_json, print_line};
use crate::report::report;

/// Import closed runs from a file of `baton export`
///
/// The whole file is checked before anything is written. Existing runs are not changed, so an interrupted import can be
/// repeated. Requires an operator's credential.
#[derive(Debug, Args)]
pub struct Import {
    /// File of `baton export`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Allow the import of runs of another domain into the domain of --domain
    #[arg(long)]
    other_domain: bool,
    /// Only check the file; no service is needed
    #[arg(long)]
    check: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    quiet: Quiet,
    #[command(flatten)]
    target: Target,
}

/// Number of runs that were imported, and number of runs that already existed in the service.
#[derive(Default)]
struct Taken {
    new: u64,
    there: u64,
}

impl Import {
    pub(crate) async fn run(self) -> Done {
        let (domain, counts) = self.checked().await?;
        let what = format!("{} runs with {} events", counts.runs, counts.events);
        if self.check && self.json {
            let Counts { runs, events, .. } = counts;
            let file = self.file.display().to_string();
            return print_json(&json!({ "file": file, "domain": domain, "runs": runs, "events": events }));
        }
        if self.check {
            return print_line(&format!("{} is valid: {what}, from domain `{domain}`", self.file.display()));
        }
        let to = self.target.domain();
        if domain != *to && !self.other_domain {
            return Err(Failed::Usage(format!(
                "the runs are from domain `{domain}`, but --domain is `{to}`: use --domain {domain}, or \
                    --other-domain to import them into `{to}`"
            )));
        }
        let client = self.target.client()?.patience(PATIENCE);
        let mut done = Taken::default();
        let sent = self.send(&client, counts.runs, &mut done).await;
        let Taken { new, there } = done;
        if let Err(failed) = sent {
            note(&format!("{new} runs imported, {there} already existed; then this error occurred:"));
            let _ = report(&failed);
            return Err(Failed::Other(
                1,
                "the import is incomplete: fix the error and run it again; imported runs stay unchanged".to_owned(),
            ));
        }
        if self.json {
            return print_json(&json!({ "imported": new, "existing": there }));
        }
        print_line(&format!("{new} runs imported, {there} already existed"))
    }

    /// Reads and checks the whole file before anything is sent.
    async fn checked(&self) -> Result<(String, Counts), Failed> {
        let (path, mut progress) = (self.file.clone(), self.quiet.progress("checking", "runs"));
        let check = move || {
            let (mut reader, first) = FileReader::begin(BufReader::new(File::open(&path)?))?;
            let now = SystemClock.now();
            while let Some(run) = reader.next_run()? {
                run.check(now)?;
                progress.at(reader.counts().runs, None);
            }
            Ok::<_, BadFile>((first.domain, reader.counts().clone()))
        };
        let checked = tokio::task::spawn_blocking(check).await.map_err(|error| Failed::Other(1, error.to_string()))?;
        checked.map_err(|bad| bad_file(&self.file, &bad))
    }

    async fn send(&self, client: &Client, total: u64, done: &mut Taken) -> Done {
        let mut progress = self.quiet.progress("importing", "runs");
        progress.at(0, Some(total));
        let (path, (sender, runs)) = (self.file.clone(), mpsc::channel(1));
        let reading = tokio::task::spawn_blocking(move || read_runs(&path, &sender));
        let runs = stream::unfold(runs, |mut runs| async { runs.recv().await.map(|run| (run, runs)) });
        let mut answers = std::pin::pin!(runs.map(|run| send_run(client, run)).buffer_unordered(AT_ONCE));
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(ImportedRun { repeated: true, .. }) => done.there += 1,
                Ok(_) => done.new += 1,
                Err((line, error)) => {
                    drop(progress);
                    note(&format!("run in line {line} of {}:", self.file.display()));
                    return Err(error.into());
                }
            }
            progress.at(done.new + done.there, Some(total));
        }
        let read = reading.await.map_err(|error| Failed::Other(1, error.to_string()))?;
        read.map_err(|bad| bad_file(&self.file, &bad))
    }
}

fn bad_file(path: &Path, bad: &BadFile) -> Failed {
    Failed::Other(1, format!("{}: {bad}", path.display()))
}

/// Reads the runs from the file again, after it was checked, and passes them to the task that sends them.
fn read_runs(path: &Path, sender: &mpsc::Sender<FileRun>) -> Result<(), BadFile> {
    let (mut reader, _) = FileReader::begin(BufReader::new(File::open(path)?))?;
    while let Some(run) = reader.next_run()? {
        if sender.blocking_send(run).is_err() {
            // The sending task has stopped, and it reports the reason.
            return Ok(());
        }
    }
    Ok(())
}

async fn send_run(client: &Client, run: FileRun) -> Result<ImportedRun, (u64, Error)> {
    let FileRun { line, events, .. } = run;
    client.import(&ImportRun { events }).await.map_err(|error| (line, error))
}
