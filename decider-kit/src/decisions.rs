//! Builders for the decisions of a turn.

use baton_history::event::{ActivityTimeouts, TurnList};
use baton_history::{
    CancelActivity, CancelExternal, CancelTimer, CancelWorkflow, ContinueAsNew, Decision, Duration, FailWorkflow,
    Payload, RecordMarker, RetryPolicy, ScheduleActivity, SignalExternal, StartChild, StartTimer, SucceedWorkflow,
    UpdateAnswer, Verdict,
};
use serde::Serialize;

use crate::failure::Failure;
use crate::payload::payload;

/// Decisions of a turn, in order. An empty list is valid: the run waits for the next event.
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use]
#[expect(clippy::struct_field_names, reason = "the field holds the decisions that the type is named after")]
pub struct Decisions {
    pub(crate) decisions: Vec<Decision>,
    pub(crate) context: Option<Payload>,
    pub(crate) awaiting: Vec<String>,
    pub(crate) moves: Option<TurnList>,
    pub(crate) updates: Vec<UpdateAnswer>,
    pub(crate) given_back: Option<GivenBack>,
}

/// Reason and message with which a decider gives a turn back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GivenBack {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// An activity to schedule.
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use]
pub struct Activity(ScheduleActivity);

/// Options shared by [`Child`] and the awaited child of a flow.
macro_rules! child_options {
    () => {
        /// Sets the task list that the child's deciders poll. Default: the list of the child's workflow type or, if the
        /// type sets none, of the parent.
        pub fn list(self, task_list: impl Into<String>) -> Self {
            self.with(|it| it.task_list = Some(task_list.into()))
        }

        /// Sets the concurrency key of the child's tasks, for the limits of task lists. Default: the parent's key.
        pub fn concurrency_key(self, key: impl Into<String>) -> Self {
            self.with(|it| it.concurrency_key = Some(key.into()))
        }

        /// Sets whether the id of a closed run may be used again. Default: only if that run did not succeed.
        pub fn reuse(self, reuse_policy: baton_history::ReusePolicy) -> Self {
            self.with(|it| it.reuse_policy = reuse_policy)
        }

        /// Limits the time from start to close of one run of the child.
        pub fn run_timeout(self, limit: impl Into<baton_history::Duration>) -> Self {
            self.with(|it| it.run_timeout = Some(limit.into()))
        }

        /// Makes the service retry the child under this policy when it fails or exceeds its run timeout. The parent
        /// sees only the outcome of the last attempt.
        pub fn retry(self, policy: baton_history::RetryPolicy) -> Self {
            self.with(|it| it.retry = Some(policy))
        }

        /// Sets the policy for the child if this run closes first. Default: the child is terminated.
        pub fn policy(self, child_policy: baton_history::event::ChildPolicy) -> Self {
            self.with(|it| it.child_policy = child_policy)
        }
    };
}
pub(crate) use child_options;

/// A child to start.
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use]
pub struct Child(StartChild);

impl Child {
    /// Creates a child with this workflow id and type.
    pub fn new(workflow_id: impl Into<String>, workflow_type: impl Into<String>) -> Self {
        let (workflow_id, workflow_type) = (workflow_id.into(), workflow_type.into());
        Self(StartChild { workflow_id, workflow_type, ..StartChild::default() })
    }

    child_options!();

    /// Sets the input.
    pub fn input<T: Serialize + ?Sized>(self, input: &T) -> Self {
        self.with(|it| it.input = Some(payload(input)))
    }

    /// Changes any field of the decision.
    pub fn with(mut self, set: impl FnOnce(&mut StartChild)) -> Self {
        set(&mut self.0);
        self
    }
}

impl Activity {
    /// Creates an activity of this type. `activity_id` is a name that you choose. It must be unique among the run's
    /// open activities.
    pub fn new(activity_id: impl Into<String>, activity_type: impl Into<String>) -> Self {
        Self(ScheduleActivity {
            activity_id: activity_id.into(),
            activity_type: activity_type.into(),
            ..ScheduleActivity::default()
        })
    }

    /// Sets the task list. Default: the list of the activity type or, if the type sets none, of the run.
    pub fn list(mut self, task_list: impl Into<String>) -> Self {
        self.0.task_list = Some(task_list.into());
        self
    }

    /// Sets the concurrency key, for the limits of the task list. Default: the run's key.
    pub fn concurrency_key(mut self, key: impl Into<String>) -> Self {
        self.0.concurrency_key = Some(key.into());
        self
    }

    /// Sets the input.
    pub fn input<T: Serialize + ?Sized>(mut self, input: &T) -> Self {
        self.0.input = Some(payload(input));
        self
    }

    /// Limits the time from ActivityStarted to the runner's answer.
    pub fn start_to_close(mut self, limit: impl Into<Duration>) -> Self {
        self.0.timeouts.start_to_close = Some(limit.into());
        self
    }

    /// Limits the time from ActivityScheduled to ActivityStarted.
    pub fn schedule_to_start(mut self, limit: impl Into<Duration>) -> Self {
        self.0.timeouts.schedule_to_start = Some(limit.into());
        self
    }

    /// Limits the time from ActivityScheduled to the runner's answer.
    pub fn schedule_to_close(mut self, limit: impl Into<Duration>) -> Self {
        self.0.timeouts.schedule_to_close = Some(limit.into());
        self
    }

    /// Limits the time between two heartbeats.
    pub fn heartbeat(mut self, limit: impl Into<Duration>) -> Self {
        self.0.timeouts.heartbeat = Some(limit.into());
        self
    }

    /// Makes the service retry the activity after a failure or a timeout. A retry records no event and causes no turn.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.0.retry = Some(policy);
        self
    }

    /// Sets all timeouts. An absent timeout has the default of the activity type or, if the type sets none, of the run.
    pub fn timeouts(mut self, timeouts: ActivityTimeouts) -> Self {
        self.0.timeouts = timeouts;
        self
    }
}

impl Decisions {
    /// Creates an empty list of decisions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the turn back instead of deciding it: DeciderFailed is recorded with this reason (1 to 256 characters) and
    /// message. The run stays open, and the service hands the turn out again after a delay. Any other decisions of the
    /// turn are dropped.
    pub fn give_back(reason: impl Into<String>, message: impl Into<String>) -> Self {
        let given_back = Some(GivenBack { reason: reason.into(), message: message.into() });
        Self { given_back, ..Self::default() }
    }

    /// Returns the message of [`Decisions::give_back`], if the turn is given back.
    pub fn given_back(&self) -> Option<&str> {
        self.given_back.as_ref().map(|it| it.message.as_str())
    }

    /// Adds any decision.
    pub fn push(mut self, decision: impl Into<Decision>) -> Self {
        self.decisions.push(decision.into());
        self
    }

    /// Appends the decisions of `other`.
    pub fn and(mut self, other: Self) -> Self {
        self.decisions.extend(other.decisions);
        self.context = other.context.or(self.context);
        self.awaiting.extend(other.awaiting);
        self.updates.extend(other.updates);
        self.given_back = self.given_back.or(other.given_back);
        self
    }

    /// Schedules an activity.
    pub fn schedule(self, activity: Activity) -> Self {
        self.push(activity.0)
    }

    /// Requests the cancellation of an open activity.
    pub fn cancel_activity(self, activity_id: impl Into<String>) -> Self {
        self.push(CancelActivity { activity_id: activity_id.into() })
    }

    /// Starts a timer.
    pub fn timer(self, timer_id: impl Into<String>, after: impl Into<Duration>) -> Self {
        self.push(StartTimer { timer_id: timer_id.into(), after: after.into(), control: None })
    }

    /// Cancels a timer.
    pub fn cancel_timer(self, timer_id: impl Into<String>) -> Self {
        self.push(CancelTimer { timer_id: timer_id.into() })
    }

    /// Starts a child.
    pub fn child(self, child: Child) -> Self {
        self.push(child.0)
    }

    /// Signals the newest run of another workflow id.
    pub fn signal_external<T: Serialize + ?Sized>(
        self,
        workflow_id: impl Into<String>,
        name: impl Into<String>,
        input: &T,
    ) -> Self {
        let (workflow_id, name) = (workflow_id.into(), name.into());
        self.push(SignalExternal { workflow_id, run_id: None, name, input: Some(payload(input)), control: None })
    }

    /// Requests the cancellation of the newest run of another workflow id.
    pub fn cancel_external(self, workflow_id: impl Into<String>) -> Self {
        self.push(CancelExternal { workflow_id: workflow_id.into(), ..CancelExternal::default() })
    }

    /// Records a marker.
    pub fn marker<T: Serialize + ?Sized>(self, name: impl Into<String>, details: &T) -> Self {
        self.push(RecordMarker { name: name.into(), details: Some(payload(details)) })
    }

    /// Closes the run as succeeded.
    pub fn succeed<T: Serialize + ?Sized>(self, result: &T) -> Self {
        self.push(SucceedWorkflow { result: Some(payload(result)), force: false })
    }

    /// Closes the run as failed.
    pub fn fail<T: Serialize + ?Sized>(self, reason: impl Into<String>, details: &T) -> Self {
        self.push(FailWorkflow { reason: reason.into(), details: Some(payload(details)), ..FailWorkflow::default() })
    }

    /// Closes the run with this failure: as canceled if it [is a cancellation](Failure::is_canceled), otherwise as
    /// failed with its reason and details.
    pub fn fail_with(self, failure: Failure) -> Self {
        self.push(failure.closing())
    }

    /// Closes the run as canceled.
    pub fn cancel<T: Serialize + ?Sized>(self, details: &T) -> Self {
        self.push(CancelWorkflow { details: Some(payload(details)), force: false })
    }

    /// Closes the run and continues it in a new run with this input and an empty history.
    pub fn continue_as_new<T: Serialize + ?Sized>(self, input: &T) -> Self {
        self.push(ContinueAsNew { input: Some(payload(input)), ..ContinueAsNew::default() })
    }

    /// Forces the preceding closing decision: the run closes even if new events were recorded after this turn started.
    pub fn force(mut self) -> Self {
        match self.decisions.last_mut() {
            Some(Decision::SucceedWorkflow(it)) => it.force = true,
            Some(Decision::FailWorkflow(it)) => it.force = true,
            Some(Decision::CancelWorkflow(it)) => it.force = true,
            Some(Decision::ContinueAsNew(it)) => it.force = true,
            _ => {}
        }
        self
    }

    /// Declares the signals that the run awaits, in addition to its open activities, timers and children. A run that
    /// has nothing open and awaits no signal can never wake up and is flagged as stuck. At most 32 names;
    /// `baton.cancel` stands for a cancellation request.
    pub fn awaiting<S: Into<String>>(mut self, signals: impl IntoIterator<Item = S>) -> Self {
        self.awaiting.extend(signals.into_iter().map(Into::into));
        self
    }

    /// Completes an update that an earlier turn [accepted](crate::Verdict::accept_for_later).
    pub fn complete_update<T: Serialize + ?Sized>(mut self, update_id: impl Into<String>, result: &T) -> Self {
        let verdict = Verdict::Done { result: Some(payload(result)) };
        self.updates.push(UpdateAnswer { update_id: update_id.into(), verdict });
        self
    }

    /// Fails an update that an earlier turn [accepted](crate::Verdict::accept_for_later).
    pub fn fail_update<T: Serialize + ?Sized>(
        mut self,
        update_id: impl Into<String>,
        reason: impl Into<String>,
        details: &T,
    ) -> Self {
        let verdict = Verdict::Failed { reason: reason.into(), details: Some(payload(details)) };
        self.updates.push(UpdateAnswer { update_id: update_id.into(), verdict });
        self
    }

    /// Stores a context for the next turn ([`Window::context`](crate::Window::context)). At most 32 KiB.
    pub fn context<T: Serialize + ?Sized>(mut self, context: &T) -> Self {
        self.context = Some(payload(context));
        self
    }

    /// Moves later turns of the run to another task list, permanently. A turn that is already scheduled stays on its
    /// list. If the decider's credential does not permit the list, the whole answer is refused.
    pub fn move_turns(mut self, task_list: impl Into<String>) -> Self {
        self.moves = Some(TurnList { task_list: task_list.into(), schedule_to_start: None });
        self
    }

    /// Moves later turns of the run to another task list, like [`move_turns`](Self::move_turns), until a turn waits
    /// there longer than `schedule_to_start` or times out. Then turns wait on the previous list again. A host with a
    /// separate list can thus keep its runs without delaying them when it stops.
    pub fn move_turns_while_polled(
        mut self,
        task_list: impl Into<String>,
        schedule_to_start: impl Into<Duration>,
    ) -> Self {
        let (task_list, schedule_to_start) = (task_list.into(), Some(schedule_to_start.into()));
        self.moves = Some(TurnList { task_list, schedule_to_start });
        self
    }

    /// Returns the decisions, in order.
    pub fn as_slice(&self) -> &[Decision] {
        &self.decisions
    }

    /// Returns whether the turn has no decisions and no answers to updates, and is not given back.
    pub fn is_empty(&self) -> bool {
        self.decisions.is_empty() && self.updates.is_empty() && self.moves.is_none() && self.given_back.is_none()
    }
}
