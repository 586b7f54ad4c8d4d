//! How long the service itself says that requests took, in its access log. That is without what its clients share with it here:
//! two processors.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use crate::failed::Failed;
use crate::service::{histogram, other};

/// How long the last lines may take to be in the file.
const LINES_WAIT: Duration = Duration::from_secs(2);

/// How often it is looked for them.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long requests took, in microseconds.
pub(super) struct Took {
    /// For whoever asked.
    pub(super) clients: Histogram<u64>,
    /// In the service.
    pub(super) within: Histogram<u64>,
}

impl Took {
    pub(super) fn new() -> Self {
        Self { clients: histogram(), within: histogram() }
    }
}

/// What is read of a line.
#[derive(Deserialize)]
struct LoggedStart {
    method: String,
    domain: Option<String>,
    milliseconds: f64,
}

/// The service's access log, and how far it was read.
pub(super) struct QuietLog {
    path: PathBuf,
    read_to: u64,
}

impl QuietLog {
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path, read_to: 0 }
    }

    pub(super) fn path(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Goes beyond what is there.
    pub(super) async fn skip(&mut self) -> Result<(), Failed> {
        // What was answered just now may not be in the file yet.
        sleep(LOOK_EVERY).await;
        drop(self.lines()?);
        Ok(())
    }

    /// Takes the times of so many starts in a domain up, or of as many as there are.
    pub(super) async fn read(&mut self, domain: &str, count: u64, took: &mut Histogram<u64>) -> Result<(), Failed> {
        let (began, mut found) = (Instant::now(), 0);
        while found < count && began.elapsed() < LINES_WAIT {
            sleep(LOOK_EVERY).await;
            for line in self.lines()?.lines() {
                let line: LoggedStart =
                    serde_json::from_str(line).map_err(|error| other(format!("{line}: {error}")))?;
                if line.domain.as_deref() == Some(domain) && line.method == "POST" {
                    found += 1;
                    took.saturating_record(micros(line.milliseconds));
                }
            }
        }
        Ok(())
    }

    /// The lines that are whole by now and were not read.
    fn lines(&mut self) -> Result<String, Failed> {
        let failed = |error| other(format!("{}: {error}", self.path.display()));
        let mut file = std::fs::File::open(&self.path).map_err(failed)?;
        file.seek(SeekFrom::Start(self.read_to)).map_err(failed)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        text.truncate(text.rfind('\n').map_or(0, |at| at + 1));
        self.read_to += text.len() as u64;
        Ok(text)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "minutes at most, and never negative")]
fn micros(milliseconds: f64) -> u64 {
    (milliseconds * 1_000.0).round() as u64
}
