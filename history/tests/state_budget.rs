//! A run with the maximum of open items: their outcomes always fit, and further items are not opened (ADR 18).

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use baton_history::event::{OperatorAction, WorkflowSuccess};
use baton_history::{
    ActivityCommand, AnsweredTurn, Command, Decision, Duration, EffectResult, Event, EventKind, Fault, Links, PackRef,
    Payload, PollId, ProposedUpdate, RequestKey, RetryPolicy, Run, ScheduleActivity, SignalExternal, Start, StartChild,
    StartTimer, SucceedWorkflow, TaskId, Timestamp, Transition, TurnAnswer, TurnId, UpdateAnswer, Verdict,
    WhenExhausted, limits,
};
use uuid::Uuid;

/// A run that receives commands, one commit each.
struct Script {
    run: Box<Run>,
    links: Links,
    now: Timestamp,
}

impl Script {
    fn new() -> Self {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let start = Start {
            decider_start_to_close: Duration::from_days(30),
            key: Some(RequestKey(u64::MAX)),
            tags: vec!["eu".to_owned(), "vip".to_owned()],
            ..Start::new("order-1234567", "ship-order/2", "orders")
        };
        let (run, links, _) = Transition::start(&start, Uuid::from_u128(7), now).unwrap().into_all();
        Self { run, links, now }
    }

    fn try_admit(&mut self, command: &Command) -> Result<Vec<Event>, Fault> {
        let mut transition = Transition::linked(self.run.clone(), self.links.clone());
        transition.admit(command, self.now)?;
        let events;
        (self.run, self.links, events) = transition.into_all();
        Ok(events)
    }

    fn admit(&mut self, command: &Command) -> Vec<Event> {
        self.try_admit(command).unwrap()
    }

    /// Admits several commands in one commit.
    fn admit_all(&mut self, commands: impl IntoIterator<Item = Command>) {
        let mut transition = Transition::linked(self.run.clone(), self.links.clone());
        for command in commands {
            transition.admit(&command, self.now).unwrap();
        }
        (self.run, self.links, _) = transition.into_all();
        self.fits();
    }

    fn turn(&mut self) -> TurnId {
        if self.run.turn.is_none() {
            if self.run.turn_task.is_none() {
                self.admit(&signal());
            }
            let scheduled_event_id = self.run.turn_task.as_ref().unwrap().scheduled_event_id;
            self.admit(&Command::StartTurn {
                scheduled_event_id,
                identity: Some(name("d", 256)),
                poll: Some(PollId(9)),
            });
        }
        let turn = self.run.turn.as_ref().unwrap();
        TurnId { scheduled_event_id: turn.scheduled_event_id, started_event_id: turn.started_event_id }
    }

    /// Completes a turn with these decisions. Returns the events after DeciderCompleted.
    fn decide(&mut self, decisions: Vec<Decision>) -> Vec<EventKind> {
        let (turn, context) = (self.turn(), None);
        let events = self.admit(&Command::complete(turn, TurnAnswer { decisions, context, ..TurnAnswer::default() }));
        self.fits();
        events.into_iter().skip(1).map(|event| event.kind).collect()
    }

    /// Accepts updates that will be answered later.
    fn accept(&mut self, ids: impl Iterator<Item = String> + Clone) -> Vec<EventKind> {
        let turn = AnsweredTurn::Held(self.turn());
        let propose = |update_id| ProposedUpdate {
            update_id,
            name: "change".to_owned(),
            input: None,
            identity: None,
            if_version: None,
            by: None,
        };
        let later = |update_id| UpdateAnswer { update_id, verdict: Verdict::Later };
        let (proposed, answers) = (ids.clone().map(propose).collect(), ids.map(later).collect());
        let (decisions, context, awaiting) = (Vec::new(), None, Vec::new());
        let events = self.admit(&Command::AnswerUpdates {
            turn,
            proposed,
            answers,
            rest: Box::new(TurnAnswer { decisions, context, awaiting, ..TurnAnswer::default() }),
        });
        self.fits();
        events.into_iter().skip(1).map(|event| event.kind).collect()
    }

    fn tasks(&self) -> Vec<TaskId> {
        self.run.activities.iter().filter_map(|(id, activity)| activity.task(*id)).collect()
    }

    /// Checks that the stored size, with notes in their largest form, is at most the reserved size, and that this
    /// is within the limit. Returns the stored size.
    fn fits(&self) -> usize {
        let mut stored = self.run.clone();
        stored.keep_notes(|_| PackRef { op: u64::MAX, offset: u32::MAX, len: u32::MAX });
        let mut bytes = minicbor::to_vec(&stored).unwrap();
        minicbor::encode(&self.links, &mut bytes).unwrap();
        let reserved = self.run.reserved_bytes(&self.links);
        assert!(bytes.len() <= reserved, "{} bytes of {reserved}", bytes.len());
        assert!(reserved <= limits::STATE_BYTES_MAX, "{reserved}");
        bytes.len()
    }
}

fn name(what: &str, len: usize) -> String {
    what.repeat(len).chars().take(len).collect()
}

fn signal() -> Command {
    let (name, input, identity) = ("s".to_owned(), None, None);
    Command::Signal { name, input, identity, key: None, if_version: None }
}

fn activity(activity_id: String, retry: Option<RetryPolicy>) -> Decision {
    let activity_type = "charge-card/1".to_owned();
    ScheduleActivity { activity_id, activity_type, retry, ..ScheduleActivity::default() }.into()
}

fn timer(timer_id: String) -> Decision {
    StartTimer { timer_id, after: Duration::from_secs(60), control: None }.into()
}

fn child(workflow_id: String) -> Decision {
    StartChild { workflow_id, workflow_type: "ship/1".to_owned(), ..StartChild::default() }.into()
}

fn external(workflow_id: String) -> Decision {
    let name = "paid".to_owned();
    SignalExternal { workflow_id, name, input: None, run_id: None, control: None }.into()
}

fn names(prefix: &'static str, count: usize) -> impl Iterator<Item = String> + Clone {
    (0..count).map(move |index| format!("{prefix}-{index:04}"))
}

fn retry() -> RetryPolicy {
    RetryPolicy {
        maximum_attempts: Some(3),
        non_retryable_reasons: vec!["declined".to_owned()],
        ..RetryPolicy::default()
    }
}

fn failures(kinds: &[EventKind]) -> Vec<String> {
    let failed = kinds.iter().filter(|kind| kind.name().ends_with("Failed"));
    failed
        .map(|kind| serde_json::to_value(kind).unwrap())
        .map(|it| it.get("cause").and_then(|cause| cause.as_str()).unwrap_or("").to_owned())
        .collect()
}

/// Returns a run with the maximum of open items of every kind at once.
fn full() -> Script {
    let mut script = Script::new();
    let activities = names("charge", limits::OPEN_ACTIVITIES_MAX).map(|id| activity(id, Some(retry())));
    let timers = names("patience", limits::OPEN_TIMERS_MAX).map(timer);
    let decided = script.decide(activities.chain(timers).collect());
    assert_eq!(failures(&decided), [""; 0]);
    let children = names("order-1234567/ship", limits::OPEN_CHILDREN_MAX).map(child);
    let externals = names("ledger-2026", limits::OPEN_EXTERNALS_MAX).map(external);
    let decided = script.decide(children.chain(externals).collect());
    assert_eq!(failures(&decided), [""; 0]);
    let ids = (0..limits::OPEN_UPDATES_MAX as u128).map(|id| Uuid::from_u128(id).to_string());
    let accepted = script.accept(ids);
    assert_eq!(failures(&accepted), [""; 0]);
    let keys = (0..limits::REQUESTS_IN_STATE_MAX as u64).map(|key| RequestKey(u64::MAX - key));
    script.admit_all(keys.map(|key| match signal() {
        Command::Signal { name, input, identity, if_version, .. } => {
            Command::Signal { name, input, identity, if_version, key: Some(key) }
        }
        other => other,
    }));
    script
}

#[test]
fn all_outcomes_of_a_full_run_fit() {
    let mut script = full();
    let run = &script.run;
    let open =
        [run.activities.len(), run.timers.len(), run.children.len(), run.externals.len(), run.updates.open().len()];
    assert_eq!(open, [1_000; 5]);
    let more = vec![activity("x".into(), None), timer("x".into()), child("x".into()), external("x".into())];
    let causes = ["OpenActivitiesLimit", "OpenTimersLimit", "OpenChildrenLimit", "OpenExternalsLimit"];
    assert_eq!(failures(&script.decide(more)), causes);
    let at_open = script.fits();
    eprintln!("{} bytes reserved, {at_open} taken", script.run.reserved_bytes(&script.links));

    // Runners with the longest names take every activity, which fails twice with the largest details.
    let details = Payload::of(&name("d", limits::RETRIED_DETAILS_BYTES_MAX - 2)).unwrap();
    for _ in 0..2 {
        script.now = script.now.plus(Duration::from_secs(300));
        let tick = Command::FireDeadlines { heartbeats: Vec::new(), stopped: std::sync::Arc::default() };
        script.admit(&tick);
        let ids: Vec<_> = script.run.activities.keys().copied().collect();
        script.admit_all(ids.into_iter().map(|scheduled_event_id| Command::StartActivity {
            scheduled_event_id,
            identity: Some(name("漢", 256)),
            poll: Some(PollId(u64::MAX)),
        }));
        let tasks = script.tasks();
        assert_eq!(tasks.len(), 1_000);
        script.admit_all(tasks.into_iter().map(|task| Command::FailActivity {
            task,
            reason: Some(name("漢", 256)),
            details: Some(details.clone()),
            non_retryable: false,
            retry_after: None,
        }));
    }
    assert_eq!(script.run.activities.len(), 1_000);
    let at_worst = script.fits();
    eprintln!("{at_worst} bytes at most");
    assert!(at_worst > at_open, "{at_worst} after {at_open}");
    assert!(script.run.timers.is_empty(), "they have expired");

    // Everything is closed.
    script.now = script.now.plus(Duration::from_secs(300));
    let ids: Vec<_> = script.run.activities.keys().copied().collect();
    script.admit_all(ids.into_iter().map(|scheduled_event_id| Command::StartActivity {
        scheduled_event_id,
        identity: Some(name("r", 256)),
        poll: None,
    }));
    let tasks = script.tasks();
    script.admit_all(tasks.into_iter().map(|task| Command::SucceedActivity { task, result: Some(details.clone()) }));
    let run_id = Uuid::from_u128(9);
    let (owner, round) = (script.run.started.run_id, script.links.outbox.round());
    let owed: Vec<_> = script.links.outbox.iter().copied().collect();
    script.admit_all(owed.into_iter().map(|effect| Command::SettleEffect {
        owner,
        event_id: effect.event_id,
        kind: effect.kind,
        round,
        result: EffectResult::Done { run_id },
    }));
    let children: Vec<_> = script.run.children.keys().copied().collect();
    script.admit_all(children.into_iter().map(|scheduled_event_id| Command::TakeChildClose {
        scheduled_event_id,
        run_id,
        close: Box::new(EventKind::WorkflowSuccess(WorkflowSuccess { result: None, decision_event_id: 4 })),
    }));
    let open: Vec<_> = script.run.updates.open().values().map(|it| it.update_id.clone()).collect();
    let done = |update_id| UpdateAnswer { update_id, verdict: Verdict::Done { result: None } };
    let turn = AnsweredTurn::Held(script.turn());
    let (proposed, answers, decisions) = (Vec::new(), open.into_iter().map(done).collect(), Vec::new());
    script.admit(&Command::AnswerUpdates { turn, proposed, answers, rest: Box::new(decisions.into()) });
    let close = SucceedWorkflow { result: None, force: true }.into();
    script.decide(vec![close]);
    // The answers to a thousand updates stay in the state until the store has recorded them.
    assert!(!script.run.is_open() && script.fits() < 32 * 1024);
}

/// Returns a run whose state has no space left for any item.
fn crammed() -> Script {
    let mut script = Script::new();
    let opened = |kinds: &[EventKind]| kinds.iter().filter(|kind| kind.name() == "ActivityScheduled").count();
    // Open items with ever shorter names, until even the shortest name does not fit.
    let mut count = 0;
    for len in [240, 60, 9] {
        let ids = (0..900).map(|index| format!("{index:03}{len:03}{}", name("n", len)));
        let decided = script.decide(ids.map(|id| activity(id, Some(retry()))).collect());
        assert!(failures(&decided).iter().all(|cause| matches!(&**cause, "StateLimit" | "OpenActivitiesLimit")));
        count += opened(&decided);
    }
    assert!(count > 100, "{count}");
    let ids = (0..1_000).flat_map(|index| [format!("{}{index}", name("t", 250)), format!("t{index}")]);
    let decided = script.decide(ids.map(timer).collect());
    let causes = failures(&decided);
    assert!(causes.contains(&"StateLimit".to_owned()), "{causes:?}");
    script
}

#[test]
fn items_that_do_not_fit_are_recorded_as_failed() {
    let mut script = crammed();
    let reserved = script.run.reserved_bytes(&script.links);
    assert!(reserved + 40 > limits::STATE_BYTES_MAX, "{reserved}");
    let long = || name("x", 200);
    let decided = script.decide(vec![timer(long()), child(long()), external(long())]);
    assert_eq!(failures(&decided), ["StateLimit"; 3]);
    let accepted = script.accept([name("u", 200)].into_iter());
    let names: Vec<_> = accepted.iter().map(EventKind::name).collect();
    assert_eq!(
        names,
        ["UpdateAccepted", "UpdateFailed", "DeciderScheduled"].into_iter().take(names.len()).collect::<Vec<_>>()
    );
    let EventKind::UpdateFailed(failed) = &accepted[1] else { panic!("{accepted:?}") };
    assert_eq!(failed.reason, "state-limit");

    // Signals are still accepted.
    for key in 0..100 {
        let (name, input) = (name("s", 256), Some(Payload::from_json("1").unwrap()));
        script.admit(&Command::Signal { name, input, identity: None, key: Some(RequestKey(key)), if_version: None });
    }
    script.fits();
    // A manual change that needs space is refused.
    let operator = OperatorAction { identity: Some(name("a", 256)), reason: Some(name("b", 256)) };
    let activity_id = script.run.activities.values().next().unwrap().activity_id.clone();
    let (act, key) = (ActivityCommand::Pause, None);
    let pause = Command::ActOnActivity { activity_id: activity_id.clone(), act, operator: operator.clone(), key };
    assert!(matches!(script.try_admit(&pause), Err(Fault::StateLimit { max: limits::STATE_BYTES_MAX, .. })));
    let pause = Command::Pause { stop_clocks: true, operator: operator.clone(), key: None };
    assert!(matches!(script.try_admit(&pause), Err(Fault::StateLimit { .. })));
    // A change that frees space is accepted. Then an item fits.
    let act = ActivityCommand::Succeed { result: None };
    script.admit(&Command::ActOnActivity { activity_id, act, operator, key: None });
    assert_eq!(failures(&script.decide(vec![timer("space".to_owned())])), [""; 0]);
}

#[test]
fn one_answer_can_replace_an_item_in_a_full_run() {
    let mut script = crammed();
    let longest = script.run.timers.keys().max_by_key(|id| id.len()).unwrap().clone();
    let cancel = baton_history::CancelTimer { timer_id: longest.clone() }.into();
    let decided = script.decide(vec![timer(name("y", longest.len())), cancel, timer(longest)]);
    let names: Vec<_> = decided.iter().map(EventKind::name).take(3).collect();
    assert_eq!(names, ["TimerScheduleFailed", "TimerCanceled", "TimerScheduled"]);
}

#[test]
fn pauses_of_exhausted_activities_fit() {
    let mut script = Script::new();
    let policy = RetryPolicy { maximum_attempts: Some(1), when_exhausted: WhenExhausted::Pause, ..retry() };
    let ids = (0..1_000).map(|index| format!("{index:03}{}", name("n", 250)));
    script.decide(ids.map(|id| activity(id, Some(policy.clone()))).collect());
    let count = script.run.activities.len();
    assert!((500..1_000).contains(&count), "{count}");
    let ids: Vec<_> = script.run.activities.keys().copied().collect();
    script.admit_all(ids.into_iter().map(|scheduled_event_id| {
        let identity = Some(name("r", 256));
        Command::StartActivity { scheduled_event_id, identity, poll: Some(PollId(1)) }
    }));
    let tasks = script.tasks();
    let fail = |task| {
        let (reason, details) = (name("b", 256), None);
        Command::FailActivity { task, reason: Some(reason), details, non_retryable: false, retry_after: None }
    };
    script.admit_all(tasks.into_iter().map(fail));
    assert_eq!(script.run.activities.values().filter(|activity| activity.paused.is_some()).count(), count);
}
