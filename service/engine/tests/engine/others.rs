//! Runs that affect each other. Tests the events in both histories, the number of commits, and the order of effects.

use std::sync::Arc;

use engine::{Engine, EventRange, RunRef};
use history::event::{ChildPolicy, ChildScheduleFailedCause, ExternalFailedCause};
use history::{
    CancelExternal, ContinueAsNew, Decision, Event, EventKind, ReusePolicy, SignalExternal, Start, StartChild,
};
use simulation::steps::{self, DOMAIN, at, signal as signal_command};
use simulation::still;
use simulation::stores::fresh;
use store::Store;
use uuid::Uuid;

use crate::succeed;

/// An engine whose clock stands still, so that no deadline is ever due. The task list of each run has the run's
/// workflow id as its name.
struct Service {
    engine: Arc<Engine>,
    store: Arc<dyn Store>,
}

impl Service {
    async fn open() -> Self {
        let store = fresh().await;
        Self { engine: still::open(Arc::clone(&store), 7).await, store }
    }

    async fn start(&self, id: &str) -> Uuid {
        let start = Start { reuse_policy: ReusePolicy::AllowDuplicate, ..Start::new(id, "test", id) };
        self.engine.commands().start(DOMAIN, start).await.unwrap().run_id
    }

    async fn decide(&self, id: &str, decisions: Vec<Decision>) -> Vec<&'static str> {
        steps::decide(&self.engine, id, decisions).await
    }

    async fn events(&self, id: &str) -> Vec<Event> {
        steps::events(&self.engine, &at(id)).await
    }

    async fn names(&self, id: &str) -> Vec<&'static str> {
        steps::names(&self.engine, &at(id)).await
    }
}

fn signal(to: &str, name: &str) -> Decision {
    SignalExternal { workflow_id: to.to_owned(), name: name.to_owned(), ..SignalExternal::default() }.into()
}

fn cancel(of: &str) -> Decision {
    CancelExternal { workflow_id: of.to_owned(), ..CancelExternal::default() }.into()
}

#[tokio::test]
async fn a_signal_to_another_run_is_in_both_histories() {
    let service = Service::open().await;
    let source = service.start("source").await;
    let target = service.start("target").await;
    let before = service.store.stats().commits;
    service.decide("source", vec![signal("target", "go")]).await;
    // The events of the first turn, the signal and its delivery, and the start of the next turn.
    let window = service.decide("source", vec![succeed()]).await;
    let expected = [
        "DeciderStarted",
        "DeciderCompleted",
        "ExternalSignalScheduled",
        "ExternalSignalDelivered",
        "DeciderScheduled",
        "DeciderStarted",
    ];
    assert_eq!(window, expected);
    // Commits: turn started, turn completed, signal, delivery with the second turn for a waiting poll, close.
    assert_eq!(service.store.stats().commits, before + 5, "two of them for the effect");
    let delivered = service.events("source").await.swap_remove(5);
    assert!(matches!(delivered.kind, EventKind::ExternalSignalDelivered(it) if it.run_id == target));
    let signaled = service.events("target").await.swap_remove(2);
    let EventKind::Signal(it) = signaled.kind else { panic!("{signaled:?}") };
    let origin = it.origin.unwrap();
    assert_eq!((origin.workflow_id.as_str(), origin.run_id, origin.event_id), ("source", source, 5));
}

#[tokio::test]
async fn a_run_requests_the_cancellation_of_another() {
    let service = Service::open().await;
    service.start("source").await;
    service.start("target").await;
    service.decide("target", vec![]).await;
    service.decide("source", vec![cancel("target")]).await;
    assert!(service.decide("target", vec![]).await.contains(&"WorkflowCancelRequested"));
    assert!(service.decide("source", vec![succeed()]).await.contains(&"ExternalCancelDelivered"));
}

#[tokio::test]
async fn an_unknown_closed_or_different_run_cannot_be_signaled() {
    let service = Service::open().await;
    let earlier = service.start("target").await;
    service.decide("target", vec![succeed()]).await;
    service.start("source").await;
    service.decide("source", vec![signal("nobody", "go"), signal("target", "go")]).await;
    let named = SignalExternal {
        workflow_id: "target".to_owned(),
        run_id: Some(earlier.into()),
        name: "go".to_owned(),
        input: None,
        control: None,
    };
    service.decide("source", vec![]).await;
    service.start("target").await;
    service.decide("source", vec![named.into()]).await;
    service.decide("source", vec![succeed()]).await;
    let causes: Vec<_> = service
        .events("source")
        .await
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::ExternalSignalFailed(it) => Some((it.workflow_id, it.cause)),
            _ => None,
        })
        .collect();
    for expected in [
        ("nobody".to_owned(), ExternalFailedCause::WorkflowUnknown),
        ("target".to_owned(), ExternalFailedCause::WorkflowClosed),
        ("target".to_owned(), ExternalFailedCause::WorkflowUnknown),
    ] {
        assert!(causes.contains(&expected), "{causes:?}");
    }
    assert!(!service.names("target").await.contains(&"Signal"));
}

#[tokio::test]
async fn signals_to_another_run_arrive_in_the_order_of_decisions() {
    let service = Service::open().await;
    service.start("target").await;
    service.start("source").await;
    let names: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    let mut decisions: Vec<_> = names.iter().map(|name| signal("target", name)).collect();
    decisions.push(succeed());
    service.decide("source", decisions).await;
    let received = || async {
        let signals = service.events("target").await.into_iter().filter_map(|event| match event.kind {
            EventKind::Signal(it) => Some(it.name),
            _ => None,
        });
        signals.collect::<Vec<_>>()
    };
    while received().await.len() < names.len() {
        tokio::task::yield_now().await;
    }
    assert_eq!(received().await, names);
}

#[tokio::test]
async fn a_closed_run_delivers_its_effects_despite_a_successor() {
    let service = Service::open().await;
    service.start("target").await;
    let first = service.start("source").await;
    service.decide("source", vec![signal("target", "last words"), succeed()]).await;
    let second = service.start("source").await;
    assert_ne!(first, second);
    while !service.names("target").await.contains(&"Signal") {
        tokio::task::yield_now().await;
    }
    while !service.engine.views().describe(&at("source")).await.unwrap().owed.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(service.names("target").await.iter().filter(|name| **name == "Signal").count(), 1);
    assert_eq!(
        service.names("source").await,
        ["WorkflowStarted", "DeciderScheduled"],
        "the successor does not record the delivery"
    );
    let closed = RunRef { run_id: Some(first), ..at("source") };
    let events = service.engine.views().history(&closed, &EventRange::default()).await.unwrap().events;
    assert_eq!(events.last().unwrap().kind.name(), "WorkflowSuccess");
}

#[tokio::test]
async fn a_parent_that_continues_as_new_is_closed_for_its_children() {
    let service = Service::open().await;
    let first = service.start("parent").await;
    let both = vec![child("ended", ChildPolicy::Terminate), child("left", ChildPolicy::Abandon)];
    service.decide("parent", both).await;
    service.decide("left", vec![]).await;
    service.engine.commands().submit(&at("parent"), signal_command("go")).await.unwrap();
    service.decide("parent", vec![ContinueAsNew { force: true, ..ContinueAsNew::default() }.into()]).await;
    while !service.names("ended").await.contains(&"WorkflowTerminated") {
        tokio::task::yield_now().await;
    }
    // The child still has its parent, but the parent gets no event when the child closes.
    let parent = service.engine.views().describe(&at("left")).await.unwrap().run.started.parent.clone().unwrap();
    assert_eq!(parent.run_id, first);
    service.engine.commands().submit(&at("left"), signal_command("go")).await.unwrap();
    service.decide("left", vec![succeed()]).await;
    for id in ["left", "ended", "parent"] {
        while !service.engine.views().describe(&at(id)).await.unwrap().owed.is_empty() {
            tokio::task::yield_now().await;
        }
    }
    let parent = service.engine.views().describe(&at("parent")).await.unwrap().run;
    assert!(parent.children.is_empty() && parent.started.continued_from == Some(first));
    assert_eq!(service.names("parent").await, ["WorkflowStarted", "DeciderScheduled"]);
}

#[tokio::test]
async fn a_run_may_signal_itself() {
    let service = Service::open().await;
    service.start("self").await;
    service.decide("self", vec![signal("self", "again")]).await;
    while !service.names("self").await.contains(&"ExternalSignalDelivered") {
        tokio::task::yield_now().await;
    }
    assert_eq!(service.names("self").await.iter().filter(|name| **name == "Signal").count(), 1);
}

fn child(id: &str, policy: ChildPolicy) -> Decision {
    StartChild {
        workflow_id: id.to_owned(),
        workflow_type: "child".to_owned(),
        task_list: Some(id.to_owned()),
        child_policy: policy,
        ..StartChild::default()
    }
    .into()
}

#[tokio::test]
async fn a_child_starts_and_its_parent_gets_its_close() {
    let service = Service::open().await;
    let parent = service.start("parent").await;
    service.decide("parent", vec![child("child", ChildPolicy::Terminate)]).await;
    assert!(service.decide("child", vec![]).await.contains(&"WorkflowStarted"));
    let described = service.engine.views().describe(&at("child")).await.unwrap().run;
    let link = described.started.parent.clone().unwrap();
    assert_eq!((link.workflow_id.as_str(), link.run_id, link.event_id), ("parent", parent, 5));
    let told = |name: &'static str| {
        let service = &service;
        async move {
            while !service.names("parent").await.contains(&name) {
                tokio::task::yield_now().await;
            }
        }
    };
    told("ChildStarted").await;
    assert_eq!(*service.names("parent").await.last().unwrap(), "ChildStarted", "no turn");
    assert_eq!(service.engine.views().describe(&at("parent")).await.unwrap().run.children.len(), 1);
    // The parent and the child signal each other.
    service.engine.commands().submit(&at("parent"), signal_command("go")).await.unwrap();
    service.decide("parent", vec![signal("child", "hello")]).await;
    assert!(service.decide("child", vec![signal("parent", "hello to you"), succeed()]).await.contains(&"Signal"));
    told("ChildSuccess").await;
    let names = service.names("parent").await;
    let position = |name: &str| names.iter().rposition(|found| *found == name);
    assert!(position("Signal") < position("ChildSuccess"), "the signal before the close comes first: {names:?}");
    service.decide("parent", vec![]).await;
    let success = service.events("parent").await.into_iter().find_map(|event| match event.kind {
        EventKind::ChildSuccess(it) => Some(it),
        _ => None,
    });
    assert_eq!(success.unwrap().run_id, described.started.run_id);
}

#[tokio::test]
async fn children_of_a_closing_parent_follow_their_policy() {
    let service = Service::open().await;
    service.start("parent").await;
    let children =
        [("killed", ChildPolicy::Terminate), ("asked", ChildPolicy::RequestCancel), ("left", ChildPolicy::Abandon)];
    let mut decisions: Vec<_> = children.iter().map(|(id, policy)| child(id, *policy)).collect();
    // The turn that schedules the children also closes the run. The children start nevertheless.
    decisions.push(succeed());
    service.decide("parent", decisions).await;
    for (id, event) in [("killed", "WorkflowTerminated"), ("asked", "WorkflowCancelRequested")] {
        while service.engine.views().describe(&at(id)).await.is_err() || !service.names(id).await.contains(&event) {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(service.names("left").await, ["WorkflowStarted", "DeciderScheduled"]);
    assert!(service.names("asked").await.contains(&"WorkflowCancelRequested"));
    service.decide("left", vec![succeed()]).await;
    service.decide("asked", vec![succeed()]).await;
    // All effects are delivered, and the due index is empty.
    let is_quiet = async || service.store.due(0, u64::MAX, None, 10).await.unwrap().is_empty();
    while !is_quiet().await {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_child_whose_id_is_in_use_is_not_started() {
    let service = Service::open().await;
    service.start("other").await;
    service.start("parent").await;
    service.decide("parent", vec![child("other", ChildPolicy::Terminate)]).await;
    assert!(service.decide("parent", vec![]).await.contains(&"ChildScheduleFailed"));
    service.decide("other", vec![succeed()]).await;
    // A successful run prevents a new run with its workflow id, unless the reuse policy permits one.
    service.engine.commands().submit(&at("parent"), signal_command("again")).await.unwrap();
    service.decide("parent", vec![child("other", ChildPolicy::Terminate)]).await;
    service.decide("parent", vec![]).await;
    let causes: Vec<_> = service
        .events("parent")
        .await
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::ChildScheduleFailed(it) => Some(it.cause),
            _ => None,
        })
        .collect();
    let expected = [ChildScheduleFailedCause::WorkflowAlreadyOpen, ChildScheduleFailedCause::WorkflowIdReuseRefused];
    assert_eq!(causes, expected);
}

#[tokio::test]
async fn memory_for_accepted_effects_is_bounded() {
    let service = Service::open().await;
    service.start("target").await;
    service.decide("target", vec![]).await;
    let size = async || {
        let key = store::HeadKey { domain: DOMAIN.into(), workflow_id: "target".into() };
        service.store.load(&key).await.unwrap().unwrap().body.len()
    };
    let mut sizes = Vec::new();
    for number in 0..40 {
        let source = format!("source{number:02}");
        service.start(&source).await;
        service.decide(&source, vec![signal("target", "s")]).await;
        service.decide(&source, vec![succeed()]).await;
        service.decide("target", vec![]).await;
        sizes.push(size().await);
    }
    // The tail of events takes at most the soft limit, or the space of a few events if the limit is small. If the head
    // kept the origins of all 40 signals, it would be 2 KB larger.
    let max = service.store.limits().head_soft.max(2_048) + 700;
    assert!(sizes.iter().all(|size| *size < max), "{sizes:?}");
}
