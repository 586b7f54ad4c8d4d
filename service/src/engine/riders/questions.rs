//! Questions to runs, and where each of them is. In memory only, and allowed to be lost: whoever asks waits, and has it put
//! again.
//!
//! A question waits until a task takes it along: a turn that starts, or where no turn is outstanding a task that only
//! asks, which costs no write and no event. It never joins a task that is out already. Who asks the same of
//! the same run at the same time shares one question. What watches is *held*: the next turn takes it along, but no task is
//! made for it.
//!
//! Questions are put and taken along by whoever works on the run's cell, so a task that takes a question along shows every
//! event that was recorded before the question was put.

use crate::engine::lists::grant::Posed;
use crate::engine::lists::grant::Query;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use history::{EventId, Run, TurnId};
use store::HeadKey;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::engine::{Outcome, Refusal, Seen};

/// Different questions that are put to one run at the same time, at most. Ours: one task takes them all along.
pub(crate) const QUESTIONS_PER_RUN_MAX: usize = 1_000;

/// Bytes of names and inputs of the questions that are put to one run, at most. Ours: 32 inputs of the largest size.
pub(crate) const QUESTION_BYTES_PER_RUN_MAX: usize = 8 * 1024 * 1024;

/// Callers who wait for answers at one node, at most. Ours: about half a kilobyte each, beside their connections.
pub(crate) const ASKERS_MAX: usize = 100_000;

/// Bytes of names and inputs that one task takes along, unless its first question alone has more. Ours: a quarter of what a
/// window may have.
pub(crate) const TASK_QUESTION_BYTES_MAX: usize = 1024 * 1024;

/// An answer, and of what.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// The newest news that it has seen.
    pub(crate) version: EventId,
    pub(crate) outcome: Outcome,
}

/// Where a question is.
#[derive(Debug)]
enum QuestionPlace {
    /// Nobody needs an answer before the run has moved on from this version.
    Held { version: EventId },
    /// The next task takes it along.
    Waits,
    /// A turn that is started has taken it along.
    Rides(TurnId),
    /// That turn's answer is being recorded.
    Answering(TurnId),
    /// A task that only asks has taken it along.
    Out { task: u64, _timer: Arc<Timer> },
}

/// Ends a task that waits, when the last question that needs it has been answered.
#[derive(Debug)]
pub(crate) struct Timer(pub(crate) tokio::task::AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Somebody who waits for an answer.
pub(crate) struct Asker {
    pub(crate) id: u64,
    pub(crate) seen: Option<Seen>,
    pub(crate) reply: oneshot::Sender<Answer>,
}

struct Question {
    number: u64,
    run_id: Uuid,
    query: Arc<Query>,
    /// The newest event when it was put: what answers it shows this one at least.
    since: EventId,
    place: QuestionPlace,
    askers: Vec<Asker>,
}

/// Names a caller's part in a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asking {
    number: u64,
    asker: u64,
}

/// Whether a question needs a task now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// The next task is to take it along, and one is made if there is none.
    Now,
    /// When the run moves on from this version.
    MovedFrom(EventId),
}

/// Every question that is put at this node.
#[derive(Default)]
pub(crate) struct Questions {
    runs: Mutex<HashMap<HeadKey, Vec<Question>>>,
    askers: AtomicUsize,
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, HashMap<HeadKey, Vec<Question>>> {
        self.runs.lock().expect("no code panics while it holds this lock")
    }

    /// How many callers wait for answers. Without any there is nothing to look for.
    pub(crate) fn askers(&self) -> usize {
        self.askers.load(Ordering::SeqCst)
    }

    /// Puts a question, or joins one that is the same. A new one is named like its first asker.
    pub(crate) fn put(
        &self,
        key: &HeadKey,
        run: &Run,
        query: &Arc<Query>,
        when: When,
        asker: Asker,
    ) -> Result<Asking, Refusal> {
        let too_many = |found: usize, max: usize, what: &'static str| Refusal::TooManyQuestions { found, max, what };
        if self.askers() >= ASKERS_MAX {
            return Err(too_many(self.askers(), ASKERS_MAX, "callers wait for answers at this node"));
        }
        let run_id = run.started.run_id;
        let mut runs = self.lock();
        let questions = runs.entry(key.clone()).or_default();
        let is_same = |question: &&mut Question| {
            let is_there = match (&question.place, when) {
                (QuestionPlace::Waits, When::Now) => true,
                (QuestionPlace::Held { version }, When::MovedFrom(from)) => *version == from,
                _ => false,
            };
            is_there && question.run_id == run_id && question.query == *query
        };
        let id = asker.id;
        let number = if let Some(question) = questions.iter_mut().find(is_same) {
            question.since = question.since.max(run.last_event_id);
            question.askers.push(asker);
            question.number
        } else {
            let bytes = questions.iter().map(|question| question.query.bytes()).sum::<usize>() + query.bytes();
            let count = questions.len();
            let refused = if count >= QUESTIONS_PER_RUN_MAX {
                Some(too_many(count, QUESTIONS_PER_RUN_MAX, "questions are put to this run"))
            } else if bytes > QUESTION_BYTES_PER_RUN_MAX {
                Some(too_many(bytes, QUESTION_BYTES_PER_RUN_MAX, "bytes of questions are put to this run"))
            } else {
                None
            };
            if let Some(refusal) = refused {
                if questions.is_empty() {
                    runs.remove(key);
                }
                return Err(refusal);
            }
            let place = match when {
                When::Now => QuestionPlace::Waits,
                When::MovedFrom(version) => QuestionPlace::Held { version },
            };
            let (query, since) = (Arc::clone(query), run.last_event_id);
            questions.push(Question { number: id, run_id, query, since, place, askers: vec![asker] });
            id
        };
        drop(runs);
        self.askers.fetch_add(1, Ordering::SeqCst);
        Ok(Asking { number, asker: id })
    }

    /// A caller no longer waits. What nobody waits for is forgotten; an answer to it is ignored. Answers the version
    /// that the run is known not to have left, where the question was held.
    pub(crate) fn leave(&self, key: &HeadKey, asking: Asking) -> Option<EventId> {
        let mut runs = self.lock();
        let questions = runs.get_mut(key)?;
        let at = questions.iter().position(|question| question.number == asking.number)?;
        let question = questions.get_mut(at)?;
        let held = match question.place {
            QuestionPlace::Held { version } => Some(version),
            QuestionPlace::Waits
            | QuestionPlace::Rides(_)
            | QuestionPlace::Answering(_)
            | QuestionPlace::Out { .. } => None,
        };
        let before = question.askers.len();
        question.askers.retain(|asker| asker.id != asking.asker);
        let left = before - question.askers.len();
        if question.askers.is_empty() {
            questions.swap_remove(at);
        }
        if questions.is_empty() {
            runs.remove(key);
        }
        drop(runs);
        self.askers.fetch_sub(left, Ordering::SeqCst);
        held
    }

    /// A turn takes along whatever waits and whatever is held.
    pub(crate) fn ride(&self, key: &HeadKey, run_id: Uuid, turn: TurnId) -> Vec<Posed> {
        let is_shown = |question: &Question| question.since <= turn.started_event_id;
        let may = |question: &Question| {
            matches!(question.place, QuestionPlace::Waits | QuestionPlace::Held { .. }) && is_shown(question)
        };
        self.take_along(key, run_id, may, || QuestionPlace::Rides(turn))
    }

    /// A task that only asks takes along what waits; it shows the run up to `last_event_id`.
    pub(crate) fn send(
        &self,
        key: &HeadKey,
        run_id: Uuid,
        last_event_id: EventId,
        task: u64,
        timer: Timer,
    ) -> Vec<Posed> {
        let timer = Arc::new(timer);
        let may =
            |question: &Question| matches!(question.place, QuestionPlace::Waits) && question.since <= last_event_id;
        self.take_along(key, run_id, may, || QuestionPlace::Out { task, _timer: Arc::clone(&timer) })
    }

    fn take_along(
        &self,
        key: &HeadKey,
        run_id: Uuid,
        may: impl Fn(&Question) -> bool,
        place: impl Fn() -> QuestionPlace,
    ) -> Vec<Posed> {
        if self.askers() == 0 {
            return Vec::new();
        }
        let mut runs = self.lock();
        let mut bytes = 0;
        let mut posed = Vec::new();
        for question in runs.get_mut(key).into_iter().flatten() {
            if question.run_id != run_id || !may(question) {
                continue;
            }
            bytes += question.query.bytes();
            if bytes > TASK_QUESTION_BYTES_MAX && !posed.is_empty() {
                // The next task takes the rest.
                break;
            }
            question.place = place();
            posed.push(Posed { number: question.number, query: Arc::clone(&question.query) });
        }
        posed
    }

    /// A turn's answer is about to be recorded: until it is known whether it was, its questions stay with it. Answers which
    /// they are.
    pub(crate) fn begin_answering(&self, key: &HeadKey, turn: TurnId) -> Vec<u64> {
        let mut numbers = Vec::new();
        if self.askers() == 0 {
            return numbers;
        }
        for question in self.lock().get_mut(key).into_iter().flatten() {
            if matches!(question.place, QuestionPlace::Rides(of) if of == turn) {
                question.place = QuestionPlace::Answering(turn);
                numbers.push(question.number);
            }
        }
        numbers
    }

    /// It was not recorded, or its answers are lost. Answers whether anything waits again.
    pub(crate) fn end_answering(&self, key: &HeadKey, turn: TurnId) -> bool {
        self.put_back(key, |place| matches!(place, QuestionPlace::Answering(of) if *of == turn))
    }

    /// A task that only asks is lost: its questions wait for another.
    pub(crate) fn lose_task(&self, key: &HeadKey, task: u64) -> bool {
        self.put_back(key, |place| matches!(place, QuestionPlace::Out { task: of, .. } if *of == task))
    }

    /// A turn has gone astray on its way to whoever took it: what rides with it waits again.
    pub(crate) fn get_off(&self, key: &HeadKey, turn: TurnId) {
        if self.askers() > 0 {
            self.put_back(key, |place| matches!(place, QuestionPlace::Rides(of) if *of == turn));
        }
    }

    fn put_back(&self, key: &HeadKey, is_lost: impl Fn(&QuestionPlace) -> bool) -> bool {
        let mut any = false;
        for question in self.lock().get_mut(key).into_iter().flatten().filter(|question| is_lost(&question.place)) {
            question.place = QuestionPlace::Waits;
            any = true;
        }
        any
    }

    /// What a task that only asks has taken along.
    pub(crate) fn asked_by(&self, key: &HeadKey, task: u64) -> Vec<u64> {
        let runs = self.lock();
        let is_out = |question: &&Question| matches!(question.place, QuestionPlace::Out { task: of, .. } if of == task);
        runs.get(key).into_iter().flatten().filter(is_out).map(|question| question.number).collect()
    }

    /// Gives answers to those who wait for them, where what answers has shown the run up to `shown` at least as far as they
    /// may expect. What nobody waits for is ignored. Answers whether anybody goes on watching.
    pub(crate) fn answer(
        &self,
        key: &HeadKey,
        run_id: Uuid,
        shown: EventId,
        version: EventId,
        outcomes: Vec<(u64, Outcome)>,
    ) -> bool {
        let (mut answered, mut goes_on) = (0, false);
        let mut runs = self.lock();
        let Some(questions) = runs.get_mut(key) else { return false };
        for (number, outcome) in outcomes {
            let is_it =
                |question: &Question| question.number == number && question.run_id == run_id && question.since <= shown;
            let Some(at) = questions.iter().position(is_it) else { continue };
            let mut question = questions.swap_remove(at);
            let answer = Answer { version, outcome };
            let (stay, go): (Vec<Asker>, Vec<Asker>) =
                question.askers.into_iter().partition(|asker| asker.seen.is_some_and(|seen| seen.is_still(&answer)));
            answered += go.len();
            for asker in go {
                drop(asker.reply.send(answer.clone()));
            }
            if !stay.is_empty() {
                goes_on = true;
                question.askers = stay;
                question.place = QuestionPlace::Held { version };
                questions.push(question);
            }
        }
        if questions.is_empty() {
            runs.remove(key);
        }
        drop(runs);
        self.askers.fetch_sub(answered, Ordering::SeqCst);
        goes_on
    }

    /// After a commit, and after a question was put: what rode with a turn that is over waits again, and so does what is held
    /// for a version that the run has left without a turn. Answers whether a task that only asks is wanted.
    pub(crate) fn settle(&self, key: &HeadKey, run: &Run) -> bool {
        if self.askers() == 0 {
            return false;
        }
        let is_idle = has_no_turn_to_come(run);
        let mut wanted = false;
        for question in self.lock().get_mut(key).into_iter().flatten() {
            if question.run_id != run.started.run_id {
                continue;
            }
            match question.place {
                QuestionPlace::Rides(turn) if !holds(run, turn) => question.place = QuestionPlace::Waits,
                QuestionPlace::Held { version } if is_idle && version != run.version => {
                    question.place = QuestionPlace::Waits;
                }
                QuestionPlace::Held { .. }
                | QuestionPlace::Waits
                | QuestionPlace::Rides(_)
                | QuestionPlace::Answering(_)
                | QuestionPlace::Out { .. } => {}
            }
            wanted |= is_idle && matches!(question.place, QuestionPlace::Waits);
        }
        wanted
    }

    /// Why a question has no answer yet, for the caller, and whether it waits for a decider to take it.
    pub(crate) fn whereabouts(&self, key: &HeadKey, asking: Asking) -> (&'static str, bool) {
        let runs = self.lock();
        let question = runs.get(key).into_iter().flatten().find(|question| question.number == asking.number);
        match question.map(|question| &question.place) {
            Some(QuestionPlace::Rides(_) | QuestionPlace::Answering(_)) => {
                ("the decider that has the turn has not completed it", false)
            }
            Some(QuestionPlace::Out { .. }) => ("the decider that was asked has not answered", false),
            Some(QuestionPlace::Waits | QuestionPlace::Held { .. }) | None => {
                ("no decider that answers queries took a task of the run, or a turn is under way", true)
            }
        }
    }
}

/// Whether no turn is outstanding.
pub(crate) fn is_idle(run: &Run) -> bool {
    !run.is_open() || run.turn.is_none() && run.turn_task.is_none()
}

/// Whether no turn will take a question along: none is outstanding, or the one that waits is not handed out, as the run is
/// paused. To be asked is nothing that a pause keeps from a run.
pub(crate) fn has_no_turn_to_come(run: &Run) -> bool {
    is_idle(run) || run.turn.is_none() && run.paused.is_some()
}

fn holds(run: &Run, turn: TurnId) -> bool {
    run.is_open()
        && run.turn.as_ref().is_some_and(|held| {
            held.scheduled_event_id == turn.scheduled_event_id && held.started_event_id == turn.started_event_id
        })
}
