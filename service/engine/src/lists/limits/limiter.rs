//! Counts the running tasks of limited lists and decides whether another task may start. Pure: the caller passes the
//! time. One value has the limits of all lists of this node, because lists of a group share limits.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use history::EventId;
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use crate::base::list_reports::{LimitHold, LimitScope, LimitUse};
use crate::base::list_settings::{DomainLists, ListSettings, StartRate, TaskLimits};
use crate::lists::limits::permit::{SlotKey, TaskSlot};
use crate::lists::{ListKey, Side};

/// Time for which a list whose tasks were just counted starts none beyond its rate: its burst may have been used before
/// a restart. Our choice: the unit of the rate.
const BURST_EMPTY_FOR: Duration = Duration::from_secs(1);

/// Number of keys of a list above which idle ones are forgotten. Our choice: about 100 bytes each.
const KEYS_KEPT: usize = 1_000;

/// Time after which a node that got a task must have reported whether the task has started. After that, the run is
/// read. Our choice: longer than a commit takes while the store has errors.
const REPORT_WAIT: Duration = Duration::from_secs(10);

/// Time after which the run of a running task is read for the first time, in case the report of the task's end was
/// lost. It doubles with each further read. Our choice: most tasks end earlier, so that they cost no read.
const FIRST_CHECK_AFTER: Duration = Duration::from_secs(60);

/// Maximum time between two such reads. Our choice: a read per hour costs nothing compared with a task that long.
const CHECK_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// Rate of starts as a time: each start moves the time forward by the average pause between two starts. A start is
/// allowed while the time is at most a burst ahead of the clock.
#[derive(Debug, Clone, Copy)]
struct Pace {
    rate: StartRate,
    ahead: Instant,
}

impl Pace {
    fn new(rate: StartRate, now: Instant) -> Self {
        Self { rate, ahead: now }
    }

    /// Returns the pace with another rate. As many starts count toward it as counted toward the earlier rate, but at
    /// most a burst, so that the next start is allowed after at most one pause of the new rate.
    fn with_rate(self, rate: StartRate, now: Instant) -> Self {
        if rate == self.rate {
            return self;
        }
        let starts = self.ahead.saturating_duration_since(now).as_secs_f64() / self.pause().as_secs_f64();
        let pace = Self::new(rate, now);
        Self { ahead: now + pace.pause().mul_f64(starts.min(f64::from(rate.burst))), ..pace }
    }

    /// Returns the average time between two starts.
    fn pause(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.rate.per_second.as_f64())
    }

    /// Returns the time when the next start is allowed, which may have passed.
    fn next_at(&self) -> Instant {
        let spare = self.pause().saturating_mul(self.rate.burst.saturating_sub(1));
        self.ahead.checked_sub(spare).unwrap_or(self.ahead)
    }

    fn start(&mut self, now: Instant) {
        self.ahead = self.ahead.max(now) + self.pause();
    }

    /// Gives a start back that did not happen.
    fn give_back(&mut self) {
        self.ahead = self.ahead.checked_sub(self.pause()).unwrap_or(self.ahead);
    }

    /// Makes the burst unavailable, but the next start no later than after [`BURST_EMPTY_FOR`].
    fn empty(&mut self, now: Instant) {
        let burst = self.pause().saturating_mul(self.rate.burst);
        let latest = self.pause().saturating_mul(self.rate.burst.saturating_sub(1)) + BURST_EMPTY_FOR;
        // A pace that is further ahead, because of the starts of other lists, stays so.
        self.ahead = self.ahead.max(now + burst.min(latest));
    }
}

/// Limits with their current use.
#[derive(Debug, Default)]
struct LimitMeter {
    limits: TaskLimits,
    /// Number of slots that are held: by running tasks and by tasks that are about to start.
    running: u32,
    pace: Option<Pace>,
}

impl LimitMeter {
    fn new(limits: TaskLimits, now: Instant) -> Self {
        Self { limits, running: 0, pace: limits.rate.map(|rate| Pace::new(rate, now)) }
    }

    /// Creates a meter whose burst is not available, because it may have been used before a restart.
    fn without_burst(limits: TaskLimits, now: Instant) -> Self {
        let mut meter = Self::new(limits, now);
        if let Some(pace) = &mut meter.pace {
            pace.empty(now);
        }
        meter
    }

    /// Changes the limits. Starts so far count toward the new rate.
    fn set(&mut self, limits: TaskLimits, now: Instant) {
        self.pace = limits.rate.map(|rate| self.pace.map_or(Pace::new(rate, now), |pace| pace.with_rate(rate, now)));
        self.limits = limits;
    }

    fn check(&self, scope: impl Fn() -> LimitScope, now: Instant) -> Result<(), LimitHold> {
        if let Some(max) = self.limits.max_running.filter(|max| self.running >= *max) {
            return Err(LimitHold::Running { scope: scope(), running: self.running, max });
        }
        match self.pace.filter(|pace| pace.next_at() > now) {
            Some(pace) => Err(LimitHold::Rate { scope: scope(), rate: pace.rate, until: pace.next_at() }),
            None => Ok(()),
        }
    }

    fn start(&mut self, now: Instant) {
        self.running += 1;
        if let Some(pace) = &mut self.pace {
            pace.start(now);
        }
    }

    fn end(&mut self, has_started: bool) {
        self.running = self.running.saturating_sub(1);
        if let Some(pace) = self.pace.as_mut().filter(|_| !has_started) {
            pace.give_back();
        }
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.running == 0 && self.pace.is_none_or(|pace| pace.ahead <= now)
    }
}

/// A list with settings.
struct LimitedList {
    settings: Arc<ListSettings>,
    meter: LimitMeter,
    /// Use of the limits by key. Keys without an entry are idle.
    keys: HashMap<Arc<str>, LimitMeter>,
    /// Count of the running tasks that is in progress; `None` once they are counted.
    counting: Option<Counting>,
    /// Time at which the list must be looked at again, because a rate then allows a start.
    wakes_at: Option<Instant>,
}

/// A count of running tasks that is in progress.
struct Counting {
    /// Number of the count.
    number: u64,
    /// Slots of tasks that have ended since the count began. The count may have read their runs before.
    ended: HashSet<SlotKey>,
}

/// A slot that a task holds.
struct Slot {
    task: TaskSlot,
    /// True once a commit has started the task.
    has_started: bool,
    /// Number of the slot. A slot that is freed and taken again has another one.
    number: u64,
    /// With several nodes, the time when the run is read to find out whether the task runs.
    check_at: Instant,
    /// Number of these reads so far.
    checks: u32,
}

/// A slot whose run must be read, to find out whether its task runs.
#[derive(Debug, Clone)]
pub(crate) struct UncheckedSlot {
    pub(crate) task: TaskSlot,
    number: u64,
    had_started: bool,
}

type GroupKey = (Arc<str>, Arc<str>);

/// Limits of all lists with settings.
#[derive(Default)]
pub(crate) struct Limiter {
    lists: HashMap<ListKey, LimitedList>,
    groups: HashMap<GroupKey, LimitMeter>,
    slots: BTreeMap<SlotKey, Slot>,
    /// Number of the newest slot.
    newest_slot: u64,
    /// Domains whose limits another node counts: its home node.
    away: HashSet<Arc<str>>,
    /// With several nodes, the time until which this node may decide.
    decides_until: Option<Instant>,
    /// Number of the newest count of running tasks.
    counts: u64,
    /// Times at which lists must be looked at again.
    wakes: BTreeSet<(Instant, ListKey)>,
    /// Notified when the next of these times is earlier than before.
    pub(crate) wakes_earlier: Arc<Notify>,
}

impl Limiter {
    /// Returns true if no list has settings.
    pub(crate) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Returns true if a list has settings.
    pub(crate) fn has(&self, list: &ListKey) -> bool {
        self.lists.contains_key(list)
    }

    /// Replaces the settings of a domain. Returns the lists that may hand out tasks now. If the running tasks of some
    /// lists must be counted, returns the number of this count.
    pub(crate) fn set(
        &mut self,
        domain: &Arc<str>,
        settings: &DomainLists,
        now: Instant,
    ) -> (Vec<ListKey>, Option<u64>) {
        let mut changed: Vec<ListKey> = Vec::new();
        let mut must_count = None;
        let mut before: HashSet<ListKey> = self.lists.keys().filter(|list| list.domain == *domain).cloned().collect();
        for (name, limits) in &settings.groups {
            let key = (Arc::clone(domain), Arc::from(name.as_str()));
            self.groups.entry(key).or_insert_with(|| LimitMeter::without_burst(*limits, now)).set(*limits, now);
        }
        for (side, own) in settings.lists.iter().filter(|(_, own)| !own.is_empty()) {
            let side_of = Side::of(side.is_decider);
            let list = ListKey { domain: Arc::clone(domain), side: side_of, name: side.name.as_str().into() };
            before.remove(&list);
            match self.lists.get(&list) {
                Some(known) if *known.settings == *own => {}
                Some(_) => self.change(&list, own, now),
                None => {
                    // The home node counts the tasks of the list.
                    let number = (!self.away.contains(domain)).then(|| {
                        *must_count.get_or_insert_with(|| {
                            self.counts += 1;
                            self.counts
                        })
                    });
                    self.lists.insert(list.clone(), LimitedList::new(own, number, now));
                }
            }
            changed.push(list);
        }
        for list in before {
            self.forget(&list);
            changed.push(list);
        }
        let is_left = |name: &Arc<str>| settings.groups.contains_key(&**name);
        self.groups.retain(|(of, name), _| of != domain || is_left(name));
        (changed, must_count)
    }

    fn change(&mut self, list: &ListKey, settings: &ListSettings, now: Instant) {
        let Some(limited) = self.lists.get_mut(list) else { return };
        let before = std::mem::replace(&mut limited.settings, Arc::new(settings.clone()));
        limited.meter.set(settings.limits, now);
        for (key, meter) in &mut limited.keys {
            meter.set(settings.limits_of(key), now);
        }
        if before.group == settings.group {
            return;
        }
        // The running tasks of the list move to the new group.
        let running = limited.meter.running;
        for (group, count) in [(&before.group, 0), (&settings.group, running)] {
            let Some(group) = group else { continue };
            let Some(meter) = self.groups.get_mut(&(Arc::clone(&list.domain), Arc::from(group.as_str()))) else {
                continue;
            };
            meter.running = if count == 0 { meter.running.saturating_sub(running) } else { meter.running + count };
        }
    }

    /// Removes a list that has no settings any more.
    fn forget(&mut self, list: &ListKey) {
        let slots: Vec<SlotKey> =
            self.slots.iter().filter(|(_, slot)| slot.task.list == *list).map(|(key, _)| *key).collect();
        for slot in slots {
            self.free(slot);
        }
        if let Some(at) = self.lists.remove(list).and_then(|limited| limited.wakes_at) {
            self.wakes.remove(&(at, list.clone()));
        }
    }

    fn group_of(&self, list: &ListKey) -> Option<GroupKey> {
        let group = self.lists.get(list)?.settings.group.as_deref()?;
        Some((Arc::clone(&list.domain), group.into()))
    }

    /// Returns why no task of a list may start, whatever its key is.
    pub(crate) fn check_list(&mut self, list: &ListKey, now: Instant) -> Result<(), LimitHold> {
        let Some(limited) = self.lists.get(list) else { return Ok(()) };
        if limited.settings.paused.is_some() {
            return Err(LimitHold::Paused);
        }
        if limited.counting.is_some() || !self.decides(&list.domain, now) {
            return Err(LimitHold::Counting);
        }
        let checked = limited.meter.check(|| LimitScope::List, now).and_then(|()| {
            let Some(key) = self.group_of(list) else { return Ok(()) };
            self.groups.get(&key).map_or(Ok(()), |meter| meter.check(|| LimitScope::Group(Arc::clone(&key.1)), now))
        });
        if let Err(LimitHold::Rate { until, .. }) = &checked {
            self.wake_at(list, *until);
        }
        checked
    }

    /// Returns why no task with this key may start, apart from the limits of the whole list.
    pub(crate) fn check_key(&mut self, list: &ListKey, key: Option<&Arc<str>>, now: Instant) -> Result<(), LimitHold> {
        let (Some(limited), Some(key)) = (self.lists.get(list), key) else { return Ok(()) };
        let scope = || LimitScope::Key(Arc::clone(key));
        let checked = limited.keys.get(key).map_or(Ok(()), |meter| meter.check(scope, now));
        if let Err(LimitHold::Rate { until, .. }) = &checked {
            self.wake_at(list, *until);
        }
        checked
    }

    /// Returns the number of tasks that a key gets when its turn comes.
    pub(crate) fn weight(&self, list: &ListKey, key: Option<&Arc<str>>) -> u32 {
        let weight = |key: &Arc<str>| Some(self.lists.get(list)?.settings.weight_of(key));
        key.and_then(weight).unwrap_or(1)
    }

    /// Takes a slot for a task that leaves its list.
    pub(crate) fn take(&mut self, task: &TaskSlot, now: Instant) {
        self.hold(task, false, |meter| meter.start(now), now + REPORT_WAIT, now);
    }

    /// Records that a commit has started a task.
    pub(crate) fn started(&mut self, task: &TaskSlot, now: Instant) {
        if let Some(counting) = self.lists.get_mut(&task.list).and_then(|limited| limited.counting.as_mut()) {
            counting.ended.remove(&task.key());
        }
        // A task that has no slot may have ended: the reports of two nodes may arrive in any order.
        self.hold(task, true, |meter| meter.start(now), now, now);
    }

    /// Records a task that was found running by this count of running tasks. The task has started before, so it counts
    /// toward no rate.
    pub(crate) fn found(&mut self, number: u64, task: &TaskSlot, now: Instant) {
        let counting = self.lists.get(&task.list).and_then(|limited| limited.counting.as_ref());
        // An earlier count may have read the run before the list had its present settings, and the task may have ended
        // since.
        if counting.is_some_and(|counting| counting.number == number && !counting.ended.contains(&task.key())) {
            self.hold(task, true, |meter| meter.running += 1, now + FIRST_CHECK_AFTER, now);
        }
    }

    /// Adds a slot, and counts it in each meter with `count`. If another node counts, does nothing. With several nodes,
    /// the run is read at `check_at`.
    fn hold(
        &mut self,
        task: &TaskSlot,
        has_started: bool,
        count: impl Fn(&mut LimitMeter),
        check_at: Instant,
        now: Instant,
    ) {
        let TaskSlot { list, concurrency_key: key, .. } = task;
        let group = self.group_of(list);
        if self.away.contains(&list.domain) {
            return;
        }
        let Some(limited) = self.lists.get_mut(list) else { return };
        if let Some(held) = self.slots.get_mut(&task.key()) {
            if has_started && !held.has_started {
                (held.has_started, held.check_at) = (true, now + FIRST_CHECK_AFTER);
            }
            return;
        }
        count(&mut limited.meter);
        if let Some(key) = key {
            let meter = limited.keys.entry(Arc::clone(key));
            count(meter.or_insert_with(|| LimitMeter::new(limited.settings.limits_of(key), now)));
            if limited.keys.len() > KEYS_KEPT && limited.keys.len().is_power_of_two() {
                limited.keys.retain(|_, meter| !meter.is_idle(now));
            }
        }
        if let Some(meter) = group.and_then(|group| self.groups.get_mut(&group)) {
            count(meter);
        }
        self.newest_slot += 1;
        let (task, number) = (task.clone(), self.newest_slot);
        self.slots.insert(task.key(), Slot { task, has_started, number, check_at, checks: 0 });
    }

    /// Frees the slot of a task that has ended. Returns the lists that may hand out a task now, and the key.
    pub(crate) fn ended(&mut self, list: &ListKey, slot: SlotKey) -> Freed {
        if let Some(counting) = self.lists.get_mut(list).and_then(|limited| limited.counting.as_mut()) {
            counting.ended.insert(slot);
        }
        self.free(slot)
    }

    /// Frees a slot whose task did not start. The slot of a task that has started stays.
    pub(crate) fn give_back(&mut self, slot: SlotKey) -> Freed {
        if self.slots.get(&slot).is_some_and(|held| held.has_started) { Freed::default() } else { self.free(slot) }
    }

    /// Frees the slots of a run's tasks that are not running. Used when the state of a run is read after it was unknown
    /// whether a commit started a task.
    pub(crate) fn reconcile(&mut self, run_id: Uuid, running: &[EventId]) -> Vec<Freed> {
        let of_run = self.slots.range((run_id, 0)..=(run_id, EventId::MAX));
        let stale: Vec<SlotKey> =
            of_run.filter(|((_, id), held)| held.has_started && !running.contains(id)).map(|(slot, _)| *slot).collect();
        stale.into_iter().map(|slot| self.free(slot)).collect()
    }

    /// Marks a slot as belonging to a task that may have started.
    pub(crate) fn assume_started(&mut self, slot: SlotKey, now: Instant) {
        if let Some(held) = self.slots.get_mut(&slot) {
            (held.has_started, held.check_at) = (true, now + REPORT_WAIT);
        }
    }

    fn free(&mut self, slot: SlotKey) -> Freed {
        let Some(Slot { task, has_started, .. }) = self.slots.remove(&slot) else { return Freed::default() };
        let TaskSlot { list, concurrency_key: key, .. } = task;
        let group = self.group_of(&list);
        let Some(limited) = self.lists.get_mut(&list) else { return Freed::default() };
        limited.meter.end(has_started);
        if let Some(key) = &key
            && let Some(meter) = limited.keys.get_mut(key)
        {
            meter.end(has_started);
            if meter.running == 0 && meter.pace.is_none() {
                limited.keys.remove(key);
            }
        }
        let mut lists = vec![list.clone()];
        if let Some(group) = group
            && let Some(meter) = self.groups.get_mut(&group)
        {
            meter.end(has_started);
            let others = self.lists.iter().filter(|(other, limited)| {
                other.domain == group.0 && **other != list && limited.settings.group.as_deref() == Some(&*group.1)
            });
            lists.extend(others.map(|(other, _)| other.clone()));
        }
        Freed { list: Some(list), key, lists }
    }

    /// Ends a count of running tasks. Returns the counted lists.
    pub(crate) fn end_counting(&mut self, number: u64, now: Instant) -> Vec<ListKey> {
        let mut counted = Vec::new();
        for (list, limited) in &mut self.lists {
            if limited.counting.take_if(|counting| counting.number == number).is_some() {
                let meters = std::iter::once(&mut limited.meter).chain(limited.keys.values_mut());
                meters.filter_map(|meter| meter.pace.as_mut()).for_each(|pace| pace.empty(now));
                counted.push(list.clone());
            }
        }
        counted
    }

    fn wake_at(&mut self, list: &ListKey, at: Instant) {
        let Some(limited) = self.lists.get_mut(list) else { return };
        if limited.wakes_at.is_some_and(|known| known <= at) {
            return;
        }
        if let Some(known) = limited.wakes_at.replace(at) {
            self.wakes.remove(&(known, list.clone()));
        }
        if self.wakes.first().is_none_or(|(next, _)| at < *next) {
            self.wakes_earlier.notify_one();
        }
        self.wakes.insert((at, list.clone()));
    }

    /// Returns the next time at which a list must be looked at.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// Returns the lists that must be looked at now.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<ListKey> {
        let mut due = Vec::new();
        while let Some((at, list)) = self.wakes.pop_first() {
            if at > now {
                self.wakes.insert((at, list));
                break;
            }
            if let Some(limited) = self.lists.get_mut(&list) {
                limited.wakes_at = None;
            }
            due.push(list);
        }
        due
    }

    /// Returns the settings of a list and the use of its limits: of the list, of its group, and of its keys with the
    /// most running tasks.
    pub(crate) fn shown(&self, list: &ListKey, keys_max: usize) -> Option<(Arc<ListSettings>, Vec<LimitUse>)> {
        let limited = self.lists.get(list)?;
        let own = LimitUse { scope: LimitScope::List, limits: limited.meter.limits, running: limited.meter.running };
        let mut uses = vec![own];
        if let Some(key) = self.group_of(list)
            && let Some(meter) = self.groups.get(&key)
        {
            uses.push(LimitUse { scope: LimitScope::Group(key.1), limits: meter.limits, running: meter.running });
        }
        let mut keys: Vec<LimitUse> = limited
            .keys
            .iter()
            .map(|(key, meter)| LimitUse {
                scope: LimitScope::Key(Arc::clone(key)),
                limits: meter.limits,
                running: meter.running,
            })
            .collect();
        keys.sort_by(|one, other| (other.running, &one.scope).cmp(&(one.running, &other.scope)));
        keys.truncate(keys_max);
        uses.extend(keys);
        Some((Arc::clone(&limited.settings), uses))
    }

    /// Returns the settings of a list, if it has any.
    pub(crate) fn settings(&self, list: &ListKey) -> Option<Arc<ListSettings>> {
        self.lists.get(list).map(|limited| Arc::clone(&limited.settings))
    }

    /// Adds the domain's lists with settings to `to`.
    pub(crate) fn add_lists(&self, domain: &str, to: &mut BTreeSet<(Arc<str>, Side)>) {
        let lists = self.lists.keys().filter(|list| &*list.domain == domain);
        to.extend(lists.map(|list| (Arc::clone(&list.name), list.side)));
    }

    /// Returns true while the running tasks of a list are being counted.
    pub(crate) fn is_counting(&self, list: &ListKey) -> bool {
        self.lists.get(list).is_some_and(|limited| limited.counting.is_some())
    }

    /// Returns each limited list with its number of running tasks, and the maximum if the list has one.
    pub(crate) fn running(&self) -> Vec<(ListKey, u32, Option<u32>)> {
        let of = |(list, limited): (&ListKey, &LimitedList)| {
            (list.clone(), limited.meter.running, limited.meter.limits.max_running)
        };
        self.lists.iter().filter(|(list, _)| !self.away.contains(&list.domain)).map(of).collect()
    }

    /// Returns the keys of a list of which no task may start now because of their own limits.
    pub(crate) fn held_keys(&self, list: &ListKey, now: Instant) -> Vec<Arc<str>> {
        let keys = self.lists.get(list).into_iter().flat_map(|limited| &limited.keys);
        let held = keys.filter(|(key, meter)| meter.check(|| LimitScope::Key(Arc::clone(key)), now).is_err());
        held.map(|(key, _)| Arc::clone(key)).collect()
    }

    /// Returns the reasons why a task with this key may not start now: of the list, then of the group, then of the key.
    pub(crate) fn holds(&self, list: &ListKey, key: Option<&Arc<str>>, now: Instant) -> Vec<LimitHold> {
        let Some(limited) = self.lists.get(list) else { return Vec::new() };
        let mut holds = Vec::new();
        if limited.settings.paused.is_some() {
            holds.push(LimitHold::Paused);
        }
        if limited.counting.is_some() || !self.decides(&list.domain, now) {
            holds.push(LimitHold::Counting);
        }
        holds.extend(limited.meter.check(|| LimitScope::List, now).err());
        if let Some(group) = self.group_of(list) {
            let meter = self.groups.get(&group);
            holds.extend(meter.and_then(|meter| meter.check(|| LimitScope::Group(Arc::clone(&group.1)), now).err()));
        }
        if let Some(key) = key {
            let meter = limited.keys.get(key);
            holds.extend(meter.and_then(|meter| meter.check(|| LimitScope::Key(Arc::clone(key)), now).err()));
        }
        holds
    }
}

impl LimitedList {
    /// Creates a list. If its running tasks must be counted, `count` is the number of the count.
    fn new(settings: &ListSettings, count: Option<u64>, now: Instant) -> Self {
        Self {
            settings: Arc::new(settings.clone()),
            meter: LimitMeter::new(settings.limits, now),
            keys: HashMap::new(),
            counting: count.map(|number| Counting { number, ended: HashSet::new() }),
            wakes_at: None,
        }
    }
}

/// Limits with several nodes: of each domain, one node counts and decides, its home node.
impl Limiter {
    /// Returns true if this node decides about the lists of a domain.
    fn decides(&self, domain: &Arc<str>, now: Instant) -> bool {
        !self.away.contains(domain) && self.decides_until.is_none_or(|until| now < until)
    }

    /// Returns true if a list is limited and another node decides.
    pub(crate) fn is_away(&self, list: &ListKey) -> bool {
        self.away.contains(&list.domain) && self.has(list)
    }

    /// Returns true if another node decides about the lists of a domain.
    pub(crate) fn has_away(&self, domain: &str) -> bool {
        self.away.contains(domain)
    }

    /// Sets the time until which this node may decide. Returns true if the previous time had passed.
    pub(crate) fn decide_until(&mut self, until: Option<Instant>, now: Instant) -> bool {
        let had_passed = self.decides_until.is_some_and(|until| until <= now);
        self.decides_until = until;
        had_passed
    }

    /// Returns the domains with limited lists.
    pub(crate) fn domains(&self) -> BTreeSet<Arc<str>> {
        self.lists.keys().map(|list| Arc::clone(&list.domain)).collect()
    }

    /// Returns all limited lists of a domain.
    pub(crate) fn lists_of(&self, domain: &str) -> Vec<ListKey> {
        self.lists.keys().filter(|list| &*list.domain == domain).cloned().collect()
    }

    /// Sets whether another node decides about the lists of a domain. If this node begins to decide, returns the number
    /// of the count of running tasks that must precede.
    pub(crate) fn set_away(&mut self, domain: &Arc<str>, is_away: bool, now: Instant) -> Option<u64> {
        let was_away = if is_away { !self.away.insert(Arc::clone(domain)) } else { self.away.remove(domain) };
        if was_away == is_away {
            return None;
        }
        let number = (!is_away).then(|| {
            self.counts += 1;
            self.counts
        });
        self.slots.retain(|_, slot| slot.task.list.domain != *domain);
        for (_, meter) in self.groups.iter_mut().filter(|((of, _), _)| of == domain) {
            *meter = LimitMeter::without_burst(meter.limits, now);
        }
        for (_, limited) in self.lists.iter_mut().filter(|(list, _)| list.domain == *domain) {
            let wakes_at = limited.wakes_at;
            *limited = LimitedList { wakes_at, ..LimitedList::new(&limited.settings, number, now) };
        }
        number.filter(|_| self.lists.keys().any(|list| list.domain == *domain))
    }

    /// Has the runs of all slots read soon, because reports of a node that has gone may be lost.
    pub(crate) fn check_all(&mut self, now: Instant) {
        for slot in self.slots.values_mut() {
            slot.check_at = slot.check_at.min(now + REPORT_WAIT);
        }
    }

    /// Returns slots whose runs must be read now, at most `most` of them. They are not returned again for some time.
    pub(crate) fn take_unchecked(&mut self, now: Instant, most: usize) -> Vec<UncheckedSlot> {
        let due = self.slots.values_mut().filter(|slot| slot.check_at <= now).take(most);
        let take = |slot: &mut Slot| {
            slot.check_at = now + FIRST_CHECK_AFTER.saturating_mul(1 << slot.checks.min(6)).min(CHECK_AFTER_MAX);
            slot.checks += 1;
            UncheckedSlot { task: slot.task.clone(), number: slot.number, had_started: slot.has_started }
        };
        due.map(take).collect()
    }

    /// Applies the result of reading the run of a slot. Frees the slot if its task does not run.
    pub(crate) fn checked(&mut self, slot: &UncheckedSlot, runs: bool) -> Freed {
        let key = slot.task.key();
        match self.slots.get_mut(&key) {
            // The slot was freed and taken again, or its task was started, after the run was read.
            Some(held) if held.number != slot.number || held.has_started != slot.had_started => Freed::default(),
            Some(held) if runs => {
                held.has_started = true;
                Freed::default()
            }
            Some(_) => self.free(key),
            None => Freed::default(),
        }
    }
}

/// A slot that was freed.
#[derive(Debug, Default)]
pub(crate) struct Freed {
    /// List of the slot; `None` if nothing was freed.
    pub(crate) list: Option<ListKey>,
    /// Key of the slot.
    pub(crate) key: Option<Arc<str>>,
    /// Lists that may hand out a task now: the list of the slot, and the others of its group.
    pub(crate) lists: Vec<ListKey>,
}
