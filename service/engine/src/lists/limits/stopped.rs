//! Pauses that stop the schedule-to-start timeouts of tasks that wait on a list. The rules of `history` compute from
//! these pauses when a timeout expires.
//!
//! If nodes share the store, a node may not know of a change that another node has made. Therefore, when the node
//! wakes a run with a task that has waited for longer than its timeout, it reads the settings of the domain's lists,
//! unless it has just read them. If they cannot be read, the run is woken again later, and nothing expires.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use history::StoppedLists;
use tokio::time::Instant;

use crate::base::list_settings::{DomainLists, ListSide};

/// Time for which settings that were read are used to record schedule-to-start timeouts, if nodes share the store. Our
/// choice: many timeouts of a domain can expire together, and each read costs a read unit.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(1);

struct KnownPauses {
    stopped: Arc<StoppedLists>,
    read_at: Instant,
}

/// The pauses of the lists of all domains, as this node knows them.
#[derive(Default)]
pub(crate) struct StoppedByDomain {
    domains: RwLock<HashMap<Arc<str>, KnownPauses>>,
    none: Arc<StoppedLists>,
}

impl StoppedByDomain {
    /// Returns the known pauses of a domain's lists.
    pub(crate) fn get(&self, domain: &str) -> Arc<StoppedLists> {
        let domains = self.domains.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(domains.get(domain).map_or(&self.none, |known| &known.stopped))
    }

    /// Returns true if the pauses of a domain's lists were just read.
    pub(crate) fn is_fresh(&self, domain: &str) -> bool {
        let domains = self.domains.read().unwrap_or_else(PoisonError::into_inner);
        domains.get(domain).is_some_and(|known| known.read_at.elapsed() < READ_AGAIN_AFTER)
    }

    /// Replaces the pauses of a domain's lists, which were read at `read_at`. Returns the lists that are resumed.
    pub(crate) fn set(&self, domain: &Arc<str>, settings: &DomainLists, read_at: Instant) -> Vec<ListSide> {
        let stopped = Arc::new(settings.stopped());
        let mut domains = self.domains.write().unwrap_or_else(PoisonError::into_inner);
        let before = domains.insert(Arc::clone(domain), KnownPauses { stopped: Arc::clone(&stopped), read_at });
        let Some(before) = before else { return Vec::new() };
        let sides = [
            (true, &before.stopped.deciders, &stopped.deciders),
            (false, &before.stopped.activities, &stopped.activities),
        ];
        let resumed = sides.into_iter().flat_map(|(is_decider, before, after)| {
            let is_stopped = |name: &String| after.get(name).is_some_and(history::ListStops::is_stopped);
            let resumed = before.iter().filter(move |(name, stops)| stops.is_stopped() && !is_stopped(name));
            resumed.map(move |(name, _)| ListSide { name: name.clone(), is_decider })
        });
        resumed.collect()
    }
}
