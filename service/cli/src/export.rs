//! `baton export`: writes closed runs with their histories to a file.

use std::fs::File;
use std::io::{BufWriter, IsTerminal as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use client::body::{CredentialLevels, Listed, RawHistory};
use client::{Client, Error, Filter, Patience};
use engine::{Clock as _, SystemClock};
use futures_util::{StreamExt as _, stream};
use history::{Status, Timestamp};
use serde_json::json;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::moved::{AT_ONCE, Counts, FileWriter};
use super::options::past;
use super::run_filters::OUTCOMES;
use super::{Done, Failed, Quiet, Target, note, print_json, print_line};

/// Number of runs that are requested per page of a list.
const LIST_ROWS: usize = 1_000;

/// Time for which the service may be unreachable before the export fails. Our choice: longer than a restart of the
/// service takes.
pub(super) const PATIENCE: Patience = Patience::For(Duration::from_secs(30));

/// Export closed runs with their histories to a file
///
/// `baton import` imports the file into another service. It contains JSON Lines: a header, for each run its description
/// and its events, and a last line with counts and a digest. Because it contains all payloads, only its owner can read
/// it. Open runs are not exported; the file contains only their number.
#[derive(Debug, Args)]
pub struct Export {
    /// Only runs of this workflow id
    workflow_id: Option<String>,
    /// Only this run of the workflow id
    #[arg(long, requires = "workflow_id")]
    run: Option<Uuid>,
    /// File, which must not exist yet; `-` for standard output
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// Only runs with this outcome
    #[arg(long, value_parser = OUTCOMES)]
    status: Option<String>,
    /// Only runs of this workflow type
    #[arg(long = "type", value_name = "TYPE")]
    workflow_type: Option<String>,
    /// Only runs with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only runs that closed at this time or later, e.g. `2027-01-31T12:00:00Z`, or `7d` for seven days ago
    #[arg(long, value_name = "TIME", value_parser = past)]
    since: Option<Timestamp>,
    /// Only runs that closed before this time
    #[arg(long, value_name = "TIME", value_parser = past)]
    until: Option<Timestamp>,
    /// Print JSON about the written file; not possible with `--out -`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    quiet: Quiet,
    #[command(flatten)]
    target: Target,
}

/// Run with the first page of its history. `None` if the run was deleted between listing and reading it.
type ReadRun = Result<Option<(Listed, Box<RawValue>, RawHistory)>, Error>;

impl Export {
    pub(crate) async fn run(self) -> Done {
        if self.json && self.out.as_os_str() == "-" {
            let what = "with `--out -`, standard output contains only the exported runs: omit --json";
            return Err(Failed::Usage(what.to_owned()));
        }
        let client = self.target.client()?.patience(PATIENCE);
        must_see_payloads(&client.session().await?.permissions, self.target.domain())?;
        if self.out.as_os_str() == "-" {
            if std::io::stdout().is_terminal() {
                return Err(Failed::Usage(
                    "output to a terminal is not possible: use `--out FILE`, or pipe it".to_owned(),
                ));
            }
            let (_, counts) = self.write(&client, std::io::stdout().lock()).await?;
            note(&said(&counts, "standard output"));
            return Ok(());
        }
        let shown = self.out.display().to_string();
        let failed = |error: std::io::Error| Failed::Other(1, format!("{shown}: {error}"));
        if self.out.exists() {
            return Err(Failed::Usage(format!("{shown} already exists: choose another file, or remove it")));
        }
        // The file is written under a temporary name, and gets its final name when it is complete.
        let unfinished = beside(&self.out);
        let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&unfinished);
        let file = file.map_err(failed)?;
        let written = self.write(&client, BufWriter::new(file)).await;
        let finish = |(out, counts): (BufWriter<File>, Counts)| {
            let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
            file.sync_all().and_then(|()| std::fs::rename(&unfinished, &self.out)).map_err(failed)?;
            Ok(counts)
        };
        match written.and_then(finish) {
            Ok(counts) if self.json => {
                let Counts { runs, events, open, .. } = counts;
                print_json(&json!({ "file": shown, "runs": runs, "events": events, "openRuns": open }))
            }
            Ok(counts) => print_line(&said(&counts, &shown)),
            Err(error) => {
                drop(std::fs::remove_file(&unfinished));
                Err(error)
            }
        }
    }

    fn filter(&self) -> Filter {
        Filter {
            status: self.status.clone(),
            workflow_type: self.workflow_type.clone(),
            workflow_id: self.workflow_id.clone(),
            tag: self.tag.clone(),
            closed_from: self.since,
            closed_before: self.until,
            limit: Some(LIST_ROWS),
            ..Filter::default()
        }
    }

    async fn write<W: Write>(&self, client: &Client, out: W) -> Result<(W, Counts), Failed> {
        let failed = |error: std::io::Error| Failed::Other(1, format!("{}: {error}", self.out.display()));
        let mut file = FileWriter::begin(out, self.target.domain(), SystemClock.now()).map_err(failed)?;
        let filter = self.filter();
        let total = match self.run {
            Some(_) => 1,
            None => client.count(&filter).await?.count,
        };
        let mut progress = self.quiet.progress("exporting", "runs");
        progress.at(0, Some(total));
        let mut page = None;
        loop {
            let read = client.list(&filter, page.as_deref()).await?;
            let wanted = |row: &Listed| self.run.is_none_or(|run| row.run_id == run);
            let (open, closed): (Vec<_>, Vec<_>) =
                read.workflows.into_iter().filter(wanted).partition(|row| row.status == Status::Open);
            file.counts.open += open.len() as u64;
            let mut runs = stream::iter(closed).map(|row| read_run(client, row)).buffered(AT_ONCE);
            while let Some(run) = runs.next().await {
                if let Some(run) = run? {
                    write_run(client, &mut file, run, &self.out).await?;
                }
                progress.at(file.counts.runs + file.counts.open, Some(total));
            }
            page = read.next_page;
            if page.is_none() {
                break;
            }
        }
        drop(progress);
        if let Some(run) = self.run.filter(|_| file.counts.runs + file.counts.open == 0) {
            return Err(Failed::Other(1, format!("this workflow id has no run {run}")));
        }
        file.end().map_err(failed)
    }
}

/// Returns the temporary path of the file until it is complete.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".unfinished");
    name.into()
}

/// Checks that the caller may read payloads. An exported history without its payloads would differ from the original,
/// and the difference could not be detected later.
fn must_see_payloads(may: &CredentialLevels, domain: &str) -> Done {
    let names = |domains: &[String]| domains.iter().any(|named| named == domain || named == "*");
    if may.operator || [&may.readers, &may.applications, &may.operators].into_iter().any(|domains| names(domains)) {
        return Ok(());
    }
    let what = format!("this credential cannot read payloads of domain `{domain}`, which an export requires");
    Err(Failed::Other(1, format!("{what}: use a reader, application or operator of the domain")))
}

fn said(counts: &Counts, place: &str) -> String {
    let open = match counts.open {
        0 => String::new(),
        1 => "; 1 open run was not exported: only closed runs can be moved".to_owned(),
        open => format!("; {open} open runs were not exported: only closed runs can be moved"),
    };
    format!("{} runs with {} events are in {place}{open}", counts.runs, counts.events)
}

async fn read_run(client: &Client, row: Listed) -> ReadRun {
    let read = async {
        let description = client.raw_description(&row.workflow_id, row.run_id).await?;
        Ok((description, client.raw_history(&row.workflow_id, row.run_id, None).await?))
    };
    match read.await {
        Ok((description, history)) => Ok(Some((row, description, history))),
        // The run was deleted after it was listed, at the end of its retention or by an operator.
        Err(error) if matches!(Error::code(&error), Some("unknown-run" | "unknown-workflow")) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn write_run<W: Write>(
    client: &Client,
    file: &mut FileWriter<W>,
    (row, description, mut history): (Listed, Box<RawValue>, RawHistory),
    out: &Path,
) -> Done {
    let failed = |error: std::io::Error| Failed::Other(1, format!("{}: {error}", out.display()));
    file.run(&description).map_err(failed)?;
    loop {
        for event in &history.events {
            file.event(event).map_err(failed)?;
        }
        let Some(next) = history.next else { return Ok(()) };
        history = client.raw_history(&row.workflow_id, row.run_id, Some(next)).await?;
    }
}
