//! How a run stands, in one word for lists: its status, and whether an open one needs somebody (N8).

use super::Status;

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It is open, and something will wake it.
    Open,
    /// It is open and paused.
    Paused,
    /// It is open, and nothing will ever wake it.
    Stuck,
    /// It is open, and an activity of it is paused and waits for somebody.
    Blocked,
    /// It has closed.
    Closed(Status),
}

impl Standing {
    /// Those of open runs that wait for somebody.
    pub const NEEDY: [Self; 3] = [Self::Paused, Self::Stuck, Self::Blocked];

    /// The word used in lists and in stores.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => Status::Open.word(),
            Self::Paused => "paused",
            Self::Stuck => "stuck",
            Self::Blocked => "blocked",
            Self::Closed(status) => status.word(),
        }
    }

    /// The standing with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        let needy = Self::NEEDY.into_iter().find(|standing| standing.word() == word);
        needy.or_else(|| match Status::from_word(word)? {
            Status::Open => Some(Self::Open),
            closed => Some(Self::Closed(closed)),
        })
    }

    /// Whether the run is open.
    pub fn is_open(self) -> bool {
        !matches!(self, Self::Closed(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_standing_has_a_word_of_its_own() {
        let closed = Status::ALL.into_iter().filter(|status| *status != Status::Open).map(Standing::Closed);
        let all: Vec<_> = Standing::NEEDY.into_iter().chain([Standing::Open]).chain(closed).collect();
        for standing in &all {
            assert_eq!(Standing::from_word(standing.word()), Some(*standing), "{standing:?}");
            assert_eq!(standing.is_open(), !matches!(standing, Standing::Closed(_)));
        }
        assert_eq!(all.len(), Status::ALL.len() + Standing::NEEDY.len());
        assert_eq!(Standing::from_word("asleep"), None);
    }
}
