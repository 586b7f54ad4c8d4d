//! Schedules: their records in the store, and the commands of callers to them (ADR 14). `schedules/wake.rs` carries
//! out what is due. The rules in `history` decide which times a schedule has and what it does at each.
//!
//! A schedule is a head under a domain name that no caller can use. Its next time is in the due index, so that any
//! node finds it on any store, and it has a row, so that it can be listed.

mod record;
mod wake;

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

/// Maximum number of attempts of a change that conflicts with others.
const TRIES_MAX: u32 = 16;

/// Delay after an attempt that the store did not accept.
const TRY_WAIT: std::time::Duration = std::time::Duration::from_millis(20);

/// A schedule as shown to callers.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleView {
    /// Its id.
    pub id: String,
    /// Its configuration.
    pub schedule: Schedule,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Its state, with the current state of its runs.
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
    /// Time of its creation.
    pub created_at: Timestamp,
}

/// Pause after each step of a search for times. Our choice: the shortest timer. Yielding is not enough, because the
/// runtime rarely checks its connections while tasks are ready to run.
const ASIDE: std::time::Duration = std::time::Duration::from_millis(1);

/// Computes the next times of a schedule. It pauses between steps, so that other tasks can run and a disconnected
/// caller ends it.
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
    /// Checks a schedule against the rules.
    async fn check_schedule(&self, domain: &str, id: &str, schedule: &Schedule) -> Result<(), Refusal> {
        let now = self.clock.now();
        schedule.check(id, now)?;
        // A time whose text is as long as possible.
        let action = schedule.action_at(Timestamp::from_millis(1));
        let start = self.commands.start_of(domain, action, None).await?;
        Transition::start(&start, Uuid::nil(), now).map_err(of_action)?;
        Ok(())
    }

    /// Creates a schedule. A repeated `request` returns the created schedule.
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

    /// Returns a schedule, with the current state of its runs.
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
        let observed_runs = self.observed_runs(domain, &record.state).await?;
        record.state.observe(rules, &observed_runs, now);
        let is_over = record.state.paused.is_some() || record.state.remaining == Some(0);
        let next_times =
            if is_over { Vec::new() } else { upcoming(&times, record.state.cursor.max(now), NEXT_SHOWN).await.times };
        let ScheduleRecord { schedule, created_at, state, .. } = record;
        Ok(ScheduleView { id: id.to_owned(), schedule, created_at, state, next_times })
    }

    /// Returns the next times of a schedule, without jitter, even if it is paused.
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

    /// Lists schedules, newest first.
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

    /// Wakes every schedule. A schedule that was woken while the clock was ahead has its next wake in the future.
    ///
    /// # Errors
    ///
    /// The store's; the schedules after a failed one were not woken.
    pub(crate) async fn wake_all(&self) -> Result<(), Refusal> {
        for domain in self.registry.domains().await? {
            let mut page = None;
            loop {
                let (rows, next) = self.list(&domain.name, LOOKED_AT_ONCE, page.as_ref()).await?;
                for row in rows {
                    self.wake(&schedule_key(&domain.name, &row.id)).await?;
                }
                page = next;
                if page.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Replaces the configuration of a schedule. Its state is kept; only times from now on are used.
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

    /// Deletes a schedule. Its runs continue.
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

    /// Pauses a schedule: its times pass without an action.
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

    /// Resumes a schedule from now on.
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

    /// Triggers an action of a schedule now.
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
        // If the caller sent no key, one is generated: a write whose response was lost must not be repeated.
        let request = request.unwrap_or_else(|| RequestKey(self.ids.op()));
        self.alter(domain, id, Some(request), |record, now| {
            record.state.request_action(now, ActionCause::Trigger, overlap);
            Ok(())
        })
        .await?;
        self.wake(&schedule_key(domain, id)).await?;
        self.describe(domain, id).await
    }

    /// Triggers an action for each time of a schedule in a range, both ends included.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe); a fault for a range with too many times.
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
            if named.len() + record.state.requested.len() > max {
                let problem =
                    format!("makes a span with more than {max} times, with those of earlier requests; ask for less");
                return Err(invalid("to", problem).into());
            }
            for at in named {
                record.state.request_action(at, ActionCause::Backfill, overlap);
            }
            Ok(())
        })
        .await?;
        self.wake(&schedule_key(domain, id)).await?;
        self.describe(domain, id).await
    }

    /// Whether a request was recorded before.
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

    /// Changes a schedule, with retries on conflicts. Each `request` with a key is applied once. The closure may
    /// run more than once, on the result of other changes.
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
                // The key was accepted earlier, so that its mark is valid even if this change fails.
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

    /// Writes a schedule unless it has changed since it was read. Returns false if it has, or may have, so that the
    /// caller must read it again.
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
            // The next read shows whether it was written: each change recognizes itself.
            Err(store::Error::NotApplied { .. } | store::Error::Unknown { .. }) => {
                tokio::time::sleep(TRY_WAIT).await;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Number of schedules read at once when all are woken. Our choice: one page of a list.
const LOOKED_AT_ONCE: usize = 100;

/// Number of next times that a schedule shows.
const NEXT_SHOWN: usize = 5;

fn unknown(domain: &str, id: &str) -> Refusal {
    Refusal::UnknownSchedule { domain: domain.to_owned(), schedule: id.to_owned() }
}

/// Names the field of a start's fault as one of the schedule's action.
fn of_action(fault: Fault) -> Fault {
    let named = |field: String| format!("action.{field}");
    match fault {
        Fault::Invalid { field, problem } => Fault::Invalid { field: named(field), problem },
        Fault::TooLarge { field, found, max, unit } => Fault::TooLarge { field: named(field), found, max, unit },
        other => other,
    }
}
