//! Nodes that share a store: which nodes are alive, and which node is the home of each shard of the due index.
//!
//! Knowing the live nodes only avoids unnecessary work. It is not needed for correctness, because every commit is
//! fenced by the version of its run. If two nodes both consider themselves the home of a shard, the only consequence is
//! an occasional conflict between their commits.

pub(super) mod messages;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use store::{Cas, Head};
use tokio::sync::Notify;
use tokio::time::Instant;

use history::Timestamp;

use crate::base::clock::CLOCK_MOVED_MIN;
use crate::base::records::Records;
use crate::{Clock, Refusal};

/// Interval of heartbeats. Our choice: the runs of a failed node must continue within six seconds, or within eight if
/// the store has errors at the same time. The failure is detected after three missed heartbeats, plus one interval
/// until all nodes have seen the last heartbeat.
pub(crate) const BEAT_EVERY: Duration = Duration::from_secs(1);

/// Time without a new heartbeat, measured by the observing node's clock, after which a node is considered dead. Our
/// choice: three heartbeats; see [`BEAT_EVERY`].
const DEAD_AFTER: Duration = Duration::from_secs(3);

/// Time after which a dead node is removed from the record in the store. Our choice.
const FORGET_AFTER: Duration = Duration::from_secs(60);

/// Time after the start of a heartbeat for which this node may decide about the limits of task lists. Our choice:
/// shorter than [`DEAD_AFTER`] by an interval of heartbeats, so that this node has stopped deciding before another node
/// begins.
pub(crate) const DECIDES_FOR: Duration = Duration::from_secs(2);

/// Time for which a new home node of task lists waits before it counts their running tasks. The previous home node has
/// stopped after [`DECIDES_FOR`], and all nodes know the new one. Our choice: as long as nodes may consider a node
/// dead.
pub(crate) const HOME_SETTLES_AFTER: Duration = DEAD_AFTER;

/// Maximum number of attempts to write a heartbeat. An attempt fails if it conflicts with another write or the store
/// does not accept it. Our choice: if all attempts fail, the next heartbeat follows soon anyway.
const BEAT_TRIES: u32 = 8;

/// Delay after an attempt to write a heartbeat that the store did not accept. Our choice: short, because other nodes
/// depend on the heartbeat.
const BEAT_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Identity of this node among several nodes that share a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// URL at which the other nodes reach this node, e.g. `http://10.0.0.7:7420`. It also identifies the node.
    pub address: String,
}

/// Heartbeat of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Pulse {
    /// Random number that the process chose when it started. It distinguishes restarts at the same address.
    boot: u64,
    /// Number of heartbeats that the process has sent.
    count: u64,
}

/// Maximum number of nodes per record in the store. Further nodes use another record. Our choice: a record of eight
/// nodes takes one write unit, and eight heartbeats per second rarely conflict. With one record for all, each of a
/// hundred nodes used 23 write units per second (docs/scale.md).
const GROUP: usize = 8;

/// Number of heartbeats after which a node checks whether another record was added. If the last known record is full,
/// the node checks with each heartbeat instead. Our choice: a new record is found late only if it was added just before
/// a node left the last known record.
const SEARCH_RECORDS_EVERY: u64 = 10;

/// Returns the name of a record of nodes in the store.
fn record_name(group: usize) -> String {
    if group == 0 { "nodes".to_owned() } else { format!("nodes-{group}") }
}

/// Version of this node's build.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Entry of a node in a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct NodeEntry {
    #[serde(flatten)]
    pulse: Pulse,
    /// Version of the node. Absent if an older node, which does not know this field, has rewritten the record since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Time that the node's clock showed at the heartbeat, in seconds since 1970. The stored names `at` and `tz` are
    /// short, so that a record of [`GROUP`] nodes takes one write unit.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "at")]
    clock: Option<u64>,
    /// Version of the node's time-zone tables.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "tz")]
    zones: Option<String>,
    /// Number of changes of task list settings that the process has made. If it increases, the other nodes read the
    /// settings again.
    #[serde(default, skip_serializing_if = "is_zero", rename = "ls")]
    list_changes: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A record in the store: entries of nodes, each under the node's address.
type NodesRecord = BTreeMap<String, NodeEntry>;

/// The newest heartbeat of a node, and the time when this node first saw it.
#[derive(Debug, Clone, Copy)]
struct SeenHeartbeat {
    beat: Pulse,
    since: Instant,
}

/// The known records of nodes in the store.
#[derive(Debug, Clone, Copy, Default)]
struct Groups {
    /// Number of the record that contains this node's entry.
    own: Option<usize>,
    /// Number of known records.
    known: usize,
    /// True if the last known record is full.
    is_full: bool,
    beats: u64,
}

/// Nodes that share the store.
pub struct Nodes {
    records: Records,
    me: Option<(Node, u64)>,
    /// Live nodes including this one, each with the random number of its process.
    alive: RwLock<Vec<(String, u64)>>,
    seen: Mutex<BTreeMap<String, SeenHeartbeat>>,
    /// Versions of live nodes, as far as they are known.
    versions: RwLock<BTreeMap<String, String>>,
    groups: Mutex<Groups>,
    /// Differences between the clocks of other nodes and this node's clock that exceed [`CLOCK_MOVED_MIN`].
    clocks_apart: RwLock<BTreeMap<String, history::Duration>>,
    clock: Arc<dyn Clock>,
    /// Versions of the time-zone tables of other nodes that differ from the version of this node.
    other_zones: RwLock<BTreeMap<String, String>>,
    /// Start of this node's last successful heartbeat.
    beaten: Mutex<Option<Instant>>,
    /// Number of changes of task list settings that this process has made.
    list_changes: AtomicU64,
    /// Changes of task list settings that other processes have made, as far as this node has seen them: by address, the
    /// random number of the process and the number of its changes.
    seen_list_changes: Mutex<BTreeMap<String, (u64, u64)>>,
    /// True if other nodes have changed task list settings that this node has not read since.
    has_list_changes: AtomicBool,
    /// Notified when other nodes have joined or left.
    pub(crate) changed: Notify,
}

impl Nodes {
    pub(crate) fn new(records: Records, me: Option<Node>, boot: u64, clock: Arc<dyn Clock>) -> Self {
        let alive = me.iter().map(|node| (node.address.clone(), boot)).collect();
        let me = me.map(|node| (node, boot));
        let (alive, seen, beaten) = (RwLock::new(alive), Mutex::default(), Mutex::default());
        let (groups, versions) = (Mutex::default(), RwLock::default());
        let (clocks_apart, other_zones) = (RwLock::default(), RwLock::default());
        Self {
            other_zones,
            records,
            me,
            alive,
            seen,
            versions,
            clocks_apart,
            clock,
            groups,
            beaten,
            list_changes: AtomicU64::default(),
            seen_list_changes: Mutex::default(),
            has_list_changes: AtomicBool::default(),
            changed: Notify::new(),
        }
    }

    /// Returns true if other nodes may use the same store.
    pub fn is_shared(&self) -> bool {
        self.me.is_some()
    }

    /// Returns the addresses of all live nodes including this one; empty if the store is not shared.
    pub fn alive(&self) -> Vec<String> {
        let alive = self.alive.read().expect("no code panics while it holds this lock");
        alive.iter().map(|(address, _)| address.clone()).collect()
    }

    /// Returns the version of each live node, if known; empty if the store is not shared.
    pub fn versions(&self) -> BTreeMap<String, Option<String>> {
        let versions = self.versions.read().expect("no code panics while it holds this lock");
        self.alive().into_iter().map(|address| (address.clone(), versions.get(&address).cloned())).collect()
    }

    /// Returns the versions of the time-zone tables of other nodes that differ from the version of this node.
    pub fn other_zones(&self) -> BTreeMap<String, String> {
        self.other_zones.read().expect("no code panics while it holds this lock").clone()
    }

    /// Returns the differences between the clocks of other nodes and this node's clock that exceed a minute.
    pub fn clocks_apart(&self) -> BTreeMap<String, history::Duration> {
        self.clocks_apart.read().expect("no code panics while it holds this lock").clone()
    }

    /// Returns true if no other node can consider this node dead. If false, other nodes may already be handling this
    /// node's runs.
    pub(crate) fn is_in_touch(&self) -> bool {
        let beaten = self.beaten.lock().expect("no code panics while it holds this lock");
        !self.is_shared() || beaten.is_some_and(|at| at.elapsed() < DEAD_AFTER)
    }

    /// Returns the time of the next heartbeat. A heartbeat also reads which other nodes are alive. If another node
    /// would be considered dead before the end of the regular interval, the next heartbeat is at that earlier time.
    pub(crate) fn next_heartbeat(&self, began: Instant) -> Instant {
        let seen = self.seen.lock().expect("no code panics while it holds this lock");
        let others = seen.iter().filter(|(address, _)| Some(address.as_str()) != self.address());
        let missed = others.map(|(_, seen)| seen.since + DEAD_AFTER).filter(|at| *at > began);
        missed.min().map_or(began + BEAT_EVERY, |at| at.min(began + BEAT_EVERY))
    }

    /// Records a successful heartbeat that began at this time. Returns true if other nodes may have considered this
    /// node dead before this heartbeat.
    fn record_heartbeat(&self, began: Instant) -> bool {
        let mut beaten = self.beaten.lock().expect("no code panics while it holds this lock");
        let was_missed = beaten.is_some_and(|before| before.elapsed() >= DEAD_AFTER);
        *beaten = Some(began);
        was_missed
    }

    /// Returns the address of this node if the store is shared.
    pub fn address(&self) -> Option<&str> {
        self.me.as_ref().map(|(node, _)| node.address.as_str())
    }

    /// Returns true if this node is the home node of a shard of the due index. Homes are assigned by rendezvous
    /// hashing: if a node joins or leaves, only the shards of that node get another home.
    pub(crate) fn is_home(&self, shard: u32) -> bool {
        let Some((me, _)) = &self.me else { return true };
        let alive = self.alive.read().expect("no code panics while it holds this lock");
        home_of(&alive, shard).is_none_or(|home| *home == me.address)
    }

    /// Returns the address of the home node of the limits of a domain's task lists; `None` if the store is not shared.
    pub(crate) fn home_of_lists(&self, domain: &str) -> Option<String> {
        self.me.as_ref()?;
        let digest = Sha256::new().chain_update("task lists of ").chain_update(domain).finalize();
        let shard = digest.first_chunk().copied().map_or(0, u32::from_be_bytes);
        let alive = self.alive.read().expect("no code panics while it holds this lock");
        home_of(&alive, shard).map(str::to_owned)
    }

    /// Returns true if this node is the home node of the limits of a domain's task lists.
    pub(crate) fn is_home_of_lists(&self, domain: &str) -> bool {
        self.home_of_lists(domain).is_none_or(|home| Some(home.as_str()) == self.address())
    }

    /// Returns the time until which this node may decide about limits of task lists; `None` if the store is not shared.
    /// By this time, no other node has considered this node dead.
    pub(crate) fn decides_until(&self) -> Option<Instant> {
        self.me.as_ref()?;
        let beaten = *self.beaten.lock().expect("no code panics while it holds this lock");
        // Without a heartbeat, the time has passed.
        Some(beaten.map_or_else(Instant::now, |began| began + DECIDES_FOR))
    }

    /// Announces a change of task list settings to the other nodes, with a heartbeat.
    ///
    /// # Errors
    ///
    /// An error of the store. The next heartbeat announces the change.
    pub(crate) async fn announce_list_change(&self) -> Result<(), Refusal> {
        self.list_changes.fetch_add(1, Relaxed);
        self.beat().await.map(drop)
    }

    /// Returns true if other nodes have changed task list settings since the last call.
    pub(crate) fn take_list_changes(&self) -> bool {
        self.has_list_changes.swap(false, Relaxed)
    }

    /// Makes the next [`take_list_changes`](Self::take_list_changes) return true, because the settings could not be
    /// read.
    pub(crate) fn put_back_list_changes(&self) {
        self.has_list_changes.store(true, Relaxed);
    }

    fn note_list_changes<'a>(&self, entries: impl Iterator<Item = (&'a String, &'a NodeEntry)>) {
        let mut seen = self.seen_list_changes.lock().expect("no code panics while it holds this lock");
        let mut now = BTreeMap::new();
        for (address, entry) in entries.filter(|(address, _)| Some(address.as_str()) != self.address()) {
            let changes = (entry.pulse.boot, entry.list_changes);
            if entry.list_changes > 0 && seen.get(address) != Some(&changes) {
                self.has_list_changes.store(true, Relaxed);
            }
            now.insert(address.clone(), changes);
        }
        *seen = now;
    }

    /// Returns the address of the home node of a shard of the due index; `None` if it is this node.
    pub(crate) fn other_home(&self, shard: u32) -> Option<String> {
        let (me, _) = self.me.as_ref()?;
        let alive = self.alive.read().expect("no code panics while it holds this lock");
        home_of(&alive, shard).filter(|home| *home != me.address).map(str::to_owned)
    }

    /// Returns for each live node the number of due-index shards of which it is the home; empty if the store is not
    /// shared.
    pub(crate) fn homes(&self, shards: u32) -> BTreeMap<String, u32> {
        let alive = self.alive.read().expect("no code panics while it holds this lock");
        let mut homes: BTreeMap<String, u32> = alive.iter().map(|(address, _)| (address.clone(), 0)).collect();
        for home in (0..shards).filter_map(|shard| home_of(&alive, shard)) {
            homes.entry(home.to_owned()).and_modify(|count| *count += 1);
        }
        homes
    }

    /// Applies the records that were just read. `record` contains this node's entry, and `elsewhere` contains the
    /// entries of all other records. Returns the new content of this node's record, and whether nodes have joined or
    /// left.
    fn take_in(&self, mut record: NodesRecord, elsewhere: &NodesRecord, now: Instant) -> (NodesRecord, bool) {
        let Some((me, boot)) = &self.me else { return (record, false) };
        let before = record.get(&me.address).map(|entry| entry.pulse).filter(|beat| beat.boot == *boot);
        let pulse = Pulse { boot: *boot, count: before.map_or(1, |beat| beat.count + 1) };
        let said_at = self.clock.now();
        let own = NodeEntry {
            pulse,
            version: Some(VERSION.to_owned()),
            clock: Some(said_at.as_millis() / 1_000),
            zones: Some(history::zone_tables()),
            list_changes: self.list_changes.load(Relaxed),
        };
        self.note_list_changes(record.iter().chain(elsewhere));
        record.insert(me.address.clone(), own);
        let mut apart = self.clocks_apart.write().expect("no code panics while it holds this lock");
        let mut seen = self.seen.lock().expect("no code panics while it holds this lock");
        for (address, NodeEntry { pulse: beat, clock, .. }) in record.iter().chain(elsewhere) {
            let entry = seen.entry(address.clone()).or_insert(SeenHeartbeat { beat: *beat, since: now });
            if entry.beat != *beat {
                // The heartbeat was sent at most one second ago, or two seconds if the store has errors. Its clock time
                // can therefore be compared with this node's.
                apart.remove(address);
                if let Some(by) = clock
                    .map(|clock| Timestamp::from_millis(clock.saturating_mul(1_000)))
                    .map(|clock| clock.since(said_at).max(said_at.since(clock)))
                    && by > CLOCK_MOVED_MIN
                {
                    apart.insert(address.clone(), by);
                }
                *entry = SeenHeartbeat { beat: *beat, since: now };
            }
        }
        let stood_still = |address: &String| seen.get(address).map_or(Duration::ZERO, |seen| now - seen.since);
        record.retain(|address, _| *address == me.address || stood_still(address) < FORGET_AFTER);
        let is_alive =
            |(address, _): &(&String, &NodeEntry)| **address == me.address || stood_still(address) < DEAD_AFTER;
        let all = || record.iter().chain(elsewhere);
        let mut alive: Vec<(String, u64)> =
            all().filter(is_alive).map(|(address, entry)| (address.clone(), entry.pulse.boot)).collect();
        seen.retain(|address, _| record.contains_key(address) || elsewhere.contains_key(address));
        drop(seen);
        apart.retain(|address, _| alive.iter().any(|(alive, _)| alive == address));
        drop(apart);
        alive.sort();
        let has_others = |entry: &NodeEntry| entry.zones.clone().filter(|zones| *zones != history::zone_tables());
        *self.other_zones.write().expect("no code panics while it holds this lock") = all()
            .filter(|(address, _)| alive.iter().any(|(alive, _)| alive == *address))
            .filter_map(|(address, entry)| Some((address.clone(), has_others(entry)?)))
            .collect();
        let mut versions = self.versions.write().expect("no code panics while it holds this lock");
        versions.retain(|address, _| alive.iter().any(|(alive, _)| alive == address));
        for (address, entry) in all() {
            if let Some(version) = &entry.version {
                versions.insert(address.clone(), version.clone());
            }
        }
        drop(versions);
        let mut known = self.alive.write().expect("no code panics while it holds this lock");
        let has_changed = *known != alive;
        if has_changed {
            let nodes: Vec<_> = alive.iter().map(|(address, _)| address.as_str()).collect();
            tracing::info!(nodes = nodes.join(", "), "nodes have come or gone");
            *known = alive;
        }
        (record, has_changed)
    }
}

/// Returns the live node that is the home of the shard.
fn home_of(alive: &[(String, u64)], shard: u32) -> Option<&str> {
    alive.iter().max_by_key(|(address, _)| score(address, shard)).map(|(address, _)| address.as_str())
}

/// Returns the score of a node for a shard. The node with the highest score is the home of the shard.
fn score(address: &str, shard: u32) -> [u8; 8] {
    let digest = Sha256::new().chain_update(address).chain_update([0]).chain_update(shard.to_be_bytes()).finalize();
    digest.first_chunk().copied().unwrap_or_default()
}

/// Returns the number of the record for a node that joins: the record that still has the node's earlier entry,
/// otherwise the first record with space.
fn home_among(records: &BTreeMap<usize, NodesRecord>, address: &str) -> usize {
    let earlier = records.iter().find(|(_, record)| record.contains_key(address));
    let has_room = || records.iter().find(|(_, record)| record.len() < GROUP);
    earlier.or_else(has_room).map_or(records.len(), |(group, _)| *group)
}

fn read(head: Option<&Head>) -> Result<NodesRecord, Refusal> {
    let Some(head) = head else { return Ok(NodesRecord::new()) };
    history::read_json(&head.body).map_err(|error| Refusal::Corrupt { what: format!("the record of nodes: {error}") })
}

impl Nodes {
    /// Writes a heartbeat and reads the heartbeats of the other nodes. Returns true if nodes have joined or left, or if
    /// other nodes may have considered this node dead in the meantime.
    pub(crate) async fn beat(&self) -> Result<bool, Refusal> {
        let Some((me, _)) = &self.me else { return Ok(false) };
        let (mut has_changed, began) = (false, Instant::now());
        let mut records = self.read_records().await?;
        let mut groups = self.groups();
        let mut own = groups.own.unwrap_or_else(|| home_among(&records, &me.address));
        loop {
            let elsewhere: NodesRecord =
                records.iter().filter(|(group, _)| **group != own).flat_map(|(_, record)| record.clone()).collect();
            let (mut is_full, mut size) = (false, 0);
            let is_said = self.change_record(own, |record| {
                is_full = groups.own.is_none() && record.len() >= GROUP && !record.contains_key(&me.address);
                if is_full {
                    records.insert(own, record);
                    return None;
                }
                let (record, others_changed) = self.take_in(record, &elsewhere, Instant::now());
                has_changed |= others_changed;
                size = record.len();
                Some(record)
            });
            let is_said = is_said.await?;
            if is_full {
                own += 1;
                continue;
            }
            groups.own = Some(own);
            groups.known = records.keys().copied().chain([own]).max().map_or(1, |last| last + 1);
            let last = records.get(&(groups.known - 1)).map_or(size, BTreeMap::len);
            groups.is_full = last >= GROUP;
            groups.beats += 1;
            *self.groups.lock().expect("no code panics while it holds this lock") = groups;
            let was_missed = is_said && self.record_heartbeat(began);
            return Ok(has_changed || was_missed);
        }
    }

    fn groups(&self) -> Groups {
        *self.groups.lock().expect("no code panics while it holds this lock")
    }

    /// Reads all records except the record with this node's entry. First reads the known records. If there may be more
    /// records, then reads them one after the other until none is found.
    async fn read_records(&self) -> Result<BTreeMap<usize, NodesRecord>, Refusal> {
        let Groups { own, known, is_full, beats } = self.groups();
        let known_ones = (0..known).filter(|group| Some(*group) != own).map(|group| self.read_record(group));
        let mut records: BTreeMap<usize, NodesRecord> = try_join_all(known_ones).await?.into_iter().flatten().collect();
        if own.is_none() || is_full || beats.is_multiple_of(SEARCH_RECORDS_EVERY) {
            for group in known.. {
                let Some(found) = self.read_record(group).await? else { break };
                records.extend([found]);
            }
        }
        Ok(records)
    }

    async fn read_record(&self, group: usize) -> Result<Option<(usize, NodesRecord)>, Refusal> {
        let head = self.records.load(&record_name(group)).await?;
        head.map(|head| Ok((group, read(Some(&head))?))).transpose()
    }

    /// Removes this node from its record, so that the other nodes need not wait until they consider this node dead.
    pub(crate) async fn leave(&self) -> Result<(), Refusal> {
        let (Some((me, _)), Some(own)) = (&self.me, self.groups().own) else { return Ok(()) };
        self.change_record(own, |mut record| record.remove(&me.address).map(|_| record)).await.map(drop)
    }

    /// Changes a record, and retries after conflicts. If `change` returns `None`, does not write the record. Returns
    /// true if it wrote the record.
    async fn change_record(
        &self,
        group: usize,
        mut change: impl FnMut(NodesRecord) -> Option<NodesRecord>,
    ) -> Result<bool, Refusal> {
        let name = record_name(group);
        let mut head = self.records.load(&name).await?;
        for _ in 1..BEAT_TRIES {
            let Some(record) = change(read(head.as_ref())?) else { return Ok(false) };
            match self.records.write(&name, head.as_ref(), &record).await {
                Ok(Cas::Won) => return Ok(true),
                Ok(Cas::Lost(found)) => head = found,
                // The attempt can be repeated without checking whether the record was written, because a second write
                // has the same result.
                Err(refusal) if refusal.is_retryable() => {
                    tokio::time::sleep(BEAT_AGAIN_AFTER).await;
                    head = self.records.load(&name).await?;
                }
                Err(refusal) => return Err(refusal),
            }
        }
        let Some(record) = change(read(head.as_ref())?) else { return Ok(false) };
        Ok(self.records.write(&name, head.as_ref(), &record).await? == Cas::Won)
    }

    /// Returns the addresses of the other live nodes.
    pub(crate) fn others(&self) -> Vec<String> {
        let me = self.address();
        self.alive().into_iter().filter(|address| Some(address.as_str()) != me).collect()
    }

    /// Returns true if no other node writes to the store, as far as this node knows. A node that has just joined is
    /// known only after the next heartbeat.
    pub(crate) fn is_alone(&self) -> bool {
        self.is_in_touch() && self.others().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn nodes(me: Option<Node>) -> Nodes {
        Nodes::new(Records::new(Arc::new(store::memory::Memory::new())), me, 7, Arc::new(crate::SystemClock))
    }

    fn node(address: &str) -> Nodes {
        nodes(Some(Node { address: address.to_owned() }))
    }

    fn record(beats: &[(&str, u64)]) -> NodesRecord {
        let entry = |count| NodeEntry {
            pulse: Pulse { boot: 1, count },
            version: None,
            clock: None,
            zones: None,
            list_changes: 0,
        };
        beats.iter().map(|(address, count)| ((*address).to_owned(), entry(*count))).collect()
    }

    #[test]
    fn the_version_of_a_node_is_known_while_it_is_alive() {
        let nodes = node("a");
        let start = Instant::now();
        let versions = |nodes: &Nodes| -> Vec<Option<String>> { nodes.versions().into_values().collect() };
        nodes.take_in(record(&[("b", 1)]), &NodesRecord::new(), start);
        assert_eq!(versions(&nodes), [Some(VERSION.to_owned()), None], "an older one says none");
        let mut said = record(&[("b", 2)]);
        said.get_mut("b").unwrap().version = Some("9.9".to_owned());
        nodes.take_in(said, &NodesRecord::new(), start);
        assert_eq!(nodes.versions()["b"].as_deref(), Some("9.9"));
        nodes.take_in(record(&[("b", 2)]), &NodesRecord::new(), start);
        assert_eq!(nodes.versions()["b"].as_deref(), Some("9.9"), "it has said so before");
        nodes.take_in(record(&[("b", 2)]), &NodesRecord::new(), start + DEAD_AFTER);
        assert_eq!(versions(&nodes), [Some(VERSION.to_owned())]);
    }

    #[test]
    fn different_clocks_and_zone_tables_are_reported() {
        let nodes = node("a");
        let (start, mut said) = (Instant::now(), record(&[("b", 1)]));
        let mut beat = |count: u64, ahead: u64, zones: &str| {
            let entry = said.get_mut("b").unwrap();
            entry.pulse.count = count;
            entry.clock = Some(crate::SystemClock.now().as_millis() / 1_000 + ahead);
            entry.zones = Some(zones.to_owned());
            nodes.take_in(said.clone(), &NodesRecord::new(), start);
            (nodes.clocks_apart(), nodes.other_zones())
        };
        assert!(beat(1, 3_600, "1999a").0.is_empty(), "it may have said so long ago");
        let (apart, zones) = beat(2, 3_600, "1999a");
        assert!(apart["b"] > history::Duration::from_secs(3_590), "{apart:?}");
        assert_eq!(zones["b"], "1999a");
        let (apart, zones) = beat(3, 30, &history::zone_tables());
        assert!(apart.is_empty() && zones.is_empty(), "{apart:?} {zones:?}");
        beat(4, 3_600, "1999a");
        nodes.take_in(NodesRecord::new(), &NodesRecord::new(), start + DEAD_AFTER);
        assert!(nodes.clocks_apart().is_empty() && nodes.other_zones().is_empty(), "it has gone");
    }

    #[test]
    fn records_with_and_without_versions_are_compatible() {
        let read: NodesRecord = serde_json::from_str(r#"{"a":{"boot":18446744073709551615,"count":7}}"#).unwrap();
        assert_eq!(
            read["a"],
            NodeEntry {
                pulse: Pulse { boot: u64::MAX, count: 7 },
                version: None,
                clock: None,
                zones: None,
                list_changes: 0
            }
        );
        let written =
            serde_json::to_string(&node("a").take_in(NodesRecord::new(), &NodesRecord::new(), Instant::now()).0)
                .unwrap();
        let read: BTreeMap<String, Pulse> = serde_json::from_str(&written).unwrap();
        assert_eq!(read["a"], Pulse { boot: 7, count: 1 });
    }

    #[test]
    fn a_node_is_alive_as_long_as_its_count_moves_by_ones_own_clock() {
        let nodes = node("a");
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert!(nodes.take_in(record(&[("b", 1), ("c", 1)]), &NodesRecord::new(), at(0)).1);
        assert_eq!(nodes.alive(), ["a", "b", "c"]);
        assert!(!nodes.take_in(record(&[("b", 2), ("c", 1)]), &NodesRecord::new(), at(2)).1);
        assert!(
            nodes.take_in(record(&[("b", 3), ("c", 1)]), &NodesRecord::new(), at(3)).1,
            "c has stood still for three beats"
        );
        assert_eq!(nodes.alive(), ["a", "b"]);
        let (left, _) = nodes.take_in(record(&[("b", 4), ("c", 1)]), &NodesRecord::new(), at(60));
        assert_eq!(left.keys().collect::<Vec<_>>(), ["a", "b"], "and is struck off after a minute");
        assert!(nodes.take_in(record(&[("b", 5), ("c", 2)]), &NodesRecord::new(), at(61)).1, "it is back");
        assert_eq!(nodes.alive(), ["a", "b", "c"]);
        let mut reborn = record(&[("b", 6), ("c", 1)]);
        reborn.get_mut("c").unwrap().pulse.boot = 2;
        assert!(nodes.take_in(reborn, &NodesRecord::new(), at(62)).1, "c has forgotten what it was told");
    }

    #[test]
    fn a_node_that_slept_does_not_consider_live_nodes_dead() {
        let nodes = node("a");
        let start = Instant::now();
        nodes.take_in(record(&[("b", 1)]), &NodesRecord::new(), start);
        let (_, has_changed) =
            nodes.take_in(record(&[("b", 9)]), &NodesRecord::new(), start + Duration::from_secs(3_600));
        assert!(!has_changed);
        assert_eq!(nodes.alive(), ["a", "b"]);
    }

    #[test]
    fn a_node_looks_again_as_soon_as_another_is_to_be_missed() {
        let nodes = node("a");
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        nodes.take_in(record(&[("b", 1), ("c", 1)]), &NodesRecord::new(), at(0));
        assert_eq!(nodes.next_heartbeat(at(0)), at(1_000));
        nodes.take_in(record(&[("b", 2), ("c", 1)]), &NodesRecord::new(), at(2_600));
        assert_eq!(nodes.next_heartbeat(at(2_600)), at(3_000), "c");
        nodes.take_in(record(&[("b", 3), ("c", 1)]), &NodesRecord::new(), at(3_000));
        assert_eq!(nodes.alive(), ["a", "b"]);
        assert_eq!(nodes.next_heartbeat(at(3_000)), at(4_000), "who is missed is missed once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_knows_that_others_may_have_missed_it() {
        let nodes = node("a");
        let mut began = Instant::now();
        assert!(!nodes.record_heartbeat(began), "it has only come");
        tokio::time::advance(DEAD_AFTER / 2).await;
        began = Instant::now();
        assert!(!nodes.record_heartbeat(began));
        tokio::time::advance(DEAD_AFTER / 2).await;
        began = Instant::now();
        // Simulates a heartbeat that takes this long to write.
        tokio::time::advance(DEAD_AFTER / 2).await;
        assert!(nodes.record_heartbeat(began));
        assert!(!nodes.record_heartbeat(began));
    }

    #[test]
    fn a_restart_at_an_address_counts_from_one() {
        let nodes = node("a");
        let (written, _) = nodes.take_in(record(&[("a", 41)]), &NodesRecord::new(), Instant::now());
        assert_eq!(written["a"].pulse, Pulse { boot: 7, count: 1 });
        let (written, _) = nodes.take_in(written, &NodesRecord::new(), Instant::now());
        assert_eq!(written["a"].pulse, Pulse { boot: 7, count: 2 });
    }

    #[test]
    fn every_shard_has_one_home_and_moves_only_when_its_home_goes() {
        let names = ["a", "b", "c"];
        let nodes: Vec<Nodes> = names.map(node).into();
        let everybody = record(&names.map(|name| (name, 1)));
        for node in &nodes {
            node.take_in(everybody.clone(), &NodesRecord::new(), Instant::now());
        }
        let homes = |nodes: &[Nodes]| -> Vec<Vec<bool>> {
            (0..64).map(|shard| nodes.iter().map(|node| node.is_home(shard)).collect()).collect()
        };
        let before = homes(&nodes);
        assert!(before.iter().all(|homes| homes.iter().filter(|is_home| **is_home).count() == 1));
        for at in 0..3 {
            let share = before.iter().filter(|homes| homes[at]).count();
            assert_eq!(nodes[2 - at].homes(64)[names[at]] as usize, share, "as another node tells it");
            assert!((10..35).contains(&share), "{} has {share} of 64", names[at]);
        }
        for node in &nodes[..2] {
            *node.alive.write().unwrap() = vec![("a".to_owned(), 7), ("b".to_owned(), 7)];
        }
        for (before, after) in before.iter().zip(homes(&nodes[..2])) {
            assert_eq!(after.iter().filter(|is_home| **is_home).count(), 1);
            assert!(before[2] || before[..2] == after[..], "a shard moved whose home has not gone");
        }
    }

    async fn crowd(store: &Arc<store::memory::Memory>, count: usize) -> Vec<Nodes> {
        let one = |at: usize| {
            let me = Node { address: format!("http://10.0.0.{at:03}") };
            Nodes::new(Records::new(Arc::clone(store) as _), Some(me), 7, Arc::new(crate::SystemClock))
        };
        let nodes: Vec<Nodes> = (0..count).map(one).collect();
        // With the second heartbeat, the first nodes see that their record is full. With the third, they see that there
        // is another record.
        for _ in 0..3 {
            for node in &nodes {
                node.beat().await.unwrap();
            }
        }
        nodes
    }

    async fn sizes(store: &Arc<store::memory::Memory>) -> Vec<usize> {
        let records = Records::new(Arc::clone(store) as _);
        let mut sizes = Vec::new();
        while let Some(head) = records.load(&record_name(sizes.len())).await.unwrap() {
            sizes.push(read(Some(&head)).unwrap().len());
        }
        sizes
    }

    #[tokio::test(start_paused = true)]
    async fn many_nodes_share_several_records_and_all_know_all() {
        let store = Arc::new(store::memory::Memory::new());
        let nodes = crowd(&store, 2 * GROUP + 1).await;
        assert_eq!(sizes(&store).await, [GROUP, GROUP, 1]);
        for node in &nodes {
            assert_eq!(node.alive().len(), nodes.len());
        }
        // A node of the second record fails, and all other nodes notice it.
        let dead = GROUP + 3;
        for _ in 0..=3 {
            tokio::time::advance(BEAT_EVERY).await;
            for (_, node) in nodes.iter().enumerate().filter(|(at, _)| *at != dead) {
                node.beat().await.unwrap();
            }
        }
        let left =
            |node: &Nodes| node.alive().len() == nodes.len() - 1 && !node.alive().contains(&nodes[dead].alive()[dead]);
        assert!(nodes.iter().enumerate().all(|(at, node)| at == dead || left(node)));
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_return_to_their_record_and_new_ones_fill_gaps() {
        let store = Arc::new(store::memory::Memory::new());
        let nodes = crowd(&store, GROUP + 2).await;
        let again = |at: usize, boot: u64| {
            let me = Node { address: nodes[at].address().unwrap().to_owned() };
            Nodes::new(Records::new(Arc::clone(&store) as _), Some(me), boot, Arc::new(crate::SystemClock))
        };
        nodes[0].leave().await.unwrap();
        again(GROUP, 8).beat().await.unwrap();
        assert_eq!(sizes(&store).await, [GROUP - 1, 2], "where its earlier life was");
        again(0, 8).beat().await.unwrap();
        assert_eq!(sizes(&store).await, [GROUP, 2], "where there is room");
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_added_while_a_node_left_is_found_later() {
        let store = Arc::new(store::memory::Memory::new());
        let nodes = crowd(&store, GROUP).await;
        let late = Nodes::new(
            Records::new(Arc::clone(&store) as _),
            Some(Node { address: "late".to_owned() }),
            7,
            Arc::new(crate::SystemClock),
        );
        late.beat().await.unwrap();
        nodes[1].leave().await.unwrap();
        // Simulates that the record was full and now has space.
        nodes[0].groups.lock().unwrap().is_full = false;
        for _ in 0..SEARCH_RECORDS_EVERY {
            nodes[0].beat().await.unwrap();
        }
        assert!(nodes[0].alive().contains(&"late".to_owned()));
    }

    #[test]
    fn a_node_alone_looks_after_everything() {
        let alone = nodes(None);
        assert!((0..64).all(|shard| alone.is_home(shard)));
        assert!(alone.take_in(record(&[("b", 1)]), &NodesRecord::new(), Instant::now()).0.contains_key("b"));
        assert!(!alone.is_shared());
    }
}
