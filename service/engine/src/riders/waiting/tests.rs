//! Tests of the riders of one run, without a worker.

use history::{Command, Payload};
use tokio::sync::oneshot::Receiver;

use super::*;
use crate::commit::tests::{commit, turn};
use crate::riders::carrier::TASK_RIDER_BYTES_MAX;
use crate::riders::rider::{AbortOnDrop, OwnTask};

const TURN: TurnId = TurnId { scheduled_event_id: 2, started_event_id: 3 };

fn key() -> HeadKey {
    HeadKey { domain: "d".into(), workflow_id: "w".into() }
}

fn run(commands: &[Command]) -> Run {
    commit(None, commands, 1).next.run().clone()
}

fn idle() -> Run {
    run(&turn(2, Vec::new()))
}

fn taker(updates: usize) -> Taker {
    Taker { answers: true, updates, ..Taker::default() }
}

impl Riders {
    fn ask(&self, run: &Run, name: &str, caller: u64) -> Receiver<DeciderAnswer> {
        let (reply, answer) = oneshot::channel();
        let query = Arc::new(Query { name: name.to_owned(), input: None });
        self.put_query(&key(), run, NewQuery { query, seen: None, caller, reply }).unwrap();
        answer
    }

    fn send(
        &self,
        run: &Run,
        update_id: &str,
        if_version: Option<EventId>,
        caller: u64,
    ) -> Receiver<UpdateTurnOutcome> {
        self.send_with(run, update_id, if_version, None, caller)
    }

    fn send_with(
        &self,
        run: &Run,
        update_id: &str,
        if_version: Option<EventId>,
        input: Option<Payload>,
        caller: u64,
    ) -> Receiver<UpdateTurnOutcome> {
        let (reply, heard) = oneshot::channel();
        let (update_id, name) = (update_id.to_owned(), "n".to_owned());
        let asked = ProposedUpdate { update_id, name, input, identity: None, if_version, by: None };
        let new = NewUpdate { asked, is_named: true, caller, reply };
        let known = self.put_update(&key(), run.started.run_id, new, Timestamp::default()).unwrap();
        assert!(known.is_none(), "{known:?}");
        heard
    }

    fn turn_takes(&self, run: &Run, turn: TurnId) -> (usize, Vec<String>) {
        self.takes(run, &Carrier::Turn(turn, &taker(10)))
    }

    /// Takes riders with a separate task that shows the run's newest event.
    fn own_takes(&self, run: &Run, kind: RiderKind, number: u64) -> (usize, Vec<String>) {
        let timer = AbortOnDrop(tokio::spawn(std::future::pending::<()>()).abort_handle());
        let (last_event_id, started_at) = (run.last_event_id, Timestamp::default());
        let own = OwnTask { number, last_event_id, started_at, identity: None, by: None, _timer: timer };
        self.takes(run, &Carrier::Own(kind, Arc::new(own), &taker(10)))
    }

    fn takes(&self, run: &Run, takes: &Carrier<'_>) -> (usize, Vec<String>) {
        let TakenAlong { queries, updates } = self.take(&key(), run, takes);
        (queries.len(), updates.into_iter().map(|asked| asked.update_id).collect())
    }
}

#[test]
fn equal_queries_and_equal_update_ids_are_shared() {
    let (riders, run) = (Riders::default(), idle());
    let _answers = [riders.ask(&run, "a", 1), riders.ask(&run, "a", 2), riders.ask(&run, "b", 3)];
    let _heard = [riders.send(&run, "a", None, 4), riders.send(&run, "a", None, 5), riders.send(&run, "b", None, 6)];
    assert_eq!((riders.query_callers(), riders.updates()), (3, 2));
    assert_eq!(
        riders.turn_takes(&run, TURN),
        (0, vec!["a".to_owned(), "b".to_owned()]),
        "it does not show what was seen"
    );
    let shows = TurnId { started_event_id: run.last_event_id, ..TURN };
    assert_eq!(riders.turn_takes(&run, shows).0, 2);
    // A new caller cannot share a query that was already handed out, because the answer may not reflect the newest
    // event. A new caller can share an update.
    let _more = (riders.ask(&run, "a", 7), riders.send(&run, "a", None, 8));
    assert_eq!((riders.query_callers(), riders.updates()), (4, 2));
    assert_eq!(riders.turn_takes(&run, shows), (1, Vec::new()));
}

#[tokio::test]
async fn a_conditional_update_is_taken_alone_by_an_empty_turn() {
    let (riders, run) = (Riders::default(), idle());
    let if_version = Some(run.version);
    let _heard = [riders.send(&run, "a", if_version, 1), riders.send(&run, "b", if_version, 2)];
    let _others = riders.send(&run, "c", None, 3);
    assert_eq!(riders.own_takes(&run, RiderKind::Update, 1), (0, vec!["a".to_owned()]));
    assert_eq!(riders.turn_takes(&run, TURN), (0, vec!["c".to_owned()]));
}

#[tokio::test]
async fn a_task_of_their_own_takes_riders_of_its_kind_alone() {
    let (riders, run) = (Riders::default(), idle());
    let _answer = riders.ask(&run, "a", 1);
    let _heard = riders.send(&run, "u", None, 2);
    assert_eq!(riders.settle(&key(), &run), [RiderKind::Query, RiderKind::Update]);
    assert_eq!(riders.own_takes(&run, RiderKind::Query, 1), (1, Vec::new()));
    assert_eq!(riders.settle(&key(), &run), [RiderKind::Update]);
    assert_eq!(riders.own_takes(&run, RiderKind::Update, 2), (0, vec!["u".to_owned()]));
    assert!(riders.settle(&key(), &run).is_empty());
    // A run has only one speculative turn at a time.
    let _more = riders.send(&run, "v", None, 3);
    assert!(riders.settle(&key(), &run).is_empty());
    assert!(riders.lose(&key(), By::Own(2)));
    assert_eq!(riders.settle(&key(), &run), [RiderKind::Update]);
}

#[test]
fn a_task_takes_riders_in_order_up_to_its_bytes() {
    let (riders, run) = (Riders::default(), idle());
    let input = |bytes: usize| Some(Payload::from_trusted(&"1".repeat(bytes)));
    let most = TASK_RIDER_BYTES_MAX;
    let put = [("a", most + 1), ("b", most / 2), ("c", most), ("d", 1)];
    let _heard: Vec<_> = put
        .into_iter()
        .zip(1..)
        .map(|((id, bytes), caller)| riders.send_with(&run, id, None, input(bytes), caller))
        .collect();
    assert_eq!(riders.turn_takes(&run, TURN).1, ["a"]);
    assert_eq!(riders.turn_takes(&run, TURN).1, ["b"], "what does not fit is not overtaken");
    assert_eq!(riders.turn_takes(&run, TURN).1, ["c"]);
    assert_eq!(riders.turn_takes(&run, TURN).1, ["d"]);
}

#[test]
fn a_look_at_a_closed_run_is_for_its_queries_alone() {
    let (riders, newest) = (Riders::default(), idle());
    let closed = run(&turn(2, vec![history::SucceedWorkflow::default().into()]));
    let mut heard = riders.send(&newest, "u", None, 1);
    assert!(!riders.settle_closed(&key(), &closed));
    let _answer = riders.ask(&closed, "a", 2);
    assert!(riders.settle_closed(&key(), &closed));
    assert!(heard.try_recv().is_err());
    riders.settle(&key(), &closed);
    assert!(matches!(heard.try_recv(), Ok(UpdateTurnOutcome::Refused(_))), "it is the newest, and has closed");
}

#[test]
fn an_answer_without_verdicts_leaves_updates_to_other_tries() {
    let (riders, run) = (Riders::default(), idle());
    let _heard = riders.send(&run, "u", None, 1);
    riders.turn_takes(&run, TURN);
    assert!(riders.begin_answering(&key(), By::Turn(TURN), false).is_empty());
    assert_eq!(riders.begin_answering(&key(), By::Turn(TURN), true).updates.len(), 1);
    assert!(riders.with_task(&key(), By::Turn(TURN)).is_empty(), "it is being answered");
    assert!(riders.end_answering(&key(), By::Turn(TURN), false));
    assert_eq!(riders.with_task(&key(), By::Turn(TURN)).updates.len(), 1, "it may be answered again");
}

#[test]
fn riders_without_callers_are_removed_unless_judged() {
    let (riders, run) = (Riders::default(), idle());
    let shows = TurnId { started_event_id: run.last_event_id, ..TURN };
    let _answer = riders.ask(&run, "a", 1);
    let _heard = riders.send(&run, "u", None, 2);
    riders.turn_takes(&run, shows);
    let out = Some(RiderPlace::Out(By::Turn(shows)));
    assert_eq!([riders.part(&key(), 1).leave(), riders.part(&key(), 2).leave()], [out, out]);
    assert_eq!((riders.query_callers(), riders.updates()), (0, 1));
    assert!(!riders.part(&key(), 2).leave_if_waiting(), "it has left");
    assert!(riders.lose(&key(), By::Turn(shows)));
    assert_eq!((riders.query_callers(), riders.updates()), (0, 0));
    assert!(riders.lock().is_empty());
}

#[test]
fn a_lent_update_is_not_taken_until_it_returns() {
    let (riders, run) = (Riders::default(), idle());
    let mut heard = riders.send(&run, "u", None, 1);
    let run_id = run.started.run_id;
    let rejected = UpdateTurnOutcome::Rejected { reason: "no".to_owned(), details: None };
    let give_up = || riders.give_up(&key(), run_id, "u", &rejected, Timestamp::default());
    assert!(riders.lend(&key(), run_id, "u").is_some() && riders.lend(&key(), run_id, "u").is_none());
    assert_eq!(riders.turn_takes(&run, TURN), (0, Vec::new()));
    assert!(!give_up() && heard.try_recv().is_err());
    riders.end_lending(&key(), run_id, "u");
    assert!(give_up() && matches!(heard.try_recv(), Ok(UpdateTurnOutcome::Rejected { .. })));
    assert_eq!(riders.updates(), 0);
    assert!(riders.rejection(run_id, "u", Timestamp::default()).is_some());
}

#[test]
fn a_run_has_room_for_so_many_riders_of_a_kind() {
    let (riders, run) = (Riders::default(), idle());
    let mut waiting: Vec<_> = (0..1_000).map(|id| riders.send(&run, &id.to_string(), None, id)).collect();
    let _answer = riders.ask(&run, "a", 1_000);
    let (reply, _heard) = oneshot::channel();
    let asked = ProposedUpdate {
        update_id: "more".to_owned(),
        name: "n".to_owned(),
        input: None,
        identity: None,
        if_version: None,
        by: None,
    };
    let new = NewUpdate { asked, is_named: false, caller: 1_001, reply };
    let refused = riders.put_update(&key(), run.started.run_id, new, Timestamp::default());
    assert!(matches!(refused, Err(Refusal::TooManyWaiting { found: 1_000, max: RIDERS_PER_RUN_MAX, .. })));
    assert_eq!(riders.updates(), 1_000);
    waiting.push(riders.send(&run, "1", None, 1_002));
    assert_eq!(riders.updates(), 1_000, "who joins takes no room");
}

#[test]
fn a_run_has_room_for_8_mib_of_riders_of_a_kind() {
    let (riders, run) = (Riders::default(), idle());
    let name = "n";
    let ask = |input_bytes: usize, caller: u64| {
        let (reply, answer) = oneshot::channel();
        let input = Payload::from_json(&format!("\"{}\"", "x".repeat(input_bytes - 2))).unwrap();
        let query = Arc::new(Query { name: name.to_owned(), input: Some(input) });
        riders.put_query(&key(), &run, NewQuery { query, seen: None, caller, reply }).map(|()| answer)
    };
    let large = history::limits::PAYLOAD_BYTES_MAX;
    let _answers: Vec<_> =
        (0..31).map(|caller| ask(large - usize::try_from(caller).unwrap(), caller).unwrap()).collect();
    let taken: usize = (0..31).map(|caller| large - caller + name.len()).sum();
    let rest = RIDER_BYTES_PER_RUN_MAX - taken - name.len();
    let refused = ask(rest + 1, 31).map(drop);
    assert!(matches!(refused, Err(Refusal::TooManyWaiting { max: RIDER_BYTES_PER_RUN_MAX, .. })), "{refused:?}");
    assert!(ask(rest, 31).is_ok());
}

#[test]
fn a_node_has_room_for_100_000_callers_of_queries() {
    let (riders, run) = (Riders::default(), idle());
    let mut others: Vec<_> = (1..ASKERS_MAX).map(|_| CountGuard::new(&riders.query_callers)).collect();
    let _last = riders.ask(&run, "a", 1);
    let more = || {
        let (reply, _answer) = oneshot::channel();
        let query = Arc::new(Query { name: "b".to_owned(), input: None });
        riders.put_query(&key(), &run, NewQuery { query, seen: None, caller: 2, reply })
    };
    assert!(matches!(more(), Err(Refusal::TooManyWaiting { found: 100_000, max: ASKERS_MAX, .. })));
    others.pop();
    assert!(more().is_ok(), "a caller that leaves makes room");
}
