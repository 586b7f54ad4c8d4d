//! Engines without one of their rules. An engine needs these rules in addition to the contract of its store, and has no
//! switch for any of them. Instead, a store around the real one undoes the effect of a rule.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use history::{Sent, Timestamp, codec};
use store::{Cas, Error, Head, HeadKey, Limits, ListPage, ListQuery, PageToken, PartKey, RunId, Store};

use crate::intercepted::{Commit, Interceptor};
use crate::stored::{decode, encode};
use crate::world::DOMAIN;

/// A rule that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A request is refused only after reading the store, never based on cached state. If the rule is left out, a wake
    /// may read the previous state.
    NeverNoFromCache,
    /// Commits have ids by which a node recognizes its own commits after a lost response.
    OperationIds,
    /// A run's due instant is set to an earlier time when something becomes due earlier.
    DueIsLowered,
    /// A run with a waiting task is due soon, in case the task in memory is lost.
    DispatchGrace,
    /// A run remembers the effects of other runs that it has already applied.
    SeenEffects,
    /// Chunks are named after their last event.
    ChunksByLastEvent,
    /// A run knows the last poll that a started task was sent to. If the rule is left out, it knows the first poll.
    SentToOne,
    /// A run that has applied effects of other runs is kept longer than these effects can be delivered again.
    KeptForOthers,
    /// A run whose next wake is far in the future is first recorded in the rows of its task list.
    WrittenDown,
    /// After a restart, the running tasks of limited lists are counted before more are handed out.
    RunningTasksAreCounted,
    /// An operator repairs late deadlines. This rule is left out by the world, not by the store.
    LateDeadlinesAreRepaired,
}

#[derive(Default)]
struct Known {
    /// The current and the previous contents of heads.
    heads: HashMap<HeadKey, (Head, Option<Head>)>,
    loads: u64,
    /// The chunk that was written last, by its first event.
    chunks: HashMap<(HeadKey, RunId, u64), u64>,
    overwritten: HashSet<(HeadKey, RunId, u64)>,
}

/// A store that undoes the effect of a rule.
pub(crate) struct Undone {
    store: Arc<dyn Store>,
    rule: Rule,
    known: Mutex<Known>,
}

impl Undone {
    pub(crate) fn new(store: Arc<dyn Store>, rule: Rule) -> Self {
        Self { store, rule, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no code panics while it holds this lock")
    }

    /// Returns the head to write instead of the given head.
    fn instead(&self, key: &HeadKey, head: &Head) -> Head {
        let mut head = head.clone();
        match self.rule {
            Rule::DueIsLowered => {
                let known = self.known();
                let before = known.heads.get(key).filter(|(before, _)| before.run == head.run);
                head.due = head.due.max(before.and_then(|(before, _)| before.due).filter(|_| head.due.is_some()));
            }
            Rule::DispatchGrace => {
                if let Some((body, _)) = decode(&head) {
                    let deadlines = [body.run.next_deadline(&[]), body.links.outbox.next_at()];
                    head.due = deadlines.into_iter().flatten().min().map(Timestamp::as_millis);
                }
            }
            Rule::SeenEffects => {
                if let Some((mut body, tail)) = decode(&head) {
                    assert_eq!(encode(&body, &tail), head.body, "the form is what the engine stores");
                    body.links.seen = history::TakenEffects::default();
                    head.body = encode(&body, &tail);
                }
            }
            Rule::SentToOne => {
                let before = self.known().heads.get(key).and_then(|(before, _)| decode(before));
                if let (Some((mut body, tail)), Some((before, _))) = (decode(&head), before) {
                    body.links.sent = first_sent(&before.links.sent, &body.links.sent);
                    head.body = encode(&body, &tail);
                }
            }
            Rule::KeptForOthers => {
                if let Some((body, _)) = decode(&head) {
                    head.expires_at = head.expires_at.and(body.run.expires_at()).map(Timestamp::as_millis);
                }
            }
            Rule::NeverNoFromCache
            | Rule::OperationIds
            | Rule::ChunksByLastEvent
            | Rule::WrittenDown
            | Rule::RunningTasksAreCounted
            | Rule::LateDeadlinesAreRepaired => {}
        }
        head
    }

    /// Records chunks. A chunk counts as overwritten by a later chunk with the same first event.
    fn overwrite(&self, key: &HeadKey, run: RunId, parts: &[(PartKey, Bytes)]) {
        for (part, bytes) in parts {
            let (PartKey::Chunk { last }, Some(Ok(first))) = (part, codec::events_from(bytes, 0).next()) else {
                continue;
            };
            let mut known = self.known();
            if let Some(there) = known.chunks.insert((key.clone(), run, first.id), *last)
                && there != *last
            {
                known.overwritten.insert((key.clone(), run, there));
            }
            known.overwritten.remove(&(key.clone(), run, *last));
        }
    }

    fn kept(&self, key: &HeadKey, run: RunId, mut chunks: Vec<(u64, Bytes)>) -> Vec<(u64, Bytes)> {
        let known = self.known();
        chunks.retain(|(last, _)| !known.overwritten.contains(&(key.clone(), run, *last)));
        chunks
    }
}

/// Returns the first poll that each task was sent to, instead of the last poll.
fn first_sent(before: &Sent, now: &Sent) -> Sent {
    let first = now.iter().map(|(id, poll)| (id, before.poll_of(id).unwrap_or(poll)));
    let bytes = minicbor::to_vec(first.collect::<Vec<_>>()).expect("writing to memory does not fail");
    minicbor::decode(&bytes).expect("the form is what is stored")
}

#[async_trait]
impl Interceptor for Undone {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn limits(&self) -> Limits {
        let limits = self.store.limits();
        let op_ids = if self.rule == Rule::OperationIds { 0 } else { limits.op_ids };
        Limits { op_ids, ..limits }
    }

    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
        let found = self.store.load(key).await?;
        if self.rule == Rule::NeverNoFromCache && &*key.domain == DOMAIN {
            let mut known = self.known();
            known.loads += 1;
            if known.loads.is_multiple_of(4)
                && let Some((_, Some(before))) = known.heads.get(key)
            {
                return Ok(Some(before.clone()));
            }
        }
        Ok(found)
    }

    async fn commit(&self, Commit { key, expect, head, parts }: Commit<'_>) -> Result<Cas, Error> {
        if self.rule == Rule::WrittenDown && key.domain.starts_with('\u{2}') {
            return Ok(Cas::Won);
        }
        if &*key.domain != DOMAIN {
            return self.store.commit(key, expect, head, parts).await;
        }
        if self.rule == Rule::ChunksByLastEvent {
            // Parts are written before it is known whether the commit wins, as on DynamoDB.
            self.overwrite(key, head.run, parts);
        }
        let head = self.instead(key, head);
        let answer = self.store.commit(key, expect, &head, parts).await?;
        if matches!(answer, Cas::Won) {
            let mut known = self.known();
            let before = known.heads.remove(key).map(|(before, _)| before);
            known.heads.insert(key.clone(), (head, before));
        }
        Ok(answer)
    }

    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
        // Only the engine's count of running tasks lists the open runs.
        if self.rule == Rule::RunningTasksAreCounted && &*query.domain == DOMAIN && query.limit > 1 {
            return Ok(ListPage::default());
        }
        self.store.list(query, page).await
    }

    async fn chunks(
        &self,
        key: &HeadKey,
        run: RunId,
        from_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        Ok(self.kept(key, run, self.store.chunks(key, run, from_event, max_bytes).await?))
    }

    async fn chunks_back(
        &self,
        key: &HeadKey,
        run: RunId,
        before_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        Ok(self.kept(key, run, self.store.chunks_back(key, run, before_event, max_bytes).await?))
    }
}
