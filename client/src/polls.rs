//! Naming polls, so that one whose answer is lost gets its task again.

use history::limits::POLL_ATTEMPTS_MAX;

use crate::Error;

/// The polls of somebody who holds one task at a time, one after the other.
#[derive(Debug)]
pub struct Polls {
    id: String,
    attempt: u32,
}

impl Default for Polls {
    fn default() -> Self {
        Self { id: fresh(), attempt: 1 }
    }
}

/// An id that no other poll has.
pub(crate) fn fresh() -> String {
    format!("{:032x}", fastrand::u128(..))
}

impl Polls {
    /// The id of the next poll, for `pollId`.
    pub fn id(&self) -> String {
        self.id.clone()
    }

    /// Which try of it that is, for `attempt`; `None` for the first.
    pub fn attempt(&self) -> Option<u32> {
        (self.attempt > 1).then_some(self.attempt)
    }

    /// The poll was answered, with a task or without: the next one is another.
    pub fn answered(&mut self) {
        *self = Self::default();
    }

    /// Nobody knows whether the poll was answered: the next one is another try of it.
    pub fn lost(&mut self) {
        self.attempt += 1;
        if self.attempt > POLL_ATTEMPTS_MAX {
            self.answered();
        }
    }

    /// What became of the poll. One that did not reach the service is made again as it was.
    pub fn heard<T>(&mut self, answer: &Result<T, Error>) {
        match answer {
            Ok(_) => self.answered(),
            Err(error) if error.had_no_side_effect() => {}
            Err(_) => self.lost(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_keeps_its_id_until_it_is_answered() {
        let mut polls = Polls::default();
        let first = polls.id();
        assert_eq!(polls.attempt(), None);
        let lost = || Error::Unexpected { url: String::new(), what: "half an answer".to_owned() };
        polls.heard::<()>(&Err(lost()));
        assert_eq!((polls.id(), polls.attempt()), (first.clone(), Some(2)));
        polls.heard::<()>(&Err(Error::Setup { what: "it was not sent".to_owned() }));
        assert_eq!((polls.id(), polls.attempt()), (first.clone(), Some(2)));
        polls.heard(&Ok(()));
        assert_ne!(polls.id(), first);
        assert_eq!(polls.attempt(), None);
    }

    #[test]
    fn a_poll_is_not_repeated_more_often_than_the_service_takes() {
        let mut polls = Polls::default();
        let first = polls.id();
        for _ in 1..POLL_ATTEMPTS_MAX {
            polls.lost();
        }
        assert_eq!((polls.id(), polls.attempt()), (first.clone(), Some(POLL_ATTEMPTS_MAX)));
        polls.lost();
        assert_ne!(polls.id(), first);
        assert_eq!(polls.attempt(), None);
    }
}
