//! Polling a task list and running activities on what comes.

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
use futures_util::FutureExt as _;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tracing::Instrument as _;

use crate::{Activity, Context, Failure};

/// How long to go on trying to deliver an answer where the activity has no start-to-close timeout.
const ANSWER_WAIT: Duration = Duration::from_secs(300);

/// How often an activity without a heartbeat timeout that gives details sends them.
const DETAILS_EVERY: Duration = Duration::from_secs(10);

/// How long activities may go on after the host was asked to stop, unless set otherwise.
const DRAIN_WAIT: Duration = Duration::from_secs(30);

/// Activities at the same time, unless set. Ours: what a program that waits for others does with ease, and one that computes can bear.
const ACTIVITIES_AT_ONCE: usize = 16;

/// An activity, its types forgotten.
#[async_trait]
trait AnyActivity: Send + Sync {
    async fn run(&self, context: Context, input: Option<Payload>) -> Result<Payload, Failure>;
}

#[async_trait]
impl<A: Activity> AnyActivity for A {
    async fn run(&self, context: Context, input: Option<Payload>) -> Result<Payload, Failure> {
        let bad_input =
            |error: serde_json::Error| Failure::new("bad-input").details(&error.to_string()).non_retryable();
        let input = match &input {
            Some(input) => input.read().map_err(bad_input)?,
            None => serde_json::from_str("null").map_err(bad_input)?,
        };
        let output = Activity::run(self, context, input).await?;
        Payload::of(&output).map_err(|error| Failure::new("bad-output").details(&error.to_string()).non_retryable())
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
    activities: HashMap<String, Arc<dyn AnyActivity>>,
}

impl Host {
    /// A host for one task list of the client's domain.
    pub fn new(client: Client, list: impl Into<String>) -> Self {
        let identity = format!("runner-{}", std::process::id());
        let (concurrency, interval, drain_wait) = (ACTIVITIES_AT_ONCE, None, DRAIN_WAIT);
        Self { client, list: list.into(), identity, concurrency, interval, drain_wait, activities: HashMap::new() }
    }

    /// Runs this activity. A later one of the same type replaces it.
    #[must_use]
    pub fn register(mut self, activity: impl Activity) -> Self {
        self.activities.insert(activity.activity_type().to_owned(), Arc::new(activity));
        self
    }

    /// Activities at the same time; 16 unless set. Those that find no room wait on their list, and taking each from there costs the service a
    /// commit more: give a host as many as it can do at once.
    #[must_use]
    pub fn concurrency(mut self, activities: usize) -> Self {
        self.concurrency = activities.max(1);
        self
    }

    /// Takes at most so many activities a second, evenly spaced; no limit unless set. Not above zero means no limit.
    #[must_use]
    pub fn rate_limit(mut self, per_second: f64) -> Self {
        self.interval = (per_second > 0.0).then(|| Duration::try_from_secs_f64(1.0 / per_second).ok()).flatten();
        self
    }

    /// How the history names this host; its process id unless set.
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = identity.into();
        self
    }

    /// How long activities may go on after the host was asked to stop; 30 seconds unless set. Those that are not done
    /// then are stopped where they wait next, and left to their timeouts.
    #[must_use]
    pub fn drain_wait(mut self, wait: Duration) -> Self {
        self.drain_wait = wait;
        self
    }

    /// Runs until SIGTERM or ctrl-c, then finishes the activities in hand.
    pub async fn run(self) {
        self.run_until(baton_client::shutdown::requested()).await;
    }

    /// Runs until `stop` resolves, then finishes the activities in hand.
    pub async fn run_until(self, stop: impl Future<Output = ()>) {
        let Self { client, list, identity, concurrency, interval, drain_wait, activities } = self;
        let asking = ExchangeSettings { identity, at_once: concurrency, interval, ..ExchangeSettings::default() };
        let worker = Arc::new(ActivityWorker { client: client.clone(), list: list.clone(), activities });
        if !exchange::host((client, &list), asking, worker, stop, Some(drain_wait)).await {
            tracing::warn!("some activities were not done in time and are left to their timeouts");
        }
    }
}

/// Does activities.
struct ActivityWorker {
    client: Client,
    list: String,
    activities: HashMap<String, Arc<dyn AnyActivity>>,
}

/// What is known of an activity that was answered.
struct OfActivity {
    token: String,
    workflow_id: Arc<str>,
    activity_id: Arc<str>,
    patience: Duration,
    /// It was said that its answer was refused.
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
        let context = Context {
            workflow_id: workflow_id.as_str().into(),
            run_id,
            activity_id: activity_id.as_str().into(),
            scheduled_event_id: task.scheduled_event_id,
            attempt: task.attempt,
            timeouts,
            // Beats without a word of this try go on saying what the last one said, for the next.
            details: Arc::new(watch::Sender::new(task.heartbeat_details.clone())),
            last_details: task.heartbeat_details,
            canceled,
            trace,
        };
        let outcome = match self.activities.get(&activity_type).map(Arc::clone) {
            None => {
                let message = format!("no activity `{activity_type}` on this runner of `{}`", self.list);
                Err(Failure::new("unknown-activity-type").details(&message).non_retryable())
            }
            Some(activity) => {
                run_activity(activity, (&client, &token), &context, input, &cancel).instrument(span).await
            }
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
                tracing::info!(%error, workflow_id, activity_id, "an answer came too late");
                None
            }
            Err(error) => {
                tracing::error!(%error, workflow_id, activity_id, "an answer was refused");
                if error.is_retryable() || of.is_refused {
                    return None;
                }
                // The answer itself is at fault, e.g. too large: say so rather than let the activity time out.
                let (reason, details) = ("answer-refused".to_owned(), Payload::of(&error.to_string()).ok());
                let failure = FailActivity { reason, details, non_retryable: true, retry_after: None };
                let reply =
                    ActivityReply { token: of.token.clone(), failure: Some(failure), ..ActivityReply::default() };
                Some(TaskReply { reply, patience: of.patience, context: OfActivity { is_refused: true, ..of } })
            }
        }
    }
}

/// Runs one activity; a panic is an outcome like any other.
async fn run_activity(
    activity: Arc<dyn AnyActivity>,
    (client, token): (&Client, &str),
    context: &Context,
    input: Option<Payload>,
    cancel: &watch::Sender<bool>,
) -> Result<Payload, Failure> {
    let beats = beat(client, token, context, cancel);
    let running = context.clone();
    let work = AssertUnwindSafe(async move { activity.run(running, input).await }.in_current_span()).catch_unwind();
    let done = if context.timeouts.heartbeat.is_none() {
        tokio::select! {
            done = work => done,
            never = beats => match never {},
        }
    } else {
        // A task of its own, so that beats go on while it keeps a thread to itself.
        let mut alone = JoinSet::new();
        alone.spawn(work);
        tokio::select! {
            Some(joined) = alone.join_next() => joined?,
            never = beats => match never {},
        }
    };
    done.unwrap_or_else(|panic| {
        let (workflow_id, activity_id) = (&*context.workflow_id, &*context.activity_id);
        let message = baton_client::shutdown::panic_message(&*panic);
        tracing::error!(workflow_id, activity_id, message, "an activity panicked");
        Err(Failure::new("panic").details(&message))
    })
}

/// Shows life while an activity runs, and hears whether it should stop.
async fn beat(
    client: &Client,
    token: &str,
    context: &Context,
    cancel: &watch::Sender<bool>,
) -> std::convert::Infallible {
    let timeout = context.timeouts.heartbeat.map(Duration::from);
    let mut details = context.details.subscribe();
    if timeout.is_none() && details.changed().await.is_err() {
        return std::future::pending().await;
    }
    let every = timeout.map_or(DETAILS_EVERY, |timeout| timeout / 3).max(Duration::from_millis(10));
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // With a timeout the first sign of life is due only after a while; ActivityStarted was one.
    if timeout.is_some() {
        ticks.tick().await;
    }
    loop {
        ticks.tick().await;
        let newest = details.borrow_and_update().clone();
        // Few activities come here, and each would have room for it.
        match Box::pin(client.heartbeat(token, newest)).await {
            Ok(false) => {}
            Ok(true) => {
                cancel.send_replace(true);
            }
            Err(error) if error.is_retryable() => tracing::debug!(%error, "a heartbeat was lost"),
            Err(error) => {
                tracing::info!(%error, "nobody waits for this activity any more");
                cancel.send_replace(true);
                return std::future::pending().await;
            }
        }
    }
}

/// What is answered to an activity that ended like this.
fn reply(token: String, context: &Context, outcome: Result<Payload, Failure>) -> ActivityReply {
    let reply = ActivityReply { token, ..ActivityReply::default() };
    match outcome {
        Ok(result) => ActivityReply { success: Some(SucceedActivity { result: Some(result) }), ..reply },
        Err(failure) if failure.is_cancellation && context.is_canceled() => {
            ActivityReply { canceled: Some(CancelActivity { details: failure.details }), ..reply }
        }
        Err(Failure { reason, details, non_retryable, retry_after, .. }) => {
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
    fn an_activity_takes_little_room() {
        let client = Client::new("localhost:7420").unwrap();
        let worker = ActivityWorker { client, list: "l".to_owned(), activities: HashMap::new() };
        let task = json!({
            "token": "t", "domain": "default", "workflowId": "w", "runId": "00000000-0000-0000-0000-000000000000", "workflowType": "order",
            "taskList": "l", "activityId": "a", "activityType": "b", "scheduledEventId": 5, "attempt": 1, "timeouts": {},
        });
        let size = size_of_val(&Arc::new(worker).work(serde_json::from_value(task).unwrap()));
        // Each activity moves all of it. It was half as much again when it had room for a heartbeat.
        assert!(size <= 2_560, "{size}");
    }
}
