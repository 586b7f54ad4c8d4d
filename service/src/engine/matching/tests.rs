//! What waits on lists, by itself.

use super::*;
use crate::engine::LIST_TASKS_MAX;

fn list() -> ListKey {
    ListKey { domain: "d".into(), side: Side::Decider, name: "l".into() }
}

fn task(run: u128, scheduled_event_id: EventId) -> WaitingTask {
    let key = HeadKey { domain: "d".into(), workflow_id: run.to_string().into() };
    WaitingTask { key, run_id: Uuid::from_u128(run), scheduled_event_id, lost: None, priority: 0 }
}

fn next(matching: &Matching) -> Option<WaitingTask> {
    match matching.poll(&list(), &Taker::default()) {
        Found::Task(task) => Some(task),
        Found::Wait(_) => None,
    }
}

#[test]
fn a_task_that_is_withdrawn_is_neither_counted_nor_handed_out() {
    let matching = Matching::new(LIST_TASKS_MAX);
    for run in 1..=3 {
        assert!(matches!(matching.offer(&list(), task(run, 2)), Offered::Waits));
    }
    matching.withdraw(&list(), Uuid::from_u128(2), 2);
    // What is not there is no matter.
    matching.withdraw(&list(), Uuid::from_u128(1), 7);
    matching.withdraw(&ListKey { name: "other".into(), ..list() }, Uuid::from_u128(1), 2);
    assert_eq!(matching.waiting(&list()), (2, false));
    assert_eq!([next(&matching), next(&matching)], [Some(task(1, 2)), Some(task(3, 2))]);
    assert!(next(&matching).is_none());
    // It may come again.
    assert!(matches!(matching.offer(&list(), task(2, 2)), Offered::Waits));
    matching.withdraw(&list(), Uuid::from_u128(2), 2);
    assert!(matching.depths().is_empty(), "an idle list takes no room");
}

#[test]
fn a_question_that_becomes_the_turn_of_its_run_is_withdrawn_as_that() {
    let matching = Matching::new(LIST_TASKS_MAX);
    assert!(matches!(matching.offer(&list(), task(1, QUESTIONS)), Offered::Waits));
    assert_eq!(matching.waiting(&list()), (0, false), "what only asks is no turn");
    assert!(matches!(matching.offer(&list(), task(1, 5)), Offered::Known));
    assert_eq!(matching.waiting(&list()), (1, false));
    assert!(matches!(matching.offer(&list(), task(1, 5)), Offered::Known), "it is known by its new name");
    matching.withdraw(&list(), Uuid::from_u128(1), 5);
    assert_eq!(matching.waiting(&list()), (0, false));
}

#[test]
fn a_list_has_so_many_tasks_and_says_that_there_are_more() {
    let matching = Matching::new(LIST_TASKS_MAX);
    let all = u128::try_from(LIST_TASKS_MAX).unwrap();
    for run in 1..=all {
        assert!(matches!(matching.offer(&list(), task(run, 2)), Offered::Waits));
    }
    assert_eq!(matching.waiting(&list()), (LIST_TASKS_MAX, false));
    assert!(matches!(matching.offer(&list(), task(all + 1, 2)), Offered::Full));
    assert_eq!(matching.waiting(&list()), (LIST_TASKS_MAX, true));
}
