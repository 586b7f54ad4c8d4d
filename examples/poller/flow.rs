//! A flow that polls a feed until the feed ends.

use baton_decider_kit::Duration;
use baton_decider_kit::flow::{Context, Failure};
use serde::{Deserialize, Serialize};

/// Number of polls per run. It limits the length of the history: each poll adds three activity events and two timer
/// events, and each item adds three events.
pub(crate) const LOOKS: usize = 20;

/// A feed, and the flow's position in the feed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Feed {
    pub(crate) name: String,
    /// Number of the first item that the flow has not taken yet.
    pub(crate) next: u64,
    /// Wait between two polls.
    pub(crate) every: Duration,
}

/// Result of a poll.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) items: Vec<String>,
    /// True if the feed has ended.
    pub(crate) is_last: bool,
}

/// Takes every item of a feed, in order, and returns the number of items. Continues as new before the history gets
/// long. Only the position in the feed is carried over to the new run.
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
