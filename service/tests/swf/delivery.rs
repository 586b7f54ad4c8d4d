//! Long polls over the SWF protocol that end while a task is being dispatched: the task arrives, whatever the instant.

use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, Settings};
use serde_json::{Value, json};
use simulation::latent::Latent;
use simulation::manual_clock::ManualClock;
use simulation::stores::fresh;
use tokio::time::{Instant, sleep, sleep_until};

use crate::support::{Swf, kind, register};

/// Latency of the store. A commit takes twice as long.
const LATENCY: Duration = Duration::from_millis(3);

/// Duration of SWF's polls. Source: AWS, Amazon SWF API Reference, `PollForDecisionTask`.
const POLL: Duration = Duration::from_secs(60);

/// Ends of polls, in milliseconds after the call that creates their task: before its commit, during it, and after it.
const INSTANTS: std::ops::RangeInclusive<u64> = 0..=10;

struct Slow {
    swf: Arc<Swf>,
    engine: Arc<Engine>,
}

async fn slow() -> Slow {
    let (store, settings) = (Latent::over(fresh().await, LATENCY), Settings { seed: Some(7), ..Settings::default() });
    let engine = Engine::open(store, ManualClock::new(), settings).await.unwrap();
    let swf = Arc::new(Swf { router: service::api::router(Arc::clone(&engine)) });
    register(&swf).await;
    Slow { swf, engine }
}

impl Slow {
    /// Response of a poll; without a `taskToken` if there is no task.
    async fn poll(&self, operation: &str, list: &str) -> Value {
        self.swf.ask(operation, &json!({ "domain": "default", "taskList": { "name": list } })).await.json()
    }

    async fn start(&self, id: &str, list: &str) {
        let start =
            json!({ "domain": "default", "workflowId": id, "workflowType": kind(), "taskList": { "name": list } });
        self.swf.ask("StartWorkflowExecution", &start).await.json();
    }

    async fn schedule(&self, turn: &Value, list: &str) {
        let attributes = json!({
            "activityId": "a", "activityType": { "name": "charge", "version": "1" }, "taskList": { "name": list },
        });
        let decision =
            json!({ "decisionType": "ScheduleActivityTask", "scheduleActivityTaskDecisionAttributes": attributes });
        let answer = json!({ "taskToken": turn["taskToken"], "decisions": [decision] });
        self.swf.ask("RespondDecisionTaskCompleted", &answer).await.nothing();
    }

    /// Counts of failed deliveries, by reason.
    fn failed(&self) -> Vec<String> {
        let metrics = self.engine.render_metrics();
        let counts = metrics.lines().filter(|line| line.starts_with("baton_deliveries_failed_total"));
        counts.filter(|line| !line.ends_with(" 0")).map(str::to_owned).collect()
    }
}

/// Creates a task while its poll ends at this instant, and returns the poll's response. The task is in it or waits for
/// the next poll.
async fn ends(slow: &Arc<Slow>, operation: &'static str, list: &str, instant: u64, stops: bool) -> Value {
    let is_activity = operation == "PollForActivityTask";
    let turn = if is_activity {
        slow.start(list, "makers").await;
        slow.poll("PollForDecisionTask", "makers").await
    } else {
        Value::Null
    };
    // A node shuts down when half of the poll's time is left.
    let ends_at = Instant::now() + if stops { POLL / 2 } else { POLL };
    let (poller, polled) = (Arc::clone(slow), list.to_owned());
    let poll = tokio::spawn(async move { poller.poll(operation, &polled).await });
    let (maker, made) = (Arc::clone(slow), list.to_owned());
    let makes = tokio::spawn(async move {
        sleep_until(ends_at - Duration::from_millis(instant)).await;
        if is_activity { maker.schedule(&turn, &made).await } else { maker.start(&made, &made).await }
    });
    if stops {
        sleep_until(ends_at).await;
        slow.engine.begin_shutdown();
    }
    let first = poll.await.unwrap();
    makes.await.unwrap();
    // By then an undelivered task has been returned to its list.
    sleep(Duration::from_secs(1)).await;
    first
}

#[tokio::test(start_paused = true)]
async fn a_task_arrives_at_whatever_instant_its_poll_ends() {
    let slow = Arc::new(slow().await);
    let mut came_at_once = 0;
    for operation in ["PollForDecisionTask", "PollForActivityTask"] {
        for instant in INSTANTS {
            let list = format!("{operation}-{instant}");
            let mut task = ends(&slow, operation, &list, instant, false).await;
            if task["taskToken"].is_null() {
                task = slow.poll(operation, &list).await;
            } else {
                came_at_once += 1;
            }
            assert_eq!(task["workflowExecution"]["workflowId"], json!(list), "{task}");
            assert_eq!(slow.failed(), Vec::<String>::new(), "{list}");
        }
    }
    assert!(came_at_once > 0, "no poll ended while its task was being dispatched");
}

#[tokio::test(start_paused = true)]
async fn a_task_arrives_or_waits_at_whatever_instant_its_node_stops() {
    for operation in ["PollForDecisionTask", "PollForActivityTask"] {
        for instant in INSTANTS {
            let slow = Arc::new(slow().await);
            let list = format!("{operation}-{instant}");
            drop(ends(&slow, operation, &list, instant, true).await);
            assert_eq!(slow.failed(), Vec::<String>::new(), "{list}");
        }
    }
}
