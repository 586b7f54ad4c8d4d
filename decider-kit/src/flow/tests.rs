//! Tests of flows in a test service.

mod cancellation;
mod contained;
mod external;
mod laws;
mod recording;
mod reset;
mod updates;
mod waiting;

use baton_history::{Decision, Event, EventKind, RetryPolicy};
use serde::Serialize;

use super::{Context, Failure, Flow, FlowError, FlowState};
use crate::testing::{ReplayError, TestService, Work, replay};
use crate::{Duration, Status};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Code of a flow without input.
trait Code<Fut>: Fn(Context, ()) -> Fut + Send + Sync + 'static {}
impl<Fut, F: Fn(Context, ()) -> Fut + Send + Sync + 'static> Code<Fut> for F {}

fn flow<O, Fut>(code: impl Code<Fut>) -> Flow
where
    O: Serialize,
    Fut: Future<Output = Result<O, Failure>> + Send + 'static,
{
    Flow::new(code)
}

/// Creates a service with this flow under the type `flow`, and activities `a`, `b`, … that take one, two, … seconds and
/// return their name.
fn service(flow: Flow) -> TestService {
    let mut service = TestService::new();
    service.decider("flow", flow);
    for (span, name) in (1..).zip(["a", "b", "c", "d"]) {
        service.activity(name, move |_| Work::success(name).takes(seconds(span)));
    }
    service
}

/// Starts the flow as `1`, runs it to its end, and returns its result.
fn result_of(service: &mut TestService) -> String {
    service.start("flow", "1", &());
    let closed = service.finish("1");
    assert_eq!(closed.status, Status::Success, "{:?}", closed.reason);
    closed.result()
}

/// Returns the names of the events, except for the events of turns.
fn names(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.kind.name()).filter(|name| !name.starts_with("Decider")).collect()
}

fn json(events: &[Event]) -> String {
    serde_json::to_string(events).unwrap()
}

fn error(replayed: Result<(), ReplayError>) -> FlowError {
    match replayed {
        Err(ReplayError::Flow { error, .. }) => error,
        other => panic!("expected a flow error, found {other:?}"),
    }
}
