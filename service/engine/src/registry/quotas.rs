//! How much there may be in a domain: SWF's limits, where the service holds what comes over its wire to them, and what the
//! operator configured. Owns counting what is open in a domain; what a run itself is held to is the rules' to know, and told
//! them at its start.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use history::{DomainCapacity, Start, SwfLimits};
use store::{ListQuery, Store};
use tokio::time::Instant;

use crate::base::shares::{LimitKind, Shares};
use crate::{Limited, Refusal};

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

/// Source, of all: SWF's quotas. Types of a kind (10,000 in a domain) and what is open in a run are limited in any case.
const OPEN_RUNS_MAX: usize = 100_000;
const DOMAINS_MAX: usize = 100;
const POLLERS_MAX: usize = 1_000;

impl Default for Quotas {
    fn default() -> Self {
        Self { run: SwfLimits::default(), open_runs: OPEN_RUNS_MAX, domains: DOMAINS_MAX, pollers: POLLERS_MAX }
    }
}

/// How long a count of open runs is gone by, with what has been started here since, where counting is billed. Elsewhere they
/// are counted each time. Ours.
const COUNT_LASTS: Duration = Duration::from_secs(10);

/// How long it is gone by for a no. Ours: who starts in vain again and again must not have all counted each time.
const NO_LASTS: Duration = Duration::from_secs(1);

/// How long there is room for a child that was decided on and has not begun. Ours: it begins in a moment, or waits for the store.
const CHILD_LASTS: Duration = Duration::from_secs(10);

/// A count in the store.
#[derive(Debug, Clone, Copy)]
struct QuotaCount {
    /// In the order of what happens here.
    began: u64,
    at: Instant,
    open: u64,
    is_billed: bool,
}

/// What is known of a domain.
#[derive(Debug, Default)]
struct KnownOfDomain {
    /// The newest.
    counted: Option<QuotaCount>,
    /// Starts that took room, and when they were done: until then, and until a count that began after it, they count beside
    /// what was counted.
    starts: BTreeMap<u64, Option<u64>>,
    /// When children were decided on that have not begun.
    children: VecDeque<Instant>,
    /// What has happened here, numbered.
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

    /// When a count begins, if it must be counted again before it is said whether there is room.
    fn stale(&mut self, max: u64) -> Option<u64> {
        let has_room = self.open() < max;
        let is_stale = self.counted.is_none_or(|QuotaCount { at, is_billed, .. }| {
            !is_billed || at.elapsed() >= if has_room { COUNT_LASTS } else { NO_LASTS }
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

    /// A start is done: what begins to count from now on finds its run.
    fn is_done(&mut self, number: u64) {
        let done = self.next();
        self.starts.insert(number, Some(done));
    }

    /// Takes a newer count up, which has what was done before it began.
    fn count(&mut self, began: u64, open: u64, is_billed: bool) {
        if self.counted.is_none_or(|counted| counted.began < began) {
            self.counted = Some(QuotaCount { began, at: Instant::now(), open, is_billed });
            self.starts.retain(|_, done| done.is_none_or(|done| done > began));
        }
    }
}

/// How many runs are open, by domain.
pub(crate) struct OpenRuns {
    store: Arc<dyn Store>,
    shares: Arc<Shares>,
    quotas: Option<Quotas>,
    known: Mutex<HashMap<Arc<str>, KnownOfDomain>>,
}

impl OpenRuns {
    pub(crate) fn new(store: Arc<dyn Store>, shares: Arc<Shares>, quotas: Option<Quotas>) -> Self {
        Self { store, shares, quotas, known: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, KnownOfDomain>> {
        self.known.lock().expect("no code panics while it holds this lock")
    }

    /// A child has begun, or will not.
    pub(crate) fn child_settled(&self, domain: &str) {
        if let Some(known) = self.lock().get_mut(domain)
            && known.children.pop_front().is_some()
        {
            // It is in the store, and in no count that began before.
            let number = known.next();
            known.is_done(number);
        }
    }
}

/// Room for one more open run. It is free again when this is dropped, unless the run began: then it is counted.
pub(crate) struct RunPermit {
    runs: Arc<OpenRuns>,
    domain: Arc<str>,
    number: u64,
}

impl RunPermit {
    /// The run has begun.
    pub(crate) fn began(self) {
        if let Some(known) = self.runs.lock().get_mut(&self.domain) {
            known.is_done(self.number);
        }
    }

    /// It is for a child that was decided on.
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
    /// What programs over SWF's wire are held to, if anything.
    pub(crate) fn quotas(&self) -> Option<&Quotas> {
        self.quotas.as_ref()
    }

    /// Room for one more run where so many may be open; `None` where there is none. Exact to what this node starts; what other
    /// nodes over the store have started is seen within ten seconds.
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

    /// Room for a run that is about to be started in a domain; `None` where nothing says how many there may be.
    ///
    /// # Errors
    ///
    /// [`Refusal::QuotaExceeded`], [`Refusal::LimitExceeded`] over SWF's wire, or the store's.
    pub(crate) async fn room_for(self: &Arc<Self>, domain: &str, start: &Start) -> Result<Option<RunPermit>, Refusal> {
        let swf = self.quotas().filter(|_| start.swf.is_some()).map(|quotas| quotas.open_runs);
        match (self.shares.open_runs(domain), swf) {
            (None, None) => Ok(None),
            (Some(max), swf) if swf.is_none_or(|swf| max <= swf as u64) => match self.room(domain, max).await? {
                None => Err(Refusal::QuotaExceeded(self.shares.reached(domain, LimitKind::OpenRuns, max))),
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

    /// Whether there is room in a domain for a child that was decided on; if so, it counts from now on.
    ///
    /// # Errors
    ///
    /// The store's.
    pub(crate) async fn room_for_child(self: &Arc<Self>, domain: &str) -> Result<DomainCapacity, Refusal> {
        let own = self.shares.open_runs(domain);
        let swf = self.quotas().map(|quotas| quotas.open_runs as u64);
        let Some(min) = own.into_iter().chain(swf).min() else { return Ok(DomainCapacity::Free) };
        if let Some(room) = self.room(domain, min).await? {
            room.keep_for_child();
            return Ok(DomainCapacity::Free);
        }
        if let Some(max) = own.filter(|own| *own == min) {
            // Counted and told, too: nobody hears a refusal.
            drop(self.shares.reached(domain, LimitKind::OpenRuns, max));
            return Ok(DomainCapacity::Full);
        }
        Ok(DomainCapacity::FullForSwf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_counts_until_a_count_has_it_that_began_after_it_was_done() {
        let mut known = KnownOfDomain::default();
        let began = known.stale(2).unwrap();
        known.count(began, 0, false);
        let first = known.take(2).unwrap();
        // A count that began before the start is done may have its run or not.
        let early = known.stale(2).unwrap();
        known.is_done(first);
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
    async fn a_count_that_was_billed_is_gone_by_for_a_while_and_shorter_for_a_no() {
        let mut known = KnownOfDomain::default();
        known.count(1, 1, true);
        assert!(known.stale(2).is_none() && known.stale(1).is_none());
        tokio::time::advance(NO_LASTS).await;
        assert!(known.stale(2).is_none() && known.stale(1).is_some());
        tokio::time::advance(COUNT_LASTS).await;
        assert!(known.stale(2).is_some());
        known.count(9, 1, false);
        assert!(known.stale(2).is_some(), "where it costs nothing it is counted each time");
    }

    #[tokio::test(start_paused = true)]
    async fn children_that_were_decided_on_count_until_they_begin_or_it_takes_long() {
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
