//! Pauses that stop the schedule-to-start timeouts of tasks that wait on a list. The rules of `history` compute from
//! these pauses when a timeout expires.
//!
//! If nodes share the store, a node may not know of a change that another node has made. Therefore, when the node wakes a
//! run with a task that has waited for longer than its timeout, it reads the settings of the domain's lists, unless it
//! has just read them. If they cannot be read, the run is woken again later, and nothing expires.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use history::{Run, StoppedLists, Timestamp};
use tokio::time::Instant;

use crate::Refusal;
use crate::base::list_settings::{DomainLists, ListSide};
use crate::lists::hand_out::TaskLists;
use crate::lists::{ListKey, Side};

/// Time for which settings that were read are used to record schedule-to-start timeouts, if nodes share the store. Our
/// choice: many timeouts of a domain can expire together, and each read costs a read unit.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Maximum number of waiting tasks of a resumed list whose runs are woken at once, to compute when the tasks time out.
/// Our choice: the runs of other tasks are woken when they are due anyway.
const WOKEN_AFTER_RESUME_MAX: usize = 1_000;

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
    fn get(&self, domain: &str) -> Arc<StoppedLists> {
        let domains = self.domains.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(domains.get(domain).map_or(&self.none, |known| &known.stopped))
    }

    fn is_fresh(&self, domain: &str) -> bool {
        let domains = self.domains.read().unwrap_or_else(PoisonError::into_inner);
        domains.get(domain).is_some_and(|known| known.read_at.elapsed() < READ_AGAIN_AFTER)
    }

    /// Replaces the pauses of a domain's lists, which were read at `read_at`. Returns the lists that are resumed.
    fn set(&self, domain: &Arc<str>, settings: &DomainLists, read_at: Instant) -> Vec<ListSide> {
        let stopped = settings.stopped();
        let mut domains = self.domains.write().unwrap_or_else(PoisonError::into_inner);
        let before = domains.insert(Arc::clone(domain), KnownPauses { stopped: Arc::new(stopped.clone()), read_at });
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

impl TaskLists {
    /// Returns the pauses of a domain's lists that stop schedule-to-start timeouts, as this node knows them.
    pub fn stopped(&self, domain: &str) -> Arc<StoppedLists> {
        self.stopped.get(domain)
    }

    /// Returns the pauses with which a wake of a run records timeouts.
    ///
    /// # Errors
    ///
    /// An error of the store.
    pub(crate) async fn stopped_for_wake(
        &self,
        domain: &Arc<str>,
        run: &Run,
        now: Timestamp,
    ) -> Result<Arc<StoppedLists>, Refusal> {
        // The pauses matter only for waits that are longer than their timeout. Known pauses are read again, too, because
        // the list may have been resumed.
        if !self.nodes.is_shared() || !run.has_waited_too_long(now) {
            return Ok(self.stopped.get(domain));
        }
        let _guard = self.changing_limits.lock().await;
        if !self.stopped.is_fresh(domain) {
            let read_at = Instant::now();
            match self.registry.list_settings(domain).await {
                Ok(settings) => self.set_stopped(domain, &settings, read_at),
                Err(Refusal::UnknownDomain { .. }) => self.set_stopped(domain, &DomainLists::default(), read_at),
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(self.stopped.get(domain))
    }

    /// Replaces the known pauses of a domain's lists. Wakes the runs of waiting tasks of lists that are resumed, because
    /// the times of their next wakes assume that the lists are still paused.
    pub(crate) fn set_stopped(&self, domain: &Arc<str>, settings: &DomainLists, read_at: Instant) {
        let now = self.clock.now();
        for ListSide { name, is_decider } in self.stopped.set(domain, settings, read_at) {
            let side = if is_decider { Side::Decider } else { Side::Activity };
            let list = ListKey { domain: Arc::clone(domain), side, name: name.into() };
            for (task, _) in self.matching.next(&list, WOKEN_AFTER_RESUME_MAX) {
                self.agenda.set_by(&task.key, now);
            }
        }
    }
}
