//! Polls for tasks, delivery of tasks to deciders and runners, and answers to tasks.

mod answers;
mod elsewhere;
mod events;
mod heartbeat;
pub(crate) mod outputs;
pub(crate) mod slots;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{self, Context};
use std::time::Duration;

use futures_util::future::BoxFuture;

use history::{
    Author, Event, EventId, EventKind, Payload, ProposedUpdate, TraceContext, TurnId, event::ActivityTimeouts,
};
use tokio::time::Instant;
use uuid::Uuid;

use crate::base::admission::count_waiting;
use crate::base::admission::open_runs::OpenRuns;
use crate::base::background::Background;
use crate::base::token::Mint;
use crate::base::watch::Watchers;
use crate::commit::read::RunReader;
use crate::lists::grant::{Grant, Granted, NumberedQuery};
use crate::lists::hand_out::TaskLists;
use crate::lists::matching::PollResult;
use crate::lists::pollers::Polling;
use crate::lists::polls::{Poll, TaskEvents, taker};
use crate::lists::{ListKey, Side, Taker};
use crate::nodes::Nodes;
use crate::riders::task::RequestReply;
use crate::riders::waiting::Riders;
use crate::run::lookup::RunLookup;
use crate::run::runs::Runs;
use crate::{ActivityToken, EventRange, HistoryPage, Refusal, Registry, RunRef, TurnToken};

/// A query to a run, as it is sent to the run's decider.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingQuery {
    /// Id of the query, which the answer must contain.
    pub id: String,
    /// Name of the query.
    pub name: String,
    /// Input of the query.
    pub input: Option<Payload>,
}

/// A decider task.
#[derive(Debug, Clone, PartialEq)]
pub struct DeciderTask {
    /// Token that the decider must send with its answer.
    pub token: String,
    /// Domain of the run.
    pub domain: Arc<str>,
    /// Workflow id of the run.
    pub workflow_id: Arc<str>,
    /// Run id.
    pub run_id: Uuid,
    /// Workflow type of the run.
    pub workflow_type: String,
    /// The task list from which the task was taken.
    pub task_list: String,
    /// Number of this attempt: 1 plus the number of directly preceding turns that failed or timed out.
    pub attempt: u32,
    /// Id of the turn's DeciderStarted event, which is the newest event that the decider may see.
    pub started_event_id: EventId,
    /// Id of the DeciderStarted event of the last completed turn; 0 if there is none.
    pub previous_started_event_id: EventId,
    /// Events, oldest first: either the whole history or only the window.
    pub events: Vec<Event>,
    /// Size of `events` as JSON, in bytes.
    pub events_bytes: usize,
    /// Value of the `after` parameter for the next page, if the whole history was requested and does not fit into
    /// `events`. Otherwise `None`. A window has no next page: if it is too large, its oldest events are missing.
    pub next: Option<EventId>,
    /// Context that the decider of the last completed turn stored.
    pub context: Option<Payload>,
    /// Queries. The decider must answer them from the state that results from this turn's decisions.
    pub queries: Vec<PendingQuery>,
    /// True if the task has only queries and requires no decisions. No turn was started, and the history has no event
    /// of this task. `started_event_id` is the id of the run's newest event.
    pub query_only: bool,
    /// Updates that the decider must validate with the turn.
    pub updates: Vec<ProposedUpdate>,
    /// True if the turn exists only for its updates. Its last two events are not recorded yet. If the turn has no
    /// effect, they are never recorded (ADR 10).
    pub speculative: bool,
    /// Trace context of the run. It is the parent of the decider's spans.
    pub trace: Option<TraceContext>,
}

/// An activity task.
#[derive(Debug, Clone, PartialEq)]
pub struct ActivityTask {
    /// Token that the runner must send with its answers.
    pub token: String,
    /// Domain of the run.
    pub domain: Arc<str>,
    /// Workflow id of the run.
    pub workflow_id: Arc<str>,
    /// Run id.
    pub run_id: Uuid,
    /// Workflow type of the run.
    pub workflow_type: String,
    /// The task list from which the task was taken.
    pub task_list: String,
    /// Activity id, chosen by the decider.
    pub activity_id: String,
    /// Type of the activity.
    pub activity_type: String,
    /// Id of the activity's ActivityScheduled event.
    pub scheduled_event_id: EventId,
    /// Id of the activity's ActivityStarted event. `None` if the activity has a retry policy, because this event is
    /// then recorded only when the activity closes.
    pub started_event_id: Option<EventId>,
    /// Number of the attempt: 1, 2, 3, …
    pub attempt: u32,
    /// Details of the last heartbeat that an earlier attempt sent.
    pub heartbeat_details: Option<Payload>,
    /// Input of the activity.
    pub input: Option<Payload>,
    /// Timeouts of the activity.
    pub timeouts: ActivityTimeouts,
    /// Trace context of the run. It is the parent of the runner's spans.
    pub trace: Option<TraceContext>,
}

/// A task that is being delivered to its poller. The task is boxed, because space for this value is reserved in each
/// waiting poll. If this value is dropped without a call of [`delivered`](Self::delivered), the task is returned at
/// once. It can then be handed out again before its timeout.
#[must_use = "dropping it gives the task back"]
pub struct Delivery<T> {
    task: Box<T>,
    receipt: Receipt,
}

/// Receipt for a task that was taken out of its [`Delivery`]. If the receipt is dropped without a call of
/// [`delivered`](Self::delivered), the task is returned, so that it is handed out again.
#[must_use = "dropping it gives the task back"]
pub struct Receipt(Box<Grant>);

impl Receipt {
    /// Marks the task as delivered to the poller.
    pub fn delivered(self) {
        self.0.delivered();
    }
}

impl<T> Delivery<T> {
    /// Returns a reference to the task.
    pub fn task(&self) -> &T {
        &self.task
    }

    /// Splits the delivery into the task and the receipt. The caller must keep the receipt until the task is delivered.
    pub fn split(self) -> (T, Receipt) {
        (*self.task, self.receipt)
    }

    /// Marks the task as delivered to the poller.
    pub fn delivered(self) {
        self.receipt.delivered();
    }
}

/// A poll that is prepared and about to wait.
struct PollUnderWay {
    list: ListKey,
    taker: Taker,
    wait: Duration,
    /// Time at which the wait ends.
    deadline: Instant,
    /// Task that was started for an earlier attempt of this poll. The response to that attempt was lost.
    lost: Option<Box<Grant>>,
    /// Search for tasks of the run that the poll names.
    seeking: Option<BoxFuture<'static, ()>>,
    _polling: Polling,
}

/// Makes progress with a search for tasks of a run, if there is one.
fn poll_seeking(seeking: &mut Option<BoxFuture<'static, ()>>, context: &mut Context<'_>) -> task::Poll<()> {
    seeking.as_mut().map_or(task::Poll::Pending, |seeking| seeking.as_mut().poll(context))
}

/// Polls of deciders and runners, and their answers.
pub struct Tasks {
    pub(crate) runs: Arc<Runs>,
    pub(crate) lists: Arc<TaskLists>,
    pub(crate) request_reply: Arc<RequestReply>,
    pub(crate) riders: Arc<Riders>,
    pub(crate) lookup: Arc<RunLookup>,
    pub(crate) reader: Arc<RunReader>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) open_runs: Arc<OpenRuns>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) mint: Arc<Mint>,
    pub(crate) background: Arc<Background>,
}

impl Tasks {
    /// Returns the approximate number of tasks that wait on a list, as far as this node knows. Also returns true if
    /// more tasks are known to wait.
    pub fn waiting_tasks(&self, domain: &str, list: &str, are_turns: bool) -> (usize, bool) {
        let side = if are_turns { Side::Decider } else { Side::Activity };
        let list = ListKey { domain: domain.into(), side, name: list.into() };
        self.lists.seek(&list);
        self.lists.matching.waiting(&list)
    }

    /// Waits for a decider task on a list.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], a fault for an invalid list name or identity, or an error of the store.
    pub fn poll_decider(
        &self,
        domain: &str,
        list: &str,
        poll: Poll,
    ) -> impl Future<Output = Result<Option<Delivery<DeciderTask>>, Refusal>> {
        let events = poll.task_events();
        // All parts of a poll except the wait itself are boxed, because otherwise each waiting poll would reserve space
        // for these parts.
        let begun = Box::pin(self.begin_poll(Side::Decider, (domain, list), poll));
        async move {
            let mut poll = begun.await?;
            while let Some(grant) = self.poll(&mut poll).await? {
                match Box::pin(self.decider_task(&grant, events)).await {
                    Ok(task) => return Ok(Some(Delivery { task: Box::new(task), receipt: Receipt(grant) })),
                    Err(refusal) if pass_over(grant, &refusal) && poll.taker.poll.is_none() => {}
                    // The run records that the task was sent to this poll, so the poll must get no other task.
                    Err(refusal) if is_of_task(&refusal) => return Ok(None),
                    Err(refusal) => return Err(refusal),
                }
            }
            Ok(None)
        }
    }

    /// Waits for an activity task on a list.
    ///
    /// # Errors
    ///
    /// As for [`poll_decider`](Self::poll_decider).
    pub fn poll_activity(
        &self,
        domain: &str,
        list: &str,
        poll: Poll,
    ) -> impl Future<Output = Result<Option<Delivery<ActivityTask>>, Refusal>> {
        let begun = Box::pin(self.begin_poll(Side::Activity, (domain, list), poll));
        async move {
            let mut poll = begun.await?;
            while let Some(grant) = self.poll(&mut poll).await? {
                match Box::pin(self.activity_task(&grant)).await {
                    Ok(task) => return Ok(Some(Delivery { task: Box::new(task), receipt: Receipt(grant) })),
                    Err(refusal) if pass_over(grant, &refusal) && poll.taker.poll.is_none() => {}
                    // The run records that the task was sent to this poll, so the poll must get no other task.
                    Err(refusal) if is_of_task(&refusal) => return Ok(None),
                    Err(refusal) => return Err(refusal),
                }
            }
            Ok(None)
        }
    }

    /// Prepares a poll: validates its parameters, and finds the task that was started for an earlier attempt.
    async fn begin_poll(
        &self,
        side: Side,
        (domain, list): (&str, &str),
        poll: Poll,
    ) -> Result<Box<PollUnderWay>, Refusal> {
        self.registry.must_know(domain).await?;
        history::admit::check_name("taskList", list)?;
        let list = ListKey { domain: domain.into(), side, name: list.into() };
        let (taker, earlier) = taker(&list, &poll)?;
        let polling = self.lists.pollers.polling(&list, &taker)?;
        if !poll.wait.is_zero() {
            count_waiting()?;
        }
        self.lists.seek(&list);
        if poll.wait.is_zero() {
            Box::pin(self.lists.seek_run_once(&list, &taker)).await;
        }
        let lost = if earlier.is_empty() { None } else { self.lists.take_lost(&list, &earlier, &taker).await? };
        let (wait, deadline) = (poll.wait, Instant::now() + poll.wait);
        let (lost, seeking) = (lost.map(Box::new), None);
        Ok(Box::new(PollUnderWay { list, taker, wait, deadline, lost, seeking, _polling: polling }))
    }

    async fn poll(&self, poll: &mut PollUnderWay) -> Result<Option<Box<Grant>>, Refusal> {
        if let Some(lost) = poll.lost.take() {
            return Ok(Some(lost));
        }
        let mut deadline = std::pin::pin!(tokio::time::sleep_until(poll.deadline));
        let mut waiting = loop {
            if self.background.is_stopping() {
                return Ok(None);
            }
            let task = match self.lists.matching.poll(&poll.list, &poll.taker) {
                PollResult::Task(task) => task,
                PollResult::Wait(waiting) => break waiting,
            };
            match Box::pin(self.lists.take(&poll.list, task, poll.taker.clone())).await {
                Ok(Some(grant)) => return Ok(Some(Box::new(grant))),
                Ok(None) => {}
                // The service does not know whether the task was started. If the poll has an id, the run may record
                // that the task was sent to this poll. Therefore only a poll without an id may continue.
                Err(refusal @ Refusal::OutcomeUnknown { .. }) if poll.taker.poll.is_none() => {
                    tracing::warn!(%refusal, list = %poll.list.name, "a waiting task could not be dispatched");
                }
                Err(refusal) if is_of_task(&refusal) => {
                    tracing::error!(
                        %refusal, list = %poll.list.name,
                        "a task cannot be dispatched: its run is damaged"
                    );
                }
                Err(refusal) => return Err(refusal),
            }
        };
        if !poll.wait.is_zero() {
            poll.seeking = self.lists.seek_run(&poll.list, &poll.taker);
            if poll.seeking.is_none() {
                self.lists.seek_waiting(&poll.list);
            }
        }
        tokio::select! {
            biased;
            answer = &mut waiting.answer => return Ok(answer.ok()),
            () = &mut deadline => {}
            () = poll_fn(|context| poll_seeking(&mut poll.seeking, context)) => {}
            () = self.background.stopped() => {}
        }
        Ok(waiting.end().await)
    }

    /// Returns a page of the history up to the DeciderStarted event of the token's turn. Fails if no decider has the
    /// turn.
    ///
    /// # Errors
    ///
    /// As for [`Views::describe`](crate::Views::describe). If the turn has ended, an error that says how it ended.
    pub async fn turn_history(&self, token: &TurnToken, page: &EventRange) -> Result<HistoryPage, Refusal> {
        let (domain, workflow_id) = (token.domain.clone(), token.workflow_id.clone());
        let at = RunRef { domain, workflow_id, run_id: Some(token.run_id) };
        let bound = token.turn.started_event_id + 1;
        let before = Some(page.before.map_or(bound, |before| before.min(bound)));
        let loaded = self.lookup.look_up_with(&at, token.turn.started_event_id).await?;
        self.must_be_out(token, loaded.run())?;
        let mut read = self.reader.read_page(&at.key(), &loaded, &EventRange { before, ..*page }).await?;
        read.last_event_id = token.turn.started_event_id;
        Ok(read)
    }

    async fn decider_task(&self, grant: &Grant, asked: TaskEvents) -> Result<DeciderTask, Refusal> {
        let (turn, previous_started_event_id, attempt, query_only) = match &grant.what {
            Granted::Turn { turn, previous_started_event_id, attempt } => {
                (*turn, *previous_started_event_id, *attempt, None)
            }
            Granted::Queries { task, last_event_id, version, previous_started_event_id } => {
                let shown = TurnId { scheduled_event_id: *task, started_event_id: *last_event_id };
                (shown, *previous_started_event_id, 1, Some(*version))
            }
            Granted::Speculation { last_event_id, previous_started_event_id, .. } => {
                // Ids that the events of the speculative turn will have if the turn is recorded.
                let [scheduled_event_id, started_event_id] = [last_event_id + 1, last_event_id + 2];
                (TurnId { scheduled_event_id, started_event_id }, *previous_started_event_id, 1, None)
            }
            Granted::Activity { .. } => {
                return Err(Refusal::Corrupt { what: "an activity on a decider's list".to_owned() });
            }
        };
        let (started_event_id, source) = (turn.started_event_id, grant.source());
        let (speculative, shown, last) = match &grant.what {
            Granted::Speculation { task, last_event_id, shown, .. } => (Some(*task), shown.as_slice(), *last_event_id),
            Granted::Turn { .. } | Granted::Queries { .. } | Granted::Activity { .. } => {
                (None, &[][..], started_event_id)
            }
        };
        let read = self.read_events(&source, asked, (previous_started_event_id, last), shown).await?;
        let token = TurnToken {
            domain: Arc::clone(&grant.key.domain),
            workflow_id: Arc::clone(&grant.key.workflow_id),
            run_id: grant.run_id,
            task_list: grant.task_list.clone(),
            turn,
            query_only,
            speculative,
            node: self.nodes.address().filter(|_| !grant.riders.is_empty()).map(Into::into),
            judges: !grant.riders.updates.is_empty(),
            author: Author::default(),
        };
        let query = |posed: &NumberedQuery| PendingQuery {
            id: self.mint.query(grant.run_id, posed.number),
            name: posed.query.name.clone(),
            input: posed.query.input.clone(),
        };
        Ok(DeciderTask {
            token: self.mint.turn(&token),
            domain: token.domain,
            workflow_id: token.workflow_id,
            run_id: grant.run_id,
            workflow_type: grant.workflow_type.clone(),
            task_list: token.task_list,
            attempt,
            started_event_id,
            previous_started_event_id,
            events: read.events,
            events_bytes: read.bytes,
            next: read.next,
            context: read.context,
            queries: grant.riders.queries.iter().map(query).collect(),
            query_only: query_only.is_some(),
            updates: grant.riders.updates.clone(),
            speculative: speculative.is_some(),
            trace: grant.trace.clone(),
        })
    }

    async fn activity_task(&self, grant: &Grant) -> Result<ActivityTask, Refusal> {
        let Granted::Activity { task, activity, details } = &grant.what else {
            return Err(Refusal::Corrupt { what: "a turn on a runner's list".to_owned() });
        };
        let scheduled = task.scheduled_event_id;
        let event = self.reader.read_one(&grant.source(), scheduled).await?;
        let input = match event.map(|event| event.kind) {
            Some(EventKind::ActivityScheduled(it)) => it.input,
            _ => {
                return Err(Refusal::Corrupt { what: format!("event {scheduled} of run {}", grant.run_id) });
            }
        };
        let token = ActivityToken {
            domain: Arc::clone(&grant.key.domain),
            workflow_id: Arc::clone(&grant.key.workflow_id),
            run_id: grant.run_id,
            task_list: activity.task_list.clone(),
            task: *task,
            author: Author::default(),
        };
        Ok(ActivityTask {
            token: self.mint.activity(&token),
            domain: token.domain,
            workflow_id: token.workflow_id,
            run_id: grant.run_id,
            workflow_type: grant.workflow_type.clone(),
            task_list: token.task_list,
            activity_id: activity.activity_id.clone(),
            activity_type: activity.activity_type.clone(),
            scheduled_event_id: scheduled,
            started_event_id: activity.started_event_id,
            attempt: activity.attempt(),
            heartbeat_details: details.clone(),
            input,
            timeouts: activity.timeouts,
            trace: grant.trace.clone(),
        })
    }
}

/// Returns true if an error is about the found task only, so that the poll can get another task.
fn is_of_task(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Corrupt { .. }
            | Refusal::Fault(_)
            | Refusal::RunTooLarge { .. }
            | Refusal::RunNotCurrent { .. }
            | Refusal::UnknownRun { .. }
            | Refusal::UnknownWorkflow { .. }
    )
}

/// Handles a started task that cannot be read. If the data of the run is damaged, leaves the task to time out and
/// returns true. The run is then listed as `failing`. Returning the task would hand it out again at once, with the same
/// error. For any other error, returns the task to its list and returns false.
fn pass_over(grant: Box<Grant>, refusal: &Refusal) -> bool {
    if !is_of_task(refusal) {
        grant.unreadable();
        return false;
    }
    let (workflow_id, run_id, list) = (&grant.key.workflow_id, grant.run_id, &grant.task_list);
    tracing::error!(%refusal, %list, %workflow_id, %run_id, "a task cannot be delivered: its run is damaged");
    grant.delivered();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the size of the future that polls, without running it.
    fn size<F>(_: impl Fn(&'static Tasks, &'static mut PollUnderWay) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_waiting_poll_takes_little_memory() {
        let size = size(Tasks::poll);
        assert!(
            size <= 384,
            "{size} bytes are taken for each poll that waits; what is over before it waits needs none"
        );
    }
}
