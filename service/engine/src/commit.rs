//! Shaping one commit: which bytes go to the head, which to parts. No IO here.

pub(super) mod head;
pub(super) mod read;
pub(super) mod state;

use bytes::Bytes;
use history::{CloseReason, Event, EventId, Heartbeat, Links, PackRef, Payload, Run, Timestamp, Transition, codec};
use store::{Head, Limits, PartKey, Row, RowReason};

use self::head::Body;
use crate::Refusal;
use crate::base::agenda::OFFER_SOON_MAX;

/// In a commit that would fill its head with payloads, those above this many bytes go to a pack.
const PAYLOAD_INLINE_CROWDED_MAX: usize = 64;

/// A commit would fill its head with payloads when they are this many times what a head should hold. Ours: on DynamoDB each
/// kilobyte of them is paid for once more when it goes on to a chunk.
const CROWDED_SOFTS: usize = 8;

/// Events leave the head only when they make this part of what it should hold at most: a head that is full of pending
/// activities would otherwise write a chunk with each commit.
const CHUNK_PART_MIN: usize = 4;

/// What the service keeps in a head beside the state of its run, at most: the newest operations, what is said of tries while it
/// is little, and where a tail is that has no room.
const HEAD_ROOM: usize = 4 * 1024;

const _: () = assert!(history::limits::STATE_BYTES_MAX + HEAD_ROOM <= store::HEAD_HARD_MIN, "a full run fits a head");

/// Whether a store can take what runs may grow to.
pub(crate) fn must_have_room(limits: &Limits) -> Result<(), Refusal> {
    let lacks = |what: &str, found: usize, needed: usize| {
        let why = format!("the store takes {what} of at most {found} bytes, and a run may need {needed}");
        Err(Refusal::Unavailable { why, retry_after: None })
    };
    if limits.head_hard < store::HEAD_HARD_MIN {
        return lacks("heads", limits.head_hard, store::HEAD_HARD_MIN);
    }
    if limits.part_max < store::PART_MAX_MIN {
        return lacks("parts", limits.part_max, store::PART_MAX_MIN);
    }
    Ok(())
}

/// About how large the chunks are of what was copied from another run. Ours: a page of events is read from few of them.
const COPIED_CHUNK: usize = 64 * 1024;

/// Size at which a pack is full; what is larger has its own. Ours: a pack is read whole, and a reader who wants one payload of it holds
/// no more than four of the largest.
const PACK_BYTES: usize = 1024 * 1024;

/// A run as it was last committed.
#[derive(Debug, Clone)]
pub(crate) struct StoredRun {
    /// What the store has.
    pub(crate) head: Head,
    /// The decoded state, and what the engine remembers beside it.
    pub(crate) body: Body,
    /// The encoded events from `body.tail_first` on.
    pub(crate) tail: Bytes,
    /// The newest heartbeats of its activities.
    pub(crate) beats: Vec<Heartbeat>,
}

impl StoredRun {
    /// Decodes a head. Heartbeats are not part of it; nor is a tail that has no room in it.
    pub(crate) fn decode(head: Head) -> Result<Self, Refusal> {
        let (body, tail) = head::decode(&head.body)?;
        Ok(Self { head, body, tail, beats: Vec::new() })
    }

    pub(crate) fn run(&self) -> &Run {
        &self.body.run
    }

    /// Whether another run goes on for it, which may have yet to begin.
    pub(crate) fn has_successor(&self) -> bool {
        goes_on(self.run(), &self.body.links)
    }

    /// Has a new run of its workflow id take over what it owes and knows.
    pub(crate) fn hand_over(&self, to: &mut Transition, now: Timestamp) {
        let kept_until = replaced(self).expires_at.map_or(now, Timestamp::from_millis);
        to.take_over(self.run(), self.body.links.clone(), kept_until, now);
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        let run = &self.body.run;
        1_024
            + self.head.body.len()
            + self.body.tail_in.iter().map(|piece| piece.len as usize).sum::<usize>()
            + 400 * (run.activities.len() + run.timers.len())
            + 200 * (run.children.len() + run.externals.len() + self.body.links.seen.iter().len())
            + 24 * run.known.len()
    }
}

/// A commit, ready to be written.
pub(crate) struct Prepared {
    pub(crate) next: StoredRun,
    pub(crate) parts: Vec<(PartKey, Bytes)>,
}

/// What one commit is made of.
pub(crate) struct Draft<'a> {
    /// What it builds on; `None` for the first run of a workflow id.
    pub(crate) base: Option<&'a StoredRun>,
    /// The state after it.
    pub(crate) run: Box<Run>,
    /// What the run keeps of its dealings with others after it.
    pub(crate) links: Links,
    /// The events that it adds.
    pub(crate) events: Vec<Event>,
    /// How many of them are those of another run: the same whoever writes them.
    pub(crate) copied: usize,
    /// How often the waiting tasks have been offered again.
    pub(crate) offers: u32,
    /// Its operation id.
    pub(crate) op: u64,
    /// When somebody must look at the run again.
    pub(crate) due: Option<Timestamp>,
}

/// Lays a commit out. `weigh` says what a head takes of [`Limits::head_soft`].
pub(crate) fn prepare(draft: Draft<'_>, limits: &Limits, weigh: impl Fn(&Head) -> usize) -> Prepared {
    let Draft { base, run, links, mut events, copied, offers, op, due } = draft;
    // A new run begins with an empty tail, whatever the run before it left in the head.
    let same_run = base.filter(|base| base.run().started.run_id == run.started.run_id);
    // Read here because large payloads leave their events below.
    let close_reason = CloseReason::find(&events).filter(|_| !run.is_open());
    let (first, parts_of_first) = copy(&mut events, copied, &run, limits);
    let mut packer = Packer::new(op, limits);
    packer.take_payloads(&mut events);
    let mut parts = parts_of_first;
    let mut fresh = Vec::with_capacity(events.len() * 96);
    for event in &events {
        codec::put_event(&mut fresh, event);
    }
    // Also those of the run before: whoever wrote to that and does not know what became of it, asks here.
    let mut ops = base.map(|base| base.body.ops.clone()).unwrap_or_default();
    if limits.op_ids > 0 {
        ops.push(op);
        let surplus = ops.len().saturating_sub(limits.op_ids);
        ops.drain(..surplus);
    }
    let (tail, tail_first) = same_run.map_or(first, |base| (base.tail.clone(), base.body.tail_first));
    let row = row(&run, same_run.and_then(|base| base.head.row.as_ref()), close_reason);
    // A run that owes something to others must not be forgotten.
    let expires_at = run.expires_at().filter(|_| links.outbox.is_empty());
    let expires_at = expires_at.map(|at| if is_needed(&run, &links) { kept(&run, at) } else { at });
    // What it knows of requests must outlive it.
    let expires_at = expires_at.map(|at| run.known_until().map_or(at, |until| at.max(until)));
    let tail_in = Vec::new();
    let mut body = Body { run, ops, tail_first, offers, links, tail_in };
    let (bytes, mut tail_at) = head::encode(&body, &[&tail, &fresh]);
    let mut head = Head {
        run: *body.run.started.run_id.as_bytes(),
        version: base.map_or(1, |base| base.head.version + 1),
        body: bytes,
        due: due.map(Timestamp::as_millis),
        row: Some(row),
        expires_at: expires_at.map(Timestamp::as_millis),
    };
    let worth_moving = (limits.head_soft / CHUNK_PART_MIN).max(1);
    // Not even looked at for most: it takes deflating to say.
    let mut is_heavy =
        (tail.len() >= worth_moving || body.run.long_notes() >= worth_moving) && weigh(&head) > limits.head_soft;
    if is_heavy && body.run.long_notes() >= worth_moving {
        body.run.keep_notes(|note| packer.put(note));
        (head.body, tail_at) = head::encode(&body, &[&tail, &fresh]);
        is_heavy = weigh(&head) > limits.head_soft;
    }
    let is_full = head.body.len() > limits.head_hard && !tail.is_empty();
    let mut rest = tail.clone();
    if let Some(base) = same_run
        && ((is_heavy && tail.len() >= worth_moving) || is_full)
    {
        // Only what is committed goes to a chunk: it stays true whatever becomes of this commit.
        parts.extend(chunks(codec::stored(&tail), limits.part_max));
        body.tail_first = base.run().last_event_id + 1;
        rest.clear();
        (head.body, tail_at) = head::encode(&body, &[&fresh]);
    }
    let tail = if head.body.len() > limits.head_hard {
        // What is not committed yet goes where nobody else writes.
        let tail = Bytes::from([&rest[..], &fresh].concat());
        body.tail_in = tail.chunks(limits.part_max).map(|piece| packer.put(piece)).collect();
        (head.body, _) = head::encode(&body, &[]);
        tail
    } else {
        head.body.slice(tail_at..)
    };
    parts.extend(packer.into_parts());
    let beats = same_run.map(|base| base.beats.clone()).unwrap_or_default();
    let next = StoredRun { head, body, tail, beats };
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
    let mut packer = Packer::new(op, limits);
    packer.take_payloads(&mut copied);
    let mut parts: Vec<_> = packer.into_parts().collect();
    let last = copied.last().map_or(0, |event| event.id);
    let mut stored = Vec::new();
    for event in &copied {
        codec::put_event(&mut stored, event);
    }
    let chunks = chunks(codec::stored(&stored), COPIED_CHUNK.min(limits.part_max));
    match chunks.as_slice() {
        [(_, only)] if only.len() <= limits.head_soft / 2 => return ((only.clone(), 1), parts),
        _ => parts.extend(chunks),
    }
    ((Bytes::new(), last + 1), parts)
}

/// Stored events, each with its id, in chunks of at most `bytes_max`, or of one event.
fn chunks<'a>(events: impl Iterator<Item = (EventId, &'a [u8])>, bytes_max: usize) -> Vec<(PartKey, Bytes)> {
    let mut chunks: Vec<(EventId, Vec<u8>)> = Vec::new();
    for (id, bytes) in events {
        match chunks.last_mut() {
            Some((last, chunk)) if chunk.len() + bytes.len() <= bytes_max => {
                chunk.extend_from_slice(bytes);
                *last = id;
            }
            _ => chunks.push((id, bytes.to_vec())),
        }
    }
    chunks.into_iter().map(|(last, chunk)| (PartKey::Chunk { last }, Bytes::from(chunk))).collect()
}

/// Fills the packs of one commit.
struct Packer<'a> {
    op: u64,
    limits: &'a Limits,
    packs: Vec<(u64, Vec<u8>)>,
}

impl<'a> Packer<'a> {
    fn new(op: u64, limits: &'a Limits) -> Self {
        Self { op, limits, packs: Vec::new() }
    }

    /// Puts bytes into a pack, of which there are at most as many as a part holds.
    fn put(&mut self, bytes: &[u8]) -> PackRef {
        let Self { op, limits, packs } = self;
        let pack_max = PACK_BYTES.min(limits.part_max);
        if packs.last().is_none_or(|(_, pack)| pack.len() + bytes.len() > pack_max) {
            packs.push((op.wrapping_add(packs.len() as u64), Vec::new()));
        }
        let (op, pack) = packs.last_mut().expect("there is one by now");
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let at = PackRef { op: *op, offset: place(pack.len()), len: place(bytes.len()) };
        pack.extend_from_slice(bytes);
        at
    }

    /// Moves large payloads out of their events.
    fn take_payloads(&mut self, events: &mut [Event]) {
        let total: usize = events.iter().filter_map(|event| event.kind.payload()).map(Payload::len).sum();
        let crowded = total > CROWDED_SOFTS * self.limits.head_soft;
        let inline_max = if crowded { PAYLOAD_INLINE_CROWDED_MAX } else { self.limits.payload_inline_max };
        for payload in events.iter_mut().filter_map(|event| event.kind.payload_mut()) {
            let at = payload.text().filter(|text| text.len() > inline_max).map(|text| self.put(text.as_bytes()));
            if let Some(at) = at {
                *payload = Payload::stored(at);
            }
        }
    }

    fn into_parts(self) -> impl Iterator<Item = (PartKey, Bytes)> {
        self.packs.into_iter().map(|(op, pack)| (PartKey::Pack { op }, Bytes::from(pack)))
    }
}

fn row(run: &Run, before: Option<&Row>, close_reason: Option<CloseReason>) -> Row {
    let standing = run.condition();
    let status = standing.word();
    match before {
        // Everything else stays as it is while the run is open.
        Some(row) if run.closed_at.is_none() && *row.status == *status => row.clone(),
        _ => {
            // Only the commit that closes the run has the reason; later ones keep it.
            let told = close_reason.and_then(|it| RowReason::of(it.reason, it.details));
            Row {
                workflow_type: run.started.workflow_type.as_str().into(),
                status: status.into(),
                flagged: standing.is_flagged(),
                started_at: run.started.at.as_millis(),
                closed_at: run.closed_at.map(Timestamp::as_millis),
                tags: run.started.tags.clone(),
                why: told.or_else(|| before?.why.clone()),
            }
        }
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
    run.has_successor() || links.reset.is_some()
}

fn kept(run: &Run, at: Timestamp) -> Timestamp {
    run.closed_at.map_or(at, |closed_at| at.max(closed_at.plus(KEPT_FOR_OTHERS)))
}

/// The head of a closed run as it is kept when another run takes its place. What it owes is read from it until that is
/// done.
pub(crate) fn replaced(base: &StoredRun) -> Head {
    let owes = !base.body.links.outbox.is_empty();
    let owed_until = base.run().expires_at().filter(|_| owes).map(|at| kept(base.run(), at).as_millis());
    Head { expires_at: base.head.expires_at.or(owed_until), ..base.head.clone() }
}

/// How long a task waits before it is offered again, in case it was forgotten: longer each time, as each look is a write. Ours.
const OFFER_AFTER: [history::Duration; 5] = [
    history::Duration::from_secs(30),
    history::Duration::from_secs(120),
    OFFER_SOON_MAX,
    history::Duration::from_secs(3_600),
    history::Duration::from_days(1),
];

/// After so many offers the waits are longer than that: whoever makes the run due so late writes it down first.
pub(crate) const LATE_OFFERS: u32 = 3;

/// How soon a run is looked at for which another is to go on.
const GO_ON_AFTER: history::Duration = history::Duration::from_secs(30);

/// When somebody must look at a run again.
pub(crate) fn due(run: &Run, links: &Links, beats: &[Heartbeat], offers: u32, now: Timestamp) -> Option<Timestamp> {
    let wait = OFFER_AFTER.get(offers as usize).or(OFFER_AFTER.last()).copied().unwrap_or(OFFER_SOON_MAX);
    let is_held_back = |task: history::TaskRef<'_>| match task {
        history::TaskRef::Turn(task) => task.not_before.is_some_and(|at| at > now),
        history::TaskRef::Activity(task) => task.activity.not_before().is_some_and(|at| at > now),
    };
    let offer = run.waiting_tasks().any(|task| !is_held_back(task)).then(|| now.plus(wait));
    let goes_on = goes_on(run, links).then(|| now.plus(GO_ON_AFTER));
    // What is on its way when its node dies is found by those who take over and look as far ahead (`sweep.rs`).
    let sent = links.sent.iter().filter_map(|(id, _)| {
        let turn = run.turn.as_ref().filter(|turn| turn.scheduled_event_id == id).map(|turn| turn.started_at);
        let since = turn.or_else(|| run.activities.get(&id)?.held_since());
        since.map(|since| since.plus(OFFER_SOON_MAX)).filter(|at| *at > now)
    });
    let changes = run.next_change(beats, &links.outbox, now).into_iter();
    changes.chain(offer).chain(goes_on).chain(sent).min()
}

#[cfg(test)]
pub(super) mod tests {
    use history::{Command, Note, RecordMarker, RetryPolicy, ScheduleActivity, Start, TaskId, Transition, TurnId};
    use uuid::Uuid;

    use super::*;

    pub(in super::super) const LIMITS: Limits = Limits {
        head_soft: 1 << 10,
        head_hard: 8 << 10,
        part_max: 4 << 10,
        payload_inline_max: 256,
        due_shards: 1,
        op_ids: 16,
        due_moves_are_cheap: false,
    };

    fn now() -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000)
    }

    /// Admits commands and lays the commit out.
    pub(in super::super) fn commit(base: Option<&StoredRun>, commands: &[Command], op: u64) -> Prepared {
        let mut transition = match base {
            Some(base) => Transition::linked(base.run().clone(), base.body.links.clone()),
            None => Transition::start(&Start::new("w", "t", "l"), Uuid::from_u128(7), now()).unwrap(),
        };
        for command in commands {
            transition.admit(command, now()).unwrap();
        }
        let (run, links, events) = transition.into_all();
        let draft = Draft { base, run, links, events, copied: 0, offers: 0, op, due: None };
        let prepared = prepare(draft, &LIMITS, |head| head.body.len());
        let Prepared { next, parts } = &prepared;
        assert!(next.head.body.len() <= LIMITS.head_hard, "{}", next.head.body.len());
        assert!(parts.iter().all(|(_, bytes)| bytes.len() <= LIMITS.part_max));
        prepared
    }

    /// Takes a turn and completes it.
    pub(in super::super) fn turn(scheduled_event_id: u64, decisions: Vec<history::Decision>) -> [Command; 2] {
        let turn = TurnId { scheduled_event_id, started_event_id: scheduled_event_id + 1 };
        [Command::StartTurn { scheduled_event_id, identity: None, poll: None }, Command::complete(turn, decisions)]
    }

    fn ids(bytes: &Bytes) -> Vec<u64> {
        codec::events(bytes).map(|event| event.unwrap().id).collect()
    }

    fn pack(parts: &[(PartKey, Bytes)], place: PackRef) -> &[u8] {
        let (_, pack) = parts.iter().find(|(key, _)| *key == PartKey::Pack { op: place.op }).unwrap();
        &pack[place.offset as usize..][..place.len as usize]
    }

    #[test]
    fn a_commit_with_more_events_than_a_head_takes_puts_them_beside_it_and_the_next_makes_chunks_of_them() {
        let first = commit(None, &[], 1).next;
        let marker = |index: usize| RecordMarker { name: format!("m{index}{}", "n".repeat(200)), details: None }.into();
        let Prepared { next: full, parts } = commit(Some(&first), &turn(2, (0..300).map(marker).collect()), 2);
        assert!(!full.body.tail_in.is_empty());
        let pieces: Vec<u8> = full.body.tail_in.iter().flat_map(|piece| pack(&parts, *piece)).copied().collect();
        assert_eq!(full.tail, pieces);
        // Decoding the head alone finds none of them; the head says where they are.
        let read = StoredRun::decode(full.head.clone()).unwrap();
        assert_eq!((read.tail.len(), &read.body.tail_in), (0, &full.body.tail_in));
        let signal = Command::Signal { name: "s".into(), input: None, identity: None, key: None, if_version: None };
        let Prepared { next, parts: chunks } = commit(Some(&full), &[signal], 3);
        assert!(next.body.tail_in.is_empty());
        let (mut found, all) = (Vec::new(), parts.iter().chain(&chunks));
        for (key, bytes) in all.filter(|(key, _)| matches!(key, PartKey::Chunk { .. })) {
            found.extend(ids(bytes));
            assert_eq!(Some(*key), found.last().map(|last| PartKey::Chunk { last: *last }));
        }
        assert_eq!(next.body.tail_first, found.len() as u64 + 1);
        found.extend(ids(&next.tail));
        assert_eq!(found, (1..=next.run().last_event_id).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_said_of_tries_leaves_a_head_that_is_more_than_it_should_be() {
        let policy = RetryPolicy::default();
        let activity = |index: usize| {
            let (activity_id, activity_type) = (format!("a{index:04}"), "charge".to_owned());
            ScheduleActivity { activity_id, activity_type, retry: Some(policy.clone()), ..ScheduleActivity::default() }
                .into()
        };
        let mut loaded = commit(None, &turn(2, (0..5).map(activity).collect()), 1).next;
        let reason = |id: u64| format!("{id} {}", "no ".repeat(80));
        let mut kept = Vec::new();
        for (op, scheduled_event_id) in (2..).zip(loaded.run().activities.keys().copied().collect::<Vec<_>>()) {
            let start = Command::StartActivity { scheduled_event_id, identity: Some("r".repeat(256)), poll: None };
            let (reason, task) =
                (reason(scheduled_event_id), TaskId { scheduled_event_id, started_event_id: 0, start: 1 });
            let (details, non_retryable, retry_after) = (None, false, None);
            let fail = Command::FailActivity { task, reason: Some(reason), details, non_retryable, retry_after };
            let Prepared { next, parts } = commit(Some(&loaded), &[start, fail], op);
            kept.extend(parts);
            loaded = next;
        }
        assert!(loaded.run().long_notes() < LIMITS.head_soft, "{}", loaded.run().long_notes());
        assert!(!loaded.run().notes_kept().is_empty());
        let mut run = loaded.body.run.clone();
        run.fill_notes(|place| Note::read(pack(&kept, place)));
        for (id, activity) in run.activities.iter() {
            assert_eq!(activity.last_failure().unwrap().reason.as_deref(), Some(&*reason(*id)));
        }
    }
}
