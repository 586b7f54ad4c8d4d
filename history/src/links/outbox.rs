//! Effects on other runs that a run has requested and that have no known outcome yet.

use std::collections::BTreeSet;

use minicbor::{Decode, Encode};

use crate::event::EventId;
use crate::ids::RunId;
use crate::limits;
use crate::time::{Duration, Timestamp};

/// Kind of an effect on another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum EffectKind {
    /// Start a child, as requested by ChildScheduled.
    #[n(0)]
    StartChild,
    /// Send a signal, as requested by ExternalSignalScheduled.
    #[n(1)]
    Signal,
    /// Send a cancel request, as requested by ExternalCancelScheduled.
    #[n(2)]
    RequestCancel,
    /// Apply the child policy in ChildScheduled, because the parent has closed.
    #[n(3)]
    EndChild,
    /// Report the close of the run to its parent.
    #[n(4)]
    NotifyParent,
}

impl EffectKind {
    /// Returns the name shown to people and used in the REST API.
    pub const fn word(self) -> &'static str {
        match self {
            Self::StartChild => "start-child",
            Self::Signal => "signal",
            Self::RequestCancel => "request-cancel",
            Self::EndChild => "end-child",
            Self::NotifyParent => "notify-parent",
        }
    }
}

/// An effect on another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Effect {
    /// Id of the event that requested the effect and contains its details.
    #[n(0)]
    pub event_id: EventId,
    /// Kind of effect.
    #[n(1)]
    pub kind: EffectKind,
    /// Hash of the other run's workflow id. Effects with the same lane are delivered one after the other.
    #[n(2)]
    lane: u32,
    /// Run that requested the effect. Present only if a later run of the same workflow id has taken the effect over.
    #[cbor(n(3), with = "crate::stored_uuid::uuid_option", default, skip_if = "Option::is_none")]
    pub of: Option<RunId>,
}

impl Effect {
    pub(crate) fn new(event_id: EventId, kind: EffectKind, workflow_id: &str) -> Self {
        Self { event_id, kind, lane: lane(workflow_id), of: None }
    }

    /// Returns the effect of the run `owner` in the form that it has in the outbox of the run `holder`.
    #[must_use]
    pub fn held_by(self, holder: RunId, owner: RunId) -> Self {
        Self { of: taken_over(holder, owner), ..self }
    }
}

/// Returns the value of [`Effect::of`] for an effect of the run `owner` in the outbox of the run `holder`.
pub(crate) fn taken_over(holder: RunId, owner: RunId) -> Option<RunId> {
    (holder != owner).then_some(owner)
}

/// Returns the lane of a workflow id: its FNV-1a hash. The function must never change, because lanes are stored. Two
/// ids can have the same lane. The only consequence is that their effects wait for each other.
fn lane(workflow_id: &str) -> u32 {
    workflow_id.bytes().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Effects without a known outcome, in the order in which they were requested.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Outbox {
    #[n(0)]
    effects: Vec<Effect>,
    #[n(1)]
    next_at: Timestamp,
    #[n(2)]
    attempts: u32,
    #[cbor(n(3), skip_if = "is_first")]
    round: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the derived code hands over a reference to the field")]
fn is_first(round: &u32) -> bool {
    *round == 0
}

impl Outbox {
    /// Returns `true` if there are no pending effects.
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// Returns `true` if this effect is pending.
    pub fn owes(&self, effect: &Effect) -> bool {
        self.effects.contains(effect)
    }

    /// Returns `true` if this effect is pending and `round` is the current round. A delivery must check this after it
    /// has read the other run and before it changes that run.
    pub fn owes_in(&self, round: u32, effect: &Effect) -> bool {
        self.round == round && self.owes(effect)
    }

    /// Returns `true` if an effect requested by this event of the run `owner` is pending in the outbox of the run
    /// `holder`.
    pub fn owes_for(&self, holder: RunId, owner: RunId, event_id: EventId) -> bool {
        let of = taken_over(holder, owner);
        self.effects.iter().any(|effect| effect.of == of && effect.event_id == event_id)
    }

    /// Returns the pending effects in the order in which they were requested.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Effect> {
        self.effects.iter()
    }

    /// Returns the number of effects taken over from earlier runs.
    pub fn taken_over(&self) -> usize {
        self.effects.iter().filter(|effect| effect.of.is_some()).count()
    }

    /// Returns the outbox for the new run of the workflow id that takes over the effects of the run `from`. The current
    /// round ends, because deliveries in progress refer to the old run.
    pub(crate) fn handed_over(mut self, from: RunId) -> Self {
        for effect in &mut self.effects {
            effect.of.get_or_insert(from);
        }
        self.round = if self.is_empty() { 0 } else { self.round.wrapping_add(1) };
        self
    }

    /// Returns the time of the next round of deliveries. That round is needed only if a delivery of this round is lost.
    pub fn next_at(&self) -> Option<Timestamp> {
        (!self.is_empty()).then_some(self.next_at)
    }

    /// Returns the number of rounds that have begun since the newest effect was requested.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns the number of the current round of deliveries. A refusal from an earlier round is ignored, because a
    /// later delivery may succeed. A delivery of an earlier round must stop, because the effect may have been refused
    /// in a later round.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Returns the effects that can be delivered now: the oldest effect of each lane.
    pub fn ready(&self) -> impl Iterator<Item = Effect> {
        let mut lanes = BTreeSet::new();
        self.effects.iter().copied().filter(move |effect| lanes.insert(effect.lane))
    }

    /// Returns the effects that can be delivered now, but could not be delivered with the outbox `before`.
    pub fn newly_ready(&self, before: &Self) -> Vec<Effect> {
        let known: BTreeSet<Effect> = before.ready().collect();
        self.ready().filter(|effect| !known.contains(effect)).collect()
    }

    pub(crate) fn add(&mut self, effect: Effect, now: Timestamp) {
        let soon = now.plus(limits::EFFECT_WAIT_FIRST);
        self.next_at = self.next_at().map_or(soon, |at| at.min(soon));
        self.attempts = 0;
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

    /// Moves the next round of deliveries to the shortest delay after `now` if it is further away than the longest
    /// delay. Returns `true` if the time changed.
    pub(crate) fn expedite(&mut self, now: Timestamp) -> bool {
        let soon = now.plus(limits::EFFECT_WAIT_MAX);
        let is_late = self.next_at().is_some_and(|at| at > soon);
        if is_late {
            self.next_at = now.plus(limits::EFFECT_WAIT_FIRST);
        }
        is_late
    }

    /// Begins the next round of deliveries and returns `true`, if there are pending effects. If the planned time of
    /// this round has come, or is too far in the future, plans the round after it.
    pub(crate) fn start_round(&mut self, now: Timestamp) -> bool {
        let Some(at) = self.next_at() else { return false };
        self.round = self.round.wrapping_add(1);
        // The planned time can be too far in the future if it was set while the clock was ahead.
        if at <= now || at > now.plus(limits::EFFECT_WAIT_MAX) {
            self.next_at = now.plus(wait(self.attempts));
            self.attempts = self.attempts.saturating_add(1);
        }
        true
    }
}

/// Returns the delay before the next round, given the number of rounds since the newest effect was requested.
fn wait(attempts: u32) -> Duration {
    limits::EFFECT_WAIT_FIRST.times(4_u64.saturating_pow(attempts.min(8))).min(limits::EFFECT_WAIT_MAX)
}
