//! Schedules: their records in the store, and what callers do to them (ADR 14). What they come to is in
//! `schedules/look.rs`; which times they name, and what they do at one of them, are rules of `history`.
//!
//! A schedule is a head under a domain name that no caller can use, with its next instant in the due index, so that sweeps
//! of any node find it on any store, and with a row, so that lists of schedules are lists like any other.

mod look;
mod record;

use std::sync::Arc;

use bytes::Bytes;
use history::{
    ActionCause, Fault, Overlap, RequestKey, Schedule, ScheduleState, ScheduleTimes, Timestamp, Transition, Upcoming,
    admit, limits,
};
use store::{Cas, Expect, Head, HeadKey, ListQuery, Mark, PageToken, Store};
use uuid::Uuid;

use crate::base::agenda::Agenda;
use crate::base::clock::Ids;
use crate::base::records::schedule_key;
use crate::registry::known::Marks;
use crate::run::commands::Commands;
use crate::run::runs::Runs;
use crate::{Clock, Metrics, Refusal, Registry};

use record::{PAUSED, ScheduleRecord};

/// How often a change is tried against the changes of others.
const TRIES_MAX: u32 = 16;

/// The wait after a try that the store did not take.
const TRY_WAIT: std::time::Duration = std::time::Duration::from_millis(20);

/// A schedule, for its user.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleView {
    /// Its id.
    pub id: String,
    /// What its user says.
    pub schedule: Schedule,
    /// Since when.
    pub created_at: Timestamp,
    /// What it remembers, and what could be seen of its runs just now.
    pub state: ScheduleState,
    /// The next times, without jitter.
    pub next_times: Vec<Timestamp>,
}

/// A schedule in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleRow {
    /// Its id.
    pub id: String,
    /// The workflow type that it starts.
    pub workflow_type: String,
    /// Whether it is paused.
    pub is_paused: bool,
    /// Since when.
    pub created_at: Timestamp,
}

/// How long a search stands aside after each of its steps. Ours: as short as a timer can be. To yield is not enough: the
/// runtime looks at its connections only now and then while there is something to run.
const ASIDE: std::time::Duration = std::time::Duration::from_millis(1);

/// The next times of a schedule. Others have their turn in between, and whoever hangs up ends it.
async fn upcoming(times: &ScheduleTimes, after: Timestamp, limit: usize) -> Upcoming {
    let mut listing = times.list(after, limit);
    while !listing.advance() {
        tokio::time::sleep(ASIDE).await;
    }
    listing.found()
}

/// Schedules of all domains.
pub struct Scheduler {
    pub(crate) runs: Arc<Runs>,
    pub(crate) commands: Arc<Commands>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) marks: Arc<Marks>,
    pub(crate) agenda: Arc<Agenda>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Scheduler {
    /// Holds a schedule against the rules.
    async fn check_schedule(&self, domain: &str, id: &str, schedule: &Schedule) -> Result<(), Refusal> {
        let now = self.clock.now();
        schedule.check(id, now)?;
        // The longest that a nominal time can be.
        let action = schedule.action_at(Timestamp::from_millis(1));
        let start = self.commands.start_of(domain, action, None).await?;
        Transition::start(&start, Uuid::nil(), now).map_err(of_action)?;
        Ok(())
    }

    /// Creates a schedule. `request` tells it apart from others, so that who repeats it hears that it is done.
    ///
    /// # Errors
    ///
    /// [`Refusal::ScheduleExists`], a fault for a part that is not acceptable, or the store's.
    pub async fn create(
        &self,
        domain: &str,
        id: &str,
        schedule: Schedule,
        is_paused: bool,
        request: Option<RequestKey>,
    ) -> Result<ScheduleView, Refusal> {
        let domain = self.registry.domain_in_use(domain).await?.name;
        self.check_schedule(&domain, id, &schedule).await?;
        let (now, key) = (self.clock.now(), schedule_key(&domain, id));
        let mut state = ScheduleState::begin(now, schedule.remaining_actions);
        if let Some(request) = request {
            state.remember(request, now);
        }
        if is_paused {
            state.pause(now, "created so".to_owned());
        }
        let record = ScheduleRecord::new(schedule, now, state);
        let own = self.ids.run_id(now);
        let head = record.head(own, None, now)?;
        match self.store.commit(&key, Expect::Absent, &head, &[]).await? {
            Cas::Won => self.agenda.set(&key, head.due.map(Timestamp::from_millis)),
            Cas::Lost(Some(found)) if found.run == head.run => {}
            Cas::Lost(Some(found)) if self.is_repeated(&key, &ScheduleRecord::decode(&found)?, request).await? => {}
            Cas::Lost(_) => return Err(Refusal::ScheduleExists { schedule: id.to_owned() }),
        }
        self.describe(&domain, id).await
    }

    /// A schedule, with what can be seen of its runs.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::UnknownSchedule`], or the store's.
    pub async fn describe(&self, domain: &str, id: &str) -> Result<ScheduleView, Refusal> {
        self.registry.must_know(domain).await?;
        let key = schedule_key(domain, id);
        let head = self.store.load(&key).await?.ok_or_else(|| unknown(domain, id))?;
        let mut record = ScheduleRecord::decode(&head)?;
        let (rules, times, now) = (record.schedule.rules(), record.times()?, self.clock.now());
        let sights = self.sights(domain, &record.state).await?;
        record.state.observe(rules, &sights, now);
        let is_over = record.state.paused.is_some() || record.state.remaining == Some(0);
        let next_times =
            if is_over { Vec::new() } else { upcoming(&times, record.state.cursor.max(now), NEXT_SHOWN).await.times };
        let ScheduleRecord { schedule, created_at, state, .. } = record;
        Ok(ScheduleView { id: id.to_owned(), schedule, created_at, state, next_times })
    }

    /// The next times of a schedule, without jitter, whether it is paused or not.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe).
    pub async fn next_times(&self, domain: &str, id: &str, limit: usize) -> Result<Upcoming, Refusal> {
        self.registry.must_know(domain).await?;
        let head = self.store.load(&schedule_key(domain, id)).await?.ok_or_else(|| unknown(domain, id))?;
        let record = ScheduleRecord::decode(&head)?;
        Ok(upcoming(&record.times()?, record.state.cursor.max(self.clock.now()), limit).await)
    }

    /// A page of schedules, newest first.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or the store's.
    pub async fn list(
        &self,
        domain: &str,
        limit: usize,
        page: Option<&PageToken>,
    ) -> Result<(Vec<ScheduleRow>, Option<PageToken>), Refusal> {
        self.registry.must_know(domain).await?;
        let query =
            ListQuery { domain: schedule_key(domain, "").domain, open: Some(true), limit, ..ListQuery::default() };
        let found = self.store.list(&query, page).await?;
        let rows = found.rows.into_iter().map(|listed| ScheduleRow {
            id: listed.workflow_id.to_string(),
            workflow_type: listed.row.workflow_type.to_string(),
            is_paused: *listed.row.status == *PAUSED,
            created_at: Timestamp::from_millis(listed.row.started_at),
        });
        Ok((rows.collect(), found.next))
    }

    /// Looks at every schedule. One that was looked at while the clock was ahead has its next look in a time to come.
    ///
    /// # Errors
    ///
    /// The store's; schedules after the one that failed were not looked at.
    pub(crate) async fn look_at_all(&self) -> Result<(), Refusal> {
        for domain in self.registry.domains().await? {
            let mut page = None;
            loop {
                let (rows, next) = self.list(&domain.name, LOOKED_AT_ONCE, page.as_ref()).await?;
                for row in rows {
                    self.look(&schedule_key(&domain.name, &row.id)).await?;
                }
                page = next;
                if page.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Has a schedule be another one from now on. What it remembers stays; of what it names, what comes from now on counts.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create); [`Refusal::UnknownSchedule`].
    pub async fn change(&self, domain: &str, id: &str, schedule: Schedule) -> Result<ScheduleView, Refusal> {
        self.registry.domain_in_use(domain).await?;
        self.check_schedule(domain, id, &schedule).await?;
        self.alter(domain, id, None, |record, now| {
            record.state.remaining = schedule.remaining_actions;
            record.state.cursor = record.state.cursor.max(now);
            record.schedule = schedule.clone();
            Ok(())
        })
        .await?;
        self.describe(domain, id).await
    }

    /// Forgets a schedule. Its runs go on.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe).
    pub async fn delete(&self, domain: &str, id: &str) -> Result<(), Refusal> {
        self.registry.must_know(domain).await?;
        let key = schedule_key(domain, id);
        let head = self.store.load(&key).await?.ok_or_else(|| unknown(domain, id))?;
        self.store.drop_run(&key, head.run).await?;
        self.agenda.set(&key, None);
        Ok(())
    }

    /// Has times pass without an action.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe); a fault for a reason that is not acceptable.
    pub async fn pause(&self, domain: &str, id: &str, reason: Option<String>) -> Result<ScheduleView, Refusal> {
        let reason = reason.unwrap_or_else(|| "asked to".to_owned());
        admit::check_name("reason", &reason)?;
        self.alter(domain, id, None, |record, now| {
            record.state.pause(now, reason.clone());
            Ok(())
        })
        .await?;
        self.describe(domain, id).await
    }

    /// Lets a schedule go on, from now.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe).
    pub async fn resume(&self, domain: &str, id: &str) -> Result<ScheduleView, Refusal> {
        self.alter(domain, id, None, |record, now| {
            record.state.resume(now);
            Ok(())
        })
        .await?;
        self.describe(domain, id).await
    }

    /// Has a schedule act now.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe).
    pub async fn trigger(
        &self,
        domain: &str,
        id: &str,
        overlap: Option<Overlap>,
        request: Option<RequestKey>,
    ) -> Result<ScheduleView, Refusal> {
        // Without a key of the caller's one of ours: a write whose answer was lost must not be made again.
        let request = request.unwrap_or_else(|| RequestKey(self.ids.op()));
        self.alter(domain, id, Some(request), |record, now| {
            record.state.ask(now, ActionCause::Trigger, overlap);
            Ok(())
        })
        .await?;
        self.look(&schedule_key(domain, id)).await?;
        self.describe(domain, id).await
    }

    /// Has a schedule act for the times that its spec names from one instant to another, both included.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe); a fault for a span that names too many times.
    pub async fn backfill(
        &self,
        domain: &str,
        id: &str,
        (from, to): (Timestamp, Timestamp),
        overlap: Option<Overlap>,
        request: Option<RequestKey>,
    ) -> Result<ScheduleView, Refusal> {
        let request = request.unwrap_or_else(|| RequestKey(self.ids.op()));
        let max = limits::SCHEDULE_BACKFILL_MAX;
        self.alter(domain, id, Some(request), |record, _| {
            let invalid = |field: &str, problem: String| Fault::Invalid { field: field.to_owned(), problem };
            if to < from {
                return Err(invalid("to", format!("is {to}, before `from`, {from}")).into());
            }
            let before = Timestamp::from_millis(from.as_millis().saturating_sub(1));
            let Upcoming { times: mut named, cut_at } = record.times()?.upcoming(before, max + 1);
            named.retain(|at| *at <= to);
            if let Some(at) = cut_at.filter(|at| *at < to) {
                let problem = format!("makes a span that takes too long to search; ask for no more than up to {at}");
                return Err(invalid("to", problem).into());
            }
            if named.len() + record.state.asked.len() > max {
                let problem =
                    format!("makes a span with more than {max} times, with those of earlier requests; ask for less");
                return Err(invalid("to", problem).into());
            }
            for at in named {
                record.state.ask(at, ActionCause::Backfill, overlap);
            }
            Ok(())
        })
        .await?;
        self.look(&schedule_key(domain, id)).await?;
        self.describe(domain, id).await
    }

    /// Whether a request was taken before.
    async fn is_repeated(
        &self,
        key: &HeadKey,
        record: &ScheduleRecord,
        request: Option<RequestKey>,
    ) -> Result<bool, Refusal> {
        let Some(request) = request else { return Ok(false) };
        match record.state.is_repeated(request, self.marks.past()) {
            Some(is_repeated) => Ok(is_repeated),
            None => Ok(self.store.marks(key, &[request.0]).await?.iter().any(Option::is_some)),
        }
    }

    /// Changes a schedule, against the changes of others; once for each `request` with a key. The change may be made more than once,
    /// on what others left.
    async fn alter(
        &self,
        domain: &str,
        id: &str,
        request: Option<RequestKey>,
        mut change: impl FnMut(&mut ScheduleRecord, Timestamp) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        self.registry.must_know(domain).await?;
        let key = schedule_key(domain, id);
        for _ in 0..TRIES_MAX {
            let now = self.clock.now();
            let head = self.store.load(&key).await?.ok_or_else(|| unknown(domain, id))?;
            let mut record = ScheduleRecord::decode(&head)?;
            if self.is_repeated(&key, &record, request).await? {
                return Ok(());
            }
            let before = record.clone();
            change(&mut record, now)?;
            if let Some((left, until)) = request.and_then(|request| record.state.remember(request, now)) {
                // It was taken, whatever becomes of this change.
                let mark = Mark { name: left.0, bytes: Bytes::new(), expires_at: until.as_millis() };
                if let Err(error) = self.store.put_marks(&key, &[mark]).await {
                    tracing::debug!(%error, "the mark of a request could not be written");
                    tokio::time::sleep(TRY_WAIT).await;
                    continue;
                }
            }
            if record == before || self.write_schedule(&key, &head, &record, now).await? {
                return Ok(());
            }
        }
        let why = "too many others write to this schedule".to_owned();
        Err(Refusal::Unavailable { why, retry_after: None })
    }

    /// Writes a schedule, if it still is as it was read. False when it is not, or may not be: read it again.
    async fn write_schedule(
        &self,
        key: &HeadKey,
        before: &Head,
        record: &ScheduleRecord,
        now: Timestamp,
    ) -> Result<bool, Refusal> {
        let head = record.head(Uuid::from_bytes(before.run), Some(before), now)?;
        let expect = Expect::Exactly { run: before.run, version: before.version };
        match self.store.commit(key, expect, &head, &[]).await {
            Ok(Cas::Won) => {
                self.agenda.set(key, head.due.map(Timestamp::from_millis));
                Ok(true)
            }
            Ok(Cas::Lost(_)) => {
                self.metrics.conflict();
                Ok(false)
            }
            // Whether it was written is seen when it is read again: each change knows itself again.
            Err(store::Error::NotApplied { .. } | store::Error::Unknown { .. }) => {
                tokio::time::sleep(TRY_WAIT).await;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// How many schedules are read at once when all are looked at. Ours: a page of a list.
const LOOKED_AT_ONCE: usize = 100;

/// How many of its next times a schedule shows.
const NEXT_SHOWN: usize = 5;

fn unknown(domain: &str, id: &str) -> Refusal {
    Refusal::UnknownSchedule { domain: domain.to_owned(), schedule: id.to_owned() }
}

/// A fault of a start, as one of the schedule's action.
fn of_action(fault: Fault) -> Fault {
    let named = |field: String| format!("action.{field}");
    match fault {
        Fault::Invalid { field, problem } => Fault::Invalid { field: named(field), problem },
        Fault::TooLarge { field, found, max, unit } => Fault::TooLarge { field: named(field), found, max, unit },
        other => other,
    }
}
