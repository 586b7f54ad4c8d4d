//! Request latencies measured by the service, from its access log. They exclude the time that clients spend on the
//! processors that they share with the service.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use crate::failed::Failed;
use crate::service::{histogram, other};

/// Maximum time until the last lines are written to the file.
const LINES_WAIT: Duration = Duration::from_secs(2);

/// Interval at which the file is checked for new lines.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Request latencies in microseconds.
pub(super) struct Took {
    /// Measured by clients.
    pub(super) clients: Histogram<u64>,
    /// Measured by the service.
    pub(super) within: Histogram<u64>,
}

impl Took {
    pub(super) fn new() -> Self {
        Self { clients: histogram(), within: histogram() }
    }
}

/// Relevant fields of a line in the access log.
#[derive(Deserialize)]
struct LoggedStart {
    method: String,
    domain: Option<String>,
    milliseconds: f64,
}

/// The service's access log, and the position up to which it was read.
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

    /// Skips everything written so far.
    pub(super) async fn skip(&mut self) -> Result<(), Failed> {
        // Lines of the most recent requests may not be in the file yet.
        sleep(CHECK_INTERVAL).await;
        drop(self.lines()?);
        Ok(())
    }

    /// Records the latencies of `count` starts in a domain, or fewer if there are not as many.
    pub(super) async fn read(&mut self, domain: &str, count: u64, took: &mut Histogram<u64>) -> Result<(), Failed> {
        let (began, mut found) = (Instant::now(), 0);
        while found < count && began.elapsed() < LINES_WAIT {
            sleep(CHECK_INTERVAL).await;
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

    /// Returns the complete lines that were not read yet.
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
