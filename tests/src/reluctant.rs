//! A store that delays the removal of entries from a run's outbox of effects. An effect is then delivered again after
//! it was applied, because its entry is removed much later.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use history::{Duration, Effect, Timestamp};
use store::{Cas, Error, Head, HeadKey, Store};

use crate::clock::Time;
use crate::intercepted::{Commit, Interceptor};
use crate::stored;
use crate::world::DOMAIN;

/// Maximum delay of one effect, in seconds. Our choice: longer than several runs in succession are open.
const RELUCTANT_FOR: u64 = 200;

/// One in this many effects is delayed.
const ONE_IN: u64 = 4;

pub(crate) struct Reluctant {
    store: Arc<dyn Store>,
    time: Arc<Time>,
    seed: u64,
    since: Mutex<HashMap<(HeadKey, Effect), Timestamp>>,
}

impl Reluctant {
    pub(crate) fn over(store: Arc<dyn Store>, time: Arc<Time>, seed: u64) -> Self {
        Self { store, time, seed, since: Mutex::default() }
    }

    /// Returns whether the entry of this effect must be kept for longer.
    fn keeps(&self, key: &HeadKey, head: &Head, effect: Effect) -> bool {
        let run = u128::from_be_bytes(head.run);
        let run = u64::try_from(run % u128::from(u64::MAX)).unwrap_or_default();
        let dice = fastrand::Rng::with_seed(self.seed ^ run ^ (effect.event_id << 8)).u64(..ONE_IN * RELUCTANT_FOR);
        if !dice.is_multiple_of(ONE_IN) {
            return false;
        }
        let now = self.time.now();
        let mut since = self.since.lock().expect("no code panics while it holds this lock");
        let since = since.entry((key.clone(), effect)).or_insert(now);
        now < since.plus(Duration::from_secs(dice / ONE_IN))
    }
}

#[async_trait]
impl Interceptor for Reluctant {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn commit(&self, Commit { key, expect, head, parts }: Commit<'_>) -> Result<Cas, Error> {
        if &*key.domain == DOMAIN
            && let Some(before) = self.store.load(key).await?
            && before.run == head.run
            && let (Some((before, _)), Some((after, _))) = (stored::decode(&before), stored::decode(head))
            && before.links.outbox.iter().any(|it| !after.links.outbox.owes(it) && self.keeps(key, head, *it))
        {
            return Err(Error::NotApplied { why: "reluctant".to_owned(), retry_after: None });
        }
        self.store.commit(key, expect, head, parts).await
    }
}
