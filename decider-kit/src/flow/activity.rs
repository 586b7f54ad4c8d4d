//! Activities, awaited.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use baton_history::{Duration, Payload, RetryPolicy, ScheduleActivity};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::core::{On, lock};
use super::wait::WaitFuture;
use crate::failure::Failure;
use crate::payload::payload;

impl Context {
    /// An activity with this type and input, whose result is an `O`. It is scheduled when it is first awaited (or polled,
    /// e.g. by `join!`), and asked to stop when it is dropped before it has ended.
    pub fn activity<O: DeserializeOwned>(
        &self,
        activity_type: impl Into<String>,
        input: &(impl Serialize + ?Sized),
    ) -> ActivityFuture<O> {
        ActivityFuture::new(self.clone(), activity_type.into(), payload(input))
    }
}

/// An activity: first its description, and a future of its result once it is awaited. See [`Context::activity`].
#[must_use = "an activity is scheduled when it is awaited, started or detached"]
pub struct ActivityFuture<O> {
    context: Context,
    of_type: String,
    stage: ActivityStage,
    outlasts_cancel: bool,
    result: PhantomData<fn() -> O>,
}

enum ActivityStage {
    /// Described; without an id unless one was given.
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

    /// Sets anything that the decision has. Nothing once the activity is scheduled.
    pub fn with(mut self, set: impl FnOnce(&mut ScheduleActivity)) -> Self {
        if let ActivityStage::Described(described) = &mut self.stage {
            set(described);
        }
        self
    }

    /// With this id, unique among the run's open activities; its type unless set, with a number from the second on.
    pub fn id(self, activity_id: impl Into<String>) -> Self {
        self.with(|it| it.activity_id = activity_id.into())
    }

    /// On this task list; without it on the run's own.
    pub fn list(self, task_list: impl Into<String>) -> Self {
        self.with(|it| it.task_list = Some(task_list.into()))
    }

    /// From ActivityStarted to the answer, at most.
    pub fn start_to_close(self, limit: Duration) -> Self {
        self.with(|it| it.timeouts.start_to_close = Some(limit))
    }

    /// From ActivityScheduled to ActivityStarted, at most.
    pub fn schedule_to_start(self, limit: Duration) -> Self {
        self.with(|it| it.timeouts.schedule_to_start = Some(limit))
    }

    /// From ActivityScheduled to the answer, at most.
    pub fn schedule_to_close(self, limit: Duration) -> Self {
        self.with(|it| it.timeouts.schedule_to_close = Some(limit))
    }

    /// From one heartbeat to the next, at most.
    pub fn heartbeat(self, limit: Duration) -> Self {
        self.with(|it| it.timeouts.heartbeat = Some(limit))
    }

    /// Tried again by the service after a failure or a timeout, without events and without a turn; the flow hears of the
    /// last try.
    pub fn retry(self, policy: RetryPolicy) -> Self {
        self.with(|it| it.retry = Some(policy))
    }

    /// When the scope is canceled, the activity is asked to stop and waited for all the same; otherwise the wait ends with
    /// the asking.
    pub fn outlasts_cancel(mut self) -> Self {
        self.outlasts_cancel = true;
        self
    }

    /// Schedules it now, to be awaited later. In a canceled scope nothing is scheduled.
    pub fn start(mut self) -> Self {
        if self.context.cancellation().is_none() {
            self.schedule();
        }
        self
    }

    /// Schedules it now, and leaves it to itself: no one waits for it, and nothing cancels it.
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
        let waiting = self.context.wait(On::Activity {
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
