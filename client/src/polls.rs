//! Ids of polls. If the response to a poll is lost, the client can repeat the poll with the same id.

use history::limits::POLL_ATTEMPTS_MAX;

use crate::Error;

/// The successive polls of a client that takes one task at a time.
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

/// Returns a new unique id.
pub(crate) fn fresh() -> String {
    format!("{:032x}", fastrand::u128(..))
}

impl Polls {
    /// Returns the id of the next poll, for `pollId`.
    pub fn id(&self) -> String {
        self.id.clone()
    }

    /// Returns the attempt number of the next poll, for `attempt`; `None` for the first attempt.
    pub fn attempt(&self) -> Option<u32> {
        (self.attempt > 1).then_some(self.attempt)
    }

    /// Records that the poll was answered, with or without a task. The next poll has a new id.
    pub fn answered(&mut self) {
        *self = Self::default();
    }

    /// Records that the response may have been lost. The next poll then repeats this poll, as another attempt.
    pub fn lost(&mut self) {
        self.attempt += 1;
        if self.attempt > POLL_ATTEMPTS_MAX {
            self.answered();
        }
    }

    /// Records the outcome of the poll. If the poll did not reach the service, the next poll has the same id and
    /// attempt number.
    pub fn observe<T>(&mut self, answer: &Result<T, Error>) {
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
        polls.observe::<()>(&Err(lost()));
        assert_eq!((polls.id(), polls.attempt()), (first.clone(), Some(2)));
        polls.observe::<()>(&Err(Error::Setup { what: "it was not sent".to_owned() }));
        assert_eq!((polls.id(), polls.attempt()), (first.clone(), Some(2)));
        polls.observe(&Ok(()));
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
