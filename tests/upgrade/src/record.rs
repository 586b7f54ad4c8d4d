//! Runs as a service returns them, byte for byte, and the file that keeps them.

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

/// Whatever goes wrong where nothing may.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// What was recorded beside the data.
#[derive(Debug, Serialize, Deserialize)]
pub struct Recorded {
    /// What `baton version --json` said, or `baton --version` where there was no such command.
    pub version: String,
    /// The commit that it was built from.
    pub commit: String,
    /// When it was over, in milliseconds since 1970.
    pub at: u64,
    /// What callers hold.
    pub held: Held,
    /// Every run.
    pub runs: Vec<RecordedRun>,
}

impl Recorded {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// When it is not there, or is none.
    pub fn read(path: &Path) -> Result<Self, Failed> {
        Ok(serde_json::from_reader(GzDecoder::new(File::open(path)?))?)
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// Whatever files do.
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
    /// The workflow id.
    pub workflow_id: String,
    /// The run.
    pub run_id: Uuid,
    /// The task list of its deciders.
    pub task_list: String,
    /// Whether it is open, and how it closed.
    pub status: String,
    /// Its events, each as the service wrote it.
    pub events: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct HistoryPage {
    events: Vec<Box<RawValue>>,
    next: Option<u64>,
}

/// Every run of the default domain, by workflow id and start.
///
/// # Errors
///
/// What the service says.
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
