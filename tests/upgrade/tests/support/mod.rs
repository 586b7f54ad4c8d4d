//! Opens recorded stores with this version, compares everything with the record, and continues all runs to their ends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, Filter, Patience};
use engine::{Engine, Settings};
use history::Status;
use history::limits::CLOSE_DETAILS_CHARS_MAX;
use service::front::Front;
use service::http::{Server, ServerLimits};
use simulation::manual_clock::ManualClock;
use store::Store;
use tokio::net::TcpListener;
use upgrade::record::Recorded;
use upgrade::{record, scene};

/// Time limit for all open runs together.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time by which the clock is advanced when no task is waiting. Our choice: a few steps reach the next timer or retry.
const STEP: history::Duration = history::Duration::from_secs(300);

/// Opens the store at the time at which it was recorded, and compares its contents with the record.
pub(crate) async fn hold(store: Arc<dyn Store>, recorded: &Recorded, what: &str) {
    let clock = ManualClock::at(recorded.at);
    let engine = Engine::open(Arc::clone(&store), Arc::clone(&clock) as _, Settings::default()).await.unwrap();
    let report = engine.views().fsck("default", |_| {}).await.unwrap();
    assert!(report.findings.is_empty() && report.miscounted.is_none(), "{what}: {:?}", report.findings);
    assert_eq!(report.runs, recorded.runs.len() as u64, "{what}");
    let names: BTreeSet<_> = engine.registry().domains().await.unwrap().into_iter().map(|it| it.name).collect();
    assert!(names.contains("shop"), "{what}: {names:?}");

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = service::api::router(Front::from(Arc::clone(&engine)));
    let serving = tokio::spawn(
        Server { listener, router, limits: ServerLimits::default(), tls: None }.run_until(std::future::pending()),
    );
    let client = Client::new(&url).unwrap().patience(Patience::None);

    let found = record::runs(&client, &url).await.unwrap();
    assert_eq!(found.len(), recorded.runs.len(), "{what}");
    for (run, then) in found.iter().zip(&recorded.runs) {
        let id = &then.workflow_id;
        assert_eq!((&run.workflow_id, run.run_id, &run.status), (id, then.run_id, &then.status), "{what}");
        assert_eq!(run.events.len(), then.events.len(), "{what}: {id}");
        for (event, then) in run.events.iter().zip(&then.events) {
            let found =
                if then.get().contains("\"activityId\":") { event.get().to_owned() } else { as_stored(event.get()) };
            assert_eq!(found, then.get(), "{what}: {id}");
        }
    }
    closed_run_has_its_reason(&client, what).await;
    assert_eq!(scene::repeat_start(&client, &recorded.held).await.unwrap(), recorded.held.start.1, "{what}");
    scene::answer_held(&client, &recorded.held).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    finish(&client, &clock, recorded, what).await;

    serving.abort();
    engine.shutdown().await.unwrap();
}

/// Checks the reason of a closed run. The rows of earlier versions contain no reason, so lists show none. A description
/// takes the reason from the last event.
async fn closed_run_has_its_reason(client: &Client, what: &str) {
    let of_id = Filter { workflow_id: Some("failed".to_owned()), ..Filter::default() };
    let listed = client.list(&of_id, None).await.unwrap().workflows;
    assert_eq!(listed.len(), 1, "{what}");
    assert!(listed.iter().all(|row| row.reason.is_none() && row.details_line.is_none()), "{what}: {listed:?}");
    let described = client.describe("failed", None).await.unwrap();
    assert_eq!(described.reason.as_deref(), Some("declined"), "{what}");
    assert!(described.details_line.is_some_and(|line| line.chars().count() == CLOSE_DETAILS_CHARS_MAX), "{what}");
}

/// Removes the name of the activity from an event. Earlier versions did not add it to the events that they returned.
fn as_stored(event: &str) -> String {
    event.rsplit_once(",\"activityId\":").map_or_else(|| event.to_owned(), |(stored, _)| format!("{stored}}}"))
}

/// Continues every open run until it closes.
async fn finish(client: &Client, clock: &ManualClock, recorded: &Recorded, what: &str) {
    let mut open: BTreeSet<&str> =
        recorded.runs.iter().filter(|run| run.status == "open").map(|run| run.workflow_id.as_str()).collect();
    assert!(open.len() > 12, "{what}: {open:?}");
    let lists: BTreeSet<&str> = recorded.runs.iter().map(|run| run.task_list.as_str()).collect();
    let began = tokio::time::Instant::now();
    while !open.is_empty() {
        assert!(began.elapsed() < PATIENCE, "{what}: these do not end: {open:?}");
        let mut went_on = false;
        for list in &lists {
            went_on |= scene::go_on(client, list).await.unwrap_or_else(|error| panic!("{what}: {list}: {error}"));
        }
        if !went_on {
            clock.advance(STEP);
        }
        for id in open.clone() {
            let described = client.describe(id, None).await.unwrap();
            if described.status != Status::Open {
                assert_eq!(described.status, Status::Success, "{what}: {id}");
                open.remove(id);
            }
        }
    }
    let tries = client.events("tries-again", None).await.unwrap();
    history::check::history(&tries).unwrap();
    // The schedule continues, too.
    clock.advance(history::Duration::from_secs(86_400));
    let acted = async {
        while client.describe_schedule("daily").await.unwrap().totals.started < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, acted).await.expect("the schedule acts");
}
