//! A subscription as an explicit decider, which derives the next step from the completed steps. It writes the same
//! histories as [`crate::flow`].

use std::ops::ControlFlow::{self, Break, Continue};

use baton_decider_kit::{Activity, Decider, Decisions, Duration, Event, Progress, Steps, Window};

use crate::customers::{Bill, Customer};

/// Decider of subscriptions.
pub(crate) struct Subscription;

impl Decider for Subscription {
    type State = Steps;

    fn evolve(&self, steps: &mut Steps, event: &Event) {
        steps.evolve(event);
    }

    fn decide(&self, steps: &Steps, _: &Window) -> Decisions {
        let Break(next) = Story { steps, customer: steps.input(), says_goodbye: false }.month_after_month();
        next
    }
}

/// A pass through the steps of a subscription, from the first step to the first step that is not done.
struct Story<'a> {
    steps: &'a Steps,
    customer: Customer,
    /// True if the pass has reached the steps after the cancellation.
    says_goodbye: bool,
}

impl Story<'_> {
    fn month_after_month(&self) -> ControlFlow<Decisions, std::convert::Infallible> {
        self.done("welcome-mail", "welcome-mail")?;
        let mut month = 0_u64;
        loop {
            month += 1;
            self.wait(format!("month-{month}"), self.customer.month)?;
            self.done(&format!("charge-{month}"), "charge")?;
            let mail = if month == 1 { "end-of-trial-mail" } else { "monthly-mail" };
            self.done(&format!("mail-{month}"), mail)?;
        }
    }

    fn goodbye(&self) -> ControlFlow<Decisions> {
        let after = Self { steps: self.steps, customer: self.customer.clone(), says_goodbye: true };
        after.done("process-cancellation", "process-cancellation")?;
        after.done("goodbye-mail", "goodbye-mail")?;
        let charged = (1..).take_while(|month| self.steps.activity(&format!("charge-{month}")).is_done());
        Break(Decisions::new().cancel(&charged.fold(Bill::default(), |bill, _: u64| bill.and(&self.customer))))
    }

    /// Requires an activity. If the activity is done, continues. Otherwise breaks with the decisions of this turn. A
    /// failed activity is retried after a pause.
    fn done(&self, id: &str, activity_type: &str) -> ControlFlow<Decisions> {
        let schedule = || Break(Decisions::new().schedule(Activity::new(id, activity_type).input(&self.customer)));
        let step = self.steps.activity(id);
        match step.progress() {
            Progress::New => schedule(),
            Progress::Open => Break(Decisions::new()),
            Progress::Done => Continue(()),
            Progress::Failed(failure) if !failure.may_retry() => Break(Decisions::new().fail_with(failure.clone())),
            Progress::Failed(_) => {
                let attempt = step.attempts() - 1;
                self.wait(format!("{id}-pause-{attempt}"), self.customer.pause(attempt))?;
                schedule()
            }
        }
    }

    /// Requires a timer. If the customer cancels before the timer expires, the wait ends.
    fn wait(&self, timer_id: String, time: Duration) -> ControlFlow<Decisions> {
        let timer = self.steps.timer(&timer_id);
        let canceled = self.steps.cancel_requested_event_id().filter(|_| !self.says_goodbye);
        match timer.progress() {
            Progress::Done if canceled.is_none_or(|at| timer.ended_event_id() < Some(at)) => Continue(()),
            Progress::New if canceled.is_none() => Break(Decisions::new().timer(timer_id, time)),
            Progress::Open if canceled.is_none() => Break(Decisions::new()),
            Progress::Open => {
                let goodbye = self.goodbye();
                goodbye.map_break(|next| Decisions::new().cancel_timer(timer_id).and(next))
            }
            Progress::New | Progress::Done | Progress::Failed(_) => self.goodbye(),
        }
    }
}
