//! Counts and durations of runs and tasks, by type and by task list.

use std::sync::Arc;

use history::{Duration, Timestamp};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::label::{Bounded, LabelValue, Labels};

/// Histogram bounds in seconds for operations that normally take milliseconds.
pub const BRIEF: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

/// Histogram bounds in seconds for the time that tasks wait for deciders and runners, up to a day.
const WAITS: [f64; 12] = [0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0, 3_600.0, 21_600.0, 86_400.0];

/// Histogram bounds in seconds for the time from a run's start to its close, up to a month.
const RUNS: [f64; 12] = [0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 1_800.0, 3_600.0, 86_400.0, 604_800.0, 2_592_000.0];

/// Fact about a commit that is counted or measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fact {
    /// A run was started.
    Started,
    /// A run has closed with this status; the duration is the time since its start.
    Closed(&'static str, Duration),
    /// A turn was completed; the duration is the time since its start.
    TurnCompleted(Duration),
    /// A turn failed or timed out; the value is the kind of failure.
    TurnFailed(&'static str),
    /// An activity of this type has failed or timed out for good, or no runner has taken it in time.
    TryFailed(String),
}

/// Facts of a commit.
#[derive(Debug, Default)]
pub(crate) struct CommitFacts {
    /// Workflow type of the run.
    pub(crate) workflow_type: Arc<str>,
    pub(crate) all: Vec<Fact>,
}

/// Number of tasks and pollers of a task list.
#[derive(Debug, Clone)]
pub(crate) struct ListDepth {
    pub(crate) domain: Arc<str>,
    /// `decider` or `activity`.
    pub(crate) side: &'static str,
    pub(crate) name: Arc<str>,
    pub(crate) tasks: usize,
    pub(crate) pollers: usize,
    /// Time when the oldest task began to wait.
    pub(crate) oldest: Option<Timestamp>,
}

impl ListDepth {
    pub(crate) fn labels(&self) -> Vec<(&'static str, LabelValue)> {
        vec![("domain", (&self.domain).into()), ("kind", self.side.into()), ("list", (&self.name).into())]
    }
}

/// Use of the limits of a task list.
#[derive(Debug, Clone, Default)]
pub(crate) struct LimitedUse {
    pub(crate) domain: Arc<str>,
    /// `decider` or `activity`.
    pub(crate) side: &'static str,
    pub(crate) name: Arc<str>,
    pub(crate) running: u64,
    /// Maximum number of running tasks, if the list has one.
    pub(crate) max_running: Option<u64>,
    /// Number of waiting tasks that may not start now.
    pub(crate) held_back: usize,
}

impl LimitedUse {
    pub(crate) fn labels(&self) -> Vec<(&'static str, LabelValue)> {
        vec![("domain", (&self.domain).into()), ("kind", self.side.into()), ("list", (&self.name).into())]
    }
}

/// Metrics of runs and tasks.
#[derive(Debug)]
pub(crate) struct Measured {
    commits: Histogram,
    to_start: Bounded<3, Histogram>,
    turns: Bounded<2, Histogram>,
    runs: Bounded<3, Histogram>,
    started: Bounded<2, Counter>,
    closed: Bounded<3, Counter>,
    turns_failed: Bounded<3, Counter>,
    tries_failed: Bounded<2, Counter>,
}

impl Measured {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let commits = Histogram::new(BRIEF);
        let help = "Duration of successful commits until they were durable";
        registry.register("commit_seconds", help, commits.clone());
        let help = "Time that tasks waited for a poller, by task list";
        let to_start = Bounded::new(registry, "schedule_to_start_seconds", help, || Histogram::new(WAITS));
        let help = "Duration of completed turns, by workflow type";
        let turns = Bounded::new(registry, "turn_seconds", help, || Histogram::new(BRIEF));
        let help = "Time that runs were open, by workflow type and status";
        let runs = Bounded::new(registry, "workflow_seconds", help, || Histogram::new(RUNS));
        let started = Bounded::new(registry, "workflows_started", "Started runs, by workflow type", Counter::default);
        let help = "Closed runs, by workflow type and status";
        let closed = Bounded::new(registry, "workflows_closed", help, Counter::default);
        let help = "Turns that deciders failed or that timed out, by workflow type and reason";
        let turns_failed = Bounded::new(registry, "turns_failed", help, Counter::default);
        let help = "Attempts of activities that failed or timed out, by activity type";
        let tries_failed = Bounded::new(registry, "activity_attempts_failed", help, Counter::default);
        Self { commits, to_start, turns, runs, started, closed, turns_failed, tries_failed }
    }

    /// Records the duration of a successful commit.
    pub(crate) fn committed(&self, long: std::time::Duration) {
        self.commits.observe(long.as_secs_f64());
    }

    /// Records how long a task waited on this list until it was taken.
    pub(crate) fn taken(&self, domain: &Arc<str>, side: &'static str, list: &Arc<str>, waited: Duration) {
        let labels = [("domain", domain.into()), ("kind", side.into()), ("list", list.into())];
        self.to_start.of(labels).observe(seconds(waited));
    }

    /// Counts a failed attempt of an activity. Another attempt will follow.
    pub(crate) fn try_failed(&self, domain: &Arc<str>, activity_type: &str) {
        self.tries_failed.of([("domain", domain.into()), ("type", activity_type.into())]).inc();
    }

    /// Counts the facts of a commit.
    pub(crate) fn note(&self, domain: &Arc<str>, facts: &CommitFacts) {
        let of_type = || -> Labels<2> { [("domain", domain.into()), ("type", (&facts.workflow_type).into())] };
        let and = |name, value: &'static str| -> Labels<3> {
            let [domain, workflow_type] = of_type();
            [domain, workflow_type, (name, value.into())]
        };
        for fact in &facts.all {
            match fact {
                Fact::Started => _ = self.started.of(of_type()).inc(),
                Fact::Closed(status, long) => {
                    self.closed.of(and("status", status)).inc();
                    self.runs.of(and("status", status)).observe(seconds(*long));
                }
                Fact::TurnCompleted(long) => self.turns.of(of_type()).observe(seconds(*long)),
                Fact::TurnFailed(why) => _ = self.turns_failed.of(and("reason", why)).inc(),
                Fact::TryFailed(activity_type) => self.try_failed(domain, activity_type),
            }
        }
    }

    /// Sets a first value for each metric, so that tests can compare the names of all metrics with the documentation.
    pub(crate) fn sample(&self) {
        let (domain, long) = ("default".into(), Duration::ZERO);
        self.taken(&domain, "decider", &"l".into(), long);
        let all = [
            Fact::Started,
            Fact::Closed("success", long),
            Fact::TurnCompleted(long),
            Fact::TurnFailed("failed"),
            Fact::TryFailed("charge".to_owned()),
        ];
        self.note(&domain, &CommitFacts { workflow_type: "order".into(), all: all.into() });
    }
}

#[expect(clippy::cast_precision_loss, reason = "no time has 2^52 milliseconds")]
fn seconds(long: Duration) -> f64 {
    long.as_millis() as f64 / 1_000.0
}
