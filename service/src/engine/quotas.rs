//! SWF's limits, where the service holds what comes over its wire to them. Owns counting what is open in a domain; what a run
//! itself is held to is the rules' to know, and told them at its start.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use history::SwfLimits;
use store::ListQuery;
use tokio::time::Instant;

use super::matching::{ListKey, Side};
use super::{Engine, Limited, Refusal};

/// What programs over SWF's wire are held to. The default is what AWS has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quotas {
    /// What each run is held to.
    pub run: SwfLimits,
    /// Runs that are open in a domain, children included.
    pub open_runs: usize,
    /// Domains, those that are deprecated included.
    pub domains: usize,
    /// Polls that wait on one list at once, at this node.
    pub pollers: usize,
}

/// Source, of all: SWF.md §7. Types of a kind (10,000 in a domain) and what is open in a run are limited in any case.
const OPEN_RUNS_MAX: usize = 100_000;
const DOMAINS_MAX: usize = 100;
const POLLERS_MAX: usize = 1_000;

impl Default for Quotas {
    fn default() -> Self {
        Self { run: SwfLimits::default(), open_runs: OPEN_RUNS_MAX, domains: DOMAINS_MAX, pollers: POLLERS_MAX }
    }
}

/// How long a count of open runs is gone by, with what has been started here since. Ours.
const COUNT_LASTS: Duration = Duration::from_secs(10);

/// How long it is gone by for a no. Ours: who starts in vain again and again must not have all counted each time.
const NO_LASTS: Duration = Duration::from_secs(1);

struct Counted {
    at: Instant,
    open: usize,
}

/// How many runs are open, by domain.
#[derive(Default)]
pub(super) struct OpenRuns {
    counted: Mutex<HashMap<Arc<str>, Counted>>,
}

impl OpenRuns {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Counted>> {
        self.counted.lock().expect("no code panics while it holds this lock")
    }

    /// Takes room for one more; `None` when it must be counted first.
    fn take(&self, domain: &str, max: usize) -> Option<bool> {
        let mut counted = self.lock();
        let known = counted.get_mut(domain)?;
        let has_room = known.open < max;
        if known.at.elapsed() >= if has_room { COUNT_LASTS } else { NO_LASTS } {
            return None;
        }
        known.open += usize::from(has_room);
        Some(has_room)
    }
}

impl Engine {
    /// What programs over SWF's wire are held to, if anything.
    pub fn quotas(&self) -> Option<&Quotas> {
        self.quotas.as_ref()
    }

    /// Whether another run may be started over SWF's wire in this domain; if so, it counts as started. Exact to what other nodes
    /// have started and what has closed within ten seconds.
    ///
    /// # Errors
    ///
    /// The store's.
    pub(super) async fn has_room(&self, domain: &str) -> Result<bool, Refusal> {
        let Some(max) = self.quotas().map(|quotas| quotas.open_runs) else { return Ok(true) };
        loop {
            if let Some(has_room) = self.open_runs.take(domain, max) {
                return Ok(has_room);
            }
            let at = Instant::now();
            let query = ListQuery { domain: domain.into(), open: Some(true), ..ListQuery::default() };
            let count = self.store.count(&query, max as u64).await?;
            let open = usize::try_from(count.total()).unwrap_or(usize::MAX);
            self.open_runs.lock().insert(domain.into(), Counted { at, open });
        }
    }

    /// Holds a start over SWF's wire to how many runs may be open in its domain.
    ///
    /// # Errors
    ///
    /// [`Refusal::LimitExceeded`], or the store's.
    pub async fn must_have_room(&self, domain: &str) -> Result<(), Refusal> {
        match self.quotas() {
            Some(quotas) if !self.has_room(domain).await? => {
                Err(Refusal::LimitExceeded { what: Limited::OpenRuns, max: quotas.open_runs })
            }
            _ => Ok(()),
        }
    }

    /// Holds a poll over SWF's wire to how many may wait on its list.
    ///
    /// # Errors
    ///
    /// [`Refusal::LimitExceeded`].
    pub fn must_have_room_for_poller(&self, domain: &str, list: &str, is_decider: bool) -> Result<(), Refusal> {
        let Some(quotas) = self.quotas() else { return Ok(()) };
        let side = if is_decider { Side::Decider } else { Side::Activity };
        let list = ListKey { domain: domain.into(), side, name: list.into() };
        if self.matching.pollers(&list) >= quotas.pollers {
            return Err(Refusal::LimitExceeded { what: Limited::Pollers, max: quotas.pollers });
        }
        Ok(())
    }

    /// Holds a registration over SWF's wire to how many domains there may be.
    ///
    /// # Errors
    ///
    /// [`Refusal::LimitExceeded`], or the store's.
    pub async fn must_have_room_for_domain(&self) -> Result<(), Refusal> {
        match self.quotas() {
            Some(quotas) if self.domains().await?.len() >= quotas.domains => {
                Err(Refusal::LimitExceeded { what: Limited::Domains, max: quotas.domains })
            }
            _ => Ok(()),
        }
    }
}
