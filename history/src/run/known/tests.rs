use uuid::Uuid;

use super::*;
use crate::scene::{Scene, keyed_signal, plain, scene, terminate, update, updated};
use crate::{Links, Start, Transition, UpdateStatus, Verdict};

const RUNS: [Uuid; 3] = [Uuid::nil(), Uuid::from_u128(2), Uuid::from_u128(3)];

fn key(number: usize) -> RequestKey {
    RequestKey(number as u64)
}

fn signaled(scene: Scene, numbers: std::ops::Range<usize>) -> Scene {
    numbers.fold(scene, |scene, number| scene.then(&keyed_signal("go", number as u64)))
}

/// Finishes a commit as the service does.
fn spill(scene: &mut Scene) -> Spilled {
    let committed = scene.run.last_event_id;
    scene.run.spill(committed, scene.now, scene.now)
}

/// Returns a new run of the workflow id that has taken over the known requests of this run.
fn replaced(scene: &Scene, start: &Start, run_id: Uuid, kept_until: Timestamp) -> Scene {
    let mut transition = Transition::start(start, run_id, scene.now).unwrap();
    transition.take_over(&scene.run, Links::default(), kept_until, scene.now);
    let (run, events) = transition.into_parts();
    Scene { run, links: Links::default(), events, ..scene.clone() }
}

#[test]
fn a_run_with_few_requests_keeps_them_all_and_has_no_marks() {
    let mut given = signaled(scene(), 0..limits::REQUESTS_IN_STATE_MAX);
    assert_eq!(spill(&mut given), Spilled::default());
    assert!((0..limits::REQUESTS_IN_STATE_MAX).all(|number| given.run.request(key(number)).is_some()));
    assert!(!given.run.must_recall(key(9_999), given.now), "there is no mark to read");
}

#[test]
fn the_oldest_requests_move_to_marks_together() {
    let many = limits::REQUESTS_IN_STATE_MAX + 1;
    let mut given = signaled(scene(), 0..many);
    let spilled = spill(&mut given);
    assert_eq!(spilled.marks.len(), limits::REQUESTS_SPILLED_MIN + 1);
    for (number, SpilledMark { key: found, mark, until }) in spilled.marks.iter().enumerate() {
        assert_eq!((*found, mark.number, mark.run_id), (key(number), number as u64, Uuid::nil()));
        assert!(*until >= given.now.plus(limits::REQUESTS_KEPT));
        assert!(given.run.request(*found).is_none() && given.run.must_recall(*found, given.now));
        given.run.recall(*found, *mark);
        assert_eq!(given.run.request(*found), Some(KnownRequest { run_id: Uuid::nil(), event_id: mark.event_id }));
        assert!(!given.run.must_recall(*found, given.now));
    }
    given.run.forget_recalled();
    assert!(given.run.request(key(0)).is_none() && given.run.request(key(many - 1)).is_some());
    // After the last mark has expired, the store is no longer read.
    let until = given.run.known_until().unwrap();
    assert!(given.run.must_recall(key(0), until) && !given.run.must_recall(key(0), until.plus(HOUR)));
}

#[test]
fn uncommitted_requests_stay_in_the_state() {
    let many = limits::REQUESTS_IN_STATE_MAX + 100;
    let mut given = signaled(scene(), 0..many);
    assert_eq!(given.run.spill(2, given.now, given.now), Spilled::default());
    let third = given.run.request(key(3)).unwrap().event_id;
    assert_eq!(given.run.spill(third, given.now, given.now).marks.len(), 4);
    assert!(given.run.request(key(4)).is_some());
    assert_eq!(
        spill(&mut given).marks.len(),
        many - 4 - (limits::REQUESTS_IN_STATE_MAX - limits::REQUESTS_SPILLED_MIN)
    );
    let mut crowded = signaled(scene(), 0..limits::REQUESTS_SPILLED_MAX * 2);
    assert_eq!(
        spill(&mut crowded).marks.len(),
        limits::REQUESTS_SPILLED_MAX,
        "a commit writes a limited number of marks"
    );
}

#[test]
fn the_start_of_a_run_is_always_known() {
    let start = Start { key: Some(RequestKey(777_777)), ..plain() };
    let mut given = signaled(Scene::of(&start), 0..200);
    spill(&mut given);
    let first = Some(KnownRequest { run_id: Uuid::nil(), event_id: 1 });
    assert_eq!(given.run.request(RequestKey(777_777)), first);
    assert_eq!(given.then(&terminate()).run.request(RequestKey(777_777)), first);
}

#[test]
fn requests_older_than_a_day_leave_without_a_mark() {
    let young = limits::REQUESTS_IN_STATE_MAX;
    let given = signaled(scene(), 0..30).after(26 * 3_600);
    let mut given = signaled(given, 30..30 + young);
    assert_eq!(spill(&mut given), Spilled::default());
    assert!(given.run.request(key(29)).is_none() && given.run.request(key(30 + young - 1)).is_some());
    // Ages are counted in whole hours. A request that may be less than a day old is kept.
    let given = signaled(scene(), 0..30).after(24 * 3_600);
    assert_eq!(spill(&mut signaled(given, 30..30 + young)).marks.len(), 30 + limits::REQUESTS_SPILLED_MIN);
}

#[test]
fn requests_above_the_limit_are_forgotten_oldest_first() {
    let mut given = signaled(scene(), 0..limits::REQUESTS_IN_STATE_MAX + 1);
    let first = spill(&mut given).marks[0].mark;
    let forgotten = |scene: &mut Scene, count: u64| {
        scene.run.known.marked.as_mut().unwrap().count = count;
        let first = 1_000 * scene.events.len();
        *scene = signaled(scene.clone(), first..first + limits::REQUESTS_IN_STATE_MAX);
        spill(scene).forgotten_early
    };
    let just = limits::REQUESTS_MAX - 64;
    assert_eq!(forgotten(&mut given, just), 0);
    given.run.recall(key(0), first);
    assert!(given.run.request(key(0)).is_some(), "it is the oldest of a hundred thousand");
    given.run.forget_recalled();
    assert_eq!(forgotten(&mut given, limits::REQUESTS_MAX), 64);
    given.run.recall(key(0), first);
    assert!(given.run.request(key(0)).is_none());
    given.run.recall(key(0), RequestMark { event_id: 1, ..first });
    assert!(given.run.request(key(0)).is_some(), "a start is known as long as its run is kept");
    given.run.forget_recalled();
    // Marks older than a day are forgotten because of their age, so they do not count as forgotten early.
    let mut later = given.after(25 * 3_600);
    later.run.known.marked.as_mut().unwrap().until = later.now.plus(HOUR);
    assert_eq!(forgotten(&mut later, limits::REQUESTS_MAX + 500), 0);
    // A mark with an impossible number is ignored.
    later.run.recall(key(5), RequestMark { number: u64::MAX, ..first });
    assert!(later.run.request(key(5)).is_none());
}

#[test]
fn a_run_knows_the_requests_of_earlier_runs() {
    let of = |number| Start { key: Some(RequestKey(number)), ..plain() };
    let first = signaled(Scene::of(&of(501)), 0..3).then(&terminate());
    let kept_until = first.now.plus(Duration::from_days(30));
    let second = replaced(&first, &of(502), RUNS[1], kept_until);
    let second = signaled(second, 3..4).then(&terminate());
    let third = replaced(&second, &plain(), RUNS[2], kept_until.plus(HOUR));
    for (number, run, event_id) in [(0, 0, 3), (2, 0, 5), (3, 1, 3), (501, 0, 1), (502, 1, 1)] {
        let expected = Some(KnownRequest { run_id: RUNS[run], event_id });
        assert_eq!(third.run.request(key(number)), expected, "{number}");
    }
    // Signals are known for two days at most. Starts are known until their runs have expired.
    assert_eq!(third.run.known_until(), Some(kept_until.plus(HOUR)));
    let fourth = |days: u64| replaced(&third.clone().after(days * 86_400), &plain(), Uuid::from_u128(4), kept_until);
    assert!(fourth(0).run.request(key(2)).is_some() && fourth(2).run.request(key(2)).is_none());
    assert!(fourth(29).run.request(key(501)).is_some() && fourth(31).run.request(key(501)).is_none());
    assert!(fourth(31).run.known.is_empty(), "no known request is left");
    // A successor was started by the same request, which now returns the successor.
    let going_on = replaced(&first, &of(501), RUNS[1], kept_until);
    assert_eq!(going_on.run.request(key(501)), Some(KnownRequest { run_id: RUNS[1], event_id: 1 }));
    assert_eq!(going_on.run.known.len(), 3);
}

#[test]
fn a_request_recorded_by_two_runs_leaves_one_mark() {
    let first = signaled(scene(), 0..3).then(&terminate());
    let mut second = replaced(&first, &plain(), RUNS[1], first.now.plus(HOUR));
    // The request of a reset is recorded in the old run and in the new run.
    second.run.remember(key(1), 2, second.now);
    let mut second = signaled(second, 3..2 * limits::REQUESTS_IN_STATE_MAX);
    let marks = spill(&mut second).marks;
    let of = |number| marks.iter().filter(move |spilled| spilled.key == key(number)).map(|spilled| spilled.mark);
    assert_eq!(of(1).map(|mark| (mark.run_id, mark.event_id)).collect::<Vec<_>>(), [(RUNS[1], 2)]);
    assert_eq!(of(0).count(), 1);
}

#[test]
fn earlier_runs_in_the_state_are_limited() {
    let of = |number: usize| Start { key: Some(key(500 + number)), ..plain() };
    let mut newest = Scene::of(&of(0)).then(&terminate());
    let mut marks = Vec::new();
    for number in 1..=10 {
        let kept_until = newest.now.plus(Duration::from_days(30));
        newest = replaced(&newest, &of(number), Uuid::from_u128(number as u128), kept_until);
        let spilled = newest.run.spill(0, newest.now, newest.now).marks;
        assert!(spilled.iter().all(|it| it.mark.event_id == 1 && it.until == kept_until));
        marks.extend(spilled.into_iter().map(|it| (it.key, it.mark.run_id)));
        newest = newest.then(&terminate());
    }
    let expected: Vec<_> = (0..6).map(|number| (key(500 + number), Uuid::from_u128(number as u128))).collect();
    assert_eq!(marks, expected);
    assert_eq!(newest.run.known.len(), limits::REQUESTS_RUNS_MAX);
}

#[test]
fn an_update_is_known_by_its_answer_or_its_runs_close() {
    let given = scene().decide([]);
    let proposed = [update("a"), update("b")];
    let given = given.clone().then(&given.speculate(&proposed, &[("a", updated()), ("b", Verdict::Later)], []));
    let answered = given.run.request(key_of_update("a")).unwrap();
    assert_eq!(given.run.update_status("b"), UpdateStatus::Accepted { event_id: answered.event_id + 1 });
    let closed = given.then(&terminate());
    let next = replaced(&closed, &plain(), RUNS[1], closed.now);
    for (update_id, event_id) in [("a", answered.event_id), ("b", answered.event_id + 1)] {
        let ended = UpdateStatus::Ended { run_id: RUNS[0], event_id };
        assert_eq!(closed.run.update_status(update_id), ended);
        assert_eq!(next.run.status_of_update(update_id, None), ended);
        assert_eq!(next.run.update_status(update_id), UpdateStatus::New, "the run itself has not judged the update");
    }
    assert_eq!(key_of_update("a"), RequestKey(0x8900_353E_4746_1D7F), "stored, so it must never change");
}
