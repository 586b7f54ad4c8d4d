//! Rules that a history must follow, and their violations.

use std::fmt;

use crate::event::EventId;
use crate::time::Timestamp;

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {event_id} breaks the rule that {rule}: {found}")]
pub struct Violation {
    /// The violated rule.
    pub rule: Rule,
    /// Id of the event at which the violation was found. If the end of a history violates [`Rule::NewsIsAnswered`],
    /// this is the id of the event that needs a turn.
    pub event_id: EventId,
    /// Description of the violation, for people.
    pub found: String,
}

/// Invariants of histories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Ids are 1, 2, 3, … without gaps.
    Ids,
    /// Timestamps never decrease.
    Time,
    /// Event 1 is WorkflowStarted, event 2 is DeciderScheduled, and there is no other WorkflowStarted.
    Beginning,
    /// No event follows a closing event.
    NothingAfterClose,
    /// At most one DeciderScheduled event follows the last DeciderStarted event.
    OneTurnWaits,
    /// Deciders hold at most one turn at a time.
    OneTurnStarted,
    /// A turn is scheduled only because an event needs it. The exception is a turn that is recorded as a whole,
    /// together with an update or a decision.
    TurnHasCause,
    /// An event that needs a turn is followed by DeciderScheduled, unless a turn is already waiting.
    NewsIsAnswered,
    /// A reference to another event names an earlier event of the right kind, and repeats the ids of that event
    /// correctly.
    Link,
    /// An activity starts at most once, closes at most once, and has no result before it starts.
    ActivityLife,
    /// A paused run or activity is resumed before it is paused again. An activity is not started while it is paused.
    Pause,
    /// A run branches off another run only when no turn is held and no request to a third run is pending.
    Branch,
    /// A timer is set, and then either expires or is canceled, once.
    TimerLife,
    /// No two open activities, timers or children have the same id.
    IdInUse,
    /// A child starts at most once, and closes at most once after it has started.
    ChildLife,
    /// An update is accepted, and is answered at most once after that.
    UpdateLife,
    /// A request to another run has at most one outcome.
    EffectOnce,
    /// A request from another run is recorded at most once.
    OriginOnce,
    /// The events of decisions directly follow their DeciderCompleted.
    DecisionsTogether,
    /// No deadline fires early, and no delayed turn starts early.
    NotBeforeTime,
    /// A run that failed or timed out is retried only if its retry policy allows it.
    Retry,
    /// The service decides the turns of a run that consists of a single activity, in the commit that schedules them.
    /// The run closes with the outcome of the activity.
    OneActivity,
    /// The window of a turn reaches from the DeciderStarted event of the last completed turn to its own DeciderStarted
    /// event.
    Window,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ids => "ids are 1, 2, 3, … without gaps",
            Self::Time => "time never goes back",
            Self::Beginning => "a history begins with WorkflowStarted and DeciderScheduled",
            Self::NothingAfterClose => "nothing follows a closing event",
            Self::OneTurnWaits => "at most one DeciderScheduled is outstanding",
            Self::OneTurnStarted => "at most one turn is held",
            Self::TurnHasCause => "a turn is scheduled because of news",
            Self::NewsIsAnswered => "news is followed by a DeciderScheduled unless one waits",
            Self::Link => "a reference names an earlier event of the right kind",
            Self::ActivityLife => "an activity starts once, then closes once",
            Self::Pause => "nothing starts during a pause, and a pause ends once",
            Self::Branch => "a run branches off only if no turn is held and no request to another run is pending",
            Self::TimerLife => "a timer expires or is canceled, once",
            Self::IdInUse => "no two open activities, timers or children have the same id",
            Self::ChildLife => "a child starts once, then closes once",
            Self::UpdateLife => "an update is accepted, then answered once",
            Self::EffectOnce => "an effect on another run has one outcome",
            Self::OriginOnce => "an effect of another run happens once",
            Self::DecisionsTogether => "the events of decisions directly follow their DeciderCompleted",
            Self::NotBeforeTime => "no deadline is applied early",
            Self::Retry => "a run is retried only as its retry policy allows",
            Self::OneActivity => "a run of a single activity is decided by the service and closes with the activity",
            Self::Window => "a window reaches from the last completed turn's DeciderStarted to the turn's own",
        })
    }
}

pub(super) fn broken<T>(rule: Rule, event_id: EventId, found: impl Into<String>) -> Result<T, Violation> {
    Err(Violation { rule, event_id, found: found.into() })
}

/// Formats an optional value; `None` becomes `none`.
pub(super) fn or_none(found: Option<impl std::fmt::Display>) -> String {
    found.map_or_else(|| "none".to_owned(), |found| found.to_string())
}

/// Describes the presence of a failed attempt in a message.
pub(super) const fn failed(is_there: bool) -> &'static str {
    if is_there { "a failed attempt" } else { "no failed attempt" }
}

pub(super) fn not_before(id: EventId, at: Timestamp, due: Timestamp) -> Result<(), Violation> {
    if at < due {
        return broken(Rule::NotBeforeTime, id, format!("its time is {at}, but it is due at {due}"));
    }
    Ok(())
}
