//! Counts of a run's open items.

use super::{OpenCounts, Run};
use crate::dialect::LAMBDA_LIST;

impl Run {
    /// Returns the numbers of open items. For a closed run, these are the numbers just before its close.
    pub fn open_counts(&self) -> OpenCounts {
        if self.is_open() { self.count_open() } else { self.left_open }
    }

    pub(crate) fn count_open(&self) -> OpenCounts {
        let functions = self.activities.values().filter(|it| self.is_lambda(&it.task_list)).count();
        OpenCounts {
            activities: count(self.activities.len() - functions),
            functions: count(functions),
            timers: count(self.timers.len()),
            children: count(self.children.len()),
        }
    }

    /// Returns `true` if the run is an SWF run, in which activities on this task list are Lambda tasks.
    pub fn is_lambda(&self, task_list: &str) -> bool {
        self.started.is_swf() && task_list == LAMBDA_LIST
    }
}

/// Converts a count of open items. A run has at most about a thousand open items of a kind.
fn count(found: usize) -> u32 {
    u32::try_from(found).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::ScheduleActivity;
    use crate::dialect::{SwfRun, lambda_activity_id};
    use crate::event::ActivityTimeouts;
    use crate::scene::{Scene, child, plain, scene, schedule, success, terminate, timer};
    use crate::start::Start;
    use crate::time::Duration;
    use crate::{Command, Decision, Payload, TurnAnswer};

    fn lambda(id: &str) -> Decision {
        ScheduleActivity {
            activity_id: lambda_activity_id(id),
            activity_type: "resize".to_owned(),
            task_list: Some(LAMBDA_LIST.to_owned()),
            timeouts: ActivityTimeouts { start_to_close: Some(Duration::from_secs(9)), ..ActivityTimeouts::default() },
            ..ScheduleActivity::default()
        }
        .into()
    }

    #[test]
    fn open_counts_stay_readable_after_the_close() {
        let open = scene().decide([schedule("a"), schedule("b"), timer("t", 9), child("c")]);
        let expected = OpenCounts { activities: 2, functions: 0, timers: 1, children: 1 };
        assert_eq!(open.run.open_counts(), expected);
        assert!(open.run.left_open.is_zero());
        let closed = open.then(&terminate());
        assert_eq!((closed.run.open_counts(), closed.run.activities.len()), (expected, 0));
        let empty = scene().decide([success()]);
        assert!(empty.run.open_counts().is_zero());
    }

    #[test]
    fn lambda_tasks_are_counted_separately() {
        let role = Some("role".to_owned());
        let start = Start { swf: Some(SwfRun { lambda_role: role, ..SwfRun::default() }), ..plain() };
        let swf = Scene::of(&start).with_functions().decide([lambda("l")]);
        assert_eq!(swf.run.open_counts(), OpenCounts { functions: 1, ..OpenCounts::default() });
        assert_eq!(swf.run.last_activity_at, None);
        // In a run that is not an SWF run, this task list has no special meaning.
        let native = scene().after(7).decide([lambda("l")]);
        assert_eq!(native.run.open_counts(), OpenCounts { activities: 1, ..OpenCounts::default() });
        assert_eq!(native.run.last_activity_at, Some(native.now));
    }

    #[test]
    fn the_newest_activity_and_the_newest_context_are_remembered() {
        let complete = |scene: Scene, context: Option<&str>| {
            let scene = scene.take();
            let context = context.map(|text| Payload::of(&text).unwrap());
            let command = Command::complete(
                scene.turn(),
                TurnAnswer { decisions: vec![schedule("a")], context, ..TurnAnswer::default() },
            );
            scene.then(&command)
        };
        let first = complete(scene().after(5), Some("c"));
        assert_eq!((first.run.last_activity_at, first.run.context_event_id), (Some(first.now), Some(4)));
        let at = first.now;
        let second = first.takes("a").succeeds("a").after(5).decide([]);
        assert_eq!((second.run.last_activity_at, second.run.context_event_id), (Some(at), Some(4)), "as it was");
    }
}
