//! Runs that were reset: corrected code continues where the copied history of the old run ends.

use baton_history::event::{LaterSignals, OperatorAction, ResetPlan};
use baton_history::{BranchReader, Branching, Command, PlannedReset, ScheduleActivity, Transition, TurnId};

use super::*;

async fn wrong(ctx: Context, (): ()) -> Result<String, Failure> {
    let _: String = ctx.activity("a", &()).await?;
    ctx.activity("b", &()).await
}

async fn right(ctx: Context, (): ()) -> Result<String, Failure> {
    let _: String = ctx.activity("a", &()).await?;
    ctx.activity("c", &()).await
}

#[test]
fn corrected_code_continues_a_reset_run() {
    let mut service = service(flow(wrong));
    result_of(&mut service);
    let old = service.history("1").to_vec();
    // The run is reset to the last event before the turn that decided wrongly.
    let (event_id, signals) = (8, LaterSignals::Reapply);
    assert!(matches!(error(replay(&flow(right), &json(&old))), FlowError::Mismatch { event_id: 11, .. }));
    let mut reader = BranchReader::new(Branching { event_id, signals });
    old.iter().try_for_each(|event| reader.read(event.clone())).unwrap();
    let EventKind::WorkflowStarted(started) = &old[0].kind else { panic!() };
    let (run_id, at) = (started.run_id, old.last().unwrap().timestamp);
    let new_run_id = baton_history::child_run_id(run_id, event_id, at);
    let plan = ResetPlan { new_run_id, run_id, event_id, signals };
    let planned = PlannedReset { plan, operator: OperatorAction::default(), at, key: None, by: None };
    let mut new = Transition::branch(reader.finish().unwrap(), &planned);
    for code in [flow(wrong), flow(right)] {
        replay(&code, &json(new.events())).unwrap();
    }
    new.admit(&Command::StartTurn { scheduled_event_id: 8, identity: None, poll: None }, at).unwrap();
    let (activity_id, activity_type) = ("c".to_owned(), "c".to_owned());
    let decisions = vec![ScheduleActivity { activity_id, activity_type, ..ScheduleActivity::default() }.into()];
    let turn = TurnId { scheduled_event_id: 8, started_event_id: 10 };
    new.admit(&Command::complete(turn, decisions), at).unwrap();
    replay(&flow(right), &json(new.events())).unwrap();
    match error(replay(&flow(wrong), &json(new.events()))) {
        FlowError::Mismatch { event_id, expected, found } => {
            assert_eq!(
                (event_id, expected.as_str(), found.as_str()),
                (12, "ActivityScheduled `c`", "ScheduleActivity `b`")
            );
        }
        other => panic!("{other:?}"),
    }
}
