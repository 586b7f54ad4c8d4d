//! Rotation of the secrets that sign tokens. The secrets in memory are periodically read again from the store.
//!
//! A new secret is stored first and used for signing some seconds later. Every node therefore knows the secret before
//! it receives a token signed with it. The previous secret stays valid for an overlap period, so that deciders and
//! runners can complete the tasks that they already have.

use std::sync::Arc;

use history::{Duration, Fault, Timestamp, limits};
use store::{Cas, Head};
use tokio::time::Instant;

use crate::base::background::Background;
use crate::base::records::Records;
use crate::base::token::Mint;
use crate::base::token::secrets::{RECORD, Secrets, draw};
use crate::{Clock, Limited, Refusal};

/// Default overlap period, during which tokens signed with the previous secret are valid. Our choice: nearly every task
/// is completed within a month. Operators with longer activities specify a longer period. An overlap period of zero
/// invalidates all earlier tokens at once.
pub const SECRET_OVERLAP: Duration = Duration::from_days(30);

/// Maximum overlap period. Source: the longest timeout of a task, during which its token may be used.
pub const SECRET_OVERLAP_MAX: Duration = limits::SPAN_MAX;

/// Time between storing a new secret and using it, if nodes share the store. Our choice: three times [`READ_EVERY`], so
/// that one read may fail and clocks may differ by seconds.
const SETTLE: Duration = Duration::from_secs(15);

/// Interval at which a node reads the secrets from the store. Our choice: short, because reading one small record is
/// cheap.
const READ_EVERY: std::time::Duration = std::time::Duration::from_secs(5);

/// Maximum number of valid secrets. Our choice: small, because an invalid token is checked against each of them.
const SECRETS_MAX: usize = 8;

/// Result of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotated {
    /// Time from which the new secret is used for signing.
    pub from: Timestamp,
    /// Time until which tokens signed with the previous secret are valid.
    pub previous_until: Timestamp,
}

/// Keeps the secrets in memory equal to those in the store, and rotates them.
pub struct SecretKeeper {
    records: Records,
    clock: Arc<dyn Clock>,
    /// True if other nodes may also sign tokens.
    is_shared: bool,
    mint: Arc<Mint>,
}

impl SecretKeeper {
    pub(crate) fn new(records: Records, clock: Arc<dyn Clock>, is_shared: bool, mint: Arc<Mint>) -> Self {
        Self { records, clock, is_shared, mint }
    }

    /// Creates a new secret for signing task tokens and for authentication between nodes. The secret is used at once,
    /// or some seconds later if nodes share the store. Earlier tokens stay valid for the overlap period, by default
    /// [`SECRET_OVERLAP`]. If an earlier rotation has set an earlier end for some tokens, that end still applies.
    ///
    /// # Errors
    ///
    /// [`Refusal::LimitExceeded`] if too many secrets are still valid, a fault for an overlap period that is too long,
    /// or an error of the store. Nothing is recorded, but after [`Refusal::OutcomeUnknown`] the new secret may be
    /// recorded.
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
            // With an overlap period of zero, the earlier secrets expire immediately and need not be counted.
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

    /// Reads the secrets from the store, because another node may have added one.
    async fn read(&self) -> Result<(), Refusal> {
        if let Some(head) = self.records.load(RECORD).await? {
            self.mint.set(&Secrets::read(&head.body)?);
        }
        Ok(())
    }

    /// If nodes share the store, reads the secrets periodically until the service stops.
    pub(crate) fn start_reading(self: &Arc<Self>, background: &Arc<Background>) {
        if self.is_shared {
            let keeper = Arc::clone(self);
            background.keep("reading the secrets of task tokens", move || Box::pin(Arc::clone(&keeper).keep_reading()));
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
