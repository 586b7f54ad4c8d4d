//! Schedules: their records in the store, and the commands that callers send to them (ADR 14). `schedules/wake.rs`
//! executes the actions that are due. The crate `history` decides at which times a schedule acts, and what it does at
//! each of these times.
//!
//! A schedule is stored as a head in an internal domain that callers cannot use. The head's entry in the due index is
//! the schedule's next time, so that any node finds it. The head's row makes it possible to list the schedule.

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

/// Maximum number of attempts of a change that conflicts with other changes. Our choice.
const TRIES_MAX: u32 = 16;

/// Delay after an attempt that the store did not accept. Our choice.
const TRY_WAIT: std::time::Duration = std::time::Duration::from_millis(20);

/// A schedule, as returned to callers.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleView {
    /// Id of the schedule.
    pub id: String,
    /// Configuration of the schedule.
    pub schedule: Schedule,
    /// Time when the schedule was created.
    pub created_at: Timestamp,
    /// State of the schedule, including the current state of its runs.
    pub state: ScheduleState,
    /// Next scheduled times, without jitter.
    pub next_times: Vec<Timestamp>,
}

/// A schedule in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleRow {
    /// Id of the schedule.
    pub id: String,
    /// Workflow type of the runs that the schedule starts.
    pub workflow_type: String,
    /// True if the schedule is paused.
    pub is_paused: bool,
    /// Time when the schedule was created.
    pub created_at: Timestamp,
}

/// Pause after each step of a search for times. Our choice: the shortest timer of the runtime. Yielding to other tasks
/// is not enough, because the runtime rarely polls its connections while tasks are ready to run.
const ASIDE: std::time::Duration = std::time::Duration::from_millis(1);

/// Computes the next scheduled times. Pauses between steps. During the pauses, other tasks can run, and the search can
/// be canceled if the caller has disconnected.
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
    /// Validates a schedule.
    async fn check_schedule(&self, domain: &str, id: &str, schedule: &Schedule) -> Result<(), Refusal> {
        let now = self.clock.now();
        schedule.check(id, now)?;
        // The workflow ids of the runs contain the time, so the check uses a time with the longest possible text.
        let action = schedule.action_at(Timestamp::from_millis(1));
        let start = self.commands.start_of(domain, action, None).await?;
        Transition::start(&start, Uuid::nil(), now).map_err(of_action)?;
        Ok(())
    }

    /// Creates a schedule. If an earlier request had the same `request` key, returns the schedule that this earlier
    /// request created.
    ///
    /// # Errors
    ///
    /// [`Refusal::ScheduleExists`], a fault for an invalid part of the schedule, or an error of the store.
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
    /// [`Refusal::UnknownDomain`], [`Refusal::UnknownSchedule`], or an error of the store.
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

    /// Returns the next scheduled times, without jitter. They are computed as if the schedule were not paused.
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
    /// [`Refusal::UnknownDomain`], or an error of the store.
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

    /// Wakes every schedule. Needed after the clock was ahead, because a schedule that was woken during that time has
    /// its next wake too far in the future.
    ///
    /// # Errors
    ///
    /// An error of the store. If one schedule fails, the schedules after it are not woken.
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

    /// Replaces the configuration of a schedule. The schedule keeps its state. The new configuration applies only to
    /// scheduled times after the change.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create), and [`Refusal::UnknownSchedule`].
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

    /// Deletes a schedule. The runs that it has started continue.
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

    /// Pauses a schedule. While it is paused, no action is executed at its scheduled times.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe), and a fault for an invalid reason.
    pub async fn pause(&self, domain: &str, id: &str, reason: Option<String>) -> Result<ScheduleView, Refusal> {
        let reason = reason.unwrap_or_else(|| "by request".to_owned());
        admit::check_name("reason", &reason)?;
        self.alter(domain, id, None, |record, now| {
            record.state.pause(now, reason.clone());
            Ok(())
        })
        .await?;
        self.describe(domain, id).await
    }

    /// Resumes a paused schedule. Actions whose scheduled times were during the pause are not executed later.
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

    /// Executes the action of a schedule once, immediately.
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
        // If the caller sent no key, the service generates one. It prevents the change from being applied twice if the
        // response to a write to the store is lost.
        let request = request.unwrap_or_else(|| RequestKey(self.ids.op()));
        self.alter(domain, id, Some(request), |record, now| {
            record.state.request_action(now, ActionCause::Trigger, overlap);
            Ok(())
        })
        .await?;
        self.wake(&schedule_key(domain, id)).await?;
        self.describe(domain, id).await
    }

    /// Executes the action of a schedule once for each of its scheduled times in a range. The range includes both ends.
    ///
    /// # Errors
    ///
    /// As for [`describe`](Self::describe), and a fault for a range with too many times.
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
                let problem = format!("makes an interval that takes too long to search; choose {at} or earlier");
                return Err(invalid("to", problem).into());
            }
            if named.len() + record.state.requested.len() > max {
                let problem = format!(
                    "makes an interval with more than {max} times, including earlier requests; choose a shorter one"
                );
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

    /// Returns true if a request with this key is already recorded.
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

    /// Changes a schedule, and retries after conflicts. A change with a `request` key is applied at most once. The
    /// closure may be called several times, each time with the newest record.
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
                // `left` is the key of an earlier request that no longer fits into the record. That request was
                // recorded, so its mark is valid even if this change fails.
                let mark = Mark { name: left.0, bytes: Bytes::new(), expires_at: until.as_millis() };
                if let Err(error) = self.store.put_marks(&key, &[mark]).await {
                    tracing::debug!(%error, "the idempotency key of a request could not be stored");
                    tokio::time::sleep(TRY_WAIT).await;
                    continue;
                }
            }
            if record == before || self.write_schedule(&key, &head, &record, now).await? {
                return Ok(());
            }
        }
        let why = "too many concurrent writes to this schedule".to_owned();
        Err(Refusal::Unavailable { why, retry_after: None })
    }

    /// Writes a schedule if it was not changed since it was read. Returns false if it was changed or if the outcome is
    /// unknown. The caller must then read the schedule again.
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
            // The caller reads the schedule again, which shows whether the change was applied.
            Err(store::Error::NotApplied { .. } | store::Error::Unknown { .. }) => {
                tokio::time::sleep(TRY_WAIT).await;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Number of schedules that are read with one request when all schedules are woken. Our choice: one page of a list.
const LOOKED_AT_ONCE: usize = 100;

/// Number of next scheduled times that are returned with a schedule. Our choice.
const NEXT_SHOWN: usize = 5;

fn unknown(domain: &str, id: &str) -> Refusal {
    Refusal::UnknownSchedule { domain: domain.to_owned(), schedule: id.to_owned() }
}

/// Renames the field in a fault about a start to the corresponding field of the schedule's action.
fn of_action(fault: Fault) -> Fault {
    let named = |field: String| format!("action.{field}");
    match fault {
        Fault::Invalid { field, problem } => Fault::Invalid { field: named(field), problem },
        Fault::TooLarge { field, found, max, unit } => Fault::TooLarge { field: named(field), found, max, unit },
        other => other,
    }
}
