//! Saying what to do.

use baton_history::event::ActivityTimeouts;
use baton_history::{
    CancelActivity, CancelExternal, CancelTimer, CancelWorkflow, ContinueAsNew, Decision, Duration, FailWorkflow,
    Payload, RecordMarker, RetryPolicy, ScheduleActivity, SignalExternal, StartChild, StartTimer, SucceedWorkflow,
    UpdateAnswer, Verdict,
};
use serde::Serialize;

use crate::failure::Failure;
use crate::payload::payload;

/// What a turn decides, in order. Empty is a decision too: wait for news.
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use]
#[expect(clippy::struct_field_names, reason = "they are the decisions among what is decided")]
pub struct Decisions {
    pub(crate) decisions: Vec<Decision>,
    pub(crate) context: Option<Payload>,
    pub(crate) awaiting: Vec<String>,
    pub(crate) updates: Vec<UpdateAnswer>,
    pub(crate) given_back: Option<GivenBack>,
}

/// Why a turn is given back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GivenBack {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// An activity to be scheduled.
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use]
pub struct Activity(ScheduleActivity);

/// What is said of a child in the same words, whether it is decided or awaited.
macro_rules! child_options {
    () => {
        /// Its deciders poll this task list; without it the run's own.
        pub fn list(self, task_list: impl Into<String>) -> Self {
            self.with(|it| it.task_list = Some(task_list.into()))
        }

        /// Whether the id of a closed run may be used again; only of one that did not succeed unless set.
        pub fn reuse(self, reuse_policy: baton_history::ReusePolicy) -> Self {
            self.with(|it| it.reuse_policy = reuse_policy)
        }

        /// From start to close of one run of it, at most.
        pub fn run_timeout(self, limit: baton_history::Duration) -> Self {
            self.with(|it| it.run_timeout = Some(limit))
        }

        /// Tried again as this policy says, by the service, when it fails or takes longer than its run timeout; this run hears of
        /// the last try alone.
        pub fn retry(self, policy: baton_history::RetryPolicy) -> Self {
            self.with(|it| it.retry = Some(policy))
        }

        /// What becomes of it when this run closes first; it is terminated unless set.
        pub fn policy(self, child_policy: baton_history::event::ChildPolicy) -> Self {
            self.with(|it| it.child_policy = child_policy)
        }
    };
}
pub(crate) use child_options;

/// A child to be started.
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use]
pub struct Child(StartChild);

impl Child {
    /// A child with this workflow id and type.
    pub fn new(workflow_id: impl Into<String>, workflow_type: impl Into<String>) -> Self {
        let (workflow_id, workflow_type) = (workflow_id.into(), workflow_type.into());
        Self(StartChild { workflow_id, workflow_type, ..StartChild::default() })
    }

    child_options!();

    /// With this input.
    pub fn input<T: Serialize + ?Sized>(self, input: &T) -> Self {
        self.with(|it| it.input = Some(payload(input)))
    }

    /// Sets anything that the decision has.
    pub fn with(mut self, set: impl FnOnce(&mut StartChild)) -> Self {
        set(&mut self.0);
        self
    }
}

impl Activity {
    /// An activity with your name for it, unique among the run's open activities, and its type.
    pub fn new(activity_id: impl Into<String>, activity_type: impl Into<String>) -> Self {
        Self(ScheduleActivity {
            activity_id: activity_id.into(),
            activity_type: activity_type.into(),
            ..ScheduleActivity::default()
        })
    }

    /// On this task list; without it on the run's own.
    pub fn list(mut self, task_list: impl Into<String>) -> Self {
        self.0.task_list = Some(task_list.into());
        self
    }

    /// With this input.
    pub fn input<T: Serialize + ?Sized>(mut self, input: &T) -> Self {
        self.0.input = Some(payload(input));
        self
    }

    /// From ActivityStarted to the answer, at most.
    pub fn start_to_close(mut self, limit: Duration) -> Self {
        self.0.timeouts.start_to_close = Some(limit);
        self
    }

    /// From ActivityScheduled to ActivityStarted, at most.
    pub fn schedule_to_start(mut self, limit: Duration) -> Self {
        self.0.timeouts.schedule_to_start = Some(limit);
        self
    }

    /// From ActivityScheduled to the answer, at most.
    pub fn schedule_to_close(mut self, limit: Duration) -> Self {
        self.0.timeouts.schedule_to_close = Some(limit);
        self
    }

    /// From one heartbeat to the next, at most.
    pub fn heartbeat(mut self, limit: Duration) -> Self {
        self.0.timeouts.heartbeat = Some(limit);
        self
    }

    /// Tried again by the service after a failure or a timeout, without events and without asking the decider.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.0.retry = Some(policy);
        self
    }

    /// With these timeouts; absent ones are those of the run's start.
    pub fn timeouts(mut self, timeouts: ActivityTimeouts) -> Self {
        self.0.timeouts = timeouts;
        self
    }
}

impl Decisions {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Does not decide: the turn is given back (DeciderFailed) with this reason, of 1 to 256 characters, and message. The run
    /// stays open, and the turn is handed out again after a while. Decisions beside it are dropped.
    pub fn give_back(reason: impl Into<String>, message: impl Into<String>) -> Self {
        let given_back = Some(GivenBack { reason: reason.into(), message: message.into() });
        Self { given_back, ..Self::default() }
    }

    /// Why the turn is given back: the message of [`Decisions::give_back`].
    pub fn given_back(&self) -> Option<&str> {
        self.given_back.as_ref().map(|it| it.message.as_str())
    }

    /// Adds any decision.
    pub fn push(mut self, decision: impl Into<Decision>) -> Self {
        self.decisions.push(decision.into());
        self
    }

    /// Adds what another answer says, in its order.
    pub fn and(mut self, other: Self) -> Self {
        self.decisions.extend(other.decisions);
        self.context = other.context.or(self.context);
        self.awaiting.extend(other.awaiting);
        self.updates.extend(other.updates);
        self.given_back = self.given_back.or(other.given_back);
        self
    }

    /// Has an activity done.
    pub fn schedule(self, activity: Activity) -> Self {
        self.push(activity.0)
    }

    /// Asks for an open activity to be stopped.
    pub fn cancel_activity(self, activity_id: impl Into<String>) -> Self {
        self.push(CancelActivity { activity_id: activity_id.into() })
    }

    /// Sets a timer.
    pub fn timer(self, timer_id: impl Into<String>, after: Duration) -> Self {
        self.push(StartTimer { timer_id: timer_id.into(), after, control: None })
    }

    /// Takes a timer back.
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

    /// Asks the newest run of another workflow id to cancel.
    pub fn cancel_external(self, workflow_id: impl Into<String>) -> Self {
        self.push(CancelExternal { workflow_id: workflow_id.into(), ..CancelExternal::default() })
    }

    /// Records a note.
    pub fn marker<T: Serialize + ?Sized>(self, name: impl Into<String>, details: &T) -> Self {
        self.push(RecordMarker { name: name.into(), details: Some(payload(details)) })
    }

    /// Closes the run as done.
    pub fn succeed<T: Serialize + ?Sized>(self, result: &T) -> Self {
        self.push(SucceedWorkflow { result: Some(payload(result)), force: false })
    }

    /// Closes the run as failed.
    pub fn fail<T: Serialize + ?Sized>(self, reason: impl Into<String>, details: &T) -> Self {
        self.push(FailWorkflow { reason: reason.into(), details: Some(payload(details)), ..FailWorkflow::default() })
    }

    /// Closes the run because of this: as canceled if it [is a cancellation](Failure::is_canceled), else as failed, with its reason and
    /// details.
    pub fn fail_with(self, failure: Failure) -> Self {
        self.push(failure.closing())
    }

    /// Closes the run as canceled.
    pub fn cancel<T: Serialize + ?Sized>(self, details: &T) -> Self {
        self.push(CancelWorkflow { details: Some(payload(details)), force: false })
    }

    /// Closes the run, and goes on in a new one with this input and a history of its own.
    pub fn continue_as_new<T: Serialize + ?Sized>(self, input: &T) -> Self {
        self.push(ContinueAsNew { input: Some(payload(input)), ..ContinueAsNew::default() })
    }

    /// Closes even if there is news that this turn has not seen. For the closing decision before it.
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

    /// Says that the run now waits for these signals, besides what is open. A run with nothing open that waits for nothing
    /// is flagged as stuck, because nothing will ever wake it. At most 32 names; `baton.cancel` is a cancel request.
    pub fn awaiting<S: Into<String>>(mut self, signals: impl IntoIterator<Item = S>) -> Self {
        self.awaiting.extend(signals.into_iter().map(Into::into));
        self
    }

    /// Answers an update that an earlier turn [accepted](crate::Verdict::accept_for_later).
    pub fn complete_update<T: Serialize + ?Sized>(mut self, update_id: impl Into<String>, result: &T) -> Self {
        let verdict = Verdict::Done { result: Some(payload(result)) };
        self.updates.push(UpdateAnswer { update_id: update_id.into(), verdict });
        self
    }

    /// Answers that an update could not be done that an earlier turn [accepted](crate::Verdict::accept_for_later).
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

    /// Leaves a word for the next turn ([`Window::context`](crate::Window::context)). At most 32 KiB.
    pub fn context<T: Serialize + ?Sized>(mut self, context: &T) -> Self {
        self.context = Some(payload(context));
        self
    }

    /// The decisions, in order.
    pub fn as_slice(&self) -> &[Decision] {
        &self.decisions
    }

    /// Whether nothing is decided.
    pub fn is_empty(&self) -> bool {
        self.decisions.is_empty() && self.updates.is_empty() && self.given_back.is_none()
    }
}
