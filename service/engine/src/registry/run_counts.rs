//! Number of open runs by domain and status. The runs are counted in the store on request, so the numbers are the same
//! on every node and after every restart. This module decides how long a count is reused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use history::{RunCondition, Timestamp};
use store::{ListQuery, Store};
use tokio::time::Instant;

use crate::base::background::Background;
use crate::{Clock, Refusal, Registry};

/// Average number of read units per second that counting all open runs may use. Counting flagged runs may use the same
/// number in addition. Therefore, the more a count costs, the longer it is reused. Our choice: if counts are requested
/// all the time, each of the two kinds costs $3.24 per month. If the store does not bill for reads, each request counts
/// the runs again.
const READ_UNITS_PER_SECOND: u64 = 10;

/// Maximum time that requests wait for a new count before they get the previous count. Our choice: half of Prometheus'
/// default scrape timeout of ten seconds.
const WAIT: Duration = Duration::from_secs(5);

/// Maximum number of domains with separate numbers. Our choice: domains are labels of metrics, and each metric has a
/// series per domain.
const DOMAINS_SHOWN_MAX: usize = 100;

/// Name under which the domains without separate numbers are counted. If a domain has this name, it is included.
const OTHER_DOMAINS: &str = "*";

/// Number of gauges per domain: one for all open runs, then one for each of [`RunCondition::FLAGGED`] in the order of
/// that list.
pub(crate) const GAUGES: usize = 1 + RunCondition::FLAGGED.len();

/// Number of open runs by domain and status.
type ByDomain = BTreeMap<String, BTreeMap<Arc<str>, u64>>;

/// Time of a count, and the time until which it is reused.
#[derive(Debug, Clone, Copy)]
struct Age {
    until: Instant,
    counted_at: Timestamp,
}

/// Result of the last count.
#[derive(Debug, Clone)]
struct LastCount {
    by_domain: ByDomain,
    /// Age of the count of all open runs.
    all: Age,
    /// Age of the count of flagged runs.
    flagged: Age,
}

/// Counts of open runs at this node.
pub(crate) struct RunCounts {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    registry: Arc<Registry>,
    background: Arc<Background>,
    counted: Mutex<Option<LastCount>>,
    /// Locked by the request that counts, while other requests wait for its result.
    counting: tokio::sync::Mutex<()>,
}

/// Number of open runs by status, for gauges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gauged {
    /// Numbers by domain, including the sum under [`OTHER_DOMAINS`].
    pub(crate) by_domain: BTreeMap<String, [u64; GAUGES]>,
    /// Time when all open runs were counted.
    pub(crate) all_at: Timestamp,
    /// Time when flagged runs were counted.
    pub(crate) flagged_at: Timestamp,
}

impl RunCounts {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        registry: Arc<Registry>,
        background: Arc<Background>,
    ) -> Self {
        let (counted, counting) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { store, clock, registry, background, counted, counting }
    }

    fn lock(&self) -> MutexGuard<'_, Option<LastCount>> {
        self.counted.lock().expect("no code panics while it holds this lock")
    }

    /// Returns the last count; `None` if the runs were never counted.
    pub(crate) fn gauged(&self) -> Option<Gauged> {
        let counted = self.lock();
        let LastCount { by_domain: counts, all, flagged } = counted.as_ref()?;
        let (mut by_domain, mut room) = (BTreeMap::new(), DOMAINS_SHOWN_MAX);
        for (domain, counts) in counts {
            let told = if domain == OTHER_DOMAINS || room == 0 { OTHER_DOMAINS } else { domain };
            room -= usize::from(told == domain && domain != OTHER_DOMAINS);
            let [open, rest @ ..] = by_domain.entry(told.to_owned()).or_insert([0; GAUGES]);
            *open += counts.values().sum::<u64>();
            for (gauge, standing) in rest.iter_mut().zip(RunCondition::FLAGGED) {
                *gauge += counts.get(standing.word()).copied().unwrap_or_default();
            }
        }
        Some(Gauged { by_domain, all_at: all.counted_at, flagged_at: flagged.counted_at })
    }

    /// Counts the open runs by status, unless the previous count can be reused. A slow count continues after this
    /// function returns. Until it ends, or if the store cannot be read, [`gauged`](Self::gauged) returns the previous
    /// count.
    pub(crate) async fn refresh(self: &Arc<Self>) {
        let counts = Arc::clone(self);
        let counting = self.background.spawn_until_stopped(async move {
            if let Err(refusal) = counts.count_stale_runs().await {
                tracing::warn!(%refusal, "open runs could not be counted");
            }
        });
        // If the timeout ends first, the count continues in the background.
        drop(tokio::time::timeout(WAIT, counting).await);
    }

    async fn count_stale_runs(&self) -> Result<(), Refusal> {
        let _one_at_a_time = self.counting.lock().await;
        let (now, known) = (Instant::now(), self.lock().clone());
        let counted = match known {
            Some(known) if now < known.flagged.until => known,
            Some(mut known) if now < known.all.until => {
                let (counts, age) = self.count_domains(Some(true)).await?;
                for (domain, counts) in counts {
                    let known = known.by_domain.entry(domain).or_default();
                    known.retain(|word, _| RunCondition::from_word(word) == Some(RunCondition::Open));
                    known.extend(counts);
                }
                LastCount { flagged: age, ..known }
            }
            _ => {
                let (by_domain, all) = self.count_domains(None).await?;
                LastCount { by_domain, all, flagged: all }
            }
        };
        *self.lock() = Some(counted);
        Ok(())
    }

    async fn count_domains(&self, flagged: Option<bool>) -> Result<(ByDomain, Age), Refusal> {
        let (began, counted_at) = (Instant::now(), self.clock.now());
        let (mut by_domain, mut read_units) = (ByDomain::new(), 0);
        for domain in self.registry.domains().await? {
            let query =
                ListQuery { domain: domain.name.as_str().into(), open: Some(true), flagged, ..ListQuery::default() };
            let count = self.store.count(&query, u64::MAX).await?;
            read_units += count.read_units;
            by_domain.insert(domain.name, count.by_status);
        }
        let lasts = Duration::from_millis(read_units.saturating_mul(1_000) / READ_UNITS_PER_SECOND);
        Ok((by_domain, Age { until: began + lasts, counted_at }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SystemClock;

    #[test]
    fn domains_beyond_the_maximum_are_counted_together() {
        let age = Age { until: Instant::now(), counted_at: Timestamp::from_millis(7) };
        let counts = || BTreeMap::from([("open".into(), 10), ("stuck".into(), 2), ("retrying".into(), 1)]);
        let mut by_domain: ByDomain = (0..DOMAINS_SHOWN_MAX + 3).map(|it| (format!("d{it:03}"), counts())).collect();
        by_domain.insert("*".to_owned(), counts());
        let counted = LastCount { by_domain, all: age, flagged: age };
        let store: Arc<dyn Store> = Arc::new(store::memory::Memory::new());
        let registry = Registry::new(Arc::clone(&store), Arc::new(SystemClock), false);
        let known = RunCounts::new(store, Arc::new(SystemClock), Arc::new(registry), Background::new());
        *known.lock() = Some(counted);
        let gauged = known.gauged().unwrap();
        assert_eq!(gauged.by_domain.len(), DOMAINS_SHOWN_MAX + 1);
        assert_eq!(gauged.by_domain["d000"], [13, 0, 0, 2, 0, 1, 0]);
        assert_eq!(gauged.by_domain["*"].map(|gauge| gauge % 4), [0, 0, 0, 0, 0, 0, 0], "four domains");
    }
}
