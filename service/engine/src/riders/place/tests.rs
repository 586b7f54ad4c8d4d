//! Tests of the transition tables, one case per line.

use history::event::OperatorAction;
use history::{Command, Decision, SucceedWorkflow, UpdateAnswer, Verdict};

use super::RiderPlace::{Answering, Held, Lent, Out, Waits};
use super::*;
use crate::commit::tests::{commit, turn};

const TURN: TurnId = TurnId { scheduled_event_id: 2, started_event_id: 3 };
const LATER: TurnId = TurnId { scheduled_event_id: 5, started_event_id: 6 };
const OWN: By = By::Own(7);

fn word(place: Option<RiderPlace>) -> &'static str {
    match place {
        None => "–",
        Some(Held { .. }) => "held",
        Some(Waits) => "waits",
        Some(Lent) => "lent",
        Some(Out(_)) => "out",
        Some(Answering(_)) => "answering",
    }
}

/// Returns the states that result from each event, applied to a rider in this state. All events are about the task
/// `by`.
fn line(kind: RiderKind, place: RiderPlace, by: By) -> String {
    let all = [
        RiderEvent::Taken(By::Turn(LATER)),
        RiderEvent::Taken(By::Own(8)),
        RiderEvent::AnswerComes(by),
        RiderEvent::AnswerFails { by, is_lost: false },
        RiderEvent::AnswerFails { by, is_lost: true },
        RiderEvent::TaskLost(by),
        RiderEvent::RunSeen { held: Some(LATER), idle_at: Some(9) },
        RiderEvent::Lent,
        RiderEvent::Returned,
        RiderEvent::Answered { version: 9 },
    ];
    all.map(|happens| word(place.after(kind, happens))).join(" ")
}

#[test]
fn a_query_goes_from_place_to_place_as_the_table_says() {
    let line = |place, by| line(RiderKind::Query, place, by);
    let turn = By::Turn(TURN);
    //                                           turn own answer fails lost task seen lent back answered
    assert_eq!(line(Held { version: 4 }, turn), "out – – – – – waits – – held");
    assert_eq!(line(Waits, turn), "out out – – – – – lent – held");
    assert_eq!(line(Out(turn), turn), "– – answering – – waits waits – – held");
    assert_eq!(line(Out(OWN), OWN), "– – answering – – waits – – – held");
    assert_eq!(line(Answering(turn), turn), "– – – waits waits – – – – held");
}

#[test]
fn an_update_goes_from_place_to_place_as_the_table_says() {
    let line = |place, by| line(RiderKind::Update, place, by);
    let turn = By::Turn(TURN);
    //                                turn own answer fails lost task seen lent back answered
    assert_eq!(line(Waits, turn), "out out – – – – – lent – –");
    assert_eq!(line(Lent, turn), "– – – – – – – – waits –");
    assert_eq!(line(Out(turn), turn), "– – answering – – waits waits – – –");
    assert_eq!(line(Out(OWN), OWN), "– – answering – – waits – – – –");
    assert_eq!(line(Answering(turn), turn), "– – – out waits – – – – –");
    assert_eq!(line(Answering(OWN), OWN), "– – – out waits – – – – –");
}

#[test]
fn events_of_another_task_change_nothing() {
    for kind in [RiderKind::Query, RiderKind::Update] {
        for (by, other) in [(By::Turn(TURN), By::Turn(LATER)), (By::Turn(TURN), OWN), (OWN, By::Own(8))] {
            let others = [
                RiderEvent::AnswerComes(other),
                RiderEvent::AnswerFails { by: other, is_lost: true },
                RiderEvent::TaskLost(other),
            ];
            for happens in others {
                assert_eq!(Out(by).after(kind, happens), None, "{kind:?} {happens:?}");
                assert_eq!(Answering(by).after(kind, happens), None, "{kind:?} {happens:?}");
            }
        }
    }
}

#[test]
fn reading_the_run_moves_riders_without_a_turn() {
    let seen =
        |place: RiderPlace, held, idle_at| word(place.after(RiderKind::Query, RiderEvent::RunSeen { held, idle_at }));
    let out = Out(By::Turn(TURN));
    assert_eq!(
        [seen(out, Some(TURN), None), seen(out, Some(LATER), None), seen(out, None, None)],
        ["–", "waits", "waits"]
    );
    let held = Held { version: 4 };
    assert_eq!([seen(held, None, None), seen(held, None, Some(4)), seen(held, None, Some(5))], ["–", "–", "waits"]);
}

#[test]
fn reading_the_run_gives_its_held_turn_and_idle_version() {
    let run = |commands: &[Command]| commit(None, commands, 1).next.run().clone();
    let [start, complete] = turn(2, Vec::new());
    let pause = || Command::Pause { stop_clocks: false, operator: OperatorAction::default(), key: None };
    let waits = run(&[]);
    assert_eq!(seen(&waits), RiderEvent::RunSeen { held: None, idle_at: None });
    let held = run(std::slice::from_ref(&start));
    assert_eq!(seen(&held), RiderEvent::RunSeen { held: Some(TURN), idle_at: None });
    let idle = run(&[start.clone(), complete]);
    assert_eq!(seen(&idle), RiderEvent::RunSeen { held: None, idle_at: Some(idle.version) });
    let paused = run(&[pause()]);
    assert_eq!(seen(&paused), RiderEvent::RunSeen { held: None, idle_at: Some(paused.version) });
    let paused = run(&[start, pause()]);
    assert_eq!(seen(&paused), RiderEvent::RunSeen { held: Some(TURN), idle_at: None });
}

/// Returns the outcome of an update in each of these states: waiting, out, lent and answering.
fn ends(asked: &ProposedUpdate, run_id: Uuid, run: &Run) -> String {
    let word = |place| match ends_unjudged(place, run_id, asked, run) {
        None => "–".to_owned(),
        Some(UpdateTurnOutcome::Accepted) => "accepted".to_owned(),
        Some(UpdateTurnOutcome::Continued) => "gone-on".to_owned(),
        Some(UpdateTurnOutcome::Refused(refusal)) => refusal.code().to_owned(),
        Some(other) => panic!("{other:?} is for deciders to say"),
    };
    [Waits, Out(OWN), Lent, Answering(OWN)].map(word).join(" ")
}

#[test]
fn an_unjudged_update_ends_according_to_the_table() {
    let asked = |if_version| {
        let (update_id, name) = ("u".to_owned(), "n".to_owned());
        ProposedUpdate { update_id, name, input: None, identity: None, if_version, by: None }
    };
    let run = |commands: &[Command]| commit(None, commands, 1).next.run().clone();
    let done = |decisions: Vec<Decision>| run(&turn(2, decisions));
    let [start, _] = turn(2, Vec::new());
    let open = done(Vec::new());
    let ends_in = |run: &Run| ends(&asked(None), run.started.run_id, run);
    assert_eq!(ends_in(&open), "– – – –");
    assert_eq!(ends(&asked(None), Uuid::nil(), &open), "gone-on gone-on – –", "of another run");
    assert_eq!(ends(&asked(Some(open.version)), open.started.run_id, &open), "– – – –");
    assert_eq!(ends(&asked(Some(9)), open.started.run_id, &open), "version-mismatch – – –");
    assert_eq!(ends_in(&done(vec![SucceedWorkflow::default().into()])), "run-closed run-closed – –");
    assert_eq!(ends_in(&done(vec![history::ContinueAsNew::default().into()])), "gone-on gone-on – –");
    let pause = Command::Pause { stop_clocks: false, operator: OperatorAction::default(), key: None };
    assert_eq!(ends_in(&run(&[pause])), "run-paused – – –");
    let accepted = Command::AnswerUpdates {
        turn: history::AnsweredTurn::Held(TURN),
        proposed: vec![asked(None)],
        answers: vec![UpdateAnswer { update_id: "u".to_owned(), verdict: Verdict::Done { result: None } }],
        rest: Box::default(),
    };
    assert_eq!(ends_in(&run(&[start, accepted])), "accepted – – –");
}
