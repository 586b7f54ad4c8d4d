//! How many runs are open, and how they stand, by domain: counted in the store when somebody asks, so that it is the same
//! at every node and after every restart. Owns when what is known is counted anew.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use history::{RunCondition, Timestamp};
use store::{ListQuery, Store};
use tokio::time::Instant;

use crate::base::background::Background;
use crate::{Clock, Refusal, Registry};

/// What counting all open runs may cost a second, on average, and counting those that are flagged: a count is gone by the
/// longer the more it cost. Ours: $3.24 a month for each, where somebody asks all the time. An engine that is not billed
/// for reads counts each time.
const READ_UNITS_PER_SECOND: u64 = 10;

/// How long those who ask wait for a count before they are told the one before. Ours: half of the ten seconds after which
/// Prometheus gives up unless told otherwise.
const WAIT: Duration = Duration::from_secs(5);

/// Domains that are told one by one. Ours: they are labels of metrics, each of which is kept for each of them.
const DOMAINS_TOLD_MAX: usize = 100;

/// Stands for all domains beyond those. A domain of this name is one of them.
const OTHER_DOMAINS: &str = "*";

/// Numbers of each domain: of all open runs, and of those that are flagged in the order of [`RunCondition::FLAGGED`].
pub(crate) const GAUGES: usize = 1 + RunCondition::FLAGGED.len();

/// Open runs by domain and status word.
type ByDomain = BTreeMap<String, BTreeMap<Arc<str>, u64>>;

/// A count and until when it is gone by.
#[derive(Debug, Clone, Copy)]
struct Age {
    until: Instant,
    counted_at: Timestamp,
}

/// What was counted last.
#[derive(Debug, Clone)]
struct LastCount {
    by_domain: ByDomain,
    /// Of all open runs.
    all: Age,
    /// Of those that are flagged.
    flagged: Age,
}

/// The counts of a node.
pub(crate) struct RunCounts {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    registry: Arc<Registry>,
    background: Arc<Background>,
    counted: Mutex<Option<LastCount>>,
    /// One counts at a time; the others wait for it.
    counting: tokio::sync::Mutex<()>,
}

/// How many runs are open and how they stand, for gauges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gauged {
    /// By the domains that are told.
    pub(crate) by_domain: BTreeMap<String, [u64; GAUGES]>,
    /// When all were counted.
    pub(crate) all_at: Timestamp,
    /// When those that are flagged were.
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

    /// What is known; nothing before the first count.
    pub(crate) fn gauged(&self) -> Option<Gauged> {
        let counted = self.lock();
        let LastCount { by_domain: counts, all, flagged } = counted.as_ref()?;
        let (mut by_domain, mut room) = (BTreeMap::new(), DOMAINS_TOLD_MAX);
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

    /// Counts what is open and how it stands, if that was not done a moment ago. Where it takes long, it goes on when this
    /// has ended, and [`gauged`](Self::gauged) tells what was counted before; likewise where the store cannot
    /// be read.
    pub(crate) async fn refresh(self: &Arc<Self>) {
        let counts = Arc::clone(self);
        let counting = self.background.spawn_until_stopped(async move {
            if let Err(refusal) = counts.count_stale_runs().await {
                tracing::warn!(%refusal, "open runs could not be counted");
            }
        });
        // Whoever does not wait for it any more leaves it to count on.
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
    fn domains_beyond_the_most_that_are_told_are_told_together() {
        let age = Age { until: Instant::now(), counted_at: Timestamp::from_millis(7) };
        let counts = || BTreeMap::from([("open".into(), 10), ("stuck".into(), 2), ("retrying".into(), 1)]);
        let mut by_domain: ByDomain = (0..DOMAINS_TOLD_MAX + 3).map(|it| (format!("d{it:03}"), counts())).collect();
        by_domain.insert("*".to_owned(), counts());
        let counted = LastCount { by_domain, all: age, flagged: age };
        let store: Arc<dyn Store> = Arc::new(store::memory::Memory::new());
        let registry = Registry::new(Arc::clone(&store), Arc::new(SystemClock), false);
        let known = RunCounts::new(store, Arc::new(SystemClock), Arc::new(registry), Background::new());
        *known.lock() = Some(counted);
        let gauged = known.gauged().unwrap();
        assert_eq!(gauged.by_domain.len(), DOMAINS_TOLD_MAX + 1);
        assert_eq!(gauged.by_domain["d000"], [13, 0, 0, 2, 0, 1, 0]);
        assert_eq!(gauged.by_domain["*"].map(|gauge| gauge % 4), [0, 0, 0, 0, 0, 0, 0], "four domains");
    }
}
