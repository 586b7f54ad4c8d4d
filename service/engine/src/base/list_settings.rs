//! What operators configure for a task list.

use std::collections::BTreeMap;

pub use history::limits::LIMITED_KEYS_MAX;
use history::{Factor, Fault, ListStop, ListStops, StoppedLists, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Limited, Refusal};

/// Maximum number of lists of a domain with settings. Our choice: the settings of a domain are one record in the store,
/// and in memory.
pub const LISTS_WITH_SETTINGS_MAX: usize = 200;

/// Maximum number of lists of a domain that are paused with stopped clocks, or were so in the last 30 days. Our choice,
/// as for [`LISTS_WITH_SETTINGS_MAX`].
pub const STOPPED_LISTS_MAX: usize = 200;

/// Maximum number of groups of a domain. Our choice, as for [`LISTS_WITH_SETTINGS_MAX`].
pub const LIMIT_GROUPS_MAX: usize = 50;

/// Maximum of `maxRunning`. Our choice: as many tasks are counted in memory.
pub const MAX_RUNNING_MAX: u32 = 100_000;

/// Maximum of a rate per second. Our choice: more than one machine starts.
pub const PER_SECOND_MAX: u32 = 1_000_000;

/// [`PER_SECOND_MAX`] as a rate.
pub const RATE_MAX: Factor = Factor::from_thousandths(PER_SECOND_MAX * 1_000);

/// Minimum of a rate per second: one start in about a day. Our choice.
pub const RATE_MIN: Factor = Factor::from_thousandths(1);

/// Maximum burst of a rate. Our choice, as for [`RATE_MAX`].
pub const BURST_MAX: u32 = 1_000_000;

/// Maximum weight of a key. Our choice: a key with this weight may get 100 tasks before the next key gets one.
pub const KEY_WEIGHT_MAX: u32 = 100;

/// Rate at which tasks may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartRate {
    /// Average number of starts per second.
    pub per_second: Factor,
    /// Number of starts that may happen at once after a pause without starts.
    pub burst: u32,
}

impl StartRate {
    /// Creates a rate. By default, the burst is the rate per second, rounded up.
    pub fn new(per_second: Factor, burst: Option<u32>) -> Self {
        let burst = burst.unwrap_or_else(|| per_second.thousandths().div_ceil(1_000).max(1));
        Self { per_second, burst }
    }
}

/// Limits on tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskLimits {
    /// Maximum number of tasks at runners or deciders at once; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u32>,
    /// Maximum rate of starts; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<StartRate>,
}

impl TaskLimits {
    /// Returns true if nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn validate(&self, field: &str) -> Result<(), Fault> {
        let invalid = |part: &str, problem: String| Err(Fault::Invalid { field: format!("{field}{part}"), problem });
        if let Some(max) = self.max_running.filter(|max| !(1..=MAX_RUNNING_MAX).contains(max)) {
            let problem =
                format!("is {max}; expected 1 to {MAX_RUNNING_MAX}. To start no tasks at all, pause the list");
            return invalid("maxRunning", problem);
        }
        let Some(rate) = self.rate else { return Ok(()) };
        if !(RATE_MIN..=RATE_MAX).contains(&rate.per_second) {
            let (min, max) = (RATE_MIN.as_f64(), RATE_MAX.as_f64());
            let problem = format!("is {}; expected {min} to {max}", rate.per_second.as_f64());
            return invalid("rate.perSecond", problem);
        }
        if !(1..=BURST_MAX).contains(&rate.burst) {
            return invalid("rate.burst", format!("is {}; expected 1 to {BURST_MAX}", rate.burst));
        }
        Ok(())
    }
}

/// Limits and weight of a single key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeySettings {
    /// Limits of the key, instead of those that apply to each key.
    #[serde(flatten)]
    pub limits: TaskLimits,
    /// Number of tasks of this key that the list hands out before it continues with the next key; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
}

/// Pause of a list. Tasks wait on the list, and none starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListPause {
    /// Reason that the operator gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Identity that the operator gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Name of the operator's credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Time when the list was paused.
    pub since: Timestamp,
    /// True if the schedule-to-start timeouts of waiting tasks are stopped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop_clocks: bool,
}

/// Settings of one side of a task list: of its deciders or of its runners.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListSettings {
    /// Limits of all tasks of the list together.
    #[serde(flatten)]
    pub limits: TaskLimits,
    /// Limits of the tasks of each concurrency key.
    #[serde(default, skip_serializing_if = "TaskLimits::is_empty")]
    pub per_key: TaskLimits,
    /// Limits and weights of single keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<String, KeySettings>,
    /// Name of the group whose limits the list shares with other lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Pause of the list; `None` if it is not paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<ListPause>,
}

impl ListSettings {
    /// Returns true if the settings have no effect.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the limits of a key.
    pub fn limits_of(&self, key: &str) -> TaskLimits {
        self.keys.get(key).map(|own| own.limits).filter(|limits| !limits.is_empty()).unwrap_or(self.per_key)
    }

    /// Returns the number of tasks that a key gets when its turn comes.
    pub fn weight_of(&self, key: &str) -> u32 {
        self.keys.get(key).and_then(|own| own.weight).unwrap_or(1)
    }

    /// Validates the settings, apart from the existence of the group.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] or [`Fault::TooLarge`] with the name of the field.
    pub fn validate(&self) -> Result<(), Fault> {
        self.limits.validate("")?;
        self.per_key.validate("perKey.")?;
        let found = self.keys.len();
        if found > LIMITED_KEYS_MAX {
            let problem = format!("has {found} keys, at most {LIMITED_KEYS_MAX} are allowed");
            return Err(Fault::Invalid { field: "limits".to_owned(), problem });
        }
        for (key, own) in &self.keys {
            let field = format!("limits[{key}]");
            history::admit::check_name(&format!("{field}.key"), key)?;
            own.limits.validate(&format!("{field}."))?;
            if let Some(weight) = own.weight.filter(|weight| !(1..=KEY_WEIGHT_MAX).contains(weight)) {
                let problem = format!("is {weight}; expected 1 to {KEY_WEIGHT_MAX}");
                return Err(Fault::Invalid { field: format!("{field}.weight"), problem });
            }
        }
        self.group.as_deref().map_or(Ok(()), |group| history::admit::check_name("group", group))
    }
}

/// Name of one side of a list in the settings of its domain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ListSide {
    /// Name of the list.
    pub name: String,
    /// True for the list's deciders, false for its runners.
    pub is_decider: bool,
}

/// Settings of all lists of a domain, as stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainLists {
    /// Settings by list.
    #[serde(default, with = "as_pairs")]
    pub lists: BTreeMap<ListSide, ListSettings>,
    /// Limits that the lists of a group share, by the group's name.
    #[serde(default)]
    pub groups: BTreeMap<String, TaskLimits>,
    /// Past pauses that stopped the schedule-to-start timeouts of waiting tasks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "as_pairs")]
    pub stops: BTreeMap<ListSide, Vec<ListStop>>,
}

impl DomainLists {
    /// Returns the past and current pauses that stop the schedule-to-start timeouts of waiting tasks.
    pub fn stopped(&self) -> StoppedLists {
        let stopped_at = |own: &ListSettings| own.paused.as_ref().filter(|it| it.stop_clocks).map(|it| it.since);
        let mut stopped = StoppedLists::default();
        let paused = self.lists.iter().filter(|(_, own)| stopped_at(own).is_some()).map(|(list, _)| list);
        for list in self.stops.keys().chain(paused) {
            let past = self.stops.get(list).map(Vec::as_slice).unwrap_or_default();
            let of_side = if list.is_decider { &mut stopped.deciders } else { &mut stopped.activities };
            of_side.insert(list.name.clone(), ListStops::new(past, self.lists.get(list).and_then(stopped_at)));
        }
        stopped
    }

    /// Returns the number of lists that were or are paused with stopped clocks.
    pub(crate) fn stopped_lists(&self) -> usize {
        let StoppedLists { deciders, activities } = self.stopped();
        deciders.len() + activities.len()
    }

    /// Ends a pause. If clocks were stopped, records the pause as a past one.
    pub(crate) fn end_pause(&mut self, list: &ListSide, pause: &ListPause, now: Timestamp) {
        if pause.stop_clocks {
            history::add_list_stop(self.stops.entry(list.clone()).or_default(), pause.since, now);
        }
    }

    /// Removes past pauses that ended long ago.
    pub(crate) fn forget_old_stops(&mut self, now: Timestamp) {
        self.stops.retain(|_, past| {
            past.retain(|stop| now.since(stop.to) <= history::limits::LIST_STOPS_KEPT);
            !past.is_empty()
        });
    }
}

impl DomainLists {
    /// Replaces the limits of the lists and groups that `configured` names. Pauses stay.
    pub(crate) fn replace_limits(&mut self, configured: &Self) {
        self.groups.extend(configured.groups.iter().map(|(name, limits)| (name.clone(), *limits)));
        for (list, own) in &configured.lists {
            let known = self.lists.entry(list.clone()).or_default();
            *known = ListSettings { paused: known.paused.take(), ..own.clone() };
        }
        self.remove_empty();
    }

    /// Removes settings without an effect.
    pub(crate) fn remove_empty(&mut self) {
        self.lists.retain(|_, own| !own.is_empty());
    }

    /// Returns the part of these limits that differs from the stored ones.
    pub(crate) fn differing_from(&self, stored: &Self) -> Self {
        let none = ListSettings::default();
        let differs = |list: &ListSide, own: &ListSettings| {
            let known = stored.lists.get(list).unwrap_or(&none);
            ListSettings { paused: known.paused.clone(), ..own.clone() } != *known
        };
        let lists = self.lists.iter().filter(|(list, own)| differs(list, own));
        let groups = self.groups.iter().filter(|(name, limits)| stored.groups.get(*name) != Some(*limits));
        Self {
            lists: lists.map(|(list, own)| (list.clone(), own.clone())).collect(),
            groups: groups.map(|(name, limits)| (name.clone(), *limits)).collect(),
            ..Self::default()
        }
    }

    /// Returns true if nothing is set.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty() && self.groups.is_empty()
    }

    /// Validates the number of lists with settings and of groups.
    ///
    /// # Errors
    ///
    /// [`Refusal::LimitExceeded`].
    pub fn check_counts(&self) -> Result<(), Refusal> {
        if self.lists.len() > LISTS_WITH_SETTINGS_MAX {
            return Err(Refusal::LimitExceeded { what: Limited::ListSettings, max: LISTS_WITH_SETTINGS_MAX });
        }
        if self.groups.len() > LIMIT_GROUPS_MAX {
            return Err(Refusal::LimitExceeded { what: Limited::LimitGroups, max: LIMIT_GROUPS_MAX });
        }
        Ok(())
    }
}

/// JSON has only text as keys of an object, so the settings are stored as a list of pairs.
mod as_pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::ListSide;

    pub(super) fn serialize<S: Serializer, T: Serialize>(
        lists: &BTreeMap<ListSide, T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        lists.iter().collect::<Vec<_>>().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<ListSide, T>, D::Error> {
        Ok(Vec::<(ListSide, T)>::deserialize(deserializer)?.into_iter().collect())
    }
}

impl TaskLimits {
    /// Validates the limits of a group.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] with the name of the field. A group without limits is invalid.
    pub fn validate_group(&self) -> Result<(), Fault> {
        if self.is_empty() {
            let problem = "is absent; a group needs `maxRunning` or `rate`".to_owned();
            return Err(Fault::Invalid { field: "maxRunning".to_owned(), problem });
        }
        self.validate("")
    }
}
