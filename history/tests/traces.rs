//! The two traces of the design essay, compared event by event, and their histories as JSON.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot continue has failed")]

use baton_history::event::EventKind;
use baton_history::{
    Command, Decision, Duration, Event, EventId, Payload, Run, ScheduleActivity, Start, StartTimer, SucceedWorkflow,
    Tally, TaskId, Timestamp, Transition, TurnId, check,
};
use uuid::Uuid;

mod support;
use support::golden;

struct Script {
    run: Run,
    events: Vec<Event>,
    now: Timestamp,
}

impl Script {
    fn start(workflow_id: &str) -> Self {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let start = Start {
            input: Some(Payload::from_json(r#"{"order":42}"#).unwrap()),
            ..Start::new(workflow_id, "parallel", "parallel")
        };
        let (run, events) = Transition::start(&start, Uuid::from_u128(1), now).unwrap().into_parts();
        Self { run, events, now }
    }

    /// Admits a command one second after the previous one.
    fn admit(&mut self, command: &Command) {
        self.now = self.now.plus(Duration::from_secs(1));
        let mut transition = Transition::of(self.run.clone());
        transition.admit(command, self.now).unwrap();
        let (run, events) = transition.into_parts();
        self.run = run;
        self.events.extend(events);
        check::history(&self.events).unwrap();
    }

    /// Takes the turn and returns its window, which is checked.
    fn take(&mut self) -> (TurnId, Vec<Event>) {
        let scheduled_event_id = self.run.turn_task.as_ref().unwrap().scheduled_event_id;
        self.admit(&Command::StartTurn { scheduled_event_id, identity: Some("decider".to_owned()), poll: None });
        let started_event_id = self.run.turn.as_ref().unwrap().started_event_id;
        let previous = self.run.previous_started_event_id;
        let shown = (previous.max(1)..=started_event_id).map(|id| self.event(id).clone()).collect::<Vec<_>>();
        check::window(&self.events, previous, started_event_id, &shown).unwrap();
        (TurnId { scheduled_event_id, started_event_id }, shown)
    }

    fn complete(&mut self, turn: TurnId, decisions: Vec<Decision>) {
        self.admit(&Command::complete(turn, decisions));
    }

    fn runner_takes(&mut self, activity_id: &str) -> TaskId {
        let (scheduled_event_id, _) = self.run.activity(activity_id).unwrap();
        self.admit(&Command::StartActivity { scheduled_event_id, identity: Some("runner".to_owned()), poll: None });
        TaskId { scheduled_event_id, started_event_id: self.run.last_event_id, start: 0 }
    }

    fn succeed(&mut self, task: TaskId) {
        let result = Some(Payload::from_json("\"ok\"").unwrap());
        self.admit(&Command::SucceedActivity { task, result });
    }

    /// Returns everything up to the DeciderStarted of the held turn.
    fn shown(&self) -> &[Event] {
        let started = self.run.turn.as_ref().unwrap().started_event_id;
        &self.events[..usize::try_from(started).unwrap()]
    }

    fn event(&self, id: EventId) -> &Event {
        &self.events[usize::try_from(id).unwrap() - 1]
    }

    fn names(&self) -> Vec<&'static str> {
        self.events.iter().map(|event| event.kind.name()).collect()
    }

    /// Checks that the history equals the golden history byte for byte, and replays to the same run.
    fn is_golden(&self, name: &str) {
        let lines: Vec<_> = self.events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
        let text = format!("[\n{}\n]\n", lines.join(",\n"));
        let found = String::from_utf8(golden(&format!("trace-{name}.json"), text.as_bytes())).unwrap();
        assert_eq!(text, found);
        assert_eq!(serde_json::from_str::<Vec<Event>>(&found).unwrap(), self.events);
        let events = &self.events;
        check::history(events).unwrap();
        assert_eq!(Run::replay(events).as_ref(), Some(&self.run));
    }
}

/// Schedules A and B in parallel, then C when A or B is done, then closes. Counts everything up to the turn's own
/// DeciderStarted.
fn decide(shown: &[Event]) -> Vec<Decision> {
    let tally = Tally::of(shown);
    let is_done = |id: &str| tally.newest(id).is_some_and(|activity| activity.closed.is_some());
    let schedule = |id: &str| {
        Decision::from(ScheduleActivity {
            activity_id: id.to_owned(),
            activity_type: format!("Task{id}"),
            ..ScheduleActivity::default()
        })
    };
    if tally.activities().next().is_none() {
        vec![schedule("A"), schedule("B")]
    } else if is_done("C") {
        vec![SucceedWorkflow::default().into()]
    } else if tally.newest("C").is_none() && (is_done("A") || is_done("B")) {
        vec![schedule("C")]
    } else {
        vec![]
    }
}

#[test]
fn the_empty_execution_has_five_events() {
    let mut script = Script::start("empty");
    let (turn, window) = script.take();
    assert_eq!((window[0].id, window.len()), (1, 3));
    script.complete(turn, vec![SucceedWorkflow::default().into()]);
    assert_eq!(
        script.names(),
        ["WorkflowStarted", "DeciderScheduled", "DeciderStarted", "DeciderCompleted", "WorkflowSuccess"]
    );
    script.is_golden("empty");
}

#[test]
fn the_parallel_execution_has_twenty_three_events() {
    let ids = |window: &[Event]| (window.first().unwrap().id, window.last().unwrap().id);
    let mut script = Script::start("parallel");
    let (turn, window) = script.take();
    assert_eq!(ids(&window), (1, 3));
    let decisions = decide(script.shown());
    script.complete(turn, decisions);
    let b = script.runner_takes("B");
    let a = script.runner_takes("A");
    script.succeed(b);
    let (turn, window) = script.take();
    // The essay gives the window as 4–11. With both ends included, and beginning with the DeciderStarted of the last
    // completed turn, the window is 3–11.
    assert_eq!(ids(&window), (3, 11));
    // A completes while the turn is held: events 12 and 13.
    script.succeed(a);
    let decisions = decide(script.shown());
    assert_eq!(decisions.len(), 1);
    script.complete(turn, decisions);
    let (turn, window) = script.take();
    // The window 11–16 contains ActivitySuccess of A and ActivityScheduled of C, so C is not scheduled again.
    assert_eq!(ids(&window), (11, 16));
    let kinds: Vec<_> = window.iter().map(|event| event.kind.name()).collect();
    assert!(kinds.contains(&"ActivitySuccess") && kinds.contains(&"ActivityScheduled"));
    let decisions = decide(script.shown());
    assert_eq!(decisions, []);
    let c = script.runner_takes("C");
    script.complete(turn, decisions);
    script.succeed(c);
    let (turn, window) = script.take();
    assert_eq!(ids(&window), (16, 21));
    let decisions = decide(script.shown());
    script.complete(turn, decisions);

    let expected = [
        (1, "WorkflowStarted"),
        (2, "DeciderScheduled"),
        (3, "DeciderStarted"),
        (4, "DeciderCompleted"),
        (5, "ActivityScheduled"),
        (6, "ActivityScheduled"),
        (7, "ActivityStarted"),
        (8, "ActivityStarted"),
        (9, "ActivitySuccess"),
        (10, "DeciderScheduled"),
        (11, "DeciderStarted"),
        (12, "ActivitySuccess"),
        (13, "DeciderScheduled"),
        (14, "DeciderCompleted"),
        (15, "ActivityScheduled"),
        (16, "DeciderStarted"),
        (17, "ActivityStarted"),
        (18, "DeciderCompleted"),
        (19, "ActivitySuccess"),
        (20, "DeciderScheduled"),
        (21, "DeciderStarted"),
        (22, "DeciderCompleted"),
        (23, "WorkflowSuccess"),
    ];
    assert_eq!(script.events.iter().map(|event| (event.id, event.kind.name())).collect::<Vec<_>>(), expected);
    script.links_are_the_essays();
    script.is_golden("parallel");
}

impl Script {
    /// Checks the references between events as described in the essay's notes.
    fn links_are_the_essays(&self) {
        let scheduled = |id: EventId| match &self.event(id).kind {
            EventKind::ActivityScheduled(it) => (it.activity_id.clone(), it.decision_event_id),
            other => panic!("{other:?}"),
        };
        assert_eq!(scheduled(5), ("A".to_owned(), 4));
        assert_eq!(scheduled(6), ("B".to_owned(), 4));
        assert_eq!(scheduled(15), ("C".to_owned(), 14));
        let link = |id: EventId| match &self.event(id).kind {
            EventKind::DeciderStarted(it) => (it.scheduled_event_id, 0),
            EventKind::ActivityStarted(it) => (it.scheduled_event_id, 0),
            EventKind::DeciderCompleted(it) => (it.scheduled_event_id, it.started_event_id),
            EventKind::ActivitySuccess(it) => (it.scheduled_event_id, it.started_event_id),
            EventKind::WorkflowSuccess(it) => (it.decision_event_id, 0),
            other => panic!("{other:?}"),
        };
        let links = [
            (3, (2, 0)),
            (4, (2, 3)),
            (7, (6, 0)),
            (8, (5, 0)),
            (9, (6, 7)),
            (11, (10, 0)),
            (12, (5, 8)),
            (14, (10, 11)),
            (16, (13, 0)),
            (17, (15, 0)),
            (18, (13, 16)),
            (19, (15, 17)),
            (21, (20, 0)),
            (22, (20, 21)),
            (23, (22, 0)),
        ];
        for (id, expected) in links {
            assert_eq!(link(id), expected, "event {id}");
        }
    }
}

#[test]
fn an_activity_and_then_a_timer_of_thirty_days() {
    // The pseudo-workflow "activity, then sleep 30 days, then return".
    let mut script = Script::start("sleep");
    let (turn, _) = script.take();
    let activity =
        ScheduleActivity { activity_id: "a".to_owned(), activity_type: "A".to_owned(), ..Default::default() };
    script.complete(turn, vec![activity.into()]);
    let task = script.runner_takes("a");
    script.succeed(task);
    let (turn, _) = script.take();
    let after = Duration::from_days(30);
    script.complete(turn, vec![StartTimer { timer_id: "sleep".to_owned(), after, control: None }.into()]);
    let due = script.run.next_deadline(&[]).unwrap();
    assert_eq!(due, script.now.plus(after));
    script.now = Timestamp::from_millis(due.as_millis() - 1_000);
    script.admit(&Command::FireDeadlines { heartbeats: vec![], stopped: std::sync::Arc::default() });
    assert_eq!(script.now, due);
    let (turn, _) = script.take();
    script.complete(turn, vec![SucceedWorkflow::default().into()]);
    assert_eq!(
        script.names()[10..],
        ["TimerScheduled", "TimerExpired", "DeciderScheduled", "DeciderStarted", "DeciderCompleted", "WorkflowSuccess"]
    );
    script.is_golden("sleep");
}
