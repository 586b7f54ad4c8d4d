//! `baton-bench idle`: polls that wait and get no task.

mod poller;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use client::Client;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::swf::Wire;
use crate::failed::Failed;
use crate::service::{Scratch, Service, client, mib, other};

/// Number of files and sockets of each process in addition to the sockets of polls. Our choice: the service keeps most
/// of this number in reserve.
const FILES_BESIDE: u64 = 1_024;

/// Maximum number of polls that are being started concurrently.
const BEGIN_AT_ONCE: usize = 256;

/// Minimum rate at which polls are started, per second.
const BEGIN_PER_SECOND: u64 = 500;

/// Measure: the cost of waiting polls without tasks
#[derive(Debug, Args)]
pub(crate) struct Idle {
    /// Number of polls, each on a separate connection
    #[arg(long, default_value_t = 10_000)]
    polls: u64,
    /// Number of task lists
    #[arg(long, default_value_t = 100)]
    lists: u64,
    /// Duration of the measurement in seconds
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Poll over the SWF protocol
    #[arg(long)]
    swf: bool,
}

impl Idle {
    pub(super) async fn run(self) -> Result<(), Failed> {
        must_open(self.polls + FILES_BESIDE)?;
        let scratch = Scratch::new(None)?;
        let connections = (self.polls + FILES_BESIDE / 2).to_string();
        let service = Service::start_with(&scratch, &["--max-connections", &connections]).await?;
        let client = client(&service.url)?;
        let empty = service.process.memory().unwrap_or_default();
        let mut polls = self.begin(&service)?;
        let began = Instant::now();
        let deadline = began + Duration::from_secs(60 + self.polls / BEGIN_PER_SECOND);
        loop {
            // While so many polls arrive, the request may take longer than the client's timeout.
            let count = waiting(&client).await;
            if count.as_ref().is_ok_and(|count| *count >= self.polls) {
                break;
            }
            if Instant::now() > deadline {
                return Err(other(format!("{} of {} polls wait", count?, self.polls)));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let (begun, before) = (began.elapsed(), service.process.cpu_seconds().unwrap_or_default());
        let began = Instant::now();
        tokio::time::sleep(Duration::from_secs(self.seconds.max(1))).await;
        let spent = service.process.cpu_seconds().unwrap_or_default() - before;
        println!("{} polls wait on {} lists, {:.1} s after the first:", self.polls, self.lists, begun.as_secs_f64());
        println!("  {:>10.2}  % of a core", 100.0 * spent / began.elapsed().as_secs_f64());
        let full = service.process.memory().unwrap_or_default();
        println!("  {:>10.0}  MiB of memory in the service ({:.0} before the polls)", mib(full), mib(empty));
        println!("  {:>10}  bytes per poll", full.saturating_sub(empty) / self.polls.max(1));
        polls.abort_all();
        service.process.stop().await;
        Ok(())
    }

    /// Starts the polls, a few at a time.
    fn begin(&self, service: &Service) -> Result<tokio::task::JoinSet<()>, Failed> {
        let to = service.url.trim_start_matches("http://");
        let to: SocketAddr = to.parse().map_err(|error| other(format!("{to}: {error}")))?;
        let wire = if self.swf { Wire::Swf } else { Wire::Rest };
        let begin = Arc::new(Semaphore::new(BEGIN_AT_ONCE));
        let mut polls = tokio::task::JoinSet::new();
        for number in 0..self.polls {
            let (list, begin) = (format!("idle-{}", number % self.lists.max(1)), Arc::clone(&begin));
            polls.spawn(poller::hold(wire, to, (number, list), begin));
        }
        Ok(polls)
    }
}

/// Raises the limit of open files of this process, and thereby of the service.
fn must_open(files: u64) -> Result<(), Failed> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= files) {
        return Ok(());
    }
    if let Some(maximum) = maximum.filter(|maximum| *maximum < files) {
        return Err(other(format!(
            "so many polls need {files} open files and sockets in this process and as many in the service, but the \
             limit is {maximum}; raise the limit with `ulimit -n {files}` as root, or use fewer --polls"
        )));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum })
        .map_err(|error| other(format!("the limit of open files cannot be raised to {files}: {error}")))
}

/// Returns the number of waiting polls according to the service.
async fn waiting(client: &Client) -> Result<u64, Failed> {
    let text = client.metrics().await?;
    let lines = text.lines().filter(|line| line.starts_with("baton_pollers_waiting{"));
    Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
}
