//! Queries: from the caller who asks to the decider who answers, and back. No query is ever recorded.

mod forward;
mod results;
mod task;

use crate::engine::lists::grant::Query;
use std::sync::Arc;
use std::time::Duration;

use forward::Heard;
use history::admit::{check_name, check_payload};
use history::{EventId, Payload, Status};
use sha2::{Digest, Sha256};
use store::HeadKey;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use crate::engine::commit::Loaded;
use crate::engine::lists::{ListKey, QUESTIONS, Side, WaitingTask};
use crate::engine::riders::questions::{Answer, Asker, Asking, When, has_no_turn_to_come};
use crate::engine::run::cell::Request;
use crate::engine::run::worker::RunWorker;
use crate::engine::{Engine, Forwarded, Outcome, Refusal, RunRef, Seen, head_key};

pub(crate) use task::TakenQuestions;

/// Before a run is looked for again that goes on for another.
const GO_ON_WAIT: Duration = Duration::from_millis(10);

impl Seen {
    /// Whether an answer is no news to whoever has seen this.
    pub(crate) fn is_still(&self, answer: &Answer) -> bool {
        match &answer.outcome {
            Outcome::Result(result) => self.hash == Some(hash(result.as_ref())),
            Outcome::Unknown { .. } | Outcome::Failed { .. } => false,
        }
    }
}

/// A query.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Its name. 1 to 256 characters.
    pub name: String,
    /// Its input.
    pub input: Option<Payload>,
    /// What the caller has seen: waits until there is something else.
    pub seen: Option<Seen>,
}

/// What came of a query.
#[derive(Debug, Clone, PartialEq)]
pub enum Answered {
    /// A result.
    Result {
        /// Of this run.
        run_id: Uuid,
        /// The newest news that it reflects.
        version: EventId,
        /// The decider's answer.
        result: Option<Payload>,
        /// The hash of it.
        hash: u64,
    },
    /// There was nothing else than what the caller has seen.
    Unchanged {
        /// The run.
        run_id: Uuid,
        /// Its version: a newer one than was seen where the result alone is watched.
        version: EventId,
    },
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    /// Somebody from outside.
    Caller,
    /// Another node, for somebody who asked there. It goes no further.
    Node,
}

/// A question, on its way into its run's cell.
pub(crate) struct Pose {
    query: Arc<Query>,
    seen: Option<Seen>,
    reply: oneshot::Sender<Answer>,
}

/// Where a question was put.
#[derive(Debug, Clone)]
pub(crate) struct Put {
    run_id: Uuid,
    asking: Asking,
    /// Where its decider polls.
    list: ListKey,
}

/// Takes a caller's part in a question away when the caller stops waiting, for whatever reason.
struct PartInQuery<'a> {
    engine: &'a Engine,
    key: &'a HeadKey,
    asking: Option<Asking>,
}

impl PartInQuery<'_> {
    fn leave(mut self) -> Option<EventId> {
        let asking = self.asking.take()?;
        self.engine.questions.leave(self.key, asking)
    }
}

impl Drop for PartInQuery<'_> {
    fn drop(&mut self) {
        if let Some(asking) = self.asking.take() {
            self.engine.questions.leave(self.key, asking);
        }
    }
}

impl RunWorker<'_> {
    /// In the run's cell: puts a question, or without one has those looked at that are there.
    pub(crate) async fn run_pose(&mut self, run_id: Option<Uuid>, pose: Option<Pose>) -> Result<Posing, Refusal> {
        let (engine, key) = (self.engine, self.key);
        if engine.nodes.is_shared() {
            // Another node may have recorded what the answer must show.
            self.state.forget();
        }
        let Some(loaded) = self.loaded().await? else {
            return Err(Refusal::unknown_workflow(key));
        };
        let run = loaded.run();
        let posing = match (run_id, pose) {
            (Some(run_id), Some(pose)) if run_id != run.started.run_id => return Ok(Posing::Earlier(pose, run_id)),
            (None, Some(pose)) if run.status == Status::ContinuedAsNew => return Ok(Posing::GoesOn(pose)),
            (_, Some(pose)) => Posing::Put(engine.put_to(key, loaded, pose)?),
            (_, None) => Posing::Seen,
        };
        engine.see_to_questions(key, loaded);
        engine.see_to_updates(key, loaded);
        Ok(posing)
    }
}

impl Engine {
    /// Asks a run's decider, and waits up to `wait` for its answer.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownQuery`] and [`Refusal::QueryFailed`] as the decider says, [`Refusal::NotAnswered`] when it says
    /// nothing in time, [`Refusal::TooManyQuestions`]; as for [`describe`](Self::describe). Nothing was recorded.
    pub async fn query(self: &Arc<Self>, at: &RunRef, ask: Ask, wait: Duration) -> Result<Answered, Refusal> {
        check_name("query", &ask.name)?;
        check_payload("input", ask.input.as_ref())?;
        self.registry.must_know(&at.domain).await?;
        // Before anything is asked.
        crate::shares::watch()?;
        let answered = self.query_within(at, ask, Instant::now() + wait, From::Caller).await;
        match &answered {
            Ok(Answered::Result { .. }) => self.metrics.queries_answered.inc(),
            Ok(Answered::Unchanged { .. }) => self.metrics.queries_unchanged.inc(),
            Err(refusal) => {
                self.metrics.refused(refusal.code());
                0
            }
        };
        answered
    }

    async fn query_within(
        self: &Arc<Self>,
        at: &RunRef,
        ask: Ask,
        deadline: Instant,
        from: From,
    ) -> Result<Answered, Refusal> {
        let key = head_key(at);
        let Ask { name, input, seen } = ask;
        let query = Arc::new(Query { name, input });
        let (reply, answer) = oneshot::channel();
        let Put { run_id, asking, list } =
            self.put(&key, at.run_id, Pose { query: Arc::clone(&query), seen, reply }).await?;
        let waiting = PartInQuery { engine: self, key: &key, asking: Some(asking) };
        let answer = tokio::select! {
            biased;
            answer = answer => answer.ok().map(Heard::Answer),
            heard = self.hear_from_others(&key, Forwarded::of(&key, run_id, &query, seen), &list, deadline, from) => Some(heard),
            () = self.background.stopped() => None,
            () = tokio::time::sleep_until(deadline) => None,
        };
        match answer {
            Some(Heard::Unchanged(version)) => Ok(Answered::Unchanged { run_id, version }),
            Some(Heard::Answer(Answer { version, outcome: Outcome::Result(result) })) => {
                let hash = hash(result.as_ref());
                Ok(Answered::Result { run_id, version, result, hash })
            }
            Some(Heard::Answer(Answer { outcome: Outcome::Unknown { known }, .. })) => {
                Err(Refusal::UnknownQuery { name: query.name.clone(), known })
            }
            Some(Heard::Answer(Answer { outcome: Outcome::Failed { reason, message }, .. })) => {
                Err(Refusal::QueryFailed { name: query.name.clone(), reason, message })
            }
            None if self.is_stopping() => Err(Refusal::Stopping),
            None => {
                let (why, waits) = self.questions.whereabouts(&key, asking);
                let held = waiting.leave();
                let not_answered = async || {
                    let unpolled = if waits { self.unpolled_by(&key, run_id, &list).await } else { None };
                    Refusal::NotAnswered { why, unpolled }
                };
                let Some(seen) = seen.filter(|seen| seen.run_id == run_id) else {
                    return Err(not_answered().await);
                };
                // News that nobody has made anything of yet are not passed off as none.
                let version = self.describe(&RunRef { run_id: Some(run_id), ..at.clone() }).await?.run.version;
                let is_as_it_was = version == seen.version || held == Some(version);
                if is_as_it_was { Ok(Answered::Unchanged { run_id, version }) } else { Err(not_answered().await) }
            }
        }
    }

    /// Puts a question to a run; to the newest without a run id.
    async fn put(self: &Arc<Self>, key: &HeadKey, run_id: Option<Uuid>, pose: Pose) -> Result<Put, Refusal> {
        let mut pose = Some(pose);
        loop {
            let put = self.ask(key, |reply| Request::Pose { run_id, pose: pose.take(), reply }).await?;
            match put {
                Posing::Put(put) => return Ok(put),
                Posing::GoesOn(back) => {
                    pose = Some(back);
                    tokio::time::sleep(GO_ON_WAIT).await;
                }
                Posing::Earlier(back, run_id) => {
                    let loaded = self.reader.load_run(key, run_id).await?;
                    let put = self.put_to(key, &loaded, back)?;
                    self.see_to_questions(key, &loaded);
                    return Ok(put);
                }
                Posing::Seen => return Err(Refusal::Stopping),
            }
        }
    }

    fn put_to(&self, key: &HeadKey, loaded: &Loaded, pose: Pose) -> Result<Put, Refusal> {
        let Pose { query, seen, reply } = pose;
        let run = loaded.run();
        let run_id = run.started.run_id;
        // Where a turn is outstanding, it answers those who watch, too.
        let is_seen = seen.is_some_and(|seen| seen.run_id == run_id && seen.version == run.version);
        let when = if is_seen && has_no_turn_to_come(run) { When::MovedFrom(run.version) } else { When::Now };
        let asking = self.questions.put(key, run, &query, when, Asker { id: self.ids.op(), seen, reply })?;
        Ok(Put { run_id, asking, list: decider_list(key, loaded) })
    }

    /// Has a task made for what waits, where no turn will take it along.
    pub(crate) fn see_to_questions(self: &Arc<Self>, key: &HeadKey, loaded: &Loaded) {
        let run = loaded.run();
        if !self.questions.settle(key, run) {
            return;
        }
        let list = decider_list(key, loaded);
        if let Some(poller) = self.matching.reserve_for_questions(&list) {
            match self.grant_questions(key, loaded) {
                Some(grant) => poller.grant(grant),
                None => self.return_poller(&list, poller),
            }
            return;
        }
        self.offer_questions(key, loaded);
    }

    fn offer_questions(self: &Arc<Self>, key: &HeadKey, loaded: &Loaded) {
        let run_id = loaded.run().started.run_id;
        let task = WaitingTask { key: key.clone(), run_id, scheduled_event_id: QUESTIONS, lost: None, priority: 0 };
        self.offer(&decider_list(key, loaded), task);
    }
}

/// What became of a question that was put.
pub(crate) enum Posing {
    /// It waits.
    Put(Put),
    /// Its run goes on as another, which is about to begin.
    GoesOn(Pose),
    /// It is for a run that is not the current one.
    Earlier(Pose, Uuid),
    /// There was none: those that are there were looked at.
    Seen,
}

fn decider_list(key: &HeadKey, loaded: &Loaded) -> ListKey {
    let name = loaded.run().next_turn_list().into();
    ListKey { domain: Arc::clone(&key.domain), side: Side::Decider, name }
}

/// What tells results apart, byte for byte.
fn hash(result: Option<&Payload>) -> u64 {
    let text = result.and_then(Payload::text).unwrap_or("null");
    let digest = Sha256::digest(text.as_bytes());
    digest.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}
