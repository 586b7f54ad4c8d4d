//! Tests of the flow and of the explicit decider over fourteen months, with all kinds of failures.

use baton_decider_kit::flow::Flow;
use baton_decider_kit::testing::{Recorded, TestService, Work, replay, replay_directory};
use baton_decider_kit::{Duration, Event, EventKind, Status, TakesTurns, Timestamp};

use crate::customers::{Bill, Customer};
use crate::decider::Subscription;
use crate::flow::subscription;
use crate::runner::ACTIVITIES;

const MONTH: Duration = Duration::from_days(30);
const DAY: Duration = Duration::from_days(1);

fn customer() -> Customer {
    Customer { email: "ada@example.com".to_owned(), cents: 990, month: MONTH }
}

fn flow() -> Flow {
    Flow::new(subscription)
}

/// A test scenario.
#[derive(Debug, Clone, Default)]
struct Plan {
    cancel_after: Duration,
    /// Time at which a decider takes a turn and crashes.
    lost_turn: Option<Timestamp>,
    /// Number of the activity whose runner crashes.
    lost_activity: Option<usize>,
    /// Duration of turns.
    turns_take: Duration,
}

/// Creates a service with a subscription of a year and two months.
fn service(decider: impl TakesTurns, plan: &Plan) -> TestService {
    let mut service = TestService::new();
    service.decider("subscription", decider);
    let calls = std::rc::Rc::new(std::cell::Cell::new(0));
    for name in ACTIVITIES {
        let (calls, lost) = (std::rc::Rc::clone(&calls), plan.lost_activity);
        service.activity(name, move |_| {
            calls.set(calls.get() + 1);
            if lost == Some(calls.get()) { Work::never() } else { Work::success(&()).takes(Duration::from_secs(2)) }
        });
    }
    service.turns_take(plan.turns_take);
    // The execution timeout must be longer than fourteen months. The default is a year.
    let input = baton_history::Payload::of(&customer()).ok();
    let execution_timeout = Duration::from_days(3 * 365);
    let start = baton_history::Start::new("ada", "subscription", "default");
    service.start_with(&baton_history::Start { input, execution_timeout, ..start });
    service.after(plan.cancel_after).cancel("ada");
    service
}

fn live(decider: impl TakesTurns, plan: &Plan) -> Vec<Event> {
    let mut service = service(decider, plan);
    if let Some(at) = plan.lost_turn {
        // Advances to just before the lost turn, because a turn at the current time has not started yet.
        let before = Timestamp::from_millis(at.as_millis() - 1).since(service.now());
        if before > Duration::ZERO {
            service.advance(before);
        }
        service.lose_turns(1);
    }
    service.finish("ada");
    service.history("ada").to_vec()
}

fn count(events: &[Event], name: &str) -> usize {
    events.iter().filter(|event| event.kind.name() == name).count()
}

/// Returns the ids of the successful activities, in order.
fn done(events: &[Event]) -> Vec<String> {
    let scheduled = |id: u64| {
        events.iter().find(|event| event.id == id).and_then(|event| match &event.kind {
            EventKind::ActivityScheduled(it) => Some(it.activity_id.clone()),
            _ => None,
        })
    };
    let done = events.iter().filter_map(|event| match &event.kind {
        EventKind::ActivitySuccess(it) => scheduled(it.scheduled_event_id),
        _ => None,
    });
    done.collect()
}

fn fourteen_months() -> Plan {
    Plan { cancel_after: Duration::from_millis(MONTH.as_millis() * 14 + DAY.as_millis()), ..Plan::default() }
}

/// Returns the activities of fourteen months without failures.
fn expected() -> Vec<String> {
    let mut expected = vec!["welcome-mail".to_owned()];
    for month in 1..=14 {
        expected.extend([format!("charge-{month}"), format!("mail-{month}")]);
    }
    expected.extend(["process-cancellation", "goodbye-mail"].map(str::to_owned));
    expected
}

#[test]
fn fourteen_months_are_charged_and_then_canceled() {
    for events in [live(flow(), &fourteen_months()), live(Subscription, &fourteen_months())] {
        assert_eq!(done(&events), expected());
        let Some(EventKind::WorkflowCanceled(it)) = events.last().map(|event| &event.kind) else { panic!() };
        let bill: Bill = it.details.as_ref().unwrap().read().unwrap();
        assert_eq!(bill, Bill { months: 14, cents: 14 * 990 });
        let types: Vec<_> = events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::ActivityScheduled(it) if it.activity_id.starts_with("mail-") => Some(&*it.activity_type),
                _ => None,
            })
            .collect();
        assert_eq!((types[0], &types[1..]), ("end-of-trial-mail", &["monthly-mail"; 13][..]));
    }
}

#[test]
fn both_styles_write_the_same_history() {
    let second = Duration::from_secs(1);
    let moments = [
        Duration::ZERO,
        second,
        second.times(3),
        DAY,
        MONTH,
        // The time at which the first month ends.
        Duration::from_millis(MONTH.as_millis() + 2_000),
        // Times during the first charge, and during the email about this charge.
        Duration::from_millis(MONTH.as_millis() + 3_000),
        Duration::from_millis(MONTH.as_millis() + 5_000),
        fourteen_months().cancel_after,
    ];
    for cancel_after in moments {
        for lost_activity in [None, Some(1), Some(2), Some(3), Some(4)] {
            let plan = Plan { cancel_after, lost_activity, ..Plan::default() };
            let (explicit, flowing) = (live(Subscription, &plan), live(flow(), &plan));
            assert_eq!(explicit, flowing, "{plan:?}");
            Recorded::of(&explicit).assert_same(flow());
            replay(&flow(), &serde_json::to_string(&explicit).unwrap()).unwrap();
        }
    }
}

/// For every turn, the decider crashes once while it has this turn.
#[test]
fn a_decider_crash_at_any_turn_only_costs_time() {
    let plan = Plan { cancel_after: Duration::from_millis(MONTH.as_millis() * 3 + DAY.as_millis()), ..Plan::default() };
    let untroubled = live(flow(), &plan);
    let turns = untroubled.iter().filter(|event| event.kind.name() == "DeciderStarted");
    for lost in turns.map(|turn| turn.timestamp) {
        for events in [
            live(flow(), &Plan { lost_turn: Some(lost), ..plan.clone() }),
            live(Subscription, &Plan { lost_turn: Some(lost), ..plan.clone() }),
        ] {
            assert_eq!(count(&events, "DeciderTimedOut"), 1, "the turn at {lost}");
            assert_eq!(done(&events), done(&untroubled), "the turn at {lost}");
            let asked = |events: &[Event]| count(events, "ActivityScheduled");
            assert_eq!(asked(&events), asked(&untroubled), "the turn at {lost}");
        }
    }
}

/// For every activity, the runner crashes once while it runs this activity. The next runner repeats the activity.
#[test]
fn a_runner_crash_in_any_activity_only_costs_time() {
    let plan = Plan { cancel_after: Duration::from_millis(MONTH.as_millis() * 3 + DAY.as_millis()), ..Plan::default() };
    let untroubled = live(flow(), &plan);
    for lost in 1..=count(&untroubled, "ActivitySuccess") {
        for events in [
            live(flow(), &Plan { lost_activity: Some(lost), ..plan.clone() }),
            live(Subscription, &Plan { lost_activity: Some(lost), ..plan.clone() }),
        ] {
            assert_eq!(count(&events, "ActivityTimedOut"), 1, "activity {lost}");
            assert_eq!(done(&events), done(&untroubled), "activity {lost}");
        }
    }
}

#[test]
fn slow_deciders_only_cost_time() {
    for millis in [300, 1_900, 10_000] {
        let plan = Plan { turns_take: Duration::from_millis(millis), ..fourteen_months() };
        for events in [live(flow(), &plan), live(Subscription, &plan)] {
            assert_eq!(done(&events), expected(), "{millis} ms");
        }
    }
}

#[test]
fn a_permanently_declined_card_fails_the_subscription() {
    for explicit in [false, true] {
        let mut service =
            if explicit { service(Subscription, &fourteen_months()) } else { service(flow(), &fourteen_months()) };
        service.activity("charge", |call| {
            if call.activity_id == "charge-3" {
                Work::failure("card-declined", &call.activity_id).non_retryable()
            } else {
                Work::success(&())
            }
        });
        let closed = service.finish("ada");
        assert_eq!((closed.status, closed.reason.as_deref()), (Status::Failed, Some("card-declined")));
        assert_eq!(closed.result::<String>(), "charge-3");
    }
}

#[test]
fn an_unavailable_bank_is_retried_until_it_is_back() {
    for explicit in [false, true] {
        let plan = Plan { cancel_after: Duration::from_days(75), ..Plan::default() };
        let mut service = if explicit { service(Subscription, &plan) } else { service(flow(), &plan) };
        let back = service.now().plus(Duration::from_days(37));
        service.activity("charge", move |call| {
            if call.now < back { Work::failure("out-of-office", &()) } else { Work::success(&()) }
        });
        assert_eq!(service.finish("ada").result::<Bill>().months, 2);
        // The charge is retried after one, two, four, eight and sixteen hours, then once a day.
        service.assert_count("ada", "ActivityFailed", 11);
    }
}

#[test]
fn the_bill_can_be_queried_at_any_time() {
    let events = live(flow(), &fourteen_months());
    let (flow, mut state) = (flow(), baton_decider_kit::flow::FlowState::default());
    let mut months: Vec<u64> = Vec::new();
    for event in &events {
        flow.evolve(&mut state, event);
        months.extend(flow.answer(&state, "bill", None).ok().map(|bill| bill.read::<Bill>().unwrap().months));
    }
    months.dedup();
    assert_eq!(months, (0..=14).collect::<Vec<_>>());
}

/// An outage makes no run fail. There are no deciders for one day, and no runners for another day.
#[test]
fn two_days_without_deciders_and_runners_fail_nothing() {
    for explicit in [false, true] {
        let mut service = TestService::new();
        if explicit {
            service.decider("subscription", Subscription);
        } else {
            service.decider("subscription", flow());
        }
        service.lose_turns(usize::MAX);
        service.start("subscription", "ada", &customer());
        service.advance(DAY);
        service.lose_turns(0).advance(DAY);
        for name in ACTIVITIES {
            service.activity(name, |_| Work::success(&()));
        }
        // The second month ends at the same time as the cancellation, which is handled first.
        service.after(MONTH.times(2)).cancel("ada");
        assert_eq!(service.finish("ada").status, Status::Canceled);
        let month = |month: u64| [format!("charge-{month}"), format!("mail-{month}")];
        let mut expected = vec!["welcome-mail".to_owned()];
        expected.extend(month(1));
        expected.extend(["process-cancellation", "goodbye-mail"].map(str::to_owned));
        let found = done(service.history("ada"));
        assert!(found == expected, "{found:?}");
    }
}

/// Histories that a real service has recorded, one by the flow and one by the explicit decider. Both programs must be
/// able to continue both histories.
#[test]
fn recorded_histories_can_be_replayed() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/subscription/histories");
    let replayed = replay_directory(directory, |_| Some(flow())).unwrap();
    assert_eq!(replayed.len(), 2);
    for (path, replayed) in replayed {
        replayed.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let recorded = Recorded::from_json(&std::fs::read_to_string(path).unwrap()).unwrap();
        recorded.assert_same(flow());
        recorded.assert_same(Subscription);
    }
}
