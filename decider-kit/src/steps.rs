//! What a run's activities, timers, children and signals have come to: the fold that explicit deciders need.

use std::collections::BTreeMap;

use baton_history::{Event, EventId, EventKind, Payload};
use serde::de::DeserializeOwned;

use crate::ended::{Ended, Outcome};
use crate::failure::{Cause, Failure};
use crate::{Decider, Decisions, Window};

/// What every activity, timer, child and signal of a run has come to, by the id that the decider gave it.
///
/// It is a [`Decider::State`] of its own, see [`decide`]; or it stands beside what else a state holds, and takes the same events:
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
/// Where an id is used again after what had it before has ended, the newest counts. Messages to other runs are not in it. What is read as a type and is not of it is a
/// mistake in the program, and like any panic of a decider gives the turn back with the message.
#[derive(Debug, Clone, Default)]
pub struct Steps {
    input: Option<Payload>,
    by_kind: BTreeMap<StepKind, BTreeMap<String, Step>>,
    /// What has not ended, by the event that scheduled it.
    open: BTreeMap<EventId, (StepKind, String)>,
    signals: BTreeMap<String, Vec<Received>>,
    cancel_requested_event_id: Option<EventId>,
}

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StepKind {
    Activity,
    Timer,
    Child,
}

/// A signal that the run was sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// Its event.
    pub event_id: EventId,
    /// What it says.
    pub input: Option<Payload>,
}

impl Received {
    /// What it says, as a `T`; a signal without an input is `null`.
    ///
    /// # Panics
    ///
    /// Where it is not a `T`; see [`Steps`].
    pub fn read<T: DeserializeOwned>(&self) -> T {
        read(self.input.as_ref(), || format!("the signal of event {}", self.event_id))
    }
}

/// An activity, a timer or a child.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    of_type: String,
    scheduled_event_id: Option<EventId>,
    started_event_id: Option<EventId>,
    ended_event_id: Option<EventId>,
    tries: u32,
    /// Those of earlier ones with the same id.
    tries_before: u32,
    is_cancel_requested: bool,
    outcome: Option<Outcome>,
}

/// How far a [`Step`] is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress<'a> {
    /// Nothing with this id was decided yet.
    New,
    /// It waits, or is under way.
    Open,
    /// The activity or the child succeeded; the timer expired.
    Done,
    /// It failed, timed out, was canceled or taken back, or could not even be scheduled: the failure says which.
    Failed(&'a Failure),
}

/// What stands in for all that was never decided.
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
    /// How far it is.
    pub fn progress(&self) -> Progress<'_> {
        match &self.outcome {
            Some(Ok(_)) => Progress::Done,
            Some(Err(failure)) => Progress::Failed(failure),
            None if self.scheduled_event_id.is_some() => Progress::Open,
            None => Progress::New,
        }
    }

    /// Whether nothing with this id was decided yet.
    pub fn is_new(&self) -> bool {
        self.progress() == Progress::New
    }

    /// Whether it waits, or is under way.
    pub fn is_open(&self) -> bool {
        self.progress() == Progress::Open
    }

    /// Whether it succeeded or expired.
    pub fn is_done(&self) -> bool {
        self.progress() == Progress::Done
    }

    /// Whether it has ended, well or not.
    pub fn has_ended(&self) -> bool {
        !self.is_new() && !self.is_open()
    }

    /// Whether the decider has asked for the activity to be stopped.
    pub fn is_cancel_requested(&self) -> bool {
        self.is_cancel_requested
    }

    /// The result, as a `T`; `None` unless it [is done](Self::is_done). No result is `null`, which is a `()`.
    ///
    /// # Panics
    ///
    /// Where it is not a `T`; see [`Steps`].
    pub fn result<T: DeserializeOwned>(&self) -> Option<T> {
        let Some(Ok(result)) = &self.outcome else { return None };
        Some(read(result.as_ref(), || format!("the result of event {}", self.ended_event_id.unwrap_or_default())))
    }

    /// The result as it was given.
    pub fn payload(&self) -> Option<&Payload> {
        self.outcome.as_ref()?.as_ref().ok()?.as_ref()
    }

    /// Why it did not come to a good end, where it did not.
    pub fn failure(&self) -> Option<&Failure> {
        self.outcome.as_ref()?.as_ref().err()
    }

    /// How often it was tried: once for each time that it was scheduled, and an activity with a retry policy as often as runners took
    /// it, which the history tells once it has ended.
    pub fn tries(&self) -> u32 {
        self.tries_before + self.tries
    }

    /// The event that scheduled it.
    pub fn scheduled_event_id(&self) -> Option<EventId> {
        self.scheduled_event_id
    }

    /// The ActivityStarted or ChildStarted.
    pub fn started_event_id(&self) -> Option<EventId> {
        self.started_event_id
    }

    /// The event that ended it, or says that it could not be scheduled.
    pub fn ended_event_id(&self) -> Option<EventId> {
        self.ended_event_id
    }
}

impl Steps {
    /// Takes one more event. Every event of the run is to be given, once and in order, as [`Decider::evolve`] has them.
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
                (Some(Ended::Activity { scheduled_event_id, unhappy }), _) => {
                    if let Some((activity_id, step)) = self.end(scheduled_event_id, id) {
                        step.outcome = Some(Err(unhappy.of(activity_id, step.of_type.clone())));
                    }
                }
                (Some(Ended::NotScheduled(failure)), Some((kind, name))) => self.refuse(id, kind, name, failure),
                (Some(Ended::NotScheduled(_)) | None, _) => {}
            },
        }
    }

    /// Something is scheduled. What had its id before has ended.
    fn begin(&mut self, event_id: EventId, kind: StepKind, id: &str, of_type: &str) {
        let step = self.by_kind.entry(kind).or_default().entry(id.to_owned()).or_default();
        *step = Step {
            of_type: of_type.to_owned(),
            scheduled_event_id: Some(event_id),
            tries: 1,
            tries_before: step.tries(),
            ..Step::default()
        };
        self.open.insert(event_id, (kind, id.to_owned()));
    }

    /// Something could not be scheduled. What is open with the same id stays as it is.
    fn refuse(&mut self, event_id: EventId, kind: StepKind, id: &str, failure: Failure) {
        let step = self.by_kind.entry(kind).or_default().entry(id.to_owned()).or_default();
        if !step.is_open() {
            let outcome = Some(Err(failure));
            *step = Step { ended_event_id: Some(event_id), tries_before: step.tries(), outcome, ..Step::default() };
        }
    }

    /// What this event scheduled, as long as it is open.
    fn open_step(&mut self, scheduled_event_id: EventId) -> Option<&mut Step> {
        let (kind, id) = self.open.get(&scheduled_event_id)?;
        self.by_kind.get_mut(kind)?.get_mut(id)
    }

    /// What this event scheduled ends, with another one.
    fn end(&mut self, scheduled_event_id: EventId, event_id: EventId) -> Option<(String, &mut Step)> {
        let (kind, id) = self.open.remove(&scheduled_event_id)?;
        let step = self.by_kind.get_mut(&kind)?.get_mut(&id)?;
        step.ended_event_id = Some(event_id);
        Some((id, step))
    }

    fn step(&self, kind: StepKind, id: &str) -> &Step {
        self.by_kind.get(&kind).and_then(|steps| steps.get(id)).unwrap_or(&NEVER)
    }

    /// The activity with this id, which may [be new](Step::is_new).
    pub fn activity(&self, activity_id: &str) -> &Step {
        self.step(StepKind::Activity, activity_id)
    }

    /// The timer with this id.
    pub fn timer(&self, timer_id: &str) -> &Step {
        self.step(StepKind::Timer, timer_id)
    }

    /// The child with this workflow id.
    pub fn child(&self, workflow_id: &str) -> &Step {
        self.step(StepKind::Child, workflow_id)
    }

    /// The result of the activity with this id, once it has succeeded.
    ///
    /// # Panics
    ///
    /// Where it is not a `T`; see [`Steps`].
    pub fn done<T: DeserializeOwned>(&self, activity_id: &str) -> Option<T> {
        self.activity(activity_id).result()
    }

    /// The activities that have not ended, with their ids, in the order in which they were scheduled.
    pub fn open_activities(&self) -> impl Iterator<Item = (&str, &Step)> {
        let open = self.open.values().filter(|(kind, _)| *kind == StepKind::Activity);
        open.map(|(kind, id)| (id.as_str(), self.step(*kind, id)))
    }

    /// The signals of this name, oldest first.
    pub fn signals(&self, name: &str) -> &[Received] {
        self.signals.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether a signal of this name was sent.
    pub fn is_signaled(&self, name: &str) -> bool {
        !self.signals(name).is_empty()
    }

    /// Whether somebody asked for the run to be canceled.
    pub fn is_cancel_requested(&self) -> bool {
        self.cancel_requested_event_id.is_some()
    }

    /// The first WorkflowCancelRequested.
    pub fn cancel_requested_event_id(&self) -> Option<EventId> {
        self.cancel_requested_event_id
    }

    /// What the run was started with, as a `T`; a start without an input is `null`.
    ///
    /// # Panics
    ///
    /// Where it is not a `T`; see [`Steps`].
    pub fn input<T: DeserializeOwned>(&self) -> T {
        read(self.input.as_ref(), || "the input of the run".to_owned())
    }
}

/// What could not be scheduled.
fn refused(kind: &EventKind) -> Option<(StepKind, &str)> {
    match kind {
        EventKind::ActivityScheduleFailed(it) => Some((StepKind::Activity, &it.activity_id)),
        EventKind::TimerScheduleFailed(it) => Some((StepKind::Timer, &it.timer_id)),
        EventKind::ChildScheduleFailed(it) => Some((StepKind::Child, &it.workflow_id)),
        _ => None,
    }
}

/// A payload as a `T`. The panic is told in the DeciderFailed of the turn, which is given back.
fn read<T: DeserializeOwned>(payload: Option<&Payload>, what: impl Fn() -> String) -> T {
    let text = payload.and_then(Payload::text).unwrap_or("null");
    match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => panic!("{} is not what the decider reads: {error}", what()),
    }
}

/// A decider whose state is [`Steps`], made of a function.
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
