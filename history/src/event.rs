//! Event types of a history. The catalogue at the end of this file has one row per kind.
//!
//! Baton chooses its own event names; `docs/swf.md` maps them to the names of SWF.

use minicbor::{Decode, Encode};
use serde::de::{Error, MapAccess};
use serde::{Deserialize, Deserializer, Serialize};
use serde_with::skip_serializing_none;

use crate::caller::CallerName;
pub use crate::ids::EventId;
use crate::ids::RunId;
use crate::tagged::{self, Tagged};
use crate::time::Timestamp;

mod activities;
mod activity_close;
mod causes;
mod children;
mod decider;
mod external;
mod key;
mod messages;
mod named;
mod operator;
mod operator_action;
mod payloads;
mod redacted;
mod reset;
mod shown;
mod size;
mod timers;
mod updates;
mod workflow;
pub use crate::ids::ChildPolicy;
pub use activities::*;
pub use activity_close::ActivityClose;
pub use children::*;
pub use decider::*;
pub use external::*;
pub use key::RequestKey;
pub use messages::*;
pub use named::*;
pub use operator::*;
pub use operator_action::OperatorAction;
pub use reset::*;
pub use size::json_length;
pub use timers::*;
pub use updates::*;
pub use workflow::*;

/// Kind of actor that caused an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The service, without a request.
    Service,
    /// A decider, by a decision.
    Decider,
    /// An application or another run, by a request.
    External,
    /// A runner, by reporting a result.
    Activity,
}

/// The run that continues after a closing event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Successor {
    /// Run id of the successor.
    pub run_id: RunId,
    /// Earliest time at which the successor's first turn may start; absent if that turn may start at once.
    pub not_before: Option<Timestamp>,
}

/// A recorded fact in the history of a run.
///
/// Its JSON form is one flat object: `id`, `timestamp`, `type`, then the attributes of the kind.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// Position in the history: 1, 2, 3, …
    #[n(0)]
    pub id: EventId,
    /// Time of recording. It never decreases within a run.
    #[n(1)]
    pub timestamp: Timestamp,
    /// Event type and its attributes.
    #[n(2)]
    #[serde(flatten)]
    pub kind: EventKind,
    /// Key of the request that caused the event; only on the first event of a request that has a key.
    #[n(3)]
    #[serde(rename = "requestKey")]
    pub key: Option<RequestKey>,
    /// Name of the credential that caused the event. Absent if the service or a deadline caused it, or if the service
    /// has no credentials configured.
    #[n(4)]
    pub by: Option<CallerName>,
    /// Time of the service's clock when the event was recorded. Present only if the clock had been put back and was
    /// behind `timestamp`. Deadlines count from this time.
    #[n(5)]
    pub clock: Option<Timestamp>,
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (EventHeader { id, timestamp, key, by, clock }, kind) = tagged::read(deserializer)?;
        let missing = D::Error::missing_field;
        Ok(Self {
            id: id.ok_or_else(|| missing("id"))?,
            timestamp: timestamp.ok_or_else(|| missing("timestamp"))?,
            kind,
            key,
            by,
            clock,
        })
    }
}

/// Fields common to all events.
#[derive(Default)]
struct EventHeader {
    id: Option<EventId>,
    timestamp: Option<Timestamp>,
    key: Option<RequestKey>,
    by: Option<CallerName>,
    clock: Option<Timestamp>,
}

impl tagged::CommonFields for EventHeader {
    fn read<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "id" => tagged::set(&mut self.id, "id", map),
            "timestamp" => tagged::set(&mut self.timestamp, "timestamp", map),
            "requestKey" => tagged::set(&mut self.key, "requestKey", map),
            "by" => tagged::set(&mut self.by, "by", map),
            "clock" => tagged::set(&mut self.clock, "clock", map),
            _ => Ok(false),
        }
    }
}

impl Event {
    /// Returns the time of the service's clock when the event was recorded. Deadlines count from this time. If the
    /// clock was put back, it can be earlier than the time of the previous event, whereas `timestamp` never decreases.
    pub fn at(&self) -> Timestamp {
        self.clock.unwrap_or(self.timestamp)
    }

    /// Reads an event from its JSON text.
    ///
    /// # Errors
    ///
    /// Fails if the text is not an event. Attributes unknown to this version are ignored.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

macro_rules! catalogue {
    ($(
        $(#[doc = $doc:literal])+
        $code:tt $name:ident $level:ident $news:ident $schedules:ident $($boxed:ident)?;
    )+) => {
        /// Event kinds with their attributes. This is the catalogue, with one row per kind.
        #[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(tag = "type")]
        pub enum EventKind {
            $( $(#[doc = $doc])+ #[n($code)] $name(#[n(0)] held!($name $($boxed)?)), )+
        }

        impl EventKind {
            /// Names of all kinds, in catalogue order.
            pub const NAMES: &'static [&'static str] = &[$( stringify!($name), )+];

            /// Returns the name, which is `type` in JSON.
            pub fn name(&self) -> &'static str {
                match self { $( Self::$name(_) => stringify!($name), )+ }
            }

            /// Returns the actor in the kind's row of the catalogue.
            fn level_of_kind(&self) -> Level {
                match self { $( Self::$name(_) => Level::$level, )+ }
            }

            /// Returns `true` if the event changes something that callers can observe. The run then gets a new version.
            /// Bookkeeping events change nothing that callers can observe.
            pub fn is_news(&self) -> bool {
                match self { $( Self::$name(_) => column!($news), )+ }
            }

            /// Returns `true` if a turn must be scheduled, so that a decider reacts to the event.
            pub fn schedules_decider(&self) -> bool {
                match self { $( Self::$name(_) => column!($schedules), )+ }
            }
        }

        impl Tagged for EventKind {
            fn variant<'de, A: MapAccess<'de>>(name: &str, map: A) -> Result<Self, A::Error> {
                match name {
                    $( stringify!($name) => tagged::attributes(map).map(Self::$name), )+
                    other => Err(A::Error::custom(format_args!("unknown event type `{other}`"))),
                }
            }
        }
    };
}

/// Boxes the attributes of large, rare kinds. This keeps `Event` small, which saves copying because events are moved
/// often.
macro_rules! held {
    ($name:ident) => {
        $name
    };
    ($name:ident boxed) => {
        Box<$name>
    };
}

const _: () = assert!(size_of::<Event>() <= 272, "box what has become large");

macro_rules! column {
    (news) => {
        true
    };
    (bookkeeping) => {
        false
    };
    (schedules) => {
        true
    };
    (quiet) => {
        false
    };
}

// The numbers are part of the stored form. Never change a number, and never reuse it for another kind. Each new kind
// takes a new number. The numbers 32 to 40 were never used.
catalogue! {
    /// The run started. This is always event 1.
    0 WorkflowStarted External news schedules boxed;
    /// A decider closed the run as successful. This is the last event of the run.
    1 WorkflowSuccess Decider news quiet;
    /// A decider closed the run as failed. This is the last event of the run.
    2 WorkflowFailed Decider news quiet;
    /// A decider closed the run as canceled. This is the last event of the run.
    3 WorkflowCanceled Decider news quiet;
    /// The run exceeded its execution timeout or run timeout. This is the last event of the run.
    4 WorkflowTimedOut Service news quiet;
    /// A caller, a reset, the parent's child policy or a limit terminated the run. This is the last event of the run.
    5 WorkflowTerminated External news quiet;
    /// A decision to close the run failed, usually because new events had been recorded after its turn started.
    6 WorkflowCloseFailed Decider news schedules;
    /// A caller or another run asked to cancel the run. The decider chooses how to react.
    7 WorkflowCancelRequested External news schedules;
    /// A turn is waiting for a decider.
    8 DeciderScheduled Service bookkeeping quiet;
    /// A decider took the turn.
    9 DeciderStarted Service bookkeeping quiet;
    /// The decider answered the turn. The events of its decisions follow.
    10 DeciderCompleted Service bookkeeping quiet;
    /// The decider did not answer in time, or no decider took the turn in time.
    11 DeciderTimedOut Service bookkeeping schedules;
    /// The decider reported that it could not complete the turn, or the turn could not be delivered.
    12 DeciderFailed Service bookkeeping schedules;
    /// A decider scheduled an activity.
    13 ActivityScheduled Decider news quiet boxed;
    /// A decision to schedule an activity failed.
    14 ActivityScheduleFailed Decider news schedules;
    /// A runner took the activity.
    15 ActivityStarted Service bookkeeping quiet;
    /// The runner completed the activity.
    16 ActivitySuccess Activity news schedules;
    /// The runner reported a failure.
    17 ActivityFailed Activity news schedules;
    /// The runner canceled the activity on request, or the activity was canceled before it started.
    18 ActivityCanceled Activity news schedules;
    /// The runner did not complete the activity in time.
    19 ActivityTimedOut Service news schedules;
    /// No runner took the activity in time.
    20 ActivityScheduledTimeout Service news schedules;
    /// A decider requested that an activity stop.
    21 ActivityTaskCancel Decider news quiet;
    /// A decision to cancel an activity failed, usually because the activity is not open.
    22 ActivityTaskCancelFailed Decider news schedules;
    /// A decider set a timer.
    23 TimerScheduled Decider news quiet;
    /// A decision to set a timer failed.
    24 TimerScheduleFailed Decider news schedules;
    /// A timer expired.
    25 TimerExpired Service news schedules;
    /// A decider canceled a timer.
    26 TimerCanceled Decider news quiet;
    /// A decision to cancel a timer failed, usually because the timer is not open.
    27 TimerCancelFailed Decider news schedules;
    /// An application or another run sent a signal.
    28 Signal External news schedules;
    /// A decider recorded a marker for its own use.
    29 Marker Decider news quiet;
    /// A decision to record a marker failed.
    30 MarkerFailed Decider news schedules;
    /// A decider closed the run, and a new run with a fresh history continues it. This is the last event of the run.
    31 WorkflowContinuedAsNew Decider news quiet;
    /// A decider requested the start of a child.
    41 ChildScheduled Decider news quiet boxed;
    /// The child could not be started.
    42 ChildScheduleFailed Decider news schedules;
    /// The child started.
    43 ChildStarted Service bookkeeping quiet;
    /// The child closed as successful.
    44 ChildSuccess Service news schedules;
    /// The child failed.
    45 ChildFailed Service news schedules;
    /// The child timed out.
    46 ChildTimedOut Service news schedules;
    /// The child was canceled.
    47 ChildCanceled Service news schedules;
    /// The child was terminated.
    48 ChildTerminated Service news schedules;
    /// A decider requested that another run be signaled.
    49 ExternalSignalScheduled Decider news quiet;
    /// The other run received the signal.
    50 ExternalSignalDelivered Service news schedules;
    /// The signal could not be delivered to the other run.
    51 ExternalSignalFailed Decider news schedules;
    /// A decider requested that another run be canceled.
    52 ExternalCancelScheduled Decider news quiet;
    /// The other run received the cancel request.
    53 ExternalCancelDelivered Service news schedules;
    /// The cancel request could not be delivered to the other run.
    54 ExternalCancelFailed Decider news schedules;
    /// A decider accepted an update. For a rejected update, no event is recorded.
    55 UpdateAccepted Decider news quiet;
    /// The update succeeded. The event contains its result.
    56 UpdateCompleted Decider news quiet;
    /// An accepted update failed.
    57 UpdateFailed Decider news quiet;
    /// An operator paused an activity, or the service paused it because all attempts of its retry policy failed.
    60 ActivityPaused External bookkeeping quiet;
    /// An operator resumed a paused activity.
    61 ActivityResumed External bookkeeping quiet;
    /// An operator triggered an immediate retry of an activity.
    62 ActivityRetried External bookkeeping quiet;
    /// An operator changed the timeouts, retry policy or task list of an open activity.
    63 ActivityOptionsChanged External bookkeeping quiet boxed;
    /// An operator paused the run. While the run is paused, the service hands out none of its tasks.
    64 WorkflowPaused External bookkeeping quiet;
    /// An operator resumed a paused run.
    65 WorkflowResumed External bookkeeping quiet;
    /// A reset created this run. The events before this one are copied from the history of another run.
    66 WorkflowReset External news schedules;
}

impl EventKind {
    /// Returns the actor that caused the event.
    pub fn level(&self) -> Level {
        match self {
            // If the event has `scheduled_event_id`, the decision was accepted, and the failure was reported later by
            // the service or the other run.
            Self::ExternalSignalFailed(it) if it.scheduled_event_id.is_some() => Level::Service,
            Self::ExternalCancelFailed(it) if it.scheduled_event_id.is_some() => Level::Service,
            Self::ChildScheduleFailed(it) if it.scheduled_event_id.is_some() => Level::Service,
            Self::ActivityPaused(it) if it.cause == ActivityPausedCause::AttemptsExhausted => Level::Service,
            kind => kind.level_of_kind(),
        }
    }

    /// Returns `true` if the event closes the run, so that nothing may follow it.
    pub fn closes(&self) -> bool {
        matches!(
            self,
            Self::WorkflowSuccess(_)
                | Self::WorkflowFailed(_)
                | Self::WorkflowCanceled(_)
                | Self::WorkflowContinuedAsNew(_)
                | Self::WorkflowTimedOut(_)
                | Self::WorkflowTerminated(_)
        )
    }

    /// Returns the run that follows this run after this event: the run that continues as new, the retry, or the new run
    /// of a reset.
    pub fn followed_by(&self) -> Option<Successor> {
        let (run_id, not_before) = match self {
            Self::WorkflowContinuedAsNew(it) => (Some(it.new_run_id), None),
            Self::WorkflowFailed(it) => (it.new_run_id, it.next_attempt_at),
            Self::WorkflowTimedOut(it) => (it.new_run_id, it.next_attempt_at),
            Self::WorkflowTerminated(it) => (it.reset.map(|reset| reset.new_run_id), None),
            _ => return None,
        };
        run_id.map(|run_id| Successor { run_id, not_before })
    }
}
