//! The host: polls a task list and runs activities for the tasks that it receives.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use baton_client::body::{ActivityReply, ActivityTask, CancelActivity, FailActivity, SucceedActivity};
use baton_client::exchange::{self, ActivityKind, ExchangeSettings, TaskReply, Works};
use baton_client::tasks::Outcome;
use baton_client::trace::put_below;
use baton_client::{Client, Error};
use baton_history::Payload;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::output::OutputLink;
use crate::{Activity, ActivityContext, ActivityFailure, output};

/// Time for which the host retries the delivery of an answer if the activity has no start-to-close timeout.
const ANSWER_WAIT: Duration = Duration::from_secs(300);

/// Interval of heartbeats for an activity that sets details but has no heartbeat timeout.
const DETAILS_EVERY: Duration = Duration::from_secs(10);

/// Minimum interval of heartbeats. Our choice.
const HEARTBEATS_EVERY_MIN: Duration = Duration::from_millis(10);

/// Maximum interval of heartbeats, however long the heartbeat timeout is. Source: docs/limits.md, the longest time that
/// a request can wait.
const HEARTBEATS_EVERY_MAX: Duration = Duration::from_mins(1);

/// Maximum delay of the first heartbeat. Our choice: a cancel request that arrives before the first heartbeat reaches
/// the activity within this time, and shorter activities send no heartbeat.
const FIRST_HEARTBEAT: Duration = Duration::from_millis(50);

/// Maximum number of unanswered heartbeats of an activity: one that waits, and the next, which begins before the wait
/// of the first ends.
const HEARTBEATS_AT_ONCE: usize = 2;

/// Default time for which activities may continue after the host was asked to stop.
const DRAIN_WAIT: Duration = Duration::from_secs(30);

/// Default number of concurrent activities. Our choice: easy for programs that wait for other systems, and acceptable
/// for programs that compute.
const ACTIVITIES_AT_ONCE: usize = 16;

/// An activity whose input and output types are erased.
#[async_trait]
trait AnyActivity: Send + Sync {
    async fn run(&self, context: ActivityContext, input: Option<Payload>) -> Result<Payload, ActivityFailure>;
}

#[async_trait]
impl<A: Activity> AnyActivity for A {
    async fn run(&self, context: ActivityContext, input: Option<Payload>) -> Result<Payload, ActivityFailure> {
        let bad_input =
            |error: serde_json::Error| ActivityFailure::new("bad-input").details(&error.to_string()).non_retryable();
        let input = match &input {
            Some(input) => input.read().map_err(bad_input)?,
            None => serde_json::from_str("null").map_err(bad_input)?,
        };
        let output = Activity::run(self, context, input).await?;
        Payload::of(&output)
            .map_err(|error| ActivityFailure::new("bad-output").details(&error.to_string()).non_retryable())
    }
}

/// Polls one task list and runs activities.
pub struct Host {
    client: Client,
    list: String,
    identity: String,
    concurrency: usize,
    interval: Option<Duration>,
    drain_wait: Duration,
    workflow_id: Option<String>,
    activities: HashMap<String, Arc<dyn AnyActivity>>,
}

impl Host {
    /// Creates a host for one task list of the client's domain.
    pub fn new(client: Client, list: impl Into<String>) -> Self {
        let identity = format!("runner-{}", std::process::id());
        Self {
            client,
            list: list.into(),
            identity,
            concurrency: ACTIVITIES_AT_ONCE,
            interval: None,
            drain_wait: DRAIN_WAIT,
            workflow_id: None,
            activities: HashMap::new(),
        }
    }

    /// Registers this activity. If an activity of the same type is already registered, replaces it.
    #[must_use]
    pub fn register(mut self, activity: impl Activity) -> Self {
        self.activities.insert(activity.activity_type().to_owned(), Arc::new(activity));
        self
    }

    /// Sets the maximum number of concurrent activities. Default: 16. Further activities wait on the task list. Each
    /// activity that has to wait costs the service an additional commit. Therefore set this to the number of activities
    /// that the host can handle.
    #[must_use]
    pub fn concurrency(mut self, activities: usize) -> Self {
        self.concurrency = activities.max(1);
        self
    }

    /// Limits the number of activities taken per second, evenly spaced. Default: no limit. A value of at most 0 means
    /// no limit.
    #[must_use]
    pub fn rate_limit(mut self, per_second: f64) -> Self {
        self.interval = (per_second > 0.0).then(|| Duration::try_from_secs_f64(1.0 / per_second).ok()).flatten();
        self
    }

    /// Takes only activities of the run with this workflow id, to debug that run. While the host polls, it gets these
    /// activities before the other hosts of the list, which continue with all other runs.
    #[must_use]
    pub fn only_workflow(mut self, workflow_id: impl Into<String>) -> Self {
        self.workflow_id = Some(workflow_id.into());
        self
    }

    /// Sets the identity that the history records for this host. Default: derived from the process id.
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = identity.into();
        self
    }

    /// Sets the time for which activities may continue after the host was asked to stop. Default: 30 seconds.
    /// Activities that are still running after this time are dropped at their next await. They get no answer and time
    /// out.
    #[must_use]
    pub fn drain_wait(mut self, wait: impl Into<Duration>) -> Self {
        self.drain_wait = wait.into();
        self
    }

    /// Runs until SIGTERM or Ctrl-C, then finishes the activities that it has taken.
    pub async fn run(self) {
        self.run_until(baton_client::shutdown::requested()).await;
    }

    /// Runs until `stop` resolves, then finishes the activities that it has taken.
    pub async fn run_until(self, stop: impl Future<Output = ()>) {
        let Self { client, list, identity, concurrency, interval, drain_wait, workflow_id, activities } = self;
        let at_once = concurrency;
        let settings = ExchangeSettings { identity, at_once, interval, workflow_id, ..ExchangeSettings::default() };
        let worker = Arc::new(ActivityWorker { client: client.clone(), list: list.clone(), activities });
        if !exchange::host(client, &list, settings, worker, stop, Some(drain_wait)).await {
            tracing::warn!("some activities did not finish before the host stopped; their timeouts will end them");
        }
    }
}

/// Runs the activities of a host.
struct ActivityWorker {
    client: Client,
    list: String,
    activities: HashMap<String, Arc<dyn AnyActivity>>,
}

/// Identification of an answered activity.
struct OfActivity {
    token: String,
    workflow_id: Arc<str>,
    activity_id: Arc<str>,
    patience: Duration,
    /// True if this answer is a failure that replaces an answer which the service has refused.
    is_refused: bool,
}

impl Works<ActivityKind> for ActivityWorker {
    type Context = OfActivity;

    async fn work(self: Arc<Self>, task: ActivityTask) -> TaskReply<ActivityKind, OfActivity> {
        let trace = task.trace();
        let span = tracing::info_span!(
            "activity",
            workflow_id = task.workflow_id,
            run_id = %task.run_id,
            activity_id = task.activity_id,
            activity_type = task.activity_type,
            attempt = task.attempt,
            traceparent = trace.as_ref().map(|trace| tracing::field::display(trace.traceparent)),
        );
        put_below(&span, trace.as_ref());
        let client = self.client.clone().within(trace.as_ref());
        let ActivityTask { token, workflow_id, run_id, activity_id, activity_type, timeouts, input, .. } = task;
        let began = Instant::now();
        let (cancel, canceled) = watch::channel(false);
        let context = ActivityContext {
            workflow_id: workflow_id.as_str().into(),
            run_id,
            activity_id: activity_id.as_str().into(),
            scheduled_event_id: task.scheduled_event_id,
            attempt: task.attempt,
            timeouts,
            // Until this attempt sets details, its heartbeats repeat the details of the previous attempt, so that they
            // are not lost for the next attempt.
            details: Arc::new(watch::Sender::new(task.heartbeat_details.clone())),
            last_details: task.heartbeat_details,
            canceled,
            output: Arc::default(),
            trace,
        };
        let outcome = match self.activities.get(&activity_type).map(Arc::clone) {
            None => {
                let message = format!("no activity `{activity_type}` on this runner of `{}`", self.list);
                Err(ActivityFailure::new("unknown-activity-type").details(&message).non_retryable())
            }
            Some(activity) => run_activity(activity, &client, &token, &context, input, &cancel).instrument(span).await,
        };
        let wait = timeouts.start_to_close.map_or(ANSWER_WAIT, Duration::from);
        let patience = wait.saturating_sub(began.elapsed()).max(Duration::from_secs(1));
        let (workflow_id, activity_id) = (Arc::clone(&context.workflow_id), Arc::clone(&context.activity_id));
        let of = OfActivity { token: token.clone(), workflow_id, activity_id, patience, is_refused: false };
        TaskReply { reply: reply(token, &context, outcome), patience, context: of }
    }

    fn answered(&self, of: OfActivity, outcome: Result<Outcome, Error>) -> Option<TaskReply<ActivityKind, OfActivity>> {
        let (workflow_id, activity_id) = (&*of.workflow_id, &*of.activity_id);
        match outcome {
            Ok(Outcome::Recorded | Outcome::RecordedBefore) => None,
            Ok(Outcome::Lost(error)) => {
                tracing::info!(%error, workflow_id, activity_id, "answer discarded: too late");
                None
            }
            Err(error) => {
                tracing::error!(%error, workflow_id, activity_id, "answer refused by the service");
                if error.is_retryable() || of.is_refused {
                    return None;
                }
                // The answer itself is invalid, e.g. too large. The host reports this failure instead of letting the
                // activity time out.
                let (reason, details) = ("answer-refused".to_owned(), Payload::of(&error.to_string()).ok());
                let failure = FailActivity { reason, details, non_retryable: true, retry_after: None };
                let reply =
                    ActivityReply { token: of.token.clone(), failure: Some(failure), ..ActivityReply::default() };
                Some(TaskReply { reply, patience: of.patience, context: OfActivity { is_refused: true, ..of } })
            }
        }
    }
}

/// Runs one activity. A panic becomes a failure.
async fn run_activity(
    activity: Arc<dyn AnyActivity>,
    client: &Client,
    token: &str,
    context: &ActivityContext,
    input: Option<Payload>,
    cancel: &watch::Sender<bool>,
) -> Result<Payload, ActivityFailure> {
    let heartbeats = send_heartbeats(client, token, context, cancel);
    let link = OutputLink { output: &context.output, client, token, cancel };
    let sending = output::send(&link);
    let running = context.clone();
    let work = AssertUnwindSafe(async move { activity.run(running, input).await }.in_current_span()).catch_unwind();
    let done = if context.timeouts.heartbeat.is_none() {
        tokio::select! {
            done = work => done,
            never = heartbeats => match never {},
            never = sending => match never {},
        }
    } else {
        // Runs in a separate task, so that heartbeats continue while the activity blocks its thread.
        let mut alone = JoinSet::new();
        alone.spawn(work);
        tokio::select! {
            Some(joined) = alone.join_next() => joined?,
            never = heartbeats => match never {},
            never = sending => match never {},
        }
    };
    // The service accepts no output after the answer.
    if context.output.has_chunks() {
        // Boxed, because most activities have no output.
        Box::pin(output::flush(&link)).await;
    }
    done.unwrap_or_else(|panic| {
        let (workflow_id, activity_id) = (&*context.workflow_id, &*context.activity_id);
        let message = baton_client::shutdown::panic_message(&*panic);
        tracing::error!(workflow_id, activity_id, message, "an activity panicked");
        Err(ActivityFailure::new("panic").details(&message))
    })
}

/// Sends heartbeats while an activity runs, and sets `cancel` when it should stop. Each heartbeat waits at the service
/// until the next one, so that a cancel request is noticed at once.
async fn send_heartbeats(
    client: &Client,
    token: &str,
    context: &ActivityContext,
    cancel: &watch::Sender<bool>,
) -> std::convert::Infallible {
    let timeout = context.timeouts.heartbeat.map(Duration::from);
    let mut details = context.details.subscribe();
    if timeout.is_none() && details.changed().await.is_err() {
        return std::future::pending().await;
    }
    let every = timeout.map_or(DETAILS_EVERY, |timeout| timeout / 3).clamp(HEARTBEATS_EVERY_MIN, HEARTBEATS_EVERY_MAX);
    let mut due = Instant::now() + timeout.map_or(Duration::ZERO, |_| every.min(FIRST_HEARTBEAT));
    let mut waiting = FuturesUnordered::new();
    loop {
        let answered = tokio::select! {
            biased;
            Some(answered) = waiting.next() => answered,
            () = tokio::time::sleep_until(due), if waiting.len() < HEARTBEATS_AT_ONCE => {
                due = Instant::now() + every;
                let newest = details.borrow_and_update().clone();
                waiting.push(send_heartbeat(client, token, newest, (!context.is_canceled()).then_some(every)));
                continue;
            }
        };
        match answered {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => drop(cancel.send_replace(true)),
            Ok(Err(error)) if error.is_retryable() => tracing::debug!(%error, "a heartbeat was lost"),
            Ok(Err(error)) => {
                tracing::info!(%error, "the activity is no longer open and should stop");
                cancel.send_replace(true);
                return std::future::pending().await;
            }
            Err(error) => tracing::debug!(%error, "a heartbeat was lost"),
        }
    }
}

/// Sends a heartbeat in a separate task. If the activity ends while the heartbeat waits, the service answers it when it
/// has recorded the end. The task receives that answer, so that the connection can be used again.
fn send_heartbeat(
    client: &Client,
    token: &str,
    details: Option<Payload>,
    wait: Option<Duration>,
) -> JoinHandle<Result<bool, Error>> {
    let (client, token) = (client.clone(), token.to_owned());
    let beat = async move {
        match wait {
            Some(wait) => client.heartbeat_and_wait(&token, details, wait).await.map(|result| result.cancel_requested),
            None => client.heartbeat(&token, details).await,
        }
    };
    tokio::spawn(beat.in_current_span())
}

/// Returns the answer to an activity with this outcome.
fn reply(token: String, context: &ActivityContext, outcome: Result<Payload, ActivityFailure>) -> ActivityReply {
    let reply = ActivityReply { token, ..ActivityReply::default() };
    match outcome {
        Ok(result) => ActivityReply { success: Some(SucceedActivity { result: Some(result) }), ..reply },
        Err(failure) if failure.is_cancellation && context.is_canceled() => {
            ActivityReply { canceled: Some(CancelActivity { details: failure.details }), ..reply }
        }
        Err(ActivityFailure { reason, details, non_retryable, retry_after, .. }) => {
            let failure = FailActivity { reason, details, non_retryable, retry_after };
            ActivityReply { failure: Some(failure), ..reply }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_future_of_an_activity_is_small() {
        let client = Client::new("localhost:7420").unwrap();
        let worker = ActivityWorker { client, list: "l".to_owned(), activities: HashMap::new() };
        let task = json!({
            "token": "t", "domain": "default", "workflowId": "w", "runId": "00000000-0000-0000-0000-000000000000",
            "workflowType": "order", "taskList": "l", "activityId": "a", "activityType": "b", "scheduledEventId": 5,
            "attempt": 1, "timeouts": {},
        });
        let size = size_of_val(&Arc::new(worker).work(serde_json::from_value(task).unwrap()));
        // The host moves this future for every activity. When it contained the future of a heartbeat, it was one and a
        // half times as large.
        assert!(size <= 2_560, "{size}");
    }
}
