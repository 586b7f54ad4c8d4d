//! The secrets that task tokens and the pass of nodes are made with: where they are kept, and which of them is in use when.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use history::{Duration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use store::{Cas, Expect, Store};

use crate::Refusal;
use crate::base::records::{own_head, own_key};

/// The record's name in the store.
pub(crate) const RECORD: &str = "secret";

/// Bytes of a secret. Source: as many as the hash has that it keys.
const SECRET_BYTES: usize = 32;

/// Every secret that is good, the newest last. Not to be shown.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Secrets(Vec<TokenSecret>);

/// One of them.
#[skip_serializing_none]
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct TokenSecret {
    /// In base 64.
    key: String,
    /// Since when tokens are made with it.
    pub(crate) from: Timestamp,
    /// When those that were made with it are no longer good.
    pub(crate) until: Option<Timestamp>,
}

impl TokenSecret {
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
        Self(vec![TokenSecret::new(bytes, Timestamp::default())])
    }

    /// The record: as long as there was only one, it was nothing but its bytes.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Refusal> {
        if body.len() == SECRET_BYTES {
            return Ok(Self::of(body));
        }
        let corrupt = |what: String| Refusal::Corrupt { what: format!("the record of secrets: {what}") };
        // What serde says of it would show a part of it.
        let Self(secrets) = history::read_json(body).map_err(|_| corrupt("it is no list of them".to_owned()))?;
        let is_whole = |secret: &TokenSecret| secret.bytes().len() == SECRET_BYTES;
        if secrets.is_empty() || !secrets.iter().all(is_whole) {
            return Err(corrupt("one has not the bytes that it should have".to_owned()));
        }
        Ok(Self(secrets))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &TokenSecret> {
        self.0.iter()
    }

    /// Has another one be the newest from `from` on, those before it good for so much longer; those that are over go.
    pub(crate) fn rotate(&mut self, bytes: &[u8], now: Timestamp, from: Timestamp, overlap: Duration) {
        let until = from.plus(overlap);
        self.0.retain(|secret| secret.until.is_none_or(|until| now < until));
        for secret in &mut self.0 {
            secret.until = Some(secret.until.map_or(until, |before| before.min(until)));
        }
        self.0.push(TokenSecret::new(bytes, from));
    }
}

pub(crate) fn draw(seed: Option<u64>) -> Result<[u8; SECRET_BYTES], Refusal> {
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
