//! Runs A and B in parallel, then C exactly once, as soon as *either* A or B is done.
//!
//! Needs a running service: `cargo run -p baton-service --bin baton -- serve`.

use std::time::Duration;

use baton_client::Client;
use baton_client::body::StartWorkflow;
use baton_decider_kit::{Activity, Decisions, Steps, Window};
use baton_runner_kit::{ActivityContext, ActivityFailure, activity_fn};

/// Task list of the decider and of the activities.
const LIST: &str = "parallel";

/// Runs A and B, runs C once either A or B is done, then closes the run.
fn parallel(steps: &Steps, _: &Window) -> Decisions {
    let [a, b, c] = ["A", "B", "C"].map(|id| steps.activity(id));
    if a.is_new() {
        Decisions::new().schedule(Activity::new("A", "A")).schedule(Activity::new("B", "B"))
    } else if c.is_done() {
        Decisions::new().succeed(&"A, B or both, and C")
    } else if c.is_new() && (a.is_done() || b.is_done()) {
        Decisions::new().schedule(Activity::new("C", "C"))
    } else {
        // C is in progress. An earlier turn may have scheduled C while the event of this turn was arriving.
        Decisions::new()
    }
}

async fn work(context: ActivityContext, (): ()) -> Result<String, ActivityFailure> {
    Ok(context.activity_id.to_string())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("BATON_URL").unwrap_or_else(|_| "http://127.0.0.1:7420".to_owned());
    let client = Client::new(&url)?;
    let workflow_id = format!("parallel-{}", std::process::id());
    let deciders =
        baton_decider_kit::Host::new(client.clone(), LIST).register("parallel", baton_decider_kit::decide(parallel));
    let runners = ["A", "B", "C"]
        .into_iter()
        .fold(baton_runner_kit::Host::new(client.clone(), LIST), |host, name| host.register(activity_fn(name, work)));
    let once = async {
        let start = StartWorkflow {
            workflow_id: workflow_id.clone(),
            workflow_type: "parallel".to_owned(),
            task_list: Some(LIST.to_owned()),
            ..StartWorkflow::default()
        };
        client.start(&start, None).await?;
        client.result(&workflow_id, None, Duration::from_secs(60)).await?;
        let events = client.events(&workflow_id, None).await?;
        println!("{}", baton_tables::history(&events));
        Ok::<(), baton_client::Error>(())
    };
    tokio::select! {
        done = once => Ok(done?),
        () = deciders.run() => Ok(()),
        () = runners.run() => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use baton_history::{Command, Start, TaskId, Timestamp, Transition, TurnId};

    use super::*;

    /// B ends during the turn that the end of A has caused.
    #[test]
    fn c_is_scheduled_once_when_a_and_b_end_around_one_turn() {
        let now = Timestamp::from_millis(1_000);
        let mut transition = Transition::start(&Start::new("p", "parallel", LIST), uuid_nil(), now).unwrap();
        let admit = |transition: &mut Transition, command: Command| {
            transition.admit(&command, now).unwrap();
            transition.run().last_event_id
        };
        let decide = |transition: &Transition, started: u64| {
            let events: Vec<_> = transition.events().iter().filter(|event| event.id <= started).cloned().collect();
            let mut steps = Steps::default();
            for event in &events {
                steps.evolve(event);
            }
            parallel(&steps, &Window::of_history(&events)).as_slice().to_vec()
        };
        let turn = |scheduled_event_id, started_event_id| TurnId { scheduled_event_id, started_event_id };
        let complete = |turn, decisions| Command::complete(turn, decisions);
        let start_turn = |scheduled_event_id| Command::StartTurn { scheduled_event_id, identity: None, poll: None };
        let start = |scheduled_event_id| Command::StartActivity { scheduled_event_id, identity: None, poll: None };
        let succeed = |scheduled_event_id, started_event_id| Command::SucceedActivity {
            task: TaskId { scheduled_event_id, started_event_id, start: 0 },
            result: None,
        };
        admit(&mut transition, start_turn(2));
        let decisions = decide(&transition, 3);
        assert_eq!(admit(&mut transition, complete(turn(2, 3), decisions)), 6, "A and B");
        admit(&mut transition, start(6));
        admit(&mut transition, start(5));
        assert_eq!(admit(&mut transition, succeed(6, 7)), 10);
        admit(&mut transition, start_turn(10));
        assert_eq!(admit(&mut transition, succeed(5, 8)), 13, "during the turn");
        let decisions = decide(&transition, 11);
        assert_eq!(admit(&mut transition, complete(turn(10, 11), decisions)), 15, "C");
        admit(&mut transition, start_turn(13));
        admit(&mut transition, start(15));
        assert_eq!(decide(&transition, 16), [], "the window 11 to 16 contains ActivityScheduled(C)");
        admit(&mut transition, complete(turn(13, 16), Vec::new()));
        admit(&mut transition, succeed(15, 17));
        admit(&mut transition, start_turn(20));
        let decisions = decide(&transition, 21);
        assert_eq!(admit(&mut transition, complete(turn(20, 21), decisions)), 23);
        baton_history::check::history(transition.events()).unwrap();
    }

    fn uuid_nil() -> baton_history::RunId {
        baton_history::RunId::nil()
    }
}
