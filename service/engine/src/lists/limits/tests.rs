//! Tests limits of task lists without a store or a run.

use std::sync::Arc;
use std::time::Duration;

use history::Factor;
use store::HeadKey;
use tokio::time::{Instant, advance};
use uuid::Uuid;

use crate::base::list_reports::{LimitHold, LimitScope};
use crate::base::list_settings::{DomainLists, KeySettings, ListPause, ListSettings, ListSide, StartRate, TaskLimits};
use crate::lists::matching::{Leaving, Matching, Offered, PollResult, Stays, ToHome, ToPoll, ToWaiting, WaitingBounds};
use crate::lists::{ListKey, OnList, Side, Taker, WaitingTask};

fn list() -> ListKey {
    named("PCI")
}

fn named(name: &str) -> ListKey {
    ListKey { domain: "d".into(), side: Side::Activity, name: name.into() }
}

fn task(run: u128, key: Option<&str>) -> WaitingTask {
    let head = HeadKey { domain: "d".into(), workflow_id: run.to_string().into() };
    let (run_id, concurrency_key) = (Uuid::from_u128(run), key.map(Arc::from));
    WaitingTask { key: head, run_id, scheduled_event_id: 5, lost: None, priority: 0, since: None, concurrency_key }
}

fn running(max: u32) -> TaskLimits {
    TaskLimits { max_running: Some(max), rate: None }
}

fn rate(per_second: f64, burst: u32) -> TaskLimits {
    TaskLimits { max_running: None, rate: Some(StartRate { per_second: Factor::try_from(per_second).unwrap(), burst }) }
}

/// Lists with settings whose running tasks were counted.
fn matching(lists: &[(&str, ListSettings)], groups: &[(&str, TaskLimits)]) -> Arc<Matching> {
    let matching = Arc::new(Matching::new(WaitingBounds::default()));
    set(&matching, lists, groups);
    matching
}

fn set(matching: &Matching, lists: &[(&str, ListSettings)], groups: &[(&str, TaskLimits)]) -> Vec<ListKey> {
    let side = |name: &str| ListSide { name: name.to_owned(), is_decider: false };
    let settings = DomainLists {
        lists: lists.iter().map(|(name, own)| (side(name), own.clone())).collect(),
        groups: groups.iter().map(|(name, limits)| ((*name).to_owned(), *limits)).collect(),
        ..DomainLists::default()
    };
    let (changed, count) = matching.set_limits(&"d".into(), &settings);
    if let Some(count) = count {
        matching.with_limiter(|limiter| limiter.end_counting(count, Instant::now()));
    }
    changed
}

fn limited(limits: TaskLimits) -> ListSettings {
    ListSettings { limits, ..ListSettings::default() }
}

/// Takes the next task of a list, as a poll does, and starts it.
fn start(matching: &Matching, list: &ListKey) -> Result<u128, Stays> {
    let Leaving { task, permit } = matching.dispatch(list, ToPoll(&Taker::default()))?;
    let OnList::Task(task) = task else { panic!("{task:?}") };
    matching.started(&task.slot(list));
    drop(permit);
    Ok(task.run_id.as_u128())
}

/// Frees the slots that were given back, as the engine does.
fn given_back(matching: &Matching) -> Vec<ListKey> {
    for slot in matching.returned_slots.take_unknown() {
        matching.with_limiter(|limiter| limiter.assume_started(slot.key(), Instant::now()));
    }
    matching.returned_slots.take().into_iter().flat_map(|slot| matching.give_back(slot.key())).collect()
}

fn end(matching: &Matching, list: &ListKey, run: u128) -> Vec<ListKey> {
    matching.ended(list, (Uuid::from_u128(run), 5))
}

fn offer(matching: &Matching, list: &ListKey, runs: impl IntoIterator<Item = u128>, key: Option<&str>) {
    for run in runs {
        assert!(matches!(matching.offer(list, task(run, key)), Offered::Waits), "{run}");
    }
}

fn hold(started: Result<u128, Stays>) -> LimitHold {
    match started {
        Err(Stays::Limited(hold)) => hold,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn as_many_tasks_run_as_may_and_the_end_of_one_starts_another() {
    let matching = matching(&[("PCI", limited(running(2)))], &[]);
    offer(&matching, &list(), 1..=4, None);
    assert_eq!([start(&matching, &list()), start(&matching, &list())], [Ok(1), Ok(2)]);
    let full = LimitHold::Running { scope: LimitScope::List, running: 2, max: 2 };
    assert_eq!(hold(start(&matching, &list())), full);
    assert_eq!(end(&matching, &list(), 2), [list()], "the list may hand out a task");
    assert_eq!(end(&matching, &list(), 2), [], "it ended before");
    assert_eq!(start(&matching, &list()), Ok(3));
    assert!(start(&matching, &list()).is_err());
    // A higher limit applies at once, and a lower one stops nothing.
    set(&matching, &[("PCI", limited(running(3)))], &[]);
    assert_eq!(start(&matching, &list()), Ok(4));
    set(&matching, &[("PCI", limited(running(1)))], &[]);
    offer(&matching, &list(), 5..=5, None);
    for run in [1, 3] {
        end(&matching, &list(), run);
        assert!(start(&matching, &list()).is_err(), "{run} of three ended, one may run");
    }
    end(&matching, &list(), 4);
    assert_eq!(start(&matching, &list()), Ok(5));
    // Without settings, nothing is held back, also not by tasks that run still.
    offer(&matching, &list(), 6..=7, None);
    assert!(start(&matching, &list()).is_err());
    assert_eq!(set(&matching, &[], &[]), [list()]);
    assert_eq!([start(&matching, &list()), start(&matching, &list())], [Ok(6), Ok(7)]);
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_free_again_if_its_task_does_not_start() {
    let matching = matching(&[("PCI", limited(running(1)))], &[]);
    offer(&matching, &list(), 1..=2, None);
    let leaving = matching.dispatch(&list(), ToPoll(&Taker::default())).unwrap();
    assert!(start(&matching, &list()).is_err(), "the slot is held before the task starts");
    drop(leaving);
    assert_eq!(given_back(&matching), [list()]);
    assert_eq!(start(&matching, &list()), Ok(2));
    end(&matching, &list(), 2);
    // If it is unknown whether the task started, its slot stays until the state of the run is known.
    offer(&matching, &list(), 3..=4, None);
    let leaving = matching.dispatch(&list(), ToPoll(&Taker::default())).unwrap();
    leaving.permit.keep();
    assert_eq!(given_back(&matching), []);
    assert!(start(&matching, &list()).is_err());
    assert_eq!(matching.reconcile(Uuid::from_u128(3), &[5]), [], "it runs");
    assert!(start(&matching, &list()).is_err());
    assert_eq!(matching.reconcile(Uuid::from_u128(3), &[]), [list()], "it does not run");
    assert_eq!(start(&matching, &list()), Ok(4));
}

#[tokio::test(start_paused = true)]
async fn a_rate_starts_its_burst_and_then_one_task_at_a_time() {
    let matching = matching(&[("PCI", limited(rate(5.0, 3)))], &[]);
    // The burst may have been used before a restart.
    advance(Duration::from_secs(1)).await;
    offer(&matching, &list(), 1..=1_000, None);
    let started = |matching: &Matching| std::iter::from_fn(|| start(matching, &list()).ok()).count();
    assert_eq!(started(&matching), 3);
    let LimitHold::Rate { scope: LimitScope::List, until, .. } = hold(start(&matching, &list())) else { panic!() };
    assert_eq!(until - Instant::now(), Duration::from_millis(200));
    assert_eq!(matching.with_limiter(|limiter| limiter.next_wake()), Some(until));
    advance(Duration::from_millis(199)).await;
    assert_eq!(started(&matching), 0);
    advance(Duration::from_millis(1)).await;
    assert_eq!(matching.with_limiter(|limiter| limiter.take_due(Instant::now())), [list()]);
    assert_eq!(started(&matching), 1);
    let mut in_a_minute = 0;
    for _ in 0..600 {
        advance(Duration::from_millis(100)).await;
        in_a_minute += started(&matching);
    }
    assert_eq!(in_a_minute, 300);
}

#[tokio::test(start_paused = true)]
async fn keys_have_their_own_limits_and_a_held_key_delays_no_other() {
    let keys = [
        ("visa".to_owned(), KeySettings { limits: running(2), weight: None }),
        ("slow".to_owned(), KeySettings { limits: rate(1.0, 1), weight: None }),
    ];
    let settings = ListSettings { per_key: running(1), keys: keys.into(), ..ListSettings::default() };
    let matching = matching(&[("PCI", settings)], &[]);
    offer(&matching, &list(), 1..=3, Some("visa"));
    offer(&matching, &list(), 11..=13, Some("amex"));
    offer(&matching, &list(), 21..=23, Some("slow"));
    offer(&matching, &list(), 31..=32, None);
    advance(Duration::from_secs(1)).await;
    let started: Vec<_> = std::iter::from_fn(|| start(&matching, &list()).ok()).collect();
    assert_eq!(started, [1, 11, 21, 31, 2, 32], "keys take turns, and tasks without a key are not limited by key");
    end(&matching, &list(), 11);
    assert_eq!(start(&matching, &list()), Ok(12));
    assert!(start(&matching, &list()).is_err());
    advance(Duration::from_secs(1)).await;
    assert_eq!(start(&matching, &list()), Ok(22));
    let behind = matching.held_back(&list(), 10);
    let told: Vec<_> = behind.into_iter().map(|it| (it.hold.is_of_key(), it.tasks)).collect();
    assert_eq!(told, [(true, 1), (true, 1), (true, 1)], "one task of each key waits");
}

#[tokio::test(start_paused = true)]
async fn many_tasks_of_one_key_delay_others_by_its_weight() {
    let keys = [("heavy".to_owned(), KeySettings { limits: TaskLimits::default(), weight: Some(3) })];
    let matching = matching(&[("PCI", ListSettings { keys: keys.into(), ..ListSettings::default() })], &[]);
    let plain = named("plain");
    for list in [&list(), &plain] {
        offer(&matching, list, 1..=100, Some("heavy"));
        offer(&matching, list, 201..=202, Some("light"));
        let next: Vec<u128> = matching.next(list, 4).into_iter().map(|(task, _)| task.run_id.as_u128()).collect();
        assert_eq!(next, [1, 201, 2, 202]);
    }
    let first = |list: &ListKey| (0..6).map(|_| start(&matching, list).unwrap()).collect::<Vec<_>>();
    assert_eq!(first(&list()), [1, 2, 3, 201, 4, 5]);
    assert_eq!(first(&plain), [1, 201, 2, 202, 3, 4], "a list without settings serves its keys in turn, too");
    // Priorities come before keys.
    let urgent = WaitingTask { priority: 1, ..task(300, Some("heavy")) };
    assert!(matches!(matching.offer(&plain, urgent), Offered::Waits));
    assert_eq!(first(&plain)[0], 300);
}

#[tokio::test(start_paused = true)]
async fn lists_of_a_group_share_its_limits() {
    let of_group = ListSettings { group: Some("cards".to_owned()), ..ListSettings::default() };
    let lists = [("a", of_group.clone()), ("b", of_group.clone()), ("c", limited(running(5)))];
    let matching = matching(&lists, &[("cards", running(2))]);
    for (name, runs) in [("a", 1..=3), ("b", 11..=13), ("c", 21..=22)] {
        offer(&matching, &named(name), runs, None);
    }
    assert_eq!(start(&matching, &named("a")), Ok(1));
    assert_eq!(start(&matching, &named("b")), Ok(11));
    let full = LimitHold::Running { scope: LimitScope::Group("cards".into()), running: 2, max: 2 };
    assert_eq!(hold(start(&matching, &named("a"))), full);
    assert_eq!(hold(start(&matching, &named("b"))), full);
    assert_eq!(start(&matching, &named("c")), Ok(21), "it is not in the group");
    let mut woken = end(&matching, &named("a"), 1);
    woken.sort();
    assert_eq!(woken, [named("a"), named("b")]);
    // A list that leaves the group takes its running tasks along.
    set(&matching, &[("a", of_group), ("b", limited(running(5)))], &[("cards", running(2))]);
    assert_eq!([start(&matching, &named("a")), start(&matching, &named("a"))], [Ok(2), Ok(3)]);
}

#[tokio::test(start_paused = true)]
async fn a_paused_list_hands_out_nothing_to_waiting_pollers_either() {
    let paused = ListSettings { paused: Some(ListPause::default()), ..ListSettings::default() };
    let matching = matching(&[("PCI", paused)], &[]);
    let PollResult::Wait(_waiting) = matching.poll(&list(), &Taker::default()) else { panic!() };
    let new = task(1, None);
    let left = matching.dispatch(&list(), ToWaiting::Task(&new)).err();
    assert_eq!(left, Some(Stays::Limited(LimitHold::Paused)));
    offer(&matching, &list(), 1..=2, None);
    assert!(matching.next_pair(&list(), true).is_none());
    // A task whose response was lost is at a runner already, as far as the list is concerned.
    let lost = WaitingTask { lost: Some(history::PollId(7)), ..task(9, None) };
    assert!(matches!(matching.offer(&list(), lost), Offered::Waits));
    assert_eq!(matching.next_pair(&list(), true).unwrap().1.task.task().unwrap().run_id, Uuid::from_u128(9));
    let PollResult::Wait(_waiting) = matching.poll(&list(), &Taker::default()) else { panic!() };
    set(&matching, &[], &[]);
    assert_eq!(matching.next_pair(&list(), true).unwrap().1.task.task().unwrap().run_id, Uuid::from_u128(1));
    assert!(matching.next_pair(&list(), true).is_none(), "the only poller has a task");
}

#[tokio::test(start_paused = true)]
async fn a_poller_of_a_run_waits_for_the_lists_limits() {
    let paused = ListSettings { paused: Some(ListPause::default()), ..ListSettings::default() };
    let matching = matching(&[("PCI", paused)], &[]);
    offer(&matching, &list(), 1..=3, None);
    let second = task(2, None);
    let taker = Taker { workflow_id: Some(Arc::clone(&second.key.workflow_id)), ..Taker::default() };
    let PollResult::Wait(_waiting) = matching.poll(&list(), &taker) else { panic!("the list is paused") };
    assert!(matching.next_pair(&list(), true).is_none());
    set(&matching, &[], &[]);
    assert_eq!(matching.next_pair(&list(), true).unwrap().1.task.task().unwrap().run_id, second.run_id);
    assert_eq!(matching.pollers(&list()), 0);
}

#[tokio::test(start_paused = true)]
async fn running_tasks_are_counted_before_a_new_limit_lets_others_start() {
    let matching = Arc::new(Matching::new(WaitingBounds::default()));
    let side = ListSide { name: "PCI".to_owned(), is_decider: false };
    let settings = DomainLists { lists: [(side, limited(running(3)))].into(), ..DomainLists::default() };
    let (_, count) = matching.set_limits(&"d".into(), &settings);
    offer(&matching, &list(), 10..=12, None);
    assert_eq!(hold(start(&matching, &list())), LimitHold::Counting);
    // Run 1 ends, and run 2 starts, while they are counted. The count reads both as they were before.
    end(&matching, &list(), 1);
    let slot = |run| task(run, None).slot(&list());
    matching.started(&slot(2));
    for run in [1, 2, 3] {
        matching.with_limiter(|limiter| limiter.found(1, &slot(run), Instant::now()));
    }
    assert_eq!(matching.with_limiter(|limiter| limiter.end_counting(count.unwrap(), Instant::now())), [list()]);
    assert_eq!(start(&matching, &list()), Ok(10), "two of three run");
    assert!(start(&matching, &list()).is_err());
    assert_eq!(set(&matching, &[("PCI", limited(running(4)))], &[]), [list()]);
    assert_eq!(start(&matching, &list()), Ok(11), "known lists are not counted again");
}

/// A freed slot finds its task at once, however many tasks and keys wait.
#[tokio::test(start_paused = true)]
async fn finding_a_task_does_not_depend_on_the_number_of_held_keys() {
    let per_key = ListSettings { per_key: running(1), ..ListSettings::default() };
    let bounds = WaitingBounds { list_tasks_max: 1_000_000, ..WaitingBounds::default() };
    let matching = Arc::new(Matching::new(bounds));
    set(&matching, &[("PCI", per_key)], &[]);
    for number in 0..20_000_u128 {
        let key = format!("customer-{}", number % 2_000);
        offer(&matching, &list(), [number], Some(&key));
    }
    let mut started = std::iter::from_fn(|| start(&matching, &list()).ok());
    assert_eq!(started.by_ref().count(), 2_000, "one of each key");
    for number in 0..2_000 {
        end(&matching, &list(), number);
        assert_eq!(start(&matching, &list()), Ok(number + 2_000));
        assert!(start(&matching, &list()).is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_list_has_room_for_keys_with_few_tasks() {
    let bounds = WaitingBounds { list_tasks_max: 10, ..WaitingBounds::default() };
    let matching = Arc::new(Matching::new(bounds));
    offer(&matching, &list(), 1..=10, Some("many"));
    let is_full = |run: u128, key: Option<&str>| matches!(matching.offer(&list(), task(run, key)), Offered::Full);
    assert!(is_full(11, Some("many")));
    // With two keys, each has a share of five.
    for run in 21..=25 {
        assert!(!is_full(run, Some("few")), "{run}");
    }
    assert!(is_full(26, Some("few")) && is_full(11, Some("many")));
    // The space for other keys is as large as the list, and not larger.
    let accepted = (31..100).filter(|run| !is_full(*run, Some(&run.to_string()))).count();
    assert_eq!(accepted, 5);
    assert_eq!(matching.waiting(&list()), (20, true), "the others wait in the store");
    assert_eq!([start(&matching, &list()), start(&matching, &list())], [Ok(1), Ok(21)]);
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_heartbeat_starts_no_limited_task() {
    let matching = matching(&[("PCI", limited(running(9)))], &[]);
    offer(&matching, &list(), 1..=3, None);
    let until = |seconds: u64| {
        let now = Instant::now();
        matching.with_limiter(|limiter| limiter.decide_until(Some(now + Duration::from_secs(seconds)), now))
    };
    assert!(!until(2));
    assert_eq!(start(&matching, &list()), Ok(1));
    advance(Duration::from_secs(2)).await;
    assert_eq!(hold(start(&matching, &list())), LimitHold::Counting);
    assert!(until(2), "the time had passed, so waiting pollers must be served again");
    assert_eq!(start(&matching, &list()), Ok(2));
}

#[tokio::test(start_paused = true)]
async fn a_node_forgets_its_count_when_another_becomes_the_home_node() {
    let matching = matching(&[("PCI", limited(running(1)))], &[]);
    offer(&matching, &list(), 1..=3, None);
    assert_eq!(start(&matching, &list()), Ok(1));
    let set_away = |is_away| matching.with_limiter(|limiter| limiter.set_away(&"d".into(), is_away, Instant::now()));
    assert_eq!(set_away(true), None);
    assert!(matching.is_away(&list()));
    assert_eq!(hold(start(&matching, &list())), LimitHold::Counting, "the other node decides");
    assert_eq!(matching.dispatch(&list(), ToHome(10)).map(|tasks| tasks.len()), Ok(2), "it gets the tasks");
    let count = set_away(false).expect("the tasks that run must be counted again");
    offer(&matching, &list(), 2..=3, None);
    assert_eq!(hold(start(&matching, &list())), LimitHold::Counting);
    let slot = task(1, None).slot(&list());
    matching.with_limiter(|limiter| limiter.found(count, &slot, Instant::now()));
    matching.with_limiter(|limiter| limiter.end_counting(count, Instant::now()));
    assert!(start(&matching, &list()).is_err(), "task 1 runs");
    assert_eq!(end(&matching, &list(), 1), [list()]);
    assert_eq!(start(&matching, &list()), Ok(2));
}

/// Reports of two nodes can arrive in any order: the end of a task before its start.
#[tokio::test(start_paused = true)]
async fn a_start_that_is_reported_after_its_end_is_found_by_reading_the_run() {
    let matching = matching(&[("PCI", limited(running(1)))], &[]);
    offer(&matching, &list(), 1..=2, None);
    let leaving = matching.dispatch(&list(), ToPoll(&Taker::default())).unwrap();
    leaving.permit.hand_over();
    assert_eq!(end(&matching, &list(), 1), [list()]);
    matching.started(&task(1, None).slot(&list()));
    assert!(start(&matching, &list()).is_err(), "the task seems to run");
    let unchecked = matching.with_limiter(|limiter| limiter.take_unchecked(Instant::now(), 10));
    assert_eq!(unchecked.len(), 1);
    assert_eq!(matching.checked(&unchecked[0], false), [list()]);
    assert_eq!(start(&matching, &list()), Ok(2));
}

#[tokio::test(start_paused = true)]
async fn a_run_is_read_again_if_its_task_was_started_while_it_was_read() {
    let matching = matching(&[("PCI", limited(running(1)))], &[]);
    offer(&matching, &list(), 1..=2, None);
    let leaving = matching.dispatch(&list(), ToPoll(&Taker::default())).unwrap();
    leaving.permit.hand_over();
    let take = || matching.with_limiter(|limiter| limiter.take_unchecked(Instant::now(), 10));
    assert!(take().is_empty(), "the other node has time to report");
    advance(Duration::from_secs(10)).await;
    let unchecked = take();
    matching.started(&task(1, None).slot(&list()));
    assert_eq!(matching.checked(&unchecked[0], false), [], "it was read before the task started");
    assert!(start(&matching, &list()).is_err(), "the task runs");
}
