//! Tasks that only ask: made, taken, and lost.

use std::sync::Arc;
use std::time::Duration;

use history::EventId;
use store::HeadKey;
use uuid::Uuid;

use crate::engine::after::hand_out::waiting_turn;
use crate::engine::commit::Loaded;
use crate::engine::lists::grant::{Grant, Granted};
use crate::engine::riders::questions::{Timer, has_no_turn_to_come};
use crate::engine::run::cell::Request;
use crate::engine::run::worker::RunWorker;
use crate::engine::{Engine, Refusal};

/// How long a task that only asks may be out before its questions are put again: its decider may have died. Ours:
/// long enough to make the state of a long history again, and twice within the default wait of a query.
const ASK_TASK_WAIT: Duration = Duration::from_secs(5);

impl RunWorker<'_> {
    /// In the run's cell: somebody takes what is to be asked. A turn that waits by now is taken instead, and takes the
    /// questions along; then this answers its DeciderScheduled.
    pub(crate) async fn run_take_questions(&mut self, run_id: Uuid) -> Result<TakenQuestions, Refusal> {
        let (engine, key) = (self.engine, self.key);
        if engine.nodes.is_shared() {
            self.state.forget();
        }
        let Some(loaded) = self.loaded().await? else { return Ok(TakenQuestions::Nothing) };
        let run = loaded.run();
        if run.started.run_id != run_id {
            return Ok(TakenQuestions::Earlier);
        }
        Ok(match waiting_turn(run) {
            0 if has_no_turn_to_come(run) => {
                let grant = engine.grant_questions(key, loaded);
                grant.map_or(TakenQuestions::Nothing, |grant| TakenQuestions::Granted(Box::new(grant)))
            }
            0 => TakenQuestions::Nothing,
            scheduled_event_id => TakenQuestions::Turn(scheduled_event_id),
        })
    }
}

impl Engine {
    /// A task that only asks: no write, no event. `None` when nothing is to be asked.
    pub(crate) fn grant_questions(self: &Arc<Self>, key: &HeadKey, loaded: &Loaded) -> Option<Grant> {
        let run = loaded.run();
        let task = self.ids.op();
        let (run_id, last_event_id) = (run.started.run_id, run.last_event_id);
        let wait = ASK_TASK_WAIT.min(Duration::from_millis(run.started.decider_start_to_close.as_millis()));
        let timer = {
            let (engine, key) = (Arc::clone(self), key.clone());
            // Not as part of the task that waits, which ends when the questions are taken out of it.
            let lose =
                move || engine.clone().background.spawn(async move { engine.lose_questions(&key, run_id, task) });
            Timer(self.background.after(wait, lose))
        };
        let questions = self.questions.send(key, run_id, last_event_id, task, timer);
        if questions.is_empty() {
            return None;
        }
        self.metrics.ask_tasks.inc();
        if self.questions.settle(key, run) {
            // More is asked than one task takes along.
            self.offer_questions(key, loaded);
        }
        Some(Grant {
            back: Some(Arc::clone(self) as _),
            key: key.clone(),
            run_id,
            workflow_type: run.started.workflow_type.clone(),
            task_list: run.next_turn_list().to_owned(),
            tail: loaded.tail.clone(),
            tail_first: loaded.body.tail_first,
            // Not a task of the run, and asked again when it is lost.
            poll: None,
            what: Granted::Questions {
                task,
                last_event_id,
                version: run.version,
                previous_started_event_id: run.previous_started_event_id,
            },
            questions,
            updates: Vec::new(),
        })
    }

    /// The same for an earlier run, which nothing can happen to any more.
    pub(crate) async fn take_earlier_questions(
        self: &Arc<Self>,
        key: &HeadKey,
        run_id: Uuid,
    ) -> Result<Option<Grant>, Refusal> {
        match self.reader.load_run(key, run_id).await {
            Ok(loaded) => Ok(self.grant_questions(key, &loaded)),
            Err(Refusal::UnknownRun { .. }) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// A task that only asks is lost: its questions are put again.
    pub(crate) fn lose_questions(self: &Arc<Self>, key: &HeadKey, run_id: Uuid, task: u64) {
        if self.questions.lose_task(key, task) {
            self.metrics.ask_tasks_lost.inc();
            self.look_to_questions(key, run_id);
        }
    }

    /// Has the questions of a run looked at, as something about them has changed.
    pub(crate) fn look_to_questions(self: &Arc<Self>, key: &HeadKey, run_id: Uuid) {
        let (engine, key) = (Arc::clone(self), key.clone());
        self.background.spawn(async move {
            let looked = engine.ask(&key, |reply| Request::Pose { run_id: None, pose: None, reply }).await;
            let current = looked.is_ok().then(|| engine.reader.load_run(&key, run_id));
            match current {
                // Of an earlier run, perhaps.
                Some(earlier) => {
                    if let Ok(loaded) = earlier.await
                        && !loaded.run().is_open()
                    {
                        engine.see_to_questions(&key, &loaded);
                    }
                }
                None => tracing::debug!(workflow_id = %key.workflow_id, "the questions of a run could not be seen to"),
            }
        });
    }
}

/// What comes of taking questions.
pub(crate) enum TakenQuestions {
    /// A task that only asks.
    Granted(Box<Grant>),
    /// A turn waits: it is to be taken, and takes them along.
    Turn(EventId),
    /// They are those of an earlier run.
    Earlier,
    /// Nothing is to be asked now.
    Nothing,
}
