//! Tests the consequences of commits, one case per line. Most lines omit the tasks in flight, and the updates of riders
//! that are a consequence of every commit.

use history::{
    Command, ContinueAsNew, Decision, Duration, ScheduleActivity, Scheduled, Start, StartChild, StartTimer, Transition,
};

use super::*;
use crate::commit::tests::{LIMITS, turn};
use crate::commit::{self, Draft};
use crate::lists::Taker;
use crate::lists::matching::{Matching, PollResult, ToWaiting, WaitingBounds};

const POLL: PollId = PollId(9);

fn now() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

fn key() -> HeadKey {
    HeadKey { domain: "d".into(), workflow_id: "w".into() }
}

fn start() -> Start {
    Start::new("w", "t", "l")
}

/// Returns the start of a run by a schedule.
fn scheduled() -> Start {
    let schedule = Scheduled { schedule_id: "s".to_owned(), action: 1, nominal_time: now() };
    Start { schedule: Some(schedule), ..start() }
}

/// Applies these commands to the run in `base`, or to a new run, and returns the committed run.
fn commit(base: Option<&StoredRun>, start: &Start, commands: &[Command]) -> StoredRun {
    let mut transition = match base {
        Some(base) => Transition::linked(base.run().clone(), base.body.links.clone()),
        None => Transition::start(start, Uuid::from_u128(7), now()).unwrap(),
    };
    for command in commands {
        transition.admit(command, now()).unwrap();
    }
    let (run, links, events) = transition.into_all();
    let due = commit::due(&run, &links, &[], 0, history::StoppedLists::NONE, now());
    let draft = Draft { base, run, links, events, copied: 0, offers: 0, op: 1, due };
    commit::prepare(draft, &LIMITS, |head| head.body.len()).next
}

/// Returns a run after a start and these commits. Each commit is a list of commands.
fn run(start: &Start, commits: &[&[Command]]) -> StoredRun {
    let begun = commit(None, start, &[]);
    commits.iter().fold(begun, |base, commands| commit(Some(&base), start, commands))
}

/// Returns a poller that is reserved for a task of the list.
fn reserved(list: &ListKey, scheduled_event_id: EventId, poll: Option<PollId>) -> Reserved {
    let lists = Matching::new(WaitingBounds::default());
    let taker = Taker { poll, ..Taker::default() };
    let PollResult::Wait(_waiting) = lists.poll(list, &taker) else { panic!("nothing is offered") };
    let task = WaitingTask {
        key: key(),
        run_id: Uuid::nil(),
        scheduled_event_id,
        lost: None,
        priority: 0,
        since: None,
        concurrency_key: None,
    };
    let Ok(poller) = lists.dispatch(list, ToWaiting::Task(&task)) else { panic!("a poller waits") };
    Reserved { list: list.clone(), poller, scheduled_event_id, start: 0 }
}

fn counts() -> CommitCounts {
    let facts = CommitFacts { workflow_type: "t".into(), all: Vec::new() };
    let took = std::time::Duration::ZERO;
    CommitCounts { events: 1, took, facts, marks_written: 0, forgotten_early: 0 }
}

/// Returns the consequences of a commit that leads from `before` to `next`. If `matched` is given, a poller was
/// reserved for that task.
fn all_that_follows(before: Option<&StoredRun>, next: &StoredRun, matched: Option<EventId>) -> Vec<String> {
    let known = before.map(|before| backlog::waiting(&key(), before.run())).unwrap_or_default();
    let waiting = backlog::waiting(&key(), next.run()).into_iter();
    let is_new = |task: &WaitingTask| !known.iter().any(|(_, known, _)| known == task);
    let unmatched = waiting.filter(|(_, task, _)| is_new(task)).map(|(list, task, _)| (list, task)).collect();
    let list = ListKey { domain: "d".into(), side: Side::Decider, name: "l".into() };
    let reserved = matched.iter().map(|id| reserved(&list, *id, None)).collect();
    let run_id = next.run().started.run_id;
    let made =
        MadeWith { run_id, counts: Box::new(counts()), spans: Vec::new(), notice: None, reserved, unmatched, round: 3 };
    of_commit(&key(), before, next, made, now()).iter().map(word).collect()
}

fn line(after: Vec<String>) -> String {
    let told = after
        .into_iter()
        .filter(|word| !word.ends_with("riders") && !word.ends_with("flight") && word != "count")
        .collect::<Vec<_>>();
    told.join(", ")
}

/// Returns the consequences of a commit of `commands` on a run with the earlier `commits`.
fn follows(start: &Start, commits: &[&[Command]], commands: &[Command]) -> String {
    let before = run(start, commits);
    let next = commit(Some(&before), start, commands);
    line(all_that_follows(Some(&before), &next, None))
}

/// Returns the consequences of a wake of a run with these commits. Memory has no state of the run before the wake.
fn found(start: &Start, commits: &[&[Command]]) -> String {
    let loaded = run(start, commits);
    let (outbox, round) = (&loaded.body.links.outbox, loaded.body.links.outbox.round());
    let after = of_wake(&key(), &loaded, outbox, round, now());
    // Each wake frees slots. A separate test covers this.
    let others = after.iter().filter(|it| !matches!(it, After::Reconcile { .. }));
    line(others.map(word).collect())
}

fn word(after: &After) -> String {
    match after {
        After::Count(_) => "count".to_owned(),
        After::SendSpans(spans) => format!("send {} spans", spans.len()),
        After::Report(notice) => format!("report {}", notice.why),
        After::ReturnPollers(pollers) => format!("return {} pollers", pollers.len()),
        After::InFlight { list, scheduled_event_id, hold: Hold::Begins { .. }, .. } => {
            format!("{scheduled_event_id} of {} in flight", list.name)
        }
        After::InFlight { list, scheduled_event_id, hold: Hold::Ends { .. }, .. } => {
            format!("{scheduled_event_id} of {} no longer in flight", list.name)
        }
        After::Withdraw { list, scheduled_event_id, .. } => format!("withdraw {scheduled_event_id} from {}", list.name),
        After::Wake(None) => "wake never".to_owned(),
        After::Wake(Some(at)) => format!("wake in {}s", at.since(now()).as_millis() / 1_000),
        After::SettleRiders => "settle riders".to_owned(),
        After::Grant(reserved) => format!("grant {}", reserved.scheduled_event_id),
        After::Offer(list, task) => format!("offer {} on {}", task.scheduled_event_id, list.name),
        After::DispatchRiders => "dispatch riders".to_owned(),
        After::Notify(RunProgress { last_event_id, closed: false, .. }) => format!("notify of {last_event_id}"),
        After::Notify(RunProgress { last_event_id, closed: true, .. }) => {
            format!("notify of {last_event_id}, the last")
        }
        After::WakeSchedule(schedule, at) => {
            assert_eq!((schedule, *at), (&schedule_key("d", "s"), now()));
            "wake its schedule".to_owned()
        }
        After::Remember(poll, _, task) => {
            assert_eq!(task.lost, Some(*poll));
            format!("remember {} for poll {}", task.scheduled_event_id, poll.0)
        }
        After::Reconcile { running, .. } => format!("free the slots of all tasks but {running:?}"),
        After::Deliver { effects, round } => {
            let kinds: Vec<_> = effects.iter().map(|effect| effect.kind).collect();
            format!("deliver {kinds:?} in round {round}")
        }
    }
}

fn taken(poll: Option<PollId>) -> Command {
    Command::StartTurn { scheduled_event_id: 2, identity: None, poll }
}

fn signal() -> Command {
    Command::Signal { name: "s".to_owned(), input: None, identity: None, key: None, if_version: None }
}

fn terminate() -> Command {
    Command::Terminate { reason: None, details: None, identity: None, key: None, child_policy: None }
}

fn activity() -> Decision {
    let (activity_id, activity_type) = ("a".to_owned(), "t".to_owned());
    ScheduleActivity { activity_id, activity_type, task_list: Some("work".to_owned()), ..ScheduleActivity::default() }
        .into()
}

fn timer(seconds: u64) -> Decision {
    StartTimer { timer_id: "t".to_owned(), after: Duration::from_secs(seconds), control: None }.into()
}

fn child() -> Decision {
    StartChild { workflow_id: "c".to_owned(), workflow_type: "t".to_owned(), ..StartChild::default() }.into()
}

#[test]
fn riders_are_settled_before_grants_and_handed_out_last() {
    let begun = run(&start(), &[&[]]);
    let all = all_that_follows(None, &begun, None);
    assert_eq!(all, ["count", "wake in 30s", "settle riders", "offer 2 on l", "dispatch riders", "notify of 2"]);
    let all = all_that_follows(None, &run(&start(), &[&[taken(None)]]), Some(2));
    let expected =
        ["count", "2 of l in flight", "wake in 30s", "settle riders", "grant 2", "dispatch riders", "notify of 3"];
    assert_eq!(all, expected);
}

/// Returns the consequences of a commit that started turn 2 of the run `run_id` for this poll. The store contains
/// `next`.
fn follows_for_poll(next: &StoredRun, run_id: Uuid, poll: PollId) -> Vec<String> {
    let list = ListKey { domain: "d".into(), side: Side::Decider, name: "l".into() };
    let reserved = vec![reserved(&list, 2, Some(poll))];
    let (spans, unmatched) = (Vec::new(), Vec::new());
    let made = MadeWith { run_id, counts: Box::new(counts()), spans, notice: None, reserved, unmatched, round: 3 };
    of_commit(&key(), None, next, made, now()).iter().map(word).collect()
}

#[test]
fn a_poll_is_remembered_before_it_gets_its_task() {
    let next = run(&start(), &[&[taken(Some(POLL))]]);
    let run_id = next.run().started.run_id;
    let all = follows_for_poll(&next, run_id, POLL);
    assert!(all.join(", ").contains("settle riders, remember 2 for poll 9, grant 2, dispatch riders"), "{all:?}");
    // While the outcome of the commit was unknown, another node may have sent the task to another poll.
    let all = follows_for_poll(&next, run_id, PollId(8));
    assert!(all.join(", ").contains("settle riders, grant 2, dispatch riders"), "{all:?}");
}

#[test]
fn pollers_return_if_another_run_followed_the_commit() {
    let next = run(&start(), &[&[taken(Some(POLL))]]);
    let all = follows_for_poll(&next, Uuid::from_u128(9), POLL);
    assert!(all.join(", ").contains("settle riders, return 1 pollers, dispatch riders"), "{all:?}");
}

#[test]
fn a_run_is_woken_again_only_if_its_commit_failed() {
    assert!(!of_failure(Vec::new(), None).wakes_again, "it is tried again");
    assert!(of_failure(Vec::new(), Some(&Refusal::Stopping)).wakes_again);
}

#[test]
fn a_task_is_offered_once_when_it_begins_to_wait() {
    let schedules = turn(2, vec![activity()]);
    assert_eq!(follows(&start(), &[], &schedules), "withdraw 2 from l, wake in 30s, offer 5 on work, notify of 5");
    assert_eq!(follows(&start(), &[], &[signal()]), "wake in 30s, notify of 3");
    assert_eq!(follows(&start(), &[&schedules], &[signal()]), "wake in 30s, offer 7 on l, notify of 7");
}

#[test]
fn ended_tasks_are_withdrawn_and_started_ones_are_not() {
    assert_eq!(follows(&start(), &[], &[taken(None)]), "wake in 30s, notify of 3");
    assert_eq!(follows(&start(), &[], &[terminate()]), "withdraw 2 from l, wake never, notify of 3, the last");
    let waits = turn(2, vec![activity()]);
    assert_eq!(follows(&start(), &[&waits], &[terminate()]), "withdraw 5 from work, wake never, notify of 6, the last");
}

#[test]
fn a_task_is_in_flight_from_its_start_to_its_end() {
    let flights = |commits: &[&[Command]], commands: &[Command]| -> String {
        let before = run(&start(), commits);
        let next = commit(Some(&before), &start(), commands);
        let told = all_that_follows(Some(&before), &next, None).into_iter();
        told.filter(|word| word.ends_with("flight")).collect::<Vec<_>>().join(", ")
    };
    let taken = [taken(None)];
    assert_eq!(flights(&[], &taken), "2 of l in flight");
    assert_eq!(flights(&[&taken], &[signal()]), "", "it stays in flight");
    assert_eq!(flights(&[&taken], &[terminate()]), "2 of l no longer in flight", "a run that closes lets it go");
    let schedules = turn(2, vec![activity()]);
    assert_eq!(flights(&[&taken], &schedules[1..]), "2 of l no longer in flight");
    assert_eq!(flights(&[], &schedules), "", "it started and ended in one commit");
    let starts = [Command::StartActivity { scheduled_event_id: 5, identity: None, poll: None }];
    assert_eq!(flights(&[&schedules], &starts), "5 of work in flight");
    assert_eq!(flights(&[&schedules, &starts], &[signal()]), "", "it stays in flight");
    assert_eq!(flights(&[&schedules, &starts], &[terminate()]), "5 of work no longer in flight");
}

#[test]
fn a_run_is_woken_at_its_earliest_time() {
    assert_eq!(follows(&start(), &[&[taken(None)]], &turn(2, vec![timer(10)])[1..]), "wake in 10s, notify of 5");
    assert_eq!(follows(&start(), &[&[taken(None)]], &turn(2, vec![timer(90)])[1..]), "wake in 90s, notify of 5");
}

#[test]
fn effects_are_delivered_once_when_they_become_ready() {
    let starts = turn(2, vec![child()]);
    let once = "withdraw 2 from l, wake in 30s, notify of 5, deliver [StartChild] in round 3";
    assert_eq!(follows(&start(), &[], &starts), once);
    assert_eq!(follows(&start(), &[&starts], &[signal()]), "wake in 30s, offer 7 on l, notify of 7");
}

#[test]
fn a_schedule_wakes_when_its_run_closes_for_good() {
    assert_eq!(follows(&scheduled(), &[&[taken(None)]], &[signal()]), "wake in 30s, notify of 5");
    let closed = "withdraw 2 from l, wake never, notify of 3, the last, wake its schedule";
    assert_eq!(follows(&scheduled(), &[], &[terminate()]), closed);
    let continues = turn(2, vec![ContinueAsNew::default().into()]);
    assert_eq!(follows(&scheduled(), &[&[taken(None)]], &continues[1..]), "wake in 30s, notify of 5, the last");
}

#[test]
fn a_wake_restores_only_what_is_available() {
    assert_eq!(found(&start(), &[]), "offer 2 on l");
    assert_eq!(found(&start(), &[&[taken(None)]]), "");
    assert_eq!(found(&start(), &[&[taken(Some(POLL))]]), "remember 2 for poll 9");
    let later = Start { start_after: Some(Duration::from_secs(60)), ..start() };
    assert_eq!(found(&later, &[]), "");
    assert_eq!(found(&start(), &[&turn(2, vec![activity()])]), "offer 5 on work");
    let round = run(&start(), &[&turn(2, vec![child()])]).body.links.outbox.round();
    assert_eq!(found(&start(), &[&turn(2, vec![child()])]), format!("deliver [StartChild] in round {round}"));
}
