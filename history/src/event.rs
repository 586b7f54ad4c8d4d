//! Events: the facts of a history, one row each in the catalogue below.
//!
//! Their names are this project's own; `docs/swf.md` has those of SWF.

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
mod bare;
mod by_hand;
mod causes;
mod children;
mod decider;
mod hand;
mod key;
mod messages;
mod named;
mod others;
mod payloads;
mod reset;
mod shown;
mod size;
mod timers;
mod updates;
mod workflow;
pub use crate::ids::ChildPolicy;
pub use activities::*;
pub use by_hand::*;
pub use children::*;
pub use decider::*;
pub use hand::ByHand;
pub use key::RequestKey;
pub use messages::*;
pub use named::*;
pub use others::*;
pub use reset::*;
pub use size::json_length;
pub use timers::*;
pub use updates::*;
pub use workflow::*;

/// Whose fact an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Written by the service on its own.
    Service,
    /// Written because a decider decided it.
    Decider,
    /// Written because an application, or another run, asked for it.
    External,
    /// Written because a runner answered.
    Activity,
}

/// A fact in the history of a run.
///
/// In JSON it is one flat object: `id`, `timestamp`, `type`, then the attributes of its kind.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// Its position: 1, 2, 3, …
    #[n(0)]
    pub id: EventId,
    /// When it was recorded. Never goes back within a run.
    #[n(1)]
    pub timestamp: Timestamp,
    /// What happened.
    #[n(2)]
    #[serde(flatten)]
    pub kind: EventKind,
    /// The key of the request that caused it; on the first event of a keyed request only.
    #[n(3)]
    #[serde(rename = "requestKey")]
    pub key: Option<RequestKey>,
    /// The name of the credential of whoever caused it; absent where time or the service did, and where there are no credentials.
    #[n(4)]
    pub by: Option<CallerName>,
    /// The service's clock when the event was recorded, if it was behind `timestamp` because a clock had been put back; absent
    /// otherwise. Deadlines count from it.
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

/// What every event has beside the attributes of its kind.
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
    /// Time by the service's clock when the event was recorded. Deadlines count from it. Unlike `timestamp` it is earlier than
    /// that of the event before if the clock was put back between them.
    pub fn at(&self) -> Timestamp {
        self.clock.unwrap_or(self.timestamp)
    }

    /// Reads an event from its JSON text.
    ///
    /// # Errors
    ///
    /// When the text is not an event. Attributes that this version does not know are passed over.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

macro_rules! catalogue {
    ($( $(#[doc = $doc:literal])+ $code:tt $name:ident $level:ident $news:ident $schedules:ident $($boxed:ident)?; )+) => {
        /// What happened, with its attributes. The catalogue: one row per kind of event.
        #[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(tag = "type")]
        pub enum EventKind {
            $( $(#[doc = $doc])+ #[n($code)] $name(#[n(0)] held!($name $($boxed)?)), )+
        }

        impl EventKind {
            /// Every name, in the catalogue's order.
            pub const NAMES: &'static [&'static str] = &[$( stringify!($name), )+];

            /// The name, as in JSON's `type`.
            pub fn name(&self) -> &'static str {
                match self { $( Self::$name(_) => stringify!($name), )+ }
            }

            /// The level of its row.
            fn level_of_kind(&self) -> Level {
                match self { $( Self::$name(_) => Level::$level, )+ }
            }

            /// Whether it is news: it moves the version token. Bookkeeping is not.
            pub fn is_news(&self) -> bool {
                match self { $( Self::$name(_) => column!($news), )+ }
            }

            /// Whether a decider must be scheduled to look at it.
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

/// What is large, and there is little of, is boxed: events are moved about more than anything else.
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

// The numbers are the stored form: never changed, never given to another kind. Later kinds take later numbers, so that
// the child, external and update families have their place after 40.
catalogue! {
    /// The run began. Always event 1.
    0 WorkflowStarted External news schedules boxed;
    /// A decider closed the run: it did what it should. Last event.
    1 WorkflowSuccess Decider news quiet;
    /// A decider closed the run as failed. Last event.
    2 WorkflowFailed Decider news quiet;
    /// A decider closed the run as canceled. Last event.
    3 WorkflowCanceled Decider news quiet;
    /// The run took longer than its execution timeout. Last event.
    4 WorkflowTimedOut Service news quiet;
    /// Somebody ended the run from outside. Last event.
    5 WorkflowTerminated External news quiet;
    /// A decider wanted to close the run while there was news that it had not seen.
    6 WorkflowCloseFailed Decider news schedules;
    /// Somebody asked for the run to be canceled; the decider chooses what that means.
    7 WorkflowCancelRequested External news schedules;
    /// A turn is waiting for a decider.
    8 DeciderScheduled Service bookkeeping quiet;
    /// A decider took the turn.
    9 DeciderStarted Service bookkeeping quiet;
    /// The decider answered; its decisions follow.
    10 DeciderCompleted Service bookkeeping quiet;
    /// The decider did not answer, or none came, in time.
    11 DeciderTimedOut Service bookkeeping schedules;
    /// The decider gave the turn back.
    12 DeciderFailed Service bookkeeping schedules;
    /// A decider wants an activity done.
    13 ActivityScheduled Decider news quiet boxed;
    /// A decider wanted an activity that could not be scheduled.
    14 ActivityScheduleFailed Decider news schedules;
    /// A runner took the activity.
    15 ActivityStarted Service bookkeeping quiet;
    /// The runner did it.
    16 ActivitySuccess Activity news schedules;
    /// The runner could not do it.
    17 ActivityFailed Activity news schedules;
    /// The runner stopped because it was asked to, or it was never started.
    18 ActivityCanceled Activity news schedules;
    /// The runner did not answer in time.
    19 ActivityTimedOut Service news schedules;
    /// No runner took the activity in time.
    20 ActivityScheduledTimeout Service news schedules;
    /// A decider wants an activity to stop.
    21 ActivityTaskCancel Decider news quiet;
    /// A decider wanted an activity to stop that is not open.
    22 ActivityTaskCancelFailed Decider news schedules;
    /// A decider set a timer.
    23 TimerScheduled Decider news quiet;
    /// A decider wanted a timer that could not be set.
    24 TimerScheduleFailed Decider news schedules;
    /// A timer's time has come.
    25 TimerExpired Service news schedules;
    /// A decider took a timer back.
    26 TimerCanceled Decider news quiet;
    /// A decider wanted to take back a timer that is not open.
    27 TimerCancelFailed Decider news schedules;
    /// News from outside.
    28 Signal External news schedules;
    /// A decider's note to itself.
    29 Marker Decider news quiet;
    /// A decider's note that could not be recorded.
    30 MarkerFailed Decider news schedules;
    /// A decider closed the run, and another one goes on with a history of its own. Last event.
    31 WorkflowContinuedAsNew Decider news quiet;
    /// A decider wants a child to be started.
    41 ChildScheduled Decider news quiet boxed;
    /// A child could not be started.
    42 ChildScheduleFailed Decider news schedules;
    /// The child has begun.
    43 ChildStarted Service bookkeeping quiet;
    /// The child did what it should.
    44 ChildSuccess Service news schedules;
    /// The child failed.
    45 ChildFailed Service news schedules;
    /// The child took too long.
    46 ChildTimedOut Service news schedules;
    /// The child was canceled.
    47 ChildCanceled Service news schedules;
    /// Somebody ended the child from outside.
    48 ChildTerminated Service news schedules;
    /// A decider wants another run to be signaled.
    49 ExternalSignalScheduled Decider news quiet;
    /// The other run has the signal.
    50 ExternalSignalDelivered Service news schedules;
    /// The other run could not be signaled.
    51 ExternalSignalFailed Decider news schedules;
    /// A decider wants another run to be asked to cancel.
    52 ExternalCancelScheduled Decider news quiet;
    /// The other run has been asked to cancel.
    53 ExternalCancelDelivered Service news schedules;
    /// The other run could not be asked to cancel.
    54 ExternalCancelFailed Decider news schedules;
    /// A decider took an update (S1-E). One that it rejected leaves nothing.
    55 UpdateAccepted Decider news quiet;
    /// The update is done, and this is its answer.
    56 UpdateCompleted Decider news quiet;
    /// The update was accepted, and then could not be done.
    57 UpdateFailed Decider news quiet;
    /// An activity is not handed out any more: somebody wants it so, or its tries ran out.
    60 ActivityPaused External bookkeeping quiet;
    /// Somebody has a paused activity handed out again.
    61 ActivityResumed External bookkeeping quiet;
    /// Somebody has an activity tried again at once.
    62 ActivityRetried External bookkeeping quiet;
    /// Somebody changed the timeouts, the retry policy or the task list of an open activity.
    63 ActivityOptionsChanged External bookkeeping quiet boxed;
    /// Somebody has the run wait: nothing of it is handed out.
    64 WorkflowPaused External bookkeeping quiet;
    /// Somebody has a paused run go on.
    65 WorkflowResumed External bookkeeping quiet;
    /// The run branched off another: what stands before this is that one's history.
    66 WorkflowReset External news schedules;
}

impl EventKind {
    /// Whose fact it is.
    pub fn level(&self) -> Level {
        match self {
            // A decision that was taken, and of which another run or the service said later that it cannot be.
            Self::ExternalSignalFailed(it) if it.scheduled_event_id.is_some() => Level::Service,
            Self::ExternalCancelFailed(it) if it.scheduled_event_id.is_some() => Level::Service,
            Self::ChildScheduleFailed(it) if it.scheduled_event_id.is_some() => Level::Service,
            Self::ActivityPaused(it) if it.cause == ActivityPausedCause::TriesExhausted => Level::Service,
            kind => kind.level_of_kind(),
        }
    }

    /// Whether nothing may follow it.
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

    /// The run that goes on after it, and not before when, if that is said: a run that continued as new, is tried again, or
    /// was reset.
    pub fn followed_by(&self) -> Option<(RunId, Option<Timestamp>)> {
        let (run_id, not_before) = match self {
            Self::WorkflowContinuedAsNew(it) => (Some(it.new_run_id), None),
            Self::WorkflowFailed(it) => (it.new_run_id, it.next_try_at),
            Self::WorkflowTimedOut(it) => (it.new_run_id, it.next_try_at),
            Self::WorkflowTerminated(it) => (it.reset.map(|reset| reset.new_run_id), None),
            _ => return None,
        };
        run_id.map(|run_id| (run_id, not_before))
    }
}
