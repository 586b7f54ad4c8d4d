//! Riders of a run, which are queries and updates that wait for a decider. This module adds riders, hands them out, and
//! checks them against the run's state.

use std::sync::Arc;

use history::admit::may_update_in;
use history::{Start, Status, UpdateStatus, key_of_update};
use uuid::Uuid;

use crate::commit::StoredRun;
use crate::lists::grant::{Grant, RiderKind, TakenRiders};
use crate::lists::sync_match::waiting_turn;
use crate::lists::{ListKey, Side, Taker};
use crate::riders::outcome::UpdateTurnOutcome;
use crate::riders::submitted::{QuerySubmission, SubmittedUpdate, UpdateSubmission};
use crate::riders::task::decider_list;
use crate::riders::waiting::{NewQuery, NewUpdate};
use crate::run::worker::RunWorker;
use crate::{Refusal, Started};

impl RunWorker<'_> {
    /// Adds a query to the run's riders.
    pub(crate) async fn run_query(
        &mut self,
        run_id: Option<Uuid>,
        new: Box<NewQuery>,
    ) -> Result<QuerySubmission, Refusal> {
        let (context, key) = (self.context, self.key);
        let loaded = self.loaded_for_riders().await?;
        let run = loaded.run();
        match run_id {
            Some(run_id) if run_id != run.started.run_id => return Ok(QuerySubmission::Earlier(new, run_id)),
            None if run.status == Status::ContinuedAsNew => return Ok(QuerySubmission::Continued(new)),
            Some(_) | None => {}
        }
        context.riders.put_query(key, run, *new)?;
        context.request_reply.dispatch_riders(key, loaded);
        Ok(QuerySubmission::Waits(run.started.run_id, decider_list(key, loaded)))
    }

    /// Hands out the waiting riders with a separate task if possible.
    pub(crate) async fn run_dispatch_riders(&mut self) -> Result<(), Refusal> {
        let (context, key) = (self.context, self.key);
        context.request_reply.dispatch_riders(key, self.loaded_for_riders().await?);
        Ok(())
    }

    /// Returns the run's state including the commits of other nodes, because answers to riders must reflect them.
    async fn loaded_for_riders(&mut self) -> Result<&StoredRun, Refusal> {
        if self.context.nodes.is_shared() {
            self.state.forget();
        }
        let key = self.key;
        self.loaded().await?.ok_or_else(|| Refusal::unknown_workflow(key))
    }

    /// Takes riders for a poller. If a turn of the run is waiting, returns that turn instead. The poller must then take
    /// the turn together with the riders.
    pub(crate) async fn run_take_riders(
        &mut self,
        run_id: Uuid,
        kind: RiderKind,
        taker: &Taker,
    ) -> Result<TakenRiders, Refusal> {
        let (context, key) = (self.context, self.key);
        if context.nodes.is_shared() {
            self.state.forget();
        }
        let Some(loaded) = self.loaded().await? else { return Ok(TakenRiders::Nothing) };
        let run = loaded.run();
        if run.started.run_id != run_id {
            return Ok(match kind {
                RiderKind::Query => self.take_queries_of_earlier(run_id, taker).await?,
                RiderKind::Update => TakenRiders::Nothing,
            });
        }
        Ok(match waiting_turn(run) {
            0 if context.riders.settle(key, run).contains(&kind) => {
                granted(context.request_reply.grant_riders(key, loaded, kind, taker))
            }
            0 => TakenRiders::Nothing,
            scheduled_event_id => TakenRiders::Turn {
                scheduled_event_id,
                concurrency_key: loaded.run().started.concurrency_key.as_deref().map(Arc::from),
            },
        })
    }

    /// Returns a task with the queries of an earlier run of the workflow id.
    async fn take_queries_of_earlier(&self, run_id: Uuid, taker: &Taker) -> Result<TakenRiders, Refusal> {
        match self.context.reader.load_run(self.key, run_id).await {
            Ok(loaded) => {
                Ok(granted(self.context.request_reply.grant_riders(self.key, &loaded, RiderKind::Query, taker)))
            }
            Err(Refusal::UnknownRun { .. }) => Ok(TakenRiders::Nothing),
            Err(refusal) => Err(refusal),
        }
    }

    /// Adds an update to the run's riders.
    pub(crate) async fn run_update(
        &mut self,
        run_id: Option<Uuid>,
        mut put: SubmittedUpdate,
    ) -> Result<UpdateSubmission, Refusal> {
        let (context, key) = (self.context, self.key);
        if let Some(start) = put.start.take() {
            return Box::pin(self.run_update_with_start(put, &start)).await;
        }
        if context.nodes.is_shared() {
            // The state must include the commits of other nodes, so it is read from the store.
            self.state.forget();
        }
        loop {
            let before = self.state.was_cached();
            let Some(loaded) = self.loaded().await? else {
                return Err(Refusal::unknown_workflow(key));
            };
            let mut run = Box::new(loaded.run().clone());
            let current = run.started.run_id;
            let request = key_of_update(&put.asked.update_id);
            context.marks.recall(key, &mut run, &[request]).await?;
            if let UpdateStatus::Ended { run_id: of, event_id } = run.status_of_update(&put.asked.update_id, run_id) {
                if let Some(heard) = context.request_reply.ended_in(key, loaded, of, event_id).await? {
                    return Ok(UpdateSubmission::Known(of, heard));
                }
                run.forget_request(request);
            }
            let judged = match run_id {
                Some(run_id) if run_id != current => {
                    let workflow_id = key.workflow_id.to_string();
                    Err(Refusal::RunNotCurrent { workflow_id, run_id, current })
                }
                None if run.status == Status::ContinuedAsNew => return Ok(UpdateSubmission::Continued),
                _ => may_update_in(&run, &put.asked, run_id).map_err(Refusal::from),
            };
            let standing = match judged {
                Err(refusal) => {
                    let is_for_good = matches!(&refusal, Refusal::Fault(fault) if !fault.depends_on_state());
                    if !is_for_good && self.state.invalidate_if_served_from_cache(before) {
                        continue;
                    }
                    return Err(refusal);
                }
                Ok(standing) => standing,
            };
            return match standing {
                UpdateStatus::Accepted { .. } => Ok(UpdateSubmission::Known(current, UpdateTurnOutcome::Accepted)),
                UpdateStatus::Ended { event_id, .. } => {
                    Ok(UpdateSubmission::Known(current, context.request_reply.ended(key, loaded, event_id).await?))
                }
                UpdateStatus::New => {
                    let SubmittedUpdate { asked, is_named, caller, reply, .. } = put;
                    let Some(reply) = reply else { return Err(Refusal::Stopping) };
                    let name = run.started.task_list.as_str().into();
                    let list = ListKey { domain: Arc::clone(&key.domain), side: Side::Decider, name };
                    let new = NewUpdate { asked, is_named, caller, reply };
                    if let Some(heard) = context.riders.put_update(key, current, new, context.clock.now())? {
                        return Ok(UpdateSubmission::Known(current, heard));
                    }
                    context.request_reply.dispatch_riders(key, loaded);
                    Ok(UpdateSubmission::Waits(current, list))
                }
            };
        }
    }

    /// Adds the update to the open run. If no run is open, starts a run with the update.
    async fn run_update_with_start(
        &mut self,
        mut put: SubmittedUpdate,
        start: &Start,
    ) -> Result<UpdateSubmission, Refusal> {
        let (context, key) = (self.context, self.key);
        let newest = self.loaded().await?.map(|loaded| loaded.run().started.run_id);
        let now = context.clock.now();
        let rejection = newest.and_then(|run_id| {
            let heard = context.riders.rejection(run_id, &put.asked.update_id, now)?;
            Some(UpdateSubmission::Known(run_id, heard))
        });
        // An earlier turn has rejected this update. That turn may also have closed the run, but a repeated request must
        // not start another run.
        if let Some(known) = rejection {
            return Ok(known);
        }
        match Box::pin(self.run_start(start, Some(&mut put))).await? {
            Started { run_id, repeated: false, existing: false } => {
                let (domain, name) = (Arc::clone(&key.domain), start.task_list.as_str().into());
                Ok(UpdateSubmission::Started(run_id, ListKey { domain, side: Side::Decider, name }))
            }
            Started { run_id, .. } => self.run_update(Some(run_id), put).await,
        }
    }
}

fn granted(grant: Option<Grant>) -> TakenRiders {
    grant.map_or(TakenRiders::Nothing, |grant| TakenRiders::Granted(Box::new(grant)))
}
