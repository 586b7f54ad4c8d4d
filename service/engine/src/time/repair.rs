//! Finding and repairing deadlines that were set while the clock was ahead. What is too late, and what a repair does, the rules say
//! (`history`); here is when it may be done, and where the rules get what the state of a run does not have.

use std::collections::BTreeMap;
use std::sync::Arc;

use history::event::ByHand;
use history::{Author, Command, Duration, EventId, EventKind, Fault, Heartbeat, LateDeadline, Run, RunId};
use store::{ListQuery, PageToken, Store};
use uuid::Uuid;

use crate::base::clock::ClockStanding;
use crate::nodes::Nodes;
use crate::run::lookup::RunLookup;
use crate::run::request::RunRequest;
use crate::run::runs::Runs;
use crate::time::guard::Guard;
use crate::{Clock, EventRange, Refusal, RunRef, RunState};

/// An open run with deadlines that are too late.
#[derive(Debug, Clone)]
pub struct LateRun {
    /// The run.
    pub run: Run,
    /// The deadlines, in the order of time.
    pub deadlines: Vec<LateDeadline>,
}

/// A page of open runs with deadlines that are too late.
#[derive(Debug, Clone, Default)]
pub struct LateRuns {
    /// The runs.
    pub runs: Vec<LateRun>,
    /// Number of open runs that were looked at for this page.
    pub looked_at: u64,
    /// Where the next page begins.
    pub next: Option<PageToken>,
}

/// A run after its deadlines were repaired.
#[derive(Debug, Clone)]
pub struct RepairedRun {
    /// The run as it was before, and what was repaired. Without deadlines, nothing had to be.
    pub late: LateRun,
    /// The first event that was recorded.
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

/// What is known of one run.
struct Looked {
    late: LateRun,
    beats: Vec<Heartbeat>,
    /// How long timers run of which the state does not say it.
    timers: BTreeMap<EventId, Duration>,
}

impl DeadlineRepair {
    /// Open runs of a domain with deadlines that are too late. A page looks at as many open runs as the query's limit says, and has
    /// those of them that are late.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or the store's.
    pub async fn late_runs(&self, query: ListQuery, page: Option<&PageToken>) -> Result<LateRuns, Refusal> {
        self.lookup.must_know_domain(&query.domain).await?;
        let query = ListQuery { open: Some(true), ..query };
        let read = self.store.list(&query, page).await?;
        let mut found = LateRuns { looked_at: read.rows.len() as u64, next: read.next, ..LateRuns::default() };
        for row in read.rows {
            let (domain, run_id) = (Arc::clone(&query.domain), Some(Uuid::from_bytes(row.run)));
            match self.look(&RunRef { domain, workflow_id: row.workflow_id, run_id }).await {
                Ok(looked) if looked.late.deadlines.is_empty() => {}
                Ok(looked) => found.runs.push(looked.late),
                // Forgotten since the page was read.
                Err(Refusal::UnknownWorkflow { .. } | Refusal::UnknownRun { .. }) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(found)
    }

    /// Repairs the deadlines of an open run that are too late. Nothing is recorded if there are none, so it can be repeated.
    ///
    /// # Errors
    ///
    /// [`Refusal::ClockDoubted`] unless the clock is known to be right, [`Refusal::UnknownWorkflow`], [`Refusal::UnknownRun`],
    /// [`Refusal::RunNotCurrent`], a fault of the rules, or the store's.
    pub async fn repair(&self, at: &RunRef, by_hand: ByHand, author: Author) -> Result<RepairedRun, Refusal> {
        history::admit::check_by_hand(&by_hand)?;
        self.must_be_right().await?;
        let Looked { late, beats, timers } = self.look(at).await?;
        if !late.run.is_open() {
            return Err(Fault::RunClosed { status: late.run.status }.into());
        }
        if late.deadlines.is_empty() {
            return Ok(RepairedRun { late, event_id: None });
        }
        let (key, run_id) = (at.key(), late.run.started.run_id);
        self.repair_beats(at, &late.run, &beats).await?;
        let command = Command::RepairDeadlines { heartbeats: beats, timers, by_hand, key: None };
        let admitted = self.runs.tell_of(&key, Some(run_id), command, author).await?;
        Ok(RepairedRun { late, event_id: (!admitted.repeated).then_some(admitted.event_id) })
    }

    async fn look(&self, at: &RunRef) -> Result<Looked, Refusal> {
        let RunState { mut run, beats, owed, .. } = self.lookup.describe(at).await?;
        let now = self.clock.now();
        let mut timers = BTreeMap::new();
        for event_id in run.timers_without_span(now) {
            timers.extend(self.timer_span(at, run.started.run_id, event_id).await?.map(|span| (event_id, span)));
        }
        run.learn_timer_spans(&timers);
        let deadlines = run.late_deadlines(&beats, &owed, now);
        Ok(Looked { late: LateRun { run, deadlines }, beats, timers })
    }

    /// How long a timer runs, as its TimerScheduled says.
    async fn timer_span(&self, at: &RunRef, run_id: RunId, event_id: EventId) -> Result<Option<Duration>, Refusal> {
        let at = RunRef { run_id: Some(run_id), ..at.clone() };
        let page = EventRange { after: event_id - 1, limit: 1, ..EventRange::default() };
        let event = self.lookup.history(&at, &page).await?.events.pop();
        Ok(event.and_then(|event| match event.kind {
            EventKind::TimerScheduled(it) => Some(it.after),
            _ => None,
        }))
    }

    /// A runner that was heard of by a clock that was ahead counts as heard of now.
    async fn repair_beats(&self, at: &RunRef, run: &Run, beats: &[Heartbeat]) -> Result<(), Refusal> {
        let now = self.clock.now();
        for beat in beats.iter().filter(|beat| beat.at > now) {
            let activity = run.activities.get(&beat.scheduled_event_id);
            let Some(task) = activity.and_then(|activity| activity.task(beat.scheduled_event_id)) else { continue };
            let (run_id, details) = (run.started.run_id, beat.details.clone());
            let beaten = self.runs.ask(&at.key(), |reply| RunRequest::Beat { run_id, task, details, reply }).await;
            match beaten {
                // It was answered meanwhile.
                Ok(_) | Err(Refusal::Fault(_)) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(())
    }

    /// A repair by a wrong clock would have deadlines come early, so there must be nothing that speaks against this one.
    async fn must_be_right(&self) -> Result<(), Refusal> {
        // Another node may have confirmed it, or noticed something.
        self.guard.believed_now().await?;
        let apart = self.nodes.clocks_apart();
        let ClockStanding { behind, is_doubted, moves, .. } = self.guard.standing();
        let why = if is_doubted {
            "it is too far ahead of the newest time that was seen".to_owned()
        } else if let Some(behind) = behind {
            format!("it is {behind} behind the newest time that was seen")
        } else if let Some((node, by)) = apart.first_key_value() {
            format!("it and the clock of node {node} are {by} apart")
        } else if !moves.is_empty() {
            format!("{} jumps of it are not confirmed", moves.len())
        } else {
            return Ok(());
        };
        Err(Refusal::ClockDoubted { now: self.clock.now(), why })
    }

    /// What speaks against the clock; `None` if it is known to be right, so that a repair is admitted.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn doubt(&self) -> Result<Option<String>, Refusal> {
        match self.must_be_right().await {
            Ok(()) => Ok(None),
            Err(Refusal::ClockDoubted { why, .. }) => Ok(Some(why)),
            Err(refusal) => Err(refusal),
        }
    }
}
