//! Decisions of the simulated deciders: two concurrent activities with three attempts each, a timer, and a signal to a
//! neighbor. Some runs also request the cancellation of a neighbor or start a child, which signals its parent. Then the
//! run succeeds, sometimes only after the outcomes of signal and child are known. Some runs continue as new instead.

use history::event::{ActivityTimeouts, ChildPolicy, WorkflowStarted};
use history::{
    CancelExternal, CancelWorkflow, ContinueAsNew, Decision, Duration, Event, EventKind, Factor, Payload, RetryPolicy,
    ReusePolicy, ScheduleActivity, SignalExternal, StartChild, StartTimer, SucceedWorkflow,
};
use uuid::Uuid;

/// Task list of deciders and runners.
pub(crate) const LIST: &str = "sim";

const TIMER: Duration = Duration::from_secs(5);

const TRIES_MAX: usize = 3;

const TIMEOUTS: ActivityTimeouts = ActivityTimeouts {
    schedule_to_start: None,
    start_to_close: Some(Duration::from_secs(20)),
    schedule_to_close: None,
    heartbeat: Some(Duration::from_secs(12)),
};

/// Retry policy of the activity `b`. The activity `a` has none; its decider schedules it again.
fn retry() -> RetryPolicy {
    RetryPolicy { maximum_attempts: Some(3), jitter: Factor::ONE, ..RetryPolicy::default() }
}

/// Returns the activity of a run without a decider.
pub(crate) fn single_activity() -> ScheduleActivity {
    ScheduleActivity {
        activity_id: history::limits::ONE_ACTIVITY_ID.to_owned(),
        activity_type: "sim".to_owned(),
        timeouts: TIMEOUTS,
        retry: Some(retry()),
        ..ScheduleActivity::default()
    }
}

#[derive(Default)]
struct Step {
    open: bool,
    tries: usize,
    done: bool,
}

impl Step {
    fn ended(&mut self, well: bool) {
        self.open = false;
        self.done |= well;
    }

    fn is_over(&self) -> bool {
        self.done || (!self.open && self.tries >= TRIES_MAX)
    }
}

/// Returns the target of signals from the runs of a workflow id, if there is one.
fn neighbor(workflow_id: &str) -> Option<&'static str> {
    Some(match workflow_id {
        // The runs of `w1` and `w2` may signal each other at the same time. The runs of `w3` signal themselves.
        "w0" | "w2" => "w1",
        "w1" => "w2",
        "w3" => "w3",
        "single" | "going-on" => "peer",
        _ => return None,
    })
}

/// Actions of a run on its neighbor and child, and whether it awaits their outcomes.
#[derive(Default)]
struct Outward {
    signal: Stage,
    child: Stage,
}

/// Progress of an effect on another run.
#[derive(Default, PartialEq)]
enum Stage {
    #[default]
    NotWanted,
    Wanted,
    Known,
}

impl Outward {
    fn see(&mut self, event: &EventKind) {
        match event {
            EventKind::ExternalSignalScheduled(_) => self.signal = Stage::Wanted,
            EventKind::ExternalSignalDelivered(_) | EventKind::ExternalSignalFailed(_) => self.signal = Stage::Known,
            EventKind::ChildScheduled(_) => self.child = Stage::Wanted,
            EventKind::ChildScheduleFailed(_)
            | EventKind::ChildSuccess(_)
            | EventKind::ChildFailed(_)
            | EventKind::ChildTimedOut(_)
            | EventKind::ChildCanceled(_)
            | EventKind::ChildTerminated(_) => self.child = Stage::Known,
            _ => {}
        }
    }

    fn decide(&self, started: &WorkflowStarted) -> Vec<Decision> {
        if self.signal != Stage::NotWanted {
            return Vec::new();
        }
        let lot = lot(started.run_id);
        let mut decisions: Vec<Decision> = Vec::new();
        if let Some(child) = child(&started.workflow_id) {
            let child_policy = match lot % 3 {
                0 => ChildPolicy::Terminate,
                1 => ChildPolicy::RequestCancel,
                _ => ChildPolicy::Abandon,
            };
            decisions.push(
                StartChild {
                    workflow_id: child.to_owned(),
                    workflow_type: "child".to_owned(),
                    reuse_policy: ReusePolicy::AllowDuplicate,
                    child_policy,
                    ..StartChild::default()
                }
                .into(),
            );
        }
        let parent = started.parent.as_ref().map(|parent| parent.workflow_id.as_str());
        if let Some(to) = parent.or(neighbor(&started.workflow_id)) {
            let name = format!("of {}", started.run_id);
            decisions.push(SignalExternal { workflow_id: to.to_owned(), name, ..SignalExternal::default() }.into());
            // Runs of the crash tests must all succeed, so only runs with random workflow ids request a cancellation.
            if lot % 8 == 7 && to.starts_with('w') {
                decisions.push(CancelExternal { workflow_id: to.to_owned(), ..CancelExternal::default() }.into());
            }
        }
        decisions
    }

    fn is_over(&self, run_id: Uuid) -> bool {
        let is_all_known = self.signal != Stage::Wanted && self.child != Stage::Wanted;
        is_all_known || lot(run_id).is_multiple_of(2)
    }
}

/// Number of times that a run continues as new, carried in its input.
const GENERATIONS: u64 = 3;

/// Returns how often this run's predecessors continued.
fn generation(started: &WorkflowStarted) -> u64 {
    started.input.as_ref().and_then(Payload::text).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Returns whether a run continues as new after its work.
fn continues_as_new(started: &WorkflowStarted, may_continue: bool) -> bool {
    match started.workflow_id.as_str() {
        "going-on" | "its-child" => generation(started) == 0,
        _ => may_continue && generation(started) + 1 < GENERATIONS && lot(started.run_id).is_multiple_of(3),
    }
}

/// Returns the child of the runs of a workflow id. Two workflow ids have the same child.
fn child(workflow_id: &str) -> Option<&'static str> {
    match workflow_id {
        "w0" | "w3" => Some("c0"),
        "w1" => Some("c1"),
        "single" => Some("c"),
        "going-on" => Some("its-child"),
        _ => None,
    }
}

/// Returns a random number assigned to a run.
fn lot(run_id: Uuid) -> u8 {
    run_id.as_bytes()[15]
}

/// Returns the decisions of a turn, given all events of the run so far.
pub(crate) fn decide(events: &[Event], may_continue: bool) -> Vec<Decision> {
    let Some(EventKind::WorkflowStarted(started)) = events.first().map(|event| &event.kind) else { return Vec::new() };
    let mut outward = Outward::default();
    let (mut a, mut b) = (Step::default(), Step::default());
    let (mut timer_set, mut timer_expired, mut cancel) = (false, false, false);
    let is_b = |id: u64| {
        let event = events.iter().find(|event| event.id == id);
        matches!(event.map(|event| &event.kind), Some(EventKind::ActivityScheduled(it)) if it.activity_id == "b")
    };
    for event in events {
        outward.see(&event.kind);
        let (id, well) = match &event.kind {
            EventKind::ActivityScheduled(_) => {
                let step = if is_b(event.id) { &mut b } else { &mut a };
                step.open = true;
                step.tries += 1;
                continue;
            }
            EventKind::TimerScheduled(_) => {
                timer_set = true;
                continue;
            }
            EventKind::TimerExpired(_) => {
                timer_expired = true;
                continue;
            }
            EventKind::WorkflowCancelRequested(_) => {
                cancel = true;
                continue;
            }
            EventKind::ActivitySuccess(it) => (it.scheduled_event_id, true),
            EventKind::ActivityFailed(it) => (it.scheduled_event_id, false),
            EventKind::ActivityTimedOut(it) => (it.scheduled_event_id, false),
            EventKind::ActivityScheduledTimeout(it) => (it.scheduled_event_id, false),
            _ => continue,
        };
        if is_b(id) { &mut b } else { &mut a }.ended(well);
    }
    if cancel {
        return vec![CancelWorkflow::default().into()];
    }
    let mut decisions = outward.decide(started);
    for (step, name) in [(&a, "a"), (&b, "b")] {
        if !step.open && !step.is_over() {
            decisions.push(
                ScheduleActivity {
                    activity_id: name.to_owned(),
                    activity_type: "work".to_owned(),
                    task_list: Some(LIST.to_owned()),
                    timeouts: TIMEOUTS,
                    retry: (name == "b").then(retry),
                    ..ScheduleActivity::default()
                }
                .into(),
            );
        }
    }
    if !timer_set {
        decisions.push(StartTimer { timer_id: "t".to_owned(), after: TIMER, control: None }.into());
    }
    if timer_expired && a.is_over() && b.is_over() && outward.is_over(started.run_id) {
        decisions.push(if continues_as_new(started, may_continue) {
            let input = Payload::from_json(&(generation(started) + 1).to_string()).ok();
            ContinueAsNew { input, ..ContinueAsNew::default() }.into()
        } else {
            SucceedWorkflow::default().into()
        });
    }
    decisions
}
