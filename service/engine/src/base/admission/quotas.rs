//! Quotas of domains and credentials: the configured limits and the current use of each. A request that exceeds a limit
//! fails, is counted and logged. Its error contains the time to wait.
//!
//! A request is admitted once, when it arrives ([`Quotas::admit`]). Admission returns a
//! [`ChargedRequest`](super::ChargedRequest), which later charges the request's waiting and bytes to the same quotas.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::base::admission::limits::{Amounts, QuotaLimits};
use crate::base::admission::rate::{Debt, Rate};
use crate::base::admission::throttled::{LimitKind, QuotaHolder, Throttled, ThrottledLog};

/// Maximum number of domains and credentials whose throttled requests are counted by name. The throttled requests of
/// all others are counted together. Our choice: the names are labels of a metric, and each label adds a series.
const NAMES_COUNTED_MAX: usize = 100;

/// Label under which the domains or credentials that are not counted by name are counted together.
const OTHERS: &str = "*";

/// Maximum number of domains and credentials whose current use is kept in memory. If there are more, idle ones are
/// dropped, and their next use is counted from zero. Our choice: four times the maximum number of domains.
const QUOTAS_KEPT_MAX: usize = 4_096;

/// Time to wait that is reported if the service cannot know when the quota is available again. Our choice.
const WAIT_UNKNOWN: Duration = Duration::from_secs(1);

/// Number of throttled requests by limit, by kind of holder (domain or credential), and by the holder's name.
pub type ThrottledCounts = Family<[(&'static str, Arc<str>); 3], Counter>;

/// Current use of the limits of one domain or credential.
#[derive(Debug)]
pub(super) struct QuotaUse {
    whose: QuotaHolder,
    /// Label of the holder in metrics.
    label: Arc<str>,
    amounts: Amounts,
    pub(super) requests: Option<Rate>,
    pub(super) bytes: Option<Debt>,
    /// Number of waiting requests. When the configured limits change, the number is kept.
    watchers: Arc<AtomicUsize>,
}

impl QuotaUse {
    fn new(whose: QuotaHolder, label: Arc<str>, amounts: Amounts, watchers: Arc<AtomicUsize>) -> Arc<Self> {
        let requests = amounts.requests_per_second.map(|rate| Rate::new(rate, amounts.burst.unwrap_or(rate)));
        let bytes = amounts.bytes_per_second.map(Debt::new);
        Arc::new(Self { whose, label, amounts, requests, bytes, watchers })
    }

    /// Returns a replacement with other limits. The replacement continues to count the requests that are already
    /// waiting.
    fn with(&self, amounts: Amounts) -> Arc<Self> {
        Self::new(self.whose.clone(), Arc::clone(&self.label), amounts, Arc::clone(&self.watchers))
    }
}

/// Configured limits, and the current use by each holder.
#[derive(Debug, Default)]
struct LimitsInForce {
    limits: QuotaLimits,
    uses: HashMap<QuotaHolder, Arc<QuotaUse>>,
    /// Holders whose throttled requests are counted by name.
    named: HashSet<QuotaHolder>,
}

/// Quotas of all domains and credentials.
#[derive(Debug, Default)]
pub struct Quotas {
    in_force: RwLock<LimitsInForce>,
    counts: ThrottledCounts,
    told: ThrottledLog,
}

impl Quotas {
    /// Replaces the configured limits. Later requests are checked against the new limits. If the limits of a domain or
    /// credential stay the same, its current use is kept.
    pub fn replace(&self, limits: QuotaLimits) {
        let mut in_force = self.in_force.write().unwrap_or_else(PoisonError::into_inner);
        in_force.uses.retain(|whose, used| match limits.of(whose) {
            Some(amounts) => {
                if used.amounts != amounts {
                    *used = used.with(amounts);
                }
                true
            }
            None => false,
        });
        in_force.limits = limits;
    }

    /// Returns true if any limit is configured.
    pub fn has_limits(&self) -> bool {
        !self.in_force.read().unwrap_or_else(PoisonError::into_inner).limits.is_empty()
    }

    /// Returns the numbers of throttled requests.
    pub fn counts(&self) -> &ThrottledCounts {
        &self.counts
    }

    pub(super) fn use_of(&self, whose: QuotaHolder) -> Option<Arc<QuotaUse>> {
        {
            let in_force = self.in_force.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(used) = in_force.uses.get(&whose) {
                return Some(Arc::clone(used));
            }
            in_force.limits.of(&whose)?;
        }
        let mut in_force = self.in_force.write().unwrap_or_else(PoisonError::into_inner);
        let amounts = in_force.limits.of(&whose)?;
        if in_force.uses.len() >= QUOTAS_KEPT_MAX {
            in_force.uses.retain(|_, used| Arc::strong_count(used) > 1);
        }
        let named = in_force.named.iter().filter(|other| other.kind() == whose.kind()).count();
        if named < NAMES_COUNTED_MAX {
            in_force.named.insert(whose.clone());
        }
        let label: Arc<str> = if in_force.named.contains(&whose) { whose.name() } else { OTHERS.into() };
        let used = in_force.uses.entry(whose.clone());
        Some(Arc::clone(used.or_insert_with(|| QuotaUse::new(whose, label, amounts, Arc::default()))))
    }

    /// Returns the maximum number of open runs of a domain, if it is limited.
    pub fn open_runs(&self, domain: &str) -> Option<u64> {
        let in_force = self.in_force.read().unwrap_or_else(PoisonError::into_inner);
        if in_force.limits.is_empty() { None } else { in_force.limits.of(&QuotaHolder::domain(domain))?.open_runs }
    }

    /// Returns the maximum number of task lists of a domain that may be polled at the same time, if it is limited.
    pub fn task_lists(&self, domain: &str) -> Option<u64> {
        let in_force = self.in_force.read().unwrap_or_else(PoisonError::into_inner);
        if in_force.limits.is_empty() { None } else { in_force.limits.of(&QuotaHolder::domain(domain))?.task_lists }
    }

    /// Records that a domain has reached a limit that another module enforces.
    pub fn reached(&self, domain: &str, kind: LimitKind, max: u64) -> Throttled {
        let whose = QuotaHolder::domain(domain);
        match self.use_of(whose.clone()) {
            Some(used) => self.throttled(&used, kind, WAIT_UNKNOWN),
            // The limit was removed from the configuration in the meantime.
            None => Throttled { kind, max, whose, wait: WAIT_UNKNOWN },
        }
    }

    pub(super) fn throttled(&self, used: &QuotaUse, kind: LimitKind, wait: Duration) -> Throttled {
        let max = used.amounts.of(kind).unwrap_or_default();
        let throttled = Throttled { kind, max, whose: used.whose.clone(), wait };
        let labels =
            [("limit", kind.word().into()), ("scope", used.whose.kind().into()), ("name", Arc::clone(&used.label))];
        self.counts.get_or_create(&labels).inc();
        self.told.tell(&throttled);
        throttled
    }

    /// Counts a waiting request until the returned value is dropped.
    pub(super) fn watcher(&self, used: &Arc<QuotaUse>) -> Result<Watcher, Throttled> {
        let max = used.amounts.watchers.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
        let take = |watchers: usize| watchers.checked_add(1).filter(|watchers| *watchers <= max);
        match used.watchers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(Watcher(Arc::clone(&used.watchers))),
            Err(_) => Err(self.throttled(used, LimitKind::Watchers, WAIT_UNKNOWN)),
        }
    }
}

/// A waiting request, which is counted until this value is dropped.
#[derive(Debug)]
pub(super) struct Watcher(Arc<AtomicUsize>);

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
