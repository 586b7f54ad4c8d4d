//! The exchanges of a host with its list. Owns what is asked and when, and what is asked again.

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

/// Answers of one exchange, and tasks that one takes, at most. Source: docs/exchanges.md.
const AT_ONCE_MAX: usize = 256;

/// Bytes of the answers of one exchange. Ours: half of what the service takes; one that is larger goes alone.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// What an exchange has beside its answers, in bytes. Ours: room for one whose slots are not listed.
const ASKED_BYTES: usize = 256;

/// Exchanges whose answers are not recorded yet, at most: what comes meanwhile gathers. Ours: one that is being recorded, and one that is
/// on its way.
const RECORDING_MAX: usize = 2;

/// How long to wait before a list is asked again that may not be asked.
const REFUSED_WAIT: Duration = Duration::from_secs(10);

/// What has happened.
pub(super) enum Happened<T, C> {
    /// A task has come. Its slot is free again with its answer.
    Task(Box<T>),
    /// An answer has come to its end, with what was given along with it.
    Answered(C, Result<Outcome, Error>),
}

/// An answer that is not recorded yet.
struct Answer<C> {
    json: Box<RawValue>,
    context: C,
    /// It does not go before.
    not_before: Instant,
    waits: Waits,
    may_be_recorded: bool,
    /// What it went with was refused as a whole.
    goes_alone: bool,
}

/// Slots that wait, by the poll that they wait with.
struct SlotPoll {
    id: String,
    attempt: u32,
    slots: Vec<u32>,
}

/// An exchange that is under way.
struct OpenExchange<C> {
    poll: SlotPoll,
    /// Until it is known what became of them.
    answers: Vec<Answer<C>>,
    task: AbortHandle,
}

enum ExchangeNews<T> {
    Line(Exchanged<T>),
    Ended(Result<(), Error>),
}

/// The exchanges of one host with one list.
pub(super) struct Exchanges<K: TaskKind, C> {
    client: Client,
    url: String,
    asking: ExchangeSettings,
    /// Slots that are free and wait for nothing.
    free: usize,
    /// Answers that go with the next exchange.
    gathered: VecDeque<Answer<C>>,
    /// Slots whose exchange was lost: they are asked for again.
    lost: Vec<SlotPoll>,
    under_way: HashMap<u64, OpenExchange<C>>,
    number: u64,
    calls: JoinSet<()>,
    told: UnboundedReceiver<(u64, ExchangeNews<K::Task>)>,
    tell: UnboundedSender<(u64, ExchangeNews<K::Task>)>,
    happened: VecDeque<Happened<K::Task, C>>,
    waits: Waits,
    /// Nothing is asked before.
    resume_at: Instant,
    /// No task is taken before.
    take_at: Instant,
    is_stopping: bool,
    kind: PhantomData<K>,
}

#[skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Asked<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    answers: Vec<&'a RawValue>,
    room: Option<usize>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    slots: &'a [u32],
    identity: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    queries: bool,
    updates: Option<usize>,
    poll_id: &'a str,
    attempt: Option<u32>,
}

impl<K: TaskKind, C> Exchanges<K, C> {
    /// Exchanges with this list of the client's domain.
    pub(super) fn new(client: Client, list: &str, asking: ExchangeSettings) -> Self {
        let url = client.domain_url(&format!("task-lists/{}/{}/exchange", encode(list), K::SEGMENT));
        let (tell, told) = unbounded_channel();
        let now = Instant::now();
        Self {
            client,
            url,
            free: asking.at_once.max(1),
            asking,
            gathered: VecDeque::new(),
            lost: Vec::new(),
            under_way: HashMap::new(),
            number: 0,
            calls: JoinSet::new(),
            told,
            tell,
            happened: VecDeque::new(),
            waits: Waits::new(Patience::Endless),
            resume_at: now,
            take_at: now,
            is_stopping: false,
            kind: PhantomData,
        }
    }

    /// A task was worked on.
    pub(super) fn has_worked(&mut self, done: Result<TaskReply<K, C>, JoinError>) {
        match done {
            Ok(reply) => self.answer(reply, true),
            Err(error) => {
                // Its host contains what it runs; the task is left to its timeout.
                tracing::error!(%error, "a task was not worked on to its end");
                self.free += 1;
            }
        }
    }

    /// Answers a task, whose slot may be free from now on.
    pub(super) fn answer(&mut self, TaskReply { reply, patience, context }: TaskReply<K, C>, frees_slot: bool) {
        self.free += usize::from(frees_slot);
        let json = match to_raw_value(&reply) {
            Ok(json) => json,
            Err(error) => {
                let what = format!("the answer has no JSON form: {error}");
                self.happened.push_back(Happened::Answered(context, Err(Error::Setup { what })));
                return;
            }
        };
        let (not_before, waits) = (Instant::now(), Waits::new(Patience::For(patience)));
        let (may_be_recorded, goes_alone) = (false, false);
        self.gathered.push_back(Answer { json, context, not_before, waits, may_be_recorded, goes_alone });
    }

    /// Takes no more tasks. Answers are recorded all the same.
    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
        self.lost.clear();
        self.under_way.retain(|_, exchange| {
            let is_needed = !exchange.answers.is_empty();
            if !is_needed {
                exchange.task.abort();
            }
            is_needed
        });
    }

    /// Whether no answer is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.happened.is_empty()
            && self.gathered.is_empty()
            && self.under_way.values().all(|exchange| exchange.answers.is_empty())
    }

    /// What happens next. Asks for what there is room for, and gives what has gathered; nothing is lost when this is dropped.
    pub(super) async fn next(&mut self) -> Happened<K::Task, C> {
        loop {
            if let Some(happened) = self.happened.pop_front() {
                return happened;
            }
            let wake_at = self.send();
            tokio::select! {
                biased;
                told = self.told.recv() => {
                    // This holds a sender itself.
                    if let Some((number, told)) = told {
                        self.hear(number, told);
                    }
                }
                () = sleep_until(wake_at) => {}
            }
        }
    }

    /// Sends what there is to send; when to look again, where only time stands in the way.
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
        // Slots of tasks that were answered go with the answers.
        while !self.has_gathered(now) {
            match self.take_room(now) {
                0 => break,
                room => self.begin(SlotPoll { id: fresh(), attempt: 1, slots: numbered(room) }, Vec::new()),
            }
        }
        let waits_to_take = self.free > 0 && self.asking.interval.is_some() && !self.is_stopping;
        let later = self.gathered.iter().map(|answer| answer.not_before).filter(|at| *at > now);
        later.chain(waits_to_take.then_some(self.take_at)).min()
    }

    /// How many exchanges have answers that are not known to be recorded.
    fn recording(&self) -> usize {
        self.under_way.values().filter(|exchange| !exchange.answers.is_empty()).count()
    }

    /// Whether an answer could go now.
    fn has_gathered(&self, now: Instant) -> bool {
        self.gathered.iter().any(|answer| answer.not_before <= now)
    }

    /// The answers that go with one exchange.
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

    /// Takes slots that are free, as many as may be filled now.
    fn take_room(&mut self, now: Instant) -> usize {
        let may = match self.asking.interval {
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
        let asked = Asked {
            answers: answers.iter().map(|answer| &*answer.json).collect(),
            room: (is_first && !poll.slots.is_empty()).then_some(poll.slots.len()),
            slots: if is_first { &[] } else { &poll.slots },
            identity: &self.asking.identity,
            queries: self.asking.queries,
            updates: self.asking.updates,
            poll_id: &poll.id,
            attempt: (!is_first).then_some(poll.attempt),
        };
        let wait = if poll.slots.is_empty() { Duration::ZERO } else { WAIT_AT_ONCE };
        let (number, tell) = (self.number, self.tell.clone());
        self.number += 1;
        let bytes: usize = answers.iter().map(|answer| answer.json.get().len() + 1).sum();
        let (client, url, body) = (self.client.clone(), self.url.clone(), to_bytes_in(&asked, bytes + ASKED_BYTES));
        let task = self.calls.spawn(async move {
            let told = |line: Exchanged<K::Task>| drop(tell.send((number, ExchangeNews::Line(line))));
            let ended = match body {
                Ok(body) => client.lines(&url, body, wait, told).await,
                Err(error) => Err(error),
            };
            drop(tell.send((number, ExchangeNews::Ended(ended))));
        });
        self.under_way.insert(number, OpenExchange { poll, answers, task });
    }

    fn hear(&mut self, number: u64, told: ExchangeNews<K::Task>) {
        let Some(exchange) = self.under_way.get_mut(&number) else { return };
        match told {
            ExchangeNews::Line(Exchanged { receipts, tasks, unpolled }) => {
                if let Some(lists) = unpolled.filter(|lists| self.client.unpolled.is_news(lists)) {
                    tracing::info!(
                        polled = self.url,
                        lists,
                        "nothing came; tasks wait on other lists, and nobody polls there"
                    );
                }
                for task in tasks {
                    // What came into no slot of ours is none of ours.
                    if let Some(at) = exchange.poll.slots.iter().position(|slot| *slot == task.slot) {
                        exchange.poll.slots.swap_remove(at);
                        self.happened.push_back(Happened::Task(Box::new(task.task)));
                    }
                }
                let Some(receipts) = receipts else { return };
                let answers = std::mem::take(&mut exchange.answers);
                if self.is_stopping
                    && let Some(exchange) = self.under_way.remove(&number)
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
            ExchangeNews::Ended(ended) => {
                let Some(OpenExchange { poll, answers, .. }) = self.under_way.remove(&number) else { return };
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
                    Err(error) => self.has_failed(poll, answers, &error),
                }
            }
        }
    }

    /// Says what became of an answer, or has it given again.
    fn settle(&mut self, answer: Answer<C>, receipt: Option<AnswerReceipt>) {
        let error = match receipt {
            Some(AnswerReceipt { problem: None, warnings }) => {
                log_warnings(&warnings);
                self.happened.push_back(Happened::Answered(answer.context, Ok(Outcome::Recorded)));
                return;
            }
            Some(AnswerReceipt { problem: Some(problem), .. }) => {
                Error::Refused { problem: Box::new(problem), retry_after: None }
            }
            None => Error::Unexpected { url: self.url.clone(), what: "it said nothing of an answer".to_owned() },
        };
        self.refuse(answer, error, None);
    }

    /// Says that an answer was refused, or has it given again: after its own waits where nothing else says when.
    fn refuse(&mut self, mut answer: Answer<C>, error: Error, again_at: Option<Instant>) {
        let outcome = match error.code() {
            // An earlier try was recorded and what was said of it was lost.
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
        self.happened.push_back(Happened::Answered(answer.context, outcome));
    }

    /// An exchange was refused as a whole, or it is not known what became of it.
    fn has_failed(&mut self, mut poll: SlotPoll, answers: Vec<Answer<C>>, error: &Error) {
        let (wait, has_answers, is_one) = (self.waits.after(error), !answers.is_empty(), answers.len() == 1);
        // What an answer was refused for is no reason to wait with others.
        if wait.is_some() || !has_answers {
            self.resume_at = self.resume_at.max(Instant::now() + wait.unwrap_or(REFUSED_WAIT));
        }
        if !poll.slots.is_empty() && !self.is_stopping {
            tracing::warn!(error = error as &dyn std::error::Error, url = self.url, "asking for tasks failed");
        }
        for mut answer in answers {
            if wait.is_some() || is_one {
                self.refuse(answer, error.clone(), wait.map(|_| self.resume_at));
            } else {
                // One of them may be at fault for all.
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

/// The numbers of so many slots.
fn numbered(room: usize) -> Vec<u32> {
    (0..u32::try_from(room).unwrap_or(u32::MAX)).collect()
}

/// Sleeps for ever where there is nothing to wake up for.
pub(super) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
