//! Requests that are repeated: what the store keeps of those for which a run's state has no room is fetched before the rules
//! judge, and what leaves the state is put into the store before the commit without it. Which these are, and what a repeated
//! request means, are rules of `history` (ADR 17).

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

/// How often marks are put in all before the commit is given up that they are for.
const TRIES_MAX: u32 = 8;

/// The wait after the first try; doubled after each further one.
const TRY_WAIT: Duration = Duration::from_millis(20);

/// How many requests a node knows to have no mark. Ours: as many as are under way at the same time, and not one of them is looked
/// for twice.
const ABSENT_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("it is not zero");

/// Requests that had no mark, each with its run and with how many marks there were then: a request is judged more than once when others
/// write to its run, and an update when it is put and when it is answered.
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

/// What the store keeps of requests.
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

    /// The time by which requests are forgotten: a clock that is too far ahead to be believed forgets none.
    pub(crate) fn past(&self) -> Timestamp {
        self.newest.past(self.clock.now())
    }

    /// Has a run, which is about to be judged, know what the store has of these requests. Reads nothing where there is nothing to be had.
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

    /// Puts what leaves a run's state into the store.
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
            // It is true whatever becomes of the commit, and the same however often it is put.
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
