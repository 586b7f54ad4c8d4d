//! Record of all events that the runs of a world have stored. It keeps the events of runs that the store has deleted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use history::{Event, EventId, codec};
use store::{Cas, Error, Head, PartKey, Store};
use uuid::Uuid;

use crate::facts::Histories;
use crate::intercepted::{Commit, Interceptor};
use crate::stored;
use crate::world::DOMAIN;

#[derive(Default)]
struct Noted {
    runs: BTreeMap<Uuid, BTreeMap<EventId, Event>>,
    violations: Vec<String>,
}

/// A recording store between the real store and all injected faults.
#[derive(Clone)]
pub(crate) struct Chronicle {
    store: Arc<dyn Store>,
    noted: Arc<Mutex<Noted>>,
}

impl Chronicle {
    pub(crate) fn of(store: Arc<dyn Store>) -> Self {
        Self { store, noted: Arc::default() }
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().expect("no code panics while it holds this lock")
    }

    fn note(&self, head: &Head, parts: &[(PartKey, Bytes)]) {
        let run_id = Uuid::from_bytes(head.run);
        let mut noted = self.noted();
        let Some(tail) = stored::tail(head) else {
            return noted.violations.push(format!("run {run_id}: a head without events"));
        };
        // Events that a reset run has copied from its base were in no earlier head of this run, so they are read from
        // the chunks.
        let chunks = parts.iter().filter(|(key, _)| matches!(key, PartKey::Chunk { .. })).map(|(_, events)| events);
        for event in chunks.chain([&tail]).flat_map(|events| codec::events_from(events, 1)) {
            let Ok(event) = event else {
                return noted.violations.push(format!("run {run_id}: events that cannot be read"));
            };
            let (id, name) = (event.id, event.kind.name());
            let known = noted.runs.entry(run_id).or_default().entry(id).or_insert_with(|| event.clone());
            let (is_same, was) = (*known == event, known.kind.name());
            if !is_same {
                noted.violations.push(format!("run {run_id}: event {id} was {was} and became {name}"));
            }
        }
    }

    /// Returns whether a run has a successor.
    pub(crate) fn has_gone_on(&self, run_id: Uuid) -> bool {
        let noted = self.noted();
        let last = noted.runs.get(&run_id).and_then(|events| events.values().next_back());
        last.is_some_and(|event| event.kind.followed_by().is_some())
    }

    /// Returns every run that has ever existed.
    pub(crate) fn histories(&self) -> Histories {
        let runs = std::mem::take(&mut self.noted().runs);
        runs.into_iter().map(|(run_id, events)| (run_id, events.into_values().collect())).collect()
    }

    /// Returns a description of each event that was overwritten.
    pub(crate) fn violations(&self) -> Vec<String> {
        std::mem::take(&mut self.noted().violations)
    }
}

#[async_trait]
impl Interceptor for Chronicle {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn commit(&self, Commit { key, expect, head, parts }: Commit<'_>) -> Result<Cas, Error> {
        let answer = self.store.commit(key, expect, head, parts).await?;
        if matches!(answer, Cas::Won) && &*key.domain == DOMAIN {
            self.note(head, parts);
        }
        Ok(answer)
    }
}
