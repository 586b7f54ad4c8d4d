//! Checks that fail a test: stuck runs, broken histories, impure deciders.

use baton_history::DeadlineKind;

use super::TestService;
use crate::testing::recorded::Recorded;
use crate::testing::{assert_consistent, fail};

impl TestService {
    /// Returns whether an open run will do nothing more before its execution timeout.
    pub(super) fn is_stuck(&self, index: usize) -> bool {
        let run = self.at(index);
        let deadlines = run.run.deadlines(&run.heartbeats);
        run.expected == 0
            && run.run.turn_task.is_none()
            && run.run.turn.is_none()
            && self.waits(index).is_none()
            && deadlines.iter().all(|deadline| matches!(deadline.what, DeadlineKind::Execution | DeadlineKind::Run))
    }

    pub(super) fn why_stuck(&self, index: usize) -> String {
        let run = &self.at(index).run;
        let reasons = run.activities.values().map(|activity| {
            let (id, list) = (&activity.activity_id, &activity.task_list);
            match activity.held_since() {
                None => format!(
                    "activity `{id}` ({}) waits on list `{list}`, which has no runner for it, and has no \
                     schedule-to-start timeout",
                    activity.activity_type
                ),
                Some(_) => {
                    format!(
                        "activity `{id}` was taken by a runner that never answers, and has no start-to-close timeout"
                    )
                }
            }
        });
        let children = run.children.values().map(|child| format!("child `{}` is open", child.workflow_id));
        let reasons: Vec<_> = reasons.chain(children).collect();
        if reasons.is_empty() {
            return "no activity, no timer and no turn is open; only a signal, a cancellation or its execution timeout \
                    can wake it"
                .to_owned();
        }
        reasons.join("; ")
    }

    #[track_caller]
    pub(super) fn check_all_runs(&mut self) {
        for index in 0..self.runs.len() {
            self.check_run(index);
        }
    }

    /// Checks a history against the rules, and checks that its decider is deterministic. With a state folded from event
    /// 1, the decider must decide every turn as it did with the state folded window by window.
    #[track_caller]
    pub(super) fn check_run(&mut self, index: usize) {
        let run = self.at(index);
        if run.checked == run.events.len() {
            return;
        }
        assert_consistent(&run.events, &run.run);
        if let Some(subjects) = self.deciders.get(&run.run.started.workflow_type)
            && !run.had_another_decider
        {
            let differences = Recorded::of(&run.events).differences_of(&mut *subjects());
            if let Some(difference) = differences.first() {
                fail(
                    format_args!(
                        "called again with the recorded history, the decider made other decisions\n{difference}"
                    ),
                    &run.events,
                );
            }
        }
        let checked = run.events.len();
        self.at_mut(index).checked = checked;
    }
}
