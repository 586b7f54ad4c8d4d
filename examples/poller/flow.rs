//! A feed, looked at again and again for as long as it lasts.

use baton_decider_kit::Duration;
use baton_decider_kit::flow::{Context, Failure};
use serde::{Deserialize, Serialize};

/// Looks of one run. What bounds its history: three events and a timer's two for each look, three for each item.
pub(crate) const LOOKS: usize = 20;

/// A feed, and how far it was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Feed {
    pub(crate) name: String,
    /// Items before this one have been taken.
    pub(crate) next: u64,
    /// The wait between two looks.
    pub(crate) every: Duration,
}

/// What a look found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) items: Vec<String>,
    /// Nothing will follow.
    pub(crate) is_last: bool,
}

/// Takes every item of a feed, in order; how many there were. Goes on as new before its history gets long: all that it
/// has to remember is where it is.
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
