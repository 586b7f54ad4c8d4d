//! Runs as the service returned them, byte for byte, and the file that stores them.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use client::{Client, Filter};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::scene::Held;

/// Error of any operation. Only its message is used.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Information recorded together with the stored data.
#[derive(Debug, Serialize, Deserialize)]
pub struct Recorded {
    /// Output of `baton --version` of the recorded version.
    pub version: String,
    /// Commit from which that version was built.
    pub commit: String,
    /// Time at which the recording ended, in milliseconds since 1970.
    pub at: u64,
    /// Tokens and keys that callers still hold.
    pub held: Held,
    /// All runs.
    pub runs: Vec<RecordedRun>,
}

impl Recorded {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// If the file does not exist or has another format.
    pub fn read(path: &Path) -> Result<Self, Failed> {
        Ok(serde_json::from_reader(GzDecoder::new(File::open(path)?))?)
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Failed> {
        let mut file = GzEncoder::new(File::create(path)?, Compression::best());
        file.write_all(serde_json::to_string(self)?.as_bytes())?;
        file.finish()?;
        Ok(())
    }
}

/// A recorded run.
#[derive(Debug, Serialize, Deserialize)]
pub struct RecordedRun {
    /// Workflow id.
    pub workflow_id: String,
    /// Run id.
    pub run_id: Uuid,
    /// Task list of the run's deciders.
    pub task_list: String,
    /// Status of the run, such as `open`.
    pub status: String,
    /// Events as raw JSON, unchanged from the response.
    pub events: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct HistoryPage {
    events: Vec<Box<RawValue>>,
    next: Option<u64>,
}

/// Returns all runs of the domain `default`, sorted by workflow id and start.
///
/// # Errors
///
/// If a request fails.
pub async fn runs(client: &Client, url: &str) -> Result<Vec<RecordedRun>, Failed> {
    let mut found = Vec::new();
    let mut page = None;
    loop {
        let listed = client.list(&Filter { limit: Some(100), ..Filter::default() }, page.as_deref()).await?;
        for run in listed.workflows {
            let described = client.describe(&run.workflow_id, Some(run.run_id)).await?;
            let events = events(url, &run.workflow_id, run.run_id).await?;
            let status = serde_json::to_value(run.status)?.as_str().unwrap_or_default().to_owned();
            let started_at = run.started_at;
            let (workflow_id, run_id, task_list) = (run.workflow_id, run.run_id, described.task_list);
            found.push((started_at, RecordedRun { workflow_id, run_id, task_list, status, events }));
        }
        page = listed.next_page;
        if page.is_none() {
            break;
        }
    }
    found.sort_by(|(at, one), (then, other)| {
        (&one.workflow_id, at, one.run_id).cmp(&(&other.workflow_id, then, other.run_id))
    });
    Ok(found.into_iter().map(|(_, run)| run).collect())
}

async fn events(url: &str, workflow_id: &str, run_id: Uuid) -> Result<Vec<Box<RawValue>>, Failed> {
    let mut events = Vec::new();
    let mut after = 0;
    loop {
        let request = format!("{url}/v1/domains/default/workflows/{workflow_id}/history?runId={run_id}&after={after}");
        let page: HistoryPage = serde_json::from_str(&reqwest::get(request).await?.error_for_status()?.text().await?)?;
        events.extend(page.events);
        match page.next {
            Some(next) => after = next,
            None => return Ok(events),
        }
    }
}
