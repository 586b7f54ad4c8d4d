//! Steps of a workflow at an engine, for tests: take a turn, answer it, read the history.

use std::time::Duration;

use engine::{DeciderTask, Delivery, Engine, EventRange, Poll, Refusal, RunRef};
use history::{Command, Decision, Event, check};

/// Domain of the tests.
pub const DOMAIN: &str = "default";

/// Maximum time of every wait. A test that reaches it fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns a reference to the newest run of a workflow id.
pub fn at(workflow_id: &str) -> RunRef {
    RunRef { domain: DOMAIN.into(), workflow_id: workflow_id.into(), run_id: None }
}

/// Returns a signal without input.
pub fn signal(name: &str) -> Command {
    Command::Signal { name: name.to_owned(), input: None, identity: None, key: None, if_version: None }
}

/// Takes the next turn of a list, and waits for it if necessary.
///
/// # Panics
///
/// If the poll fails or no turn comes.
pub async fn turn(engine: &Engine, list: &str) -> Delivery<DeciderTask> {
    let poll = Poll { wait: Duration::from_secs(60), ..Poll::default() };
    engine.tasks().poll_decider(DOMAIN, list, poll).await.expect("a poll").expect("a turn")
}

/// Completes a turn.
///
/// # Errors
///
/// The refusal of the answer.
///
/// # Panics
///
/// If the token of the turn is invalid.
pub async fn complete(engine: &Engine, turn: Delivery<DeciderTask>, decisions: Vec<Decision>) -> Result<(), Refusal> {
    let token = engine.tasks().decider_token(&turn.task().token).expect("a valid token");
    turn.delivered();
    engine.tasks().answer_turn(&token, Command::complete(token.turn, decisions)).await
}

/// Takes the next turn of a list and completes it. Returns the names of the events in its window.
///
/// # Panics
///
/// If no turn comes or its answer is refused.
pub async fn decide(engine: &Engine, list: &str, decisions: Vec<Decision>) -> Vec<&'static str> {
    let turn = turn(engine, list).await;
    let window = turn.task().events.iter().map(|event| event.kind.name()).collect();
    complete(engine, turn, decisions).await.expect("an accepted answer");
    window
}

/// Returns the history of a run, and checks that it satisfies every invariant.
///
/// # Panics
///
/// If the history cannot be read, has more than one page, or violates an invariant.
pub async fn events(engine: &Engine, run: &RunRef) -> Vec<Event> {
    let page = engine.views().history(run, &EventRange::default()).await.expect("a history");
    assert_eq!(page.next, None, "a history of one page");
    check::history(&page.events).expect("a valid history");
    page.events
}

/// Returns the names of the events of a run.
///
/// # Panics
///
/// In the same cases as [`events`].
pub async fn names(engine: &Engine, run: &RunRef) -> Vec<&'static str> {
    events(engine, run).await.iter().map(|event| event.kind.name()).collect()
}

/// Waits for a condition. Other tasks run in between.
///
/// # Panics
///
/// If the condition does not become true.
pub async fn until(mut is_true: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_true().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("the condition becomes true");
}
