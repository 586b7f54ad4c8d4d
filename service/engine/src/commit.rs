//! Lays out one commit: decides which bytes go to the run's head and which go to parts (chunks of events and packs of
//! payloads). Performs no I/O.

pub(super) mod head;
pub(super) mod read;
pub(super) mod state;

use bytes::Bytes;
use history::{
    CloseReason, Event, EventId, Heartbeat, Links, PackRef, Payload, Run, StoppedLists, Timestamp, Transition, codec,
};
use store::{Head, Limits, PartKey, Row, RowReason};

use self::head::Body;
use crate::Refusal;
use crate::base::agenda::OFFER_SOON_MAX;

/// Maximum size in bytes of a payload that stays in its event if the payloads of a commit together exceed the limit
/// given by [`CROWDED_SOFTS`]. Larger payloads of such a commit go to packs. Our choice.
const PAYLOAD_INLINE_CROWDED_MAX: usize = 64;

/// Multiple of the head's soft limit. If the payloads of a commit together are larger than this multiple, each payload
/// over [`PAYLOAD_INLINE_CROWDED_MAX`] is moved to a pack. Our choice: on DynamoDB, each kilobyte of payloads in the
/// head is paid for again when it moves to a chunk.
const CROWDED_SOFTS: usize = 8;

/// Divisor of the head's soft limit. Events move out of the head only if their size is at least the soft limit divided
/// by this number. Without this minimum, each commit of a run whose head is full of pending activities would write a
/// chunk. Our choice.
const CHUNK_PART_MIN: usize = 4;

/// Maximum size in bytes of the engine's own data in a head, in addition to the state of the run. This data consists of
/// the newest operation ids, short notes about attempts, and the location of the newest events if they are not in the
/// head.
const HEAD_ROOM: usize = 4 * 1024;

const _: () = assert!(history::limits::STATE_BYTES_MAX + HEAD_ROOM <= store::HEAD_HARD_MIN, "a full run fits a head");

/// Fails if the store's limits are too small for the largest possible run.
pub(crate) fn must_have_room(limits: &Limits) -> Result<(), Refusal> {
    let lacks = |what: &str, found: usize, needed: usize| {
        let why = format!("the store accepts {what} of at most {found} bytes, but a run may need {needed}");
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

/// Approximate size in bytes of the chunks of events that are copied from another run. Our choice: a page of events
/// consists of few such chunks.
const COPIED_CHUNK: usize = 64 * 1024;

/// Size in bytes at which a pack is full. A larger payload gets a separate pack. Our choice: a pack is always read as a
/// whole. With this size, a reader of one payload holds at most four times the size of the largest payload.
const PACK_BYTES: usize = 1024 * 1024;

/// A run as of its last commit.
#[derive(Debug, Clone)]
pub(crate) struct StoredRun {
    /// The run's head as it is in the store.
    pub(crate) head: Head,
    /// Decoded state of the run, together with the engine's own data.
    pub(crate) body: Body,
    /// Encoded events, beginning with the event `body.tail_first`.
    pub(crate) tail: Bytes,
    /// Newest heartbeats of the run's activities.
    pub(crate) heartbeats: Vec<Heartbeat>,
}

impl StoredRun {
    /// Decodes a head. The result has no heartbeats. It has no tail of events if the tail is stored outside the head.
    pub(crate) fn decode(head: Head) -> Result<Self, Refusal> {
        let (body, tail) = head::decode(&head.body)?;
        Ok(Self { head, body, tail, heartbeats: Vec::new() })
    }

    pub(crate) fn run(&self) -> &Run {
        &self.body.run
    }

    /// Returns true if another run continues this one. That run may not have started yet.
    pub(crate) fn has_successor(&self) -> bool {
        is_continued(self.run(), &self.body.links)
    }

    /// Transfers this run's undelivered effects and its records of requests to a new run of the same workflow id.
    pub(crate) fn hand_over(&self, to: &mut Transition, now: Timestamp) {
        let kept_until = replaced(self).expires_at.map_or(now, Timestamp::from_millis);
        to.take_over(self.run(), self.body.links.clone(), kept_until, now);
    }

    /// Returns the approximate size in memory of the run, in bytes.
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

/// A commit that is ready to be written.
pub(crate) struct Prepared {
    pub(crate) next: StoredRun,
    pub(crate) parts: Vec<(PartKey, Bytes)>,
}

/// Input for the layout of one commit.
pub(crate) struct Draft<'a> {
    /// The previously committed run; `None` for the first run of a workflow id.
    pub(crate) base: Option<&'a StoredRun>,
    /// The state after the commit.
    pub(crate) run: Box<Run>,
    /// The run's links with other runs (its outbox and received effects) after the commit.
    pub(crate) links: Links,
    /// The events that the commit adds.
    pub(crate) events: Vec<Event>,
    /// Number of events at the start of `events` that are copied from another run. Every node that writes the run
    /// copies the same events.
    pub(crate) copied: usize,
    /// Number of times that the run's waiting tasks were offered to their task lists again.
    pub(crate) offers: u32,
    /// Operation id of the commit.
    pub(crate) op: u64,
    /// Time at which the run must be woken.
    pub(crate) due: Option<Timestamp>,
}

/// Lays out a commit. `weigh` computes the size of a head, which is compared with [`Limits::head_soft`].
pub(crate) fn prepare(draft: Draft<'_>, limits: &Limits, weigh: impl Fn(&Head) -> usize) -> Prepared {
    let Draft { base, run, links, mut events, copied, offers, op, due } = draft;
    // A new run begins with an empty tail, because the tail in the head belongs to the previous run.
    let same_run = base.filter(|base| base.run().started.run_id == run.started.run_id);
    // The close reason must be read before large payloads are moved out of their events.
    let close_reason = CloseReason::find(&events).filter(|_| !run.is_open());
    let (first, parts_of_first) = copy(&mut events, copied, &run, limits);
    let mut packer = Packer::new(op, limits);
    packer.take_payloads(&mut events);
    let mut parts = parts_of_first;
    let mut fresh = Vec::with_capacity(events.len() * 96);
    for event in &events {
        codec::put_event(&mut fresh, event);
    }
    // The operation ids of the previous run are kept, because a node may search them for a commit of unknown outcome to
    // the previous run.
    let mut ops = base.map(|base| base.body.ops.clone()).unwrap_or_default();
    if limits.op_ids > 0 {
        ops.push(op);
        let surplus = ops.len().saturating_sub(limits.op_ids);
        ops.drain(..surplus);
    }
    let (tail, tail_first) = same_run.map_or(first, |base| (base.tail.clone(), base.body.tail_first));
    let row = row(&run, same_run.and_then(|base| base.head.row.as_ref()), close_reason);
    // A run with undelivered effects must not expire.
    let expires_at = run.expires_at().filter(|_| links.outbox.is_empty());
    let expires_at = expires_at.map(|at| if is_needed(&run, &links) { kept(&run, at) } else { at });
    // Records of requests must be kept as long as they are needed to recognize repeated requests.
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
    // A head must be compressed to be weighed. This is only done if the tail of events or the notes about attempts are
    // large enough to be moved.
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
        // A chunk contains only events that are already committed, so it is valid even if this commit fails.
        parts.extend(chunks(codec::stored(&tail), limits.part_max));
        body.tail_first = base.run().last_event_id + 1;
        rest.clear();
        (head.body, tail_at) = head::encode(&body, &[&fresh]);
    }
    let tail = if head.body.len() > limits.head_hard {
        // New events go to a pack instead. The pack belongs only to this commit and is ignored if the commit fails.
        let tail = Bytes::from([&rest[..], &fresh].concat());
        body.tail_in = tail.chunks(limits.part_max).map(|piece| packer.put(piece)).collect();
        (head.body, _) = head::encode(&body, &[]);
        tail
    } else {
        head.body.slice(tail_at..)
    };
    parts.extend(packer.into_parts());
    let heartbeats = same_run.map(|base| base.heartbeats.as_slice()).unwrap_or_default().iter();
    let heartbeats =
        heartbeats.filter(|beat| body.run.activities.contains_key(&beat.scheduled_event_id)).cloned().collect();
    let next = StoredRun { head, body, tail, heartbeats };
    Prepared { next, parts }
}

/// Takes the first `count` events, which a new run copies from another run, out of the events of the commit. Returns
/// the new run's tail, the id of the tail's first event, and parts with the copied events that are not in the tail. The
/// result depends only on the copied events, so that all nodes that write this run write the same parts.
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

/// Divides encoded events into chunks of at most `bytes_max` bytes. A larger event gets a separate chunk.
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

/// Collects the payloads and events of one commit into packs.
struct Packer<'a> {
    op: u64,
    limits: &'a Limits,
    packs: Vec<(u64, Vec<u8>)>,
}

impl<'a> Packer<'a> {
    fn new(op: u64, limits: &'a Limits) -> Self {
        Self { op, limits, packs: Vec::new() }
    }

    /// Adds bytes to the current pack. Begins another pack if the current one is full.
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

    /// Moves large payloads from their events to packs.
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
    let condition = run.condition();
    let status = condition.word();
    match before {
        // While the run is open, the rest of the row never changes, so an equal status means an equal row.
        Some(row) if run.closed_at.is_none() && *row.status == *status => row.clone(),
        _ => {
            // The close reason is only in the commit that closes the run. Later commits keep the stored reason.
            let told = close_reason.and_then(|it| RowReason::of(it.reason, it.details));
            Row {
                workflow_type: run.started.workflow_type.as_str().into(),
                status: status.into(),
                flagged: condition.is_flagged(),
                started_at: run.started.at.as_millis(),
                closed_at: run.closed_at.map(Timestamp::as_millis),
                tags: run.started.tags.clone(),
                why: told.or_else(|| before?.why.clone()),
            }
        }
    }
}

/// Minimum time for which a closed run is kept while other runs may need it. Our choice: longer than an outage of all
/// nodes.
const KEPT_FOR_OTHERS: history::Duration = history::Duration::from_days(7);

/// Returns true if other runs may still need a closed run that has no undelivered effects:
///
/// * The run's successor may not have started.
/// * An effect that the run has received may be delivered again. An effect from the run's parent does not count,
///   because it can never be delivered to another run.
fn is_needed(run: &Run, links: &Links) -> bool {
    let is_of_parent = |seen: &history::SeenOrigin| run.started.parent.as_ref() == Some(&seen.origin);
    is_continued(run, links) || !links.seen.iter().all(is_of_parent)
}

/// Returns true if another run continues this one. That run may not have started yet.
fn is_continued(run: &Run, links: &Links) -> bool {
    run.has_successor() || links.reset.is_some()
}

fn kept(run: &Run, at: Timestamp) -> Timestamp {
    run.closed_at.map_or(at, |closed_at| at.max(closed_at.plus(KEPT_FOR_OTHERS)))
}

/// Returns the head under which a closed run is kept after a newer run of the workflow id has replaced it. If the
/// closed run has undelivered effects, they are read from this head.
pub(crate) fn replaced(base: &StoredRun) -> Head {
    let owes = !base.body.links.outbox.is_empty();
    let owed_until = base.run().expires_at().filter(|_| owes).map(|at| kept(base.run(), at).as_millis());
    Head { expires_at: base.head.expires_at.or(owed_until), ..base.head.clone() }
}

/// Delays before a waiting task is offered to its task list again, in case the list has lost it from memory. The delays
/// grow because each offer costs a write. Our choice.
const OFFER_AFTER: [history::Duration; 5] = [
    history::Duration::from_secs(30),
    history::Duration::from_secs(120),
    OFFER_SOON_MAX,
    history::Duration::from_secs(3_600),
    history::Duration::from_days(1),
];

/// Number of offers after which the delays exceed [`OFFER_SOON_MAX`]. The run's row is written to the backlog before
/// the first such delay.
pub(crate) const LATE_OFFERS: u32 = 3;

/// Time after which a run is woken if its successor has not started. Our choice.
const SUCCESSOR_AFTER: history::Duration = history::Duration::from_secs(30);

/// Returns the time at which a run must be woken; `None` if never. `stopped` contains the pauses of task lists.
pub(crate) fn due(
    run: &Run,
    links: &Links,
    heartbeats: &[Heartbeat],
    offers: u32,
    stopped: &StoppedLists,
    now: Timestamp,
) -> Option<Timestamp> {
    let wait = OFFER_AFTER.get(offers as usize).or(OFFER_AFTER.last()).copied().unwrap_or(OFFER_SOON_MAX);
    let is_held_back = |task: history::TaskRef<'_>| match task {
        history::TaskRef::Turn(task) => task.not_before.is_some_and(|at| at > now),
        history::TaskRef::Activity(task) => task.activity.not_before().is_some_and(|at| at > now),
    };
    let offer = run.waiting_tasks().any(|task| !is_held_back(task)).then(|| now.plus(wait));
    let successor = is_continued(run, links).then(|| now.plus(SUCCESSOR_AFTER));
    // The due time also covers tasks that were sent to a poll. If this node fails, the node that takes over its runs
    // must find these tasks. That node reads the due index only [`OFFER_SOON_MAX`] ahead (`time/sweep.rs`).
    let sent = links.sent.iter().filter_map(|(id, _)| {
        let turn = run.turn.as_ref().filter(|turn| turn.scheduled_event_id == id).map(|turn| turn.started_at);
        let since = turn.or_else(|| run.activities.get(&id)?.held_since());
        since.map(|since| since.plus(OFFER_SOON_MAX)).filter(|at| *at > now)
    });
    let changes = run.next_change(heartbeats, &links.outbox, stopped, now).into_iter();
    changes.chain(offer).chain(successor).chain(sent).min()
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
        is_shared: false,
    };

    fn now() -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000)
    }

    /// Admits commands and lays out a commit.
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

    /// Returns the commands that start a turn and complete it.
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
    fn events_beyond_the_head_go_to_packs_and_then_to_chunks() {
        let first = commit(None, &[], 1).next;
        let marker = |index: usize| RecordMarker { name: format!("m{index}{}", "n".repeat(200)), details: None }.into();
        let Prepared { next: full, parts } = commit(Some(&first), &turn(2, (0..300).map(marker).collect()), 2);
        assert!(!full.body.tail_in.is_empty());
        let pieces: Vec<u8> = full.body.tail_in.iter().flat_map(|piece| pack(&parts, *piece)).copied().collect();
        assert_eq!(full.tail, pieces);
        // The decoded head contains none of the events but refers to them.
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
    fn long_notes_about_attempts_leave_a_large_head() {
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
