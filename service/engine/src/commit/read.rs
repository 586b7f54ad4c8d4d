//! Reading histories: the tail from the head, the rest from chunks, large payloads from packs.

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

/// Bytes of chunks that are asked of the store at once while a page is read: what a page of a thousand small events needs,
/// and little more.
const READ_BYTES: usize = 256 * 1024;

/// Bytes of packs that are held at once while payloads are put back. Ours: a quarter of a page, and as much as a new pack has.
const PACKS_BYTES: usize = 1024 * 1024;

/// How much of a history may be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// The most events.
    pub(crate) events: usize,
    /// The most bytes of their JSON forms. An event that is larger is read alone.
    pub(crate) bytes: usize,
}

/// Where the events of a run are.
pub(crate) struct RunEvents<'a> {
    pub(crate) key: &'a HeadKey,
    pub(crate) run_id: Uuid,
    pub(crate) tail: &'a Bytes,
    pub(crate) tail_first: EventId,
}

/// Events while they are read, oldest first or newest first.
struct Gathered {
    events: Vec<Event>,
    /// Bytes of their JSON forms.
    bytes: usize,
    /// What is left of the room.
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

    /// Takes an event while there is room for it; the first one in any case. Nothing has room behind one that had none.
    fn take(&mut self, mut event: Event) -> bool {
        if self.leaves_payloads_out {
            event.kind.redact_payloads();
        }
        // With what stands between it and the next.
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

    /// Takes those with these ids from stored ones, going on; answers which comes next.
    fn take_on(&mut self, stored: &[u8], ids: Range<EventId>) -> Result<EventId, Refusal> {
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

    /// Takes those with these ids from stored ones, going back; answers the oldest that was taken.
    fn take_back(&mut self, stored: &[u8], ids: Range<EventId>) -> Result<EventId, Refusal> {
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
        let beating = run.activities.iter().filter(|(_, it)| it.started_at.is_some() || it.attempts.is_some());
        let ids: Vec<EventId> = beating.map(|(scheduled_event_id, _)| *scheduled_event_id).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let want: Vec<PartKey> = ids.iter().map(|scheduled| PartKey::Heartbeat { scheduled: *scheduled }).collect();
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
            // Of notes that were kept apart.
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

    /// The events with these ids that there is room for, oldest first.
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
                next = read.take_on(&stored, next..ids.end)?;
            }
            if next == wanted && !read.is_full() {
                return Err(self.missing(source, &format!("event {wanted}")).await);
            }
        }
        Ok(read)
    }

    /// Stored events, the one with this id among the first of them: the tail, or chunks of about so many bytes.
    async fn stored_from(&self, source: &RunEvents<'_>, id: EventId, bytes: usize) -> Result<Vec<Bytes>, Refusal> {
        if id >= source.tail_first {
            return Ok(vec![source.tail.clone()]);
        }
        let chunks = self.store.chunks(source.key, *source.run_id.as_bytes(), id, bytes).await?;
        Ok(chunks.into_iter().map(|(_, chunk)| chunk).collect())
    }

    /// The events with these ids that there is room for, newest first.
    async fn read_back(
        &self,
        source: &RunEvents<'_>,
        ids: Range<EventId>,
        mut read: Gathered,
    ) -> Result<Gathered, Refusal> {
        let mut before = ids.end;
        while before > ids.start && !read.is_full() {
            let newest = before - 1;
            // The chunk that holds the event is the first that ends with it or later.
            let stored = self.stored_from(source, newest, 1).await?;
            if let Some(stored) = stored.first() {
                before = read.take_back(stored, ids.start..before)?;
            }
            if before > newest && !read.is_full() {
                return Err(self.missing(source, &format!("event {newest}")).await);
            }
        }
        Ok(read)
    }

    /// The newest events with these ids that there is room for, oldest first, payloads and all; and the bytes of their JSON forms.
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

    /// The event with this id, however large it is.
    pub(crate) async fn read_one(&self, source: &RunEvents<'_>, id: EventId) -> Result<Option<Event>, Refusal> {
        self.find(source, id..id + 1, |_| true).await
    }

    /// The oldest event with one of these ids that is wanted, with its payload. Payloads of others are not fetched.
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

    /// The first of these events, oldest first, payloads and all, and their bytes.
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

    /// Puts the texts of large payloads in place of their claim checks. A few packs are held at a time, and none that has nothing of
    /// these events.
    async fn redeem(&self, source: &RunEvents<'_>, events: &mut [Event]) -> Result<(), Refusal> {
        // Twice where a note names a pack that has the rest of it.
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

/// What of an event is kept apart, and where.
fn claims(event: &Event) -> Vec<PackRef> {
    let payload = event.kind.payload().and_then(Payload::claim);
    payload.into_iter().chain(event.notes_kept()).collect()
}

/// Puts back what is in these packs.
fn put_back(event: &mut Event, packs: &Packs) {
    if let Some(payload) = event.kind.payload_mut()
        && let Some(claim) = payload.claim()
        && let Some(text) = kept(packs, claim).and_then(|text| std::str::from_utf8(text).ok())
    {
        *payload = Payload::from_trusted(text);
    }
    event.fill_notes(|place| kept(packs, place).and_then(Note::read));
}

/// The packs that these places are in, a place of each, in groups of up to [`PACKS_BYTES`] or of one pack. How large a pack is, only
/// its places tell.
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

/// Packs by the operation that wrote each.
type Packs = HashMap<u64, Bytes>;

/// What is at a place in a pack.
fn kept(packs: &Packs, place: PackRef) -> Option<&[u8]> {
    packs.get(&place.op)?.get(place.offset as usize..)?.get(..place.len as usize)
}
