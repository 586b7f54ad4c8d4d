//! The effects that a run owes to others.

use std::collections::BTreeSet;

use minicbor::{Decode, Encode};

use crate::event::EventId;
use crate::ids::RunId;
use crate::limits;
use crate::time::{Duration, Timestamp};

/// What is to be done to another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum EffectKind {
    /// Start it as a child, as a ChildScheduled says.
    #[n(0)]
    StartChild,
    /// Signal it, as an ExternalSignalScheduled says.
    #[n(1)]
    Signal,
    /// Ask it to cancel, as an ExternalCancelScheduled says.
    #[n(2)]
    RequestCancel,
    /// End a child, because its parent has closed, as its ChildScheduled says.
    #[n(3)]
    EndChild,
    /// Tell the parent of the event that closed the run.
    #[n(4)]
    TellParent,
}

impl EffectKind {
    /// Its name for people and in the REST API.
    pub const fn word(self) -> &'static str {
        match self {
            Self::StartChild => "start-child",
            Self::Signal => "signal",
            Self::RequestCancel => "request-cancel",
            Self::EndChild => "end-child",
            Self::TellParent => "tell-parent",
        }
    }
}

/// An effect on another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Effect {
    /// The event that asks for it, and says what and whom.
    #[n(0)]
    pub event_id: EventId,
    /// What is to be done.
    #[n(1)]
    pub kind: EffectKind,
    /// A hash of the other run's workflow id. Effects of one lane happen one after the other.
    #[n(2)]
    lane: u32,
    /// The run that asked for it, where another run of the same workflow id has taken it over.
    #[cbor(n(3), with = "crate::stored_uuid::uuid_option", default, skip_if = "Option::is_none")]
    pub of: Option<RunId>,
}

impl Effect {
    pub(crate) fn new(event_id: EventId, kind: EffectKind, workflow_id: &str) -> Self {
        Self { event_id, kind, lane: lane(workflow_id), of: None }
    }

    /// The same effect, which the run `owner` asked for, as it stands in the outbox of the run `holder`.
    #[must_use]
    pub fn held_by(self, holder: RunId, owner: RunId) -> Self {
        Self { of: taken_over(holder, owner), ..self }
    }
}

/// What [`Effect::of`] is for an effect of the run `owner` that the run `holder` has.
pub(crate) fn taken_over(holder: RunId, owner: RunId) -> Option<RunId> {
    (holder != owner).then_some(owner)
}

/// FNV-1a, which never changes: lanes are stored. Two workflow ids in one lane only wait for each other.
fn lane(workflow_id: &str) -> u32 {
    workflow_id.bytes().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Effects that are not known to have happened, in the order in which they were asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Outbox {
    #[n(0)]
    effects: Vec<Effect>,
    #[n(1)]
    next_at: Timestamp,
    #[n(2)]
    tries: u32,
    #[cbor(n(3), skip_if = "is_first")]
    round: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the derived code hands over a reference to the field")]
fn is_first(round: &u32) -> bool {
    *round == 0
}

impl Outbox {
    /// Whether nothing is owed.
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// Whether this effect is still owed.
    pub fn owes(&self, effect: &Effect) -> bool {
        self.effects.contains(effect)
    }

    /// Whether whoever delivers this effect in this round still has to. Nothing may be done to another run without a look
    /// here, after the look at that run.
    pub fn owes_in(&self, round: u32, effect: &Effect) -> bool {
        self.round == round && self.owes(effect)
    }

    /// Whether anything is still owed that this event of the run `owner` asked for; the outbox is that of `holder`.
    pub fn owes_for(&self, holder: RunId, owner: RunId, event_id: EventId) -> bool {
        let of = taken_over(holder, owner);
        self.effects.iter().any(|effect| effect.of == of && effect.event_id == event_id)
    }

    /// Each of them, in the order in which they were asked for.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Effect> {
        self.effects.iter()
    }

    /// How many of them were taken over from runs before this one.
    pub fn taken_over(&self) -> usize {
        self.effects.iter().filter(|effect| effect.of.is_some()).count()
    }

    /// The same, owed by a new run of the workflow id in place of the run `from`. A round ends with that, as what is owed is
    /// now found elsewhere.
    pub(crate) fn handed_over(mut self, from: RunId) -> Self {
        for effect in &mut self.effects {
            effect.of.get_or_insert(from);
        }
        self.round = if self.is_empty() { 0 } else { self.round.wrapping_add(1) };
        self
    }

    /// When somebody must see to it, should whoever is at it be gone.
    pub fn next_at(&self) -> Option<Timestamp> {
        (!self.is_empty()).then_some(self.next_at)
    }

    /// How often it was time to see to it, since the newest effect was asked for.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// Which round of deliveries this is: whoever delivers does so for the round that it began in. What another run refuses
    /// counts only in the round in which it did, because a later round may find that it no longer does; and who delivers for an
    /// earlier round does nothing any more, because the later one may have been refused.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// What can be done now: the first effect of each lane.
    pub fn ready(&self) -> impl Iterator<Item = Effect> {
        let mut lanes = BTreeSet::new();
        self.effects.iter().copied().filter(move |effect| lanes.insert(effect.lane))
    }

    /// Of what can be done now, what could not be done yet when the outbox was as `before`.
    pub fn newly_ready(&self, before: &Self) -> Vec<Effect> {
        let known: BTreeSet<Effect> = before.ready().collect();
        self.ready().filter(|effect| !known.contains(effect)).collect()
    }

    pub(crate) fn add(&mut self, effect: Effect, now: Timestamp) {
        let soon = now.plus(limits::EFFECT_WAIT_FIRST);
        self.next_at = self.next_at().map_or(soon, |at| at.min(soon));
        self.tries = 0;
        self.effects.push(effect);
    }

    pub(crate) fn remove(&mut self, of: Option<RunId>, event_id: EventId, kind: EffectKind) -> bool {
        let is_it = |effect: &Effect| effect.of == of && effect.event_id == event_id && effect.kind == kind;
        let place = self.effects.iter().position(is_it);
        if let Some(place) = place {
            self.effects.remove(place);
        }
        if self.effects.is_empty() {
            *self = Self::default();
        }
        place.is_some()
    }

    /// Has it seen to no later than soon after `now`; true where that is earlier than it was.
    pub(crate) fn hurry(&mut self, now: Timestamp) -> bool {
        let soon = now.plus(limits::EFFECT_WAIT_MAX);
        let is_late = self.next_at().is_some_and(|at| at > soon);
        if is_late {
            self.next_at = now.plus(limits::EFFECT_WAIT_FIRST);
        }
        is_late
    }

    /// Begins another round of deliveries, if anything is owed; true then. Where it was time, or where the time is too far away, says when it is time again.
    pub(crate) fn see_to(&mut self, now: Timestamp) -> bool {
        let Some(at) = self.next_at() else { return false };
        self.round = self.round.wrapping_add(1);
        // Or where a clock that was ahead has said it.
        if at <= now || at > now.plus(limits::EFFECT_WAIT_MAX) {
            self.next_at = now.plus(wait(self.tries));
            self.tries = self.tries.saturating_add(1);
        }
        true
    }
}

/// How long to wait after this many tries.
fn wait(tries: u32) -> Duration {
    limits::EFFECT_WAIT_FIRST.times(4_u64.saturating_pow(tries.min(8))).min(limits::EFFECT_WAIT_MAX)
}
