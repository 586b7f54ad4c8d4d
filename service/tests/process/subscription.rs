//! The subscription example on a service that is killed at every step (S2.1): its history is one that might have been written
//! without any trouble.

#[path = "../../../examples/subscription/customers.rs"]
mod customers;
#[path = "../../../examples/subscription/flow.rs"]
mod flow;

use std::time::Duration;

use client::body::{CancelWorkflow, StartWorkflow};
use client::{Client, Patience};
use decider_kit::flow::Flow;
use history::event::{ActivityTimeouts, EventKind};
use history::{Event, Payload, Status, check};

use self::customers::Customer;
use crate::support::{Scratch, Service};

const LIST: &str = "subscriptions";

/// What a killed service handed out and cannot remember is lost to its taker; this is how long until it is handed out again.
const LOST_AFTER: history::Duration = history::Duration::from_secs(2);

/// How often the service is killed before the customer cancels; where it takes long to start, several steps are taken between
/// two kills.
const KILLS: u32 = 12;

/// What was done, in order.
fn done(events: &[Event]) -> Vec<String> {
    let mut named = std::collections::BTreeMap::new();
    let mut done = Vec::new();
    for event in events {
        match &event.kind {
            EventKind::ActivityScheduled(it) => drop(named.insert(event.id, it.activity_id.clone())),
            EventKind::ActivitySuccess(it) => done.extend(named.remove(&it.scheduled_event_id)),
            _ => {}
        }
    }
    done
}

async fn work(_: runner_kit::Context, _: Customer) -> Result<(), runner_kit::Failure> {
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_killed_at_every_step_of_a_subscription_writes_the_history_it_would_have_written() {
    let scratch = Scratch::new("subscription");
    let mut service = Service::start(&scratch.0, &[]);
    let (url, listen) = (service.url.clone(), service.url.trim_start_matches("http://").to_owned());
    let client = Client::new(&url).unwrap().patience(Patience::For(Duration::from_secs(60)));
    let deciders = decider_kit::Host::new(client.clone(), LIST).register("subscription", Flow::new(flow::subscription));
    let names = ["welcome-mail", "charge", "end-of-trial-mail", "monthly-mail", "process-cancellation", "goodbye-mail"];
    let runners = names.into_iter().fold(runner_kit::Host::new(client.clone(), LIST), |host, name| {
        host.register(runner_kit::activity_fn(name, work))
    });
    let workers = tokio::spawn(async move { tokio::join!(deciders.run(), runners.run()) });

    let customer = Customer { email: "ada@example.com".to_owned(), cents: 990, month: history::Duration::from_secs(1) };
    let start = StartWorkflow {
        workflow_id: "ada".to_owned(),
        workflow_type: "subscription".to_owned(),
        task_list: Some(LIST.to_owned()),
        input: Some(Payload::of(&customer).unwrap()),
        decider_start_to_close: Some(LOST_AFTER),
        activity_timeouts: ActivityTimeouts { start_to_close: Some(LOST_AFTER), ..ActivityTimeouts::default() },
        ..StartWorkflow::default()
    };
    client.start(&start, Some("start")).await.unwrap();
    let (mut kills, mut seen, mut is_canceled) = (0, 0, false);
    let events = loop {
        let events = client.events("ada", None).await.unwrap();
        if !is_canceled && kills >= KILLS && done(&events).iter().any(|name| name == "mail-2") {
            client.cancel("ada", &CancelWorkflow::default(), Some("cancel")).await.unwrap();
            is_canceled = true;
        }
        if client.describe("ada", None).await.unwrap().status != Status::Open {
            break client.events("ada", None).await.unwrap();
        }
        if events.len() == seen {
            tokio::task::yield_now().await;
            continue;
        }
        // Something was recorded, and whoever asked for it may not have been told.
        seen = events.len();
        service.kill();
        service = Service::start_at(&scratch.0, &listen, &[]);
        kills += 1;
        // Nothing that was shown is gone, and nothing of it is another.
        let after = client.events("ada", None).await.unwrap();
        assert_eq!(after.get(..seen), Some(events.as_slice()));
    };
    workers.abort();

    check::history(&events).unwrap();
    let done = done(&events);
    // The cancellation may come between a month's charge and its mail.
    let monthly = done.len() - 3;
    let mut expected = vec!["welcome-mail".to_owned()];
    let steps = (1..).flat_map(|month| [format!("charge-{month}"), format!("mail-{month}")]);
    expected.extend(steps.take(monthly));
    expected.extend(["process-cancellation", "goodbye-mail"].map(str::to_owned));
    assert_eq!(done, expected);
    assert!(monthly >= 4);
    let is_failure = |event: &&Event| matches!(event.kind, EventKind::ActivityFailed(_) | EventKind::DeciderFailed(_));
    assert_eq!(events.iter().find(is_failure), None);
    assert_eq!(client.result("ada", None, Duration::ZERO).await.unwrap().status, Status::Canceled);
}
