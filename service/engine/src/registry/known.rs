//! Marks of requests: idempotency keys that no longer fit into the state of a run are moved to the store. They are
//! read before the rules judge a request that may be a repetition, and written before the commit that removes them
//! from the state. The crate `history` decides which keys these are and what a repeated request means (ADR 17).

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

/// Maximum number of attempts to write marks before their commit is abandoned.
const TRIES_MAX: u32 = 8;

/// Delay after the first attempt; it doubles after each further one.
const TRY_WAIT: Duration = Duration::from_millis(20);

/// Number of requests that a node knows to have no mark. Our choice: about as many as are under way at the same time,
/// so that none is looked up twice.
const ABSENT_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("it is not zero");

/// Requests without a mark, by run, with the number of marks at that time. A request is judged more than once if
/// others write to its run; an update is judged when it is sent and when it is answered.
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

    /// Returns the time before which keys have expired. A clock that is doubted expires none.
    pub(crate) fn past(&self) -> Timestamp {
        self.newest.past(self.clock.now())
    }

    /// Loads the marks of these requests into a run that is about to judge them. Reads nothing if the run has no
    /// marks for them.
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

    /// Writes the keys that leave a run's state to the store.
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
            // The marks are valid even if the commit fails, and writing them again changes nothing.
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
