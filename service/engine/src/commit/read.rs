//! Reads histories of runs: the tail of events from the head, earlier events from chunks, and large payloads from
//! packs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use history::event::{activity_names, name_activities};
use history::{Event, EventId, Heartbeat, Links, Note, PackRef, Payload, Run, codec};
use store::{Head, HeadKey, PartKey, Store};
use uuid::Uuid;

use crate::commit::StoredRun;
use crate::commit::state::CachedRun;
use crate::{EventRange, HistoryPage, Refusal, commit::head};

/// Maximum number of bytes of chunks that one request to the store returns while a page is read. Our choice: slightly
/// more than a page of a thousand small events needs.
const READ_BYTES: usize = 256 * 1024;

/// Maximum number of bytes of packs in memory while payloads are inserted into events. Our choice: a quarter of a page
/// of events, and the maximum size of a new pack.
const PACKS_BYTES: usize = 1024 * 1024;

/// Limits for the events that are read together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Maximum number of events.
    pub(crate) events: usize,
    /// Maximum total size of the events as JSON, in bytes. A single larger event is still read.
    pub(crate) bytes: usize,
}

/// Locations of the events of a run.
pub(crate) struct RunEvents<'a> {
    pub(crate) key: &'a HeadKey,
    pub(crate) run_id: Uuid,
    pub(crate) tail: &'a Bytes,
    pub(crate) tail_first: EventId,
}

/// Events read so far; oldest first or newest first, depending on the direction.
struct Gathered {
    events: Vec<Event>,
    /// Total size of the events as JSON, in bytes.
    bytes: usize,
    /// Remaining number of events and bytes.
    room: Room,
    leaves_payloads_out: bool,
}

impl Gathered {
    fn new(room: Room, leaves_payloads_out: bool) -> Self {
        Self { events: Vec::new(), bytes: 0, room, leaves_payloads_out }
    }

    fn is_full(&self) -> bool {
        self.room.events == 0 || (self.room.bytes == 0 && !self.events.is_empty())
    }

    /// Adds an event if it fits the limits, and returns true if it was added. The first event always fits. After an
    /// event that does not fit, no more events are added.
    fn take(&mut self, mut event: Event) -> bool {
        if self.leaves_payloads_out {
            event.kind.redact_payloads();
        }
        // Adds one byte for the comma before the next event.
        let bytes = event.json_bytes() + 1;
        if bytes > self.room.bytes && !self.events.is_empty() {
            self.room.events = 0;
            return false;
        }
        self.bytes += bytes;
        self.room.bytes = self.room.bytes.saturating_sub(bytes);
        self.room.events = self.room.events.saturating_sub(1);
        self.events.push(event);
        true
    }

    /// Adds the stored events whose ids are in this range, oldest first. Returns the id that follows the id of the last
    /// added event.
    fn take_oldest(&mut self, stored: &[u8], ids: Range<EventId>) -> Result<EventId, Refusal> {
        let mut next = ids.start;
        for event in codec::events_from(stored, next) {
            if self.is_full() || next >= ids.end {
                break;
            }
            let event = event?;
            if event.id != next || !self.take(event) {
                break;
            }
            next += 1;
        }
        Ok(next)
    }

    /// Adds the stored events whose ids are in this range, newest first. Returns the id of the last event added, which
    /// is the oldest.
    fn take_newest(&mut self, stored: &[u8], ids: Range<EventId>) -> Result<EventId, Refusal> {
        let mut oldest = ids.end;
        let there: Vec<&[u8]> = codec::stored(stored).filter(|(id, _)| ids.contains(id)).map(|(_, it)| it).collect();
        for event in there.into_iter().rev().filter_map(|stored| codec::events(stored).next()) {
            if self.is_full() {
                break;
            }
            let event = event?;
            if event.id + 1 != oldest || !self.take(event) {
                break;
            }
            oldest -= 1;
        }
        Ok(oldest)
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

    /// Decodes a run from its head. Reads its tail if the tail is not in the head. Does not read heartbeats.
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

    /// Reads the packs to which these locations refer.
    async fn packs(&self, key: &HeadKey, run_id: Uuid, places: &[PackRef]) -> Result<Packs, Refusal> {
        let ops: BTreeSet<u64> = places.iter().map(|place| place.op).collect();
        let want: Vec<PartKey> = ops.iter().map(|op| PartKey::Pack { op: *op }).collect();
        let parts = self.store.parts(key, *run_id.as_bytes(), &want).await?;
        Ok(ops.into_iter().zip(parts).filter_map(|(op, part)| Some((op, part?))).collect())
    }

    /// Reads the notes about attempts that are in packs and inserts them into the run.
    pub(crate) async fn fill_notes(&self, key: &HeadKey, run: &mut Run) -> Result<(), Refusal> {
        loop {
            let kept_in = run.notes_kept();
            if kept_in.is_empty() {
                return Ok(());
            }
            let run_id = run.started.run_id;
            let packs = self.packs(key, run_id, &kept_in).await?;
            run.fill_notes(|place| kept(&packs, place).and_then(Note::read));
            // A note about attempts that was read from a pack may itself refer to another pack.
            if run.notes_kept() == kept_in {
                return Err(Refusal::Corrupt { what: format!("notes about attempts of run {run_id} are missing") });
            }
        }
    }

    /// Loads a run unless it is in memory. Returns `None` if there is no run.
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
            loaded.heartbeats = self.read_heartbeats(key, loaded.run()).await?;
            state.replace(loaded);
        }
        Ok(state.known())
    }

    /// Reads the newest heartbeats of the activities that are or were started.
    pub(crate) async fn read_heartbeats(&self, key: &HeadKey, run: &Run) -> Result<Vec<Heartbeat>, Refusal> {
        let beating = run.activities.iter().filter(|(_, it)| it.started_at.is_some() || it.attempts.is_some());
        let ids: Vec<EventId> = beating.map(|(scheduled_event_id, _)| *scheduled_event_id).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let want: Vec<PartKey> = ids.iter().map(|scheduled| PartKey::Heartbeat { scheduled: *scheduled }).collect();
        let parts = self.store.parts(key, *run.started.run_id.as_bytes(), &want).await?;
        let decode = |(id, part): (&EventId, Option<Bytes>)| part.map(|bytes| head::decode_heartbeat(*id, &bytes));
        ids.iter().zip(parts).filter_map(decode).collect()
    }

    /// Loads an earlier run of a workflow id. Its links with other runs are not loaded, because they were moved to the
    /// next run of the workflow id.
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
        let ids = page.after.saturating_add(1)..before;
        let room = Room { events: page.limit.max(1), bytes: page.bytes_max };
        let read = Gathered::new(room, page.leaves_payloads_out);
        let read = if page.reverse {
            self.read_back(&source, ids, read).await?
        } else {
            self.read_on(&source, ids, read).await?
        };
        let mut events = read.events;
        self.redeem(&source, &mut events).await?;
        if page.leaves_payloads_out {
            // Notes that were read from packs contain payloads, which must be omitted.
            for event in &mut events {
                event.kind.redact_payloads();
            }
        }
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

    /// Reads the events whose ids are in this range, oldest first, as far as they fit the limits.
    async fn read_on(
        &self,
        source: &RunEvents<'_>,
        ids: Range<EventId>,
        mut read: Gathered,
    ) -> Result<Gathered, Refusal> {
        let mut next = ids.start;
        while next < ids.end && !read.is_full() {
            let wanted = next;
            for stored in self.stored_from(source, wanted, READ_BYTES.min(read.room.bytes)).await? {
                next = read.take_oldest(&stored, next..ids.end)?;
            }
            if next == wanted && !read.is_full() {
                return Err(self.missing(source, &format!("event {wanted}")).await);
            }
        }
        Ok(read)
    }

    /// Returns stored events, beginning with this id or shortly before it: either the tail, or approximately `bytes`
    /// bytes of chunks.
    async fn stored_from(&self, source: &RunEvents<'_>, id: EventId, bytes: usize) -> Result<Vec<Bytes>, Refusal> {
        if id >= source.tail_first {
            return Ok(vec![source.tail.clone()]);
        }
        let chunks = self.store.chunks(source.key, *source.run_id.as_bytes(), id, bytes).await?;
        Ok(chunks.into_iter().map(|(_, chunk)| chunk).collect())
    }

    /// Reads the events whose ids are in this range, newest first, as far as they fit the limits.
    async fn read_back(
        &self,
        source: &RunEvents<'_>,
        ids: Range<EventId>,
        mut read: Gathered,
    ) -> Result<Gathered, Refusal> {
        let mut before = ids.end;
        while before > ids.start && !read.is_full() {
            let newest = before - 1;
            // A chunk is identified by its last event, so the first chunk that ends with this event or a later one
            // contains this event.
            let stored = self.stored_from(source, newest, 1).await?;
            if let Some(stored) = stored.first() {
                before = read.take_newest(stored, ids.start..before)?;
            }
            if before > newest && !read.is_full() {
                return Err(self.missing(source, &format!("event {newest}")).await);
            }
        }
        Ok(read)
    }

    /// Reads the newest events whose ids are in this range, as far as they fit the limits. Returns them oldest first
    /// with their payloads, and their total size as JSON in bytes.
    pub(crate) async fn read_range(
        &self,
        source: &RunEvents<'_>,
        ids: Range<EventId>,
        room: Room,
    ) -> Result<(Vec<Event>, usize), Refusal> {
        let Gathered { mut events, bytes, .. } = self.read_back(source, ids, Gathered::new(room, false)).await?;
        events.reverse();
        self.redeem(source, &mut events).await?;
        Ok((events, bytes))
    }

    /// Reads the event with this id, of any size.
    pub(crate) async fn read_one(&self, source: &RunEvents<'_>, id: EventId) -> Result<Option<Event>, Refusal> {
        self.find(source, id..id + 1, |_| true).await
    }

    /// Returns the oldest wanted event in this range of ids, with its payload. An event is wanted if `is_wanted`
    /// returns true for it. Payloads of other events are not read.
    pub(crate) async fn find(
        &self,
        source: &RunEvents<'_>,
        ids: Range<EventId>,
        is_wanted: impl Fn(&Event) -> bool,
    ) -> Result<Option<Event>, Refusal> {
        let mut next = ids.start;
        while next < ids.end {
            let wanted = next;
            for stored in self.stored_from(source, wanted, READ_BYTES).await? {
                let (mut looked_at, mut found) = (next, None);
                for event in codec::events_from(&stored, next) {
                    let event = event?;
                    if event.id != looked_at || looked_at >= ids.end {
                        break;
                    }
                    looked_at += 1;
                    if is_wanted(&event) {
                        found = Some(event);
                        break;
                    }
                }
                if let Some(mut event) = found {
                    self.redeem(source, std::slice::from_mut(&mut event)).await?;
                    return Ok(Some(event));
                }
                next = looked_at;
            }
            if next == wanted {
                return Err(self.missing(source, &format!("event {wanted}")).await);
            }
        }
        Ok(None)
    }

    /// Reads the oldest events whose ids are in this range, as far as they fit the limits. Returns them with their
    /// payloads, and their total size as JSON in bytes.
    pub(crate) async fn read_first(
        &self,
        source: &RunEvents<'_>,
        ids: Range<EventId>,
        room: Room,
    ) -> Result<(Vec<Event>, usize), Refusal> {
        let Gathered { mut events, bytes, .. } = self.read_on(source, ids, Gathered::new(room, false)).await?;
        self.redeem(source, &mut events).await?;
        Ok((events, bytes))
    }

    /// Adds the `activityId` to events that refer to an activity by the id of its ActivityScheduled event. If the given
    /// events do not include the ActivityScheduled event, its chunk is read, at most once per chunk.
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

    /// Returns the error for a missing part: a run's head refers to the part, but the store does not have it. Either
    /// the run was deleted after its head was read, or the part was lost.
    async fn missing(&self, source: &RunEvents<'_>, what: &str) -> Refusal {
        let RunEvents { key, run_id, .. } = *source;
        match self.load_run(key, run_id).await {
            Ok(_) => Refusal::Corrupt { what: format!("{what} of run {run_id} is missing") },
            Err(refusal) => refusal,
        }
    }

    /// Replaces references to large payloads by the payloads. Reads only packs that these events refer to, and holds at
    /// most one [group](groups) of packs in memory at a time.
    async fn redeem(&self, source: &RunEvents<'_>, events: &mut [Event]) -> Result<(), Refusal> {
        // A note about attempts that was read from a pack may itself refer to another pack. In that case a second
        // iteration is needed.
        loop {
            let open: Vec<_> = events.iter().map(claims).enumerate().filter(|(_, claims)| !claims.is_empty()).collect();
            if open.is_empty() {
                return Ok(());
            }
            for group in groups(open.iter().flat_map(|(_, claims)| claims)) {
                let packs = self.packs(source.key, source.run_id, &group).await?;
                for (at, _) in &open {
                    if let Some(event) = events.get_mut(*at) {
                        put_back(event, &packs);
                    }
                }
            }
            let unchanged = open.iter().find_map(|(at, before)| events.get(*at).filter(|it| claims(it) == *before));
            if let Some(event) = unchanged {
                return Err(self.missing(source, &format!("the payload of event {}", event.id)).await);
            }
        }
    }
}

/// Returns the locations of all content in packs that the event refers to.
fn claims(event: &Event) -> Vec<PackRef> {
    let payload = event.kind.payload().and_then(Payload::claim);
    payload.into_iter().chain(event.notes_kept()).collect()
}

/// Replaces the event's references to these packs by their content.
fn put_back(event: &mut Event, packs: &Packs) {
    if let Some(payload) = event.kind.payload_mut()
        && let Some(claim) = payload.claim()
        && let Some(text) = kept(packs, claim).and_then(|text| std::str::from_utf8(text).ok())
    {
        *payload = Payload::from_trusted(text);
    }
    event.fill_notes(|place| kept(packs, place).and_then(Note::read));
}

/// Groups the packs that contain these locations. Each pack is represented by one location. A group has one pack of any
/// size, or several of at most [`PACKS_BYTES`] in total. The size of a pack is estimated from its locations.
fn groups<'a>(places: impl Iterator<Item = &'a PackRef>) -> Vec<Vec<PackRef>> {
    let mut packs: BTreeMap<u64, usize> = BTreeMap::new();
    for place in places {
        let bytes = packs.entry(place.op).or_default();
        *bytes = (*bytes).max(place.offset as usize + place.len as usize);
    }
    let (mut groups, mut bytes_of_last) = (Vec::<Vec<PackRef>>::new(), 0);
    for (op, bytes) in packs {
        let place = PackRef { op, offset: 0, len: 0 };
        match groups.last_mut() {
            Some(group) if bytes_of_last + bytes <= PACKS_BYTES => {
                group.push(place);
                bytes_of_last += bytes;
            }
            _ => {
                groups.push(vec![place]);
                bytes_of_last = bytes;
            }
        }
    }
    groups
}

/// Packs by the operation id of the commit that wrote them.
type Packs = HashMap<u64, Bytes>;

/// Returns the bytes at a location in a pack.
fn kept(packs: &Packs, place: PackRef) -> Option<&[u8]> {
    packs.get(&place.op)?.get(place.offset as usize..)?.get(..place.len as usize)
}
