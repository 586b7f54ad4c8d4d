//! Started tasks that are being delivered to their pollers. If a delivery fails, the task is returned, so that another
//! poller can get it.

use std::sync::Arc;

use bytes::Bytes;
use history::{
    Command, Event, EventId, Payload, PendingActivity, PollId, ProposedUpdate, TaskId, TraceContext, TurnId,
};
use store::HeadKey;
use uuid::Uuid;

use crate::base::metrics::Undelivered;
use crate::commit::read::RunEvents;

/// A started task with all data that its poller needs. It holds no locks. If a grant is dropped before
/// [`delivered`](Self::delivered) is called, the task is returned at once, without waiting for its timeout.
pub(crate) struct Grant {
    /// Component that takes the task back if it cannot be delivered; `None` after delivery.
    pub(crate) returner: Option<Arc<dyn TaskReturner>>,
    /// Reason to record if the task is returned.
    pub(crate) undelivered: Undelivered,
    pub(crate) key: HeadKey,
    pub(crate) run_id: Uuid,
    pub(crate) workflow_type: String,
    pub(crate) task_list: String,
    pub(crate) tail: Bytes,
    pub(crate) tail_first: EventId,
    /// The poll that gets the task.
    pub(crate) poll: Option<PollId>,
    pub(crate) what: Granted,
    /// Riders (queries and updates) that a turn carries, or that a separate task for riders consists of.
    pub(crate) riders: TakenAlong,
    /// Trace context of the run. It is the parent of the poller's spans.
    pub(crate) trace: Option<TraceContext>,
}

/// Queries and updates that are handed out with a task. The poller must answer the queries and validate the updates.
#[derive(Debug, Default)]
pub(crate) struct TakenAlong {
    pub(crate) queries: Vec<NumberedQuery>,
    pub(crate) updates: Vec<ProposedUpdate>,
}

impl TakenAlong {
    pub(crate) fn is_empty(&self) -> bool {
        self.queries.is_empty() && self.updates.is_empty()
    }
}

/// Kind of task, with its identifiers.
#[derive(Debug)]
pub(crate) enum Granted {
    Turn { turn: TurnId, previous_started_event_id: EventId, attempt: u32 },
    Activity { task: TaskId, activity: Arc<PendingActivity>, details: Option<Payload> },
    Queries { task: u64, last_event_id: EventId, version: EventId, previous_started_event_id: EventId },
    Speculation { task: u64, last_event_id: EventId, previous_started_event_id: EventId, shown: Vec<Event> },
}

/// A task that was not delivered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReturnedTask {
    pub(crate) key: HeadKey,
    pub(crate) run_id: Uuid,
    /// The task list from which the task was taken.
    pub(crate) task_list: String,
    pub(crate) undelivered: Undelivered,
    pub(crate) by: ReturnBy,
}

/// Method of returning a task.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReturnBy {
    /// Admit this command, which records the return in the history.
    Command(Command),
    /// Make the riders of this task wait for another task. Used for a separate task for riders, which has no events in
    /// the history.
    Riders(RiderKind, u64),
}

/// Kind of rider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RiderKind {
    Query,
    Update,
}

/// Content of a query.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) name: String,
    pub(crate) input: Option<Payload>,
}

/// A query with its number, as it is sent to a decider.
#[derive(Debug, Clone)]
pub(crate) struct NumberedQuery {
    pub(crate) number: u64,
    pub(crate) query: Arc<Query>,
}

impl Query {
    pub(crate) fn bytes(&self) -> usize {
        self.name.len() + self.input.as_ref().map_or(0, Payload::len)
    }
}

/// Result of taking riders for a poller.
pub(crate) enum TakenRiders {
    /// A separate task with the riders.
    Granted(Box<Grant>),
    /// A turn waits. The caller must take this turn, which carries the riders.
    Turn { scheduled_event_id: EventId, concurrency_key: Option<Arc<str>> },
    /// No riders are waiting.
    Nothing,
}

/// Component that takes back tasks that could not be delivered to a poller.
pub(crate) trait TaskReturner: Send + Sync {
    /// Makes a task that was not delivered available to other pollers.
    fn return_task(self: Arc<Self>, returned: ReturnedTask);
}

impl Grant {
    /// Marks the task as delivered. Dropping this value then does not return the task.
    pub(crate) fn delivered(mut self) {
        self.returner = None;
    }

    /// Returns the task because its poller has disconnected, so that another poller can get it.
    pub(crate) fn poller_gone(mut self) {
        self.undelivered = Undelivered::PollerGone;
    }

    /// Returns the task because its content could not be read, so that another poller can get it.
    pub(crate) fn unreadable(mut self) {
        self.undelivered = Undelivered::Unreadable;
    }

    /// Returns the location of the run's events.
    pub(crate) fn source(&self) -> RunEvents<'_> {
        RunEvents { key: &self.key, run_id: self.run_id, tail: &self.tail, tail_first: self.tail_first }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let Some(returner) = self.returner.take() else { return };
        let by = match &self.what {
            Granted::Turn { turn, .. } => ReturnBy::Command(Command::ReturnTurn { turn: *turn, poll: self.poll }),
            Granted::Activity { task, .. } => {
                ReturnBy::Command(Command::ReturnActivity { task: *task, poll: self.poll })
            }
            Granted::Queries { task, .. } => ReturnBy::Riders(RiderKind::Query, *task),
            Granted::Speculation { task, .. } => ReturnBy::Riders(RiderKind::Update, *task),
        };
        returner.return_task(ReturnedTask {
            key: self.key.clone(),
            run_id: self.run_id,
            task_list: std::mem::take(&mut self.task_list),
            undelivered: self.undelivered,
            by,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const TURN: TurnId = TurnId { scheduled_event_id: 2, started_event_id: 3 };

    fn turn() -> Granted {
        Granted::Turn { turn: TURN, previous_started_event_id: 0, attempt: 1 }
    }

    /// Stores the returned task for inspection.
    #[derive(Default)]
    struct Basket(Mutex<Option<ReturnedTask>>);

    impl TaskReturner for Basket {
        fn return_task(self: Arc<Self>, returned: ReturnedTask) {
            *self.0.lock().unwrap() = Some(returned);
        }
    }

    /// Returns the method by which a grant is returned after `happens`.
    fn returned_by(what: Granted, happens: impl FnOnce(Grant)) -> Option<ReturnBy> {
        let basket = Arc::<Basket>::default();
        happens(Grant {
            returner: Some(Arc::clone(&basket) as _),
            undelivered: Undelivered::ConnectionClosed,
            key: HeadKey { domain: "d".into(), workflow_id: "w".into() },
            run_id: Uuid::nil(),
            workflow_type: "t".to_owned(),
            task_list: "l".to_owned(),
            tail: Bytes::new(),
            tail_first: 1,
            poll: Some(PollId(7)),
            what,
            riders: TakenAlong::default(),
            trace: None,
        });
        let returned = basket.0.lock().unwrap().take();
        returned.map(|returned| returned.by)
    }

    #[test]
    fn a_dropped_task_is_returned_and_a_delivered_one_is_not() {
        assert_eq!(returned_by(turn(), Grant::delivered), None);
        let by = ReturnBy::Command(Command::ReturnTurn { turn: TURN, poll: Some(PollId(7)) });
        assert_eq!(returned_by(turn(), drop), Some(by));
    }

    #[test]
    fn an_unrecorded_task_is_returned_to_its_riders() {
        let [last_event_id, previous_started_event_id, version] = [3, 0, 3];
        let asks = Granted::Queries { task: 5, last_event_id, version, previous_started_event_id };
        assert_eq!(returned_by(asks, drop), Some(ReturnBy::Riders(RiderKind::Query, 5)));
        let judges = Granted::Speculation { task: 6, last_event_id, previous_started_event_id, shown: Vec::new() };
        assert_eq!(returned_by(judges, drop), Some(ReturnBy::Riders(RiderKind::Update, 6)));
    }
}
