//! The rules that a history can break.

use std::fmt;

use crate::event::EventId;
use crate::time::Timestamp;

/// A rule that a history breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {event_id} breaks the rule that {rule}: {found}")]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// At which event; for [`Rule::NewsIsAnswered`] at the end of a history: the news that nobody will look at.
    pub event_id: EventId,
    /// What was found there.
    pub found: String,
}

/// The invariants of histories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Ids are 1, 2, 3, … without gaps.
    Ids,
    /// Time never goes back.
    Time,
    /// Event 1 is WorkflowStarted, event 2 DeciderScheduled, and WorkflowStarted is nowhere else.
    Beginning,
    /// Nothing follows a closing event.
    NothingAfterClose,
    /// At most one DeciderScheduled since the last DeciderStarted.
    OneTurnWaits,
    /// Never two deciders active at once.
    OneTurnStarted,
    /// A turn is scheduled because of news, and of nothing else, unless an update or a decision is recorded
    /// with all of it at once.
    TurnHasCause,
    /// News that schedules a decider is followed by a DeciderScheduled, unless one waits.
    NewsIsAnswered,
    /// A link names an earlier event of the right kind, and that event's ids.
    Link,
    /// An activity starts at most once, closes at most once, and is not answered before it starts.
    ActivityLife,
    /// What is paused is resumed before it is paused again, and is not begun in between.
    Pause,
    /// A run branches off another where no decider is at work and nothing of it is with others.
    Branch,
    /// A timer is set, then expires or is canceled, once.
    TimerLife,
    /// No two open activities, timers or children share an id.
    IdInUse,
    /// A child starts at most once, and closes at most once, not before it started.
    ChildLife,
    /// An update is accepted, then answered once.
    UpdateLife,
    /// An effect on another run is known to have happened, or not to, once.
    EffectOnce,
    /// What comes from an event of another run comes once.
    OriginOnce,
    /// A decision's events stand directly behind its DeciderCompleted.
    DecisionsTogether,
    /// Nothing expires before its time, and no turn is handed out while it is held back.
    NotBeforeTime,
    /// A run that failed or took too long is tried again only where its retry policy has another try.
    Retry,
    /// A decider sees its window, from the last completed turn's DeciderStarted to its own, and nothing later.
    Window,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ids => "ids are 1, 2, 3, … without gaps",
            Self::Time => "time never goes back",
            Self::Beginning => "a history begins with WorkflowStarted and DeciderScheduled (S3.6)",
            Self::NothingAfterClose => "nothing follows a closing event (S3.7)",
            Self::OneTurnWaits => "at most one DeciderScheduled is outstanding (S3.36)",
            Self::OneTurnStarted => "at most one decider is active (S3.37)",
            Self::TurnHasCause => "a turn is scheduled because of news (S3.38)",
            Self::NewsIsAnswered => "news is followed by a DeciderScheduled unless one waits (S3.38)",
            Self::Link => "a link names an earlier event of the right kind",
            Self::ActivityLife => "an activity starts once, then closes once",
            Self::Pause => "what is paused is not begun, and is resumed once",
            Self::Branch => "a run branches off where no decider is at work and nothing is with others",
            Self::TimerLife => "a timer expires or is canceled, once",
            Self::IdInUse => "no two open activities, timers or children share an id (S3.23)",
            Self::ChildLife => "a child starts once, then closes once",
            Self::UpdateLife => "an update is accepted, then answered once",
            Self::EffectOnce => "an effect on another run has one outcome",
            Self::OriginOnce => "an effect of another run happens once",
            Self::DecisionsTogether => "decision events stand directly behind their DeciderCompleted (S3.43)",
            Self::NotBeforeTime => "nothing happens before its time (S3.50)",
            Self::Retry => "a run is tried again as its retry policy says (S2.30)",
            Self::Window => "a window ends with its own DeciderStarted and begins with the last completed one (S3.39)",
        })
    }
}

pub(super) fn broken<T>(rule: Rule, event_id: EventId, found: impl Into<String>) -> Result<T, Violation> {
    Err(Violation { rule, event_id, found: found.into() })
}

/// What stands there, or `none`.
pub(super) fn or_none(found: Option<impl std::fmt::Display>) -> String {
    found.map_or_else(|| "none".to_owned(), |found| found.to_string())
}

/// A try's failure, if there is one.
pub(super) const fn failed(is_there: bool) -> &'static str {
    if is_there { "a failed try" } else { "no failed try" }
}

pub(super) fn not_before(id: EventId, at: Timestamp, due: Timestamp) -> Result<(), Violation> {
    if at < due {
        return broken(Rule::NotBeforeTime, id, format!("it is at {at}, its time is {due}"));
    }
    Ok(())
}
