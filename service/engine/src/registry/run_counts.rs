//! Number of open runs by domain and status. They are counted in the store on request, so that the numbers are the
//! same on every node and after every restart. This module decides how long a count is reused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use history::{RunCondition, Timestamp};
use store::{ListQuery, Store};
use tokio::time::Instant;

use crate::base::background::Background;
use crate::{Clock, Refusal, Registry};

/// Average read units per second for counting all open runs, and as many for counting flagged ones: an expensive
/// count is reused for longer. Our choice: $3.24 a month for each with continuous requests. On stores without billed
/// reads, each request counts.
const READ_UNITS_PER_SECOND: u64 = 10;

/// Time that requests wait for a count before they get the previous one. Our choice: half of Prometheus' default scrape
/// timeout of ten seconds.
const WAIT: Duration = Duration::from_secs(5);

/// Maximum number of domains with their own numbers. Our choice: they are labels of metrics, and each metric has a
/// series per domain.
const DOMAINS_SHOWN_MAX: usize = 100;

/// Name that stands for all other domains. A domain with this name is counted among them.
const OTHER_DOMAINS: &str = "*";

/// Number of gauges per domain: all open runs, and flagged ones in the order of [`RunCondition::FLAGGED`].
pub(crate) const GAUGES: usize = 1 + RunCondition::FLAGGED.len();

/// Open runs by domain and status word.
type ByDomain = BTreeMap<String, BTreeMap<Arc<str>, u64>>;

/// Age of a count, and until when it is reused.
#[derive(Debug, Clone, Copy)]
struct Age {
    until: Instant,
    counted_at: Timestamp,
}

/// The last count.
#[derive(Debug, Clone)]
struct LastCount {
    by_domain: ByDomain,
    /// For all open runs.
    all: Age,
    /// For flagged runs.
    flagged: Age,
}

/// Counts of a node.
pub(crate) struct RunCounts {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    registry: Arc<Registry>,
    background: Arc<Background>,
    counted: Mutex<Option<LastCount>>,
    /// Held by the request that counts; the others wait for it.
    counting: tokio::sync::Mutex<()>,
}

/// Number of open runs by status, for gauges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gauged {
    /// Numbers by domain, including [`OTHER_DOMAINS`].
    pub(crate) by_domain: BTreeMap<String, [u64; GAUGES]>,
    /// Time of the count of all open runs.
    pub(crate) all_at: Timestamp,
    /// Time of the count of flagged runs.
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

    /// Returns the last count; `None` before the first one.
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

    /// Counts the open runs by status, unless they were counted a moment ago. A slow count continues after this
    /// returns. Until it ends, or if the store cannot be read, [`gauged`](Self::gauged) returns the previous count.
    pub(crate) async fn refresh(self: &Arc<Self>) {
        let counts = Arc::clone(self);
        let counting = self.background.spawn_until_stopped(async move {
            if let Err(refusal) = counts.count_stale_runs().await {
                tracing::warn!(%refusal, "open runs could not be counted");
            }
        });
        // The count continues after the timeout.
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
