//! How long polls wait, and whether what they were given reached them.

use std::time::Duration;

use engine::{Engine, Refusal};

use crate::world::World;

/// How polls end that get no task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Waits {
    /// After two seconds, which is longer than most tasks take to come. Connections break, and answers are lost.
    #[default]
    Long,
    /// After no time or a few milliseconds, while commits that take as long make tasks for them. No connection breaks, so that
    /// every task that was taken arrives.
    Short,
    /// The same, but the end of the wait drops the poll, as if its connection had broken: what a service must not do.
    CutOff,
}

/// The longest delay of the store where waits are short, before a call and after it.
pub(crate) const DELAY_MAX: Duration = Duration::from_millis(3);

/// Short waits, in milliseconds: less than a commit takes, as much, and more.
const SHORT_MS: [u64; 5] = [0, 1, 3, 5, 20];

impl Waits {
    /// How long the next poll is to wait.
    pub(crate) fn next(self, world: &World) -> Duration {
        match self {
            Self::Short => short(world),
            Self::Long | Self::CutOff => Duration::from_secs(2),
        }
    }

    /// What comes of a poll.
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

/// How many tasks a node has given back because whoever polled for them was gone.
pub(crate) fn given_back(node: &Engine) -> u64 {
    let metrics = node.render_metrics();
    let counts = metrics.lines().filter_map(|line| line.strip_prefix("baton_deliveries_failed_total{reason=\""));
    let of_polls = counts.filter_map(|line| {
        let (reason, count) = line.split_once("\"} ")?;
        (reason != "unreadable").then_some(count)
    });
    of_polls.map(|count| count.parse::<u64>().expect("a count")).sum()
}
