//! Tests task matching without a store or a run.

use store::HeadKey;

use super::*;
use crate::lists::grant::RiderKind;
use crate::lists::{Side, WaitingRiders};

fn list() -> ListKey {
    ListKey { domain: "d".into(), side: Side::Decider, name: "l".into() }
}

fn to_node(matching: &Matching) -> Result<WaitingTask, Stays> {
    matching.dispatch(&list(), ToNode).map(|leaving| leaving.task)
}

fn task(run: u128, scheduled_event_id: EventId) -> WaitingTask {
    let key = HeadKey { domain: "d".into(), workflow_id: run.to_string().into() };
    WaitingTask {
        key,
        run_id: Uuid::from_u128(run),
        scheduled_event_id,
        lost: None,
        priority: 0,
        since: None,
        concurrency_key: None,
    }
}

fn next(matching: &Matching) -> Option<WaitingTask> {
    match matching.poll(&list(), &Taker::default()) {
        PollResult::Task(Leaving { task: OnList::Task(task), .. }) => Some(task),
        PollResult::Task(Leaving { task, .. }) => panic!("{task:?} is not for every poller"),
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
    // Withdrawing a task that is not on the list has no effect.
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
fn a_query_merged_into_a_turn_is_withdrawn_with_it() {
    let matching = Matching::new(WaitingBounds::default());
    let asks = WaitingRiders { key: task(1, 5).key, run_id: Uuid::from_u128(1), kind: RiderKind::Query };
    assert!(matches!(matching.offer(&list(), OnList::Riders(asks)), Offered::Waits));
    assert_eq!(matching.waiting(&list()), (0, false), "riders are not counted");
    assert!(matches!(matching.offer(&list(), task(1, 5)), Offered::Waits), "it replaces the query");
    assert_eq!(matching.waiting(&list()), (1, false));
    assert!(matches!(matching.offer(&list(), task(1, 5)), Offered::Known), "it is on the list");
    matching.withdraw(&list(), Uuid::from_u128(1), 5);
    assert_eq!(matching.waiting(&list()), (0, false));
}

#[test]
fn lists_in_memory_are_bounded_except_polled_ones() {
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
    assert_eq!(matching.take_overflowed(), [list(99_999)], "its rows are read");
    assert!(matches!(matching.offer(&list(99_999), task(1, 2)), Offered::Poller(..)));
    drop(waiting);
    assert_eq!(matching.depths().len(), lists_max);
}

#[test]
fn tasks_of_a_list_are_bounded_and_overflow_is_reported() {
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
fn tasks_of_all_lists_are_bounded_with_a_minimum_for_each() {
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
fn examined_lists_are_bounded_and_more_are_reported() {
    let matching = Matching::new(WaitingBounds::default());
    for (run, name) in (1..).zip(["a", "b", "c"]) {
        assert!(matches!(matching.offer(&ListKey { name: name.into(), ..list() }, task(run, 2)), Offered::Waits));
    }
    let examine = |examined_max| {
        let mut found = BTreeSet::new();
        let has_more = matching.add_lists("d", examined_max, &mut found);
        (found.len(), has_more)
    };
    assert_eq!([examine(1), examine(2), examine(3), examine(4)], [(1, true), (2, true), (3, false), (3, false)]);
}

/// Reserves a waiting poller for a new task.
fn reserve(matching: &Matching) -> Result<Poller, Stays> {
    matching.dispatch(&list(), ToWaiting::Task(&task(9, 9)))
}

/// Takes the next entry for a poller.
fn to_poll(matching: &Matching, taker: &Taker) -> Result<OnList, Stays> {
    matching.dispatch(&list(), ToPoll(taker)).map(|leaving| leaving.task)
}

#[test]
fn tasks_leave_in_order_and_the_gate_says_why_not() {
    let matching = Arc::new(Matching::new(WaitingBounds::default()));
    assert_eq!(reserve(&matching).err(), Some(Stays::NoPoller), "there is no list");
    let riders = WaitingRiders { key: task(1, 5).key, run_id: Uuid::from_u128(1), kind: RiderKind::Query };
    assert!(matches!(matching.offer(&list(), OnList::Riders(riders.clone())), Offered::Waits));
    assert_eq!(to_node(&matching), Err(Stays::NoTask), "riders do not leave for other nodes");
    assert_eq!(to_poll(&matching, &Taker::default()), Err(Stays::NoTask), "nor for any poller");
    assert_eq!(reserve(&matching).err(), Some(Stays::NoPoller));
    assert!(matches!(matching.offer(&list(), task(2, 2)), Offered::Waits));
    assert_eq!(reserve(&matching).err(), Some(Stays::BehindOthers));
    assert_eq!(to_node(&matching), Ok(task(2, 2)));
    let answers = Taker { answers: true, ..Taker::default() };
    assert_eq!(to_poll(&matching, &answers), Ok(OnList::Riders(riders)));
    assert!(matching.depths().is_empty(), "an idle list takes no room");
}

#[test]
fn a_turn_that_replaces_its_riders_goes_to_a_waiting_poller() {
    let matching = Arc::new(Matching::new(WaitingBounds::default()));
    let riders = WaitingRiders { key: task(1, 5).key, run_id: Uuid::from_u128(1), kind: RiderKind::Query };
    assert!(matches!(matching.offer(&list(), OnList::Riders(riders)), Offered::Waits));
    let _waiting = wait_with(&matching, 7, &[0]);
    assert!(matches!(matching.offer(&list(), task(1, 5)), Offered::Poller(..)), "it does not answer queries");
    assert!(matching.depths().is_empty(), "neither the riders nor the poller is left");
}

#[tokio::test]
async fn a_poller_put_back_gets_the_task_that_came_meanwhile() {
    let matching = Arc::new(Matching::new(WaitingBounds::default()));
    let waiting = wait_with(&matching, 7, &[0]);
    let poller = reserve(&matching).unwrap();
    assert!(matches!(matching.offer(&list(), task(1, 2)), Offered::Waits));
    let (poller, found) = matching.put_back(&list(), poller).unwrap();
    assert_eq!((poller.taker.poll, found.task), (Some(PollId(7).of_slot(0)), OnList::Task(task(1, 2))));
    assert!(matching.put_back(&list(), poller).is_none());
    assert_eq!(matching.pollers(&list()), 1);
    let poller = reserve(&matching).unwrap();
    assert!(matches!(matching.offer(&list(), task(1, 2)), Offered::Waits));
    drop(waiting);
    assert!(matching.put_back(&list(), poller).is_none(), "its connection is gone");
    assert_eq!((matching.pollers(&list()), matching.waiting(&list()).0), (0, 1));
}

/// Polls with these slots and expects that they wait.
fn wait_with(matching: &Arc<Matching>, poll: u64, slots: &[u32]) -> WaitingSlots {
    let taker = Taker { poll: Some(PollId(poll)), ..Taker::default() };
    let mut slots = slots.to_vec();
    match matching.poll_slots(&list(), &taker, &mut slots, false) {
        SlotsPolled::Wait(waiting) => waiting,
        SlotsPolled::Tasks(tasks) => panic!("{} tasks", tasks.len()),
    }
}

/// Reserves this many pollers and returns the poll id of each.
fn taken(matching: &Matching, count: usize) -> Vec<Option<PollId>> {
    (0..count).map(|_| reserve(matching).ok().and_then(|poller| poller.taker.poll)).collect()
}

#[test]
fn slots_are_served_in_order_each_with_its_own_poll_id() {
    let matching = Arc::new(Matching::new(WaitingBounds::default()));
    let (_first, _second) = (wait_with(&matching, 7, &[2, 1, 0]), wait_with(&matching, 8, &[0]));
    assert_eq!(matching.pollers(&list()), 4);
    let of = |poll: u64, slot| Some(PollId(poll).of_slot(slot));
    assert_eq!(taken(&matching, 5), [of(7, 0), of(7, 1), of(7, 2), of(8, 0), None]);
    assert!(matching.depths().is_empty(), "no poller waits");
    let mut polls: Vec<_> = (0..256).flat_map(|slot| [of(7, slot), of(8, slot)]).collect();
    polls.sort_unstable();
    polls.dedup();
    assert_eq!(polls.len(), 512);
}

/// Polls with these slots on standby. Returns `None` if the list may have a waiting task.
fn standby_with(matching: &Arc<Matching>, list: &ListKey, poll: u64, slots: &[u32]) -> Option<WaitingSlots> {
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
fn standby_slots_are_served_last_until_standby_ends() {
    let matching = Arc::new(Matching::new(WaitingBounds::default()));
    let (first, _second) = (standby_with(&matching, &list(), 7, &[1, 0]).unwrap(), wait_with(&matching, 8, &[1, 0]));
    assert_eq!(matching.pollers(&list()), 4);
    let of = |poll: u64, slot| Some(PollId(poll).of_slot(slot));
    assert_eq!(taken(&matching, 1), [of(8, 0)], "a later poller that is not on standby");
    first.end_standby();
    assert_eq!(taken(&matching, 4), [of(7, 0), of(7, 1), of(8, 1), None]);

    let _third = standby_with(&matching, &list(), 9, &[1, 0]).unwrap();
    assert_eq!(taken(&matching, 3), [of(9, 0), of(9, 1), None], "there is no other poller");
}

#[test]
fn no_standby_if_a_task_waits_or_may_wait_in_the_store() {
    let matching =
        Arc::new(Matching::new(WaitingBounds { lists_max: 1, list_tasks_max: 1, ..WaitingBounds::default() }));
    assert!(matches!(matching.offer(&list(), task(1, 2)), Offered::Waits));
    assert!(standby_with(&matching, &list(), 7, &[0]).is_none(), "a task waits");
    assert!(matches!(matching.offer(&list(), task(2, 2)), Offered::Full));
    matching.withdraw(&list(), task(1, 2).run_id, 2);
    assert!(standby_with(&matching, &list(), 7, &[0]).is_none(), "another is in the store alone");
    let other = ListKey { name: "other".into(), ..list() };
    assert!(standby_with(&matching, &other, 7, &[0]).is_none(), "there is no room for the list");
}

#[test]
fn waiting_tasks_fill_slots_and_the_rest_stay_free() {
    let matching = Arc::new(Matching::new(WaitingBounds::default()));
    for run in 1..=2 {
        assert!(matches!(matching.offer(&list(), task(run, 2)), Offered::Waits));
    }
    let mut slots = vec![2, 1, 0];
    let SlotsPolled::Tasks(tasks) = matching.poll_slots(&list(), &Taker::default(), &mut slots, false) else {
        panic!("two wait")
    };
    let tasks: Vec<_> = tasks.into_iter().map(|(slot, task)| (slot, task.task.task().cloned())).collect();
    assert_eq!((tasks, slots), (vec![(0, Some(task(1, 2))), (1, Some(task(2, 2)))], vec![2]));
}

#[test]
fn a_returned_slot_is_first_and_an_ended_poll_has_none() {
    let matching = Arc::new(Matching::new(WaitingBounds::default()));
    let (first, _second) = (wait_with(&matching, 7, &[2, 1, 0]), wait_with(&matching, 8, &[0]));
    let reserved = reserve(&matching).unwrap();
    assert!(matching.put_back(&list(), reserved).is_none());
    assert_eq!(matching.pollers(&list()), 4);
    assert_eq!(taken(&matching, 1), [Some(PollId(7).of_slot(0))], "the one that was put back");
    let reserved = reserve(&matching).unwrap();
    let waiting = wait_with(&matching, 9, &[1, 0]);
    assert!(matching.put_back(&list(), reserved).is_none());
    drop(first);
    assert_eq!(matching.depths()[0].2, 3, "none of its slots is there any more");
    assert_eq!(taken(&matching, 1), [Some(PollId(8).of_slot(0))]);
    drop(waiting);
    assert!(matching.depths().is_empty(), "an idle list takes no room");
}

#[test]
fn a_lost_slot_gets_no_task_and_its_neighbors_do() {
    let matching = Arc::new(Matching::new(WaitingBounds::default()));
    let _waiting = wait_with(&matching, 7, &[2, 1, 0]);
    matching.drop_poller(PollId(7).of_slot(1));
    assert_eq!(taken(&matching, 3), [Some(PollId(7).of_slot(0)), Some(PollId(7).of_slot(2)), None]);
}

#[tokio::test]
async fn a_poll_ended_while_reserved_gets_none_if_that_fails() {
    let matching = Matching::new(WaitingBounds::default());
    let PollResult::Wait(waiting) = matching.poll(&list(), &Taker::default()) else { panic!("nothing waits") };
    let reserved = reserve(&matching).unwrap();
    let mut end = std::pin::pin!(waiting.end());
    let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
    assert!(end.as_mut().poll(context).is_pending(), "it waits for the commit that has reserved it");
    assert!(matches!(matching.offer(&list(), task(1, 2)), Offered::Waits), "no other poller waits");
    assert!(matching.put_back(&list(), reserved).is_none(), "it takes nothing more");
    assert!(end.await.is_none());
    assert_eq!((matching.pollers(&list()), matching.waiting(&list()).0), (0, 1));
}

#[tokio::test]
async fn slots_withdrawn_while_reserved_close_if_that_fails() {
    let matching = Arc::new(Matching::new(WaitingBounds::default()));
    let mut waiting = wait_with(&matching, 7, &[2, 1, 0]);
    let (first, second) = (reserve(&matching).unwrap(), reserve(&matching).unwrap());
    assert!(matching.put_back(&list(), first).is_none());
    assert_eq!(waiting.withdraw(), [0, 2], "one was put back, one was never reserved");
    assert!(matching.put_back(&list(), second).is_none());
    assert!(matches!(waiting.granted.recv().await, Some((1, None))));
    assert!(waiting.granted.recv().await.is_none(), "nothing more can come");
    drop(waiting);
    assert!(matching.depths().is_empty() && matching.lock_leaving().is_empty(), "nothing is left of them");
}

/// A poller that takes only tasks of this run.
fn of_run(run: u128) -> Taker {
    Taker { workflow_id: Some(run.to_string().into()), ..Taker::default() }
}

fn wait_for_run(matching: &Matching, run: u128) -> WaitingPoll<'_> {
    match matching.poll(&list(), &of_run(run)) {
        PollResult::Wait(waiting) => waiting,
        PollResult::Task(Leaving { task, .. }) => panic!("{task:?}"),
    }
}

#[test]
fn a_poller_of_a_run_takes_its_task_from_behind_others() {
    let matching = Matching::new(WaitingBounds::default());
    for run in 1..=3 {
        assert!(matches!(matching.offer(&list(), task(run, 2)), Offered::Waits));
    }
    assert_eq!(to_poll(&matching, &of_run(2)), Ok(OnList::Task(task(2, 2))));
    assert_eq!(to_poll(&matching, &of_run(2)), Err(Stays::NoTask));
    assert_eq!([next(&matching), next(&matching)], [Some(task(1, 2)), Some(task(3, 2))], "the others keep their order");
}

#[test]
fn a_poller_of_a_run_keeps_no_other_task_waiting() {
    let matching = Arc::new(Matching::new(WaitingBounds::default()));
    let _debugging = wait_for_run(&matching, 2);
    assert!(!matching.has_poller(&list(), |_| true), "it does not count as a poller for other runs");
    assert!(matches!(matching.offer(&list(), task(1, 2)), Offered::Waits));
    // It gets its task although another one waits, and before the pollers of all runs.
    let Offered::Poller(poller, _) = matching.offer(&list(), task(2, 2)) else { panic!("a poller waits") };
    assert_eq!(poller.taker, of_run(2));
    assert!(matching.put_back(&list(), *poller).is_none());
    assert_eq!(next(&matching), Some(task(1, 2)));
    let _other = wait_with(&matching, 7, &[0, 1]);
    let offered = |run| match matching.offer(&list(), task(run, 3)) {
        Offered::Poller(poller, _) => poller.taker.workflow_id.as_deref().map(str::to_owned),
        _ => panic!("pollers wait"),
    };
    assert_eq!([offered(1), offered(2), offered(2)], [None, Some("2".to_owned()), None]);
}

#[test]
fn a_poller_of_a_run_gets_its_task_although_the_list_is_full() {
    let matching = Matching::new(WaitingBounds { list_tasks_max: 1, ..WaitingBounds::default() });
    let _debugging = wait_for_run(&matching, 2);
    assert!(matches!(matching.offer(&list(), task(1, 2)), Offered::Waits));
    assert!(matches!(matching.offer(&list(), task(3, 2)), Offered::Full));
    assert!(matches!(matching.offer(&list(), task(2, 2)), Offered::Poller(..)));
}

#[test]
fn a_poller_of_a_run_gets_only_riders_of_that_run() {
    let matching = Matching::new(WaitingBounds::default());
    let answers = Taker { answers: true, ..of_run(2) };
    let PollResult::Wait(_debugging) = matching.poll(&list(), &answers) else { panic!("nothing waits") };
    let riders = |run: u128| {
        OnList::Riders(WaitingRiders { key: task(run, 5).key, run_id: Uuid::from_u128(run), kind: RiderKind::Query })
    };
    assert!(matches!(matching.offer(&list(), riders(1)), Offered::Waits));
    assert!(matches!(matching.offer(&list(), riders(2)), Offered::Poller(..)));
    assert_eq!(to_poll(&matching, &answers), Err(Stays::NoTask));
    assert_eq!(to_poll(&matching, &Taker { answers: true, ..Taker::default() }), Ok(riders(1)));
}

#[test]
fn a_poller_of_a_run_leaves_nothing_behind() {
    let matching = Matching::new(WaitingBounds::default());
    drop(wait_for_run(&matching, 2));
    assert!(matching.depths().is_empty(), "an idle list takes no room");
    let taker = Taker { poll: Some(PollId(7)), ..of_run(2) };
    let PollResult::Wait(_waiting) = matching.poll(&list(), &taker) else { panic!("nothing waits") };
    matching.drop_poller(PollId(7));
    assert!(matches!(matching.offer(&list(), task(2, 2)), Offered::Waits), "its response was lost");
}
