//! Quotas of domains and credentials. This module owns the configured limits and the use of each. A request over a
//! limit fails with the time to wait, and is counted and logged.
//!
//! A request is admitted once, on arrival (`Shares::admit`). Its later use (waiting, bytes) is charged to the same
//! quotas by the `UnderWay` that admission returned.

mod limit;
mod rate;
mod throttled;
mod under_way;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

pub use limit::{
    BURST_MAX, BYTES_PER_SECOND_MIN, Limit, OPEN_RUNS_MAX, REQUESTS_PER_SECOND_MAX, ShareLimits, TASK_LISTS_MAX,
    WATCHERS_MAX,
};
pub use throttled::{LimitKind, Throttled, Whose};
pub use under_way::{Asking, UnderWay, watch};

use limit::Amounts;
use rate::{Debt, Rate};
use throttled::ThrottledLog;

/// Maximum number of domains and credentials whose throttled requests are counted by name; those of others are
/// counted together. Ours: the names are labels of a metric.
const NAMES_COUNTED_MAX: usize = 100;

/// Label that stands for the others.
const OTHERS: &str = "*";

/// Maximum number of domains and credentials whose use is kept. Ours: four times the maximum number of domains.
/// Beyond it, the use of idle ones is forgotten and starts at zero again.
const SHARES_KEPT_MAX: usize = 4_096;

/// Time to wait if it is not known when the quota is available again. Ours.
const WAIT_UNKNOWN: Duration = Duration::from_secs(1);

/// Number of throttled requests by limit, by kind of holder (domain or credential), and by name.
pub type ThrottledCounts = Family<[(&'static str, Arc<str>); 3], Counter>;

/// Use of one domain or credential.
#[derive(Debug)]
struct UsedShare {
    whose: Whose,
    /// Label in metrics.
    label: Arc<str>,
    amounts: Amounts,
    requests: Option<Rate>,
    bytes: Option<Debt>,
    /// Number of waiting requests. It is kept when the limits change.
    watchers: Arc<AtomicUsize>,
}

impl UsedShare {
    fn new(whose: Whose, label: Arc<str>, amounts: Amounts, watchers: Arc<AtomicUsize>) -> Arc<Self> {
        let requests = amounts.requests_per_second.map(|rate| Rate::new(rate, amounts.burst.unwrap_or(rate)));
        let bytes = amounts.bytes_per_second.map(Debt::new);
        Arc::new(Self { whose, label, amounts, requests, bytes, watchers })
    }

    /// Returns the same use under changed limits.
    fn with(&self, amounts: Amounts) -> Arc<Self> {
        Self::new(self.whose.clone(), Arc::clone(&self.label), amounts, Arc::clone(&self.watchers))
    }
}

/// Limits in force, and the use of each.
#[derive(Debug, Default)]
struct LimitInForce {
    limits: ShareLimits,
    shares: HashMap<Whose, Arc<UsedShare>>,
    /// Holders that are counted by name.
    named: HashSet<Whose>,
}

/// Quotas of all domains and credentials. Always behind an [`Arc`].
#[derive(Debug, Default)]
pub struct Shares {
    in_force: RwLock<LimitInForce>,
    counts: ThrottledCounts,
    told: ThrottledLog,
}

impl Shares {
    /// Replaces the limits from the next request on. The use of unchanged limits is kept.
    pub fn replace(&self, limits: ShareLimits) {
        let mut in_force = self.in_force.write().unwrap_or_else(PoisonError::into_inner);
        in_force.shares.retain(|whose, share| match limits.of(whose) {
            Some(amounts) => {
                if share.amounts != amounts {
                    *share = share.with(amounts);
                }
                true
            }
            None => false,
        });
        in_force.limits = limits;
    }

    /// Whether any limit is configured.
    pub fn has_limits(&self) -> bool {
        !self.in_force.read().unwrap_or_else(PoisonError::into_inner).limits.is_empty()
    }

    /// Numbers of throttled requests.
    pub fn counts(&self) -> &ThrottledCounts {
        &self.counts
    }

    fn share(&self, whose: Whose) -> Option<Arc<UsedShare>> {
        {
            let in_force = self.in_force.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(share) = in_force.shares.get(&whose) {
                return Some(Arc::clone(share));
            }
            in_force.limits.of(&whose)?;
        }
        let mut in_force = self.in_force.write().unwrap_or_else(PoisonError::into_inner);
        let amounts = in_force.limits.of(&whose)?;
        if in_force.shares.len() >= SHARES_KEPT_MAX {
            in_force.shares.retain(|_, share| Arc::strong_count(share) > 1);
        }
        let named = in_force.named.iter().filter(|other| other.kind() == whose.kind()).count();
        if named < NAMES_COUNTED_MAX {
            in_force.named.insert(whose.clone());
        }
        let label: Arc<str> = if in_force.named.contains(&whose) { whose.name() } else { OTHERS.into() };
        let share = in_force.shares.entry(whose.clone());
        Some(Arc::clone(share.or_insert_with(|| UsedShare::new(whose, label, amounts, Arc::default()))))
    }

    /// Maximum number of open runs of a domain.
    pub fn open_runs(&self, domain: &str) -> Option<u64> {
        let in_force = self.in_force.read().unwrap_or_else(PoisonError::into_inner);
        if in_force.limits.is_empty() { None } else { in_force.limits.of(&Whose::domain(domain))?.open_runs }
    }

    /// Maximum number of task lists of a domain that are polled at once.
    pub fn task_lists(&self, domain: &str) -> Option<u64> {
        let in_force = self.in_force.read().unwrap_or_else(PoisonError::into_inner);
        if in_force.limits.is_empty() { None } else { in_force.limits.of(&Whose::domain(domain))?.task_lists }
    }

    /// Records that a domain has reached a limit that is enforced elsewhere.
    pub fn reached(&self, domain: &str, kind: LimitKind, max: u64) -> Throttled {
        let whose = Whose::domain(domain);
        match self.share(whose.clone()) {
            Some(share) => self.throttled(&share, kind, WAIT_UNKNOWN),
            // The limits have changed in the meantime.
            None => Throttled { kind, max, whose, wait: WAIT_UNKNOWN },
        }
    }

    fn throttled(&self, share: &UsedShare, kind: LimitKind, wait: Duration) -> Throttled {
        let max = share.amounts.of(kind).unwrap_or_default();
        let throttled = Throttled { kind, max, whose: share.whose.clone(), wait };
        let labels =
            [("limit", kind.word().into()), ("scope", share.whose.kind().into()), ("name", Arc::clone(&share.label))];
        self.counts.get_or_create(&labels).inc();
        self.told.tell(&throttled);
        throttled
    }

    /// Counts a waiting request until the returned value is dropped.
    fn watcher(&self, share: &Arc<UsedShare>) -> Result<Watcher, Throttled> {
        let max = share.amounts.watchers.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
        let take = |watchers: usize| watchers.checked_add(1).filter(|watchers| *watchers <= max);
        match share.watchers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(Watcher(Arc::clone(&share.watchers))),
            Err(_) => Err(self.throttled(share, LimitKind::Watchers, WAIT_UNKNOWN)),
        }
    }
}

/// A waiting request, counted until this is dropped.
#[derive(Debug)]
struct Watcher(Arc<AtomicUsize>);

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
