//! The recorded runs. They cover every state in which an upgrade may find a run. Each run has a separate task list
//! named after its state.

use std::time::Duration;

use client::body::{
    CompleteTurn, CreateDomain, CreateSchedule, DeciderTask, FailActivity, OperatorAction, PauseWorkflow, PollActivity,
    PollDecider, ResetWorkflow, StartWorkflow, SucceedActivity, TerminateWorkflow, UpdateResult, UpdateWorkflow,
};
use client::{Client, Error, Patience};
use history::{
    CancelWorkflow, ContinueAsNew, Decision, FailWorkflow, Interval, Payload, RecordMarker, RetryPolicy, Schedule,
    ScheduleActivity, ScheduleSpec, SignalExternal, StartChild, StartTimer, SucceedWorkflow,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Time limit of each wait for a task. The service runs on the same machine, so a longer wait is a failure.
const WAIT: Duration = Duration::from_secs(20);

/// Task list of all activities.
pub const WORK: &str = "work";

/// Tokens and keys that callers hold while the service is upgraded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Held {
    /// Token of a turn.
    pub turn: String,
    /// Token of an activity.
    pub activity: String,
    /// Idempotency key of a start, and the run id in its response.
    pub start: (String, uuid::Uuid),
}

/// Returns a payload with this number of characters.
fn text(bytes: usize) -> Option<Payload> {
    Payload::of(&"Ein Stück Text. ".chars().cycle().take(bytes).collect::<String>()).ok()
}

fn start_of(id: &str) -> StartWorkflow {
    StartWorkflow {
        workflow_id: id.to_owned(),
        workflow_type: "recorded".to_owned(),
        task_list: Some(id.to_owned()),
        input: text(2_000),
        tags: vec!["kept".to_owned(), id.to_owned()],
        identity: Some("recorder".to_owned()),
        ..StartWorkflow::default()
    }
}

fn activity(id: &str) -> ScheduleActivity {
    ScheduleActivity {
        activity_id: id.to_owned(),
        activity_type: "work".to_owned(),
        task_list: Some(WORK.to_owned()),
        input: text(5_000),
        ..ScheduleActivity::default()
    }
}

/// Takes the waiting turn of a task list.
async fn turn(client: &Client, list: &str) -> Result<DeciderTask, Error> {
    let poll = PollDecider { updates: Some(4), identity: Some("decider".to_owned()), ..PollDecider::default() };
    let taken = client.poll_decider(list, &poll, WAIT).await?;
    taken.ok_or_else(|| Error::Setup { what: format!("no turn on `{list}`") })
}

async fn decide(client: &Client, list: &str, decisions: Vec<Decision>) -> Result<(), Error> {
    let turn = turn(client, list).await?;
    let context = text(300);
    let complete = CompleteTurn { decisions, context, awaiting: vec!["go".to_owned()], ..CompleteTurn::default() };
    client.complete_turn(&turn.token, &complete, Patience::None).await.map(drop)
}

async fn take_activity(client: &Client) -> Result<String, Error> {
    let poll = PollActivity { identity: Some("runner".to_owned()), ..PollActivity::default() };
    let taken = client.poll_activity(WORK, &poll, WAIT).await?;
    taken.map(|task| task.token).ok_or_else(|| Error::Setup { what: "no activity".to_owned() })
}

async fn begin(client: &Client, id: &str, decisions: Vec<Decision>) -> Result<(), Error> {
    client.start(&start_of(id), None).await?;
    decide(client, id, decisions).await
}

/// Creates all runs. When this returns, a query and an update are still waiting at the service, because no decider
/// takes them.
///
/// # Errors
///
/// If a request fails.
pub async fn make(client: &Client, url: &str) -> Result<Held, Error> {
    let shop = CreateDomain { name: "shop".to_owned(), ..CreateDomain::default() };
    client.create_domain(&shop).await.map(drop)?;
    closed(client).await?;
    waiting(client).await?;
    others(client).await?;
    schedule(client).await?;
    swf(url).await?;
    let (turn, held) = (held_turn(client).await?, held_activity(client).await?);
    begin(client, "waits-for-runner", vec![activity("a").into()]).await?;
    let start = client.start(&start_of("repeated"), Some("a-key")).await?;
    Ok(Held { turn, activity: held, start: ("a-key".to_owned(), start.run_id) })
}

/// Repeats the start with an idempotency key, and returns the run id in the response.
///
/// # Errors
///
/// If the request fails.
pub async fn repeat_start(client: &Client, held: &Held) -> Result<uuid::Uuid, Error> {
    client.start(&start_of("repeated"), Some(&held.start.0)).await.map(|started| started.run_id)
}

async fn closed(client: &Client) -> Result<(), Error> {
    let marker = RecordMarker { name: "step".to_owned(), details: text(3_000) };
    begin(client, "succeeded", vec![marker.into(), activity("a").into()]).await?;
    let token = take_activity(client).await?;
    let succeed = SucceedActivity { result: text(9_000) };
    client.succeed_activity(&token, &succeed, Patience::None).await?;
    decide(client, "succeeded", vec![SucceedWorkflow { result: text(700), force: false }.into()]).await?;
    let fail = FailWorkflow { reason: "declined".to_owned(), details: text(700), ..FailWorkflow::default() };
    begin(client, "failed", vec![fail.into()]).await?;
    client.start(&start_of("terminated"), None).await?;
    client.terminate("terminated", None, &TerminateWorkflow::default(), None).await?;
    begin(client, "canceled", Vec::new()).await?;
    client.cancel("canceled", None, &client::body::CancelWorkflow::default(), None).await?;
    decide(client, "canceled", vec![CancelWorkflow { details: text(40), force: false }.into()]).await?;
    begin(client, "continued", vec![ContinueAsNew { input: text(400), ..ContinueAsNew::default() }.into()]).await
}

async fn waiting(client: &Client) -> Result<(), Error> {
    client.start(&start_of("waits-for-turn"), None).await?;
    for number in 0..150 {
        let (said, key) = (Payload::of(&number).ok(), format!("signal-{number}"));
        client.signal("waits-for-turn", "tick", said, Some(&key)).await?;
    }
    begin(client, "waits-for-activity", vec![activity("a").into()]).await?;
    let token = take_activity(client).await?;
    client.heartbeat(&token, text(100)).await?;
    let timer = StartTimer {
        timer_id: "rest".to_owned(),
        after: history::Duration::from_secs(1_800),
        control: Some("kept".to_owned()),
    };
    let marker = RecordMarker { name: "before".to_owned(), details: text(30_000) };
    begin(client, "waits-for-timer", vec![marker.into(), timer.into()]).await?;
    let retry = RetryPolicy { initial_interval: history::Duration::from_secs(600), ..RetryPolicy::default() };
    let again = ScheduleActivity { retry: Some(retry), ..activity("again") };
    begin(client, "tries-again", vec![again.into()]).await?;
    let token = take_activity(client).await?;
    let busy = FailActivity { reason: "busy".to_owned(), details: text(1_000), ..FailActivity::default() };
    client.fail_activity(&token, &busy, Patience::None).await?;
    begin(client, "paused", vec![activity("p").into()]).await?;
    let pause = PauseWorkflow { stop_clocks: true, reason: Some("maintenance".to_owned()), ..PauseWorkflow::default() };
    client.pause("paused", None, &pause, None).await.map(drop)
}

async fn others(client: &Client) -> Result<(), Error> {
    let child = StartChild {
        workflow_id: "child".to_owned(),
        workflow_type: "recorded".to_owned(),
        task_list: Some("child".to_owned()),
        input: text(1_000),
        ..StartChild::default()
    };
    let signal = SignalExternal {
        workflow_id: "waits-for-turn".to_owned(),
        name: "from outside".to_owned(),
        input: text(200),
        ..SignalExternal::default()
    };
    begin(client, "parent", vec![child.into(), signal.into()]).await?;
    // Wait until the service has started the child.
    while client.describe("child", None).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let marker = RecordMarker { name: "here".to_owned(), details: None };
    begin(client, "reset", vec![marker.into()]).await?;
    client.signal("reset", "later", text(50), None).await?;
    let reset = ResetWorkflow { event_id: 5, reason: Some("once more".to_owned()), ..ResetWorkflow::default() };
    client.reset("reset", None, &reset, None).await?;
    begin(client, "updated", Vec::new()).await?;
    let request = UpdateWorkflow { input: text(500), update_id: Some("one".to_owned()), ..UpdateWorkflow::default() };
    let asking = tokio::spawn({
        let client = client.clone();
        async move { client.update("updated", "add", &request, None, WAIT).await.map(drop) }
    });
    let judged = turn(client, "updated").await?;
    let update_results = judged.updates.iter().map(|update| UpdateResult {
        id: update.id.clone(),
        later: true,
        ..UpdateResult::default()
    });
    let complete = CompleteTurn { update_results: update_results.collect(), ..CompleteTurn::default() };
    client.complete_turn(&judged.token, &complete, Patience::None).await?;
    asking.abort();
    // No decider takes these two requests. They are lost when the service stops, and their callers must repeat them.
    let (asks, updates) = (client.clone(), client.clone());
    tokio::spawn(async move { asks.query("waits-for-turn", None, "state", None, WAIT).await.map(drop) });
    tokio::spawn(async move {
        updates.update("waits-for-turn", "add", &UpdateWorkflow::default(), None, WAIT).await.map(drop)
    });
    Ok(())
}

async fn schedule(client: &Client) -> Result<(), Error> {
    let every = Interval { every: history::Duration::from_secs(86_400), ..Interval::default() };
    let schedule = Schedule {
        spec: ScheduleSpec { intervals: vec![every], ..ScheduleSpec::default() },
        action: StartWorkflow { task_list: Some("scheduled".to_owned()), ..start_of("scheduled") },
        ..Schedule::default()
    };
    let create = CreateSchedule { schedule_id: "daily".to_owned(), schedule, paused: false };
    client.create_schedule(&create, None).await?;
    client.trigger_schedule("daily", &client::body::TriggerSchedule::default(), None).await.map(drop)
}

/// Registers a workflow type and starts a run with the SWF protocol.
async fn swf(url: &str) -> Result<(), Error> {
    let http = reqwest::Client::new();
    let ask = async |operation: &str, body: Value| {
        let failed = |what: String| Error::Unexpected { url: url.to_owned(), what };
        let request = http.post(url).header("x-amz-target", format!("SimpleWorkflowService.{operation}"));
        let request = request.header("content-type", "application/x-amz-json-1.0").body(body.to_string());
        let answer = request.send().await.map_err(|error| failed(error.to_string()))?;
        let is_done = answer.status().is_success();
        let said = answer.text().await.map_err(|error| failed(error.to_string()))?;
        if is_done { Ok(()) } else { Err(failed(format!("{operation}: {said}"))) }
    };
    let kind = json!({ "name": "swf", "version": "1" });
    let register = json!({
        "domain": "default", "name": "swf", "version": "1", "defaultTaskList": { "name": "swf" },
        "defaultChildPolicy": "TERMINATE", "defaultTaskStartToCloseTimeout": "300",
        "defaultExecutionStartToCloseTimeout": "864000",
    });
    ask("RegisterWorkflowType", register).await?;
    let start = json!({ "domain": "default", "workflowId": "swf", "workflowType": kind, "input": "kept" });
    ask("StartWorkflowExecution", start).await
}

async fn held_turn(client: &Client) -> Result<String, Error> {
    client.start(&start_of("holds-turn"), None).await?;
    turn(client, "holds-turn").await.map(|turn| turn.token)
}

async fn held_activity(client: &Client) -> Result<String, Error> {
    begin(client, "holds-activity", vec![activity("a").into()]).await?;
    let token = take_activity(client).await?;
    client.heartbeat(&token, text(400)).await?;
    Ok(token)
}

/// Completes a waiting turn of a task list and a waiting activity, if there are any. Returns whether there was any.
///
/// # Errors
///
/// If a request fails.
pub async fn go_on(client: &Client, list: &str) -> Result<bool, Error> {
    let mut went_on = false;
    let poll = PollDecider { updates: Some(4), ..PollDecider::default() };
    if let Some(turn) = client.poll_decider(list, &poll, Duration::ZERO).await? {
        // The update that the recorded version accepted is completed now.
        let is_updated = turn.workflow_id == "updated";
        let answer = UpdateResult { id: "one".to_owned(), accepted: text(10), ..UpdateResult::default() };
        let complete = CompleteTurn {
            decisions: vec![SucceedWorkflow { result: text(10), force: true }.into()],
            update_results: is_updated.then_some(answer).into_iter().collect(),
            ..CompleteTurn::default()
        };
        client.complete_turn(&turn.token, &complete, Patience::None).await?;
        went_on = true;
    }
    if let Some(task) = client.poll_activity(WORK, &PollActivity::default(), Duration::ZERO).await? {
        client.succeed_activity(&task.token, &SucceedActivity::default(), Patience::None).await?;
        went_on = true;
    }
    Ok(went_on)
}

/// Answers the turn and the activity that callers held, and signals and resumes runs that wait for this.
///
/// # Errors
///
/// If a request fails.
pub async fn answer_held(client: &Client, held: &Held) -> Result<(), Error> {
    let decisions = vec![SucceedWorkflow { result: text(10), force: true }.into()];
    let complete = CompleteTurn { decisions, ..CompleteTurn::default() };
    client.complete_turn(&held.turn, &complete, Patience::None).await?;
    client.heartbeat(&held.activity, text(20)).await?;
    client.succeed_activity(&held.activity, &SucceedActivity::default(), Patience::None).await?;
    client.signal("updated", "go", None, None).await?;
    client.resume("paused", None, &OperatorAction::default(), None).await.map(drop)
}
