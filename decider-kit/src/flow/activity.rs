//! Activities that a flow can await.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use baton_history::{Duration, Payload, RetryPolicy, ScheduleActivity};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::core::{WaitTarget, lock};
use super::wait::WaitFuture;
use crate::failure::Failure;
use crate::payload::payload;

impl Context {
    /// Returns a future of an activity's result, an `O`. The activity is scheduled when the future is first awaited or
    /// polled (for example by `join!`). Dropping the future before the activity has ended requests the activity's
    /// cancellation.
    pub fn activity<O: DeserializeOwned>(
        &self,
        activity_type: impl Into<String>,
        input: &(impl Serialize + ?Sized),
    ) -> ActivityFuture<O> {
        ActivityFuture::new(self.clone(), activity_type.into(), payload(input))
    }
}

/// An activity: a builder until it is scheduled, then a future of its result. See [`Context::activity`].
#[must_use = "an activity is scheduled only when it is awaited, started or detached"]
pub struct ActivityFuture<O> {
    context: Context,
    of_type: String,
    stage: ActivityStage,
    outlasts_cancel: bool,
    result: PhantomData<fn() -> O>,
}

enum ActivityStage {
    /// Not scheduled yet. The id is empty if the flow has chosen none.
    Described(Box<ScheduleActivity>),
    Scheduled(WaitFuture),
    Over,
}

impl<O> fmt::Debug for ActivityFuture<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActivityFuture").field("activity_type", &self.of_type).finish_non_exhaustive()
    }
}

impl<O> ActivityFuture<O> {
    pub(super) fn new(context: Context, of_type: String, input: Payload) -> Self {
        let described =
            ScheduleActivity { activity_type: of_type.clone(), input: Some(input), ..ScheduleActivity::default() };
        let stage = ActivityStage::Described(Box::new(described));
        Self { context, of_type, stage, outlasts_cancel: false, result: PhantomData }
    }

    /// Changes any field of the decision. Does nothing once the activity is scheduled.
    pub fn with(mut self, set: impl FnOnce(&mut ScheduleActivity)) -> Self {
        if let ActivityStage::Described(described) = &mut self.stage {
            set(described);
        }
        self
    }

    /// Sets the activity's id, which must be unique among the run's open activities. Default: its type, with a number
    /// appended from the second activity of that type on.
    pub fn id(self, activity_id: impl Into<String>) -> Self {
        self.with(|it| it.activity_id = activity_id.into())
    }

    /// Sets the task list. Default: the list of the activity type or, if the type sets none, of the run.
    pub fn list(self, task_list: impl Into<String>) -> Self {
        self.with(|it| it.task_list = Some(task_list.into()))
    }

    /// Sets the concurrency key, for the limits of the task list. Default: the run's key.
    pub fn concurrency_key(self, key: impl Into<String>) -> Self {
        self.with(|it| it.concurrency_key = Some(key.into()))
    }

    /// Limits the time from ActivityStarted to the runner's answer.
    pub fn start_to_close(self, limit: impl Into<Duration>) -> Self {
        self.with(|it| it.timeouts.start_to_close = Some(limit.into()))
    }

    /// Limits the time from ActivityScheduled to ActivityStarted.
    pub fn schedule_to_start(self, limit: impl Into<Duration>) -> Self {
        self.with(|it| it.timeouts.schedule_to_start = Some(limit.into()))
    }

    /// Limits the time from ActivityScheduled to the runner's answer.
    pub fn schedule_to_close(self, limit: impl Into<Duration>) -> Self {
        self.with(|it| it.timeouts.schedule_to_close = Some(limit.into()))
    }

    /// Limits the time between two heartbeats.
    pub fn heartbeat(self, limit: impl Into<Duration>) -> Self {
        self.with(|it| it.timeouts.heartbeat = Some(limit.into()))
    }

    /// Makes the service retry the activity after a failure or a timeout. A retry records no event and causes no turn.
    /// The flow sees only the outcome of the last attempt.
    pub fn retry(self, policy: RetryPolicy) -> Self {
        self.with(|it| it.retry = Some(policy))
    }

    /// Keeps waiting for the activity's end after the scope was canceled and the activity was asked to stop. By default
    /// the wait ends immediately.
    pub fn outlasts_cancel(mut self) -> Self {
        self.outlasts_cancel = true;
        self
    }

    /// Schedules the activity now, so that you can await it later. In a canceled scope nothing is scheduled.
    pub fn start(mut self) -> Self {
        if self.context.cancellation().is_none() {
            self.schedule();
        }
        self
    }

    /// Schedules the activity now and detaches it: the flow does not wait for it and never cancels it.
    pub fn detach(mut self) {
        if let ActivityStage::Described(described) = std::mem::replace(&mut self.stage, ActivityStage::Over) {
            let mut core = lock(self.context.shared());
            let described = named(*described, |name| core.id_for(name));
            core.issue(described, None);
        }
    }

    fn schedule(&mut self) {
        let ActivityStage::Described(described) = std::mem::replace(&mut self.stage, ActivityStage::Over) else {
            return;
        };
        let described = named(*described, |name| lock(self.context.shared()).id_for(name));
        let waiting = self.context.wait(WaitTarget::Activity {
            activity_id: described.activity_id.clone(),
            activity_type: described.activity_type.clone(),
            outlasts_cancel: self.outlasts_cancel,
        });
        lock(self.context.shared()).issue(described, waiting.key());
        self.stage = ActivityStage::Scheduled(waiting);
    }
}

fn named(mut described: ScheduleActivity, id_for: impl FnOnce(&str) -> String) -> ScheduleActivity {
    if described.activity_id.is_empty() {
        described.activity_id = id_for(&described.activity_type);
    }
    described
}

impl<O: DeserializeOwned> Future for ActivityFuture<O> {
    type Output = Result<O, Failure>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if matches!(this.stage, ActivityStage::Described(_)) {
            if let Some(canceled) = this.context.cancellation() {
                this.stage = ActivityStage::Over;
                return Poll::Ready(Err(canceled));
            }
            this.schedule();
        }
        let ActivityStage::Scheduled(waiting) = &mut this.stage else { return Poll::Pending };
        let Poll::Ready((event_id, outcome)) = waiting.poll(task) else { return Poll::Pending };
        this.stage = ActivityStage::Over;
        this.context.read_result(event_id, &this.of_type, outcome)
    }
}
