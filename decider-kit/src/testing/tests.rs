//! Tests of the testing module, using one small decider throughout.

use std::sync::atomic::{AtomicUsize, Ordering};

use baton_history::event::{ActivityTimeout, ActivityTimeouts};
use baton_history::{Command, Fault, RetryPolicy, ReusePolicy, Start, Tally};

use super::*;
use crate::{Activity, Decider, Decisions, Duration, Event, EventKind, Status, Steps, Window, decide};

const DAY: u64 = 86_400;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A trial of thirty days, then a charge with up to three attempts and doubling pauses. A signal ends the trial.
struct Trial;

#[derive(Default)]
struct State {
    tally: Tally,
    failures: u32,
    trial_is_over: bool,
    retry_is_due: bool,
}

impl Decider for Trial {
    type State = State;

    fn evolve(&self, state: &mut State, event: &Event) {
        state.tally.add(event);
        match &event.kind {
            EventKind::ActivityFailed(_) | EventKind::ActivityTimedOut(_) | EventKind::ActivityScheduledTimeout(_) => {
                state.failures += 1;
            }
            EventKind::TimerExpired(it) if it.timer_id == "trial" => state.trial_is_over = true,
            EventKind::TimerExpired(_) => state.retry_is_due = true,
            EventKind::ActivityScheduled(_) => state.retry_is_due = false,
            _ => {}
        }
    }

    fn decide(&self, state: &State, window: &Window) -> Decisions {
        let newest = state.tally.activities().last();
        if window.signals().any(|(name, _)| name == "leave") && !state.trial_is_over {
            Decisions::new().cancel_timer("trial").succeed(&"left")
        } else if window.is_first_turn() {
            Decisions::new().timer("trial", Duration::from_days(30))
        } else if let Some(activity) = newest
            && activity.closed.is_none()
        {
            Decisions::new()
        } else if newest
            .is_some_and(|activity| matches!(activity.closed, Some((baton_history::ActivityOutcome::Success, _))))
        {
            Decisions::new().succeed(&"a customer")
        } else if state.failures >= 3 {
            Decisions::new().fail("card", &state.failures)
        } else if state.retry_is_due || (state.trial_is_over && state.failures == 0) {
            Decisions::new().schedule(charge(state.failures))
        } else if state.trial_is_over && window.new_events().any(|event| event.kind.schedules_decider()) {
            Decisions::new().timer("retry", seconds(60 << state.failures))
        } else {
            Decisions::new()
        }
    }
}

fn charge(failures: u32) -> Activity {
    Activity::new(format!("charge-{failures}"), "charge-card")
        .list("PCI")
        .input(&failures)
        .schedule_to_start(seconds(600))
        .start_to_close(seconds(30))
}

fn service() -> TestService {
    let mut service = TestService::new();
    service.decider("trial", Trial);
    service
}

/// Returns the message of a failing test.
fn ends(test: impl FnOnce()) -> String {
    let panic = catch(test).expect_err("the test should have ended");
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap()
}

fn catch(test: impl FnOnce()) -> std::thread::Result<()> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(test))
}

#[test]
fn a_turn_decides_on_what_happened() {
    given(Trial, "trial")
        .input(&"ann")
        .then(Decisions::new().timer("trial", Duration::from_days(30)))
        .when(timer_expired("trial"))
        .then(Decisions::new().schedule(charge(0)))
        .when(activity_failed("charge-0", "declined", &()))
        .then(Decisions::new().timer("retry", seconds(120)))
        .when(timer_expired("retry"))
        .then(Decisions::new().schedule(charge(1)))
        .when(activity_timed_out("charge-1", ActivityTimeout::StartToClose))
        .then(Decisions::new().timer("retry", seconds(240)))
        .when(timer_expired("retry"))
        .then(Decisions::new().schedule(charge(2)))
        .when(activity_not_taken("charge-2"))
        .then(Decisions::new().fail("card", &3));
}

#[test]
fn the_past_is_recorded_without_calling_the_decider() {
    let given = given(Trial, "trial")
        .decided(Decisions::new().timer("trial", Duration::from_days(30)))
        .when(signal("hello", &1))
        .when(cancel_requested());
    let names: Vec<_> = given.events().iter().map(|event| event.kind.name()).collect();
    assert_eq!(names[4..], ["TimerScheduled", "Signal", "DeciderScheduled", "WorkflowCancelRequested"]);
    assert!(given.decisions().is_empty());

    let charged = super::given(Trial, "trial").decided(Decisions::new().schedule(charge(0)));
    charged.when(activity_succeeded("charge-0", &"ok")).then(Decisions::new().succeed(&"a customer"));
}

#[test]
fn an_unexpected_decision_fails_the_test_with_the_history() {
    let message = ends(|| drop(given(Trial, "trial").then(Decisions::new().succeed(&1))));
    for part in
        ["expected decisions", "SucceedWorkflow", "found", "StartTimer", "P", "WorkflowStarted", "DeciderStarted"]
    {
        assert!(message.contains(part), "{part} is not in\n{message}");
    }
    let message = ends(|| drop(given(Trial, "trial").when(timer_expired("trial"))));
    assert!(message.contains("no timer `trial` is open"), "{message}");
    let message = ends(|| {
        drop(given(Trial, "trial").decided(Decisions::new()).decided(Decisions::new()));
    });
    assert!(message.contains("no turn is waiting"), "{message}");
    let closes_first = Decisions::new().succeed(&1).timer("t", seconds(1));
    let message = ends(|| drop(given(Trial, "trial").decided(closes_first)));
    assert!(message.contains("`invalid-field`"), "{message}");
}

#[test]
fn thirty_days_take_no_time() {
    let mut service = service();
    service.activity_on("PCI", "charge-card", |_| Work::success(&"paid").takes(seconds(2)));
    service.start("trial", "ann", &"ann@example.com");
    let closed = service.finish("ann");
    assert_eq!((closed.status, closed.result::<String>()), (Status::Success, "a customer".to_owned()));
    assert_eq!(closed.after, seconds(30 * DAY + 2));
    service.assert_events(
        "ann",
        &[
            "WorkflowStarted",
            "DeciderScheduled",
            "DeciderStarted",
            "DeciderCompleted",
            "TimerScheduled",
            "TimerExpired",
            "DeciderScheduled",
            "DeciderStarted",
            "DeciderCompleted",
            "ActivityScheduled",
            "ActivityStarted",
            "ActivitySuccess",
            "DeciderScheduled",
            "DeciderStarted",
            "DeciderCompleted",
            "WorkflowSuccess",
        ],
    );
    assert!(service.table("ann").contains("TimerExpired"));
}

#[test]
fn a_planned_signal_arrives_at_its_instant() {
    let mut service = service();
    service.start("trial", "ann", &());
    service.after(seconds(12 * DAY)).signal("ann", "leave", &());
    service.after(seconds(13 * DAY)).signal("ann", "leave", &());
    let closed = service.finish("ann");
    assert_eq!((closed.after, closed.result::<String>()), (seconds(12 * DAY), "left".to_owned()));
    service.assert_count("ann", "TimerExpired", 0);
    // The second signal comes too late and is refused, as the service would refuse it.
    service.run_until_idle();
    assert_eq!(service.refused().len(), 1);
    assert!(matches!(service.refused()[0].1, Fault::RunClosed { status: Status::Success }));
}

#[test]
fn failures_are_retried_after_doubling_pauses() {
    let mut service = service();
    service.activity("charge-card", |call| match call.nth {
        1 => Work::failure("declined", &call.input::<u32>()),
        2 => Work::never(),
        _ => Work::success(&"paid"),
    });
    service.start("trial", "ann", &());
    let closed = service.finish("ann");
    assert_eq!(closed.status, Status::Success);
    assert_eq!(closed.after, seconds(30 * DAY + 120 + 30 + 240));
    service.assert_count("ann", "ActivityTimedOut", 1);
    service.assert_count("ann", "ActivityFailed", 1);
}

#[test]
fn an_activity_without_a_runner_times_out_until_one_starts() {
    let mut service = service();
    // This runner does not poll the list `PCI`.
    service.activity_on("default", "charge-card", |_| Work::success(&"paid"));
    service.start("trial", "ann", &());
    let closed = service.finish("ann");
    assert_eq!((closed.status, closed.reason.as_deref()), (Status::Failed, Some("card")));
    service.assert_count("ann", "ActivityScheduledTimeout", 3);

    service.start("trial", "bob", &());
    service.advance(seconds(30 * DAY + 300));
    assert_eq!(service.run("bob").activities.len(), 1);
    service.activity_on("PCI", "charge-card", |_| Work::success(&"paid"));
    assert_eq!(service.finish("bob").after, seconds(30 * DAY + 300));
}

#[test]
fn a_lost_turn_is_decided_by_the_next_decider() {
    let mut service = service();
    service.activity("charge-card", |_| Work::success(&"paid"));
    service.lose_turns(2);
    service.start("trial", "ann", &());
    let closed = service.finish("ann");
    service.assert_count("ann", "DeciderTimedOut", 2);
    assert_eq!(closed.after, seconds(30 * DAY + 60));
}

#[test]
fn many_concurrent_runs_do_not_interfere() {
    let mut service = service();
    service.activity("charge-card", |call| {
        let is_odd = call.workflow_id.ends_with(['1', '3', '5', '7', '9']);
        if is_odd { Work::failure("declined", &()) } else { Work::success(&"paid").takes(seconds(9)) }
    });
    for index in 0..500 {
        service.after(seconds(index)).start("trial", &format!("customer-{index}"), &index);
    }
    service.run_until_idle();
    for index in 0..500 {
        let expected = if index % 2 == 1 { Status::Failed } else { Status::Success };
        assert_eq!(service.closed(&format!("customer-{index}")).unwrap().status, expected, "{index}");
    }
    assert!(service.stuck().is_empty());
}

#[test]
fn ids_are_reused_according_to_their_policy() {
    let mut service = service();
    service.start("trial", "ann", &());
    let start = Start::new("ann", "trial", "default");
    assert!(matches!(service.try_start(&start), Err(Fault::AlreadyOpen { .. })));
    service.terminate("ann").unwrap();
    service.try_start(&start).unwrap();
    service.advance(seconds(1));
    service.signal("ann", "leave", &()).unwrap();
    assert_eq!(service.finish("ann").status, Status::Success);
    // A signal planned for the previous run reaches the current run of that id.
    service.after(seconds(1)).signal("ann", "leave", &());
    assert!(matches!(service.try_start(&start), Err(Fault::ReuseRefused { .. })));
    service.try_start(&Start { reuse_policy: ReusePolicy::AllowDuplicate, ..start }).unwrap();
    assert_eq!(service.finish("ann").after, seconds(1));
}

/// A decider of a long activity, which it asks to stop when the run is canceled.
struct Watch;

impl Decider for Watch {
    type State = ();

    fn evolve(&self, (): &mut (), _: &Event) {}

    fn decide(&self, (): &(), window: &Window) -> Decisions {
        let news = |name: &str| window.new_events().any(|event| event.kind.name() == name);
        if window.is_first_turn() {
            let long = Activity::new("long", "long").heartbeat(seconds(10)).timeouts(ActivityTimeouts {
                heartbeat: Some(seconds(10)),
                start_to_close: Some(seconds(1_000)),
                ..ActivityTimeouts::default()
            });
            Decisions::new().schedule(long)
        } else if news("ActivityCanceled") {
            Decisions::new().cancel(&"stopped")
        } else if news("ActivityTimedOut") {
            Decisions::new().fail("timed out", &())
        } else if news("ActivitySuccess") {
            Decisions::new().succeed(&())
        } else if window.is_cancel_requested() {
            Decisions::new().cancel_activity("long")
        } else {
            Decisions::new()
        }
    }
}

fn watch(work: &Work) -> TestService {
    let mut service = TestService::new();
    let work = work.clone();
    service.decider("watch", Watch).activity("long", move |_| work.clone());
    service.start("watch", "w", &());
    service
}

#[test]
fn an_activity_without_heartbeats_times_out() {
    let beating = Work::success(&()).takes(seconds(500)).heartbeats(seconds(5), &7);
    assert_eq!(watch(&beating).finish("w").after, seconds(500));
    assert_eq!(watch(&Work::success(&()).takes(seconds(500))).finish("w").after, seconds(10));
    let dying = Work::never().heartbeats(seconds(5), &7);
    assert_eq!(watch(&dying).finish("w").after, seconds(1_000));
    // An answer at the last instant is in time.
    assert_eq!(watch(&Work::success(&()).takes(seconds(10))).finish("w").status, Status::Success);
}

#[test]
fn a_heartbeat_tells_an_activity_of_its_cancellation() {
    let mut service = watch(&Work::never().heartbeats(seconds(7), &"half").stops_on_cancel());
    service.after(seconds(30)).cancel("w");
    let closed = service.finish("w");
    assert_eq!((closed.status, closed.after), (Status::Canceled, seconds(35)));
    // An activity that ignores cancellation continues.
    let mut service = watch(&Work::success(&()).takes(seconds(100)).heartbeats(seconds(7), &()));
    service.after(seconds(30)).cancel("w");
    assert_eq!(service.finish("w").status, Status::Success);
}

#[test]
fn an_event_during_a_turn_brings_another_turn() {
    let mut service = service();
    service.turns_take(seconds(5));
    service.start("trial", "ann", &());
    service.after(seconds(2)).signal("ann", "hello", &());
    service.after(seconds(12)).terminate("ann");
    assert_eq!(service.finish("ann").status, Status::Terminated);
    service.assert_events(
        "ann",
        &[
            "WorkflowStarted",
            "DeciderScheduled",
            "DeciderStarted",
            "Signal",
            "DeciderScheduled",
            "DeciderCompleted",
            "TimerScheduled",
            "DeciderStarted",
            "DeciderCompleted",
            "WorkflowTerminated",
        ],
    );
}

/// A decider that waits only for a signal.
struct Waiter;

impl Decider for Waiter {
    type State = ();

    fn evolve(&self, (): &mut (), _: &Event) {}

    fn decide(&self, (): &(), window: &Window) -> Decisions {
        if window.signals().next().is_some() { Decisions::new().succeed(&()) } else { Decisions::new() }
    }
}

#[test]
fn a_run_that_nothing_can_wake_is_stuck() {
    let mut service = TestService::new();
    service.decider("waiter", Waiter);
    service.start("waiter", "w", &());
    let message = ends(|| drop(service.finish("w")));
    assert!(message.contains("`w` is stuck: no activity, no timer and no turn is open"), "{message}");
    assert!(message.contains("DeciderCompleted"), "{message}");
    service.run_until_idle();
    assert_eq!(service.stuck().len(), 1);
    // A planned signal can wake the run.
    service.after(seconds(DAY)).signal("w", "go", &());
    assert!(service.stuck().is_empty());
    assert_eq!(service.finish("w").after, seconds(DAY));

    service.start("waiter", "x", &());
    service.run_until_idle();
    assert_eq!(service.stuck().len(), 1);
    service.advance(seconds(366 * DAY));
    assert_eq!(service.closed("x").unwrap().status, Status::TimedOut);
}

#[test]
fn a_stuck_run_names_the_activity_without_a_runner() {
    struct Forgetful;
    impl Decider for Forgetful {
        type State = ();
        fn evolve(&self, (): &mut (), _: &Event) {}
        fn decide(&self, (): &(), _: &Window) -> Decisions {
            Decisions::new().schedule(Activity::new("ship", "ship-it").list("harbor"))
        }
    }
    let mut service = TestService::new();
    service.decider("forgetful", Forgetful);
    service.start("forgetful", "f", &());
    let message = ends(|| drop(service.finish("f")));
    assert!(
        message.contains("activity `ship` (ship-it) waits on list `harbor`, which has no runner for it"),
        "{message}"
    );
}

#[test]
fn an_impure_decider_is_detected() {
    struct Dice(AtomicUsize);
    impl Decider for Dice {
        type State = ();
        fn evolve(&self, (): &mut (), _: &Event) {}
        fn decide(&self, (): &(), _: &Window) -> Decisions {
            Decisions::new().succeed(&self.0.fetch_add(1, Ordering::Relaxed))
        }
    }
    /// Keeps a counter outside its state. Another host would not have this counter.
    struct Memory(AtomicUsize);
    impl Decider for Memory {
        type State = ();
        fn evolve(&self, (): &mut (), _: &Event) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn decide(&self, (): &(), _: &Window) -> Decisions {
            Decisions::new().succeed(&self.0.load(Ordering::Relaxed))
        }
    }
    let mut service = TestService::new();
    service.decider("dice", Dice(AtomicUsize::new(0)));
    service.start("dice", "d", &());
    let message = ends(|| drop(service.finish("d")));
    assert!(message.contains("called twice with the same state"), "{message}");
    let message = ends(|| drop(given(Dice(AtomicUsize::new(0)), "dice").decisions()));
    assert!(message.contains("called twice with the same state"), "{message}");

    let mut service = TestService::new();
    service.decider("memory", Memory(AtomicUsize::new(0)));
    service.start("memory", "m", &());
    let message = ends(|| drop(service.finish("m")));
    assert!(message.contains("with a state rebuilt from event 1"), "{message}");
}

#[test]
fn a_looping_run_is_stopped() {
    struct Circle;
    impl Decider for Circle {
        type State = ();
        fn evolve(&self, (): &mut (), _: &Event) {}
        fn decide(&self, (): &(), window: &Window) -> Decisions {
            Decisions::new().timer(format!("t{}", window.started_event_id), Duration::ZERO)
        }
    }
    let mut service = TestService::new();
    service.decider("circle", Circle).events_max(500);
    service.start("circle", "c", &());
    let message = ends(|| service.run_until_idle());
    assert!(message.contains("the run may loop"), "{message}");
}

#[test]
fn a_recorded_history_is_decided_again() {
    let mut service = service();
    service.activity("charge-card", |call| match call.nth {
        1 => Work::failure("declined", &()),
        _ => Work::success(&"paid"),
    });
    service.lose_turns(1);
    service.start("trial", "ann", &());
    service.finish("ann");
    let events = serde_json::to_string(service.history("ann")).unwrap();
    let page = format!(r#"{{"events": {events}, "closed": true, "lastEventId": 99, "runId": "x"}}"#);
    for text in [events, page] {
        let recorded = Recorded::from_json(&text).unwrap();
        recorded.assert_same(Trial);
        assert_eq!(recorded.events(), service.history("ann"));
        // Another version differs in one turn, and the following turns are still compared.
        let differences = recorded.differences(Impatient);
        assert_eq!(differences.len(), 1);
        let text = differences[0].to_string();
        assert!(
            text.contains("decisions now") && text.contains("PT1M") && text.contains("recorded decisions"),
            "{text}"
        );
        let message = ends(|| recorded.assert_same(Impatient));
        assert!(message.contains("1 turns differ"), "{message}");
    }
    assert!(Recorded::from_json("{}").is_err());
}

/// A trial whose pauses do not double.
struct Impatient;

impl Decider for Impatient {
    type State = State;

    fn evolve(&self, state: &mut State, event: &Event) {
        Trial.evolve(state, event);
    }

    fn decide(&self, state: &State, window: &Window) -> Decisions {
        let decisions = Trial.decide(state, window);
        let is_retry = decisions == Decisions::new().timer("retry", seconds(120));
        if is_retry { Decisions::new().timer("retry", seconds(60)) } else { decisions }
    }
}

#[test]
fn the_test_service_produces_the_canonical_trace() {
    /// Runs A and B in parallel, then C when A or B is done, then closes.
    fn parallel(steps: &Steps, _: &Window) -> Decisions {
        let [a, b, c] = ["A", "B", "C"].map(|id| steps.activity(id));
        if a.is_new() {
            Decisions::new().schedule(Activity::new("A", "A")).schedule(Activity::new("B", "B"))
        } else if c.is_done() {
            Decisions::new().succeed(&())
        } else if c.is_new() && (a.is_done() || b.is_done()) {
            Decisions::new().schedule(Activity::new("C", "C"))
        } else {
            Decisions::new()
        }
    }
    let mut service = TestService::new();
    service
        .decider("parallel", decide(parallel))
        .turns_take(seconds(2))
        .activity("A", |_| Work::success(&()).takes(seconds(6)))
        .activity("B", |_| Work::success(&()).takes(seconds(5)))
        .activity("C", |_| Work::success(&()).takes(seconds(9)));
    service.start("parallel", "p", &());
    assert_eq!(service.finish("p").status, Status::Success);
    service.assert_events(
        "p",
        &[
            "WorkflowStarted",
            "DeciderScheduled",
            "DeciderStarted",
            "DeciderCompleted",
            "ActivityScheduled",
            "ActivityScheduled",
            "ActivityStarted",
            "ActivityStarted",
            "ActivitySuccess",
            "DeciderScheduled",
            "DeciderStarted",
            "ActivitySuccess",
            "DeciderScheduled",
            "DeciderCompleted",
            "ActivityScheduled",
            "DeciderStarted",
            "ActivityStarted",
            "DeciderCompleted",
            "ActivitySuccess",
            "DeciderScheduled",
            "DeciderStarted",
            "DeciderCompleted",
            "WorkflowSuccess",
        ],
    );
    let message = ends(|| service.assert_events("p", &["WorkflowStarted", "WorkflowSuccess"]));
    assert!(message.contains("expected WorkflowSuccess as event 2, found DeciderScheduled"), "{message}");
    let message = ends(|| service.assert_count("p", "TimerExpired", 1));
    assert!(message.contains("expected 1 of TimerExpired, found 0"), "{message}");
}

/// A decider of one activity with up to three attempts, one and two seconds apart.
struct Patient;

impl Decider for Patient {
    type State = Tally;

    fn evolve(&self, state: &mut Tally, event: &Event) {
        state.add(event);
    }

    fn decide(&self, state: &Tally, _: &Window) -> Decisions {
        match state.newest("a").and_then(|activity| activity.closed) {
            Some((closed, _)) => Decisions::new().succeed(&format!("{closed:?}")),
            None if state.newest("a").is_some() => Decisions::new(),
            None => Decisions::new().schedule(patient()),
        }
    }
}

fn patient() -> Activity {
    let policy = RetryPolicy { maximum_attempts: Some(3), ..RetryPolicy::default() };
    Activity::new("a", "A").start_to_close(seconds(9)).retry(policy)
}

#[test]
fn only_the_last_attempt_is_recorded() {
    let begun = || given(Patient, "patient").then(Decisions::new().schedule(patient()));
    for (news, closed) in [
        (activity_failed("a", "busy", &()), "Failed"),
        (activity_timed_out("a", ActivityTimeout::StartToClose), "TimedOut"),
        (activity_succeeded("a", &()), "Success"),
    ] {
        begun().when(news).then(Decisions::new().succeed(&closed));
    }
}

#[test]
fn a_test_can_apply_any_external_command() {
    let mut service = service();
    service.start("trial", "ann", &());
    service.advance(seconds(1));
    let version = service.run("ann").version;
    let signal =
        |if_version| Command::Signal { name: "leave".to_owned(), input: None, identity: None, key: None, if_version };
    assert!(matches!(service.command("ann", &signal(Some(version + 1))), Err(Fault::VersionMismatch { .. })));
    assert!(service.command("ann", &signal(Some(version))).is_ok());
    assert_eq!(service.finish("ann").status, Status::Success);
    assert!(ends(|| drop(service.finish("bob"))).contains("no run of `bob` was started"));
}

mod queries {
    use baton_history::event::EventKind;

    use crate::testing::{TestService, given, signal};
    use crate::{Decider, Decisions, Event, Payload, Query, QueryError, Window};

    /// Adds up the inputs of its signals. The signal `close` closes the run.
    struct Sum;

    impl Decider for Sum {
        type State = u64;

        fn evolve(&self, sum: &mut u64, event: &Event) {
            if let EventKind::Signal(it) = &event.kind {
                *sum += it.input.as_ref().and_then(|input| input.read::<u64>().ok()).unwrap_or_default();
            }
        }

        fn decide(&self, sum: &u64, window: &Window) -> Decisions {
            if window.signals().any(|(name, _)| name == "close") {
                return Decisions::new().succeed(sum);
            }
            Decisions::new().awaiting(["add", "close"])
        }

        fn query(&self, sum: &u64, query: &Query<'_>) -> Result<Payload, QueryError> {
            query
                .on("sum", |()| *sum)
                .on("times", |factor: u64| sum * factor)
                .try_on("per", |by: u64| sum.checked_div(by).ok_or(QueryError::Refused("by zero".to_owned())))
                .answer()
        }
    }

    #[test]
    fn a_decider_answers_queries_at_any_point() {
        let story = given(Sum, "sum").when(signal("add", &3));
        assert_eq!(story.query("sum", &()), Ok(3_u64));
        let story = story.then(Decisions::new()).when(signal("add", &4));
        assert_eq!(story.query("times", &10), Ok(70_u64));
        assert_eq!(story.query::<u64>("per", &0), Err(QueryError::Refused("by zero".to_owned())));
        let Err(QueryError::Unreadable(_)) = story.query::<u64>("times", &"x") else { panic!("`x` is no number") };
        let known = ["sum", "times", "per"].map(str::to_owned).to_vec();
        assert_eq!(story.query::<u64>("mean", &()), Err(QueryError::Unknown { name: "mean".to_owned(), known }));
    }

    #[test]
    fn an_open_and_a_closed_run_answer_queries() {
        let mut service = TestService::new();
        service.decider("sum", Sum).start("sum", "1", &());
        service.signal("1", "add", &3).unwrap();
        assert_eq!(service.query("1", "sum", &()), Ok(3_u64), "it reflects every acknowledged event");
        service.signal("1", "close", &()).unwrap();
        // The first query lets the decider complete the waiting turn, which closes the run.
        assert_eq!(service.query("1", "sum", &()), Ok(3_u64));
        let before = service.history("1").to_vec();
        assert_eq!(service.query("1", "sum", &()), Ok(3_u64));
        assert_eq!(service.history("1"), before, "a query is read-only");
    }

    #[test]
    fn a_flow_answers_registered_queries_also_with_a_rebuilt_state() {
        use crate::flow::{Context, Failure, Flow};
        let flow = Flow::new(|ctx: Context, ()| async move {
            let total = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
            let shown = std::sync::Arc::clone(&total);
            ctx.query("total", move |()| shown.load(std::sync::atomic::Ordering::SeqCst));
            let mut adds = ctx.signals::<u64>("add");
            while total.load(std::sync::atomic::Ordering::SeqCst) < 10 {
                total.fetch_add(adds.next().await?, std::sync::atomic::Ordering::SeqCst);
            }
            Ok::<_, Failure>(())
        });
        let mut service = TestService::new();
        service.decider("flow", flow).start("flow", "1", &());
        assert_eq!(service.query("1", "total", &()), Ok(0_u64));
        service.signal("1", "add", &3).unwrap();
        assert_eq!(service.query("1", "total", &()), Ok(3_u64));
        service.signal("1", "add", &9).unwrap();
        assert_eq!(service.query("1", "total", &()), Ok(12_u64), "the run has closed in between");
    }
}

mod updates;
