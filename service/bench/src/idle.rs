//! `baton-bench idle`: polls that wait for tasks that do not come.

use std::time::Duration;

use clap::Args;
use client::Client;
use client::body::PollActivity;
use tokio::time::Instant;

use super::swf::{Caller, Wire};
use crate::failed::Failed;
use crate::service::{Scratch, Service, client, mib, other};

/// How long one poll waits.
const POLL_WAIT: Duration = Duration::from_secs(60);

/// Measure: what polls cost that wait for nothing
#[derive(Debug, Args)]
pub(crate) struct Idle {
    /// How many polls, each on a connection of its own
    #[arg(long, default_value_t = 10_000)]
    polls: u64,
    /// On how many task lists
    #[arg(long, default_value_t = 100)]
    lists: u64,
    /// For how long to look, in seconds
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Have them be polls over SWF's wire
    #[arg(long)]
    swf: bool,
}

impl Idle {
    pub(super) async fn run(self) -> Result<(), Failed> {
        let scratch = Scratch::new(None)?;
        let service = Service::start(&scratch).await?;
        let client = client(&service.url)?;
        let empty = service.process.memory().unwrap_or_default();
        let caller = Caller::new(&service.url, Wire::Swf, true);
        let mut polls = tokio::task::JoinSet::new();
        for number in 0..self.polls {
            let (client, list) = (client.clone(), format!("idle-{}", number % self.lists.max(1)));
            if self.swf {
                let caller = caller.clone();
                polls.spawn(async move { hold_swf(&caller, &list).await });
            } else {
                polls.spawn(async move { hold(&client, &list).await });
            }
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        while waiting(&client).await? < self.polls {
            if Instant::now() > deadline {
                let waiting = waiting(&client).await?;
                return Err(other(format!("{waiting} of {} polls wait; see ulimit -n", self.polls)));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let before = service.process.cpu_seconds().unwrap_or_default();
        let began = Instant::now();
        tokio::time::sleep(Duration::from_secs(self.seconds.max(1))).await;
        let spent = service.process.cpu_seconds().unwrap_or_default() - before;
        println!("{} polls wait on {} lists:", self.polls, self.lists);
        println!("  {:>10.2}  % of a core", 100.0 * spent / began.elapsed().as_secs_f64());
        println!(
            "  {:>10.0}  MiB of memory in the service ({:.0} before the polls came)",
            mib(service.process.memory().unwrap_or_default()),
            mib(empty)
        );
        polls.abort_all();
        service.process.stop().await;
        Ok(())
    }
}

/// Polls again and again.
async fn hold(client: &Client, list: &str) {
    let poll = PollActivity::default();
    loop {
        if let Err(error) = client.poll_activity(list, &poll, POLL_WAIT).await {
            tracing::debug!(%error, "a poll ended");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The same over SWF's wire.
async fn hold_swf(caller: &Caller, list: &str) {
    loop {
        if caller.activity(list).await.is_err() {
            tracing::debug!("a poll ended");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// How many polls the service says are waiting.
async fn waiting(client: &Client) -> Result<u64, Failed> {
    let text = client.metrics().await?;
    let lines = text.lines().filter(|line| line.starts_with("baton_pollers_waiting{"));
    Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
}
