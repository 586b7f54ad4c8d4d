//! Fault injection for any store: errors before and after a write, delays, outdated indexes, and commits that are
//! executed twice. The random numbers come from a seed, so that a test can be repeated.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    Cas, Count, Due, Error, Expect, Head, HeadKey, Limits, ListPage, ListQuery, Mark, PageToken, PartKey, RunId, Stats,
    Store, UnixMs,
};

/// Probability of each fault, as the number of affected calls out of 1,000.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Chances {
    /// A call returns [`Error::NotApplied`] and has no effect.
    pub not_applied: u32,
    /// A write returns [`Error::Unknown`] and has no effect.
    pub unknown_before: u32,
    /// A write returns [`Error::Unknown`] and takes effect.
    pub unknown_after: u32,
    /// A commit returns [`Error::Unknown`] and takes effect late: just before one of the next
    /// [`late_by`](Self::late_by) commits.
    pub late: u32,
    /// Number of following commits within which a late commit takes effect; zero counts as one. The first commit of a
    /// key, if it is late, takes effect before the next commit. If it took effect later, the head could be written and
    /// deleted in the meantime, and then be created again by the late commit. In practice, no request is in transit for
    /// so long.
    pub late_by: u32,
    /// A commit is executed twice, as if a client library had retried it. The second result is returned.
    pub twice: u32,
    /// A call waits before it is executed, and again before it returns.
    pub delay: u32,
    /// Maximum duration of each of these waits. Zero only yields to other tasks.
    pub delay_max: Duration,
    /// `due` returns its previous result.
    pub stale_due: u32,
}

impl Chances {
    /// Probabilities without any faults.
    pub const NONE: Self = Self {
        not_applied: 0,
        unknown_before: 0,
        unknown_after: 0,
        late: 0,
        late_by: 0,
        twice: 0,
        delay: 0,
        delay_max: Duration::ZERO,
        stale_due: 0,
    };

    /// Probabilities with frequent faults of all kinds.
    pub const fn frequent() -> Self {
        Self {
            not_applied: 100,
            unknown_before: 100,
            unknown_after: 100,
            late: 50,
            late_by: 0,
            twice: 50,
            delay: 300,
            delay_max: Duration::ZERO,
            stale_due: 200,
        }
    }
}

/// A store that injects faults into the calls of another store.
#[derive(Debug)]
pub struct FaultStore<S: ?Sized> {
    inner: Arc<S>,
    chances: Mutex<Chances>,
    is_on: AtomicBool,
    dice: AtomicU64,
    injected: AtomicU64,
    last_due: Mutex<Vec<(u32, Vec<Due>)>>,
    late: Mutex<Vec<Late>>,
}

/// A commit that takes effect late.
#[derive(Debug)]
struct Late {
    key: HeadKey,
    expect: Expect<'static>,
    replaced: Option<Head>,
    head: Head,
    parts: Vec<(PartKey, Bytes)>,
    /// Number of further commits before this commit takes effect.
    after: u64,
}

impl<S: Store + ?Sized> FaultStore<S> {
    /// Wraps a store. The same seed and the same order of calls yield the same faults.
    pub fn new(inner: Arc<S>, seed: u64, chances: Chances) -> Self {
        Self {
            inner,
            chances: Mutex::new(chances),
            is_on: AtomicBool::new(true),
            dice: AtomicU64::new(seed),
            injected: AtomicU64::new(0),
            last_due: Mutex::default(),
            late: Mutex::default(),
        }
    }

    /// Returns the wrapped store, whose calls have no injected faults.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Switches all faults on or off.
    pub fn set_on(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::SeqCst);
    }

    /// Sets the probabilities of faults.
    pub fn set_chances(&self, chances: Chances) {
        *self.chances.lock().unwrap_or_else(PoisonError::into_inner) = chances;
    }

    /// Returns the number of injected faults, not counting delays.
    pub fn injected(&self) -> u64 {
        self.injected.load(Ordering::Relaxed)
    }

    fn chances(&self) -> Chances {
        if self.is_on.load(Ordering::SeqCst) {
            *self.chances.lock().unwrap_or_else(PoisonError::into_inner)
        } else {
            Chances::NONE
        }
    }

    /// Returns the next number of the random sequence (splitmix64).
    fn roll(&self) -> u64 {
        let step = 0x9E37_79B9_7F4A_7C15;
        let mut number = self.dice.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        number ^ (number >> 31)
    }

    fn happens(&self, chance: u32) -> bool {
        chance > 0 && self.roll() % 1000 < u64::from(chance)
    }

    fn inject(&self, chance: u32) -> bool {
        let is_injected = self.happens(chance);
        if is_injected {
            self.injected.fetch_add(1, Ordering::Relaxed);
        }
        is_injected
    }

    async fn delay(&self) {
        let chances = self.chances();
        if !self.happens(chances.delay) {
            return;
        }
        let longest = u64::try_from(chances.delay_max.as_micros()).unwrap_or(u64::MAX);
        if longest == 0 {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(Duration::from_micros(self.roll() % longest)).await;
        }
    }

    fn refuse(&self) -> Result<(), Error> {
        if self.inject(self.chances().not_applied) {
            return Err(Error::NotApplied { why: "injected".to_owned(), retry_after: None });
        }
        Ok(())
    }

    async fn before_read(&self) -> Result<(), Error> {
        self.delay().await;
        self.refuse()
    }

    async fn before_write(&self) -> Result<(), Error> {
        self.before_read().await?;
        if self.inject(self.chances().unknown_before) {
            return Err(Error::Unknown { why: "injected before the write".to_owned() });
        }
        Ok(())
    }

    async fn after_write(&self) -> Result<(), Error> {
        self.delay().await;
        if self.inject(self.chances().unknown_after) {
            return Err(Error::Unknown { why: "injected after the write".to_owned() });
        }
        Ok(())
    }
}

impl<S: Store + ?Sized> FaultStore<S> {
    fn delay_put(&self, key: &HeadKey, expect: &Expect<'_>, head: &Head, parts: &[(PartKey, Bytes)]) {
        let (expect, replaced) = match expect {
            Expect::Absent => (Expect::Absent, None),
            Expect::Exactly { run, version } => (Expect::Exactly { run: *run, version: *version }, None),
            Expect::Replacing(replaced) => (Expect::Absent, Some((*replaced).clone())),
        };
        let is_first = matches!(expect, Expect::Absent) && replaced.is_none();
        let late_by = if is_first { 0 } else { u64::from(self.chances().late_by) };
        let after = if late_by > 1 { self.roll() % late_by } else { 0 };
        let late = Late { key: key.clone(), expect, replaced, head: head.clone(), parts: parts.to_vec(), after };
        self.late.lock().unwrap_or_else(PoisonError::into_inner).push(late);
    }

    /// Executes the late commits that take effect now, and discards their results.
    async fn catch_up(&self) -> Result<(), Error> {
        let late: Vec<Late> = {
            let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
            let (now, later) = late.drain(..).partition(|late| late.after == 0);
            *late = later;
            late.iter_mut().for_each(|late| late.after -= 1);
            now
        };
        for Late { key, expect, replaced, head, parts, .. } in late {
            let expect = replaced.as_ref().map_or(expect, Expect::Replacing);
            self.inner.commit(&key, expect, &head, &parts).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl<S: Store + ?Sized> Store for FaultStore<S> {
    /// Returns the limits of the wrapped store, except for `op_ids`: this store may return `Unknown`, even if the
    /// wrapped store never does.
    fn limits(&self) -> Limits {
        let limits = self.inner.limits();
        Limits { op_ids: limits.op_ids.max(16), ..limits }
    }

    fn weight(&self, key: &HeadKey, head: &Head) -> usize {
        self.inner.weight(key, head)
    }

    fn due_shard(&self, key: &HeadKey) -> u32 {
        self.inner.due_shard(key)
    }

    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
        self.before_read().await?;
        self.inner.load(key).await
    }

    async fn load_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Head>, Error> {
        self.before_read().await?;
        self.inner.load_run(key, run).await
    }

    async fn commit(
        &self,
        key: &HeadKey,
        expect: Expect<'_>,
        head: &Head,
        parts: &[(PartKey, Bytes)],
    ) -> Result<Cas, Error> {
        self.before_write().await?;
        if self.inject(self.chances().late) {
            self.delay_put(key, &expect, head, parts);
            return Err(Error::Unknown { why: "injected, to be written late".to_owned() });
        }
        self.catch_up().await?;
        let mut answer = self.inner.commit(key, expect.clone(), head, parts).await?;
        if self.inject(self.chances().twice) {
            answer = self.inner.commit(key, expect, head, parts).await?;
        }
        self.after_write().await?;
        Ok(answer)
    }

    async fn put_kept(&self, key: &HeadKey, head: &Head, parts: &[(PartKey, Bytes)]) -> Result<Cas, Error> {
        self.before_write().await?;
        let answer = self.inner.put_kept(key, head, parts).await?;
        self.after_write().await?;
        Ok(answer)
    }

    async fn put_part(&self, key: &HeadKey, run: RunId, part: PartKey, bytes: Bytes) -> Result<(), Error> {
        self.before_write().await?;
        self.inner.put_part(key, run, part, bytes).await?;
        self.after_write().await
    }

    async fn parts(&self, key: &HeadKey, run: RunId, want: &[PartKey]) -> Result<Vec<Option<Bytes>>, Error> {
        self.before_read().await?;
        self.inner.parts(key, run, want).await
    }

    async fn put_marks(&self, key: &HeadKey, marks: &[Mark]) -> Result<(), Error> {
        self.before_write().await?;
        self.inner.put_marks(key, marks).await?;
        self.after_write().await
    }

    async fn marks(&self, key: &HeadKey, names: &[u64]) -> Result<Vec<Option<Bytes>>, Error> {
        self.before_read().await?;
        self.inner.marks(key, names).await
    }

    async fn chunks(
        &self,
        key: &HeadKey,
        run: RunId,
        from_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        self.before_read().await?;
        self.inner.chunks(key, run, from_event, max_bytes).await
    }

    async fn chunks_back(
        &self,
        key: &HeadKey,
        run: RunId,
        before_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        self.before_read().await?;
        self.inner.chunks_back(key, run, before_event, max_bytes).await
    }

    async fn drop_run(&self, key: &HeadKey, run: RunId) -> Result<(), Error> {
        self.before_write().await?;
        self.inner.drop_run(key, run).await?;
        self.after_write().await
    }

    async fn expire(&self, now: UnixMs, limit: usize) -> Result<usize, Error> {
        self.before_write().await?;
        let count = self.inner.expire(now, limit).await?;
        self.after_write().await?;
        Ok(count)
    }

    async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error> {
        self.before_read().await?;
        let is_stale = self.inject(self.chances().stale_due);
        if after.is_some() {
            return self.inner.due(shard, until, after, limit).await;
        }
        if !is_stale {
            let fresh = self.inner.due(shard, until, after, limit).await?;
            let mut last = self.last_due.lock().unwrap_or_else(PoisonError::into_inner);
            last.retain(|(of, _)| *of != shard);
            last.push((shard, fresh.clone()));
            return Ok(fresh);
        }
        let last = self.last_due.lock().unwrap_or_else(PoisonError::into_inner);
        let stale = last.iter().find(|(of, _)| *of == shard).map(|(_, due)| due.as_slice()).unwrap_or_default();
        Ok(stale.iter().filter(|due| due.at <= until).take(limit).cloned().collect())
    }

    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
        self.before_read().await?;
        self.inner.list(query, page).await
    }

    async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Error> {
        self.before_read().await?;
        self.inner.count(query, at_most).await
    }

    fn stats(&self) -> Stats {
        self.inner.stats()
    }

    fn disk_free(&self) -> Option<u64> {
        self.inner.disk_free()
    }

    async fn failed(&self) -> Error {
        self.inner.failed().await
    }

    async fn close(&self) -> Result<(), Error> {
        self.inner.close().await
    }
}
