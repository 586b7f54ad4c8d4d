//! Condition of a run: a single word for lists and counts. Usually it is the status of the run. For open runs that may
//! need attention, it is a more specific word (a flag).

use super::{Run, Status};

/// Minimum number of consecutive lost turns at which a run counts as failing. Chosen: two, because a deployment can
/// cause a single lost turn.
const FAILING_TURNS_MIN: u32 = 2;

/// Condition of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunCondition {
    /// Open, and no other condition applies.
    Open,
    /// Open and paused.
    Paused,
    /// Open, with a paused activity that needs an operator.
    Blocked,
    /// Open, but no pending item will ever schedule a turn.
    Stuck,
    /// Open, and at least two consecutive turns failed or timed out.
    Failing,
    /// Open, with an activity that is in its second or a later attempt.
    Retrying,
    /// Open, with an activity that was scheduled again after it had succeeded.
    Repeating,
    /// Closed.
    Closed(Status),
}

impl RunCondition {
    /// Conditions of open runs that may need attention. If several apply to a run, the first one in this order counts.
    pub const FLAGGED: [Self; 6] =
        [Self::Paused, Self::Blocked, Self::Stuck, Self::Failing, Self::Retrying, Self::Repeating];

    /// Returns the word used in lists and in stores.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => Status::Open.word(),
            Self::Paused => "paused",
            Self::Blocked => "blocked",
            Self::Stuck => "stuck",
            Self::Failing => "failing",
            Self::Retrying => "retrying",
            Self::Repeating => "repeating",
            Self::Closed(status) => status.word(),
        }
    }

    /// Returns the condition with this word, or `None` if no condition has this word.
    pub fn from_word(word: &str) -> Option<Self> {
        let flagged = Self::FLAGGED.into_iter().find(|condition| condition.word() == word);
        flagged.or_else(|| match Status::from_word(word)? {
            Status::Open => Some(Self::Open),
            closed => Some(Self::Closed(closed)),
        })
    }

    /// Returns `true` if the run is open.
    pub fn is_open(self) -> bool {
        !matches!(self, Self::Closed(_))
    }

    /// Returns `true` if the run may need attention.
    pub fn is_flagged(self) -> bool {
        Self::FLAGGED.contains(&self)
    }
}

impl Run {
    /// Returns the condition of the run.
    pub fn condition(&self) -> RunCondition {
        let applies = |condition: &RunCondition| match condition {
            RunCondition::Open => true,
            RunCondition::Paused => self.paused.is_some(),
            RunCondition::Blocked => self.is_blocked(),
            RunCondition::Stuck => self.is_stuck(),
            RunCondition::Failing => self.is_failing(),
            RunCondition::Retrying => self.is_retrying(),
            RunCondition::Repeating => self.is_repeating(),
            RunCondition::Closed(_) => false,
        };
        if self.is_open() {
            RunCondition::FLAGGED.into_iter().find(applies).unwrap_or(RunCondition::Open)
        } else {
            RunCondition::Closed(self.status)
        }
    }

    /// Returns `true` if no further turn will be scheduled without a request: the run is open, no turn is waiting or
    /// held, nothing else is open, and the last turn awaits no signal. Apart from requests, only the execution timeout
    /// and the run timeout can still change the run.
    pub fn is_stuck(&self) -> bool {
        self.is_open()
            && self.turn.is_none()
            && self.turn_task.is_none()
            && self.activities.is_empty()
            && self.timers.is_empty()
            && self.externals.is_empty()
            && self.children.is_empty()
            && self.awaiting.is_empty()
    }

    /// Returns `true` if the run needs an operator: one of its activities is paused and no runner holds it.
    pub fn is_blocked(&self) -> bool {
        self.is_open() && self.activities.values().any(|activity| activity.is_blocked())
    }

    /// Returns `true` if at least two consecutive turns failed or timed out.
    pub fn is_failing(&self) -> bool {
        self.is_open() && self.turns_lost >= FAILING_TURNS_MIN
    }

    /// Returns `true` if an activity is in its second or a later attempt, whether a runner has taken that attempt or
    /// not.
    pub fn is_retrying(&self) -> bool {
        self.is_open() && self.activities.values().any(|activity| activity.attempt() > 1)
    }

    /// Returns `true` if an activity was scheduled again with the same id, type and input after it had succeeded.
    pub fn is_repeating(&self) -> bool {
        self.is_open() && self.successes.repeated().is_some()
    }
}

#[cfg(test)]
mod liveness;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_has_its_own_word() {
        let closed = Status::ALL.into_iter().filter(|status| *status != Status::Open).map(RunCondition::Closed);
        let all: Vec<_> = RunCondition::FLAGGED.into_iter().chain([RunCondition::Open]).chain(closed).collect();
        for condition in &all {
            assert_eq!(RunCondition::from_word(condition.word()), Some(*condition), "{condition:?}");
            assert_eq!(condition.is_open(), !matches!(condition, RunCondition::Closed(_)));
            assert_eq!(condition.is_flagged(), condition.is_open() && *condition != RunCondition::Open);
        }
        assert_eq!(all.len(), Status::ALL.len() + RunCondition::FLAGGED.len());
        assert_eq!(RunCondition::from_word("asleep"), None);
    }
}
