//! Recent rejections of updates. They are kept in memory, because they are not recorded in a history and a caller that
//! has lost the response repeats its request.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use history::{Duration, Payload, Timestamp};
use uuid::Uuid;

use crate::riders::outcome::UpdateTurnOutcome;

/// Maximum number of rejections that a node keeps. Our choice: enough for the seconds until a caller that has lost the
/// response repeats its request.
const REJECTIONS_MAX: usize = 10_000;

/// Maximum size in bytes of the details of a kept rejection. A rejection with larger details is not kept, and the
/// repeated update is validated again. Our choice.
const REJECTION_BYTES_MAX: usize = 4 * 1024;

/// Time for which a rejection is kept. Our choice: longer than any client retries its request.
const REJECTION_KEPT: Duration = Duration::from_secs(120);

struct RecentRejection {
    run_id: Uuid,
    update_id: String,
    reason: String,
    details: Option<Payload>,
    at: Timestamp,
}

impl RecentRejection {
    fn is_over(&self, now: Timestamp) -> bool {
        self.at.plus(REJECTION_KEPT) < now
    }
}

/// Recent rejections, oldest first.
#[derive(Default)]
pub(crate) struct Rejections(Mutex<VecDeque<RecentRejection>>);

impl Rejections {
    fn lock(&self) -> MutexGuard<'_, VecDeque<RecentRejection>> {
        self.0.lock().expect("no code panics while it holds this lock")
    }

    /// Keeps the outcome of an update if it is a rejection.
    pub(crate) fn remember(&self, run_id: Uuid, update_id: &str, verdict: &UpdateTurnOutcome, now: Timestamp) {
        if let UpdateTurnOutcome::Rejected { reason, details } = verdict
            && details.as_ref().map_or(0, Payload::len) <= REJECTION_BYTES_MAX
        {
            let (reason, details, update_id) = (reason.clone(), details.clone(), update_id.to_owned());
            let mut rejections = self.lock();
            while rejections.len() >= REJECTIONS_MAX || rejections.front().is_some_and(|it| it.is_over(now)) {
                rejections.pop_front();
            }
            rejections.push_back(RecentRejection { run_id, update_id, reason, details, at: now });
        }
    }

    /// Returns the rejection of an update, if the update was recently rejected.
    pub(crate) fn find(&self, run_id: Uuid, update_id: &str, now: Timestamp) -> Option<UpdateTurnOutcome> {
        let rejections = self.lock();
        let found = rejections.iter().rev().find(|it| it.run_id == run_id && it.update_id == update_id)?;
        (!found.is_over(now))
            .then(|| UpdateTurnOutcome::Rejected { reason: found.reason.clone(), details: found.details.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(details: usize) -> UpdateTurnOutcome {
        let details = Some(Payload::from_trusted(&"1".repeat(details)));
        UpdateTurnOutcome::Rejected { reason: "no".to_owned(), details }
    }

    fn is_known(rejections: &Rejections, update_id: &str, seconds: u64) -> bool {
        rejections.find(Uuid::nil(), update_id, Timestamp::from_millis(seconds * 1_000)).is_some()
    }

    #[test]
    fn a_rejection_is_remembered_for_two_minutes() {
        let rejections = Rejections::default();
        rejections.remember(Uuid::nil(), "a", &rejected(1), Timestamp::default());
        assert!(is_known(&rejections, "a", 120) && !is_known(&rejections, "a", 121));
        assert!(!is_known(&rejections, "b", 0));
        assert!(rejections.find(Uuid::from_u128(1), "a", Timestamp::default()).is_none());
    }

    #[test]
    fn only_rejections_with_short_details_are_remembered() {
        let rejections = Rejections::default();
        for verdict in [UpdateTurnOutcome::Accepted, UpdateTurnOutcome::Unanswered, rejected(REJECTION_BYTES_MAX + 1)] {
            rejections.remember(Uuid::nil(), "a", &verdict, Timestamp::default());
        }
        assert!(!is_known(&rejections, "a", 0));
        rejections.remember(Uuid::nil(), "a", &rejected(REJECTION_BYTES_MAX), Timestamp::default());
        assert!(is_known(&rejections, "a", 0));
    }

    #[test]
    fn the_oldest_rejection_makes_room_for_the_next() {
        let rejections = Rejections::default();
        for number in 0..=REJECTIONS_MAX {
            rejections.remember(Uuid::nil(), &number.to_string(), &rejected(1), Timestamp::default());
        }
        assert!(!is_known(&rejections, "0", 0) && is_known(&rejections, "1", 0));
    }
}
