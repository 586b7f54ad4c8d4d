//! The reference engine: keeps everything in memory under one lock, and is as simple as the contract allows. It is
//! meant for tests, and as an example of an engine. It is not durable, and its lists scan all rows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;

use crate::listing::{CountBuilder, PageBuilder};
use crate::{
    Cas, Count, Due, Error, Expect, Head, HeadKey, Limits, ListPage, ListQuery, Listed, MARK_BYTES_MAX, Mark,
    PageToken, PartKey, Row, RunId, Stats, Store, UnixMs,
};

/// A store that loses its content when the process ends.
#[derive(Debug)]
pub struct Memory {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    heads: BTreeMap<HeadKey, Head>,
    kept: BTreeMap<(HeadKey, RunId), Head>,
    parts: BTreeMap<(HeadKey, RunId, PartKey), Bytes>,
    marks: BTreeMap<(HeadKey, u64), Mark>,
    due: BTreeSet<(UnixMs, HeadKey)>,
    expires: BTreeSet<(UnixMs, HeadKey, RunId)>,
    commits: u64,
    bytes_written: u64,
    is_closed: bool,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// Creates an empty store with the limits of the embedded engine.
    pub fn new() -> Self {
        Self::with_limits(Limits {
            head_soft: 4096,
            head_hard: 1 << 20,
            part_max: 16 << 20,
            payload_inline_max: 2048,
            due_shards: 1,
            op_ids: 16,
            due_moves_are_cheap: true,
            is_shared: false,
        })
    }

    /// Creates an empty store with these limits.
    pub fn with_limits(limits: Limits) -> Self {
        Self { limits, state: Mutex::default() }
    }

    fn open(&self) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return Err(Error::Failed { why: "the store was closed".to_owned() });
        }
        Ok(state)
    }

    fn check_size(found: usize, max: usize) -> Result<(), Error> {
        if found > max { Err(Error::TooLarge { max, found }) } else { Ok(()) }
    }
}

impl State {
    fn run(&self, key: &HeadKey, run: RunId) -> Option<&Head> {
        self.heads.get(key).filter(|head| head.run == run).or_else(|| self.kept.get(&(key.clone(), run)))
    }

    /// Returns the rows that a query must examine, unordered: the rows of its domain or workflow id, and only open or
    /// only closed rows if the query requests this.
    fn rows<'a>(&'a self, query: &'a ListQuery) -> impl Iterator<Item = (&'a HeadKey, &'a Head, &'a Row)> {
        let heads = self.heads.iter().chain(self.kept.iter().map(|((key, _), head)| (key, head)));
        let rows = heads.filter_map(|(key, head)| Some((key, head, head.row.as_ref()?)));
        rows.filter(|(key, _, row)| {
            key.domain == query.domain
                && query.workflow_id.as_deref().is_none_or(|id| *id == *key.workflow_id)
                && query.open.is_none_or(|open| open == row.closed_at.is_none())
        })
    }

    fn put_part(&mut self, key: &HeadKey, run: RunId, part: PartKey, bytes: &Bytes) {
        self.bytes_written += bytes.len() as u64;
        let place = (key.clone(), run, part);
        match part {
            PartKey::Heartbeat { .. } => {
                self.parts.insert(place, bytes.clone());
            }
            PartKey::Chunk { .. } | PartKey::Pack { .. } => {
                self.parts.entry(place).or_insert_with(|| bytes.clone());
            }
        }
    }

    fn unindex(&mut self, key: &HeadKey, head: &Head) {
        if let Some(at) = head.due {
            self.due.remove(&(at, key.clone()));
        }
        if let Some(at) = head.expires_at {
            self.expires.remove(&(at, key.clone(), head.run));
        }
    }

    fn forget(&mut self, key: &HeadKey, run: RunId) {
        if self.heads.get(key).is_some_and(|head| head.run == run)
            && let Some(head) = self.heads.remove(key)
        {
            self.unindex(key, &head);
        }
        if let Some(head) = self.kept.remove(&(key.clone(), run))
            && let Some(at) = head.expires_at
        {
            self.expires.remove(&(at, key.clone(), run));
        }
        let first = PartKey::Chunk { last: 0 };
        let last = PartKey::Heartbeat { scheduled: u64::MAX };
        let gone: Vec<_> = self
            .parts
            .range((key.clone(), run, first)..=(key.clone(), run, last))
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            self.parts.remove(&key);
        }
    }
}

/// Returns chunks until their total size reaches `max_bytes`, but at least one.
fn up_to<'a>(chunks: impl Iterator<Item = (PartKey, &'a Bytes)>, max_bytes: usize) -> Vec<(u64, Bytes)> {
    let mut sum = 0;
    let mut taken = Vec::new();
    for (key, bytes) in chunks {
        let PartKey::Chunk { last } = key else { continue };
        sum += bytes.len();
        taken.push((last, bytes.clone()));
        if sum >= max_bytes {
            break;
        }
    }
    taken
}

#[async_trait]
impl Store for Memory {
    fn limits(&self) -> Limits {
        self.limits
    }

    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
        Ok(self.open()?.heads.get(key).cloned())
    }

    async fn load_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Head>, Error> {
        Ok(self.open()?.run(key, run).cloned())
    }

    async fn commit(
        &self,
        key: &HeadKey,
        expect: Expect<'_>,
        head: &Head,
        parts: &[(PartKey, Bytes)],
    ) -> Result<Cas, Error> {
        Self::check_size(head.body.len(), self.limits.head_hard)?;
        for (_, bytes) in parts {
            Self::check_size(bytes.len(), self.limits.part_max)?;
        }
        let mut state = self.open()?;
        let found = state.heads.get(key).cloned();
        let holds = match (&expect, &found) {
            (Expect::Absent, None) => true,
            (Expect::Exactly { run, version }, Some(found)) => found.run == *run && found.version == *version,
            (Expect::Replacing(old), Some(found)) => found.run == old.run && found.version == old.version,
            (Expect::Absent, Some(_)) | (Expect::Exactly { .. } | Expect::Replacing(_), None) => false,
        };
        if !holds {
            return Ok(Cas::Lost(found));
        }
        for (part, bytes) in parts {
            state.put_part(key, head.run, *part, bytes);
        }
        if let Some(found) = found {
            state.unindex(key, &found);
            if let Expect::Replacing(old) = expect {
                let kept = Head { expires_at: old.expires_at, ..found };
                if let Some(at) = kept.expires_at {
                    state.expires.insert((at, key.clone(), kept.run));
                }
                state.kept.insert((key.clone(), kept.run), kept);
            }
        }
        if let Some(at) = head.due {
            state.due.insert((at, key.clone()));
        }
        if let Some(at) = head.expires_at {
            state.expires.insert((at, key.clone(), head.run));
        }
        state.heads.insert(key.clone(), head.clone());
        state.commits += 1;
        state.bytes_written += head.body.len() as u64;
        Ok(Cas::Won)
    }

    async fn put_kept(&self, key: &HeadKey, head: &Head, parts: &[(PartKey, Bytes)]) -> Result<Cas, Error> {
        Self::check_size(head.body.len(), self.limits.head_hard)?;
        for (_, bytes) in parts {
            Self::check_size(bytes.len(), self.limits.part_max)?;
        }
        let mut state = self.open()?;
        if let Some(found) = state.run(key, head.run) {
            return Ok(Cas::Lost(Some(found.clone())));
        }
        for (part, bytes) in parts {
            state.put_part(key, head.run, *part, bytes);
        }
        if let Some(at) = head.expires_at {
            state.expires.insert((at, key.clone(), head.run));
        }
        state.kept.insert((key.clone(), head.run), head.clone());
        state.commits += 1;
        state.bytes_written += head.body.len() as u64;
        Ok(Cas::Won)
    }

    async fn put_part(&self, key: &HeadKey, run: RunId, part: PartKey, bytes: Bytes) -> Result<(), Error> {
        Self::check_size(bytes.len(), self.limits.part_max)?;
        let mut state = self.open()?;
        if state.run(key, run).is_some() {
            state.put_part(key, run, part, &bytes);
        }
        Ok(())
    }

    async fn parts(&self, key: &HeadKey, run: RunId, want: &[PartKey]) -> Result<Vec<Option<Bytes>>, Error> {
        let state = self.open()?;
        Ok(want.iter().map(|part| state.parts.get(&(key.clone(), run, *part)).cloned()).collect())
    }

    async fn put_marks(&self, key: &HeadKey, marks: &[Mark]) -> Result<(), Error> {
        for mark in marks {
            Self::check_size(mark.bytes.len(), MARK_BYTES_MAX)?;
        }
        let mut state = self.open()?;
        for mark in marks {
            state.bytes_written += mark.bytes.len() as u64;
            state.marks.insert((key.clone(), mark.name), mark.clone());
        }
        Ok(())
    }

    async fn marks(&self, key: &HeadKey, names: &[u64]) -> Result<Vec<Option<Bytes>>, Error> {
        let state = self.open()?;
        let bytes = |name| state.marks.get(&(key.clone(), name)).map(|mark| mark.bytes.clone());
        Ok(names.iter().map(|name| bytes(*name)).collect())
    }

    async fn chunks(
        &self,
        key: &HeadKey,
        run: RunId,
        from_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        let state = self.open()?;
        let first = (key.clone(), run, PartKey::Chunk { last: from_event });
        let last = (key.clone(), run, PartKey::Chunk { last: u64::MAX });
        Ok(up_to(state.parts.range(first..=last).map(|((_, _, part), bytes)| (*part, bytes)), max_bytes))
    }

    async fn chunks_back(
        &self,
        key: &HeadKey,
        run: RunId,
        before_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        let state = self.open()?;
        let first = (key.clone(), run, PartKey::Chunk { last: 0 });
        let end = (key.clone(), run, PartKey::Chunk { last: before_event });
        Ok(up_to(state.parts.range(first..end).rev().map(|((_, _, part), bytes)| (*part, bytes)), max_bytes))
    }

    async fn drop_run(&self, key: &HeadKey, run: RunId) -> Result<(), Error> {
        self.open()?.forget(key, run);
        Ok(())
    }

    async fn expire(&self, now: UnixMs, limit: usize) -> Result<usize, Error> {
        let mut state = self.open()?;
        let gone: Vec<_> = state.expires.iter().take_while(|(at, ..)| *at <= now).take(limit).cloned().collect();
        for (_, key, run) in &gone {
            state.forget(key, *run);
        }
        let marks = state.marks.iter().filter(|(_, mark)| mark.expires_at <= now).take(limit);
        let marks: Vec<_> = marks.map(|(place, _)| place.clone()).collect();
        for place in &marks {
            state.marks.remove(place);
        }
        Ok(gone.len().max(marks.len()))
    }

    fn due_shard(&self, key: &HeadKey) -> u32 {
        let sum = key.workflow_id.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        sum % self.limits.due_shards.max(1)
    }

    async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error> {
        let state = self.open()?;
        if shard >= self.limits.due_shards {
            return Ok(Vec::new());
        }
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded((after.at, after.key.clone())));
        let due = state.due.range((from, Bound::Unbounded)).take_while(|(at, _)| *at <= until);
        let due = due.filter(|(_, key)| self.due_shard(key) == shard);
        Ok(due.take(limit).map(|(at, key)| Due { at: *at, key: key.clone() }).collect())
    }

    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
        let state = self.open()?;
        let mut gathered = PageBuilder::new(query, page)?;
        for (key, head, row) in state.rows(query) {
            gathered.add(Listed { workflow_id: key.workflow_id.clone(), run: head.run, row: row.clone() });
        }
        Ok(gathered.page())
    }

    async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Error> {
        let state = self.open()?;
        let mut counting = CountBuilder::new(query, at_most);
        for (key, _, row) in state.rows(query) {
            counting.examine(&key.workflow_id, row);
        }
        Ok(counting.count)
    }

    fn stats(&self) -> Stats {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Stats { commits: state.commits, bytes_written: state.bytes_written, ..Stats::default() }
    }

    fn disk_free(&self) -> Option<u64> {
        None
    }

    async fn failed(&self) -> Error {
        std::future::pending().await
    }

    async fn close(&self) -> Result<(), Error> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        Ok(())
    }
}
