//! State of a run's activities, timers, children and signals, as explicit deciders need it.

use std::collections::BTreeMap;

use baton_history::{Event, EventId, EventKind, Payload};
use serde::de::DeserializeOwned;

use crate::ended::{Ended, Outcome};
use crate::failure::{Cause, Failure};
use crate::{Decider, Decisions, Window};

/// State of all activities, timers, children and signals of a run, by the id that the decider gave them.
///
/// Use it as the whole [`Decider::State`] (see [`decide`]). Or use it as one field of your own state, and pass it every
/// event that your state receives:
///
/// ```
/// use baton_decider_kit::{Activity, Decider, Decisions, Event, EventKind, Steps, Window};
///
/// struct Order;
///
/// #[derive(Default)]
/// struct State {
///     steps: Steps,
///     notes: Vec<String>,
/// }
///
/// impl Decider for Order {
///     type State = State;
///
///     fn evolve(&self, state: &mut State, event: &Event) {
///         state.steps.evolve(event);
///         if let EventKind::Marker(it) = &event.kind {
///             state.notes.push(it.name.clone());
///         }
///     }
///
///     fn decide(&self, State { steps, notes }: &State, _: &Window) -> Decisions {
///         match steps.done::<String>("charge") {
///             Some(receipt) => Decisions::new().succeed(&(receipt, notes)),
///             None if steps.activity("charge").is_new() => {
///                 Decisions::new().schedule(Activity::new("charge", "charge-card").input(&steps.input::<u64>()))
///             }
///             None => Decisions::new(),
///         }
///     }
/// }
/// ```
///
/// If an id is reused after its step has ended, the newest step counts. Messages to other runs are not included.
///
/// Methods that deserialize a value panic if it does not have the requested type. This is a programming error. Like any
/// panic of a decider, it gives the turn back with the message of the panic.
#[derive(Debug, Clone, Default)]
pub struct Steps {
    input: Option<Payload>,
    by_kind: BTreeMap<StepKind, BTreeMap<String, Step>>,
    /// Steps that have not ended, by the id of the event that scheduled the step.
    open: BTreeMap<EventId, (StepKind, String)>,
    signals: BTreeMap<String, Vec<Received>>,
    cancel_requested_event_id: Option<EventId>,
}

/// Kind of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StepKind {
    Activity,
    Timer,
    Child,
}

/// A signal that the run received.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// Id of the event that recorded the signal.
    pub event_id: EventId,
    /// Input of the signal.
    pub input: Option<Payload>,
}

impl Received {
    /// Returns the input as a `T`. A missing input is `null`.
    ///
    /// # Panics
    ///
    /// If the input is not a `T`; see [`Steps`].
    pub fn read<T: DeserializeOwned>(&self) -> T {
        read(self.input.as_ref(), || format!("the signal of event {}", self.event_id))
    }
}

/// State of an activity, a timer or a child.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    of_type: String,
    scheduled_event_id: Option<EventId>,
    started_event_id: Option<EventId>,
    ended_event_id: Option<EventId>,
    tries: u32,
    /// Number of attempts of earlier steps with the same id.
    tries_before: u32,
    is_cancel_requested: bool,
    outcome: Option<Outcome>,
}

/// Progress of a [`Step`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress<'a> {
    /// The decider has not requested a step with this id.
    New,
    /// The step is scheduled or in progress.
    Open,
    /// The activity or child succeeded, or the timer expired.
    Done,
    /// The step failed, timed out, was canceled, or could not be scheduled. The failure distinguishes these cases.
    Failed(&'a Failure),
}

/// Step that is returned for ids without any step.
static NEVER: Step = Step {
    of_type: String::new(),
    scheduled_event_id: None,
    started_event_id: None,
    ended_event_id: None,
    tries: 0,
    tries_before: 0,
    is_cancel_requested: false,
    outcome: None,
};

impl Step {
    /// Returns the step's progress.
    pub fn progress(&self) -> Progress<'_> {
        match &self.outcome {
            Some(Ok(_)) => Progress::Done,
            Some(Err(failure)) => Progress::Failed(failure),
            None if self.scheduled_event_id.is_some() => Progress::Open,
            None => Progress::New,
        }
    }

    /// Returns whether the decider has not requested a step with this id.
    pub fn is_new(&self) -> bool {
        self.progress() == Progress::New
    }

    /// Returns whether the step is scheduled or in progress.
    pub fn is_open(&self) -> bool {
        self.progress() == Progress::Open
    }

    /// Returns whether the step succeeded or expired.
    pub fn is_done(&self) -> bool {
        self.progress() == Progress::Done
    }

    /// Returns whether the step has ended, successfully or not.
    pub fn has_ended(&self) -> bool {
        !self.is_new() && !self.is_open()
    }

    /// Returns whether the decider has requested the activity's cancellation.
    pub fn is_cancel_requested(&self) -> bool {
        self.is_cancel_requested
    }

    /// Returns the result as a `T` if the step [is done](Self::is_done), otherwise `None`. A missing result is `null`,
    /// which deserializes as `()`.
    ///
    /// # Panics
    ///
    /// If the result is not a `T`; see [`Steps`].
    pub fn result<T: DeserializeOwned>(&self) -> Option<T> {
        let Some(Ok(result)) = &self.outcome else { return None };
        Some(read(result.as_ref(), || format!("the result of event {}", self.ended_event_id.unwrap_or_default())))
    }

    /// Returns the result unparsed.
    pub fn payload(&self) -> Option<&Payload> {
        self.outcome.as_ref()?.as_ref().ok()?.as_ref()
    }

    /// Returns the failure if the step has ended without success, otherwise `None`.
    pub fn failure(&self) -> Option<&Failure> {
        self.outcome.as_ref()?.as_ref().err()
    }

    /// Returns the number of attempts of this step and of earlier steps with the same id. A step counts as one attempt.
    /// An activity with a retry policy counts as one attempt for each time that a runner took it. The history contains
    /// this number only after the activity has ended.
    pub fn attempts(&self) -> u32 {
        self.tries_before + self.tries
    }

    /// Returns the id of the event that scheduled the step.
    pub fn scheduled_event_id(&self) -> Option<EventId> {
        self.scheduled_event_id
    }

    /// Returns the id of the step's ActivityStarted or ChildStarted event.
    pub fn started_event_id(&self) -> Option<EventId> {
        self.started_event_id
    }

    /// Returns the id of the event that ended the step, or that records why it could not be scheduled.
    pub fn ended_event_id(&self) -> Option<EventId> {
        self.ended_event_id
    }
}

impl Steps {
    /// Applies one event. Pass every event of the run once and in order, like [`Decider::evolve`].
    pub fn evolve(&mut self, event: &Event) {
        let id = event.id;
        match &event.kind {
            EventKind::WorkflowStarted(it) => self.input.clone_from(&it.input),
            EventKind::WorkflowCancelRequested(_) => {
                self.cancel_requested_event_id.get_or_insert(id);
            }
            EventKind::Signal(it) => {
                let received = Received { event_id: id, input: it.input.clone() };
                self.signals.entry(it.name.clone()).or_default().push(received);
            }
            EventKind::ActivityScheduled(it) => self.begin(id, StepKind::Activity, &it.activity_id, &it.activity_type),
            EventKind::TimerScheduled(it) => self.begin(id, StepKind::Timer, &it.timer_id, ""),
            EventKind::ChildScheduled(it) => self.begin(id, StepKind::Child, &it.workflow_id, &it.workflow_type),
            EventKind::ActivityStarted(it) => {
                if let Some(step) = self.open_step(it.scheduled_event_id) {
                    step.started_event_id = Some(id);
                    step.tries = it.attempt.unwrap_or(1);
                }
            }
            EventKind::ChildStarted(it) => {
                if let Some(step) = self.open_step(it.scheduled_event_id) {
                    step.started_event_id = Some(id);
                }
            }
            EventKind::ActivityTaskCancel(it) => {
                if let Some(step) = self.open_step(it.scheduled_event_id) {
                    step.is_cancel_requested = true;
                }
            }
            EventKind::TimerCanceled(it) => {
                if let Some((_, step)) = self.end(it.scheduled_event_id, id) {
                    step.outcome = Some(Err(Failure::of("canceled", None, Cause::Canceled)));
                }
            }
            kind => match (Ended::of(kind), refused(kind)) {
                (Some(Ended::Scheduled { scheduled_event_id, outcome }), _) => {
                    if let Some((_, step)) = self.end(scheduled_event_id, id) {
                        step.outcome = Some(outcome);
                    }
                }
                (Some(Ended::Activity { scheduled_event_id, unsuccessful }), _) => {
                    if let Some((activity_id, step)) = self.end(scheduled_event_id, id) {
                        step.outcome = Some(Err(unsuccessful.of(activity_id, step.of_type.clone())));
                    }
                }
                (Some(Ended::NotScheduled(failure)), Some((kind, name))) => self.refuse(id, kind, name, failure),
                (Some(Ended::NotScheduled(_)) | None, _) => {}
            },
        }
    }

    /// Records a scheduled step. It replaces an earlier step with the same id, which has ended.
    fn begin(&mut self, event_id: EventId, kind: StepKind, id: &str, of_type: &str) {
        let step = self.by_kind.entry(kind).or_default().entry(id.to_owned()).or_default();
        *step = Step {
            of_type: of_type.to_owned(),
            scheduled_event_id: Some(event_id),
            tries: 1,
            tries_before: step.attempts(),
            ..Step::default()
        };
        self.open.insert(event_id, (kind, id.to_owned()));
    }

    /// Records a step that could not be scheduled. An open step with the same id is not affected.
    fn refuse(&mut self, event_id: EventId, kind: StepKind, id: &str, failure: Failure) {
        let step = self.by_kind.entry(kind).or_default().entry(id.to_owned()).or_default();
        if !step.is_open() {
            let outcome = Some(Err(failure));
            *step = Step { ended_event_id: Some(event_id), tries_before: step.attempts(), outcome, ..Step::default() };
        }
    }

    /// Returns the open step scheduled by this event.
    fn open_step(&mut self, scheduled_event_id: EventId) -> Option<&mut Step> {
        let (kind, id) = self.open.get(&scheduled_event_id)?;
        self.by_kind.get_mut(kind)?.get_mut(id)
    }

    /// Ends the step scheduled by `scheduled_event_id`.
    fn end(&mut self, scheduled_event_id: EventId, event_id: EventId) -> Option<(String, &mut Step)> {
        let (kind, id) = self.open.remove(&scheduled_event_id)?;
        let step = self.by_kind.get_mut(&kind)?.get_mut(&id)?;
        step.ended_event_id = Some(event_id);
        Some((id, step))
    }

    fn step(&self, kind: StepKind, id: &str) -> &Step {
        self.by_kind.get(&kind).and_then(|steps| steps.get(id)).unwrap_or(&NEVER)
    }

    /// Returns the activity with this id. If there is no such activity, the returned step [is new](Step::is_new).
    pub fn activity(&self, activity_id: &str) -> &Step {
        self.step(StepKind::Activity, activity_id)
    }

    /// Returns the timer with this id.
    pub fn timer(&self, timer_id: &str) -> &Step {
        self.step(StepKind::Timer, timer_id)
    }

    /// Returns the child with this workflow id.
    pub fn child(&self, workflow_id: &str) -> &Step {
        self.step(StepKind::Child, workflow_id)
    }

    /// Returns the result of the activity with this id, once it has succeeded.
    ///
    /// # Panics
    ///
    /// If the result is not a `T`; see [`Steps`].
    pub fn done<T: DeserializeOwned>(&self, activity_id: &str) -> Option<T> {
        self.activity(activity_id).result()
    }

    /// Returns the open activities with their ids, in the order in which they were scheduled.
    pub fn open_activities(&self) -> impl Iterator<Item = (&str, &Step)> {
        let open = self.open.values().filter(|(kind, _)| *kind == StepKind::Activity);
        open.map(|(kind, id)| (id.as_str(), self.step(*kind, id)))
    }

    /// Returns the signals of this name, oldest first.
    pub fn signals(&self, name: &str) -> &[Received] {
        self.signals.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns whether a signal of this name was received.
    pub fn is_signaled(&self, name: &str) -> bool {
        !self.signals(name).is_empty()
    }

    /// Returns whether the run's cancellation was requested.
    pub fn is_cancel_requested(&self) -> bool {
        self.cancel_requested_event_id.is_some()
    }

    /// Returns the id of the first WorkflowCancelRequested event.
    pub fn cancel_requested_event_id(&self) -> Option<EventId> {
        self.cancel_requested_event_id
    }

    /// Returns the run's input as a `T`. A missing input is `null`.
    ///
    /// # Panics
    ///
    /// If the input is not a `T`; see [`Steps`].
    pub fn input<T: DeserializeOwned>(&self) -> T {
        read(self.input.as_ref(), || "the run's input".to_owned())
    }
}

/// Returns the kind and id of a step that could not be scheduled.
fn refused(kind: &EventKind) -> Option<(StepKind, &str)> {
    match kind {
        EventKind::ActivityScheduleFailed(it) => Some((StepKind::Activity, &it.activity_id)),
        EventKind::TimerScheduleFailed(it) => Some((StepKind::Timer, &it.timer_id)),
        EventKind::ChildScheduleFailed(it) => Some((StepKind::Child, &it.workflow_id)),
        EventKind::WorkflowStarted(_)
        | EventKind::WorkflowSuccess(_)
        | EventKind::WorkflowFailed(_)
        | EventKind::WorkflowCanceled(_)
        | EventKind::WorkflowTimedOut(_)
        | EventKind::WorkflowTerminated(_)
        | EventKind::WorkflowCloseFailed(_)
        | EventKind::WorkflowCancelRequested(_)
        | EventKind::DeciderScheduled(_)
        | EventKind::DeciderStarted(_)
        | EventKind::DeciderCompleted(_)
        | EventKind::DeciderTimedOut(_)
        | EventKind::DeciderFailed(_)
        | EventKind::ActivityScheduled(_)
        | EventKind::ActivityStarted(_)
        | EventKind::ActivitySuccess(_)
        | EventKind::ActivityFailed(_)
        | EventKind::ActivityCanceled(_)
        | EventKind::ActivityTimedOut(_)
        | EventKind::ActivityScheduledTimeout(_)
        | EventKind::ActivityTaskCancel(_)
        | EventKind::ActivityTaskCancelFailed(_)
        | EventKind::TimerScheduled(_)
        | EventKind::TimerExpired(_)
        | EventKind::TimerCanceled(_)
        | EventKind::TimerCancelFailed(_)
        | EventKind::Signal(_)
        | EventKind::Marker(_)
        | EventKind::MarkerFailed(_)
        | EventKind::WorkflowContinuedAsNew(_)
        | EventKind::ChildScheduled(_)
        | EventKind::ChildStarted(_)
        | EventKind::ChildSuccess(_)
        | EventKind::ChildFailed(_)
        | EventKind::ChildTimedOut(_)
        | EventKind::ChildCanceled(_)
        | EventKind::ChildTerminated(_)
        | EventKind::ExternalSignalScheduled(_)
        | EventKind::ExternalSignalDelivered(_)
        | EventKind::ExternalSignalFailed(_)
        | EventKind::ExternalCancelScheduled(_)
        | EventKind::ExternalCancelDelivered(_)
        | EventKind::ExternalCancelFailed(_)
        | EventKind::UpdateAccepted(_)
        | EventKind::UpdateCompleted(_)
        | EventKind::UpdateFailed(_)
        | EventKind::ActivityPaused(_)
        | EventKind::ActivityResumed(_)
        | EventKind::ActivityRetried(_)
        | EventKind::ActivityOptionsChanged(_)
        | EventKind::WorkflowPaused(_)
        | EventKind::WorkflowResumed(_)
        | EventKind::WorkflowReset(_) => None,
    }
}

/// Deserializes a payload. If this fails, the message of the panic becomes part of the DeciderFailed event with which
/// the turn is given back.
fn read<T: DeserializeOwned>(payload: Option<&Payload>, what: impl Fn() -> String) -> T {
    let text = payload.and_then(Payload::text).unwrap_or("null");
    match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => panic!("cannot read {}: {error}", what()),
    }
}

/// Makes a decider out of a function. The state of the decider is [`Steps`].
///
/// ```
/// use baton_decider_kit::{Activity, Decisions, Steps, Window, decide};
///
/// fn greeting(steps: &Steps, _: &Window) -> Decisions {
///     match steps.done::<String>("greet") {
///         Some(words) => Decisions::new().succeed(&words),
///         None if steps.activity("greet").is_new() => Decisions::new().schedule(Activity::new("greet", "greet")),
///         None => Decisions::new(),
///     }
/// }
///
/// # fn register(host: baton_decider_kit::Host) -> baton_decider_kit::Host {
/// host.register("greeting", decide(greeting))
/// # }
/// ```
pub fn decide<F>(decide: F) -> impl Decider<State = Steps>
where
    F: Fn(&Steps, &Window) -> Decisions + Send + Sync + 'static,
{
    struct FunctionDecider<F>(F);

    impl<F: Fn(&Steps, &Window) -> Decisions + Send + Sync + 'static> Decider for FunctionDecider<F> {
        type State = Steps;

        fn evolve(&self, steps: &mut Steps, event: &Event) {
            steps.evolve(event);
        }

        fn decide(&self, steps: &Steps, window: &Window) -> Decisions {
            (self.0)(steps, window)
        }
    }

    FunctionDecider(decide)
}

#[cfg(test)]
mod tests;
