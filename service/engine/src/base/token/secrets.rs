//! Secrets that sign task tokens and authenticate nodes: the period in which each secret is used, and their record in
//! the store.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use history::{Duration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use store::{Cas, Expect, Store};

use crate::Refusal;
use crate::base::records::{own_head, own_key};

/// Name of the record in the store.
pub(crate) const RECORD: &str = "secret";

/// Number of bytes of a secret. Source: the size of the hash that uses it as its key.
const SECRET_BYTES: usize = 32;

/// All valid secrets, newest last. They must not be logged.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Secrets(Vec<TokenSecret>);

/// A secret with the period in which it is used.
#[skip_serializing_none]
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct TokenSecret {
    /// The secret, encoded in Base64.
    key: String,
    /// Time from which the secret is used for signing.
    pub(crate) from: Timestamp,
    /// Time until which the secret's signatures are valid; `None` if they do not expire.
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
    /// Creates a list with one secret, which never expires.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(vec![TokenSecret::new(bytes, Timestamp::default())])
    }

    /// Decodes the record. Earlier versions of the service stored one secret, as its bytes without JSON.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Refusal> {
        if body.len() == SECRET_BYTES {
            return Ok(Self::of(body));
        }
        let corrupt = |what: String| Refusal::Corrupt { what: format!("the record of secrets: {what}") };
        // The original error text may contain part of the secret, so it is dropped.
        let Self(secrets) = history::read_json(body).map_err(|_| corrupt("it is not a list of secrets".to_owned()))?;
        let is_whole = |secret: &TokenSecret| secret.bytes().len() == SECRET_BYTES;
        if secrets.is_empty() || !secrets.iter().all(is_whole) {
            return Err(corrupt("a secret has the wrong length".to_owned()));
        }
        Ok(Self(secrets))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &TokenSecret> {
        self.0.iter()
    }

    /// Adds a secret that is used for signing from the time `from`. The existing secrets remain valid for `overlap`
    /// after `from`. Expired secrets are removed.
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
        None => getrandom::fill(&mut bytes).map_err(|error| Refusal::Unavailable {
            why: format!("random numbers are unavailable: {error}"),
            retry_after: None,
        })?,
    }
    Ok(bytes)
}

/// Reads the secrets from the store. Creates the first secret if there is none.
pub(crate) async fn secrets(store: &dyn Store, seed: Option<u64>) -> Result<Secrets, Refusal> {
    let key = own_key(RECORD);
    if let Some(head) = store.load(&key).await? {
        return Secrets::read(&head.body);
    }
    let head = own_head(None, Bytes::copy_from_slice(&draw(seed)?));
    match store.commit(&key, Expect::Absent, &head, &[]).await? {
        Cas::Won => Secrets::read(&head.body),
        Cas::Lost(Some(other)) => Secrets::read(&other.body),
        Cas::Lost(None) => Err(Refusal::Unavailable {
            why: "the secret was deleted while it was created".to_owned(),
            retry_after: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Timestamp {
        Timestamp::default().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn the_record_without_a_rotation_is_the_bare_secret() {
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
    fn earlier_secrets_stay_valid_for_the_shorter_overlap() {
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
