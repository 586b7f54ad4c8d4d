//! Prometheus metrics of the engine.

pub(crate) mod label;
pub(crate) mod measured;

pub use label::LabelValue;
pub use measured::BRIEF;

use history::ScheduleCounts;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::base::admission::ThrottledCounts;
use crate::base::metrics::measured::Measured;

/// Reason why a task was not delivered. Used as a label of `baton_deliveries_failed_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undelivered {
    /// The poller disconnected while the start of the task was being recorded.
    PollerGone,
    /// The connection was closed before the task was written to it.
    ConnectionClosed,
    /// The task's data could not be read from the store.
    Unreadable,
}

impl Undelivered {
    /// All reasons.
    pub(crate) const ALL: [Self; 3] = [Self::PollerGone, Self::ConnectionClosed, Self::Unreadable];

    /// Returns the value of the label.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::PollerGone => "poller-gone",
            Self::ConnectionClosed => "connection-closed",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Counters of the engine.
#[derive(Debug)]
pub struct Metrics {
    pub(crate) registry: Registry,
    commits: Counter,
    events: Counter,
    pub(crate) conflicts: Counter,
    pub(crate) matched_at_once: Counter,
    deliveries_failed: Family<[(&'static str, &'static str); 1], Counter>,
    pub(crate) expired: Counter,
    pub(crate) looks: Counter,
    pub(crate) marks_written: Counter,
    pub(crate) marks_read: Counter,
    pub(crate) requests_forgotten_early: Counter,
    pub(crate) effects: Counter,
    effects_put_off: Family<[(&'static str, &'static str); 1], Counter>,
    pub(crate) queries_answered: Counter,
    pub(crate) queries_unchanged: Counter,
    pub(crate) ask_tasks: Counter,
    pub(crate) ask_tasks_lost: Counter,
    pub(crate) updates_accepted: Counter,
    pub(crate) updates_rejected: Counter,
    pub(crate) speculative_turns: Counter,
    pub(crate) speculative_turns_lost: Counter,
    pub(crate) output_chunks: Counter,
    /// Actions of schedules, by outcome.
    actions: Family<[(&'static str, &'static str); 1], Counter>,
    refusals: Family<[(&'static str, &'static str); 1], Counter>,
    denied: Family<[(&'static str, &'static str); 1], Counter>,
    secrets_expiring: Gauge,
    issuer_keys_fetches: Family<[(&'static str, String); 2], Counter>,
    access_log_lost: Counter,
    /// Counts and durations of runs and tasks.
    pub(crate) measured: Measured,
}

impl Metrics {
    pub(crate) fn new(throttled: &ThrottledCounts) -> Self {
        let mut registry = Registry::with_prefix("baton");
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let commits = counter("commits", "Successful commits");
        let events = counter("events", "Recorded events");
        let conflicts = counter("commit_conflicts", "Commits that lost a race and were retried");
        let matched_at_once = counter("sync_matches", "Tasks started in the commit that created them");
        let expired = counter("runs_expired", "Runs deleted after their retention");
        let looks = counter("wakes", "Runs woken because they were due");
        let marks_written = counter("request_keys_offloaded", "Idempotency keys moved out of the state of their run");
        let marks_read = counter("request_keys_read", "Lookups of idempotency keys outside the state of their run");
        let requests_forgotten_early = counter(
            "request_keys_evicted",
            "Idempotency keys forgotten within a day because more than 100,000 of their workflow id followed",
        );
        let effects = counter("effects", "Delivered effects on other runs");
        let queries_answered = counter("queries_answered", "Queries answered with a result");
        let queries_unchanged = counter("queries_unchanged", "Query watches that ended without a change");
        let ask_tasks = counter("query_tasks", "Tasks dispatched only for queries");
        let ask_tasks_lost =
            counter("query_tasks_lost", "Query-only tasks that were lost and whose queries were dispatched again");
        let updates_accepted =
            counter("updates_accepted", "Updates whose callers got the response that they were accepted");
        let updates_rejected =
            counter("updates_rejected", "Updates whose callers got the response that they were rejected");
        let speculative_turns = counter("speculative_turns", "Turns dispatched only for updates, without a write");
        let speculative_turns_lost = counter(
            "speculative_turns_lost",
            "Speculative turns that were lost and whose updates were dispatched again",
        );
        let output_chunks = counter("activity_output_chunks", "Chunks of output that activities have appended");
        let actions = Family::<[(&'static str, &'static str); 1], Counter>::default();
        for outcome in ["started", "refused", "skipped", "missed"] {
            drop(actions.get_or_create(&[("outcome", outcome)]));
        }
        registry.register("schedule_actions", "Scheduled times, by outcome", actions.clone());
        let deliveries_failed = Family::<[(&'static str, &'static str); 1], Counter>::default();
        for reason in Undelivered::ALL {
            drop(deliveries_failed.get_or_create(&[("reason", reason.word())]));
        }
        let what = "Tasks that did not reach their poller and were returned to their list, by reason";
        registry.register("deliveries_failed", what, deliveries_failed.clone());
        let effects_put_off = Family::default();
        let what = "Postponed effects on other runs, by error code";
        registry.register("effects_deferred", what, effects_put_off.clone());
        let refusals = Family::default();
        registry.register("refusals", "Refused commands, by error code", refusals.clone());
        let denied = Family::default();
        let access_log_lost = Counter::default();
        let lost = "Requests without a line in the access log";
        registry.register("access_log_lines_dropped", lost, access_log_lost.clone());
        registry.register("denied_requests", "Denied requests, by reason", denied.clone());
        let issuer_keys_fetches = Family::default();
        let what = "Fetches of issuer keys, by outcome";
        registry.register("issuer_keys_fetches", what, issuer_keys_fetches.clone());
        let what = "Requests refused by a quota, by limit and holder";
        registry.register("throttled_requests", what, throttled.clone());
        let secrets_expiring = Gauge::default();
        let what = "Secrets and keys of credentials that expire within seven days";
        registry.register("secrets_expiring", what, secrets_expiring.clone());
        let measured = Measured::new(&mut registry);
        Self {
            registry,
            commits,
            events,
            conflicts,
            matched_at_once,
            deliveries_failed,
            expired,
            looks,
            marks_written,
            marks_read,
            requests_forgotten_early,
            effects,
            effects_put_off,
            queries_answered,
            queries_unchanged,
            ask_tasks,
            ask_tasks_lost,
            updates_accepted,
            updates_rejected,
            speculative_turns,
            speculative_turns_lost,
            output_chunks,
            actions,
            refusals,
            denied,
            secrets_expiring,
            issuer_keys_fetches,
            access_log_lost,
            measured,
        }
    }

    pub(crate) fn conflict(&self) {
        self.conflicts.inc();
    }

    /// Increases the counters of schedule actions by the differences between the counts `before` and `after`.
    pub(crate) fn scheduled(&self, before: &ScheduleCounts, after: &ScheduleCounts) {
        for (outcome, before, after) in [
            ("started", before.started, after.started),
            ("refused", before.refused, after.refused),
            ("skipped", before.skipped, after.skipped),
            ("missed", before.missed, after.missed),
        ] {
            if after > before {
                self.actions.get_or_create(&[("outcome", outcome)]).inc_by(after - before);
            }
        }
    }

    /// Counts a task that did not reach its poller and was returned to its list.
    pub(crate) fn delivery_failed(&self, reason: Undelivered) {
        self.deliveries_failed.get_or_create(&[("reason", reason.word())]).inc();
    }

    pub(crate) fn committed(&self, events: usize) {
        self.commits.inc();
        self.events.inc_by(events as u64);
    }

    /// Counts an effect that failed and will be retried.
    pub(crate) fn put_off(&self, code: &'static str) {
        self.effects_put_off.get_or_create(&[("code", code)]).inc();
    }

    /// Counts lost lines of the access log.
    pub fn access_log_lost(&self, lines: u64) {
        self.access_log_lost.inc_by(lines);
    }

    /// Counts a denied request.
    pub fn denied(&self, reason: &'static str) {
        self.denied.get_or_create(&[("reason", reason)]).inc();
    }

    /// Sets the number of secrets of credentials that expire soon.
    pub fn secrets_expiring(&self, count: usize) {
        self.secrets_expiring.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts an attempt to fetch an issuer's keys.
    pub fn issuer_keys_fetched(&self, issuer: &str, is_fetched: bool) {
        let outcome = if is_fetched { "fetched" } else { "failed" };
        self.issuer_keys_fetches.get_or_create(&[("issuer", issuer.to_owned()), ("outcome", outcome.to_owned())]).inc();
    }

    pub(crate) fn refused(&self, code: &'static str) {
        self.refusals.get_or_create(&[("code", code)]).inc();
    }
}
