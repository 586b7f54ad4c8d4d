//! Tests of updates, in single turns and whole runs, with explicit deciders and flows.

use crate::flow::{AcceptedUpdate, Context, Failure, Flow};
use crate::testing::{
    Given, TestService, UpdateOutcome, Work, activity_failed, activity_succeeded, given, signal, update,
};
use crate::{
    Activity, Decider, Decisions, Duration, Event, EventKind, Payload, Query, QueryError, Rejection, Status, Update,
    Verdict, Window,
};

/// A form with pages. The page `address` needs an activity and is answered when the activity is done.
struct Form;

#[derive(Default)]
struct State {
    pages: Vec<String>,
    /// The update that waits for the activity.
    open: Option<String>,
}

fn check(page: &str) -> Activity {
    Activity::new("check", "check").input(page)
}

impl Decider for Form {
    type State = State;

    fn evolve(&self, state: &mut State, event: &Event) {
        match &event.kind {
            EventKind::UpdateAccepted(it) => {
                state.pages.push(it.input.as_ref().and_then(|input| input.read().ok()).unwrap_or_default());
                state.open = Some(it.update_id.clone());
            }
            EventKind::UpdateCompleted(_) | EventKind::UpdateFailed(_) => state.open = None,
            _ => {}
        }
    }

    fn decide(&self, state: &State, window: &Window) -> Decisions {
        let Some(open) = &state.open else { return Decisions::new() };
        window.new_events().fold(Decisions::new(), |decisions, event| match &event.kind {
            EventKind::ActivitySuccess(_) => decisions.complete_update(open, "pay"),
            EventKind::ActivityFailed(it) => decisions.fail_update(open, it.reason.as_str(), &state.pages),
            _ => decisions,
        })
    }

    fn update(&self, state: &State, update: &Update, _: &Window) -> Verdict {
        if update.name != "page" {
            return Verdict::reject(Rejection::unknown(["page"]));
        }
        match update.read::<String>() {
            Err(rejection) => rejection.into(),
            Ok(page) if state.pages.contains(&page) => Verdict::reject(Rejection::of("stale", &state.pages)),
            Ok(page) if page == "address" => Verdict::accept_for_later().and(Decisions::new().schedule(check(&page))),
            Ok(_) => Verdict::accept("address"),
        }
    }

    fn query(&self, state: &State, query: &Query<'_>) -> Result<Payload, QueryError> {
        query.on("pages", |()| state.pages.clone()).answer()
    }
}

fn names<D: crate::TakesTurns>(story: &Given<D>, from: usize) -> Vec<&'static str> {
    story.events().iter().skip(from).map(|event| event.kind.name()).collect()
}

const TURN: [&str; 3] = ["DeciderScheduled", "DeciderStarted", "DeciderCompleted"];

#[test]
fn a_judged_update_is_visible_to_queries() {
    let story = given(Form, "form").then(Decisions::new());
    let before = story.events().len();
    let story = story.when(update("page", "cart")).then_judges(Verdict::accept("address"));
    assert_eq!(names(&story, before), [&TURN[..], &["UpdateAccepted", "UpdateCompleted"]].concat());
    assert_eq!(story.query("pages", &()), Ok(vec!["cart".to_owned()]));
}

#[test]
fn a_pending_turn_judges_the_update() {
    let story = given(Form, "form").then(Decisions::new()).when(signal("hello", &()));
    let before = story.events().len();
    let story = story.when(update("page", "cart")).then_judges(Verdict::accept("address"));
    assert_eq!(names(&story, before), ["DeciderStarted", "DeciderCompleted", "UpdateAccepted", "UpdateCompleted"]);
}

#[test]
fn a_rejected_update_leaves_no_trace() {
    let story = given(Form, "form").then(Decisions::new());
    let story = story.when(update("page", "cart")).then_judges(Verdict::accept("address"));
    let before = story.events().to_vec();
    let story = story
        .when(update("page", "cart"))
        .then_judges(Verdict::reject(Rejection::of("stale", &["cart"])))
        .when(update("pgae", "cart"))
        .then_judges(Verdict::reject(Rejection::unknown(["page"])));
    assert_eq!(story.events(), before);
    assert_eq!(story.query("pages", &()), Ok(vec!["cart".to_owned()]));
}

#[test]
fn an_update_accepted_for_later_is_answered_by_a_later_turn() {
    let proposed = || {
        let verdict = Verdict::accept_for_later().and(Decisions::new().schedule(check("address")));
        given(Form, "form").then(Decisions::new()).when(update("page", "address")).then_judges(verdict)
    };
    let done =
        proposed().when(activity_succeeded("check", &())).then(Decisions::new().complete_update("update-1", "pay"));
    assert_eq!(names(&done, 0).last(), Some(&"UpdateCompleted"));
    let failed = Decisions::new().fail_update("update-1", "nowhere", &["address"]);
    let failed = proposed().when(activity_failed("check", "nowhere", &())).then(failed);
    assert_eq!(names(&failed, 0).last(), Some(&"UpdateFailed"));
}

#[track_caller]
fn ends(story: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let panic = std::panic::catch_unwind(story).expect_err("the test should have failed");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn an_unexpected_or_missing_verdict_fails_the_test() {
    let start = || given(Form, "form").then(Decisions::new());
    let proposed = || start().when(update("page", "cart"));
    assert!(ends(|| drop(proposed().then_judges(Verdict::reject("stale")))).contains("expected for update `page`"));
    assert!(ends(|| drop(proposed().then_judges(Verdict::accept("pay")))).contains("pay"));
    let more = Verdict::accept("address").and(Decisions::new().schedule(check("cart")));
    assert!(ends(|| drop(proposed().then_judges(more))).contains("expected decisions"));
    assert!(ends(|| drop(proposed().when(signal("x", &())).then(Decisions::new()))).contains("must get its verdict"));
    assert!(ends(|| drop(proposed().when(update("page", "pay")))).contains("one update at a time"));
    assert!(ends(|| drop(start().then_judges(Verdict::accept("address")))).contains("`when(update(…))` first"));
}

/// The same form as a flow.
async fn form(ctx: Context, (): ()) -> Result<Vec<String>, Failure> {
    let pages = std::sync::Arc::new(std::sync::Mutex::new(Vec::<String>::new()));
    let seen = {
        let pages = std::sync::Arc::clone(&pages);
        move || pages.lock().expect("no code panics while it holds this lock").clone()
    };
    let proposed = seen.clone();
    ctx.query("pages", move |()| proposed());
    let known = seen.clone();
    let mut updates = ctx
        .updates::<String>("page")
        .validate(move |page| if known().contains(page) { Err(Rejection::of("stale", &known())) } else { Ok(()) });
    while seen().len() < 2 {
        let AcceptedUpdate { input, reply } = updates.next().await?;
        pages.lock().expect("no code panics while it holds this lock").push(input.clone());
        if input == "address" {
            match ctx.activity::<()>("check", &input).await {
                Ok(()) => reply.done("pay"),
                Err(failure) => reply.failed(&failure),
            }
        } else {
            reply.done("address");
        }
    }
    Ok(seen())
}

#[test]
fn a_flow_passes_the_same_single_turns() {
    let story = given(Flow::new(form), "form").then(Decisions::new());
    let story = story.when(update("page", "cart")).then_judges(Verdict::accept("address"));
    assert_eq!(story.query("pages", &()), Ok(vec!["cart".to_owned()]));
    let before = story.events().to_vec();
    let story = story
        .when(update("page", "cart"))
        .then_judges(Verdict::reject(Rejection::of("stale", &["cart"])))
        .when(update("pgae", "cart"))
        .then_judges(Verdict::reject(Rejection::unknown(["page"])));
    assert_eq!(story.events(), before);
    let check = Activity::new("check", "check").input("address");
    let story = story
        .when(update("page", "address"))
        .then_judges(Verdict::accept_for_later().and(Decisions::new().schedule(check)))
        .when(activity_succeeded("check", &()));
    let decided = story.decisions();
    assert!(
        decided.updates.iter().any(|answer| matches!(answer.verdict, baton_history::Verdict::Done { .. })),
        "{decided:?}"
    );
}

/// Runs the same scenario for an explicit decider and a flow, on a virtual clock.
fn goes_through(mut service: TestService) {
    service.activity("check", |_| Work::success(&()).takes(Duration::from_secs(20)));
    service.start("form", "f", &());
    assert_eq!(service.update("f", "page", "cart").result::<String>(), "address");
    let before = service.history("f").to_vec();
    assert_eq!(service.update("f", "page", "cart").rejected(), "stale");
    assert_eq!(service.update("f", "pgae", "cart").rejected(), "unknown-update");
    assert_eq!(service.update("f", "page", &7).rejected(), "bad-input");
    assert_eq!(service.history("f"), before, "a rejected update leaves no trace");
    let began = service.now();
    assert_eq!(service.update("f", "page", "address").result::<String>(), "pay");
    assert!(service.now().since(began) >= Duration::from_secs(20), "it was answered when the activity was done");
    assert_eq!(service.query("f", "pages", &()), Ok(vec!["cart".to_owned(), "address".to_owned()]));
}

#[test]
fn an_explicit_decider_judges_updates_in_a_whole_run() {
    let mut service = TestService::new();
    service.decider("form", Form);
    goes_through(service);
}

#[test]
fn a_flow_judges_updates_in_a_whole_run() {
    let mut service = TestService::new();
    service.decider("form", Flow::new(form));
    service.start("form", "g", &());
    goes_through(service);
}

#[test]
fn an_update_of_a_closed_run_returns_the_status() {
    let mut service = TestService::new();
    service.decider("form", Flow::new(form));
    service.activity("check", |_| Work::failure("nowhere", &()));
    service.start("form", "f", &());
    service.update("f", "page", "cart");
    let UpdateOutcome::Failed { reason, .. } = service.update("f", "page", "address") else {
        panic!("the update should have failed")
    };
    assert_eq!(reason, "nowhere");
    assert_eq!(service.finish("f").status, Status::Success);
    assert_eq!(service.update("f", "page", "more"), UpdateOutcome::Closed(Status::Success));
}
