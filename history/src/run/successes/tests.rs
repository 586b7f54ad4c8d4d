//! Repetitions of successful activities that cause a warning, and repetitions that do not.

use super::*;
use crate::RunCondition;
use crate::decision::ScheduleActivity;
use crate::event::ActivityTimeouts;
use crate::scene::{Scene, child, fail, scene, schedule, schedule_with, success, timer};
use crate::{Decision, Duration, Run, Transition, Warning};

/// Returns a decision to schedule an activity with this input.
fn with_input(activity_id: &str, input: &str) -> Decision {
    let input = Some(Payload::from_json(input).unwrap());
    Decision::from(ScheduleActivity {
        activity_id: activity_id.to_owned(),
        activity_type: "work".to_owned(),
        input,
        ..ScheduleActivity::default()
    })
}

/// Schedules an activity and lets a runner complete it.
fn done(scene: Scene, decision: Decision, activity_id: &str) -> Scene {
    scene.decide([decision]).takes(activity_id).succeeds(activity_id)
}

/// Returns the warnings that a turn with these decisions causes.
fn warned<const N: usize>(given: &Scene, decisions: [Decision; N]) -> Vec<(String, EventId)> {
    let given = if given.run.turn.is_none() { given.clone().take() } else { given.clone() };
    let mut transition = Transition::linked(given.run.clone(), given.links.clone());
    transition.admit(&given.complete(decisions), given.now).unwrap();
    let warnings = transition.take_warnings();
    assert!(transition.take_warnings().is_empty(), "warnings are taken once");
    let summary = warnings.into_iter().map(|Warning::ActivityRepeated { activity_id, scheduled_event_id }| {
        let kind = &transition.events().iter().find(|event| event.id == scheduled_event_id).unwrap().kind;
        assert_eq!(kind.name(), "ActivityScheduled");
        (activity_id, scheduled_event_id)
    });
    let summary: Vec<_> = summary.collect();
    assert_eq!(transition.run().successes.times() as usize, given.run.successes.times() as usize + summary.len());
    summary
}

fn names<const N: usize>(given: &Scene, decisions: [Decision; N]) -> Vec<String> {
    warned(given, decisions).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn scheduling_a_successful_activity_again_warns() {
    let charged = done(scene(), schedule("charge"), "charge");
    assert_eq!(names(&charged, [schedule("charge")]), ["charge"]);
    assert_eq!(names(&charged, [schedule("ship")]), [""; 0], "the next step");
    let shipped = done(charged.clone(), schedule("ship"), "ship");
    assert_eq!(names(&shipped, [schedule("charge")]), ["charge"], "also a turn later");
    assert_eq!(names(&shipped, [schedule("ship"), schedule("new"), schedule("charge")]), ["ship", "charge"]);
    // Timeouts are not part of the fingerprint.
    let timeouts = ActivityTimeouts { start_to_close: Some(Duration::from_secs(9)), ..ActivityTimeouts::default() };
    assert_eq!(names(&charged, [schedule_with("charge", timeouts)]), ["charge"]);
    // The decision is refused because the activity is already open. Nothing is scheduled, so there is no warning.
    let open = charged.decide([schedule("charge")]).then(&crate::scene::signal("go"));
    assert_eq!(names(&open, [schedule("charge")]), [""; 0]);
}

#[test]
fn failed_open_or_different_activities_do_not_warn() {
    let taken = scene().decide([schedule("charge")]).takes("charge");
    let failed = taken.clone().then(&fail(taken.task("charge")));
    assert_eq!(names(&failed, [schedule("charge")]), [""; 0], "a manual retry");
    let first = done(scene(), with_input("item", "{\"n\":1}"), "item");
    assert_eq!(names(&first, [with_input("item", "{\"n\":2}")]), [""; 0], "a loop over items");
    assert_eq!(names(&first, [with_input("item", "{\"n\":1}")]), ["item"]);
    assert_eq!(names(&first, [with_input("other", "{\"n\":1}")]), [""; 0], "another id");
    let another_type = ScheduleActivity {
        activity_id: "item".to_owned(),
        activity_type: "rest".to_owned(),
        input: Some(Payload::from_json("{\"n\":1}").unwrap()),
        ..ScheduleActivity::default()
    };
    assert_eq!(names(&first, [Decision::from(another_type)]), [""; 0], "another type");
    // A failure after the success does not remove the success.
    let again = done(scene(), schedule("a"), "a").decide([schedule("a")]).takes("a");
    let failed = again.clone().then(&fail(again.task("a")));
    assert_eq!(names(&failed, [schedule("a")]), ["a"]);
}

#[test]
fn repeated_timer_and_child_ids_do_not_warn() {
    let mut given = scene().decide([timer("t", 5)]).after(5);
    let fire = given.fire();
    given.admit(&fire).unwrap();
    assert_eq!(names(&given, [timer("t", 5), child("c")]), [""; 0]);
}

#[test]
fn remembered_successes_are_limited() {
    let most = limits::SUCCESSES_REMEMBERED_MAX;
    let given = (0..=most).fold(scene(), |given, n| done(given, schedule(&format!("a{n}")), &format!("a{n}")));
    assert_eq!(names(&given, [schedule("a0")]), [""; 0], "another success has replaced it");
    assert_eq!(names(&given, [schedule("a1")]), ["a1"], "the oldest success in memory");
    // A repeated success counts as the newest.
    let again = done(given, schedule("a1"), "a1");
    assert_eq!(names(&again, [schedule("a1"), schedule("a3")]), ["a1", "a3"]);
    let one_more = done(again, schedule("b"), "b");
    assert_eq!(names(&one_more, [schedule("a2")]), [""; 0]);
}

#[test]
fn the_memory_of_successes_is_compact() {
    let bytes = |run: &Run| minicbor::to_vec(&run.successes).unwrap().len();
    let state = |run: &Run| minicbor::to_vec(run).unwrap().len();
    let most = limits::SUCCESSES_REMEMBERED_MAX;
    let mut sizes = Vec::new();
    let mut given = scene();
    for n in 0..2 * most {
        given = done(given, schedule(&format!("a{n}")), &format!("a{n}"));
        sizes.push(bytes(&given.run));
    }
    assert!(sizes[0] <= 3 + 9, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size <= 4 + 9 * most), "{sizes:?}");
    let forgotten = Run { successes: Successes::default(), ..given.run.clone() };
    // Each absent field before the successes takes one more byte.
    assert!(state(&given.run) - state(&forgotten) - bytes(&given.run) <= 8, "nothing else grows");
    let open = given.decide([schedule("x")]);
    let mut without = open.run.clone();
    without.activities.keep_history_derived();
    assert!(state(&open.run) - state(&without) <= 15, "of an open activity");
    // Without successes, nothing is stored.
    assert_eq!(bytes(&scene().run), bytes(&scene().decide([schedule("x")]).run));
}

#[test]
fn a_run_is_repeating_until_it_closes() {
    let charged = done(scene(), schedule("charge"), "charge");
    assert_eq!(charged.run.condition(), RunCondition::Open);
    let again = charged.decide([schedule("charge")]);
    let newest = again.scheduled("charge");
    assert_eq!(again.run.condition(), RunCondition::Repeating);
    assert_eq!(again.run.successes.repeated(), Some(Repeated { times: 1, scheduled_event_id: newest }));
    let closed = again.takes("charge").succeeds("charge").decide([success()]);
    assert!(!closed.run.is_repeating());
    assert_eq!(
        closed.run.successes,
        Successes { repeated: Some(Repeated { times: 1, scheduled_event_id: newest }), ..Successes::default() }
    );
}

#[test]
fn a_successor_begins_without_remembered_successes() {
    let charged = done(scene(), schedule("charge"), "charge");
    let on = charged.decide([Decision::from(crate::decision::ContinueAsNew::default())]);
    assert!(on.run.successes.is_empty());
}

#[test]
fn a_state_of_an_earlier_version_does_not_warn() {
    let open = scene().decide([schedule("charge")]).takes("charge");
    let mut earlier = open.clone();
    earlier.run.activities.keep_history_derived();
    let mut transition = Transition::of(earlier.run.clone());
    transition.admit(&open.succeed("charge"), open.now).unwrap();
    assert!(transition.run().successes.is_empty());
    let stored = minicbor::to_vec(&earlier.run).unwrap();
    assert_eq!(minicbor::decode::<Run>(&stored).unwrap(), earlier.run);
}

#[test]
fn fingerprints_are_stored_and_never_change() {
    let of = |activity_id: &str, activity_type: &str, input: Option<&str>| {
        Fingerprint::of(&ActivityScheduled {
            activity_id: activity_id.to_owned(),
            activity_type: activity_type.to_owned(),
            task_list: String::new(),
            input: input.map(|text| Payload::from_json(text).unwrap()),
            timeouts: ActivityTimeouts::default(),
            decision_event_id: 4,
            retry: None,
            control: None,
            task_priority: None,
            concurrency_key: None,
        })
    };
    let all = [
        of("charge", "charge-card", Some("{\"order\":42}")),
        of("charge", "charge-card", None),
        of("charge", "charge-card", Some("\"\"")),
        of("chargec", "harge-card", None),
        of("charge-card", "charge", None),
        of("charge", "charge-card", Some("{\"order\":43}")),
        of("", "", None),
    ];
    for (at, one) in all.iter().enumerate() {
        assert!(!all[..at].contains(one), "{all:?}");
    }
    assert_eq!(all[0], Fingerprint(6_540_661_605_906_324_049), "the stored form");
}
