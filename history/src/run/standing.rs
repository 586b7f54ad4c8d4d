//! How a run stands, in one word for lists and counts: its status, and whether somebody may want to know of an open one.

use super::{Run, Status};

/// How many turns in a row are lost when deciders are said to fail at them. Ours: one is what a deployment costs.
const FAILING_TURNS_MIN: u32 = 2;

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It is open, and goes its way.
    Open,
    /// It is open and paused.
    Paused,
    /// It is open, and an activity of it is paused and waits for somebody.
    Blocked,
    /// It is open, and nothing will ever wake it.
    Stuck,
    /// It is open, and its turns were given back or timed out at least twice in a row.
    Failing,
    /// It is open, and an activity of it is past its first try.
    Retrying,
    /// It is open, and an activity of it was scheduled again after it had succeeded.
    Repeating,
    /// It has closed.
    Closed(Status),
}

impl Standing {
    /// Those of open runs that somebody may want to know of. A run to which several apply stands as the first of them.
    pub const FLAGGED: [Self; 6] =
        [Self::Paused, Self::Blocked, Self::Stuck, Self::Failing, Self::Retrying, Self::Repeating];

    /// The word used in lists and in stores.
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

    /// The standing with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        let flagged = Self::FLAGGED.into_iter().find(|standing| standing.word() == word);
        flagged.or_else(|| match Status::from_word(word)? {
            Status::Open => Some(Self::Open),
            closed => Some(Self::Closed(closed)),
        })
    }

    /// Whether the run is open.
    pub fn is_open(self) -> bool {
        !matches!(self, Self::Closed(_))
    }

    /// Whether somebody may want to know of it.
    pub fn is_flagged(self) -> bool {
        Self::FLAGGED.contains(&self)
    }
}

impl Run {
    /// How it stands, in one word for lists.
    pub fn standing(&self) -> Standing {
        let applies = |standing: &Standing| match standing {
            Standing::Open => true,
            Standing::Paused => self.paused.is_some(),
            Standing::Blocked => self.is_blocked(),
            Standing::Stuck => self.is_stuck(),
            Standing::Failing => self.is_failing(),
            Standing::Retrying => self.is_retrying(),
            Standing::Repeating => self.is_repeating(),
            Standing::Closed(_) => false,
        };
        if self.is_open() {
            Standing::FLAGGED.into_iter().find(applies).unwrap_or(Standing::Open)
        } else {
            Standing::Closed(self.status)
        }
    }

    /// Whether nothing will ever wake it: it is open, no turn waits or is out, nothing is open, and
    /// its last turn did not say that it waits for a signal. All that is left is its execution timeout, or somebody who
    /// finds out.
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

    /// Whether it waits for somebody: an activity of it is paused, and no runner has that.
    pub fn is_blocked(&self) -> bool {
        self.is_open() && self.activities.values().any(|activity| activity.is_blocked())
    }

    /// Whether deciders fail at it: its turns were given back or timed out at least twice in a row.
    pub fn is_failing(&self) -> bool {
        self.is_open() && self.turns_lost >= FAILING_TURNS_MIN
    }

    /// Whether an activity of it is past its first try: it waits for the next one, or is in it.
    pub fn is_retrying(&self) -> bool {
        self.is_open() && self.activities.values().any(|activity| activity.attempt() > 1)
    }

    /// Whether an activity of it was scheduled again, with the same type and input, after it had succeeded.
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
    fn every_standing_has_a_word_of_its_own() {
        let closed = Status::ALL.into_iter().filter(|status| *status != Status::Open).map(Standing::Closed);
        let all: Vec<_> = Standing::FLAGGED.into_iter().chain([Standing::Open]).chain(closed).collect();
        for standing in &all {
            assert_eq!(Standing::from_word(standing.word()), Some(*standing), "{standing:?}");
            assert_eq!(standing.is_open(), !matches!(standing, Standing::Closed(_)));
            assert_eq!(standing.is_flagged(), standing.is_open() && *standing != Standing::Open);
        }
        assert_eq!(all.len(), Status::ALL.len() + Standing::FLAGGED.len());
        assert_eq!(Standing::from_word("asleep"), None);
    }
}
