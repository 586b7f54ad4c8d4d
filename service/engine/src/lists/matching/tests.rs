//! Tests of matching alone.

use store::HeadKey;

use super::*;
use crate::lists::{Side, WaitingRiders};

fn list() -> ListKey {
    ListKey { domain: "d".into(), side: Side::Decider, name: "l".into() }
}

fn task(run: u128, scheduled_event_id: EventId) -> WaitingTask {
    let key = HeadKey { domain: "d".into(), workflow_id: run.to_string().into() };
    WaitingTask { key, run_id: Uuid::from_u128(run), scheduled_event_id, lost: None, priority: 0, since: None }
}

fn next(matching: &Matching) -> Option<WaitingTask> {
    match matching.poll(&list(), &Taker::default()) {
        PollResult::Task(OnList::Task(task)) => Some(task),
        PollResult::Task(OnList::Riders(riders)) => panic!("{riders:?} are not for every poller"),
        PollResult::Wait(_) => None,
    }
}

#[test]
fn a_task_that_is_withdrawn_is_neither_counted_nor_handed_out() {
    let matching = Matching::new(WaitingBounds::default());
    for run in 1..=3 {
        assert!(matches!(matching.offer(&list(), task(run, 2)), Offered::Waits));
    }
    matching.withdraw(&list(), Uuid::from_u128(2), 2);
    // Tasks that are not on the list are ignored.
    matching.withdraw(&list(), Uuid::from_u128(1), 7);
    matching.withdraw(&ListKey { name: "other".into(), ..list() }, Uuid::from_u128(1), 2);
    assert_eq!(matching.waiting(&list()), (2, false));
    assert_eq!([next(&matching), next(&matching)], [Some(task(1, 2)), Some(task(3, 2))]);
    assert!(next(&matching).is_none());
    // A withdrawn task can be offered again.
    assert!(matches!(matching.offer(&list(), task(2, 2)), Offered::Waits));
    matching.withdraw(&list(), Uuid::from_u128(2), 2);
    assert!(matching.depths().is_empty(), "an idle list takes no room");
}

#[test]
fn a_query_that_becomes_the_turn_of_its_run_is_withdrawn_as_that() {
    let matching = Matching::new(WaitingBounds::default());
    let asks = WaitingRiders { key: task(1, 5).key, run_id: Uuid::from_u128(1), kind: RiderKind::Query };
    assert!(matches!(matching.offer(&list(), OnList::Riders(asks)), Offered::Waits));
    assert_eq!(matching.waiting(&list()), (0, false), "what only asks is no turn");
    assert!(matches!(matching.offer(&list(), task(1, 5)), Offered::Known));
    assert_eq!(matching.waiting(&list()), (1, false));
    assert!(matches!(matching.offer(&list(), task(1, 5)), Offered::Known), "it is known by its new name");
    matching.withdraw(&list(), Uuid::from_u128(1), 5);
    assert_eq!(matching.waiting(&list()), (0, false));
}

#[test]
fn there_are_so_many_lists_in_memory_and_one_that_somebody_polls_is_always_among_them() {
    let matching = Matching::new(WaitingBounds::default());
    let lists_max = WaitingBounds::default().lists_max;
    let list = |number: usize| ListKey { name: number.to_string().into(), ..list() };
    for number in 0..100_000 {
        let is_full = matches!(matching.offer(&list(number), task(1, 2)), Offered::Full);
        assert_eq!(is_full, number >= lists_max, "{number}");
    }
    assert_eq!(matching.depths().len(), lists_max);
    assert_eq!(matching.waiting(&list(99_999)), (0, true), "it may have some in the store");
    let PollResult::Wait(waiting) = matching.poll(&list(99_999), &Taker::default()) else { panic!("nothing is there") };
    assert_eq!(matching.take_overflowed(), [list(99_999)], "which are looked for");
    assert!(matches!(matching.offer(&list(99_999), task(1, 2)), Offered::Poller(..)));
    drop(waiting);
    assert_eq!(matching.depths().len(), lists_max);
}

#[test]
fn a_list_has_so_many_tasks_and_says_that_there_are_more() {
    let bounds = WaitingBounds::default();
    let matching = Matching::new(bounds);
    let all = u128::try_from(bounds.list_tasks_max).unwrap();
    for run in 1..=all {
        assert!(matches!(matching.offer(&list(), task(run, 2)), Offered::Waits));
    }
    assert_eq!(matching.waiting(&list()), (bounds.list_tasks_max, false));
    assert!(matches!(matching.offer(&list(), task(all + 1, 2)), Offered::Full));
    assert_eq!(matching.waiting(&list()), (bounds.list_tasks_max, true));
}

#[test]
fn all_lists_together_have_so_many_tasks_and_each_has_room_for_some() {
    let matching = Matching::new(WaitingBounds { tasks_max: 150, ..WaitingBounds::default() });
    let other = ListKey { name: "other".into(), ..list() };
    for run in 1..=150 {
        assert!(matches!(matching.offer(&list(), task(run, 2)), Offered::Waits));
    }
    assert!(matches!(matching.offer(&list(), task(151, 2)), Offered::Full));
    for run in 201..=300 {
        assert!(matches!(matching.offer(&other, task(run, 2)), Offered::Waits), "{run}");
    }
    assert!(matches!(matching.offer(&other, task(301, 2)), Offered::Full));
    assert!(matching.is_full(&other));
    // Tasks that are taken or withdrawn make space.
    for run in 201..=251 {
        matching.withdraw(&other, Uuid::from_u128(run), 2);
    }
    assert_eq!(matching.take_overflowed().as_slice(), std::slice::from_ref(&other));
    for _ in 0..101 {
        assert!(next(&matching).is_some());
    }
    assert!(matches!(matching.offer(&list(), task(151, 2)), Offered::Waits));
    assert_eq!(matching.all.load(Relaxed), 49 + 50);
}

#[test]
fn no_more_lists_are_looked_at_than_may_be_and_it_is_said_that_there_are_more() {
    let matching = Matching::new(WaitingBounds::default());
    for (run, name) in (1..).zip(["a", "b", "c"]) {
        assert!(matches!(matching.offer(&ListKey { name: name.into(), ..list() }, task(run, 2)), Offered::Waits));
    }
    let look = |looked_at_max| {
        let mut found = BTreeSet::new();
        let has_more = matching.add_lists("d", looked_at_max, &mut found);
        (found.len(), has_more)
    };
    assert_eq!([look(1), look(2), look(3), look(4)], [(1, true), (2, true), (3, false), (3, false)]);
}

/// Polls with these slots and expects to wait.
fn wait_with(matching: &Arc<Matching>, poll: u64, slots: &[u32]) -> WaitingSlots {
    let taker = Taker { poll: Some(PollId(poll)), ..Taker::default() };
    let mut slots = slots.to_vec();
    match matching.poll_slots(&list(), &taker, &mut slots, false) {
        SlotsPolled::Wait(waiting) => waiting,
        SlotsPolled::Tasks(tasks) => panic!("{} tasks", tasks.len()),
    }
}

/// Returns the polls of the next reserved pollers.
fn taken(matching: &Matching, count: usize) -> Vec<Option<PollId>> {
    (0..count).map(|_| matching.reserve(&list()).and_then(|poller| poller.taker.poll)).collect()
}

#[test]
fn slots_are_taken_one_after_the_other_each_with_a_poll_of_its_own_before_whoever_came_later() {
    let matching = Arc::new(Matching::new(WaitingBounds::default()));
    let (_first, _second) = (wait_with(&matching, 7, &[2, 1, 0]), wait_with(&matching, 8, &[0]));
    assert_eq!(matching.pollers(&list()), 4);
    let of = |poll: u64, slot| Some(PollId(poll).of_slot(slot));
    assert_eq!(taken(&matching, 5), [of(7, 0), of(7, 1), of(7, 2), of(8, 0), None]);
    assert!(matching.depths().is_empty(), "nobody waits any more");
    let mut polls: Vec<_> = (0..256).flat_map(|slot| [of(7, slot), of(8, slot)]).collect();
    polls.sort_unstable();
    polls.dedup();
    assert_eq!(polls.len(), 512);
}

/// Polls with these slots as a standby poller; `None` if a task may wait.
fn stand_by_with(matching: &Arc<Matching>, list: &ListKey, poll: u64, slots: &[u32]) -> Option<WaitingSlots> {
    let taker = Taker { poll: Some(PollId(poll)), ..Taker::default() };
    match matching.poll_slots(list, &taker, &mut slots.to_vec(), true) {
        SlotsPolled::Wait(waiting) => Some(waiting),
        SlotsPolled::Tasks(tasks) => {
            assert!(tasks.is_empty(), "{} tasks", tasks.len());
            None
        }
    }
}

#[test]
fn slots_that_stand_by_go_after_all_others_until_they_are_ready() {
    let matching = Arc::new(Matching::new(WaitingBounds::default()));
    let (first, _second) = (stand_by_with(&matching, &list(), 7, &[1, 0]).unwrap(), wait_with(&matching, 8, &[1, 0]));
    assert_eq!(matching.pollers(&list()), 4);
    let of = |poll: u64, slot| Some(PollId(poll).of_slot(slot));
    assert_eq!(taken(&matching, 1), [of(8, 0)], "who has come later, and does nothing else");
    first.are_ready();
    assert_eq!(taken(&matching, 4), [of(7, 0), of(7, 1), of(8, 1), None]);

    let _third = stand_by_with(&matching, &list(), 9, &[1, 0]).unwrap();
    assert_eq!(taken(&matching, 3), [of(9, 0), of(9, 1), None], "where nobody else waits");
}

#[test]
fn no_slots_stand_by_where_a_task_waits_or_may_wait_in_the_store() {
    let matching =
        Arc::new(Matching::new(WaitingBounds { lists_max: 1, list_tasks_max: 1, ..WaitingBounds::default() }));
    assert!(matches!(matching.offer(&list(), task(1, 2)), Offered::Waits));
    assert!(stand_by_with(&matching, &list(), 7, &[0]).is_none(), "a task waits");
    assert!(matches!(matching.offer(&list(), task(2, 2)), Offered::Full));
    matching.withdraw(&list(), task(1, 2).run_id, 2);
    assert!(stand_by_with(&matching, &list(), 7, &[0]).is_none(), "another is in the store alone");
    let other = ListKey { name: "other".into(), ..list() };
    assert!(stand_by_with(&matching, &other, 7, &[0]).is_none(), "there is no room for the list");
}

#[test]
fn tasks_that_wait_go_into_slots_at_once_and_slots_that_are_left_wait_when_asked_again() {
    let matching = Arc::new(Matching::new(WaitingBounds::default()));
    for run in 1..=2 {
        assert!(matches!(matching.offer(&list(), task(run, 2)), Offered::Waits));
    }
    let mut slots = vec![2, 1, 0];
    let SlotsPolled::Tasks(tasks) = matching.poll_slots(&list(), &Taker::default(), &mut slots, false) else {
        panic!("two wait")
    };
    let tasks: Vec<_> = tasks.into_iter().map(|(slot, task)| (slot, task.task().cloned())).collect();
    assert_eq!((tasks, slots), (vec![(0, Some(task(1, 2))), (1, Some(task(2, 2)))], vec![2]));
}

#[test]
fn a_slot_that_was_reserved_in_vain_waits_in_front_and_all_of_a_poll_go_when_it_ends() {
    let matching = Arc::new(Matching::new(WaitingBounds::default()));
    let (first, _second) = (wait_with(&matching, 7, &[2, 1, 0]), wait_with(&matching, 8, &[0]));
    let reserved = matching.reserve(&list()).unwrap();
    assert!(matching.poll_for(&list(), reserved).is_none());
    assert_eq!(matching.pollers(&list()), 4);
    assert_eq!(taken(&matching, 1), [Some(PollId(7).of_slot(0))], "the one that was put back");
    let reserved = matching.reserve(&list()).unwrap();
    let waiting = wait_with(&matching, 9, &[1, 0]);
    assert!(matching.poll_for(&list(), reserved).is_none());
    drop(first);
    assert_eq!(matching.depths()[0].2, 3, "none of its slots is there any more");
    assert_eq!(taken(&matching, 1), [Some(PollId(8).of_slot(0))]);
    drop(waiting);
    assert!(matching.depths().is_empty(), "an idle list takes no room");
}

#[test]
fn a_slot_whose_poll_was_lost_is_handed_nothing_and_its_neighbors_are() {
    let matching = Arc::new(Matching::new(WaitingBounds::default()));
    let _waiting = wait_with(&matching, 7, &[2, 1, 0]);
    matching.drop_poller(PollId(7).of_slot(1));
    assert_eq!(taken(&matching, 3), [Some(PollId(7).of_slot(0)), Some(PollId(7).of_slot(2)), None]);
}

#[tokio::test]
async fn a_poll_that_ends_while_reserved_is_over_when_nothing_comes_of_that() {
    let matching = Matching::new(WaitingBounds::default());
    let PollResult::Wait(waiting) = matching.poll(&list(), &Taker::default()) else { panic!("nothing waits") };
    let reserved = matching.reserve(&list()).unwrap();
    let mut end = std::pin::pin!(waiting.end());
    let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
    assert!(end.as_mut().poll(context).is_pending(), "it waits for the commit that has reserved it");
    assert!(matches!(matching.offer(&list(), task(1, 2)), Offered::Waits), "nobody else is there");
    assert!(matching.poll_for(&list(), reserved).is_none(), "it takes nothing more");
    assert!(end.await.is_none());
    assert_eq!((matching.pollers(&list()), matching.waiting(&list()).0), (0, 1));
}

#[tokio::test]
async fn slots_that_are_withdrawn_while_reserved_close_when_nothing_comes_of_that() {
    let matching = Arc::new(Matching::new(WaitingBounds::default()));
    let mut waiting = wait_with(&matching, 7, &[2, 1, 0]);
    let (first, second) = (matching.reserve(&list()).unwrap(), matching.reserve(&list()).unwrap());
    assert!(matching.poll_for(&list(), first).is_none());
    assert_eq!(waiting.withdraw(), [0, 2], "one was put back, one was never reserved");
    assert!(matching.poll_for(&list(), second).is_none());
    assert!(matches!(waiting.granted.recv().await, Some((1, None))));
    assert!(waiting.granted.recv().await.is_none(), "nothing more can come");
    drop(waiting);
    assert!(matching.depths().is_empty() && matching.lock_leaving().is_empty(), "nothing is left of them");
}
