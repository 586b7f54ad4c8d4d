//! Several deadlines that fire at once.

use crate::event::ActivityTimeouts;
use crate::scene::{Scene, check, scene, schedule, schedule_with, signal, timer};
use crate::{Command, DeadlineKind, Duration, Payload, Start};

const NONE: ActivityTimeouts =
    ActivityTimeouts { schedule_to_start: None, start_to_close: None, schedule_to_close: None, heartbeat: None };

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn timers_expire_in_order_with_one_turn_for_all() {
    let given = scene().decide([timer("b", 20), timer("a", 10), timer("c", 30), timer("now", 0)]);
    check(&given, &given.fire(), "TimerExpired(now) DeciderScheduled");
    let late = given.clone().after(20);
    check(&late, &late.fire(), "TimerExpired(now) TimerExpired(a) TimerExpired(b) DeciderScheduled");
    // A turn is already waiting, so the expired timers schedule no other turn.
    let given = given.then(&signal("go")).after(10);
    check(&given, &given.fire(), "TimerExpired(now) TimerExpired(a)");
}

#[test]
fn simultaneous_deadlines_apply_in_a_fixed_order() {
    let timeouts = ActivityTimeouts { start_to_close: Some(seconds(30)), ..NONE };
    let given = scene().decide([schedule_with("a", timeouts), schedule_with("b", timeouts), timer("t", 30)]);
    let given = given.takes("b").takes("a").then(&signal("go")).take().after(30);
    check(
        &given,
        &given.fire(),
        "TimerExpired(t) ActivityTimedOut(StartToClose) ActivityTimedOut(StartToClose) DeciderTimedOut(StartToClose) \
         DeciderScheduled",
    );
    let order: Vec<_> = given.run.deadlines(&[]).into_iter().map(|deadline| deadline.what).collect();
    assert_eq!(
        order,
        [
            DeadlineKind::Timer { scheduled_event_id: 7 },
            DeadlineKind::ActivityStartToClose { scheduled_event_id: 5 },
            DeadlineKind::ActivityStartToClose { scheduled_event_id: 6 },
            DeadlineKind::TurnStartToClose { scheduled_event_id: 11 },
            DeadlineKind::Execution,
        ]
    );
}

#[test]
fn nothing_due_records_nothing() {
    let given = scene();
    let fire = Command::FireDeadlines {
        heartbeats: vec![crate::Heartbeat {
            scheduled_event_id: 77,
            at: given.now,
            details: Some(Payload::from_json("1").unwrap()),
        }],
        stopped: std::sync::Arc::default(),
    };
    check(&given, &fire, "");
}

#[test]
fn a_turn_times_out_after_thirty_seconds_without_an_option() {
    let given = scene().take();
    check(&given.clone().after(29), &given.fire(), "");
    check(&given.clone().after(30), &given.fire(), "DeciderTimedOut(StartToClose) DeciderScheduled");
}

#[test]
fn an_activity_times_out_after_five_minutes_without_an_option() {
    let given = Scene::of(&Start::new("w", "t", "l")).decide([schedule("a")]).takes("a");
    check(&given.clone().after(299), &given.fire(), "");
    check(&given.clone().after(300), &given.fire(), "ActivityTimedOut(StartToClose) DeciderScheduled");
}

#[test]
fn a_run_times_out_after_a_year_without_an_option() {
    let given = scene();
    let year = 365 * 24 * 3_600;
    check(&given.clone().after(year - 1), &given.fire(), "");
    check(&given.clone().after(year), &given.fire(), "WorkflowTimedOut");
}
