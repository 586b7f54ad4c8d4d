//! Answers to tasks: tokens read, answers admitted, heartbeats recorded.

use std::sync::Arc;

use history::admit::{check_payload, held, must_hold};
use history::{Command, Fault, Payload, Run};
use store::HeadKey;
use uuid::Uuid;

use super::cell::Request;
use super::commit;
use super::{ActivityToken, Engine, Refusal, TurnToken};

impl Engine {
    /// Reads a decider's token.
    ///
    /// # Errors
    ///
    /// [`Refusal::BadToken`].
    pub fn decider_token(&self, token: &str) -> Result<TurnToken, Refusal> {
        self.mint.open_turn(token)
    }

    /// Reads a runner's token.
    ///
    /// # Errors
    ///
    /// [`Refusal::BadToken`].
    pub fn activity_token(&self, token: &str) -> Result<ActivityToken, Refusal> {
        self.mint.open_activity(token)
    }

    /// Has a decider's answer admitted: `CompleteTurn` or `FailTurn`.
    ///
    /// # Errors
    ///
    /// A fault of the rules, e.g. [`Fault::TurnLost`], or the store's.
    pub async fn answer_turn(self: &Arc<Self>, token: &TurnToken, command: Command) -> Result<(), Refusal> {
        let key = commit::head_key(&token.domain, &token.workflow_id);
        match self.tell_key(&key, Some(token.run_id), command).await {
            Ok(_) => Ok(()),
            Err(refusal) => {
                let judge = |run: &Run| must_hold(run, token.turn).err();
                Err(self.as_its_run_says(&key, token.run_id, refusal, Fault::TurnLost, judge).await)
            }
        }
    }

    /// Has a runner's answer admitted.
    ///
    /// # Errors
    ///
    /// A fault of the rules, e.g. [`Fault::ActivityClosed`], or the store's.
    pub async fn answer_activity(self: &Arc<Self>, token: &ActivityToken, command: Command) -> Result<(), Refusal> {
        let key = commit::head_key(&token.domain, &token.workflow_id);
        match self.tell_key(&key, Some(token.run_id), command).await {
            Ok(_) => Ok(()),
            Err(refusal) => Err(self.as_its_run_says_to_task(&key, token, refusal).await),
        }
    }

    /// Records a heartbeat; answers whether the activity should stop.
    ///
    /// # Errors
    ///
    /// [`Fault::ActivityClosed`], [`Fault::RunClosed`], a fault for details that are too large, or the store's.
    pub async fn heartbeat(self: &Arc<Self>, token: &ActivityToken, details: Option<Payload>) -> Result<bool, Refusal> {
        check_payload("details", details.as_ref())?;
        let key = commit::head_key(&token.domain, &token.workflow_id);
        let (run_id, task) = (token.run_id, token.task);
        match self.ask(&key, |reply| Request::Beat { run_id, task, details, reply }).await {
            Ok(cancel_requested) => Ok(cancel_requested),
            Err(refusal) => Err(self.as_its_run_says_to_task(&key, token, refusal).await),
        }
    }

    async fn as_its_run_says_to_task(&self, key: &HeadKey, token: &ActivityToken, refusal: Refusal) -> Refusal {
        let judge = |run: &Run| held(run, token.task).err();
        self.as_its_run_says(key, token.run_id, refusal, Fault::ActivityClosed, judge).await
    }

    /// Why an answer with a true token is refused when the workflow id has another run by now, or none: what the token's
    /// own run says to it, as long as it is there, so that what follows a run changes nothing about it.
    async fn as_its_run_says(
        &self,
        key: &HeadKey,
        run_id: Uuid,
        refusal: Refusal,
        lost: Fault,
        judge: impl FnOnce(&Run) -> Option<Fault>,
    ) -> Refusal {
        match refusal {
            Refusal::UnknownWorkflow { .. } => lost.into(),
            Refusal::RunNotCurrent { .. } => match self.load_run(key, run_id).await {
                Ok(earlier) => judge(earlier.run()).unwrap_or(lost).into(),
                // Past its retention.
                Err(Refusal::UnknownRun { .. }) => lost.into(),
                Err(refusal) => refusal,
            },
            refusal => refusal,
        }
    }
}
