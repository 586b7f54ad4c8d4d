//! What the simulated deciders decide: two activities side by side, each tried three times, and a timer; then success.

use history::event::ActivityTimeouts;
use history::{
    CancelWorkflow, Decision, Duration, Event, EventKind, Factor, RetryPolicy, ScheduleActivity, StartTimer,
    SucceedWorkflow,
};

/// The task list of deciders and runners.
pub(crate) const LIST: &str = "sim";

const TIMER: Duration = Duration::from_secs(5);

const TRIES_MAX: usize = 3;

const TIMEOUTS: ActivityTimeouts = ActivityTimeouts {
    schedule_to_start: None,
    start_to_close: Some(Duration::from_secs(20)),
    schedule_to_close: None,
    heartbeat: Some(Duration::from_secs(12)),
};

/// `b` is tried again by the service, `a` by its decider alone.
fn retry() -> RetryPolicy {
    RetryPolicy { maximum_attempts: Some(3), jitter: Factor::ONE, ..RetryPolicy::default() }
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

/// The decisions of a turn that sees these events, from the first on.
pub(crate) fn decide(events: &[Event]) -> Vec<Decision> {
    let (mut a, mut b) = (Step::default(), Step::default());
    let (mut timer_set, mut timer_expired, mut cancel) = (false, false, false);
    let is_b = |id: u64| {
        let event = events.iter().find(|event| event.id == id);
        matches!(event.map(|event| &event.kind), Some(EventKind::ActivityScheduled(it)) if it.activity_id == "b")
    };
    for event in events {
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
    let mut decisions: Vec<Decision> = Vec::new();
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
        decisions.push(StartTimer { timer_id: "t".to_owned(), after: TIMER }.into());
    }
    if timer_expired && a.is_over() && b.is_over() {
        decisions.push(SucceedWorkflow::default().into());
    }
    decisions
}
