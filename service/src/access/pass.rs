//! What somebody is let in with, for as long as their request goes on: a credential may be revoked meanwhile.

use std::sync::Arc;
use std::time::Duration;

use history::Timestamp;

use super::credentials::Principal;
use super::secret::Validity;
use super::{Credentials, Holder, Need};
use engine::Clock;

/// How long a request may go on whose credential was revoked, so that what it writes is finished. Ours: a write takes
/// milliseconds, and what takes longer waits for something.
pub const REVOKED_WAIT: Duration = Duration::from_secs(1);

/// What somebody is let in with, and for what.
#[derive(Clone)]
pub(crate) struct Pass {
    credentials: Credentials,
    clock: Arc<dyn Clock>,
    admitted: Principal,
    need: Need,
}

impl Pass {
    /// Of somebody whose credential meets the need.
    pub(crate) fn new(credentials: &Credentials, clock: &Arc<dyn Clock>, admitted: Principal, need: Need) -> Self {
        Self { credentials: credentials.clone(), clock: Arc::clone(clock), admitted, need }
    }

    /// Whose it is.
    pub(crate) fn holder(&self) -> &Arc<Holder> {
        &self.admitted.holder
    }

    /// What they have shown.
    pub(crate) fn admitted(&self) -> &Principal {
        &self.admitted
    }

    /// What it is for.
    pub(crate) fn need(&self) -> &Need {
        &self.need
    }

    /// Whether they would still be let in, and shown as much.
    pub(crate) fn is_good(&self) -> bool {
        self.standing().is_some()
    }

    /// How long they would still be let in; `None` where they would not.
    fn standing(&self) -> Option<Validity> {
        let is_met = |holder: &Holder| self.need.is_met_by(holder) && self.shows_as_much(holder);
        self.credentials.would_admit(&self.admitted, self.clock.now(), is_met)
    }

    /// Whether what was shown when they were let in may be shown as well to who holds their credential now.
    fn shows_as_much(&self, holder: &Holder) -> bool {
        let is_less = |domain| self.admitted.holder.is_shown_payloads(domain) && !holder.is_shown_payloads(domain);
        !self.need.domain().is_some_and(is_less)
    }

    /// Resolves when they would no longer be let in: what they have shown expires, or other credentials are in force.
    pub(crate) async fn revoked(&self) {
        let mut changes = self.credentials.changes();
        while let Some(validity) = self.standing() {
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    // Nobody can change them any more.
                    std::future::pending::<()>().await;
                },
                () = self.reaches(validity.until()) => {}
                () = self.signed_out() => {}
            }
        }
    }

    /// Resolves when their session is ended.
    async fn signed_out(&self) {
        match self.admitted.session() {
            Some(session) => session.over().await,
            None => std::future::pending().await,
        }
    }

    /// Resolves when it is so late.
    async fn reaches(&self, at: Option<Timestamp>) {
        match at {
            Some(at) => self.clock.sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// The answer of this work, as long as whoever asked would still be let in when it is there. Work that goes on longer is
    /// dropped [soon](REVOKED_WAIT) after they would not be.
    pub(crate) async fn hold<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(work);
        let answer = tokio::select! {
            biased;
            answer = &mut work => Some(answer),
            () = self.revoked() => tokio::time::timeout(REVOKED_WAIT, &mut work).await.ok(),
        };
        // What came just now is dropped, too: a task in it goes back to its list.
        answer.filter(|_| self.is_good())
    }
}
