//! Checks stored runs against their histories: the stored state must equal the state computed from the events, and the
//! events must satisfy the invariants.

use std::collections::BTreeMap;
use std::sync::Arc;

use history::{EffectKind, Event, EventId, EventKind, Links, Origin, RequestKey, Run, check, key_of_update};
use store::{Count, HeadKey, ListQuery, Listed};
use uuid::Uuid;

use crate::views::Views;
use crate::{EventRange, Refusal, RunRef};

/// A problem with a stored run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Workflow id of the run.
    pub workflow_id: String,
    /// Run id.
    pub run_id: Uuid,
    /// Description of the problem.
    pub problem: String,
}

/// Result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FsckReport {
    /// Number of checked runs.
    pub runs: u64,
    /// Number of checked events.
    pub events: u64,
    /// Problems found.
    pub findings: Vec<Finding>,
    /// Numbers of runs by status: first according to the store's count, then according to its list of runs. `None` if
    /// they are equal.
    pub miscounted: Option<(RunsByStatus, RunsByStatus)>,
}

/// Number of runs by status.
type RunsByStatus = BTreeMap<Arc<str>, u64>;

impl Views {
    /// Checks every run of a domain. Calls `progress` after each page of runs.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or an error of the store. If a run cannot be read, it is reported as a finding
    /// instead.
    pub async fn fsck(&self, domain: &str, mut progress: impl FnMut(&FsckReport)) -> Result<FsckReport, Refusal> {
        let query = ListQuery { domain: domain.into(), limit: 1_000, ..ListQuery::default() };
        let mut report = FsckReport::default();
        let (mut page, mut listed) = (None, Count::default());
        loop {
            let read = self.list(&query, page.as_ref()).await?;
            for row in &read.rows {
                report.runs += 1;
                listed.add(&row.row.status);
                match self.check_run(domain, row).await {
                    Ok((events, problem)) => {
                        report.events += events;
                        let (workflow_id, run_id) = (row.workflow_id.to_string(), Uuid::from_bytes(row.run));
                        report.findings.extend(problem.map(|problem| Finding { workflow_id, run_id, problem }));
                    }
                    // The run was deleted in the meantime.
                    Err(Refusal::UnknownWorkflow { .. } | Refusal::UnknownRun { .. }) => {}
                    Err(refusal) => {
                        let (workflow_id, run_id) = (row.workflow_id.to_string(), Uuid::from_bytes(row.run));
                        report.findings.push(Finding { workflow_id, run_id, problem: refusal.to_string() });
                    }
                }
            }
            progress(&report);
            page = read.next;
            if page.is_none() {
                break;
            }
        }
        let counted = self.store.count(&query, u64::MAX).await?;
        if counted.by_status != listed.by_status {
            report.miscounted = Some((counted.by_status, listed.by_status));
        }
        Ok(report)
    }

    async fn check_run(&self, domain: &str, row: &Listed) -> Result<(u64, Option<String>), Refusal> {
        let run_id = Some(Uuid::from_bytes(row.run));
        let at = RunRef { domain: domain.into(), workflow_id: row.workflow_id.clone(), run_id };
        let loaded = self.lookup.look_up(&at).await?;
        let stored = loaded.run().clone();
        let mut events = Vec::new();
        let mut after = 0;
        loop {
            let before = Some(stored.last_event_id + 1);
            let page = self.history(&at, &EventRange { after, before, ..EventRange::default() }).await?;
            events.extend(page.events);
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
        let count = events.len() as u64;
        if let Err(violation) = check::history(&events) {
            return Ok((count, Some(violation.to_string())));
        }
        let links = &loaded.body.links;
        let mut problem = misplaced(&stored, links, &events);
        for owner in links.outbox.iter().filter_map(|effect| effect.of) {
            let key = HeadKey::new(domain, &*row.workflow_id);
            if problem.is_none() && self.store.load_run(&key, *owner.as_bytes()).await?.is_none() {
                problem = Some(format!("it has a pending effect of run {owner}, which does not exist"));
            }
        }
        let (shown, stands) = (loaded.head.row.as_ref(), stored.condition());
        let is_shown = shown.is_some_and(|row| *row.status == *stands.word() && row.flagged == stands.is_flagged());
        if problem.is_none() && !is_shown {
            problem = Some(format!("its entry in lists does not have the status {}", stands.word()));
        }
        let is_fold = Run::replay(&events).is_some_and(|run| run.history_derived() == stored.clone().history_derived());
        if !is_fold {
            problem = Some("the stored state differs from the replayed history".to_owned());
        }
        Ok((count, problem))
    }
}

/// Checks the run's links with other runs. If the history has no event for a link, returns a description of that link;
/// otherwise `None`.
fn misplaced(run: &Run, links: &Links, events: &[Event]) -> Option<String> {
    let event = |id: EventId| events.iter().find(|event| event.id == id);
    for effect in links.outbox.iter().filter(|effect| effect.of.is_none()) {
        if event(effect.event_id).and_then(|event| effect.outbound(&run.started, event)).is_none() {
            return Some(format!(
                "it has a pending {} of event {}, which does not request it",
                effect.kind.word(),
                effect.event_id
            ));
        }
    }
    let is_owed = |id: EventId, kinds: &[EffectKind]| {
        let mut effects = links.outbox.iter().filter(|effect| effect.of.is_none() && effect.event_id == id);
        effects.any(|effect| kinds.contains(&effect.kind))
    };
    let unstarted = run.children.iter().filter(|(_, child)| child.started_event_id.is_none());
    let mut waiting = unstarted
        .map(|(id, _)| (*id, &[EffectKind::StartChild][..]))
        .chain(run.externals.keys().map(|id| (*id, &[EffectKind::Signal, EffectKind::RequestCancel][..])));
    if let Some((id, _)) = waiting.find(|(id, kinds)| !is_owed(*id, kinds)) {
        return Some(format!("event {id} requests an effect on another run, but it is not pending"));
    }
    let is_of = |key: RequestKey, event: &Event| match &event.kind {
        EventKind::UpdateCompleted(it) => key == key_of_update(&it.update_id),
        EventKind::UpdateFailed(it) => key == key_of_update(&it.update_id),
        EventKind::UpdateAccepted(it) => key == key_of_update(&it.update_id),
        EventKind::WorkflowStarted(_)
        | EventKind::WorkflowSuccess(_)
        | EventKind::WorkflowFailed(_)
        | EventKind::WorkflowCanceled(_)
        | EventKind::WorkflowTimedOut(_)
        | EventKind::WorkflowTerminated(_)
        | EventKind::WorkflowCloseFailed(_)
        | EventKind::WorkflowCancelRequested(_)
        | EventKind::DeciderScheduled(_)
        | EventKind::DeciderStarted(_)
        | EventKind::DeciderCompleted(_)
        | EventKind::DeciderTimedOut(_)
        | EventKind::DeciderFailed(_)
        | EventKind::ActivityScheduled(_)
        | EventKind::ActivityScheduleFailed(_)
        | EventKind::ActivityStarted(_)
        | EventKind::ActivitySuccess(_)
        | EventKind::ActivityFailed(_)
        | EventKind::ActivityCanceled(_)
        | EventKind::ActivityTimedOut(_)
        | EventKind::ActivityScheduledTimeout(_)
        | EventKind::ActivityTaskCancel(_)
        | EventKind::ActivityTaskCancelFailed(_)
        | EventKind::TimerScheduled(_)
        | EventKind::TimerScheduleFailed(_)
        | EventKind::TimerExpired(_)
        | EventKind::TimerCanceled(_)
        | EventKind::TimerCancelFailed(_)
        | EventKind::Signal(_)
        | EventKind::Marker(_)
        | EventKind::MarkerFailed(_)
        | EventKind::WorkflowContinuedAsNew(_)
        | EventKind::ChildScheduled(_)
        | EventKind::ChildScheduleFailed(_)
        | EventKind::ChildStarted(_)
        | EventKind::ChildSuccess(_)
        | EventKind::ChildFailed(_)
        | EventKind::ChildTimedOut(_)
        | EventKind::ChildCanceled(_)
        | EventKind::ChildTerminated(_)
        | EventKind::ExternalSignalScheduled(_)
        | EventKind::ExternalSignalDelivered(_)
        | EventKind::ExternalSignalFailed(_)
        | EventKind::ExternalCancelScheduled(_)
        | EventKind::ExternalCancelDelivered(_)
        | EventKind::ExternalCancelFailed(_)
        | EventKind::ActivityPaused(_)
        | EventKind::ActivityResumed(_)
        | EventKind::ActivityRetried(_)
        | EventKind::ActivityOptionsChanged(_)
        | EventKind::WorkflowPaused(_)
        | EventKind::WorkflowResumed(_)
        | EventKind::WorkflowReset(_) => event.key == Some(key),
    };
    if let Some((_, id)) = run.known.own().find(|(key, id)| !event(*id).is_some_and(|event| is_of(*key, event))) {
        return Some(format!("event {id} is stored as the result of a request, but is not"));
    }
    // If an earlier run with the same workflow id has received an effect, the effect is in the history of that run.
    let own = links.seen.iter().filter(|seen| seen.run_id == run.started.run_id);
    for seen in own {
        let origin = event(seen.event_id).and_then(|event| match &event.kind {
            EventKind::Signal(it) => it.origin.as_ref(),
            EventKind::WorkflowCancelRequested(it) => it.origin.as_ref(),
            EventKind::WorkflowTerminated(it) => it.origin.as_ref(),
            EventKind::WorkflowStarted(_)
            | EventKind::WorkflowSuccess(_)
            | EventKind::WorkflowFailed(_)
            | EventKind::WorkflowCanceled(_)
            | EventKind::WorkflowTimedOut(_)
            | EventKind::WorkflowCloseFailed(_)
            | EventKind::DeciderScheduled(_)
            | EventKind::DeciderStarted(_)
            | EventKind::DeciderCompleted(_)
            | EventKind::DeciderTimedOut(_)
            | EventKind::DeciderFailed(_)
            | EventKind::ActivityScheduled(_)
            | EventKind::ActivityScheduleFailed(_)
            | EventKind::ActivityStarted(_)
            | EventKind::ActivitySuccess(_)
            | EventKind::ActivityFailed(_)
            | EventKind::ActivityCanceled(_)
            | EventKind::ActivityTimedOut(_)
            | EventKind::ActivityScheduledTimeout(_)
            | EventKind::ActivityTaskCancel(_)
            | EventKind::ActivityTaskCancelFailed(_)
            | EventKind::TimerScheduled(_)
            | EventKind::TimerScheduleFailed(_)
            | EventKind::TimerExpired(_)
            | EventKind::TimerCanceled(_)
            | EventKind::TimerCancelFailed(_)
            | EventKind::Marker(_)
            | EventKind::MarkerFailed(_)
            | EventKind::WorkflowContinuedAsNew(_)
            | EventKind::ChildScheduled(_)
            | EventKind::ChildScheduleFailed(_)
            | EventKind::ChildStarted(_)
            | EventKind::ChildSuccess(_)
            | EventKind::ChildFailed(_)
            | EventKind::ChildTimedOut(_)
            | EventKind::ChildCanceled(_)
            | EventKind::ChildTerminated(_)
            | EventKind::ExternalSignalScheduled(_)
            | EventKind::ExternalSignalDelivered(_)
            | EventKind::ExternalSignalFailed(_)
            | EventKind::ExternalCancelScheduled(_)
            | EventKind::ExternalCancelDelivered(_)
            | EventKind::ExternalCancelFailed(_)
            | EventKind::UpdateAccepted(_)
            | EventKind::UpdateCompleted(_)
            | EventKind::UpdateFailed(_)
            | EventKind::ActivityPaused(_)
            | EventKind::ActivityResumed(_)
            | EventKind::ActivityRetried(_)
            | EventKind::ActivityOptionsChanged(_)
            | EventKind::WorkflowPaused(_)
            | EventKind::WorkflowResumed(_)
            | EventKind::WorkflowReset(_) => None,
        });
        if origin != Some(&seen.origin) {
            let Origin { workflow_id, run_id, event_id } = &seen.origin;
            let from = format!("event {event_id} of run {run_id} of `{workflow_id}`");
            return Some(format!("event {} is stored as caused by {from}, but is not", seen.event_id));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use history::{Command, SignalExternal, Start, StartChild, Timestamp, Transition, TurnId};

    use super::*;

    /// Returns a run with two pending effects and a signal that it received from another run.
    fn run() -> (Box<Run>, Links, Vec<Event>) {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let mut transition = Transition::start(&Start::new("w", "t", "l"), Uuid::nil(), now).unwrap();
        let origin = Origin { workflow_id: "o".to_owned(), run_id: Uuid::from_u128(9), event_id: 5 };
        let turn = TurnId { scheduled_event_id: 2, started_event_id: 3 };
        let (workflow_id, name) = ("o".to_owned(), "s".to_owned());
        let signal =
            SignalExternal { workflow_id: workflow_id.clone(), name: name.clone(), ..SignalExternal::default() };
        let child = StartChild { workflow_id: "c".to_owned(), workflow_type: "t".to_owned(), ..StartChild::default() };
        let decisions = vec![signal.into(), child.into()];
        for command in [
            Command::StartTurn { scheduled_event_id: 2, identity: None, poll: None },
            Command::TakeSignal { origin, name, input: None },
            Command::complete(turn, decisions),
        ] {
            transition.admit(&command, now).unwrap();
        }
        transition.into_all()
    }

    #[test]
    fn effects_of_a_run_are_checked_against_its_history() {
        let (run, links, events) = run();
        assert_eq!(misplaced(&run, &links, &events), None);
        let forgotten = misplaced(&run, &Links::default(), &events).unwrap();
        assert!(forgotten.contains("it is not pending"), "{forgotten}");
        // Replaces the event that requested the effect by a different event.
        let mut others = events.clone();
        others.swap_remove(7);
        let unasked = misplaced(&run, &links, &others).unwrap();
        assert!(unasked.contains("does not request it"), "{unasked}");
        let mut others = events.clone();
        if let Some(EventKind::Signal(it)) = others.get_mut(3).map(|event| &mut event.kind) {
            it.origin = None;
        }
        let foreign = misplaced(&run, &links, &others).unwrap();
        assert!(foreign.contains("is stored as caused by"), "{foreign}");
    }
}
