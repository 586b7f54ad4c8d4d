//! Shaping one commit: which bytes go to the head, which to parts. No IO here.

use bytes::Bytes;
use history::{Event, EventId, Links, PackRef, Payload, Run, Timestamp, Transition, codec};
use store::{Head, HeadKey, Limits, PartKey, Row};

use super::Refusal;
use super::head::{self, Body};

/// In a commit that would fill its head with payloads, those above this many bytes go to a pack.
const PAYLOAD_INLINE_CROWDED_MAX: usize = 64;

/// Events leave the head only when they make this part of what it should hold at most: a head that is full of pending
/// activities would otherwise write a chunk with each commit.
const CHUNK_PART_MIN: usize = 4;

/// About how large the chunks are of what was copied from another run. Ours: a page of events is read from few of them.
const COPIED_CHUNK: usize = 64 * 1024;

/// A run as it was last committed.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    /// What the store has.
    pub(super) head: Head,
    /// The decoded state, and what the engine remembers beside it.
    pub(super) body: Body,
    /// The encoded events from `body.tail_first` on.
    pub(super) tail: Bytes,
    /// The newest heartbeats of its activities.
    pub(super) beats: Vec<history::Beat>,
}

impl Loaded {
    /// Decodes a head. Heartbeats are not part of it.
    pub(super) fn decode(head: Head) -> Result<Self, Refusal> {
        let (body, tail) = head::decode(&head.body)?;
        Ok(Self { head, body, tail, beats: Vec::new() })
    }

    pub(super) fn run(&self) -> &Run {
        &self.body.run
    }

    /// Whether another run goes on for it, which may have yet to begin.
    pub(super) fn goes_on(&self) -> bool {
        goes_on(self.run(), &self.body.links)
    }

    /// Has a new run of its workflow id take over what it owes and knows.
    pub(super) fn hand_over(&self, to: &mut Transition, now: Timestamp) {
        let kept_until = replaced(self).expires_at.map_or(now, Timestamp::from_millis);
        to.take_over(self.run(), self.body.links.clone(), kept_until, now);
    }

    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let run = &self.body.run;
        1_024
            + self.head.body.len()
            + 400 * (run.activities.len() + run.timers.len())
            + 200 * (run.children.len() + run.externals.len() + self.body.links.seen.iter().len())
            + 24 * run.known.len()
    }
}

/// A commit, ready to be written.
pub(super) struct Prepared {
    pub(super) next: Loaded,
    pub(super) parts: Vec<(PartKey, Bytes)>,
}

/// What one commit is made of.
pub(super) struct Draft<'a> {
    /// What it builds on; `None` for the first run of a workflow id.
    pub(super) base: Option<&'a Loaded>,
    /// The state after it.
    pub(super) run: Run,
    /// What the run keeps of its dealings with others after it.
    pub(super) links: Links,
    /// The events that it adds.
    pub(super) events: Vec<Event>,
    /// How many of them are those of another run: the same whoever writes them.
    pub(super) copied: usize,
    /// How often the waiting tasks have been offered again.
    pub(super) offers: u32,
    /// Its operation id.
    pub(super) op: u64,
    /// When somebody must look at the run again.
    pub(super) due: Option<Timestamp>,
}

/// Lays a commit out. `weigh` says what a head takes of [`Limits::head_soft`].
pub(super) fn prepare(draft: Draft<'_>, limits: &Limits, weigh: impl Fn(&Head) -> usize) -> Prepared {
    let Draft { base, run, links, mut events, copied, offers, op, due } = draft;
    // A new run begins with an empty tail, whatever the run before it left in the head.
    let same_run = base.filter(|base| base.run().started.run_id == run.started.run_id);
    let (first, parts_of_first) = copy(&mut events, copied, &run, limits);
    let mut parts = pack(&mut events, op, limits);
    parts.extend(parts_of_first);
    let mut fresh = Vec::with_capacity(events.len() * 96);
    for event in &events {
        codec::put_event(&mut fresh, event);
    }
    let mut ops = same_run.map(|base| base.body.ops.clone()).unwrap_or_default();
    if limits.op_ids > 0 {
        ops.push(op);
        let surplus = ops.len().saturating_sub(limits.op_ids);
        ops.drain(..surplus);
    }
    let (tail, tail_first) = same_run.map_or(first, |base| (base.tail.clone(), base.body.tail_first));
    let row = row(&run, same_run.and_then(|base| base.head.row.as_ref()));
    // A run that owes something to others must not be forgotten.
    let expires_at = run.expires_at().filter(|_| links.outbox.is_empty());
    let expires_at = expires_at.map(|at| if is_needed(&run, &links) { kept(&run, at) } else { at });
    // What it knows of requests must outlive it.
    let expires_at = expires_at.map(|at| run.known_until().map_or(at, |until| at.max(until)));
    let mut body = Body { run, ops, tail_first, offers, links };
    let (bytes, mut tail_at) = head::encode(&body, &[&tail, &fresh]);
    let mut head = Head {
        run: *body.run.started.run_id.as_bytes(),
        version: base.map_or(1, |base| base.head.version + 1),
        body: bytes,
        due: due.map(Timestamp::as_millis),
        row: Some(row),
        expires_at: expires_at.map(Timestamp::as_millis),
    };
    if let Some(base) = same_run
        && tail.len() >= (limits.head_soft / CHUNK_PART_MIN).max(1)
        && weigh(&head) > limits.head_soft
    {
        // Only what is committed goes to a chunk: it stays true whatever becomes of this commit (STORAGE.md §3.7).
        let last = base.run().last_event_id;
        parts.push((PartKey::Chunk { last }, tail));
        body.tail_first = last + 1;
        (head.body, tail_at) = head::encode(&body, &[&fresh]);
    }
    let beats = same_run.map(|base| base.beats.clone()).unwrap_or_default();
    let tail = head.body.slice(tail_at..);
    let next = Loaded { head, body, tail, beats };
    Prepared { next, parts }
}

/// Takes the first events of a run that branches off another: where they go, as a tail and the id of its first event, and what
/// becomes of the rest. All of it follows from the events alone, so that whoever else writes this run writes the same parts.
fn copy(
    events: &mut Vec<Event>,
    count: usize,
    run: &Run,
    limits: &Limits,
) -> ((Bytes, EventId), Vec<(PartKey, Bytes)>) {
    if count == 0 {
        return ((Bytes::new(), 1), Vec::new());
    }
    let rest = events.split_off(count.min(events.len()));
    let mut copied = std::mem::replace(events, rest);
    let (_, op) = run.started.run_id.as_u64_pair();
    let mut parts = pack(&mut copied, op, limits);
    let chunk_max = COPIED_CHUNK.min(limits.part_max);
    let (mut chunks, mut chunk, mut total) = (Vec::new(), Vec::new(), 0);
    let mut last = 0;
    for event in &copied {
        let before = chunk.len();
        codec::put_event(&mut chunk, event);
        total += chunk.len() - before;
        if chunk.len() > chunk_max && before > 0 {
            let next = chunk.split_off(before);
            chunks.push((PartKey::Chunk { last }, Bytes::from(std::mem::replace(&mut chunk, next))));
        }
        last = event.id;
    }
    if chunks.is_empty() && total <= limits.head_soft / 2 {
        return ((chunk.into(), 1), parts);
    }
    chunks.push((PartKey::Chunk { last }, Bytes::from(chunk)));
    parts.extend(chunks);
    ((Bytes::new(), last + 1), parts)
}

/// Moves large payloads out of their events.
fn pack(events: &mut [Event], op: u64, limits: &Limits) -> Vec<(PartKey, Bytes)> {
    let total: usize = events.iter().filter_map(|event| event.kind.payload()).map(Payload::len).sum();
    let crowded = total > limits.head_hard / 8;
    let inline_max = if crowded { PAYLOAD_INLINE_CROWDED_MAX } else { limits.payload_inline_max };
    let mut packs: Vec<(u64, Vec<u8>)> = Vec::new();
    for payload in events.iter_mut().filter_map(|event| event.kind.payload_mut()) {
        let Some(text) = payload.text().filter(|text| text.len() > inline_max) else {
            continue;
        };
        if packs.last().is_none_or(|(_, pack)| pack.len() + text.len() > limits.part_max) {
            packs.push((op.wrapping_add(packs.len() as u64), Vec::new()));
        }
        let Some((op, pack)) = packs.last_mut() else { continue };
        // Both fit: a payload has at most 256 KiB, and a pack at most `part_max`.
        let offset = u32::try_from(pack.len()).unwrap_or(u32::MAX);
        let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
        pack.extend_from_slice(text.as_bytes());
        *payload = Payload::stored(PackRef { op: *op, offset, len });
    }
    packs.into_iter().map(|(op, pack)| (PartKey::Pack { op }, Bytes::from(pack))).collect()
}

fn row(run: &Run, before: Option<&Row>) -> Row {
    let standing = run.standing();
    let status = standing.word();
    match before {
        // Everything else stays as it is while the run is open.
        Some(row) if run.closed_at.is_none() && *row.status == *status => row.clone(),
        _ => Row {
            workflow_type: run.started.workflow_type.as_str().into(),
            status: status.into(),
            flagged: standing.is_flagged(),
            started_at: run.started.at.as_millis(),
            closed_at: run.closed_at.map(Timestamp::as_millis),
            tags: run.started.tags.clone(),
        },
    }
}

/// How long a closed run is kept at least that others may have dealings with: longer than all nodes are down. Ours.
const KEPT_FOR_OTHERS: history::Duration = history::Duration::from_days(7);

/// Whether others may have dealings with a closed run that owes nothing: one is about to go on for it, or somebody may bring
/// once more what it has taken. That its parent has closed cannot be brought to another run.
fn is_needed(run: &Run, links: &Links) -> bool {
    let is_of_parent = |seen: &history::SeenOrigin| run.started.parent.as_ref() == Some(&seen.origin);
    goes_on(run, links) || !links.seen.iter().all(is_of_parent)
}

/// Whether another run goes on for this one, which may have yet to begin.
fn goes_on(run: &Run, links: &Links) -> bool {
    run.goes_on() || links.reset.is_some()
}

fn kept(run: &Run, at: Timestamp) -> Timestamp {
    run.closed_at.map_or(at, |closed_at| at.max(closed_at.plus(KEPT_FOR_OTHERS)))
}

/// The head of a closed run as it is kept when another run takes its place. What it owes is read from it until that is
/// done.
pub(super) fn replaced(base: &Loaded) -> Head {
    let owes = !base.body.links.outbox.is_empty();
    let owed_until = base.run().expires_at().filter(|_| owes).map(|at| kept(base.run(), at).as_millis());
    Head { expires_at: base.head.expires_at.or(owed_until), ..base.head.clone() }
}

/// How long a task may wait before it is offered again, in case it was forgotten (STORAGE.md §3.6).
const OFFER_AFTER: history::Duration = history::Duration::from_secs(30);

/// The longest such wait, after four times as long each time. STORAGE.md §3.3 has an hour; but that is also how far ahead a
/// node must look that takes over from another, and how long a task may stand when it cannot look at all of them.
pub(super) const OFFER_EVERY_MAX: history::Duration = history::Duration::from_secs(600);

/// When somebody must look at a run again.
pub(super) fn due(run: &Run, links: &Links, beats: &[history::Beat], offers: u32, now: Timestamp) -> Option<Timestamp> {
    let wait = OFFER_AFTER.times(4u64.saturating_pow(offers.min(8))).min(OFFER_EVERY_MAX);
    let is_held_back = |task: history::TaskRef<'_>| match task {
        history::TaskRef::Turn(task) => task.not_before.is_some_and(|at| at > now),
        history::TaskRef::Activity(task) => task.activity.not_before().is_some_and(|at| at > now),
    };
    let offer = run.waiting_tasks().any(|task| !is_held_back(task)).then(|| now.plus(wait));
    let goes_on = goes_on(run, links).then(|| now.plus(OFFER_AFTER));
    // What is on its way when its node dies is found by those who take over and look as far ahead (`sweep.rs`).
    let sent = links.sent.iter().filter_map(|(id, _)| {
        let turn = run.turn.as_ref().filter(|turn| turn.scheduled_event_id == id).map(|turn| turn.started_at);
        let since = turn.or_else(|| run.activities.get(&id)?.held_since());
        since.map(|since| since.plus(OFFER_EVERY_MAX)).filter(|at| *at > now)
    });
    let changes = run.next_change(beats, &links.outbox, now).into_iter();
    changes.chain(offer).chain(goes_on).chain(sent).min()
}

/// The key of a run's head.
pub(super) fn head_key(domain: &str, workflow_id: &str) -> HeadKey {
    HeadKey { domain: domain.into(), workflow_id: workflow_id.into() }
}

/// Events of `tail` from `first` on, by id.
pub(super) fn tail_from(tail: &Bytes, first: EventId) -> Result<Vec<Event>, Refusal> {
    Ok(codec::events_from(tail, first).collect::<Result<_, _>>()?)
}
