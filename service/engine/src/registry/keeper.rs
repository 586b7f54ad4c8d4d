//! Rotation of the secrets that sign tokens. The secrets in memory follow those in the store.
//!
//! A new secret is stored first and used a little later, so that every node knows it before it receives a token
//! signed with it. The previous secret stays valid for an overlap, so that runners and deciders can complete the
//! tasks they hold.

use std::sync::Arc;

use history::{Duration, Fault, Timestamp, limits};
use store::{Cas, Head};
use tokio::time::Instant;

use crate::base::background::Background;
use crate::base::records::Records;
use crate::base::token::Mint;
use crate::base::token::secrets::{RECORD, Secrets, draw};
use crate::{Clock, Limited, Refusal};

/// Default overlap in which tokens of the previous secret are valid. Our choice: nearly every task is completed within
/// a month. Operators with longer activities pass a longer overlap; zero revokes earlier tokens at once.
pub const SECRET_OVERLAP: Duration = Duration::from_days(30);

/// Maximum overlap. Source: a token may be used for as long as the longest timeout.
pub const SECRET_OVERLAP_MAX: Duration = limits::SPAN_MAX;

/// With several nodes: time between storing a new secret and its use. Our choice: three times [`READ_EVERY`], so that a
/// read may fail and clocks may differ by seconds.
const SETTLE: Duration = Duration::from_secs(15);

/// Interval at which a node reads the secrets. Our choice: it is a read of one small record.
const READ_EVERY: std::time::Duration = std::time::Duration::from_secs(5);

/// Maximum number of valid secrets. Our choice: an invalid token is checked against all of them.
const SECRETS_MAX: usize = 8;

/// Result of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotated {
    /// Start of the new secret's use for signing.
    pub from: Timestamp,
    /// End of the validity of earlier tokens.
    pub previous_until: Timestamp,
}

/// Keeper of the secrets that sign tokens, as they are in the store.
pub struct SecretKeeper {
    records: Records,
    clock: Arc<dyn Clock>,
    /// Whether other nodes also sign tokens.
    is_shared: bool,
    mint: Arc<Mint>,
}

impl SecretKeeper {
    pub(crate) fn new(records: Records, clock: Arc<dyn Clock>, is_shared: bool, mint: Arc<Mint>) -> Self {
        Self { records, clock, is_shared, mint }
    }

    /// Creates a new secret for signing task tokens and the pass of nodes. It is used at once, or with several
    /// nodes a little later. Earlier tokens stay valid for the overlap, by default [`SECRET_OVERLAP`], but not
    /// longer than an earlier rotation allowed.
    ///
    /// # Errors
    ///
    /// [`Refusal::LimitExceeded`] if too many secrets are still valid, a fault for an overlap that is too long, or
    /// the store's. Nothing was recorded, except possibly with [`Refusal::OutcomeUnknown`].
    pub async fn rotate(&self, overlap: Option<Duration>) -> Result<Rotated, Refusal> {
        let overlap = overlap.unwrap_or(SECRET_OVERLAP);
        if overlap > SECRET_OVERLAP_MAX {
            let (field, problem) = ("overlap".to_owned(), format!("is longer than {SECRET_OVERLAP_MAX}"));
            return Err(Fault::Invalid { field, problem }.into());
        }
        let bytes = draw(None)?;
        loop {
            let head = self.records.load(RECORD).await?;
            let head: Head = head.ok_or_else(|| Refusal::Corrupt { what: "there is no secret".to_owned() })?;
            let mut secrets = Secrets::read(&head.body)?;
            let now = self.clock.now();
            let from = if self.is_shared { now.plus(SETTLE) } else { now };
            secrets.rotate(&bytes, now, from, overlap);
            // With a zero overlap, the earlier secrets expire in a moment.
            if secrets.len() > SECRETS_MAX && overlap > Duration::ZERO {
                return Err(Refusal::LimitExceeded { what: Limited::Secrets, max: SECRETS_MAX });
            }
            if self.records.write(RECORD, Some(&head), &secrets).await? == Cas::Won {
                self.mint.set(&secrets);
                tracing::warn!(%from, %overlap, "the secret of task tokens was rotated");
                return Ok(Rotated { from, previous_until: from.plus(overlap) });
            }
        }
    }

    /// Reads the secrets, because another node may have added one.
    async fn read(&self) -> Result<(), Refusal> {
        if let Some(head) = self.records.load(RECORD).await? {
            self.mint.set(&Secrets::read(&head.body)?);
        }
        Ok(())
    }

    /// With several nodes, reads the secrets periodically until the service stops.
    pub(crate) fn start_reading(self: &Arc<Self>, background: &Arc<Background>) {
        if self.is_shared {
            let keeper = Arc::clone(self);
            background.keep("reading which secrets there are", move || Box::pin(Arc::clone(&keeper).keep_reading()));
        }
    }

    async fn keep_reading(self: Arc<Self>) {
        let mut at = Instant::now();
        loop {
            at += READ_EVERY;
            tokio::time::sleep_until(at).await;
            if let Err(refusal) = self.read().await {
                tracing::warn!(%refusal, "the record of secrets could not be read");
            }
        }
    }
}
