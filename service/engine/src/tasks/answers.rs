//! Answers to tasks: decodes tokens and admits answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use history::admit::{held, must_hold};
use history::limits;
use history::{
    Command, Decision, DecisionContext, EventId, Fault, LAMBDA_LIST, Registration, Run, TurnLoss, UpdateAnswer, Warning,
};
use store::HeadKey;
use uuid::Uuid;

use crate::commit::read::RunReader;
use crate::riders::place::By;
use crate::run::request::RunRequest;
use crate::tasks::Tasks;
use crate::{ActivityToken, EventRange, QueryOutcome, Refusal, RunRef, TurnToken, TypeKind};

/// Number of events after a lost turn that are searched for the turn's outcome. Our choice: far more than are usually
/// recorded before a turn ends.
const LOSS_EVENTS_MAX: usize = 1_000;

impl Tasks {
    /// Decodes a decider's token.
    ///
    /// # Errors
    ///
    /// [`Refusal::BadToken`].
    pub fn decider_token(&self, token: &str) -> Result<TurnToken, Refusal> {
        self.mint.open_turn(token)
    }

    /// Decodes a runner's token.
    ///
    /// # Errors
    ///
    /// [`Refusal::BadToken`].
    pub fn activity_token(&self, token: &str) -> Result<ActivityToken, Refusal> {
        self.mint.open_activity(token)
    }

    /// Fails if the token's task is no longer with a decider. An old token therefore does not give access to a run
    /// forever. A task without an event is known only to the node that handed it out. For such a task of another node,
    /// this check always succeeds.
    pub(crate) fn must_be_out(&self, token: &TurnToken, run: &Run) -> Result<(), Refusal> {
        let key = token.key();
        let is_of_this_node = token.node.as_deref().is_none_or(|node| self.nodes.address() == Some(node));
        let is_lost = |task| is_of_this_node && self.riders.with_task(&key, By::Own(task)).is_empty();
        if token.query_only.is_some() {
            let is_lost = is_lost(token.turn.scheduled_event_id);
            return if is_lost { Err(Refusal::QueryTaskLost) } else { Ok(()) };
        }
        if let Some(number) = token.speculative {
            return if is_lost(number) { Err(Refusal::TurnLost { how: TurnLoss::NeverWas }) } else { Ok(()) };
        }
        must_hold(run, token.turn).map_err(Into::into)
    }

    /// Admits a decider's answer, which is `CompleteTurn` or `FailTurn`.
    ///
    /// # Errors
    ///
    /// A fault of the rules, e.g. [`Fault::TurnLost`], or an error of the store.
    pub async fn answer_turn(&self, token: &TurnToken, command: Command) -> Result<(), Refusal> {
        self.answer_turn_with(token, command, Vec::new(), Vec::new()).await
    }

    /// Admits a decider's answer, and sends the results of queries to their callers. The query's id identifies the
    /// callers for a result. Results without a waiting caller are ignored. Results of updates are recorded in the same
    /// commit as the decisions. These are updates of the turn, or updates that earlier turns accepted.
    ///
    /// # Errors
    ///
    /// As for [`answer_turn`](Self::answer_turn), and in addition:
    ///
    /// * a fault for an answer to a query that was not sent to this run, for a second answer to the same query, and for
    ///   decisions if the task has only queries,
    /// * [`Refusal::QueryTaskLost`] if the task has only queries and all callers of these queries have stopped waiting,
    /// * [`Fault::UnknownUpdate`] for an answer to an update that is not part of the turn and was not accepted by an
    ///   earlier turn.
    pub async fn answer_turn_with(
        &self,
        token: &TurnToken,
        command: Command,
        results: Vec<(String, QueryOutcome)>,
        updates: Vec<UpdateAnswer>,
    ) -> Result<(), Refusal> {
        self.answer_turn_warned(token, command, results, updates).await.map(drop)
    }

    /// Admits a decider's answer with results of queries and updates. Returns warnings about recorded decisions that
    /// are probably mistakes. If another node records the answer, returns no warnings.
    ///
    /// # Errors
    ///
    /// As for [`answer_turn_with`](Self::answer_turn_with).
    pub async fn answer_turn_warned(
        &self,
        token: &TurnToken,
        command: Command,
        results: Vec<(String, QueryOutcome)>,
        updates: Vec<UpdateAnswer>,
    ) -> Result<Vec<Warning>, Refusal> {
        // A longer list was truncated during parsing, but only to a length that still exceeds the maximum.
        let (found, max) = (updates.len(), limits::UPDATE_RESULTS_MAX);
        if found > max {
            let problem = format!("has {found} entries, at most {max} are allowed");
            return Err(Fault::Invalid { field: "updateResults".to_owned(), problem }.into());
        }
        if let Some(node) = self.recorder_of(token) {
            Box::pin(self.pass_answer(node, token, command, results, updates)).await?;
            return Ok(Vec::new());
        }
        let outcomes = self.request_reply.read_results(token.run_id, results)?;
        if let Some(version) = token.query_only {
            if let Some(answer) = updates.first() {
                return Err(Fault::UnknownUpdate { update_id: answer.update_id.clone() }.into());
            }
            self.answer_task_that_asks(token, version, command, outcomes).await?;
            return Ok(Vec::new());
        }
        let mut command = command;
        if let Command::CompleteTurn { answer, .. } = &mut command {
            answer.decision_context = self.decision_context_of(token, &answer.decisions).await?;
        }
        let key = token.key();
        match self.request_reply.answer_with_riders(token, command, outcomes, updates).await {
            Ok(warnings) => Ok(warnings),
            Err(refusal) => {
                let judge = |run: &Run| must_hold(run, token.turn).err();
                Err(refusal_of_its_run(&self.reader, &key, token.run_id, refusal, Fault::TurnLost, judge).await)
            }
        }
    }

    /// Returns the error for an answer to a turn. If the turn is lost, adds the reason from the history.
    pub async fn how_turn_was_lost(&self, token: &TurnToken, refusal: Refusal) -> Refusal {
        let Refusal::Fault(Fault::TurnLost) = refusal else { return refusal };
        let (domain, workflow_id) = (token.domain.clone(), token.workflow_id.clone());
        let at = RunRef { domain, workflow_id, run_id: Some(token.run_id) };
        let after = token.turn.started_event_id.saturating_sub(1);
        let (limit, leaves_payloads_out) = (LOSS_EVENTS_MAX, true);
        let page = EventRange { after, limit, leaves_payloads_out, ..EventRange::default() };
        match Box::pin(self.lookup.history(&at, &page)).await {
            // A speculative turn is recorded only together with its answer, so there are no events to search.
            Ok(_) if token.speculative.is_some() => Refusal::TurnLost { how: TurnLoss::NeverWas },
            Ok(read) => match TurnLoss::find(token.turn, &read.events) {
                Some(how) => Refusal::TurnLost { how },
                None => refusal,
            },
            // The history is no longer available. The original error is still correct.
            Err(_) => refusal,
        }
    }

    /// Returns the registrations of the types that these decisions name.
    async fn decision_context_of(&self, token: &TurnToken, decisions: &[Decision]) -> Result<DecisionContext, Refusal> {
        let domain = &token.domain;
        let has_functions = self.lists.lambda.get().is_some();
        let mut context = DecisionContext { has_functions, ..DecisionContext::default() };
        for decision in decisions {
            match decision {
                // Lambda functions have no registered types.
                Decision::ScheduleActivity(it) if it.task_list.as_deref() == Some(LAMBDA_LIST) => {}
                Decision::ScheduleActivity(it) => {
                    self.look_up(domain, &it.activity_type, &mut context.activity_types).await?;
                }
                Decision::StartChild(it) => {
                    self.look_up(domain, &it.workflow_type, &mut context.workflow_types).await?;
                    context.child_capacities.push(Box::pin(self.open_runs.room_for_child(domain)).await?);
                }
                Decision::ContinueAsNew(it) => {
                    let full = match &it.workflow_type {
                        Some(full) => full.clone(),
                        None => {
                            let (domain, workflow_id) = (Arc::clone(domain), Arc::clone(&token.workflow_id));
                            let at = RunRef { domain, workflow_id, run_id: Some(token.run_id) };
                            Box::pin(self.lookup.describe(&at)).await?.run.started.workflow_type.clone()
                        }
                    };
                    self.look_up(domain, &full, &mut context.workflow_types).await?;
                }
                Decision::CancelActivity(_)
                | Decision::StartTimer(_)
                | Decision::CancelTimer(_)
                | Decision::RecordMarker(_)
                | Decision::SignalExternal(_)
                | Decision::CancelExternal(_)
                | Decision::SucceedWorkflow(_)
                | Decision::FailWorkflow(_)
                | Decision::CancelWorkflow(_) => {}
            }
        }
        Ok(context)
    }

    /// Adds the registration of a type to `known`. Each type is read only once, even if several decisions name it.
    async fn look_up<D: TypeKind>(
        &self,
        domain: &str,
        full: &str,
        known: &mut BTreeMap<String, Registration<D>>,
    ) -> Result<(), Refusal> {
        if !known.contains_key(full) {
            known.insert(full.to_owned(), self.registry.registration(domain, full).await?);
        }
        Ok(())
    }

    async fn answer_task_that_asks(
        &self,
        token: &TurnToken,
        version: EventId,
        command: Command,
        outcomes: Vec<(u64, QueryOutcome)>,
    ) -> Result<(), Refusal> {
        let mut otherwise = None;
        match command {
            Command::CompleteTurn { answer, .. }
                if !answer.decisions.is_empty() || answer.context.is_some() || answer.next_task_list.is_some() =>
            {
                let field = match &*answer {
                    answer if !answer.decisions.is_empty() => "decisions",
                    answer if answer.context.is_some() => "context",
                    _ => "taskList",
                };
                let problem = "must be absent: this task has only queries and no turn to record".to_owned();
                return Err(Fault::Invalid { field: field.to_owned(), problem }.into());
            }
            Command::FailTurn { reason, details, .. } => {
                let reason = reason.unwrap_or_else(|| "turn-failed".to_owned());
                let message = details.as_ref().and_then(|details| details.read::<String>().ok());
                otherwise = Some(QueryOutcome::Failed { reason, message });
            }
            _ => {}
        }
        self.request_reply.answer_queries(token, version, outcomes, otherwise).await
    }

    /// Admits a runner's answer.
    ///
    /// # Errors
    ///
    /// A fault of the rules, e.g. [`Fault::ActivityClosed`], or an error of the store.
    pub async fn answer_activity(&self, token: &ActivityToken, command: Command) -> Result<(), Refusal> {
        let key = token.key();
        let author = token.author.clone();
        let submitted =
            self.runs.submit(&key, |reply| RunRequest::command(Some(token.run_id), command, author, reply)).await;
        match submitted {
            Ok(_) => Ok(()),
            Err(refusal) => Err(self.refusal_of_its_task(&key, token, refusal).await),
        }
    }

    pub(super) async fn refusal_of_its_task(&self, key: &HeadKey, token: &ActivityToken, refusal: Refusal) -> Refusal {
        let judge = |run: &Run| held(run, token.task).err();
        refusal_of_its_run(&self.reader, key, token.run_id, refusal, Fault::ActivityClosed, judge).await
    }
}

/// Returns the error for an answer with a valid token if the token's run is no longer the newest run of its workflow
/// id. While the token's run is kept, the error describes the state of this run.
pub(super) async fn refusal_of_its_run(
    reader: &RunReader,
    key: &HeadKey,
    run_id: Uuid,
    refusal: Refusal,
    lost: Fault,
    judge: impl FnOnce(&Run) -> Option<Fault>,
) -> Refusal {
    match refusal {
        Refusal::UnknownWorkflow { .. } | Refusal::UnknownRun { .. } => lost.into(),
        Refusal::RunNotCurrent { .. } => match reader.load_run(key, run_id).await {
            Ok(earlier) => judge(earlier.run()).unwrap_or(lost).into(),
            // The retention period of the run has ended.
            Err(Refusal::UnknownRun { .. }) => lost.into(),
            Err(refusal) => refusal,
        },
        refusal => refusal,
    }
}
