//! Repair of deadlines that were set while the clock was ahead. The crate `history` decides which deadlines are too
//! late and how they are corrected. This module checks whether a repair is allowed, and reads the data for a repair
//! that is not part of the run's state.

use std::collections::BTreeMap;
use std::sync::Arc;

use history::event::OperatorAction;
use history::{Author, Command, Duration, EventId, EventKind, Fault, Heartbeat, LateDeadline, Run, RunId};
use store::{ListQuery, PageToken, Store};
use uuid::Uuid;

use crate::base::clock::ClockStanding;
use crate::nodes::Nodes;
use crate::run::lookup::RunLookup;
use crate::run::request::{Alone, RunRequest};
use crate::run::runs::Runs;
use crate::time::guard::Guard;
use crate::{Clock, EventRange, Refusal, RunRef, RunState};

/// An open run with deadlines that are too late.
#[derive(Debug, Clone)]
pub struct LateRun {
    /// State of the run.
    pub run: Run,
    /// Deadlines that are too late, earliest first.
    pub deadlines: Vec<LateDeadline>,
}

/// Page of open runs with deadlines that are too late.
#[derive(Debug, Clone, Default)]
pub struct LateRuns {
    /// Runs of this page with deadlines that are too late.
    pub runs: Vec<LateRun>,
    /// Number of open runs that were checked for this page.
    pub looked_at: u64,
    /// Token of the next page; `None` on the last page.
    pub next: Option<PageToken>,
}

/// A run after its deadlines were repaired.
#[derive(Debug, Clone)]
pub struct RepairedRun {
    /// State of the run before the repair, with the deadlines that were repaired. The list of deadlines is empty if
    /// none was too late.
    pub late: LateRun,
    /// Id of the first event that the repair recorded; `None` if the repair recorded no event.
    pub event_id: Option<EventId>,
}

/// Finds and repairs deadlines that are too late.
pub struct DeadlineRepair {
    pub(crate) runs: Arc<Runs>,
    pub(crate) lookup: Arc<RunLookup>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// State of a run, with other data that the repair of the run needs.
struct RepairData {
    late: LateRun,
    heartbeats: Vec<Heartbeat>,
    /// Durations of the timers whose duration is not in the run's state.
    timers: BTreeMap<EventId, Duration>,
}

impl DeadlineRepair {
    /// Lists open runs of a domain with deadlines that are too late. Each page checks as many runs as the query's limit
    /// says, and contains only the runs with such deadlines.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or an error of the store.
    pub async fn late_runs(&self, query: ListQuery, page: Option<&PageToken>) -> Result<LateRuns, Refusal> {
        self.lookup.must_know_domain(&query.domain).await?;
        let query = ListQuery { open: Some(true), ..query };
        let read = self.store.list(&query, page).await?;
        let mut found = LateRuns { looked_at: read.rows.len() as u64, next: read.next, ..LateRuns::default() };
        for row in read.rows {
            let (domain, run_id) = (Arc::clone(&query.domain), Some(Uuid::from_bytes(row.run)));
            match self.find_late(&RunRef { domain, workflow_id: row.workflow_id, run_id }).await {
                Ok(looked) if looked.late.deadlines.is_empty() => {}
                Ok(looked) => found.runs.push(looked.late),
                // The run was deleted after the list was read.
                Err(Refusal::UnknownWorkflow { .. } | Refusal::UnknownRun { .. }) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(found)
    }

    /// Repairs the deadlines of an open run that are too late. If no deadline is too late, records nothing. The request
    /// can therefore be repeated.
    ///
    /// # Errors
    ///
    /// [`Refusal::ClockSuspect`] if the clock may be wrong, [`Refusal::UnknownWorkflow`], [`Refusal::UnknownRun`],
    /// [`Refusal::RunNotCurrent`], a fault of the rules, or an error of the store.
    pub async fn repair(&self, at: &RunRef, operator: OperatorAction, author: Author) -> Result<RepairedRun, Refusal> {
        history::admit::check_operator(&operator)?;
        self.must_be_right().await?;
        let RepairData { late, heartbeats, timers } = self.find_late(at).await?;
        if !late.run.is_open() {
            return Err(Fault::RunClosed { status: late.run.status }.into());
        }
        if late.deadlines.is_empty() {
            return Ok(RepairedRun { late, event_id: None });
        }
        let (key, run_id) = (at.key(), late.run.started.run_id);
        self.repair_heartbeats(at, &late.run, &heartbeats).await?;
        let command = Command::RepairDeadlines { heartbeats, timers, operator, key: None };
        let admitted =
            self.runs.submit(&key, |reply| RunRequest::command(Some(run_id), command, author, reply)).await?;
        Ok(RepairedRun { late, event_id: (!admitted.repeated).then_some(admitted.event_id) })
    }

    async fn find_late(&self, at: &RunRef) -> Result<RepairData, Refusal> {
        let RunState { mut run, heartbeats, owed, .. } = self.lookup.describe(at).await?;
        let now = self.clock.now();
        let mut timers = BTreeMap::new();
        for event_id in run.timers_without_span(now) {
            timers.extend(self.timer_span(at, run.started.run_id, event_id).await?.map(|span| (event_id, span)));
        }
        run.learn_timer_spans(&timers);
        let deadlines = run.late_deadlines(&heartbeats, &owed, now);
        Ok(RepairData { late: LateRun { run, deadlines }, heartbeats, timers })
    }

    /// Reads the duration of a timer from its TimerScheduled event.
    async fn timer_span(&self, at: &RunRef, run_id: RunId, event_id: EventId) -> Result<Option<Duration>, Refusal> {
        let at = RunRef { run_id: Some(run_id), ..at.clone() };
        let page = EventRange { after: event_id - 1, limit: 1, ..EventRange::default() };
        let event = self.lookup.history(&at, &page).await?.events.pop();
        Ok(event.and_then(|event| match event.kind {
            EventKind::TimerScheduled(it) => Some(it.after),
            _ => None,
        }))
    }

    /// Repairs heartbeats whose time is later than the time of the clock. Such heartbeats are treated as received now.
    async fn repair_heartbeats(&self, at: &RunRef, run: &Run, heartbeats: &[Heartbeat]) -> Result<(), Refusal> {
        let now = self.clock.now();
        for beat in heartbeats.iter().filter(|beat| beat.at > now) {
            let activity = run.activities.get(&beat.scheduled_event_id);
            let Some(task) = activity.and_then(|activity| activity.task(beat.scheduled_event_id)) else { continue };
            let (run_id, details) = (run.started.run_id, beat.details.clone());
            let beaten = self.runs.submit(&at.key(), |reply| Alone::Heartbeat { run_id, task, details, reply }).await;
            match beaten {
                // The activity has ended in the meantime.
                Ok(_) | Err(Refusal::Fault(_)) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(())
    }

    /// Fails if the clock may be wrong, because a repair with a wrong clock could fire deadlines too early.
    async fn must_be_right(&self) -> Result<(), Refusal> {
        // Reads the record, because another node may have confirmed the clock or noticed a jump.
        self.guard.believed_now().await?;
        let apart = self.nodes.clocks_apart();
        let ClockStanding { behind, is_doubted, moves, .. } = self.guard.standing();
        let why = if is_doubted {
            "it is too far ahead of the newest time seen".to_owned()
        } else if let Some(behind) = behind {
            format!("it is {behind} behind the newest time seen")
        } else if let Some((node, by)) = apart.first_key_value() {
            format!("it and the clock of node {node} differ by {by}")
        } else if !moves.is_empty() {
            format!("{} of its jumps are unconfirmed", moves.len())
        } else {
            return Ok(());
        };
        Err(Refusal::ClockSuspect { now: self.clock.now(), why })
    }

    /// Returns the reason why the clock may be wrong. Returns `None` if the clock is known to be right. A repair is
    /// then allowed.
    ///
    /// # Errors
    ///
    /// An error of the store.
    pub async fn doubt(&self) -> Result<Option<String>, Refusal> {
        match self.must_be_right().await {
            Ok(()) => Ok(None),
            Err(Refusal::ClockSuspect { why, .. }) => Ok(Some(why)),
            Err(refusal) => Err(refusal),
        }
    }
}
