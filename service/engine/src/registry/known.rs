//! Marks: records in the store of idempotency keys that no longer fit into the state of their run. The marks for a
//! request are read before the request is admitted. New marks are written before the commit that removes the keys from
//! the run's state. The crate `history` decides which keys become marks and how a repeated request is handled (ADR 17).

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use history::{RequestKey, RequestMark, Run, Spilled, SpilledMark, Timestamp};
use lru::LruCache;
use store::{HeadKey, Store};
use uuid::Uuid;

use crate::base::clock::NewestTime;
use crate::{Clock, Metrics, Refusal};

/// Maximum number of attempts to write marks before the commit is abandoned. Our choice.
const TRIES_MAX: u32 = 8;

/// Delay after the first failed attempt. The delay doubles after each further failed attempt. Our choice.
const TRY_WAIT: Duration = Duration::from_millis(20);

/// Maximum number of requests that a node remembers as having no mark. Our choice: approximately the number of requests
/// that are in progress at the same time, so that no mark is looked up twice for the same request.
const ABSENT_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("it is not zero");

/// Requests without a mark, by run and key, each with the run's number of marks at the time of the lookup. Remembering
/// them avoids repeated lookups for a request that is admitted more than once. A request is admitted again if other
/// nodes write to its run. An update is admitted when it is sent, and again when it is answered.
struct Absent(Mutex<LruCache<(Uuid, RequestKey), u64>>);

impl Default for Absent {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(ABSENT_MAX)))
    }
}

impl Absent {
    fn has(&self, run: &Run, request: RequestKey) -> bool {
        let place = (run.started.run_id, request);
        self.0.lock().expect("no code panics while it holds this lock").get(&place) == Some(&run.marks())
    }

    fn put(&self, run: &Run, request: RequestKey) {
        let place = (run.started.run_id, request);
        self.0.lock().expect("no code panics while it holds this lock").put(place, run.marks());
    }
}

/// Access to the marks in the store.
pub(crate) struct Marks {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    newest: Arc<NewestTime>,
    metrics: Arc<Metrics>,
    absent: Absent,
}

impl Marks {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        newest: Arc<NewestTime>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { store, clock, newest, metrics, absent: Absent::default() }
    }

    /// Returns the time before which keys have expired. While the clock is doubted, no further keys expire.
    pub(crate) fn past(&self) -> Timestamp {
        self.newest.past(self.clock.now())
    }

    /// Reads the marks for these requests and inserts them into the state of the run that is about to admit the
    /// requests. Reads nothing if the run cannot have such marks.
    pub(crate) async fn recall(&self, key: &HeadKey, run: &mut Run, requests: &[RequestKey]) -> Result<(), Refusal> {
        let now = self.past();
        let must_look = |request: RequestKey| run.must_recall(request, now) && !self.absent.has(run, request);
        let names: Vec<u64> = requests.iter().filter(|request| must_look(**request)).map(|request| request.0).collect();
        if names.is_empty() {
            return Ok(());
        }
        self.metrics.marks_read.inc_by(names.len() as u64);
        let found = self.store.marks(key, &names).await?;
        for (name, bytes) in names.into_iter().zip(found) {
            match bytes {
                Some(bytes) => run.recall(RequestKey(name), decode(&bytes)?),
                None => self.absent.put(run, RequestKey(name)),
            }
        }
        Ok(())
    }

    /// Writes the keys that are removed from a run's state to the store as marks.
    pub(crate) async fn keep_marks(&self, key: &HeadKey, spilled: &Spilled) -> Result<(), Refusal> {
        if spilled.marks.is_empty() {
            return Ok(());
        }
        let mark = |spilled: &SpilledMark| store::Mark {
            name: spilled.key.0,
            bytes: encode(spilled.mark),
            expires_at: spilled.until.as_millis(),
        };
        let marks: Vec<store::Mark> = spilled.marks.iter().map(mark).collect();
        let mut tries = 0;
        loop {
            // Marks are valid even if the commit then fails. Writing the same marks again has no further effect.
            let (why, wait) = match self.store.put_marks(key, &marks).await {
                Ok(()) => return Ok(()),
                Err(store::Error::NotApplied { why, retry_after }) => (why, retry_after),
                Err(store::Error::Unknown { why }) => (why, None),
                Err(error) => return Err(error.into()),
            };
            tries += 1;
            if tries >= TRIES_MAX {
                return Err(Refusal::Unavailable { why, retry_after: wait });
            }
            tokio::time::sleep(wait.unwrap_or(TRY_WAIT * 2_u32.saturating_pow(tries - 1))).await;
        }
    }
}

fn encode(mark: RequestMark) -> Bytes {
    minicbor::to_vec(mark).expect("writing to memory does not fail").into()
}

fn decode(bytes: &[u8]) -> Result<RequestMark, Refusal> {
    minicbor::decode(bytes).map_err(|error| Refusal::Corrupt { what: format!("the mark of a request: {error}") })
}
