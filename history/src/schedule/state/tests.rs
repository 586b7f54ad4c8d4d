use super::*;
use crate::schedule::{Interval, ScheduleSpec};

const ID: Uuid = Uuid::from_u128(7);

/// A schedule with an action every minute since 1970, with its rules.
#[derive(Clone)]
struct Scene {
    state: ScheduleState,
    rules: Rules,
    times: ScheduleTimes,
    now: Timestamp,
}

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

fn at(minute: u64) -> Timestamp {
    Timestamp::default().plus(minutes(minute))
}

fn scene(overlap: Overlap) -> Scene {
    let intervals = vec![Interval { every: minutes(1), phase: Duration::ZERO }];
    let times = ScheduleTimes::new("spec", &ScheduleSpec { intervals, ..ScheduleSpec::default() }).unwrap();
    let rules = Rules { overlap, catch_up: minutes(10), pause_on_failure: false };
    Scene { state: ScheduleState::begin(at(0), None), rules, times, now: at(0) }
}

impl Scene {
    /// Evaluates the schedule in this minute. `sights` are the observed states of its runs.
    fn evaluate(mut self, minute: u64, sights: &[ObservedRun]) -> Self {
        self.now = at(minute);
        self.state.step(self.rules, &self.times, ID, self.now, sights);
        self
    }

    /// Starts the runs of all decided actions.
    fn start(mut self) -> Self {
        for action in self.state.starting.clone() {
            let run_id = Uuid::from_u128(u128::from(action.number));
            self.state.started(action.number, Ok((format!("w-{}", action.number), run_id)));
        }
        self
    }

    fn due(&self) -> Option<u64> {
        let due = self.state.due(self.rules, &self.times, ID, self.now);
        due.map(|due| due.since(Timestamp::default()).as_millis() / 1_000)
    }

    fn nominals(actions: impl IntoIterator<Item = Action>) -> Vec<u64> {
        actions.into_iter().map(|action| action.nominal.as_millis() / 60_000).collect()
    }

    fn starting(&self) -> Vec<u64> {
        Self::nominals(self.state.starting.clone())
    }

    fn waiting(&self) -> Vec<u64> {
        Self::nominals(self.state.waiting.clone())
    }
}

fn closed(minute: u64) -> ObservedRun {
    ObservedRun::Closed(Status::Success, at(minute))
}

#[test]
fn an_action_is_decided_exactly_at_its_time() {
    let before = scene(Overlap::Skip);
    assert_eq!(before.due(), Some(60));
    let early = Scene { now: Timestamp::from_millis(59_999), ..before.clone() };
    let mut state = early.state.clone();
    state.step(early.rules, &early.times, ID, early.now, &[]);
    assert_eq!(state, early.state, "nothing to write");
    let decided = before.evaluate(1, &[]);
    assert_eq!((decided.starting(), decided.state.actions), (vec![1], 1));
    assert_eq!(decided.due(), Some(90), "the start may have to be repeated");
    assert_eq!(decided.clone().evaluate(1, &[]).state, decided.state, "decided once");
    let running = decided.start();
    assert_eq!((running.due(), running.state.counts.started), (Some(120), 1));
    let recent = running.evaluate(1, &[closed(1)]).state.recent.pop_back().unwrap();
    assert_eq!((recent.outcome, recent.closed_at), (ActionOutcome::Closed(Status::Success), Some(at(1))));
}

#[test]
fn the_overlap_policy_applies_to_open_runs() {
    use Overlap::{AllowAll, BufferAll, BufferOne, CancelOther, Skip, TerminateOther};
    // The run of minute 1 is still open at the minutes 2, 3 and 4. Each case: the waiting actions, the actions started
    // at once, the number of skipped actions, how the open run is ended, and the actions started after its close.
    type Case = (Overlap, &'static [u64], &'static [u64], u64, Option<OverlapEnd>, &'static [u64]);
    let cases: [Case; 6] = [
        (Skip, &[], &[], 3, None, &[]),
        (BufferOne, &[2], &[], 2, None, &[2]),
        (BufferAll, &[2, 3, 4], &[], 0, None, &[2]),
        (CancelOther, &[4], &[], 2, Some(OverlapEnd::Canceled), &[4]),
        (TerminateOther, &[], &[2, 3, 4], 0, Some(OverlapEnd::Terminated), &[2, 3, 4]),
        (AllowAll, &[], &[2, 3, 4], 0, None, &[2, 3, 4]),
    ];
    for (overlap, waiting, starting, skipped, end, after) in cases {
        let busy = scene(overlap).evaluate(1, &[]).start().evaluate(4, &[ObservedRun::Open]);
        assert_eq!((busy.waiting(), busy.starting()), (waiting.to_vec(), starting.to_vec()), "{overlap:?}");
        assert_eq!(busy.state.counts.skipped, skipped, "{overlap:?}");
        assert_eq!(busy.state.running[0].end, end, "{overlap:?}");
        let over = busy.evaluate(4, &[closed(4)]);
        assert_eq!(over.starting(), after, "{overlap:?}");
    }
}

#[test]
fn a_run_is_asked_to_end_once_or_then_terminated() {
    let mut canceled = scene(Overlap::CancelOther).evaluate(1, &[]).start().evaluate(2, &[ObservedRun::Open]);
    assert_eq!(canceled.state.undelivered_ends().count(), 1);
    assert_eq!(canceled.due(), Some(150), "the cancel request may have to be repeated");
    canceled.state.mark_end_delivered(1, OverlapEnd::Canceled);
    assert_eq!(canceled.clone().evaluate(3, &[ObservedRun::Open]).state.undelivered_ends().count(), 0);
    canceled.rules.overlap = Overlap::TerminateOther;
    let mut terminated = canceled.evaluate(3, &[ObservedRun::Open]);
    assert_eq!(
        terminated.state.undelivered_ends().map(|run| run.end).collect::<Vec<_>>(),
        [Some(OverlapEnd::Terminated)]
    );
    terminated.state.mark_end_delivered(1, OverlapEnd::Canceled);
    assert_eq!(terminated.state.undelivered_ends().count(), 1, "the earlier delivery was of another request");
}

#[test]
fn a_run_being_started_is_ended_once_started() {
    for (overlap, end) in
        [(Overlap::CancelOther, OverlapEnd::Canceled), (Overlap::TerminateOther, OverlapEnd::Terminated)]
    {
        let both = scene(overlap).evaluate(2, &[]).start();
        let undelivered: Vec<_> = both.state.undelivered_ends().map(|run| (run.number, run.end)).collect();
        assert_eq!(undelivered, [(1, Some(end))], "{overlap:?}");
    }
}

#[test]
fn missed_times_are_caught_up_oldest_first() {
    let back = scene(Overlap::AllowAll).evaluate(30, &[]);
    assert_eq!(back.starting(), (20..=30).collect::<Vec<_>>(), "both ends of the window count");
    assert_eq!(back.state.counts.missed, 19);
    let queue = scene(Overlap::BufferAll).evaluate(30, &[]);
    assert_eq!((queue.starting(), queue.waiting()), (vec![20], (21..=30).collect()));
    // The times of a hundred years are not evaluated one by one.
    let long = scene(Overlap::Skip).evaluate(52_596_000, &[]);
    assert_eq!((long.starting(), long.state.counts.skipped), (vec![52_595_990], 10));
    assert!(long.state.counts.missed >= limits::SCHEDULE_MISSED_MAX);
    assert_eq!(long.state.cursor, at(52_596_000));
}

#[test]
fn actions_are_started_in_batches_and_none_is_lost_between_them() {
    let mut busy = scene(Overlap::AllowAll);
    busy.rules.catch_up = minutes(100);
    let mut seen = Vec::new();
    busy = busy.evaluate(40, &[]);
    while !busy.state.starting.is_empty() {
        assert!(busy.starting().len() <= limits::SCHEDULE_STARTS_AT_ONCE);
        seen.extend(busy.starting());
        busy = busy.start().evaluate(40, &[]);
    }
    assert_eq!(seen, (1..=40).collect::<Vec<_>>());
}

#[test]
fn a_paused_schedule_still_runs_manual_actions() {
    let mut paused = scene(Overlap::Skip);
    paused.state.pause(at(0), "maintenance".to_owned());
    assert_eq!(paused.due(), None);
    paused = paused.evaluate(5, &[]);
    assert!(paused.starting().is_empty() && paused.state.counts == ScheduleCounts::default());
    let mut triggered = paused.clone();
    triggered.state.request_action(at(5), ActionCause::Trigger, None);
    assert_eq!(triggered.evaluate(5, &[]).starting(), [5]);
    paused.state.resume(at(7));
    assert_eq!(paused.clone().evaluate(7, &[]).starting(), Vec::<u64>::new(), "actions during the pause are skipped");
    assert_eq!(paused.evaluate(8, &[]).starting(), [8]);
}

#[test]
fn manual_actions_have_their_own_overlap_policy() {
    let mut limited = scene(Overlap::Skip);
    limited.state.remaining = Some(2);
    let mut limited = limited.evaluate(1, &[]).start();
    limited.state.request_action(at(1), ActionCause::Trigger, Some(Overlap::AllowAll));
    let mut limited = limited.evaluate(1, &[ObservedRun::Open]).start();
    assert_eq!((limited.state.running.len(), limited.state.remaining), (2, Some(1)));
    limited = limited.evaluate(2, &[closed(2), closed(2)]).start();
    assert_eq!((limited.state.remaining, limited.due()), (Some(0), None));
    assert!(limited.clone().evaluate(9, &[closed(3)]).starting().is_empty());
    limited.state.request_action(at(1), ActionCause::Backfill, None);
    assert_eq!(limited.evaluate(9, &[closed(3)]).starting(), [1]);
}

#[test]
fn pause_on_failure_pauses_the_schedule() {
    for (status, pauses) in [
        (Status::Failed, true),
        (Status::TimedOut, true),
        (Status::Canceled, false),
        (Status::Terminated, false),
        (Status::Success, false),
    ] {
        let mut it = scene(Overlap::BufferOne);
        it.rules.pause_on_failure = true;
        let it = it.evaluate(1, &[]).start().evaluate(2, &[ObservedRun::Open]);
        assert_eq!(it.due(), Some(150), "the schedule waits for the close of the run");
        let over = it.evaluate(3, &[ObservedRun::Closed(status, at(2))]);
        assert_eq!(over.state.paused.is_some(), pauses, "{status}");
        assert_eq!(over.waiting().is_empty(), !pauses, "{status}: buffered actions are kept");
    }
}

#[test]
fn refused_and_expired_runs_do_not_block_a_schedule() {
    let mut it = scene(Overlap::Skip).evaluate(1, &[]);
    it.state.started(1, Err("workflow-already-open".to_owned()));
    it.state.started(1, Ok(("late".to_owned(), ID)));
    assert_eq!((it.state.counts.refused, it.state.counts.started), (1, 0), "only the first result counts");
    let it = it.evaluate(2, &[]).start().evaluate(3, &[ObservedRun::Gone]);
    assert_eq!(it.starting(), [3]);
    let outcomes: Vec<_> = it.state.recent.iter().map(|recent| recent.outcome.clone()).collect();
    assert_eq!(
        outcomes,
        [ActionOutcome::Refused("workflow-already-open".to_owned()), ActionOutcome::Unknown, ActionOutcome::Starting]
    );
}

#[test]
fn the_state_of_a_schedule_is_limited() {
    let mut it = scene(Overlap::BufferAll);
    it.rules.catch_up = minutes(5_000);
    let it = it.evaluate(1, &[]).start().evaluate(1_500, &[ObservedRun::Open]);
    assert_eq!(it.waiting().len(), limits::SCHEDULE_WAITING_MAX);
    assert_eq!(it.state.counts.skipped, 1_499 - limits::SCHEDULE_WAITING_MAX as u64);
    let mut many = scene(Overlap::AllowAll);
    for minute in 1..=limits::SCHEDULE_RUNNING_MAX as u64 + 1 {
        many = many.evaluate(minute, &[]).start();
    }
    assert_eq!((many.state.running.len(), many.state.running[0].number), (limits::SCHEDULE_RUNNING_MAX, 2));
    assert_eq!(many.state.recent.len(), limits::SCHEDULE_RECENT_MAX);
}

#[test]
fn older_requests_of_a_schedule_become_marks() {
    let mut state = scene(Overlap::Skip).state;
    for key in 0..limits::SCHEDULE_REQUESTS_MAX as u64 {
        assert_eq!(state.is_repeated(RequestKey(key), at(1)), Some(false));
        assert_eq!(state.remember(RequestKey(key), at(1)), None);
    }
    assert_eq!(state.is_repeated(RequestKey(0), at(1)), Some(true));
    let (left, until) = state.remember(RequestKey(99), at(2)).unwrap();
    assert!(left == RequestKey(0) && until >= at(2).plus(limits::REQUESTS_KEPT));
    assert_eq!(state.is_repeated(RequestKey(1), at(2)), Some(true));
    assert_eq!(state.is_repeated(RequestKey(0), at(2)), None, "only the store can tell");
    assert_eq!(state.is_repeated(RequestKey(0), until.plus(Duration::from_secs(1))), Some(false));
}

#[test]
fn a_state_reads_what_it_writes() {
    let mut it = scene(Overlap::CancelOther).evaluate(1, &[]).start().evaluate(3, &[ObservedRun::Open]);
    it.state.request_action(at(3), ActionCause::Backfill, Some(Overlap::AllowAll));
    it.state.pause(at(3), "why not".to_owned());
    it.state.remaining = Some(3);
    it.state.requests.push_back(RequestKey(1));
    let text = serde_json::to_string(&it.state).unwrap();
    assert_eq!(serde_json::from_str::<ScheduleState>(&text).unwrap(), it.state);
}

#[test]
fn a_schedule_recovers_from_a_clock_that_was_ahead() {
    // The clock is an hour ahead and then corrected. All times of that hour are already processed.
    let ahead = scene(Overlap::AllowAll).evaluate(60, &[]).start();
    assert_eq!(ahead.state.cursor, at(60));
    let right = ahead.evaluate(1, &[]);
    assert_eq!(right.state.cursor, at(1), "it continues from the present");
    assert_eq!(right.due(), Some(120));
    assert_eq!(right.start().evaluate(2, &[]).starting(), [2]);
    // If the clocks of two nodes differ by at most a minute, no time is processed twice.
    let other = scene(Overlap::AllowAll).evaluate(5, &[]).start();
    assert_eq!(other.state.cursor.since(at(4)), limits::SCHEDULE_AHEAD_MAX);
    let other = other.evaluate(4, &[]);
    assert_eq!((other.state.cursor, other.starting()), (at(5), vec![]));
}
