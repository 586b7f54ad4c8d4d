//! Polling a task list and running activities on what comes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use baton_client::body::{ActivityTask, CancelActivity, FailActivity, Next, PollActivity, SucceedActivity};
use baton_client::polls::Polls;
use baton_client::tasks::Outcome;
use baton_client::trace::put_below;
use baton_client::{Client, Error, Patience, Waits};
use baton_history::Payload;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tracing::Instrument as _;

use crate::{Activity, Context, Failure};

/// How long one poll waits for an activity.
const POLL_WAIT: Duration = Duration::from_secs(60);

/// How long to go on trying to deliver an answer where the activity has no start-to-close timeout.
const ANSWER_WAIT: Duration = Duration::from_secs(300);

/// How often an activity without a heartbeat timeout that gives details sends them.
const DETAILS_EVERY: Duration = Duration::from_secs(10);

/// How long activities may go on after the host was asked to stop, unless set otherwise.
const DRAIN_WAIT: Duration = Duration::from_secs(30);

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
        let (concurrency, interval, drain_wait) = (4, None, DRAIN_WAIT);
        Self { client, list: list.into(), identity, concurrency, interval, drain_wait, activities: HashMap::new() }
    }

    /// Runs this activity. A later one of the same type replaces it.
    #[must_use]
    pub fn register(mut self, activity: impl Activity) -> Self {
        self.activities.insert(activity.activity_type().to_owned(), Arc::new(activity));
        self
    }

    /// Activities at the same time; 4 unless set.
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
    /// then are left to their timeouts.
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
        let (stopping, stopped) = watch::channel(false);
        let drain_wait = self.drain_wait;
        let pace = self.interval.map(|interval| Arc::new(Mutex::new(Pace { interval, next: Instant::now() })));
        let concurrency = self.concurrency;
        let shared = Arc::new(self);
        let mut slots = JoinSet::new();
        for _ in 0..concurrency {
            let (host, stopped, pace) = (Arc::clone(&shared), stopped.clone(), pace.clone());
            slots.spawn(Slot { host, stopped, pace }.run());
        }
        stop.await;
        // Slots that only wait for an activity end at once; those that hold one finish it.
        stopping.send_replace(true);
        let drained = async { while slots.join_next().await.is_some() {} };
        if tokio::time::timeout(drain_wait, drained).await.is_err() {
            tracing::warn!("some activities were not done in time and are left to their timeouts");
        }
    }
}

/// Spaces the activities of all slots out.
struct Pace {
    interval: Duration,
    next: Instant,
}

/// One activity at a time.
struct Slot {
    host: Arc<Host>,
    stopped: watch::Receiver<bool>,
    pace: Option<Arc<Mutex<Pace>>>,
}

impl Slot {
    fn is_stopped(&self) -> bool {
        *self.stopped.borrow()
    }

    async fn run(self) {
        let mut waits = Waits::new(Patience::Endless);
        let mut polls = Polls::default();
        let mut task = None;
        loop {
            if let Some(activity) = task.take() {
                task = self.activity(activity, &mut polls).await;
                continue;
            }
            if self.is_stopped() || baton_client::shutdown::unless(&self.stopped, self.keep_pace()).await.is_none() {
                return;
            }
            match baton_client::shutdown::unless(&self.stopped, self.poll(&mut polls)).await {
                None => return,
                Some(Ok(polled)) => {
                    waits.reset();
                    task = polled;
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, list = self.host.list, "polling failed");
                    let wait = waits.after(&error).unwrap_or(Duration::from_secs(10));
                    if baton_client::shutdown::unless(&self.stopped, tokio::time::sleep(wait)).await.is_none() {
                        return;
                    }
                }
            }
        }
    }

    async fn keep_pace(&self) {
        let Some(pace) = &self.pace else { return };
        let mine = {
            let mut pace = pace.lock().await;
            let mine = pace.next.max(Instant::now());
            pace.next = mine + pace.interval;
            mine
        };
        tokio::time::sleep_until(mine).await;
    }

    async fn poll(&self, polls: &mut Polls) -> Result<Option<ActivityTask>, Error> {
        let (identity, poll_id) = (Some(self.host.identity.clone()), Some(polls.id()));
        let poll = PollActivity { identity, poll_id, attempt: polls.attempt() };
        let polled = self.host.client.poll_activity(&self.host.list, &poll, POLL_WAIT).await;
        polls.heard(&polled);
        polled
    }

    fn next(&self, polls: &Polls) -> Option<Next> {
        let (identity, poll_id) = (Some(self.host.identity.clone()), Some(polls.id()));
        // With a rate limit the next activity must wait for its turn; while stopping none is asked for.
        let wants = !self.is_stopped() && self.pace.is_none();
        wants.then(|| Next { wait: Some(POLL_WAIT.as_secs_f64()), identity, poll_id, ..Next::default() })
    }

    /// Runs one activity and answers it; the next one, if it came with the answer's answer.
    async fn activity(&self, task: ActivityTask, polls: &mut Polls) -> Option<ActivityTask> {
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
        let client = self.host.client.clone().within(trace.as_ref());
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
        let outcome = match self.host.activities.get(&activity_type).map(Arc::clone) {
            None => {
                let message = format!("no activity `{activity_type}` on this runner of `{}`", self.host.list);
                Err(Failure::new("unknown-activity-type").details(&message).non_retryable())
            }
            Some(activity) => self.work(activity, (&client, &token), &context, input, &cancel).instrument(span).await,
        };
        let wait = timeouts.start_to_close.map_or(ANSWER_WAIT, Duration::from);
        let patience = Patience::For(wait.saturating_sub(began.elapsed()).max(Duration::from_secs(1)));
        let next = self.next(polls);
        let answer = answer(&client, &token, &context, outcome, next, patience);
        let answered = baton_client::shutdown::unless_idle(&self.stopped, answer).await;
        // Whatever was polled for with the answer: only with a clean one is it known what became of it.
        match &answered {
            Some(Ok(Outcome::Recorded(_))) => polls.answered(),
            _ => polls.lost(),
        }
        match answered {
            None | Some(Ok(Outcome::RecordedBefore)) => None,
            Some(Ok(Outcome::Recorded(next))) => next,
            Some(Ok(Outcome::Lost(error))) => {
                tracing::info!(%error, workflow_id, activity_id, "an answer came too late");
                None
            }
            Some(Err(error)) => {
                tracing::error!(%error, workflow_id, activity_id, "an answer was refused");
                if !error.is_retryable() {
                    // The answer itself is at fault, e.g. too large: say so rather than let the activity time out.
                    let details = Payload::of(&error.to_string()).ok();
                    let reason = "answer-refused".to_owned();
                    let fail = FailActivity { reason, details, non_retryable: true, retry_after: None, next: None };
                    if let Err(error) = client.fail_activity(&token, &fail, patience).await {
                        tracing::warn!(%error, workflow_id, activity_id, "a failure could not be reported");
                    }
                }
                None
            }
        }
    }

    /// Runs one activity; a panic is an outcome like any other.
    async fn work(
        &self,
        activity: Arc<dyn AnyActivity>,
        (client, token): (&Client, &str),
        context: &Context,
        input: Option<Payload>,
        cancel: &watch::Sender<bool>,
    ) -> Result<Payload, Failure> {
        let beats = beat(client, token, context, cancel);
        let running = context.clone();
        // A task of its own, so that a panic does not take the slot along.
        let mut work = tokio::spawn(async move { activity.run(running, input).await }.in_current_span());
        let joined = tokio::select! {
            joined = &mut work => joined,
            never = beats => match never {},
        };
        joined.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => {
                let (workflow_id, activity_id) = (&*context.workflow_id, &*context.activity_id);
                let message = baton_client::shutdown::panic_message(&*panic);
                tracing::error!(workflow_id, activity_id, message, "an activity panicked");
                Err(Failure::new("panic").details(&message))
            }
            Err(error) => Err(error.into()),
        })
    }
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
        match client.heartbeat(token, newest).await {
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

/// Answers an activity; the next one comes with that, if it was asked for.
async fn answer(
    client: &Client,
    token: &str,
    context: &Context,
    outcome: Result<Payload, Failure>,
    next: Option<Next>,
    patience: Patience,
) -> Result<Outcome<ActivityTask>, Error> {
    match outcome {
        Ok(result) => client.succeed_activity(token, &SucceedActivity { result: Some(result), next }, patience).await,
        Err(failure) if failure.is_cancellation && context.is_canceled() => {
            let cancel = CancelActivity { details: failure.details, next };
            client.cancel_activity(token, &cancel, patience).await
        }
        Err(Failure { reason, details, non_retryable, retry_after, .. }) => {
            let fail = FailActivity { reason, details, non_retryable, retry_after, next };
            client.fail_activity(token, &fail, patience).await
        }
    }
}
