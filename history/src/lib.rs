//! The rules of Baton as pure functions: history events, the commands that add them, and the run state they imply.
//!
//! This crate contains all workflow semantics and nothing else. It has no clock, no randomness, no IO and no async: the
//! caller passes the current time as an argument. The service, the stores, the kits and the tests all use the same
//! rules.
//!
//! * [`Event`] is a recorded fact, [`Decision`] a request by a decider, and [`Command`] any request to change a
//!   run.
//! * [`Run`] is the state of one run. It is always the fold of the run's events by [`Run::evolve`].
//! * [`Transition`] admits commands to a run. Each command yields events, or fails with a [`Fault`] and changes
//!   nothing.
//! * [`check::history`] checks a history against the invariants. It is independent: it shares no code with the rules.
//!
//! ```
//! use baton_history::{Command, Start, Timestamp, Transition};
//!
//! let now = Timestamp::from_millis(1_000);
//! let mut transition = Transition::start(&Start::new("order-1", "order", "orders"), uuid::Uuid::nil(), now)?;
//! transition.admit(&Command::StartTurn { scheduled_event_id: 2, identity: None, poll: None }, now)?;
//! let names: Vec<_> = transition.events().iter().map(|event| event.kind.name()).collect();
//! assert_eq!(names, ["WorkflowStarted", "DeciderScheduled", "DeciderStarted"]);
//! # Ok::<(), baton_history::Fault>(())
//! ```

pub mod admit;
mod author;
mod batch;
pub mod bounded;
mod caller;
pub mod check;
mod closed;
pub mod codec;
mod command;
mod decision;
mod decision_context;
mod dialect;
pub mod event;
mod factor;
mod fault;
mod ids;
mod imported;
pub mod limits;
mod links;
mod lost;
mod mix;
mod note;
mod payload;
mod permissions;
mod registered;
mod reset;
mod retry;
mod rules;
mod run;
mod same_json;
#[cfg(test)]
mod scene;
mod schedule;
#[cfg(feature = "schema")]
mod schema;
mod start;
mod state_budget;
mod stored_uuid;
mod tagged;
mod tally;
mod text;
mod time;
pub mod trace;
mod transition;
mod validate;
mod warning;

pub use admit::admit;
pub use author::Author;
pub use batch::{
    Batch, BatchAction, BatchCounts, BatchCursor, BatchFilter, BatchOutcome, BatchPage, BatchPhase, BatchPlan,
    BatchRefusal, BatchState, BatchStep, BatchedOperation, SelectedRun, check_pace as check_batch_pace,
};
pub use caller::CallerName;
pub use closed::CloseReason;
pub use command::{
    ActivityCommand, AnsweredTurn, Command, EffectResult, Heartbeat, OptionsChange, ProposedUpdate, TaskId, TurnAnswer,
    TurnId, UpdateAnswer, Verdict,
};
pub use decision::Decision;
pub use decision::{
    CancelActivity, CancelExternal, CancelTimer, CancelWorkflow, Closing, ContinueAsNew, FailWorkflow, RecordMarker,
    ScheduleActivity, SignalExternal, StartChild, StartTimer, SucceedWorkflow, SwfSettings,
};
pub use decision_context::{DecisionContext, DomainCapacity, Registration};
pub use dialect::{LAMBDA_LIST, SwfLimits, SwfRun, SwfSuccessor, lambda_activity_id, lambda_id};
pub use event::{Event, EventKind, LastFailure, Level, Origin, RequestKey, Successor};
pub use factor::Factor;
pub use fault::{Fault, Unit};
pub use ids::{ConflictPolicy, EventId, NamedRun, ReusePolicy, RunId};
pub use imported::{ImportFault, ImportedRun};
pub use links::{
    Effect, EffectKind, Links, OutboundAction, OutboundEffect, Outbox, PlannedReset, PollId, SeenOrigin, Sent,
    TakenEffects, child_run_id,
};
pub use lost::TurnLoss;
pub use note::Note;
pub use payload::{PackRef, Payload, present as payload_present};
pub use permissions::Permissions;
pub use registered::{ActivityDefaults, WorkflowDefaults};
pub use reset::{Branch, BranchReader, Branching, ResetPoints, ResetTo};
pub use retry::{RetryPolicy, WhenExhausted, retry_of_request};
pub use rules::repair::LateDeadline;
pub use run::{
    Activities, Attempts, Branched, Deadline, DeadlineKind, Fingerprint, HeldAttempt, KnownRequest, KnownRequests,
    ListStop, ListStops, LostTurns, OpenCounts, OpenUpdates, PausedActivity, PendingActivity, PendingChild,
    PendingExternal, PendingTimer, PendingUpdate, Released, Repeated, RequestMark, Run, RunClock, RunCondition,
    RunPause, RunStart, Spilled, SpilledMark, Status, StoppedLists, Successes, TaskRef, Turn, TurnLists, TurnTask,
    UpcomingChange, UpcomingKind, UpdateStatus, WaitEnd, WaitingActivity, add_list_stop, key_of_update,
};
pub use same_json::same_json;
#[cfg(feature = "schedules")]
pub use schedule::{
    Action, ActionCause, ActionOutcome, NextTime, ObservedRun, OverlapEnd, Recent, Rules, Running, ScheduleCounts,
    ScheduleState, ScheduleTimes, Upcoming, use_zone_tables, zone_tables,
};
pub use schedule::{Calendar, Interval, Overlap, Schedule, ScheduleSpec, Scheduled};
pub use start::{Start, StartActivity, StartSignal, StartWorkflow};
pub use tally::{ActivityOutcome, ActivityTally, Tally};
pub use text::read_json;
pub use time::{Duration, Timestamp};
pub use trace::{SpanId, TraceContext, TraceId, Traceparent};
pub use transition::{CommandOutcome, Transition};
pub use warning::Warning;
