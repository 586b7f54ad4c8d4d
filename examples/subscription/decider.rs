//! A subscription (REQUIREMENTS.md S2.3), as cases: what is being done, and what comes next. Writes the same histories as
//! [`crate::flow`].

use decider_kit::{Activity, Decider, Decisions, Event, EventKind, Payload, Window};

use crate::customers::{Bill, Customer};

/// Decides subscriptions.
pub(crate) struct Subscription;

/// What there is to do. Months count from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Doing {
    #[default]
    Welcome,
    Charge(u64),
    Mail(u64),
    ProcessCancellation,
    Goodbye,
}

impl Doing {
    fn activity_type(self) -> &'static str {
        match self {
            Self::Welcome => "welcome-mail",
            Self::Charge(_) => "charge",
            Self::Mail(1) => "end-of-trial-mail",
            Self::Mail(_) => "monthly-mail",
            Self::ProcessCancellation => "process-cancellation",
            Self::Goodbye => "goodbye-mail",
        }
    }

    fn id(self) -> String {
        match self {
            Self::Charge(month) => format!("charge-{month}"),
            Self::Mail(month) => format!("mail-{month}"),
            Self::Welcome | Self::ProcessCancellation | Self::Goodbye => self.activity_type().to_owned(),
        }
    }

    /// A cancellation interrupts it, where it is waited for.
    fn can_be_interrupted(self) -> bool {
        match self {
            Self::Welcome | Self::Charge(_) | Self::Mail(_) => true,
            Self::ProcessCancellation | Self::Goodbye => false,
        }
    }
}

/// How far it is.
#[derive(Debug, Clone, Default, PartialEq)]
enum Stage {
    /// To be done now.
    #[default]
    Due,
    /// A runner is asked to do it.
    Asked,
    /// Done. What comes next may have to wait.
    Done,
    /// A timer runs, until the next month or the next try.
    Waiting { timer_id: String },
    /// To be tried again after a pause.
    Failed,
    /// Another try cannot help.
    Hopeless { reason: String, details: Option<Payload> },
}

/// What the history of a subscription says.
#[derive(Debug, Default)]
pub(crate) struct State {
    customer: Customer,
    bill: Bill,
    doing: Doing,
    stage: Stage,
    attempt: u32,
    wants_to_cancel: bool,
}

impl State {
    fn turn_to(&mut self, doing: Doing) {
        (self.doing, self.stage, self.attempt) = (doing, Stage::Due, 0);
    }

    /// The month to wait for, now that this is done.
    fn next_month(&self) -> Option<u64> {
        match self.doing {
            Doing::Welcome => Some(1),
            Doing::Mail(month) => Some(month + 1),
            Doing::Charge(_) | Doing::ProcessCancellation | Doing::Goodbye => None,
        }
    }
}

impl Decider for Subscription {
    type State = State;

    fn evolve(&self, state: &mut State, event: &Event) {
        match &event.kind {
            EventKind::WorkflowStarted(it) => {
                state.customer = it.input.as_ref().and_then(|input| input.read().ok()).unwrap_or_default();
            }
            EventKind::WorkflowCancelRequested(_) => state.wants_to_cancel = true,
            EventKind::ActivityScheduled(it) => {
                let next = [Doing::ProcessCancellation, Doing::Goodbye]
                    .into_iter()
                    .find(|it_is| it_is.activity_type() == it.activity_type && *it_is != state.doing);
                if let Some(next) = next {
                    state.turn_to(next);
                }
                state.stage = Stage::Asked;
            }
            EventKind::ActivitySuccess(_) => match state.doing {
                Doing::Charge(month) => {
                    state.bill = state.bill.and(&state.customer);
                    state.turn_to(Doing::Mail(month));
                }
                Doing::ProcessCancellation => state.turn_to(Doing::Goodbye),
                Doing::Welcome | Doing::Mail(_) | Doing::Goodbye => state.stage = Stage::Done,
            },
            EventKind::ActivityFailed(it) if it.non_retryable => {
                state.stage = Stage::Hopeless { reason: it.reason.clone(), details: it.details.clone() };
            }
            EventKind::ActivityFailed(_) | EventKind::ActivityTimedOut(_) | EventKind::ActivityScheduledTimeout(_) => {
                state.stage = Stage::Failed;
            }
            EventKind::TimerScheduled(it) => {
                let is_retry = state.stage == Stage::Failed;
                state.attempt = if is_retry { state.attempt + 1 } else { 0 };
                state.stage = Stage::Waiting { timer_id: it.timer_id.clone() };
            }
            // The cancellation came first: nothing more is begun.
            EventKind::TimerExpired(_) if state.wants_to_cancel && state.doing.can_be_interrupted() => {
                state.stage = Stage::Done;
            }
            EventKind::TimerExpired(_) => match state.next_month() {
                Some(month) if state.attempt == 0 => state.turn_to(Doing::Charge(month)),
                _ => state.stage = Stage::Due,
            },
            _ => {}
        }
    }

    fn decide(&self, state: &State, _: &Window) -> Decisions {
        let (customer, doing) = (&state.customer, state.doing);
        let ask = |doing: Doing| Activity::new(doing.id(), doing.activity_type()).input(customer);
        let is_over = state.wants_to_cancel && doing.can_be_interrupted();
        match &state.stage {
            Stage::Hopeless { reason, details } => Decisions::new().push(history::FailWorkflow {
                reason: reason.clone(),
                details: details.clone(),
                force: false,
            }),
            Stage::Due => Decisions::new().schedule(ask(doing)),
            Stage::Waiting { timer_id } if is_over => {
                Decisions::new().cancel_timer(timer_id).schedule(ask(Doing::ProcessCancellation))
            }
            Stage::Asked | Stage::Waiting { .. } => Decisions::new(),
            Stage::Done | Stage::Failed if is_over => Decisions::new().schedule(ask(Doing::ProcessCancellation)),
            Stage::Failed => {
                let timer_id = format!("{}-pause-{}", doing.id(), state.attempt);
                Decisions::new().timer(timer_id, customer.pause(state.attempt))
            }
            Stage::Done => match state.next_month() {
                Some(month) => Decisions::new().timer(format!("month-{month}"), customer.month),
                None => Decisions::new().cancel(&state.bill),
            },
        }
    }
}
