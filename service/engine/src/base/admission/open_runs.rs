//! Limits on the number of open runs of a domain: the operator's quotas and, if they are enforced, SWF's quotas. This
//! module counts the open runs. The crate `history` enforces the limits that apply to a single run, which are set when
//! the run starts.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use history::{DomainCapacity, Start, SwfLimits};
use store::{ListQuery, Store};
use tokio::time::Instant;

use crate::base::admission::quotas::Quotas;
use crate::base::admission::throttled::LimitKind;
use crate::{Limited, Refusal};

/// SWF's quotas. The defaults are those of AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwfQuotas {
    /// Limits that apply to each run.
    pub run: SwfLimits,
    /// Maximum number of open runs of a domain, including children.
    pub open_runs: usize,
    /// Maximum number of domains, including deprecated ones.
    pub domains: usize,
    /// Maximum number of polls that wait on a task list at this node.
    pub pollers: usize,
}

/// Default maximum number of open runs of a domain. Source of all defaults in this file: SWF's quotas. This file does
/// not contain SWF's limits on types (10,000 of each kind per domain) and on open items of a run, because they are
/// always enforced.
const OPEN_RUNS_MAX: usize = 100_000;
const DOMAINS_MAX: usize = 100;
const POLLERS_MAX: usize = 1_000;

impl Default for SwfQuotas {
    fn default() -> Self {
        Self { run: SwfLimits::default(), open_runs: OPEN_RUNS_MAX, domains: DOMAINS_MAX, pollers: POLLERS_MAX }
    }
}

/// Maximum age of a count of open runs if the store bills for counting. Runs that this node has started since the count
/// are added to it. If counting is not billed, runs are counted each time. Our choice.
const COUNT_LASTS: Duration = Duration::from_secs(10);

/// Maximum time for which a count is reused if it was billed and shows that a domain has reached its limit. Our choice:
/// not zero, because a caller that repeats a refused start must not cause a count each time.
const REFUSAL_LASTS: Duration = Duration::from_secs(1);

/// Time for which capacity is reserved for a child that a decider has requested and that has not started. Our choice: a
/// child starts within moments unless the store is unavailable.
const CHILD_LASTS: Duration = Duration::from_secs(10);

/// Number of open runs that the store has counted.
#[derive(Debug, Clone, Copy)]
struct QuotaCount {
    /// Sequence number of the beginning of the count. Counts, starts and completions of a domain are numbered in one
    /// sequence.
    began: u64,
    at: Instant,
    open: u64,
    is_billed: bool,
}

/// Last count of a domain, and the starts since then.
#[derive(Debug, Default)]
struct KnownOfDomain {
    /// The newest count.
    counted: Option<QuotaCount>,
    /// Starts that use capacity: the sequence number of each start, and the sequence number of its completion, if it is
    /// completed. A start is added to the last count if this count began before the completion. A later count already
    /// includes the run.
    starts: BTreeMap<u64, Option<u64>>,
    /// Times at which deciders requested the children that have not started yet.
    children: VecDeque<Instant>,
    /// Newest sequence number of the domain, used for a count, a start or a completion.
    happened: u64,
}

impl KnownOfDomain {
    fn next(&mut self) -> u64 {
        self.happened += 1;
        self.happened
    }

    fn open(&mut self) -> u64 {
        while self.children.front().is_some_and(|at| at.elapsed() >= CHILD_LASTS) {
            self.children.pop_front();
        }
        let counted = self.counted.map_or(0, |counted| counted.open);
        counted + self.starts.len() as u64 + self.children.len() as u64
    }

    /// Returns the sequence number of a new count if the open runs must be counted again; `None` if the last count can
    /// be used.
    fn stale(&mut self, max: u64) -> Option<u64> {
        let has_room = self.open() < max;
        let is_stale = self.counted.is_none_or(|QuotaCount { at, is_billed, .. }| {
            !is_billed || at.elapsed() >= if has_room { COUNT_LASTS } else { REFUSAL_LASTS }
        });
        is_stale.then(|| self.next())
    }

    fn take(&mut self, max: u64) -> Option<u64> {
        if self.open() >= max {
            return None;
        }
        let number = self.next();
        self.starts.insert(number, None);
        Some(number)
    }

    /// Marks a start as completed. Counts that begin later include the started run.
    fn mark_completed(&mut self, number: u64) {
        let done = self.next();
        self.starts.insert(number, Some(done));
    }

    /// Replaces the count with a newer one, and drops the starts that were completed before it began.
    fn count(&mut self, began: u64, open: u64, is_billed: bool) {
        if self.counted.is_none_or(|counted| counted.began < began) {
            self.counted = Some(QuotaCount { began, at: Instant::now(), open, is_billed });
            self.starts.retain(|_, done| done.is_none_or(|done| done > began));
        }
    }
}

/// Number of open runs by domain.
pub(crate) struct OpenRuns {
    store: Arc<dyn Store>,
    quotas: Arc<Quotas>,
    swf_quotas: Option<SwfQuotas>,
    known: Mutex<HashMap<Arc<str>, KnownOfDomain>>,
}

impl OpenRuns {
    pub(crate) fn new(store: Arc<dyn Store>, quotas: Arc<Quotas>, swf_quotas: Option<SwfQuotas>) -> Self {
        Self { store, quotas, swf_quotas, known: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, KnownOfDomain>> {
        self.known.lock().expect("no code panics while it holds this lock")
    }

    /// Records that a child has started or will not start.
    pub(crate) fn child_settled(&self, domain: &str) {
        if let Some(known) = self.lock().get_mut(domain)
            && known.children.pop_front().is_some()
        {
            // At this point, the run is in the store. Counts that began earlier may not include it.
            let number = known.next();
            known.mark_completed(number);
        }
    }
}

/// Capacity reserved for one open run. Dropping it frees the capacity, unless the run has started.
pub(crate) struct RunPermit {
    runs: Arc<OpenRuns>,
    domain: Arc<str>,
    number: u64,
}

impl RunPermit {
    /// Records that the run has started.
    pub(crate) fn began(self) {
        if let Some(known) = self.runs.lock().get_mut(&self.domain) {
            known.mark_completed(self.number);
        }
    }

    /// Keeps the capacity reserved for a requested child until the child starts or [`CHILD_LASTS`] has passed.
    fn keep_for_child(self) {
        if let Some(known) = self.runs.lock().get_mut(&self.domain) {
            known.children.push_back(Instant::now());
        }
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        if let Some(known) = self.runs.lock().get_mut(&self.domain)
            && known.starts.get(&self.number) == Some(&None)
        {
            known.starts.remove(&self.number);
        }
    }
}

impl OpenRuns {
    /// SWF's quotas, if they are enforced.
    pub(crate) fn swf_quotas(&self) -> Option<&SwfQuotas> {
        self.swf_quotas.as_ref()
    }

    /// Reserves capacity for a run if fewer than `max` runs are open; otherwise returns `None`. The number of open runs
    /// includes all starts by this node. Starts by other nodes are included within ten seconds.
    async fn room(self: &Arc<Self>, domain: &str, max: u64) -> Result<Option<RunPermit>, Refusal> {
        let stale = self.lock().entry(domain.into()).or_default().stale(max);
        if let Some(began) = stale {
            let query = ListQuery { domain: domain.into(), open: Some(true), ..ListQuery::default() };
            let count = self.store.count(&query, max).await?;
            let mut known = self.lock();
            known.entry(domain.into()).or_default().count(began, count.total(), count.read_units > 0);
        }
        let number = self.lock().entry(domain.into()).or_default().take(max);
        Ok(number.map(|number| RunPermit { runs: Arc::clone(self), domain: domain.into(), number }))
    }

    /// Reserves capacity for a run that is about to start in a domain. Returns `None` if the domain has no limit.
    ///
    /// # Errors
    ///
    /// [`Refusal::QuotaExceeded`], [`Refusal::LimitExceeded`] over SWF's protocol, or an error of the store.
    pub(crate) async fn room_for(self: &Arc<Self>, domain: &str, start: &Start) -> Result<Option<RunPermit>, Refusal> {
        let swf = self.swf_quotas().filter(|_| start.swf.is_some()).map(|quotas| quotas.open_runs);
        match (self.quotas.open_runs(domain), swf) {
            (None, None) => Ok(None),
            (Some(max), swf) if swf.is_none_or(|swf| max <= swf as u64) => match self.room(domain, max).await? {
                None => Err(Refusal::QuotaExceeded(self.quotas.reached(domain, LimitKind::OpenRuns, max))),
                room => Ok(room),
            },
            (_, swf) => {
                let max = swf.unwrap_or(usize::MAX);
                match self.room(domain, max as u64).await? {
                    None => Err(Refusal::LimitExceeded { what: Limited::OpenRuns, max }),
                    room => Ok(room),
                }
            }
        }
    }

    /// Returns whether a domain has capacity for a child that a decider has requested. If so, reserves the capacity.
    ///
    /// # Errors
    ///
    /// An error of the store.
    pub(crate) async fn room_for_child(self: &Arc<Self>, domain: &str) -> Result<DomainCapacity, Refusal> {
        let own = self.quotas.open_runs(domain);
        let swf = self.swf_quotas().map(|quotas| quotas.open_runs as u64);
        let Some(min) = own.into_iter().chain(swf).min() else { return Ok(DomainCapacity::Free) };
        if let Some(room) = self.room(domain, min).await? {
            room.keep_for_child();
            return Ok(DomainCapacity::Free);
        }
        if let Some(max) = own.filter(|own| *own == min) {
            // No caller receives this error, so this function counts and logs it.
            drop(self.quotas.reached(domain, LimitKind::OpenRuns, max));
            return Ok(DomainCapacity::Full);
        }
        Ok(DomainCapacity::FullForSwf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_counts_until_a_later_count_includes_it() {
        let mut known = KnownOfDomain::default();
        let began = known.stale(2).unwrap();
        known.count(began, 0, false);
        let first = known.take(2).unwrap();
        // This count began before the start was completed, so it may or may not include the run.
        let early = known.stale(2).unwrap();
        known.mark_completed(first);
        known.count(early, 0, false);
        assert_eq!(known.open(), 1);
        let late = known.stale(2).unwrap();
        known.count(late, 1, false);
        assert_eq!(known.open(), 1, "and not twice");
        known.count(early, 7, false);
        assert_eq!(known.open(), 1, "an older one says nothing");
        assert!(known.take(2).is_some() && known.take(2).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_billed_count_is_reused_for_less_time_if_it_refuses() {
        let mut known = KnownOfDomain::default();
        known.count(1, 1, true);
        assert!(known.stale(2).is_none() && known.stale(1).is_none());
        tokio::time::advance(REFUSAL_LASTS).await;
        assert!(known.stale(2).is_none() && known.stale(1).is_some());
        tokio::time::advance(COUNT_LASTS).await;
        assert!(known.stale(2).is_some());
        known.count(9, 1, false);
        assert!(known.stale(2).is_some(), "where it costs nothing it is counted each time");
    }

    #[tokio::test(start_paused = true)]
    async fn decided_children_count_until_they_start_or_expire() {
        let runs = Arc::new(OpenRuns::new(Arc::new(store::memory::Memory::new()), Arc::default(), None));
        let take = || {
            let number = runs.lock().entry("d".into()).or_default().take(2)?;
            Some(RunPermit { runs: Arc::clone(&runs), domain: "d".into(), number })
        };
        let open = || runs.lock().get_mut("d").unwrap().open();
        take().unwrap().keep_for_child();
        take().unwrap().keep_for_child();
        assert!(open() == 2 && take().is_none());
        runs.child_settled("d");
        assert_eq!(open(), 2, "until it was counted");
        runs.lock().get_mut("d").unwrap().count(1_000, 1, false);
        assert_eq!(open(), 2);
        tokio::time::advance(CHILD_LASTS).await;
        assert_eq!(open(), 1);
        drop(take().unwrap());
        assert_eq!(open(), 1, "what was not started takes no room");
        take().unwrap().began();
        assert_eq!(open(), 2);
        runs.child_settled("d");
        assert_eq!(open(), 2, "there is none");
    }
}
