//! Open activities of a run, indexed by the id of their ActivityScheduled event and by activity id.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

use super::{Attempts, Fingerprint, PausedActivity, PendingActivity, Released};
use crate::event::{ActivityTimeouts, EventId};
use crate::retry::RetryPolicy;
use crate::time::Timestamp;

/// Open activities by the id of their ActivityScheduled event. Dereferences to a map.
///
/// A thousand open activities usually have few types. In the stored form, attributes that many activities share
/// (`ActivityKind`) are therefore stored only once, before the map. The index by activity id is not stored. It is
/// rebuilt when the state is read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Activities {
    /// The activities are reference-counted, so that the states before and after a commit share all activities that the
    /// commit does not change. Most commits change at most one activity.
    open: BTreeMap<EventId, Arc<PendingActivity>>,
    /// Index by activity id, sorted: the hash of each id, with the activity's key in `open`. It contains hashes instead
    /// of ids to make copies cheap, because the state is cloned for each commit (ADR 1).
    by_name: Vec<(u64, EventId)>,
}

impl Activities {
    /// Returns `true` if no activity is open. The field is then not stored.
    pub(crate) fn is_nothing(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the open activity with this id. If an invalid history has several such activities, returns the oldest.
    pub(crate) fn named(&self, activity_id: &str) -> Option<(EventId, &PendingActivity)> {
        let hash = hash(activity_id);
        let first = self.by_name.partition_point(|entry| *entry < (hash, 0));
        let same = self.by_name.iter().skip(first).take_while(|(found, _)| *found == hash);
        same.filter_map(|(_, id)| self.open.get_key_value(id))
            .find(|(_, activity)| activity.activity_id == activity_id)
            .map(|(id, activity)| (*id, activity.as_ref()))
    }

    pub(crate) fn insert(&mut self, scheduled_event_id: EventId, activity: PendingActivity) {
        self.remove(scheduled_event_id);
        let entry = (hash(&activity.activity_id), scheduled_event_id);
        if let Err(place) = self.by_name.binary_search(&entry) {
            self.by_name.insert(place, entry);
        }
        self.open.insert(scheduled_event_id, Arc::new(activity));
    }

    pub(crate) fn remove(&mut self, scheduled_event_id: EventId) {
        if let Some(activity) = self.open.remove(&scheduled_event_id) {
            let entry = (hash(&activity.activity_id), scheduled_event_id);
            if let Ok(place) = self.by_name.binary_search(&entry) {
                self.by_name.remove(place);
            }
        }
    }

    /// Returns an activity, to modify it. Its activity id must not be changed, because the index depends on it.
    pub(crate) fn get_mut(&mut self, scheduled_event_id: EventId) -> Option<&mut PendingActivity> {
        self.open.get_mut(&scheduled_event_id).map(Arc::make_mut)
    }

    /// Restarts the wait for a runner of all activities without an ActivityStarted event. They include activities that
    /// a runner holds in an attempt that has recorded no event. Such an attempt is ignored, because the state must be
    /// derivable from the history.
    pub(crate) fn release(&mut self, released: Released) {
        for activity in self.open.values_mut().filter(|activity| activity.started_at.is_none()) {
            Arc::make_mut(activity).release(released);
        }
    }

    /// Applies a repair of deadlines: moves all times that are after `at` back to `at`.
    pub(crate) fn limit_times(&mut self, at: Timestamp) {
        for activity in self.open.values_mut().map(Arc::make_mut) {
            activity.limit_times(at);
        }
    }

    /// Removes the pauses of all activities.
    pub(crate) fn without_pauses(&mut self) {
        for activity in self.open.values_mut().filter(|activity| activity.paused.is_some()).map(Arc::make_mut) {
            activity.paused = None;
        }
    }

    /// Makes all activities wait for a runner, with no attempts made.
    pub(crate) fn reset_to_waiting(&mut self, released: Released) {
        for activity in self.open.values_mut().map(Arc::make_mut) {
            (activity.started_event_id, activity.started_at, activity.attempts) = (None, None, None);
            activity.released = Some(released);
        }
    }

    /// Removes everything that cannot always be derived from the history.
    pub(crate) fn keep_history_derived(&mut self) {
        let has_extra = |activity: &PendingActivity| activity.attempts.is_some() || activity.fingerprint.is_some();
        for activity in self.open.values_mut().filter(|activity| has_extra(activity)).map(Arc::make_mut) {
            (activity.attempts, activity.fingerprint) = (None, None);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the attempts of all activities, to modify them.
    pub(crate) fn attempts_mut(&mut self) -> impl Iterator<Item = &mut Attempts> {
        let retriable = self.open.values_mut().filter(|activity| activity.attempts.is_some());
        retriable.filter_map(|activity| Arc::make_mut(activity).attempts.as_deref_mut())
    }
}

/// Attributes that activities of the same type usually share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
struct ActivityKind<T, L, R> {
    #[n(0)]
    activity_type: T,
    #[n(1)]
    task_list: L,
    #[n(2)]
    timeouts: ActivityTimeouts,
    #[n(3)]
    retry: R,
    #[n(4)]
    task_priority: Option<i32>,
}

/// Attributes that differ between activities.
#[derive(Encode, Decode)]
struct Own<I, T, P, K> {
    #[n(0)]
    activity_id: I,
    #[n(1)]
    kind: u32,
    #[n(2)]
    scheduled_at: Timestamp,
    #[n(3)]
    started_event_id: Option<EventId>,
    #[n(4)]
    started_at: Option<Timestamp>,
    #[n(5)]
    cancel_event_id: Option<EventId>,
    #[n(6)]
    attempts: T,
    #[n(7)]
    paused: P,
    #[n(8)]
    released: Option<Released>,
    #[n(9)]
    fingerprint: Option<Fingerprint>,
    #[n(10)]
    concurrency_key: K,
}

impl PendingActivity {
    fn in_common(&self) -> ActivityKind<&str, &str, Option<&RetryPolicy>> {
        ActivityKind {
            activity_type: &self.activity_type,
            task_list: &self.task_list,
            timeouts: self.timeouts,
            retry: self.retry.as_ref(),
            task_priority: self.task_priority,
        }
    }

    /// Returns the stored form of the shared attributes.
    pub(crate) fn kind(&self) -> Vec<u8> {
        minicbor::to_vec(self.in_common()).expect("writing to memory does not fail")
    }
}

/// Returns a hash of an activity id. It is used only in memory, so it may differ between builds.
fn hash(activity_id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(activity_id.as_bytes());
    hasher.finish()
}

impl Deref for Activities {
    type Target = BTreeMap<EventId, Arc<PendingActivity>>;

    fn deref(&self) -> &Self::Target {
        &self.open
    }
}

impl From<BTreeMap<EventId, Arc<PendingActivity>>> for Activities {
    fn from(open: BTreeMap<EventId, Arc<PendingActivity>>) -> Self {
        let mut by_name: Vec<_> = open.iter().map(|(id, activity)| (hash(&activity.activity_id), *id)).collect();
        by_name.sort_unstable();
        Self { open, by_name }
    }
}

impl<C> Encode<C> for Activities {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, ctx: &mut C) -> Result<(), EncodeError<W::Error>> {
        let (mut kinds, mut places) = (Vec::new(), HashMap::new());
        let mut own = Vec::with_capacity(self.open.len());
        for (id, activity) in &self.open {
            let kind = activity.in_common();
            let place = *places.entry(kind).or_insert_with(|| {
                kinds.push(kind);
                u32::try_from(kinds.len() - 1).unwrap_or(u32::MAX)
            });
            own.push((id, place, activity));
        }
        e.array(2)?.encode_with(kinds, ctx)?.map(own.len() as u64)?;
        for (id, kind, activity) in own {
            let own = Own {
                activity_id: activity.activity_id.as_str(),
                kind,
                scheduled_at: activity.scheduled_at,
                started_event_id: activity.started_event_id,
                started_at: activity.started_at,
                cancel_event_id: activity.cancel_event_id,
                attempts: activity.attempts.as_ref(),
                paused: activity.paused.as_ref(),
                released: activity.released,
                fingerprint: activity.fingerprint,
                concurrency_key: activity.concurrency_key.as_deref(),
            };
            e.u64(*id)?.encode_with(own, ctx)?;
        }
        e.ok()
    }
}

impl<'b, C> Decode<'b, C> for Activities {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, DecodeError> {
        let garbled = || DecodeError::message("invalid stored activities");
        if d.array()? != Some(2) {
            return Err(garbled());
        }
        let kinds = Vec::<ActivityKind<String, String, Option<RetryPolicy>>>::decode(d, ctx)?;
        let count = d.map()?.ok_or_else(garbled)?;
        let mut open = BTreeMap::new();
        for _ in 0..count {
            let id = d.u64()?;
            let own =
                Own::<String, Option<Box<Attempts>>, Option<Box<PausedActivity>>, Option<String>>::decode(d, ctx)?;
            let kind = usize::try_from(own.kind).ok().and_then(|place| kinds.get(place)).ok_or_else(garbled)?;
            let activity = PendingActivity {
                activity_id: own.activity_id,
                activity_type: kind.activity_type.clone(),
                task_list: kind.task_list.clone(),
                scheduled_at: own.scheduled_at,
                timeouts: kind.timeouts,
                started_event_id: own.started_event_id,
                started_at: own.started_at,
                cancel_event_id: own.cancel_event_id,
                retry: kind.retry.clone(),
                attempts: own.attempts,
                paused: own.paused,
                released: own.released,
                fingerprint: own.fingerprint,
                task_priority: kind.task_priority,
                concurrency_key: own.concurrency_key,
            };
            open.insert(id, Arc::new(activity));
        }
        Ok(Self::from(open))
    }
}
