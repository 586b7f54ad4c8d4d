//! A flow that polls a feed until the feed ends.

use baton_decider_kit::Duration;
use baton_decider_kit::flow::{Context, Failure};
use serde::{Deserialize, Serialize};

/// Polls per run. This bounds the history: each poll adds three activity events and two timer events, each item three.
pub(crate) const LOOKS: usize = 20;

/// A feed and the position in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Feed {
    pub(crate) name: String,
    /// Number of the first item that has not been taken.
    pub(crate) next: u64,
    /// Wait between two polls.
    pub(crate) every: Duration,
}

/// Result of a poll.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) items: Vec<String>,
    /// The feed has ended.
    pub(crate) is_last: bool,
}

/// Takes every item of a feed, in order, and returns their number. It continues as new before its history gets long;
/// only its position in the feed is carried over.
pub(crate) async fn poller(ctx: Context, mut feed: Feed) -> Result<u64, Failure> {
    for _ in 0..LOOKS {
        let found: Found = ctx.activity("look", &feed).await?;
        for item in &found.items {
            let () = ctx.activity("take", item).await?;
            feed.next += 1;
        }
        if found.is_last {
            return Ok(feed.next);
        }
        ctx.sleep(feed.every).await?;
    }
    Err(ctx.continue_as_new(&feed))
}
