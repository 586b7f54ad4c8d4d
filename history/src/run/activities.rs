//! The open activities of a run, found by their event and by their name.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Deref;

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

use super::{PendingActivity, Released};
use crate::event::EventId;

/// Open activities by their ActivityScheduled; reads like the map that it is.
///
/// Stored as that map alone: the order of names is derived from it whenever it is read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Activities {
    open: BTreeMap<EventId, PendingActivity>,
    /// A hash of each one's name, and its key in `open`, sorted: a name is found without a look at every activity. No
    /// second copy of the names, because the state is cloned for each commit (ADR 1).
    by_name: Vec<(u64, EventId)>,
}

impl Activities {
    /// The open activity with this name; the oldest, should a history have more than one.
    pub(super) fn named(&self, activity_id: &str) -> Option<(EventId, &PendingActivity)> {
        let hash = hash(activity_id);
        let first = self.by_name.partition_point(|entry| *entry < (hash, 0));
        let same = self.by_name.iter().skip(first).take_while(|(found, _)| *found == hash);
        same.filter_map(|(_, id)| self.open.get_key_value(id))
            .find(|(_, activity)| activity.activity_id == activity_id)
            .map(|(id, activity)| (*id, activity))
    }

    pub(super) fn insert(&mut self, scheduled_event_id: EventId, activity: PendingActivity) {
        self.remove(scheduled_event_id);
        let entry = (hash(&activity.activity_id), scheduled_event_id);
        if let Err(place) = self.by_name.binary_search(&entry) {
            self.by_name.insert(place, entry);
        }
        self.open.insert(scheduled_event_id, activity);
    }

    pub(super) fn remove(&mut self, scheduled_event_id: EventId) {
        if let Some(activity) = self.open.remove(&scheduled_event_id) {
            let entry = (hash(&activity.activity_id), scheduled_event_id);
            if let Ok(place) = self.by_name.binary_search(&entry) {
                self.by_name.remove(place);
            }
        }
    }

    /// Records that an activity was started, or asked to stop. Its name must stay what it is.
    pub(super) fn get_mut(&mut self, scheduled_event_id: EventId) -> Option<&mut PendingActivity> {
        self.open.get_mut(&scheduled_event_id)
    }

    /// All that no runner has wait for one from here on.
    pub(super) fn release(&mut self, released: Released) {
        for activity in self.open.values_mut().filter(|activity| activity.held_since().is_none()) {
            activity.released = Some(released);
        }
    }

    /// Nobody has any of them, and nothing of them has been tried; whoever wants may take them from here on.
    pub(super) fn begin_anew(&mut self, released: Released) {
        for activity in self.open.values_mut() {
            (activity.started_event_id, activity.started_at, activity.tries) = (None, None, None);
            activity.released = Some(released);
        }
    }

    pub(super) fn forget_tries(&mut self) {
        self.open.values_mut().for_each(|activity| activity.tries = None);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Never stored and never shown, so it may differ from one build to the next; within one it is always the same.
fn hash(activity_id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(activity_id.as_bytes());
    hasher.finish()
}

impl Deref for Activities {
    type Target = BTreeMap<EventId, PendingActivity>;

    fn deref(&self) -> &Self::Target {
        &self.open
    }
}

impl From<BTreeMap<EventId, PendingActivity>> for Activities {
    fn from(open: BTreeMap<EventId, PendingActivity>) -> Self {
        let mut by_name: Vec<_> = open.iter().map(|(id, activity)| (hash(&activity.activity_id), *id)).collect();
        by_name.sort_unstable();
        Self { open, by_name }
    }
}

impl<C> Encode<C> for Activities {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, ctx: &mut C) -> Result<(), EncodeError<W::Error>> {
        self.open.encode(e, ctx)
    }
}

impl<'b, C> Decode<'b, C> for Activities {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, DecodeError> {
        BTreeMap::decode(d, ctx).map(Self::from)
    }
}
