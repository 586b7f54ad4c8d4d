//! Effects in the form in which they are delivered to another run.

use super::{Effect, EffectKind};
use crate::caller::CallerName;
use crate::command::Command;
use crate::event::{ChildScheduled, Event, EventId, EventKind, Origin};
use crate::ids::{NamedRun, RunId};
use crate::mix::mix;
use crate::run::RunStart;
use crate::start::Start;
use crate::time::Timestamp;
use crate::trace::{SpanId, TraceContext};

/// An effect that is being delivered to another run.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboundEffect {
    /// Workflow id of the other run.
    pub workflow_id: String,
    /// Run id of the other run, or of the run to start; the newest run when absent.
    pub run_id: Option<RunId>,
    /// Content of the effect.
    pub task: OutboundAction,
    /// Name of the credential of the decider that requested the effect. Absent for effects caused by the close of a
    /// run.
    pub by: Option<CallerName>,
    /// Trace context for the other run. Its parent is a span of the requesting run.
    pub trace: Option<TraceContext>,
}

/// Content of an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum OutboundAction {
    /// A command for the other run.
    Admit(Command),
    /// A start of the other run.
    Start(Box<Start>),
}

impl OutboundEffect {
    /// Returns the event that requested the effect. Returns `None` if the effect is not identified by an origin.
    pub fn origin(&self) -> Option<&Origin> {
        match &self.task {
            OutboundAction::Admit(
                Command::TakeSignal { origin, .. }
                | Command::TakeCancelRequest { origin, .. }
                | Command::TakeParentClose { origin, .. },
            ) => Some(origin),
            OutboundAction::Admit(_) | OutboundAction::Start(_) => None,
        }
    }
}

impl Effect {
    /// Returns the effect that `event` of the run `source` requested, or `None` if that event requests no effect of
    /// this kind.
    pub fn outbound(&self, source: &RunStart, event: &Event) -> Option<OutboundEffect> {
        let own = Origin { workflow_id: source.workflow_id.clone(), run_id: source.run_id, event_id: event.id };
        let trace = source.trace_below(SpanId::of_run(source.run_id));
        let command_by = |workflow_id: &str, run_id, command, by| {
            let (task, trace) = (OutboundAction::Admit(command), trace.clone());
            Some(OutboundEffect { workflow_id: workflow_id.to_owned(), run_id, task, by, trace })
        };
        let command_of = |workflow_id: &str, run_id, command| command_by(workflow_id, run_id, command, None);
        let by = event.by.clone();
        match (self.kind, &event.kind) {
            (EffectKind::StartChild, EventKind::ChildScheduled(it)) => {
                let run_id = child_run_id(source.run_id, event.id, event.timestamp);
                let start = Start { by: by.clone(), trace: trace.clone(), ..start(it, own) };
                let task = OutboundAction::Start(Box::new(start));
                Some(OutboundEffect { workflow_id: it.workflow_id.clone(), run_id: Some(run_id), task, by, trace })
            }
            (EffectKind::EndChild, EventKind::ChildScheduled(it)) => {
                // `RunStart::policy_at_close` has checked that the child policy applies to this close.
                let policy = source.swf.as_ref().map_or(it.child_policy, |swf| swf.child_policy);
                let command = Command::TakeParentClose { origin: own, policy };
                command_of(&it.workflow_id, None, command)
            }
            (EffectKind::NotifyParent, close) => {
                let Origin { workflow_id, run_id, event_id } = source.parent.as_ref()?;
                let (scheduled_event_id, close) = (*event_id, Box::new(close.clone()));
                let command = Command::TakeChildClose { scheduled_event_id, run_id: source.run_id, close };
                command_of(workflow_id, Some(*run_id), command)
            }
            (EffectKind::Signal, EventKind::ExternalSignalScheduled(it)) => {
                let command = Command::TakeSignal { origin: own, name: it.name.clone(), input: it.input.clone() };
                command_by(&it.workflow_id, it.run_id.as_ref().and_then(NamedRun::id), command, by)
            }
            (EffectKind::RequestCancel, EventKind::ExternalCancelScheduled(it)) => {
                let command = Command::TakeCancelRequest { origin: own, reason: it.reason.clone() };
                command_by(&it.workflow_id, it.run_id.as_ref().and_then(NamedRun::id), command, by)
            }
            _ => None,
        }
    }
}

fn start(it: &ChildScheduled, parent: Origin) -> Start {
    Start {
        input: it.input.clone(),
        execution_timeout: it.execution_timeout,
        decider_start_to_close: it.decider_start_to_close,
        decider_schedule_to_start: it.decider_schedule_to_start,
        activity_timeouts: it.activity_timeouts,
        tags: it.tags.clone(),
        retention: it.retention,
        reuse_policy: it.reuse_policy,
        run_timeout: it.run_timeout,
        retry: it.retry.clone(),
        swf: it.swf.clone(),
        concurrency_key: it.concurrency_key.clone(),
        parent: Some(parent),
        ..Start::new(&it.workflow_id, &it.workflow_type, &it.task_list)
    }
}

/// Returns the run id of a child, a `UUIDv7`. The same ChildScheduled event always yields the same id, so that a
/// repeated start of the child is detected.
pub fn child_run_id(parent: RunId, scheduled_event_id: EventId, scheduled_at: Timestamp) -> RunId {
    let (high, low) = parent.as_u64_pair();
    let first = mix(high ^ mix(low ^ mix(scheduled_event_id)));
    let second = mix(first ^ low);
    let mut random = [0; 10];
    for (place, byte) in random.iter_mut().zip(first.to_be_bytes().into_iter().chain(second.to_be_bytes())) {
        *place = byte;
    }
    uuid::Builder::from_unix_timestamp_millis(scheduled_at.as_millis(), &random).into_uuid()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn child_run_ids_are_deterministic_and_unique() {
        let parent = Uuid::from_u128(0x0192_3456_789a_7bcd_8ef0_1234_5678_9abc);
        let at = Timestamp::from_millis(1_700_000_000_000);
        // The expected ids must never change, because run ids are stored.
        assert_eq!(child_run_id(parent, 5, at).to_string(), "018bcfe5-6800-7fb8-83d5-093010c2377b");
        let others = (0..1_000).flat_map(|event_id| (0..10).map(move |bit| (event_id, bit)));
        let ids =
            others.map(|(event_id, bit)| child_run_id(Uuid::from_u128(parent.as_u128() ^ (1 << bit)), event_id, at));
        assert_eq!(ids.collect::<std::collections::BTreeSet<_>>().len(), 10_000);
    }
}
