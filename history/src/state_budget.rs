//! Space budget for the state of a run (ADR 18).
//!
//! An item is an open activity, timer, child, update, or request to another run. When it is opened, it reserves the
//! largest size that it can reach before it closes, for example because it fails and is retried, or is asked to stop.
//! If this size does not fit into the state, the item is not opened. Therefore the result of an activity, an expired
//! timer or a closed child always fits, in every store.
//!
//! This module only computes sizes. The rules decide what happens if an item does not fit.

use std::collections::BTreeSet;

use crate::event::EventKind;
use crate::limits;
use crate::links::{Links, TakenEffects};
use crate::note::NOTE_TEXT_MAX;
use crate::retry::WhenExhausted;
use crate::run::{PausedActivity, PendingActivity, Run};
use crate::time::Timestamp;

/// Size of an event id. It is enough for 2³² events. To reach this number, a run would have to commit for a year
/// without a break.
const ID: usize = 5;
/// Size of a timestamp.
const AT: usize = 9;
/// Size of a count.
const COUNT: usize = 5;
/// Size of a run id.
const RUN_ID: usize = 17;
/// Size of the header of an item with few fields.
const HEAD: usize = 1;
/// Size of an enum value or of an absent field.
const WORD: usize = 1;
/// Size of the location of a note in a pack: operation, offset and length.
const KEPT: usize = HEAD + 9 + 5 + 5;
/// Size of an attempt that a runner holds: its time, and either its two texts or their location in a pack, whichever is
/// larger.
const HELD: usize = HEAD + AT + larger(NOTE_TEXT_MAX + 3, WORD + KEPT);
/// Size of a failed attempt: its time, the timeout, and either its three texts or their location in a pack, whichever
/// is larger.
const FAILURE: usize = HEAD + AT + WORD + larger(NOTE_TEXT_MAX + 3, 3 * WORD + KEPT);
/// Size of an activity's attempts: two counts, then the held attempt or the wait for the next attempt, and the last
/// failure.
const TRIES: usize = HEAD + 2 * COUNT + larger(HELD + 2 * WORD, WORD + 2 * AT) + FAILURE;
/// Size of a poll's id, together with the id of the task that the poll received.
const SENT: usize = HEAD + ID + 9;
/// Size of a pause: event, time and cause. The operator's identity and the reason are not included.
const PAUSED: usize = HEAD + ID + AT + WORD + HEAD + 2 * WORD;
/// Size of a `Released`, which records that a wait for a runner was restarted, and of the two absent fields before it.
const RELEASED: usize = HEAD + ID + AT + 2 * WORD;
/// Size of an effect on another run.
const EFFECT: usize = HEAD + ID + WORD + COUNT;
/// Size of an effect that was taken over from an earlier run.
const EFFECT_TAKEN_OVER: usize = EFFECT + RUN_ID;

const NAME: usize = str_of(limits::NAME_BYTES_MAX);
const REASON: usize = str_of(4 * limits::REASON_CHARS_MAX);
const CALLER: usize = str_of(limits::CALLER_NAME_BYTES_MAX);
const BY_HAND: usize = HEAD + NAME + REASON;
/// Size of the waiting turn and the held turn together.
const TURNS: usize = 2 * (HEAD + 2 * ID + 3 * AT + COUNT + NAME) + SENT;
const TURN_LISTS: usize = 2 * (HEAD + NAME) + AT;
/// Size of a known request: its key, its event, and the age of the run in hours.
const REQUEST: usize = 9 + ID + COUNT;
/// Largest number of known requests in the state: the requests that always stay, and the requests that two commits can
/// add before the next commit removes the excess.
const REQUESTS: usize = limits::REQUESTS_IN_STATE_MAX + 2 * limits::REQUESTS_SPILLED_MAX;
/// Size of the data on requests outside this run's list: the earlier runs whose requests are known, and the counts of
/// marks in the store in the last day.
const KNOWN: usize = 9 + (limits::REQUESTS_RUNS_MAX + 1) * (2 * HEAD + COUNT + RUN_ID + 2 * AT) + 16 * (HEAD + 2 * AT);
const AWAITING: usize = limits::AWAITING_BYTES_MAX + 3 * limits::AWAITING_MAX;
const CLOCK: usize = limits::CLOCK_STOPS_MAX * (HEAD + 2 * AT) + HEAD + AT;
const PAUSE: usize = HEAD + ID + AT + WORD + BY_HAND;
/// Size of the fingerprint of an activity.
const FINGERPRINT: usize = 9;
/// Size of the remembered successful activities and their repetitions.
const SUCCESSES: usize = 2 * HEAD + limits::SUCCESSES_REMEMBERED_MAX * FINGERPRINT + HEAD + COUNT + ID;
const BRANCHED: usize = HEAD + 2 * ID + RUN_ID + NAME;
const RESET: usize = HEAD + 2 * RUN_ID + 2 * ID + AT + 9 + 2 * WORD + BY_HAND + CALLER;
/// Size of all other fields: the status, times, counts and headers.
const REST: usize = 256;

/// Size of everything in a state except the start attributes, if no item is open.
const FIXED: usize = TURNS
    + TURN_LISTS
    + KNOWN
    + AWAITING
    + CLOCK
    + PAUSE
    + SUCCESSES
    + BRANCHED
    + RESET
    + limits::SEEN_BYTES_MAX
    + REST;

const fn larger(one: usize, other: usize) -> usize {
    if one > other { one } else { other }
}

/// Returns the encoded size of a text of this length.
const fn str_of(len: usize) -> usize {
    len + match len {
        0..24 => 1,
        24..256 => 2,
        _ => 3,
    }
}

fn optional(text: Option<&String>) -> usize {
    text.map_or(WORD, |text| str_of(text.len()))
}

fn paused(paused: &PausedActivity) -> usize {
    let operator = &paused.operator;
    PAUSED - 2 * WORD + optional(operator.identity.as_ref()) + optional(operator.reason.as_ref())
}

/// Returns the size of an activity, without the attributes that it shares with other activities. `waits` is `true` if a
/// resume of the run would add a `Released` to the activity.
fn activity(activity: &PendingActivity, waits: bool) -> usize {
    let has_attempts = activity.retry.is_some() || activity.attempts.is_some();
    let ends_paused = activity.retry.as_ref().is_some_and(|retry| retry.when_exhausted == WhenExhausted::Pause);
    let own = if has_attempts { 2 * WORD + TRIES } else { ID + AT };
    let pause = if ends_paused { PAUSED } else { 0 };
    let pause = activity.paused.as_deref().map_or(0, paused).max(pause);
    let released = if waits || ends_paused || activity.released.is_some() { RELEASED } else { 0 };
    // Without a `Released`, there are three absent fields before the fingerprint, which also take space.
    let fingerprint = if released > 0 { FINGERPRINT } else { FINGERPRINT + 3 * WORD };
    // The sum begins with the key, activity id, kind, time of scheduling, and cancel request.
    ID + HEAD + str_of(activity.activity_id.len()) + 3 + AT + ID + own + pause + released + fingerprint + SENT
}

/// Returns the size of a timer with this id.
pub(crate) fn timer(timer_id: &str) -> usize {
    str_of(timer_id.len()) + HEAD + ID + 3 * AT
}

/// Returns the size of a child with this workflow id, including the effect that starts it or ends it.
pub(crate) fn child(workflow_id: &str) -> usize {
    ID + HEAD + str_of(workflow_id.len()) + ID + WORD + ID + EFFECT
}

/// Returns the size of a pending signal or cancel request to this workflow id.
pub(crate) fn external(workflow_id: &str) -> usize {
    ID + HEAD + str_of(workflow_id.len()) + ID + EFFECT
}

/// Returns the size of an update that will be answered later.
pub(crate) fn update(update_id: &str, name: &str) -> usize {
    ID + HEAD + str_of(update_id.len()) + str_of(name.len()) + AT
}

/// Reserved space of a run, and the shared attributes of its activities, which count only once.
#[derive(Debug, Clone)]
pub(crate) struct ReservedSpace {
    reserved: usize,
    kinds: BTreeSet<Vec<u8>>,
    is_paused: bool,
    /// True if an item has been closed since the space was computed.
    pub(crate) is_stale: bool,
}

impl ReservedSpace {
    pub(crate) fn of(run: &Run, links: &Links) -> Self {
        let started = minicbor::to_vec(&run.started).expect("writing to memory does not fail").len();
        let is_paused = run.paused.is_some();
        let mut space = Self { reserved: FIXED + started, kinds: BTreeSet::new(), is_paused, is_stale: false };
        for pending in run.activities.values() {
            space.reserved += space.activity(pending);
            space.kinds.insert(pending.kind());
        }
        space.reserved += run.timers.keys().map(|timer_id| timer(timer_id)).sum::<usize>();
        space.reserved += run.children.values().map(|it| child(&it.workflow_id)).sum::<usize>();
        space.reserved += run.externals.values().map(|it| external(&it.workflow_id)).sum::<usize>();
        space.reserved += run.updates.open().values().map(|it| update(&it.update_id, &it.name)).sum::<usize>();
        space.reserved += run.known.len().max(REQUESTS) * REQUEST;
        space.reserved += links.outbox.taken_over() * EFFECT_TAKEN_OVER;
        space
    }

    /// Returns the total reserved size.
    pub(crate) fn reserved(&self) -> usize {
        self.reserved
    }

    /// Returns the size by which another activity increases the reserved space.
    pub(crate) fn activity(&self, pending: &PendingActivity) -> usize {
        let kind = pending.kind();
        let kind = if self.kinds.contains(&kind) { 0 } else { kind.len() };
        activity(pending, self.is_paused) + kind
    }

    pub(crate) fn has(&self, bytes: usize) -> bool {
        self.reserved + bytes <= limits::STATE_BYTES_MAX
    }

    /// Adds the size of the item that the event opens.
    pub(crate) fn take_event(&mut self, kind: &EventKind) {
        self.reserved += match kind {
            EventKind::ActivityScheduled(it) => {
                let pending = PendingActivity::new(it, Timestamp::default());
                let bytes = self.activity(&pending);
                self.kinds.insert(pending.kind());
                bytes
            }
            EventKind::TimerScheduled(it) => timer(&it.timer_id),
            EventKind::ChildScheduled(it) => child(&it.workflow_id),
            EventKind::ExternalSignalScheduled(it) => external(&it.workflow_id),
            EventKind::ExternalCancelScheduled(it) => external(&it.workflow_id),
            EventKind::UpdateAccepted(it) => update(&it.update_id, &it.name),
            EventKind::TimerCanceled(_)
            | EventKind::ActivityCanceled(_)
            | EventKind::ActivityScheduledTimeout(_)
            | EventKind::UpdateCompleted(_)
            | EventKind::UpdateFailed(_) => {
                self.is_stale = true;
                0
            }
            EventKind::WorkflowStarted(_)
            | EventKind::WorkflowSuccess(_)
            | EventKind::WorkflowFailed(_)
            | EventKind::WorkflowCanceled(_)
            | EventKind::WorkflowTimedOut(_)
            | EventKind::WorkflowTerminated(_)
            | EventKind::WorkflowCloseFailed(_)
            | EventKind::WorkflowCancelRequested(_)
            | EventKind::DeciderScheduled(_)
            | EventKind::DeciderStarted(_)
            | EventKind::DeciderCompleted(_)
            | EventKind::DeciderTimedOut(_)
            | EventKind::DeciderFailed(_)
            | EventKind::ActivityScheduleFailed(_)
            | EventKind::ActivityStarted(_)
            | EventKind::ActivitySuccess(_)
            | EventKind::ActivityFailed(_)
            | EventKind::ActivityTimedOut(_)
            | EventKind::ActivityTaskCancel(_)
            | EventKind::ActivityTaskCancelFailed(_)
            | EventKind::TimerScheduleFailed(_)
            | EventKind::TimerExpired(_)
            | EventKind::TimerCancelFailed(_)
            | EventKind::Signal(_)
            | EventKind::Marker(_)
            | EventKind::MarkerFailed(_)
            | EventKind::WorkflowContinuedAsNew(_)
            | EventKind::ChildScheduleFailed(_)
            | EventKind::ChildStarted(_)
            | EventKind::ChildSuccess(_)
            | EventKind::ChildFailed(_)
            | EventKind::ChildTimedOut(_)
            | EventKind::ChildCanceled(_)
            | EventKind::ChildTerminated(_)
            | EventKind::ExternalSignalDelivered(_)
            | EventKind::ExternalSignalFailed(_)
            | EventKind::ExternalCancelDelivered(_)
            | EventKind::ExternalCancelFailed(_)
            | EventKind::ActivityPaused(_)
            | EventKind::ActivityResumed(_)
            | EventKind::ActivityRetried(_)
            | EventKind::ActivityOptionsChanged(_)
            | EventKind::WorkflowPaused(_)
            | EventKind::WorkflowResumed(_)
            | EventKind::WorkflowReset(_) => 0,
        };
    }
}

impl Run {
    /// Returns the largest size in bytes that the state and its links can reach before all open items are closed. For
    /// an open run, it is at most [`limits::STATE_BYTES_MAX`].
    pub fn reserved_bytes(&self, links: &Links) -> usize {
        ReservedSpace::of(self, links).reserved()
    }

    /// Returns `true` if there is space for a reset to this state. A reset adds a `Released` to all open activities at
    /// once.
    pub(crate) fn has_space_to_branch(&self) -> bool {
        self.reserved_bytes(&Links::default()) + self.activities.len() * RELEASED <= limits::STATE_BYTES_MAX
    }
}

impl TakenEffects {
    /// Returns `true` if there is space to accept another effect. If there is none, the other run must wait until this
    /// run has forgotten old effects.
    pub fn has_space(&self) -> bool {
        let each = |workflow_id: &str| 2 * HEAD + str_of(workflow_id.len()) + 2 * RUN_ID + 2 * ID;
        let taken: usize = self.iter().map(|seen| each(&seen.origin.workflow_id)).sum();
        taken + 2 * HEAD + NAME + 2 * RUN_ID + 2 * ID <= limits::SEEN_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use uuid::Uuid;

    use super::*;
    use crate::caller::CallerName;
    use crate::event::{
        ActivityPausedCause, ActivityTimeout, ActivityTimeouts, ChildPolicy, LastFailure, OperatorAction,
    };
    use crate::links::{Effect, EffectKind, PollId};
    use crate::payload::{PackRef, Payload};
    use crate::retry::RetryPolicy;
    use crate::run::{
        Attempts, Fingerprint, HeldAttempt, PendingChild, PendingExternal, PendingTimer, PendingUpdate, Released,
    };
    use crate::scene::scene;
    use crate::time::Timestamp;

    const ID_MAX: u64 = u32::MAX as u64;
    const AT_MAX: Timestamp = Timestamp::from_millis(u64::MAX);

    fn bytes(thing: &impl minicbor::Encode<()>) -> usize {
        minicbor::to_vec(thing).unwrap().len()
    }

    /// Checks that the stored size is at most the reserved size, and that at most `spare` reserved bytes are unused.
    #[track_caller]
    fn holds(what: &str, stored: usize, reserved: usize, spare: usize) {
        assert!((stored..=stored + spare).contains(&reserved), "{what}: {stored} bytes stored, {reserved} reserved");
    }

    const PLACE: PackRef = PackRef { op: u64::MAX, offset: u32::MAX, len: u32::MAX };

    fn failure(text: bool) -> LastFailure {
        let half = || "n".repeat(NOTE_TEXT_MAX / 2 - 1);
        LastFailure {
            at: AT_MAX,
            reason: text.then(half),
            timeout: Some(ActivityTimeout::Heartbeat),
            details: text.then(|| Payload::from_trusted("12")),
            identity: text.then(half),
            kept: (!text).then_some(PLACE),
        }
    }

    fn held(text: bool) -> HeldAttempt {
        let identity = text.then(|| "n".repeat(NOTE_TEXT_MAX / 2));
        let by = text.then(|| CallerName::new(&"n".repeat(NOTE_TEXT_MAX / 2)).unwrap());
        HeldAttempt { at: AT_MAX, identity, kept: (!text).then_some(PLACE), by }
    }

    fn pending(retry: Option<RetryPolicy>, attempts: Option<Attempts>) -> PendingActivity {
        let is_started = retry.is_none();
        PendingActivity {
            activity_id: "a".repeat(30),
            activity_type: "t".to_owned(),
            task_list: "l".to_owned(),
            scheduled_at: AT_MAX,
            timeouts: ActivityTimeouts::default(),
            started_event_id: is_started.then_some(ID_MAX),
            started_at: is_started.then_some(AT_MAX),
            cancel_event_id: Some(ID_MAX),
            retry,
            attempts: attempts.map(Box::new),
            paused: None,
            released: None,
            fingerprint: Some(Fingerprint::LARGEST),
            task_priority: None,
            concurrency_key: None,
        }
    }

    /// Checks the size of an activity and its poll. 300 activities of other kinds are open, so that the index of the
    /// kind takes its full size.
    #[track_caller]
    fn activity_holds(what: &str, pending: &PendingActivity, waits: bool, spare: usize) {
        let mut open = BTreeMap::new();
        for kind in 0..300_u64 {
            let of_a_kind = PendingActivity { activity_type: format!("other{kind:03}"), ..pending.clone() };
            open.insert(ID_MAX - 1_000 + kind, Arc::new(of_a_kind));
        }
        open.insert(ID_MAX - 2, Arc::new(pending.clone()));
        let without = bytes(&crate::run::Activities::from(open.clone()));
        open.insert(ID_MAX - 1, Arc::new(pending.clone()));
        let with = bytes(&crate::run::Activities::from(open));
        let sent = bytes(&(ID_MAX, PollId(u64::MAX)));
        holds(what, with - without + sent, activity(pending, waits), spare);
    }

    #[test]
    fn activities_take_their_reserved_size() {
        let policy = || Some(RetryPolicy::default());
        activity_holds("started", &pending(None, None), false, 0);
        for (text, other) in [(false, false), (true, false), (false, true), (true, true)] {
            let attempts = Attempts {
                starts: u32::MAX,
                failures: u32::MAX,
                held: Some(held(text)),
                last_failure: Some(failure(other)),
                ..Attempts::default()
            };
            activity_holds("held", &pending(policy(), Some(attempts)), false, 16);
        }
        let waiting = Attempts {
            starts: u32::MAX,
            failures: u32::MAX,
            not_before: Some(AT_MAX),
            waits_since: Some(AT_MAX),
            last_failure: Some(failure(false)),
            ..Attempts::default()
        };
        activity_holds("waits", &pending(policy(), Some(waiting.clone())), false, 40);
        let pauses = Some(RetryPolicy { when_exhausted: WhenExhausted::Pause, ..RetryPolicy::default() });
        let cause = ActivityPausedCause::AttemptsExhausted;
        let (released, operator) = (Some(Released { event_id: ID_MAX, at: AT_MAX }), OperatorAction::default());
        let paused = Some(Box::new(PausedActivity { event_id: ID_MAX, at: AT_MAX, cause, operator }));
        let exhausted = PendingActivity { paused, released, ..pending(pauses, Some(waiting)) };
        activity_holds("paused", &exhausted, false, 40);
        activity_holds("given free", &PendingActivity { released, ..pending(None, None) }, false, 2);
    }

    #[test]
    fn other_items_take_their_reserved_size() {
        let name = "n".repeat(40);
        let id = bytes(&ID_MAX);
        let set = PendingTimer {
            scheduled_event_id: ID_MAX,
            expires_at: AT_MAX,
            set_at: Some(AT_MAX),
            after: Some(limits::SPAN_MAX),
        };
        holds("a timer", bytes(&name) + bytes(&set), timer(&name), 0);
        let policy = ChildPolicy::RequestCancel;
        let workflow_id = name.clone();
        let started_event_id = Some(ID_MAX);
        let started = PendingChild { workflow_id, decision_event_id: ID_MAX, policy, started_event_id };
        let effect = bytes(&Effect::new(ID_MAX, EffectKind::NotifyParent, "a target whose lane takes all its bytes"));
        assert_eq!(effect, EFFECT);
        let taken_over = Effect::new(ID_MAX, EffectKind::EndChild, "w").held_by(Uuid::nil(), Uuid::from_u128(7));
        holds("an effect of another", bytes(&taken_over), EFFECT_TAKEN_OVER, 0);
        holds("a child", id + bytes(&started) + effect, child(&name), 0);
        let sent = PendingExternal { workflow_id: name.clone(), decision_event_id: ID_MAX };
        holds("a signal", id + bytes(&sent) + effect, external(&name), 0);
        let (update_id, accepted_at) = (name.clone(), AT_MAX);
        let accepted = PendingUpdate { update_id, name: name.clone(), accepted_at };
        holds("an update", id + bytes(&accepted), update(&name, &name), 0);
    }

    #[test]
    fn an_empty_run_reserves_its_fixed_size() {
        let run = scene().run;
        let reserved = run.reserved_bytes(&Links::default());
        assert!((FIXED..FIXED + REQUESTS * REQUEST + 200).contains(&reserved), "{reserved}");
        assert!(reserved < 45_000, "{reserved}");
    }
}
