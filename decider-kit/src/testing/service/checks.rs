//! What no run may come to.

use baton_history::DeadlineKind;

use super::TestService;
use crate::testing::recorded::Recorded;
use crate::testing::{fail, must_be_sound};

impl TestService {
    /// Whether nothing will ever happen to an open run but its execution timeout.
    pub(super) fn is_stuck(&self, index: usize) -> bool {
        let run = self.at(index);
        let deadlines = run.run.deadlines(&run.beats);
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
                    "activity `{id}` ({}) waits on list `{list}`, where no runner does it, and has no schedule-to-start \
                     timeout",
                    activity.activity_type
                ),
                Some(_) => format!("activity `{id}` was taken and is never answered, and has no start-to-close timeout"),
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
    pub(super) fn hold_everything(&mut self) {
        for index in 0..self.runs.len() {
            self.hold(index);
        }
    }

    /// Holds a history against the rules, and its decider against itself: folding the history from its beginning, it
    /// must decide every turn as it did when it folded it window by window.
    #[track_caller]
    pub(super) fn hold(&mut self, index: usize) {
        let run = self.at(index);
        if run.checked == run.events.len() {
            return;
        }
        must_be_sound(&run.events, &run.run);
        if let Some(minds) = self.deciders.get(&run.run.started.workflow_type)
            && !run.had_another_decider
        {
            let differences = Recorded::of(&run.events).differences_of(&mut *minds());
            if let Some(difference) = differences.first() {
                fail(format_args!("asked again, the decider decides something else\n{difference}"), &run.events);
            }
        }
        let checked = run.events.len();
        self.at_mut(index).checked = checked;
    }
}
