//! Scheduling of a host's exchanges with its task list: decides when to send requests, and which requests to retry.

use std::collections::{HashMap, VecDeque};
use std::marker::PhantomData;
use std::time::Duration;

use history::limits::POLL_ATTEMPTS_MAX;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_with::skip_serializing_none;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;

use super::kind::{ExchangeSettings, TaskKind, TaskReply};
use crate::body::{AnswerReceipt, Exchanged};
use crate::http::{WAIT_AT_ONCE, encode, to_bytes_in};
use crate::polls::fresh;
use crate::tasks::{Outcome, log_warnings};
use crate::{Client, Error, Patience, Waits};

/// Maximum number of answers, and of tasks, in one exchange. Source: docs/exchanges.md.
const AT_ONCE_MAX: usize = 256;

/// Maximum size of the answers in one exchange, in bytes. Our choice: half of the service's limit for a body. An answer
/// that is larger is the only answer of its exchange.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Expected size of a request without its answers, in bytes. Our choice: enough for a poll that does not list slots.
const REQUEST_BYTES: usize = 256;

/// Maximum number of exchanges whose answers are not recorded yet. Further answers are collected in the meantime. Our
/// choice: one exchange whose answers the service is recording, and one in transit.
const RECORDING_MAX: usize = 2;

/// Delay before the next poll if the caller has no permission to poll the list.
const REFUSED_WAIT: Duration = Duration::from_secs(10);

/// An event for the host.
pub(super) enum HostEvent<T, C> {
    /// A task has arrived. It occupies its slot until it is answered.
    Task(Box<T>),
    /// The outcome of an answer, with the context that the host gave with the answer.
    Answered(C, Result<Outcome, Error>),
}

/// An answer that is not recorded yet.
struct Answer<C> {
    json: Box<RawValue>,
    context: C,
    /// Earliest time to send the answer.
    not_before: Instant,
    waits: Waits,
    may_be_recorded: bool,
    /// True if the answer must be the only answer of its exchange, because an exchange with several answers was refused
    /// as a whole.
    goes_alone: bool,
}

/// Slots that wait for tasks in the same poll.
struct SlotPoll {
    id: String,
    attempt: u32,
    slots: Vec<u32>,
}

/// An exchange in flight.
struct OpenExchange<C> {
    poll: SlotPoll,
    /// Answers in the exchange whose outcomes are not known yet.
    answers: Vec<Answer<C>>,
    task: AbortHandle,
}

enum ExchangeMessage<T> {
    Line(Exchanged<T>),
    Ended(Result<(), Error>),
}

/// The exchanges of one host with one list.
pub(super) struct Exchanges<K: TaskKind, C> {
    client: Client,
    url: String,
    settings: ExchangeSettings,
    /// Number of slots that neither have a task nor wait for one in a poll.
    free: usize,
    /// Answers for the next exchange.
    gathered: VecDeque<Answer<C>>,
    /// Polls that must be repeated because the response to their exchange was lost.
    lost: Vec<SlotPoll>,
    in_flight: HashMap<u64, OpenExchange<C>>,
    number: u64,
    calls: JoinSet<()>,
    news: UnboundedReceiver<(u64, ExchangeMessage<K::Task>)>,
    news_sender: UnboundedSender<(u64, ExchangeMessage<K::Task>)>,
    host_events: VecDeque<HostEvent<K::Task, C>>,
    waits: Waits,
    /// Earliest time of the next request.
    resume_at: Instant,
    /// Earliest time to poll for the next task.
    take_at: Instant,
    is_stopping: bool,
    kind: PhantomData<K>,
}

#[skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExchangeRequest<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    answers: Vec<&'a RawValue>,
    max_tasks: Option<usize>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    slots: &'a [u32],
    identity: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    queries: bool,
    updates: Option<usize>,
    poll_id: &'a str,
    attempt: Option<u32>,
    workflow_id: Option<&'a str>,
}

impl<K: TaskKind, C> Exchanges<K, C> {
    /// Creates the exchanges with a list of the client's domain.
    pub(super) fn new(client: Client, list: &str, settings: ExchangeSettings) -> Self {
        let url = client.domain_url(&format!("task-lists/{}/{}/exchange", encode(list), K::SEGMENT));
        let (news_sender, news) = unbounded_channel();
        let now = Instant::now();
        Self {
            client,
            url,
            free: settings.at_once.max(1),
            settings,
            gathered: VecDeque::new(),
            lost: Vec::new(),
            in_flight: HashMap::new(),
            number: 0,
            calls: JoinSet::new(),
            news,
            news_sender,
            host_events: VecDeque::new(),
            waits: Waits::new(Patience::Endless),
            resume_at: now,
            take_at: now,
            is_stopping: false,
            kind: PhantomData,
        }
    }

    /// Processes the end of the work on a task: queues the task's answer.
    pub(super) fn finish_task(&mut self, done: Result<TaskReply<K, C>, JoinError>) {
        match done {
            Ok(reply) => self.answer(reply, true),
            Err(error) => {
                // The host catches panics of user code, so this is a bug of the host itself. The task gets no answer
                // and times out.
                tracing::error!(%error, "a task ended without an answer and will time out; this is a bug in the kit");
                self.free += 1;
            }
        }
    }

    /// Queues an answer to a task. If `frees_slot` is true, also frees the slot of the task.
    pub(super) fn answer(&mut self, TaskReply { reply, patience, context }: TaskReply<K, C>, frees_slot: bool) {
        self.free += usize::from(frees_slot);
        let json = match to_raw_value(&reply) {
            Ok(json) => json,
            Err(error) => {
                let what = format!("the answer cannot be written as JSON: {error}");
                self.host_events.push_back(HostEvent::Answered(context, Err(Error::Setup { what })));
                return;
            }
        };
        let (not_before, waits) = (Instant::now(), Waits::new(Patience::For(patience)));
        let (may_be_recorded, goes_alone) = (false, false);
        self.gathered.push_back(Answer { json, context, not_before, waits, may_be_recorded, goes_alone });
    }

    /// Stops taking tasks. Queued answers are still sent.
    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
        self.lost.clear();
        self.in_flight.retain(|_, exchange| {
            let is_needed = !exchange.answers.is_empty();
            if !is_needed {
                exchange.task.abort();
            }
            is_needed
        });
    }

    /// Returns true if no answers and no events are outstanding.
    pub(super) fn is_idle(&self) -> bool {
        self.host_events.is_empty()
            && self.gathered.is_empty()
            && self.in_flight.values().all(|exchange| exchange.answers.is_empty())
    }

    /// Returns the next event. While waiting for it, sends polls for free slots and collected answers. This function is
    /// cancel safe.
    pub(super) async fn next(&mut self) -> HostEvent<K::Task, C> {
        loop {
            if let Some(event) = self.host_events.pop_front() {
                return event;
            }
            let wake_at = self.send();
            tokio::select! {
                biased;
                news = self.news.recv() => {
                    // The channel cannot be closed, because `self` holds a sender.
                    if let Some((number, news)) = news {
                        self.handle(number, news);
                    }
                }
                () = sleep_until(wake_at) => {}
            }
        }
    }

    /// Sends all requests that can be sent now. Returns the time of the next attempt; `None` if it depends on other
    /// events.
    fn send(&mut self) -> Option<Instant> {
        while self.calls.try_join_next().is_some() {}
        let now = Instant::now();
        if now < self.resume_at {
            return Some(self.resume_at);
        }
        while let Some(poll) = self.lost.pop() {
            let answers = self.take_gathered(now);
            self.begin(poll, answers);
        }
        while self.recording() < RECORDING_MAX && self.has_gathered(now) {
            let (answers, room) = (self.take_gathered(now), self.take_room(now));
            self.begin(SlotPoll { id: fresh(), attempt: 1, slots: numbered(room) }, answers);
        }
        // If there are answers to send, the exchange that sends them also polls for the free slots, so no separate poll
        // is needed.
        while !self.has_gathered(now) {
            match self.take_room(now) {
                0 => break,
                room => self.begin(SlotPoll { id: fresh(), attempt: 1, slots: numbered(room) }, Vec::new()),
            }
        }
        let waits_to_take = self.free > 0 && self.settings.interval.is_some() && !self.is_stopping;
        let later = self.gathered.iter().map(|answer| answer.not_before).filter(|at| *at > now);
        later.chain(waits_to_take.then_some(self.take_at)).min()
    }

    /// Returns the number of exchanges in flight that contain answers.
    fn recording(&self) -> usize {
        self.in_flight.values().filter(|exchange| !exchange.answers.is_empty()).count()
    }

    /// Returns true if there is an answer that can be sent now.
    fn has_gathered(&self, now: Instant) -> bool {
        self.gathered.iter().any(|answer| answer.not_before <= now)
    }

    /// Removes and returns the answers of the next exchange.
    fn take_gathered(&mut self, now: Instant) -> Vec<Answer<C>> {
        let (mut taken, mut bytes): (Vec<Answer<C>>, usize) = (Vec::new(), 0);
        for answer in std::mem::take(&mut self.gathered) {
            bytes += answer.json.get().len();
            let is_full = taken.len() >= AT_ONCE_MAX || bytes > BYTES_MAX || answer.goes_alone;
            let is_alone = taken.first().is_some_and(|first| first.goes_alone);
            if answer.not_before > now || (!taken.is_empty() && (is_full || is_alone)) {
                self.gathered.push_back(answer);
            } else {
                taken.push(answer);
            }
        }
        taken
    }

    /// Reserves free slots, but at most as many as may be filled now. Returns the number of reserved slots.
    fn take_room(&mut self, now: Instant) -> usize {
        let may = match self.settings.interval {
            _ if self.is_stopping => 0,
            None => AT_ONCE_MAX,
            Some(_) if now < self.take_at || self.free == 0 => 0,
            Some(interval) => {
                self.take_at = now.max(self.take_at) + interval;
                1
            }
        };
        let room = self.free.min(may);
        self.free -= room;
        room
    }

    fn begin(&mut self, poll: SlotPoll, answers: Vec<Answer<C>>) {
        let is_first = poll.attempt == 1;
        let request = ExchangeRequest {
            answers: answers.iter().map(|answer| &*answer.json).collect(),
            max_tasks: (is_first && !poll.slots.is_empty()).then_some(poll.slots.len()),
            slots: if is_first { &[] } else { &poll.slots },
            identity: &self.settings.identity,
            queries: self.settings.queries,
            updates: self.settings.updates,
            poll_id: &poll.id,
            attempt: (!is_first).then_some(poll.attempt),
            workflow_id: self.settings.workflow_id.as_deref(),
        };
        let wait = if poll.slots.is_empty() { Duration::ZERO } else { WAIT_AT_ONCE };
        let (number, news_sender) = (self.number, self.news_sender.clone());
        self.number += 1;
        let bytes: usize = answers.iter().map(|answer| answer.json.get().len() + 1).sum();
        let (client, url, body) = (self.client.clone(), self.url.clone(), to_bytes_in(&request, bytes + REQUEST_BYTES));
        let task = self.calls.spawn(async move {
            let news = |line: Exchanged<K::Task>| drop(news_sender.send((number, ExchangeMessage::Line(line))));
            let ended = match body {
                Ok(body) => client.lines(&url, body, wait, news).await,
                Err(error) => Err(error),
            };
            drop(news_sender.send((number, ExchangeMessage::Ended(ended))));
        });
        self.in_flight.insert(number, OpenExchange { poll, answers, task });
    }

    fn handle(&mut self, number: u64, news: ExchangeMessage<K::Task>) {
        let Some(exchange) = self.in_flight.get_mut(&number) else { return };
        match news {
            ExchangeMessage::Line(Exchanged { receipts, tasks, no_pollers }) => {
                if let Some(lists) = no_pollers.filter(|lists| self.client.unpolled.replace(lists)) {
                    tracing::info!(
                        polled = self.url,
                        lists,
                        "no task received, but tasks wait in other lists, which have no pollers; check the list's name"
                    );
                }
                for task in tasks {
                    // A task in an unknown slot belongs to no poll of this exchange.
                    if let Some(at) = exchange.poll.slots.iter().position(|slot| *slot == task.slot) {
                        exchange.poll.slots.swap_remove(at);
                        self.host_events.push_back(HostEvent::Task(Box::new(task.task)));
                    }
                }
                let Some(receipts) = receipts else { return };
                let answers = std::mem::take(&mut exchange.answers);
                if self.is_stopping
                    && let Some(exchange) = self.in_flight.remove(&number)
                {
                    exchange.task.abort();
                }
                self.waits.reset();
                let missing = answers.len().saturating_sub(receipts.len());
                let silent = std::iter::repeat_with(|| None).take(missing);
                for (answer, receipt) in answers.into_iter().zip(receipts.into_iter().map(Some).chain(silent)) {
                    self.settle(answer, receipt);
                }
            }
            ExchangeMessage::Ended(ended) => {
                let Some(OpenExchange { poll, answers, .. }) = self.in_flight.remove(&number) else { return };
                match ended {
                    Ok(()) => {
                        self.free += poll.slots.len();
                        if answers.is_empty() {
                            self.waits.reset();
                        }
                        for answer in answers {
                            self.settle(answer, None);
                        }
                    }
                    Err(error) => self.fail_exchange(poll, answers, &error),
                }
            }
        }
    }

    /// Reports the outcome of an answer to the host, or queues the answer for a retry.
    fn settle(&mut self, answer: Answer<C>, receipt: Option<AnswerReceipt>) {
        let error = match receipt {
            Some(AnswerReceipt { problem: None, warnings }) => {
                log_warnings(&warnings);
                self.host_events.push_back(HostEvent::Answered(answer.context, Ok(Outcome::Recorded)));
                return;
            }
            Some(AnswerReceipt { problem: Some(problem), .. }) => {
                Error::Refused { problem: Box::new(problem), retry_after: None }
            }
            None => Error::Unexpected { url: self.url.clone(), what: "no receipt for an answer".to_owned() },
        };
        self.refuse(answer, error, None);
    }

    /// Handles the refusal of an answer. If a retry may succeed, queues the answer for a retry at `again_at`, by
    /// default after the answer's backoff. Otherwise reports the refusal to the host.
    fn refuse(&mut self, mut answer: Answer<C>, error: Error, again_at: Option<Instant>) {
        let outcome = match error.code() {
            // An earlier attempt of this answer was recorded, but its receipt was lost.
            Some("turn-completed" | "query-task-lost" | "activity-closed" | "run-closed") if answer.may_be_recorded => {
                Ok(Outcome::RecordedBefore)
            }
            _ if error.is_task_lost() => Ok(Outcome::Lost(error)),
            _ => {
                answer.may_be_recorded |= !error.had_no_side_effect();
                match answer.waits.after(&error) {
                    Some(wait) => {
                        answer.not_before = again_at.unwrap_or_else(|| Instant::now() + wait);
                        self.gathered.push_back(answer);
                        return;
                    }
                    None => Err(error),
                }
            }
        };
        self.host_events.push_back(HostEvent::Answered(answer.context, outcome));
    }

    /// Processes an exchange that was refused as a whole, or whose outcome is unknown.
    fn fail_exchange(&mut self, mut poll: SlotPoll, answers: Vec<Answer<C>>, error: &Error) {
        let (wait, has_answers, is_one) = (self.waits.after(error), !answers.is_empty(), answers.len() == 1);
        // If the answers may have caused the refusal, requests without them need not wait.
        if wait.is_some() || !has_answers {
            self.resume_at = self.resume_at.max(Instant::now() + wait.unwrap_or(REFUSED_WAIT));
        }
        if !poll.slots.is_empty() && !self.is_stopping {
            tracing::warn!(error = error as &dyn std::error::Error, url = self.url, "polling for tasks failed");
        }
        for mut answer in answers {
            if wait.is_some() || is_one {
                self.refuse(answer, error.clone(), wait.map(|_| self.resume_at));
            } else {
                // One answer may have caused the refusal of the whole exchange, so each answer is retried separately.
                answer.goes_alone = true;
                self.gathered.push_back(answer);
            }
        }
        poll.attempt += u32::from(!error.had_no_side_effect());
        if self.is_stopping || poll.slots.is_empty() || wait.is_none() || poll.attempt > POLL_ATTEMPTS_MAX {
            self.free += poll.slots.len();
        } else {
            self.lost.push(poll);
        }
    }
}

/// Returns `room` slot numbers, beginning with 0.
fn numbered(room: usize) -> Vec<u32> {
    (0..u32::try_from(room).unwrap_or(u32::MAX)).collect()
}

/// Sleeps until `at`. If `at` is `None`, sleeps forever.
pub(super) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
