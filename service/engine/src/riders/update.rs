//! Updates: sends them to the decider that validates them, and returns the outcomes to their callers.

mod reject;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use history::admit::may_update_in;
use history::{
    CallerName, EventId, EventKind, Fault, Level, Payload, ProposedUpdate, Start, UpdateStatus, key_of_update,
};
use store::HeadKey;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use crate::commit::StoredRun;
use crate::lists::ListKey;
use crate::lists::grant::RiderKind;
use crate::riders::outcome::UpdateTurnOutcome;
use crate::riders::place::RiderPlace;
use crate::riders::submitted::{SubmittedUpdate, UpdateSubmission};
use crate::riders::task::RequestReply;
use crate::riders::waiting::WaitingCaller;
use crate::run::request::Alone;
use crate::{EventRange, Refusal, RunRef};

/// Delay before the service looks again for the successor of a run. Our choice.
const SUCCESSOR_WAIT: Duration = Duration::from_millis(10);

/// Interval at which the run is read while a caller waits for the completion of an accepted update. The run is read
/// only if other nodes may write to it. Our choice.
const SHARED_CHECK_EVERY: Duration = Duration::from_millis(500);

/// Reason in the error for an update that a decider has taken without answering it.
const UNANSWERED: &str = "unanswered";

/// Number of a turn's events that are read at once to find the version of the run after the turn.
const TURN_EVENTS: usize = 100;

/// Parameters of an update.
#[derive(Debug, Clone)]
pub struct UpdateRequest {
    /// Update id chosen by the caller; if absent, the service generates a random one.
    pub update_id: Option<String>,
    /// Name of the update, 1 to 256 characters.
    pub name: String,
    /// Input of the update.
    pub input: Option<Payload>,
    /// Identity of the caller.
    pub identity: Option<String>,
    /// Name of the caller's credential.
    pub by: Option<CallerName>,
    /// Expected version of the run. If the run has another version when the update would be recorded, the update fails.
    pub if_version: Option<EventId>,
    /// Parameters of the run to start if no run is open. The new run's first turn validates the update.
    pub start: Option<Box<Start>>,
}

/// Progress of an accepted update.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateProgress {
    /// Id of the update.
    pub update_id: String,
    /// Id of the run.
    pub run_id: Uuid,
    /// True if this call started the run.
    pub started: bool,
    /// Id of the update's UpdateCompleted event. While the update is not completed, id of its UpdateAccepted event.
    pub event_id: EventId,
    /// Version of the run after the update was completed, and the update's result. `None` while the update is not
    /// completed.
    pub done: Option<(EventId, Option<Payload>)>,
}

/// Start of a run for an update, with the run's id once the run is started.
struct Beginning {
    start: Option<Box<Start>>,
    began: Option<Uuid>,
}

/// Updates sent by callers.
impl RequestReply {
    /// Sends an update to a run's decider, and waits up to `wait` for the outcome. A repeated update with the same id
    /// gets the same outcome.
    ///
    /// # Errors
    ///
    /// * [`Refusal::UpdateRejected`] and [`Refusal::UpdateFailed`] if the decider responds so.
    /// * [`Refusal::UpdateTimedOut`] if no decider responds in time.
    /// * A fault of the rules if the run has closed or does not have the expected version.
    /// * With a start: the errors of [`Commands::start`](crate::Commands::start), and [`Refusal::AfterStart`] if the
    ///   run was started but the update failed.
    pub async fn update(
        self: &Arc<Self>,
        at: &RunRef,
        update: UpdateRequest,
        wait: Duration,
    ) -> Result<UpdateProgress, Refusal> {
        match &update.start {
            Some(_) => drop(self.registry.domain_in_use(&at.domain).await?),
            None => self.registry.must_know(&at.domain).await?,
        }
        // Counting the request as waiting can fail, so it must happen before anything is recorded.
        crate::base::admission::count_waiting()?;
        let is_named = update.update_id.is_some();
        let UpdateRequest { update_id, name, input, identity, by, if_version, start } = update;
        let update_id = update_id.unwrap_or_else(|| self.ids.run_id(self.clock.now()).to_string());
        let asked = ProposedUpdate { update_id, name, input, identity, if_version, by };
        let mut beginning = Beginning { start, began: None };
        let updated = self.update_within(at, asked, is_named, &mut beginning, Instant::now() + wait).await;
        match &updated {
            Ok(_) => self.metrics.updates_accepted.inc(),
            Err(Refusal::UpdateRejected { .. }) => self.metrics.updates_rejected.inc(),
            Err(refusal) => {
                self.metrics.refused(refusal.code());
                0
            }
        };
        match (updated, beginning.began) {
            (Ok(updated), began) => Ok(UpdateProgress { started: began.is_some(), ..updated }),
            (Err(refusal), Some(run_id)) => Err(Refusal::AfterStart { run_id, then: Box::new(refusal) }),
            (Err(refusal), None) => Err(refusal),
        }
    }

    async fn update_within(
        self: &Arc<Self>,
        at: &RunRef,
        asked: ProposedUpdate,
        is_named: bool,
        beginning: &mut Beginning,
        deadline: Instant,
    ) -> Result<UpdateProgress, Refusal> {
        let key = at.key();
        // True if a decider of another node may have the update. There are two such cases:
        // * The caller chose the id, so it may have sent the update to another node earlier.
        // * A node to which the update was lent has not replied.
        let in_doubt = Arc::new(AtomicBool::new(is_named));
        loop {
            let caller = self.ids.op();
            let (reply, heard) = oneshot::channel();
            let (reply, start) = (Some(reply), beginning.start.clone());
            let update = Box::new(SubmittedUpdate { asked: asked.clone(), is_named, caller, reply, start });
            let submitted = self.runs.submit(&key, |reply| Alone::Update { run_id: at.run_id, update, reply }).await;
            if let Ok(UpdateSubmission::Started(run_id, _)) = &submitted {
                *beginning = Beginning { start: None, began: Some(*run_id) };
            }
            let (run_id, heard) = match submitted {
                Ok(UpdateSubmission::Known(run_id, heard)) => (run_id, heard),
                Ok(UpdateSubmission::Waits(run_id, list) | UpdateSubmission::Started(run_id, list)) => {
                    let (update_id, part) = (&asked.update_id, self.riders.part(&key, caller));
                    let lending = (update_id.as_str(), &in_doubt);
                    let heard = tokio::select! {
                        heard = self.await_outcome(part, heard, deadline) => heard,
                        never = self.validate_elsewhere(&key, run_id, lending, &list, deadline) => match never {},
                    };
                    let heard = match heard {
                        Ok(heard) => heard,
                        Err(place) => return Err(self.not_answered(&key, run_id, update_id, place, &list).await),
                    };
                    (run_id, heard)
                }
                Ok(UpdateSubmission::Continued) => {
                    if Instant::now() >= deadline || self.background.is_stopping() {
                        let (update_id, why) =
                            (asked.update_id, "the run continues as new, and the new run has not started yet");
                        return Err(Refusal::UpdateTimedOut { update_id, recorded: false, why, waits_for: None });
                    }
                    tokio::time::sleep(SUCCESSOR_WAIT).await;
                    continue;
                }
                Err(Refusal::RunNotCurrent { workflow_id, run_id, current }) => {
                    // The run is not the newest of its workflow id, so it cannot accept the update. Only an outcome
                    // that the run has recorded earlier can be returned.
                    let earlier = self.reader.load_run(&key, run_id).await?;
                    let mut run = Box::new(earlier.run().clone());
                    self.marks.recall(&key, &mut run, &[key_of_update(&asked.update_id)]).await?;
                    match may_update_in(&run, &asked, Some(run_id)) {
                        Ok(UpdateStatus::Ended { event_id, .. }) => {
                            (run_id, self.ended(&key, &earlier, event_id).await?)
                        }
                        Ok(_) | Err(_) => return Err(Refusal::RunNotCurrent { workflow_id, run_id, current }),
                    }
                }
                Err(refusal) => return Err(refusal),
            };
            let heard = if in_doubt.load(Ordering::Relaxed) {
                let others = (&*self.nodes, &*self.lists.elsewhere);
                reject::confirm_rejection(others, &key, run_id, &asked.update_id, heard).await
            } else {
                heard
            };
            return match heard {
                UpdateTurnOutcome::Continued => continue,
                // The run has closed in the meantime, so a new run can be started for the update in the next iteration.
                UpdateTurnOutcome::Refused(Refusal::Fault(Fault::RunClosed { .. })) if beginning.start.is_some() => {
                    continue;
                }
                UpdateTurnOutcome::Accepted => self.await_end(at, run_id, &asked.update_id, deadline).await,
                heard => outcome_to_progress(asked.update_id, run_id, heard),
            };
        }
    }

    /// Waits for the outcome of an update. If the wait ends first, returns the update's state as the error. The state
    /// is `None` if the update is no longer among the riders.
    async fn await_outcome(
        &self,
        part: WaitingCaller<'_>,
        heard: oneshot::Receiver<UpdateTurnOutcome>,
        deadline: Instant,
    ) -> Result<UpdateTurnOutcome, Option<RiderPlace>> {
        let heard = tokio::select! {
            biased;
            heard = heard => heard.ok(),
            () = self.background.stopped() => None,
            () = tokio::time::sleep_until(deadline) => None,
        };
        heard.ok_or_else(|| part.leave())
    }

    async fn not_answered(
        &self,
        key: &HeadKey,
        run_id: Uuid,
        update_id: &str,
        place: Option<RiderPlace>,
        list: &ListKey,
    ) -> Refusal {
        // True if the update no longer waits. Either a decider has the update, or its answer is about to arrive.
        let recorded = place != Some(RiderPlace::Waits);
        let (why, waits) = place.unwrap_or(RiderPlace::Waits).why_unanswered(RiderKind::Update);
        let waits_for = if waits { self.turn_wait(key, run_id, list).await } else { None };
        Refusal::UpdateTimedOut { update_id: update_id.to_owned(), recorded, why, waits_for }
    }

    /// Waits until an accepted update is completed.
    async fn await_end(
        &self,
        at: &RunRef,
        run_id: Uuid,
        update_id: &str,
        deadline: Instant,
    ) -> Result<UpdateProgress, Refusal> {
        let (key, at) = (at.key(), RunRef { run_id: Some(run_id), ..at.clone() });
        loop {
            // Creates a new watcher in each iteration, because a change of the set of nodes drops existing watchers.
            let mut watching = self.watchers.watch(&key);
            let loaded = self.lookup.look_up(&at).await?;
            let mut run = Box::new(loaded.run().clone());
            self.marks.recall(&key, &mut run, &[key_of_update(update_id)]).await?;
            let event_id = match run.update_status(update_id) {
                UpdateStatus::Accepted { event_id } => event_id,
                UpdateStatus::Ended { event_id, .. } => {
                    return outcome_to_progress(
                        update_id.to_owned(),
                        run_id,
                        self.ended(&key, &loaded, event_id).await?,
                    );
                }
                UpdateStatus::New if !run.is_open() => return Err(Fault::RunClosed { status: run.status }.into()),
                UpdateStatus::New => {
                    let why = "the run no longer knows this update, because many later ones were answered".to_owned();
                    return Err(Refusal::OutcomeUnknown { why });
                }
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.background.is_stopping() {
                let (update_id, started) = (update_id.to_owned(), false);
                return Ok(UpdateProgress { update_id, run_id, started, event_id, done: None });
            }
            let wait = if self.nodes.is_shared() { left.min(SHARED_CHECK_EVERY) } else { left };
            tokio::select! {
                biased;
                () = watching.beyond(run_id, run.last_event_id) => {}
                () = self.background.stopped() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Reads the outcome of a completed update from the history.
    pub(crate) async fn ended(
        &self,
        key: &HeadKey,
        loaded: &StoredRun,
        event_id: EventId,
    ) -> Result<UpdateTurnOutcome, Refusal> {
        let mut page = EventRange { after: event_id - 1, limit: TURN_EVENTS, ..EventRange::default() };
        let (mut answer, mut version) = (None, event_id);
        // Finds the version of the run after the turn, because the first caller got this version.
        loop {
            let read = self.reader.read_page(key, loaded, &page).await?;
            let count = read.events.len();
            let turn: Vec<_> =
                read.events.into_iter().take_while(|event| event.kind.level() == Level::Decider).collect();
            let goes_on = turn.len() == count;
            version = turn.iter().rev().find(|event| event.kind.is_news()).map_or(version, |event| event.id);
            answer = answer.or_else(|| turn.into_iter().next());
            match read.next.filter(|_| goes_on) {
                Some(after) => page.after = after,
                None => break,
            }
        }
        match answer.map(|event| event.kind) {
            Some(EventKind::UpdateCompleted(it)) => {
                Ok(UpdateTurnOutcome::Done { event_id, version, result: it.result })
            }
            Some(EventKind::UpdateFailed(it)) => {
                let (update_id, reason, details) = (it.update_id, it.reason, it.details);
                Ok(UpdateTurnOutcome::Refused(Refusal::UpdateFailed { update_id, event_id, reason, details }))
            }
            // The run closed before the update was completed.
            Some(EventKind::UpdateAccepted(_)) => {
                Ok(UpdateTurnOutcome::Refused(Fault::RunClosed { status: loaded.run().status }.into()))
            }
            _ => {
                let what =
                    format!("event {event_id} of run {} is not the answer to an update", loaded.run().started.run_id);
                Err(Refusal::Corrupt { what })
            }
        }
    }

    /// Returns the outcome of an update in the run `of`, which is this run or an earlier run. Returns `None` if the
    /// outcome is no longer known.
    pub(crate) async fn ended_in(
        &self,
        key: &HeadKey,
        loaded: &StoredRun,
        of: Uuid,
        event_id: u64,
    ) -> Result<Option<UpdateTurnOutcome>, Refusal> {
        if of == loaded.run().started.run_id {
            return self.ended(key, loaded, event_id).await.map(Some);
        }
        match self.reader.load_run(key, of).await {
            Ok(earlier) => self.ended(key, &earlier, event_id).await.map(Some),
            Err(Refusal::UnknownRun { .. }) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }
}

fn outcome_to_progress(update_id: String, run_id: Uuid, heard: UpdateTurnOutcome) -> Result<UpdateProgress, Refusal> {
    match heard {
        UpdateTurnOutcome::Done { event_id, version, result } => {
            Ok(UpdateProgress { update_id, run_id, started: false, event_id, done: Some((version, result)) })
        }
        UpdateTurnOutcome::Rejected { reason, details } => Err(Refusal::UpdateRejected { update_id, reason, details }),
        UpdateTurnOutcome::Unanswered => Err(Refusal::UpdateRejected {
            update_id,
            reason: UNANSWERED.to_owned(),
            details: Payload::of("the decider received the update but did not answer it").ok(),
        }),
        UpdateTurnOutcome::Refused(refusal) => Err(refusal),
        UpdateTurnOutcome::Accepted | UpdateTurnOutcome::Continued => {
            Err(Refusal::Unavailable { why: "the run has changed meanwhile".to_owned(), retry_after: None })
        }
    }
}
