//! The permission of a request in progress. It is checked repeatedly until the request ends, because the credential may
//! be revoked during the request.

use std::sync::Arc;
use std::time::Duration;

use history::Timestamp;

use super::credentials::Principal;
use super::secret::Validity;
use super::{Credentials, Holder, Need};
use engine::Clock;

/// Time for which a request may continue after its credential was revoked, so that its writes complete. Our choice: a
/// write takes milliseconds; a request that takes longer is waiting for something.
pub const REVOKED_WAIT: Duration = Duration::from_secs(1);

/// Pass of a request: the authenticated caller, and the permission that the request uses.
#[derive(Clone)]
pub(crate) struct Pass {
    credentials: Credentials,
    clock: Arc<dyn Clock>,
    admitted: Principal,
    need: Need,
}

impl Pass {
    /// Returns a pass for a caller whose credential meets the need.
    pub(crate) fn new(credentials: &Credentials, clock: &Arc<dyn Clock>, admitted: Principal, need: Need) -> Self {
        Self { credentials: credentials.clone(), clock: Arc::clone(clock), admitted, need }
    }

    /// Returns the holder of the credential.
    pub(crate) fn holder(&self) -> &Arc<Holder> {
        &self.admitted.holder
    }

    /// Returns the authenticated caller.
    pub(crate) fn admitted(&self) -> &Principal {
        &self.admitted
    }

    /// Returns the permission that the request uses.
    pub(crate) fn need(&self) -> &Need {
        &self.need
    }

    /// Returns whether the caller would still be admitted, and would be shown at least the same data.
    pub(crate) fn is_valid(&self) -> bool {
        self.standing().is_some()
    }

    /// Returns the current validity of the caller's credential; `None` if the caller would not be admitted any more.
    fn standing(&self) -> Option<Validity> {
        let is_met = |holder: &Holder| self.need.is_met_by(holder) && self.has_same_payload_rights(holder);
        self.credentials.would_admit(&self.admitted, self.clock.now(), is_met)
    }

    /// Returns false if the credential could see the payloads of the request's domain when the request was admitted,
    /// and its current version `holder` cannot.
    fn has_same_payload_rights(&self, holder: &Holder) -> bool {
        let is_less = |domain| self.admitted.holder.is_shown_payloads(domain) && !holder.is_shown_payloads(domain);
        !self.need.domain().is_some_and(is_less)
    }

    /// Resolves when the caller would no longer be admitted. The reason can be that its credential has expired, was
    /// removed or changed, or that its session has ended.
    pub(crate) async fn revoked(&self) {
        let mut changes = self.credentials.changes();
        while let Some(validity) = self.standing() {
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    // The credentials can no longer change, so they are never revoked.
                    std::future::pending::<()>().await;
                },
                () = self.reaches(validity.until()) => {}
                () = self.signed_out() => {}
            }
        }
    }

    /// Resolves when the caller's session ends.
    async fn signed_out(&self) {
        match self.admitted.session() {
            Some(session) => session.over().await,
            None => std::future::pending().await,
        }
    }

    /// Resolves at this time. If `at` is `None`, never resolves.
    async fn reaches(&self, at: Option<Timestamp>) {
        match at {
            Some(at) => self.clock.sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Runs this work. Returns the result if the caller would still be admitted when the work is complete. Work that is
    /// still running [`REVOKED_WAIT`] after the credential was revoked is dropped.
    pub(crate) async fn hold<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(work);
        let answer = tokio::select! {
            biased;
            answer = &mut work => Some(answer),
            () = self.revoked() => tokio::time::timeout(REVOKED_WAIT, &mut work).await.ok(),
        };
        // A result that arrives after the revocation is dropped, too. If it contains a task, dropping it returns the
        // task to its list.
        answer.filter(|_| self.is_valid())
    }
}
