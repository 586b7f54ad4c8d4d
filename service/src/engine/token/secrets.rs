//! The secrets that task tokens and the pass of nodes are made with: where they are kept, which of them is in use when, and
//! how another one takes the place of the present one.
//!
//! A new secret is written down first and used a little later, so that every node knows it before anybody shows a token
//! that was made with it; and the one before it stays good for an overlap, so that who holds a task can answer it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use history::{Duration, Fault, Timestamp, limits};
use serde::{Deserialize, Serialize};
use store::{Cas, Expect, Head, Store};
use tokio::time::Instant;

use crate::engine::nodes::Nodes;
use crate::engine::registry::{Records, own_head, own_key};
use crate::engine::token::Mint;
use crate::engine::{Clock, Limited, Refusal};

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

/// The record's name in the store.
const RECORD: &str = "secret";

/// Bytes of a secret. Source: as many as the hash has that it keys.
const SECRET_BYTES: usize = 32;

/// Every secret that is good, the newest last. Not to be shown.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Secrets(Vec<Secret>);

/// One of them.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Secret {
    /// In base 64.
    key: String,
    /// Since when tokens are made with it.
    pub(crate) from: Timestamp,
    /// When those that were made with it are no longer good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<Timestamp>,
}

impl Secret {
    fn new(bytes: &[u8], from: Timestamp) -> Self {
        Self { key: STANDARD.encode(bytes), from, until: None }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        STANDARD.decode(&self.key).unwrap_or_default()
    }
}

impl Secrets {
    /// One secret, for ever.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(vec![Secret::new(bytes, Timestamp::default())])
    }

    /// The record: as long as there was only one, it was nothing but its bytes.
    fn read(body: &[u8]) -> Result<Self, Refusal> {
        if body.len() == SECRET_BYTES {
            return Ok(Self::of(body));
        }
        let corrupt = |what: String| Refusal::Corrupt { what: format!("the record of secrets: {what}") };
        // What serde says of it would show a part of it.
        let Self(secrets) = serde_json::from_slice(body).map_err(|_| corrupt("it is no list of them".to_owned()))?;
        let is_whole = |secret: &Secret| secret.bytes().len() == SECRET_BYTES;
        if secrets.is_empty() || !secrets.iter().all(is_whole) {
            return Err(corrupt("one has not the bytes that it should have".to_owned()));
        }
        Ok(Self(secrets))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Secret> {
        self.0.iter()
    }

    /// Has another one be the newest from `from` on, those before it good for so much longer; those that are over go.
    fn rotate(&mut self, bytes: &[u8], now: Timestamp, from: Timestamp, overlap: Duration) {
        let until = from.plus(overlap);
        self.0.retain(|secret| secret.until.is_none_or(|until| now < until));
        for secret in &mut self.0 {
            secret.until = Some(secret.until.map_or(until, |before| before.min(until)));
        }
        self.0.push(Secret::new(bytes, from));
    }
}

/// A new secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotated {
    /// From when on tokens are made with it.
    pub from: Timestamp,
    /// Until when those are good that were made before.
    pub previous_until: Timestamp,
}

fn draw(seed: Option<u64>) -> Result<[u8; SECRET_BYTES], Refusal> {
    let mut bytes = [0; SECRET_BYTES];
    match seed {
        Some(seed) => fastrand::Rng::with_seed(seed).fill(&mut bytes),
        None => getrandom::fill(&mut bytes)
            .map_err(|error| Refusal::Unavailable { why: format!("no random numbers: {error}"), retry_after: None })?,
    }
    Ok(bytes)
}

/// The secrets; the first is made at the first start.
pub(crate) async fn secrets(store: &dyn Store, seed: Option<u64>) -> Result<Secrets, Refusal> {
    let key = own_key(RECORD);
    if let Some(head) = store.load(&key).await? {
        return Secrets::read(&head.body);
    }
    let head = own_head(None, Bytes::copy_from_slice(&draw(seed)?));
    match store.commit(&key, Expect::Absent, &head, &[]).await? {
        Cas::Won => Secrets::read(&head.body),
        Cas::Lost(Some(other)) => Secrets::read(&other.body),
        Cas::Lost(None) => Err(Refusal::Unavailable { why: "the secret vanished".to_owned(), retry_after: None }),
    }
}

/// Keeps the secrets that tokens are made with as the store has them.
pub(crate) struct SecretKeeper {
    records: Records,
    clock: Arc<dyn Clock>,
    nodes: Arc<Nodes>,
    mint: Arc<Mint>,
}

impl SecretKeeper {
    pub(crate) fn new(records: Records, clock: Arc<dyn Clock>, nodes: Arc<Nodes>, mint: Arc<Mint>) -> Self {
        Self { records, clock, nodes, mint }
    }

    /// Makes another secret, which task tokens and the pass of nodes are made with from now on, where there are several nodes
    /// a little later. What was made before is good for the overlap, [`SECRET_OVERLAP`] unless given, and at most as long as
    /// an earlier rotation has said.
    ///
    /// # Errors
    ///
    /// [`Refusal::LimitExceeded`] where too many secrets are good still, a fault for an overlap that is too long, or the
    /// store's. Nothing was recorded, but for [`Refusal::OutcomeUnknown`].
    pub(crate) async fn rotate(&self, overlap: Option<Duration>) -> Result<Rotated, Refusal> {
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
            let from = if self.nodes.is_shared() { now.plus(SETTLE) } else { now };
            secrets.rotate(&bytes, now, from, overlap);
            // With no overlap those before are good for a moment at the most.
            if secrets.0.len() > SECRETS_MAX && overlap > Duration::ZERO {
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

    /// Reads again and again which secrets there are, until the service stops.
    pub(crate) async fn keep_reading(&self) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Timestamp {
        Timestamp::default().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn the_record_of_a_service_that_has_never_rotated_is_its_secret_alone() {
        let Secrets(secrets) = Secrets::read(&[7; 32]).ok().unwrap();
        assert_eq!(secrets.len(), 1);
        assert_eq!((secrets[0].bytes(), secrets[0].from, secrets[0].until), (vec![7; 32], Timestamp::default(), None));
        assert!(Secrets::read(b"").is_err());
        assert!(Secrets::read(b"[]").is_err());
        let short = r#"[{"key":"c2VjcmV0","from":"2026-01-01T00:00:00.000Z"}]"#;
        let refused = Secrets::read(short.as_bytes()).err().unwrap().to_string();
        assert!(!refused.contains("c2Vj"), "{refused}");
    }

    #[test]
    fn a_rotation_lets_those_before_be_good_for_its_overlap_and_no_longer_than_was_said() {
        let mut secrets = Secrets::of(&[1; 32]);
        secrets.rotate(&[2; 32], seconds(10), seconds(10), Duration::from_secs(100));
        secrets.rotate(&[3; 32], seconds(20), seconds(20), Duration::from_secs(1_000));
        let until: Vec<_> = secrets.iter().map(|secret| secret.until).collect();
        assert_eq!(until, [Some(seconds(110)), Some(seconds(1_020)), None]);
        let stored = serde_json::to_vec(&secrets).unwrap();
        let mut secrets = Secrets::read(&stored).ok().unwrap();
        secrets.rotate(&[4; 32], seconds(200), seconds(215), Duration::ZERO);
        let found: Vec<_> = secrets.iter().map(|secret| (secret.bytes()[0], secret.until)).collect();
        assert_eq!(found, [(2, Some(seconds(215))), (3, Some(seconds(215))), (4, None)]);
    }
}
