//! Keeps the secrets that tokens are made with as the store has them, and has another take the place of the present one.
//!
//! A new secret is written down first and used a little later, so that every node knows it before anybody shows a token
//! that was made with it; and the one before it stays good for an overlap, so that who holds a task can answer it.

use std::sync::Arc;

use history::{Duration, Fault, Timestamp, limits};
use store::{Cas, Head};
use tokio::time::Instant;

use crate::base::background::Background;
use crate::base::records::Records;
use crate::base::token::Mint;
use crate::base::token::secrets::{RECORD, Secrets, draw};
use crate::{Clock, Limited, Refusal};

/// How long tokens of the secret before are good, where nobody says. Ours: nearly every task is answered within a month;
/// who has activities that take longer says so, and who must not wait says zero.
pub const SECRET_OVERLAP: Duration = Duration::from_days(30);

/// Longest overlap. Source: a token may live as long as the longest timeout.
pub const SECRET_OVERLAP_MAX: Duration = limits::SPAN_MAX;

/// Where several nodes work over one store, how long a new secret is known before it is used. Ours: three times what
/// [`READ_EVERY`] takes, so that a read may fail, and clocks may differ by seconds.
const SETTLE: Duration = Duration::from_secs(15);

/// How often a node reads again which secrets there are. Ours: a read of one small record.
const READ_EVERY: std::time::Duration = std::time::Duration::from_secs(5);

/// Most secrets that are good at once. Ours: each token that is not known is held against all of them.
const SECRETS_MAX: usize = 8;

/// A new secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotated {
    /// From when on tokens are made with it.
    pub from: Timestamp,
    /// Until when those are good that were made before.
    pub previous_until: Timestamp,
}

/// Keeps the secrets that tokens are made with as the store has them.
pub struct SecretKeeper {
    records: Records,
    clock: Arc<dyn Clock>,
    /// Whether other nodes make tokens, too.
    is_shared: bool,
    mint: Arc<Mint>,
}

impl SecretKeeper {
    pub(crate) fn new(records: Records, clock: Arc<dyn Clock>, is_shared: bool, mint: Arc<Mint>) -> Self {
        Self { records, clock, is_shared, mint }
    }

    /// Makes another secret, which task tokens and the pass of nodes are made with from now on, where there are several nodes
    /// a little later. What was made before is good for the overlap, [`SECRET_OVERLAP`] unless given, and at most as long as
    /// an earlier rotation has said.
    ///
    /// # Errors
    ///
    /// [`Refusal::LimitExceeded`] where too many secrets are good still, a fault for an overlap that is too long, or the
    /// store's. Nothing was recorded, but for [`Refusal::OutcomeUnknown`].
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
            // With no overlap those before are good for a moment at the most.
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

    /// Reads which secrets there are: another node may have made one.
    async fn read(&self) -> Result<(), Refusal> {
        if let Some(head) = self.records.load(RECORD).await? {
            self.mint.set(&Secrets::read(&head.body)?);
        }
        Ok(())
    }

    /// Where other nodes make tokens, too, reads again and again which secrets there are, until the service stops.
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
