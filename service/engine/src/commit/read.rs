//! Reading histories: the tail from the head, the rest from chunks, large payloads from packs.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use history::event::{activity_names, name_activities};
use history::{Event, EventId, Heartbeat, Links, Note, PackRef, Payload, Run, codec};
use store::{Head, HeadKey, PartKey, Store};
use uuid::Uuid;

use crate::commit::state::CachedRun;
use crate::commit::{StoredRun, tail_between};
use crate::{EventRange, HistoryPage, Refusal, commit::head};

/// Bytes of chunks that are asked of the store at once while a page is read: what a page of a thousand small events needs,
/// and little more.
const READ_BYTES: usize = 256 * 1024;

/// The most events of a page, and about the most bytes.
type Room = (usize, usize);

/// Where the events of a run are.
pub(crate) struct RunEvents<'a> {
    pub(crate) key: &'a HeadKey,
    pub(crate) run_id: Uuid,
    pub(crate) tail: &'a Bytes,
    pub(crate) tail_first: EventId,
}

/// A page of events while it is read.
struct GatheredPage {
    events: Vec<Event>,
    /// The event that comes next.
    next: EventId,
    before: EventId,
    limit: usize,
    bytes: usize,
    bytes_max: usize,
}

impl GatheredPage {
    fn is_full(&self) -> bool {
        self.next >= self.before || self.events.len() >= self.limit || self.bytes >= self.bytes_max
    }

    /// Takes events from stored ones while there is room; none, if the next one is not among them.
    fn take(&mut self, stored: &[u8]) -> Result<(), Refusal> {
        for event in codec::events_from(stored, self.next) {
            if self.is_full() {
                break;
            }
            let event = event?;
            if event.id != self.next {
                break;
            }
            self.bytes += event.kind.payload().map_or(0, Payload::len);
            self.next += 1;
            self.events.push(event);
        }
        Ok(())
    }
}

/// Reads runs from the store.
pub(crate) struct RunReader {
    store: Arc<dyn Store>,
}

impl RunReader {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// A run from its head: what stands in it, and a tail that had no room there. Heartbeats are not part of it.
    pub(crate) async fn open_head(&self, key: &HeadKey, head: Head) -> Result<StoredRun, Refusal> {
        let mut loaded = Box::new(StoredRun::decode(head)?);
        if !loaded.body.tail_in.is_empty() {
            let run_id = loaded.run().started.run_id;
            loaded.tail = Box::pin(self.read_tail(key, run_id, &loaded.body.tail_in)).await?;
        }
        Ok(*loaded)
    }

    async fn read_tail(&self, key: &HeadKey, run_id: Uuid, pieces: &[PackRef]) -> Result<Bytes, Refusal> {
        let packs = self.packs(key, run_id, pieces).await?;
        let mut tail = Vec::new();
        for piece in pieces {
            let missing = || Refusal::Corrupt { what: format!("the newest events of run {run_id} are missing") };
            tail.extend_from_slice(kept(&packs, *piece).ok_or_else(missing)?);
        }
        Ok(tail.into())
    }

    /// The packs of a run that these places are in.
    async fn packs(&self, key: &HeadKey, run_id: Uuid, places: &[PackRef]) -> Result<Packs, Refusal> {
        let ops: BTreeSet<u64> = places.iter().map(|place| place.op).collect();
        let want: Vec<PartKey> = ops.iter().map(|op| PartKey::Pack { op: *op }).collect();
        let parts = self.store.parts(key, *run_id.as_bytes(), &want).await?;
        Ok(ops.into_iter().zip(parts).filter_map(|(op, part)| Some((op, part?))).collect())
    }

    /// Puts back what is said of tries and has no room in the state.
    pub(crate) async fn fill_notes(&self, key: &HeadKey, run: &mut Run) -> Result<(), Refusal> {
        loop {
            let kept_in = run.notes_kept();
            if kept_in.is_empty() {
                return Ok(());
            }
            let run_id = run.started.run_id;
            let packs = self.packs(key, run_id, &kept_in).await?;
            run.fill_notes(|place| kept(&packs, place).and_then(Note::read));
            // A note may name a pack that has the rest of it.
            if run.notes_kept() == kept_in {
                return Err(Refusal::Corrupt { what: format!("what was said of tries of run {run_id} is missing") });
            }
        }
    }

    /// Loads a run unless it is known. `Ok(None)`: there is none.
    pub(crate) async fn loaded<'a>(
        &self,
        key: &HeadKey,
        state: &'a mut CachedRun,
    ) -> Result<Option<&'a StoredRun>, Refusal> {
        if state.known().is_none() {
            let Some(head) = self.store.load(key).await? else {
                return Ok(None);
            };
            let mut loaded = Box::pin(self.open_head(key, head)).await?;
            loaded.beats = self.read_beats(key, loaded.run()).await?;
            state.is(loaded);
        }
        Ok(state.known())
    }

    /// The newest heartbeats of the activities that a runner has or had.
    pub(crate) async fn read_beats(&self, key: &HeadKey, run: &Run) -> Result<Vec<Heartbeat>, Refusal> {
        let beating = run.activities.iter().filter(|(_, it)| it.started_at.is_some() || it.tries.is_some());
        let ids: Vec<EventId> = beating.map(|(scheduled_event_id, _)| *scheduled_event_id).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let want: Vec<PartKey> = ids.iter().map(|scheduled| PartKey::Beat { scheduled: *scheduled }).collect();
        let parts = self.store.parts(key, *run.started.run_id.as_bytes(), &want).await?;
        let found = ids.iter().zip(parts).filter_map(|(id, part)| part.map(|bytes| head::decode_beat(*id, &bytes)));
        found.collect()
    }

    /// An earlier run. What it owed and what it has seen have gone over to the one that followed it.
    pub(crate) async fn load_run(&self, key: &HeadKey, run_id: Uuid) -> Result<StoredRun, Refusal> {
        let found = self.store.load_run(key, *run_id.as_bytes()).await?;
        let workflow_id = key.workflow_id.to_string();
        let found = found.ok_or(Refusal::UnknownRun { workflow_id, run_id })?;
        let mut loaded = self.open_head(key, found).await?;
        let reset = loaded.body.links.reset.take();
        loaded.body.links = Links { reset, ..Links::default() };
        Ok(loaded)
    }

    pub(crate) async fn read_page(
        &self,
        key: &HeadKey,
        loaded: &StoredRun,
        page: &EventRange,
    ) -> Result<HistoryPage, Refusal> {
        let run = loaded.run();
        let source =
            RunEvents { key, run_id: run.started.run_id, tail: &loaded.tail, tail_first: loaded.body.tail_first };
        let before = page.before.unwrap_or(u64::MAX).min(run.last_event_id + 1);
        let (ids, room) = (page.after.saturating_add(1)..before, (page.limit.max(1), page.bytes_max));
        let mut events = if page.reverse {
            self.read_back(&source, ids, room).await?
        } else {
            self.read_on(&source, ids, room).await?
        };
        self.redeem(&source, &mut events).await?;
        if page.names_activities {
            self.name_activities(&source, &mut events).await?;
        }
        let last = events.last().map(|event| event.id);
        let next = match last {
            Some(last) if page.reverse => (last > page.after + 1).then_some(last),
            Some(last) => (last + 1 < before).then_some(last),
            None => None,
        };
        let (run_id, last_event_id, closed) = (run.started.run_id, run.last_event_id, !run.is_open());
        Ok(HistoryPage { run_id, events, last_event_id, closed, next })
    }

    /// The events with these ids, oldest first.
    async fn read_on(&self, source: &RunEvents<'_>, ids: Range<EventId>, room: Room) -> Result<Vec<Event>, Refusal> {
        let (Range { start: next, end: before }, (limit, bytes_max)) = (ids, room);
        let mut read = GatheredPage { events: Vec::new(), next, before, limit, bytes: 0, bytes_max };
        while !read.is_full() {
            let wanted = read.next;
            if wanted >= source.tail_first {
                read.take(source.tail)?;
            } else {
                let (run, bytes) = (*source.run_id.as_bytes(), READ_BYTES.min(bytes_max - read.bytes));
                for (_, chunk) in self.store.chunks(source.key, run, wanted, bytes).await? {
                    if read.is_full() {
                        break;
                    }
                    read.take(&chunk)?;
                    read.bytes += chunk.len();
                }
            }
            if read.next == wanted {
                return Err(self.missing(source, &format!("event {wanted}")).await);
            }
        }
        Ok(read.events)
    }

    /// The events with these ids, newest first.
    async fn read_back(&self, source: &RunEvents<'_>, ids: Range<EventId>, room: Room) -> Result<Vec<Event>, Refusal> {
        let (Range { start: oldest, end: mut before }, (limit, bytes_max)) = (ids, room);
        let mut events: Vec<Event> = Vec::new();
        let mut bytes = 0;
        while before > oldest && events.len() < limit && bytes < bytes_max {
            let newest = before - 1;
            let wanted = limit - events.len();
            let first = oldest.max(before.saturating_sub(wanted as u64));
            let batch = if newest >= source.tail_first {
                tail_between(source.tail, first, before)?
            } else {
                // The chunk that holds the event is the first that ends with it or later.
                let run = *source.run_id.as_bytes();
                let chunks = self.store.chunks(source.key, run, newest, 1).await?;
                let mut batch = Vec::new();
                for (_, chunk) in chunks.into_iter().take(1) {
                    bytes += chunk.len();
                    batch = tail_between(&chunk, first, before)?;
                }
                batch
            };
            if batch.last().is_none_or(|event| event.id != newest) {
                return Err(self.missing(source, &format!("event {newest}")).await);
            }
            for event in batch.into_iter().rev() {
                bytes += event.kind.payload().map_or(0, Payload::len);
                before = event.id;
                events.push(event);
                if bytes >= bytes_max {
                    break;
                }
            }
        }
        Ok(events)
    }

    /// Every event with these ids, payloads and all. The window is what matters; where it is too large it comes without its oldest part.
    pub(crate) async fn read_range(
        &self,
        source: &RunEvents<'_>,
        ids: Range<EventId>,
        room: Room,
    ) -> Result<Vec<Event>, Refusal> {
        let (limit, bytes_max) = room;
        let in_tail = ids.start >= source.tail_first && source.tail.len() <= bytes_max;
        let mut events = if in_tail {
            let mut events = tail_between(source.tail, ids.start, ids.end)?;
            let surplus = events.len().saturating_sub(limit);
            events.drain(..surplus);
            events
        } else {
            let mut events = self.read_back(source, ids, room).await?;
            events.reverse();
            events
        };
        self.redeem(source, &mut events).await?;
        Ok(events)
    }

    /// The first of these events, oldest first, payloads and all.
    pub(crate) async fn read_first(
        &self,
        source: &RunEvents<'_>,
        ids: Range<EventId>,
        room: Room,
    ) -> Result<Vec<Event>, Refusal> {
        let mut events = self.read_on(source, ids, room).await?;
        self.redeem(source, &mut events).await?;
        Ok(events)
    }

    /// Adds the `activityId` to events that refer to an activity by its ActivityScheduled. An ActivityScheduled that
    /// is not among the events is read: each chunk that has one, once.
    pub(crate) async fn name_activities(&self, source: &RunEvents<'_>, events: &mut [Event]) -> Result<(), Refusal> {
        let mut names = activity_names(&*events);
        let mut unknown = name_activities(events, &names);
        if unknown.is_empty() {
            return Ok(());
        }
        while let Some(wanted) = unknown.pop_first() {
            let chunk = if wanted >= source.tail_first {
                source.tail.clone()
            } else {
                let chunks = self.store.chunks(source.key, *source.run_id.as_bytes(), wanted, 1).await?;
                let Some((_, chunk)) = chunks.into_iter().next() else {
                    return Err(self.missing(source, &format!("event {wanted}")).await);
                };
                chunk
            };
            for event in codec::events_from(&chunk, wanted) {
                let event = event?;
                if event.id == wanted || unknown.remove(&event.id) {
                    names.append(&mut activity_names([&event]));
                }
            }
        }
        name_activities(events, &names);
        Ok(())
    }

    /// Something of a run that its head promises is not there: the run has been forgotten since its head was read, or its
    /// data is lost.
    async fn missing(&self, source: &RunEvents<'_>, what: &str) -> Refusal {
        let RunEvents { key, run_id, .. } = *source;
        match self.load_run(key, run_id).await {
            Ok(_) => Refusal::Corrupt { what: format!("{what} of run {run_id} is missing") },
            Err(refusal) => refusal,
        }
    }

    /// Puts the texts of large payloads in place of their claim checks.
    async fn redeem(&self, source: &RunEvents<'_>, events: &mut [Event]) -> Result<(), Refusal> {
        let claims = |event: &Event| {
            let payload = event.kind.payload().and_then(Payload::claim);
            payload.into_iter().chain(event.notes_kept()).collect::<Vec<_>>()
        };
        // Twice where a note names a pack that has the rest of it.
        loop {
            let wanted: Vec<PackRef> = events.iter().flat_map(claims).collect();
            if wanted.is_empty() {
                return Ok(());
            }
            let packs = self.packs(source.key, source.run_id, &wanted).await?;
            for event in &mut *events {
                let before = claims(event);
                if let Some(payload) = event.kind.payload_mut()
                    && let Some(claim) = payload.claim()
                    && let Some(text) = kept(&packs, claim).and_then(|text| std::str::from_utf8(text).ok())
                {
                    *payload = Payload::from_trusted(text);
                }
                event.fill_notes(|place| kept(&packs, place).and_then(Note::read));
                let id = event.id;
                if !before.is_empty() && claims(event) == before {
                    return Err(self.missing(source, &format!("the payload of event {id}")).await);
                }
            }
        }
    }
}

/// Packs by the operation that wrote each.
type Packs = HashMap<u64, Bytes>;

/// What is at a place in a pack.
fn kept(packs: &Packs, place: PackRef) -> Option<&[u8]> {
    packs.get(&place.op)?.get(place.offset as usize..)?.get(..place.len as usize)
}
