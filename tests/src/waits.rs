//! Durations of polls, and what happens to a poll whose wait ends.

use std::time::Duration;

use engine::{Engine, Refusal};

use crate::world::World;

/// Way in which polls end if they get no task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Waits {
    /// Polls end after two seconds, which is longer than most tasks take to arrive. Connections break, and responses
    /// are lost.
    #[default]
    Long,
    /// Polls end immediately or after a few milliseconds. Commits that take about as long create tasks for them. No
    /// connection breaks, so every taken task arrives.
    Short,
    /// Polls end as with `Short`, but are dropped at the end, as if their connections had broken. A service must not
    /// end polls like this.
    CutOff,
}

/// Maximum delay of the store with short waits, before and after a call.
pub(crate) const DELAY_MAX: Duration = Duration::from_millis(3);

/// Short waits, in milliseconds: shorter than a commit, as long as a commit, and longer.
const SHORT_MS: [u64; 5] = [0, 1, 3, 5, 20];

impl Waits {
    /// Returns the wait of the next poll.
    pub(crate) fn next(self, world: &World) -> Duration {
        match self {
            Self::Short => short(world),
            Self::Long | Self::CutOff => Duration::from_secs(2),
        }
    }

    /// Returns the outcome of a poll.
    pub(crate) async fn end<T>(
        self,
        world: &World,
        poll: impl Future<Output = Result<Option<T>, Refusal>>,
    ) -> Result<Option<T>, Refusal> {
        if self == Self::CutOff {
            return tokio::time::timeout(short(world), poll).await.unwrap_or(Ok(None));
        }
        poll.await
    }
}

fn short(world: &World) -> Duration {
    let at = world.random().usize(..SHORT_MS.len());
    Duration::from_millis(SHORT_MS.get(at).copied().unwrap_or_default())
}

/// Number of tasks that a node has given back because their pollers had disconnected.
pub(crate) fn given_back(node: &Engine) -> u64 {
    let metrics = node.render_metrics();
    let counts = metrics.lines().filter_map(|line| line.strip_prefix("baton_deliveries_failed_total{reason=\""));
    let of_polls = counts.filter_map(|line| {
        let (reason, count) = line.split_once("\"} ")?;
        (reason != "unreadable").then_some(count)
    });
    of_polls.map(|count| count.parse::<u64>().expect("a count")).sum()
}
