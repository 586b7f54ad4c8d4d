//! `baton-bench swf`: the same small workflows over REST and over the SWF protocol, with the same plain HTTP client,
//! so that only the protocol differs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::failed::Failed;
use crate::service::{Scratch, Service, other};

/// Wait of one poll.
const POLL_WAIT: Duration = Duration::from_secs(60);

/// Number of events from one turn's DeciderStarted to the next, which belong to a turn and an activity.
const EVENTS_PER_STEP: u64 = 6;

/// Measure: the cost of the SWF protocol compared with REST
#[derive(Debug, Args)]
pub(crate) struct Swf {
    /// Number of workflows for each protocol in each round
    #[arg(long, default_value_t = 5_000)]
    workflows: u64,
    /// Maximum number of concurrent workflows, and number of polling deciders and runners
    #[arg(long, default_value_t = 32)]
    concurrency: usize,
    /// Sequential activities of each workflow
    #[arg(long, default_value_t = 3)]
    activities: u64,
    /// Number of rounds of each protocol
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Let SWF's deciders take the whole history with each turn, which is their default, instead of the window
    #[arg(long)]
    whole_history: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    Rest,
    Swf,
}

/// A client of one of the protocols.
#[derive(Debug, Clone)]
struct Caller {
    http: reqwest::Client,
    url: String,
    wire: Wire,
    whole_history: bool,
}

/// The token and the started event of a turn or an activity; `None` if the poll returned no task.
type Task = Option<(String, u64)>;

impl Caller {
    fn new(url: &str, wire: Wire, whole_history: bool) -> Self {
        Self { http: reqwest::Client::new(), url: url.to_owned(), wire, whole_history }
    }

    async fn send(&self, request: reqwest::RequestBuilder, body: &Value) -> Result<Value, Failed> {
        let failed = |error: reqwest::Error| other(error.to_string());
        let answer = request.body(body.to_string()).send().await.map_err(failed)?;
        let status = answer.status();
        let bytes = answer.bytes().await.map_err(failed)?;
        if !status.is_success() {
            return Err(other(format!("{status}: {}", String::from_utf8_lossy(&bytes))));
        }
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|error| other(error.to_string()))
    }

    async fn rest(&self, path: &str, body: &Value) -> Result<Value, Failed> {
        let request = self.http.post(format!("{}/v1/{path}", self.url)).header("content-type", "application/json");
        self.send(request, body).await
    }

    /// Polls for a task and waits, as SWF's polls do by default.
    async fn rest_poll(&self, list: &str) -> Result<Value, Failed> {
        let url = format!("{}/v1/domains/default/task-lists/{list}/poll", self.url);
        let request = self.http.post(url).header("content-type", "application/json");
        self.send(request.header("prefer", format!("wait={}", POLL_WAIT.as_secs())), &json!({})).await
    }

    async fn swf(&self, operation: &str, body: &Value) -> Result<Value, Failed> {
        let request = self.http.post(&self.url).header("content-type", "application/x-amz-json-1.0");
        self.send(request.header("x-amz-target", format!("SimpleWorkflowService.{operation}")), body).await
    }

    /// Registers the types that SWF requires.
    async fn register(&self) -> Result<(), Failed> {
        let workflow = json!({ "domain": "default", "name": "chain", "version": "1",
            "defaultTaskStartToCloseTimeout": "60", "defaultExecutionStartToCloseTimeout": "3600",
            "defaultTaskList": { "name": "swf" }, "defaultChildPolicy": "TERMINATE" });
        self.swf("RegisterWorkflowType", &workflow).await?;
        let activity = json!({ "domain": "default", "name": "step", "version": "1",
            "defaultTaskStartToCloseTimeout": "60", "defaultTaskHeartbeatTimeout": "NONE",
            "defaultTaskScheduleToStartTimeout": "NONE", "defaultTaskScheduleToCloseTimeout": "NONE",
            "defaultTaskList": { "name": "swf" } });
        self.swf("RegisterActivityType", &activity).await.map(drop)
    }

    async fn start(&self, id: &str) -> Result<(), Failed> {
        let started = match self.wire {
            Wire::Rest => {
                let start = json!({ "workflowId": id, "workflowType": "chain", "taskList": "rest", "input": "in" });
                self.rest("domains/default/workflows", &start).await
            }
            Wire::Swf => {
                let start = json!({ "domain": "default", "workflowId": id, "input": "in",
                    "workflowType": { "name": "chain", "version": "1" } });
                self.swf("StartWorkflowExecution", &start).await
            }
        };
        started.map(drop)
    }

    async fn turn(&self) -> Result<Task, Failed> {
        let task = match self.wire {
            Wire::Rest => self.rest_poll("rest/decider").await?,
            Wire::Swf => {
                let poll = json!({ "domain": "default", "taskList": { "name": "swf" },
                    "startAtPreviousStartedEvent": !self.whole_history });
                self.swf("PollForDecisionTask", &poll).await?
            }
        };
        Ok(self.task(&task))
    }

    /// Polls once for an activity.
    async fn activity(&self, list: &str) -> Result<Task, Failed> {
        let task = match self.wire {
            Wire::Rest => self.rest_poll(&format!("{list}/activity")).await?,
            Wire::Swf => {
                let poll = json!({ "domain": "default", "taskList": { "name": list } });
                self.swf("PollForActivityTask", &poll).await?
            }
        };
        Ok(self.task(&task))
    }

    fn task(&self, task: &Value) -> Task {
        let token = match self.wire {
            Wire::Rest => task.get("token"),
            Wire::Swf => task.get("taskToken"),
        };
        let started = task.get("startedEventId").and_then(Value::as_u64).unwrap_or_default();
        Some((token?.as_str()?.to_owned(), started))
    }

    /// Schedules the next activity, or with `None` closes the run.
    async fn decide(&self, token: &str, step: Option<u64>) -> Result<(), Failed> {
        let answered = match (self.wire, step) {
            (Wire::Rest, step) => {
                let decision = step.map_or_else(
                    || json!({ "type": "SucceedWorkflow", "result": "done" }),
                    |step| {
                        json!({ "type": "ScheduleActivity", "activityId": format!("step-{step}"),
                        "activityType": "step",
                            "input": "in" })
                    },
                );
                self.rest(&format!("decider-tasks/{token}/complete"), &json!({ "decisions": [decision] })).await
            }
            (Wire::Swf, step) => {
                let decision = step.map_or_else(
                    || {
                        json!({ "decisionType": "CompleteWorkflowExecution",
                            "completeWorkflowExecutionDecisionAttributes": { "result": "done" } })
                    },
                    |step| {
                        json!({ "decisionType": "ScheduleActivityTask", "scheduleActivityTaskDecisionAttributes": {
                            "activityId": format!("step-{step}"), "activityType": { "name": "step", "version": "1" },
                            "input": "in" } })
                    },
                );
                let answer = json!({ "taskToken": token, "decisions": [decision] });
                self.swf("RespondDecisionTaskCompleted", &answer).await
            }
        };
        answered.map(drop)
    }

    async fn succeed(&self, token: &str) -> Result<(), Failed> {
        let answered = match self.wire {
            Wire::Rest => self.rest(&format!("activity-tasks/{token}/success"), &json!({ "result": "in" })).await,
            Wire::Swf => self.swf("RespondActivityTaskCompleted", &json!({ "taskToken": token, "result": "in" })).await,
        };
        answered.map(drop)
    }

    fn list(&self) -> &'static str {
        match self.wire {
            Wire::Rest => "rest",
            Wire::Swf => "swf",
        }
    }
}

/// Results of a round.
#[derive(Debug, Clone, Copy, Default)]
struct Figures {
    seconds: f64,
    cpu_seconds: f64,
}

impl Swf {
    pub(super) async fn run(self) -> Result<(), Failed> {
        let scratch = Scratch::new(None)?;
        let service = Service::start(&scratch).await?;
        let swf = Caller::new(&service.url, Wire::Swf, self.whole_history);
        let rest = Caller::new(&service.url, Wire::Rest, self.whole_history);
        swf.register().await?;
        let mut all = [Figures::default(); 2];
        for round in 0..self.rounds.max(1) {
            // The protocols alternate, so that other load on the machine affects both.
            for (caller, sum) in [&rest, &swf].into_iter().zip(&mut all) {
                let before = service.process.cpu_seconds().unwrap_or_default();
                let began = Instant::now();
                self.round(caller, round).await?;
                sum.seconds += began.elapsed().as_secs_f64();
                sum.cpu_seconds += service.process.cpu_seconds().unwrap_or_default() - before;
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let count = self.workflows as f64 * f64::from(self.rounds.max(1));
        println!(
            "{count} workflows of {} activities over each protocol, {} concurrently:",
            self.activities, self.concurrency
        );
        for (name, figures) in ["REST", "SWF"].into_iter().zip(all) {
            let (rate, micros) = (count / figures.seconds, 1e6 * figures.cpu_seconds / count);
            println!(
                "  {name:>5}  {rate:>8.0} workflows/s  {micros:>8.0} µs of the service's processor time per workflow"
            );
        }
        service.process.stop().await;
        Ok(())
    }

    async fn round(&self, caller: &Caller, round: u32) -> Result<(), Failed> {
        let slots = Arc::new(Semaphore::new(self.concurrency.max(1)));
        let closed = Arc::new(AtomicU64::new(0));
        let (total, activities) = (self.workflows, self.activities);
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..self.concurrency.max(1) {
            let (decider, slots, closed) = (caller.clone(), Arc::clone(&slots), Arc::clone(&closed));
            workers.spawn(async move {
                loop {
                    let Some((token, started)) = decider.turn().await? else { continue };
                    // The first turn is started by event 3. Each completed step adds the same number of events.
                    let done = started / EVENTS_PER_STEP;
                    let step = (done < activities).then_some(done);
                    decider.decide(&token, step).await?;
                    if step.is_none() {
                        slots.add_permits(1);
                        if closed.fetch_add(1, Ordering::SeqCst) + 1 == total {
                            return Ok::<_, Failed>(());
                        }
                    }
                }
            });
            let runner = caller.clone();
            workers.spawn(async move {
                loop {
                    if let Some((token, _)) = runner.activity(runner.list()).await? {
                        runner.succeed(&token).await?;
                    }
                }
            });
        }
        for number in 0..total {
            let slot = slots.acquire().await.map_err(|error| other(error.to_string()))?;
            slot.forget();
            caller.start(&format!("{}-{round}-{number}", caller.list())).await?;
        }
        // A worker ends only if it closed the last run, or failed.
        let ended = workers.join_next().await;
        workers.abort_all();
        ended.map_or(Ok(()), |ended| ended.map_err(|error| other(error.to_string()))?)
    }
}
