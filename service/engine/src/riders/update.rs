//! Updates: from the caller who asks to the decider who judges.

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
use crate::riders::heard::UpdateHeard;
use crate::riders::place::RiderPlace;
use crate::riders::put::{PutUpdate, Putting};
use crate::riders::task::RequestReply;
use crate::riders::waiting::WaitingCaller;
use crate::run::request::RunRequest;
use crate::{EventRange, Refusal, RunRef};

/// Before a run is looked for again that goes on for another.
const GO_ON_WAIT: Duration = Duration::from_millis(10);

/// How often a run is looked at, while an update that it accepted is waited for, where other nodes may write to it.
const SHARED_LOOK_EVERY: Duration = Duration::from_millis(500);

/// The reason of an update that a decider took along and said nothing to.
const UNANSWERED: &str = "unanswered";

/// Events of one turn that are read at once to be looked through for its newest news.
const TURN_EVENTS: usize = 100;

/// An update.
#[derive(Debug, Clone)]
pub struct UpdateRequest {
    /// The caller's name for it; one that nobody knows when absent.
    pub update_id: Option<String>,
    /// What kind of update it is. 1 to 256 characters.
    pub name: String,
    /// What it says.
    pub input: Option<Payload>,
    /// Who asks.
    pub identity: Option<String>,
    /// The name of the credential of whoever asks.
    pub by: Option<CallerName>,
    /// Refuse it unless the run's version is this one when it commits.
    pub if_version: Option<EventId>,
    /// Starts the run first unless it is open, so that its first turn judges the update.
    pub start: Option<Box<Start>>,
}

/// What came of an update that was accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateProgress {
    /// Its name.
    pub update_id: String,
    /// The run.
    pub run_id: Uuid,
    /// Whether the run was started for it, by this very call.
    pub started: bool,
    /// Its UpdateCompleted; while it is not done its UpdateAccepted.
    pub event_id: EventId,
    /// The answer and the run's version once it was done; `None` while it is not.
    pub done: Option<(EventId, Option<Payload>)>,
}

/// What an update starts, and has started.
struct Beginning {
    start: Option<Box<Start>>,
    began: Option<Uuid>,
}

/// Asking.
impl RequestReply {
    /// Has a run's decider judge an update, and waits up to `wait` for the answer. Who asks again with the same id gets the
    /// first answer.
    ///
    /// # Errors
    ///
    /// [`Refusal::UpdateRejected`] and [`Refusal::UpdateFailed`] as the decider says; [`Refusal::UpdateNotAnswered`] when no
    /// decider has said anything in time; a fault of the rules: the run has closed, or is not at the version that was named;
    /// with a start those of [`Commands::start`](crate::Commands::start), and [`Refusal::AfterStart`] where the run
    /// was started.
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
        // Before anything is recorded.
        crate::base::shares::watch()?;
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
        // Whether a decider of another node may have it: its caller may have asked there, by its name; and who was lent it may not have answered.
        let in_doubt = Arc::new(AtomicBool::new(is_named));
        loop {
            let caller = self.ids.op();
            let (reply, heard) = oneshot::channel();
            let (reply, start) = (Some(reply), beginning.start.clone());
            let put = Box::new(PutUpdate { asked: asked.clone(), is_named, caller, reply, start });
            let put = self.runs.ask(&key, |reply| RunRequest::Update { run_id: at.run_id, put, reply }).await;
            if let Ok(Putting::Began(run_id, _)) = &put {
                *beginning = Beginning { start: None, began: Some(*run_id) };
            }
            let (run_id, heard) = match put {
                Ok(Putting::Known(run_id, heard)) => (run_id, heard),
                Ok(Putting::Waits(run_id, list) | Putting::Began(run_id, list)) => {
                    let (update_id, part) = (&asked.update_id, self.riders.part(&key, caller));
                    let lending = (update_id.as_str(), &in_doubt);
                    let heard = tokio::select! {
                        heard = self.hear(part, heard, deadline) => heard,
                        never = self.have_judged_elsewhere(&key, run_id, lending, &list, deadline) => match never {},
                    };
                    let heard = match heard {
                        Ok(heard) => heard,
                        Err(place) => return Err(self.not_answered(&key, run_id, update_id, place, &list).await),
                    };
                    (run_id, heard)
                }
                Ok(Putting::GoesOn) => {
                    if Instant::now() >= deadline || self.background.is_stopping() {
                        let (update_id, why) = (asked.update_id, "the run that goes on as new is about to begin");
                        return Err(Refusal::UpdateNotAnswered { update_id, recorded: false, why, waits_for: None });
                    }
                    tokio::time::sleep(GO_ON_WAIT).await;
                    continue;
                }
                Err(Refusal::RunNotCurrent { workflow_id, run_id, current }) => {
                    // An answer of an earlier run can still be fetched; nothing else.
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
                reject::told_by_all(others, &key, run_id, &asked.update_id, heard).await
            } else {
                heard
            };
            return match heard {
                UpdateHeard::GoneOn => continue,
                // It is not open any more.
                UpdateHeard::Refused(Refusal::Fault(Fault::RunClosed { .. })) if beginning.start.is_some() => continue,
                UpdateHeard::Accepted => self.await_end(at, run_id, &asked.update_id, deadline).await,
                heard => read_heard(asked.update_id, run_id, heard),
            };
        }
    }

    /// Waits for a verdict; answers where the update was when the wait was over, and whether it was there.
    async fn hear(
        &self,
        part: WaitingCaller<'_>,
        heard: oneshot::Receiver<UpdateHeard>,
        deadline: Instant,
    ) -> Result<UpdateHeard, Option<RiderPlace>> {
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
        // A decider may have it, or its verdict is on the way.
        let recorded = place != Some(RiderPlace::Waits);
        let (why, waits) = place.unwrap_or(RiderPlace::Waits).why_unanswered(RiderKind::Update);
        let waits_for = if waits { self.turn_wait(key, run_id, list).await } else { None };
        Refusal::UpdateNotAnswered { update_id: update_id.to_owned(), recorded, why, waits_for }
    }

    /// Waits for the end of an update that was accepted.
    async fn await_end(
        &self,
        at: &RunRef,
        run_id: Uuid,
        update_id: &str,
        deadline: Instant,
    ) -> Result<UpdateProgress, Refusal> {
        let (key, at) = (at.key(), RunRef { run_id: Some(run_id), ..at.clone() });
        loop {
            // Anew each time: whoever watched when nodes came or went is told nothing any more.
            let mut watching = self.watchers.watch(&key);
            let loaded = self.lookup.look_up(&at).await?;
            let mut run = Box::new(loaded.run().clone());
            self.marks.recall(&key, &mut run, &[key_of_update(update_id)]).await?;
            let event_id = match run.update_status(update_id) {
                UpdateStatus::Accepted { event_id } => event_id,
                UpdateStatus::Ended { event_id, .. } => {
                    return read_heard(update_id.to_owned(), run_id, self.ended(&key, &loaded, event_id).await?);
                }
                UpdateStatus::New if !run.is_open() => return Err(Fault::RunClosed { status: run.status }.into()),
                UpdateStatus::New => {
                    let why = "so many updates were answered since that the run has forgotten this one".to_owned();
                    return Err(Refusal::OutcomeUnknown { why });
                }
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.background.is_stopping() {
                let (update_id, started) = (update_id.to_owned(), false);
                return Ok(UpdateProgress { update_id, run_id, started, event_id, done: None });
            }
            let wait = if self.nodes.is_shared() { left.min(SHARED_LOOK_EVERY) } else { left };
            tokio::select! {
                biased;
                () = watching.beyond(run_id, run.last_event_id) => {}
                () = self.background.stopped() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// The answer of an update that has one, from the history.
    pub(crate) async fn ended(
        &self,
        key: &HeadKey,
        loaded: &StoredRun,
        event_id: EventId,
    ) -> Result<UpdateHeard, Refusal> {
        let mut page = EventRange { after: event_id - 1, limit: TURN_EVENTS, ..EventRange::default() };
        let (mut answer, mut version) = (None, event_id);
        // The version that the turn left, which is what whoever was answered at once was told.
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
            Some(EventKind::UpdateCompleted(it)) => Ok(UpdateHeard::Done { event_id, version, result: it.result }),
            Some(EventKind::UpdateFailed(it)) => {
                let (update_id, reason, details) = (it.update_id, it.reason, it.details);
                Ok(UpdateHeard::Refused(Refusal::UpdateFailed { update_id, event_id, reason, details }))
            }
            // Its run closed before it was answered.
            Some(EventKind::UpdateAccepted(_)) => {
                Ok(UpdateHeard::Refused(Fault::RunClosed { status: loaded.run().status }.into()))
            }
            _ => {
                let what = format!("event {event_id} of run {}, which answers an update", loaded.run().started.run_id);
                Err(Refusal::Corrupt { what })
            }
        }
    }

    /// What came of an update in the run `of`, which is this one or one before it; `None` when that has been forgotten.
    pub(crate) async fn ended_in(
        &self,
        key: &HeadKey,
        loaded: &StoredRun,
        of: Uuid,
        event_id: u64,
    ) -> Result<Option<UpdateHeard>, Refusal> {
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

fn read_heard(update_id: String, run_id: Uuid, heard: UpdateHeard) -> Result<UpdateProgress, Refusal> {
    match heard {
        UpdateHeard::Done { event_id, version, result } => {
            Ok(UpdateProgress { update_id, run_id, started: false, event_id, done: Some((version, result)) })
        }
        UpdateHeard::Rejected { reason, details } => Err(Refusal::UpdateRejected { update_id, reason, details }),
        UpdateHeard::Unanswered => Err(Refusal::UpdateRejected {
            update_id,
            reason: UNANSWERED.to_owned(),
            details: Payload::of("the decider took the update along and said nothing to it").ok(),
        }),
        UpdateHeard::Refused(refusal) => Err(refusal),
        UpdateHeard::Accepted | UpdateHeard::GoneOn => {
            Err(Refusal::Unavailable { why: "the run has moved on".to_owned(), retry_after: None })
        }
    }
}
