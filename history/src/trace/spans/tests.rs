//! Each line describes one span: its name, start and end in seconds, its parent, and its outcome.

use uuid::Uuid;

use super::*;
use crate::author::Author;
use crate::command::Command;
use crate::event::ActivityTimeouts;
use crate::retry::RetryPolicy;
use crate::scene::{
    Scene, cancel_timer, fail_with, failure, plain, schedule, schedule_with_retry, signal, signal_of, success,
    terminate, timer,
};
use crate::start::Start;
use crate::trace::TraceContext;

const RUN_ID: Uuid = Uuid::from_u128(7);
const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Returns a run whose caller has sent a trace context.
fn given() -> Scene {
    started(TraceContext::of_headers(CALLER, Some("a=b")))
}

fn started(trace: Option<TraceContext>) -> Scene {
    Scene::of_run(&Start { trace, ..plain() }, RUN_ID)
}

fn spans(given: &Scene, when: &Command) -> Vec<Span> {
    let mut transition = Transition::linked(given.run.clone(), given.links.clone());
    let author = Author::default().traced(CALLER.parse().ok());
    transition.admit_as(when, &author, given.now).unwrap();
    of_transition(Some(&given.run), &transition)
}

/// Returns the name of a span in these tests.
fn name_of(span: SpanId) -> String {
    let caller: Traceparent = CALLER.parse().unwrap();
    if span == caller.span_id() {
        return "the caller".to_owned();
    }
    if span == SpanId::of_run(RUN_ID) {
        return "the run".to_owned();
    }
    let event = (1..100).find(|id| span == SpanId::of_event(RUN_ID, *id));
    event.map_or_else(|| span.to_string(), |id| format!("event {id}"))
}

fn line(span: &Span) -> String {
    let second = |at: Timestamp| at.as_millis() / 1_000 - 1_000;
    let below = span.parent.map_or_else(|| "nothing".to_owned(), name_of);
    let end = match &span.end {
        SpanEnd::Succeeded => String::new(),
        SpanEnd::Failed(word) => format!(" {word}"),
    };
    format!("{} {}-{} below {below}{end}", span.name, second(span.began_at), second(span.ended_at))
}

#[track_caller]
fn check(given: &Scene, when: &Command, then: &[&str]) {
    let lines: Vec<String> = spans(given, when).iter().map(line).collect();
    assert_eq!(lines, then);
}

#[test]
fn the_span_of_a_turn_begins_when_it_is_taken() {
    let held = given().after(3).take().after(2);
    check(&held, &held.complete([]), &["turn order 3-5 below the run"]);
    check(&held, &held.fail_turn(), &["turn order 3-5 below the run confused"]);
    let late = held.clone().after(100);
    check(&late, &late.fire(), &["turn order 3-105 below the run timed-out"]);
    // A turn that no decider has taken has no span.
    check(&given(), &given().start_turn(), &[]);
}

#[test]
fn the_span_of_an_activity_begins_when_it_is_scheduled() {
    let waits = given().decide([schedule("a")]).after(2);
    let held = waits.clone().takes("a").after(3);
    check(&held, &held.succeed("a"), &["activity A 0-5 below the run"]);
    check(&held, &fail_with(held.task("a"), "declined", None), &["activity A 0-5 below the run declined"]);
    let span = spans(&held, &held.succeed("a")).remove(0);
    assert_eq!(span.taken_at, Some(waits.now));
    assert_eq!(span.span_id, SpanId::of_event(RUN_ID, held.scheduled("a")));
    assert_eq!(span.tracestate.as_deref(), Some("a=b"));
}

#[test]
fn each_attempt_has_a_span_below_its_activity() {
    let timeouts = ActivityTimeouts::default();
    let first = given().decide([schedule_with_retry("a", RetryPolicy::default(), timeouts)]).takes("a").after(1);
    let id = first.scheduled("a");
    let fails = fail_with(first.task("a"), "busy", None);
    let below = format!("below event {id}");
    check(&first, &fails, &[&format!("try A 0-1 {below} busy")]);
    let second = first.then(&fails).after(4).takes("a").after(2);
    let ends = ["activity A 0-7 below the run", &format!("try A 5-7 {below}")];
    check(&second, &second.succeed("a"), &ends);
    // The spans have the ids that runners received with their tasks.
    let [activity, second_try] = &*spans(&second, &second.succeed("a")) else { panic!("two spans") };
    assert_eq!(activity.span_id, SpanId::of_event(RUN_ID, id));
    assert_eq!(second_try.span_id, SpanId::of_attempt(RUN_ID, id, second.task("a").start));
    assert_eq!(second.task("a").start, 2);
}

#[test]
fn the_span_of_a_timer_ends_when_it_expires_or_is_canceled() {
    let set = given().decide([timer("t", 9)]).after(9);
    check(&set, &set.fire(), &["timer 0-9 below the run"]);
    let held = set.then(&signal("go")).take();
    let ends = ["turn order 9-9 below the run", "timer 0-9 below the run"];
    check(&held, &held.complete([cancel_timer("t")]), &ends);
}

#[test]
fn the_span_of_a_signal_links_to_its_sender() {
    let given = given().after(1);
    check(&given, &signal("go"), &["signal go 1-1 below the run"]);
    assert_eq!(spans(&given, &signal("go"))[0].link.unwrap().to_string(), CALLER);
    check(&given, &signal_of(4, 9), &["signal go 1-1 below the run"]);
}

#[test]
fn the_close_of_a_run_ends_all_open_spans() {
    let held = given().take().after(5);
    let ends = ["turn order 0-5 below the run", "workflow order 0-5 below the caller"];
    check(&held, &held.complete([success()]), &ends);
    let failed = ["turn order 0-5 below the run", "workflow order 0-5 below the caller failed"];
    check(&held, &held.complete([failure()]), &failed);
    let open = given().decide([schedule("a"), timer("t", 99)]).after(1).takes("a").then(&signal("go")).take().after(2);
    let ends = [
        "activity A 0-3 below the run run-closed",
        "timer 0-3 below the run",
        "turn order 1-3 below the run run-closed",
        "workflow order 0-3 below the caller terminated",
    ];
    check(&open, &terminate(), &ends);
}

#[test]
fn a_run_that_is_not_sampled_has_no_spans() {
    let unsampled = TraceContext::of_headers(&CALLER.replace("-01", "-00"), None);
    for trace in [None, unsampled] {
        let held = started(trace).take();
        check(&held, &held.complete([success()]), &[]);
    }
}

#[test]
fn the_span_of_a_run_that_begins_a_trace_has_no_parent() {
    let held = started(Some(TraceContext::root(RUN_ID, true))).take().after(1);
    let ends = ["turn order 0-1 below the run", "workflow order 0-1 below nothing"];
    check(&held, &held.complete([success()]), &ends);
    let unsampled = started(Some(TraceContext::root(RUN_ID, false))).take();
    check(&unsampled, &unsampled.complete([success()]), &[]);
}

#[test]
fn turns_of_a_single_activity_have_no_spans() {
    let activity = crate::StartActivity { activity_type: "charge".to_owned(), ..crate::StartActivity::default() };
    let id = || "w".to_owned();
    let retention = crate::limits::RETENTION_DEFAULT;
    let start = activity.with_defaults("cards", &crate::ActivityDefaults::default(), retention, id, None);
    let trace = TraceContext::of_headers(CALLER, Some("a=b"));
    let held = Scene::of_run(&Start { trace, ..start }, RUN_ID).takes(crate::limits::ONE_ACTIVITY_ID);
    let expected = ["activity charge 0-0 below the run", "workflow charge 0-0 below the caller"];
    check(&held, &held.succeed(crate::limits::ONE_ACTIVITY_ID), &expected);
}
