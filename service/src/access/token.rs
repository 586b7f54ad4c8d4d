//! Verification of tokens: their signature, their claims, and the permissions that the claims grant.
//!
//! Source: RFC 7519 (tokens), RFC 8725 (security considerations).

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use history::{CallerName, Duration, Timestamp};
use jsonwebtoken::dangerous::insecure_decode;
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Validation, decode, decode_header};
use lru::LruCache;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::issuer::{ClaimGrant, Terms};
use super::jwks::KeySet;
use super::remote::RemoteKeys;
use super::secret::{Moment, Validity};
use super::{Holder, Issuer};

/// Tolerated difference between the clocks of an issuer and the service. Our choice: the default of common libraries;
/// synchronized clocks differ by less than a second.
pub const LEEWAY: Duration = Duration::from_secs(60);

/// Maximum size of a token in bytes. Our choice: enough for the token of a person in two hundred groups.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Maximum number of verified tokens that are cached per issuer. Our choice: more than there are callers with a
/// request in progress; each takes some hundred bytes.
pub const VERIFIED_MAX: usize = 4_096;

/// Accepted values of a token's `typ`. A token without `typ` is accepted, too. Tokens of other types, such as logout
/// tokens (`logout+jwt`) and proofs of possession (`dpop+jwt`), are refused. They are signed with the same keys but
/// were not issued to grant access.
///
/// Source: RFC 8725, section 3.11 (explicit typing); RFC 9068, section 2.1 (`at+jwt`); RFC 7515, section 4.1.9
/// (`application/`).
const TYPES: [&str; 2] = ["JWT", "at+jwt"];

/// Claim with a key. The sender of a token with this claim must prove that it possesses the key. Source: RFC 7800,
/// section 3.1.
const CONFIRMATION: &str = "cnf";

/// Caller that a trusted token identifies, with its validity and permissions.
#[derive(Clone)]
pub(super) struct Verified {
    pub(super) who: CallerName,
    /// Permissions of the token; `None` if no rule grants any.
    pub(super) holder: Option<Arc<Holder>>,
    pub(super) validity: Validity,
}

/// Reason for not trusting a token.
pub(super) enum TokenError {
    /// The token is invalid. The reason is logged, but not sent to the client, which may have forged the token.
    Wrong(String),
    /// The issuer has no known key with this id, but may have published it since its keys were last fetched.
    UnknownKey(Arc<RemoteKeys>, String),
}

/// Issuer with its keys.
pub(super) struct Trusted {
    pub(super) terms: Arc<Terms>,
    pub(super) keys: Arc<KeySet>,
    verified: Mutex<LruCache<[u8; 32], Verified>>,
}

impl std::fmt::Debug for Trusted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trusted").field("terms", &self.terms).finish_non_exhaustive()
    }
}

/// Part of a token's claims that names the issuer.
#[derive(Deserialize)]
struct Account {
    iss: String,
}

/// Returns the issuer that a token names, without verifying the token.
pub(super) fn account_of(token: &str) -> Result<String, &'static str> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err("it is too long");
    }
    insecure_decode::<Account>(token).map(|read| read.claims.iss).map_err(|error| words(&error))
}

/// Returns whether a text has the form of a token rather than of a secret: three parts, separated by dots.
pub(super) fn is_token(text: &str) -> bool {
    text.bytes().filter(|byte| *byte == b'.').count() == 2
}

impl Trusted {
    pub(super) fn read<'a>(written: Issuer, before: impl Iterator<Item = &'a Arc<RemoteKeys>>) -> Result<Self, String> {
        let (terms, keys) = Terms::read(written, before)?;
        Ok(Self::with(Arc::new(terms), keys))
    }

    /// Creates an issuer with these keys. Its cache of verified tokens is empty, so that tokens verified with previous
    /// keys are verified again.
    pub(super) fn with(terms: Arc<Terms>, keys: Arc<KeySet>) -> Self {
        let verified = LruCache::new(NonZeroUsize::new(VERIFIED_MAX).unwrap_or(NonZeroUsize::MIN));
        Self { terms, keys, verified: Mutex::new(verified) }
    }

    /// Verifies this token, whose SHA-256 is `digest`. The validity period is not checked.
    pub(super) fn verify(&self, token: &str, digest: &[u8; 32]) -> Result<Verified, TokenError> {
        let known = self.verified.lock().unwrap_or_else(PoisonError::into_inner).get(digest).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let claims = self.claims(token)?;
        let verified = self.judge(&claims).map_err(|why| self.wrong(&why))?;
        self.verified.lock().unwrap_or_else(PoisonError::into_inner).put(*digest, verified.clone());
        Ok(verified)
    }

    fn wrong(&self, why: &str) -> TokenError {
        TokenError::Wrong(format!("a token of issuer `{}`: {why}", self.terms.name))
    }

    /// Returns the claims of a token, after checking its signature, issuer and audience.
    fn claims(&self, token: &str) -> Result<Map<String, Value>, TokenError> {
        let terms = &self.terms;
        let header = decode_header(token).map_err(|error| self.wrong(words(&error)))?;
        if header.crit.is_some() {
            return Err(self.wrong("it has a critical header (`crit`) that is not supported"));
        }
        if !header.typ.as_deref().is_none_or(is_accepted_type) {
            return Err(self.wrong("its `typ` is neither `JWT` nor `at+jwt`: it has another purpose"));
        }
        if !terms.algorithms.contains(&header.alg) {
            return Err(self.wrong("its algorithm is not accepted for this issuer"));
        }
        let id = header.kid.as_deref();
        let Some(key) = self.keys.find(id, header.alg) else {
            return Err(match &terms.remote {
                Some(remote) if !self.keys.knows(id) => TokenError::UnknownKey(Arc::clone(remote), terms.name.clone()),
                _ => self.wrong("its key is not a key of this issuer for this algorithm"),
            });
        };
        let mut validation = Validation::new(header.alg);
        validation.set_issuer(&[&terms.issuer]);
        validation.set_audience(&terms.audiences);
        validation.set_required_spec_claims(&["iss", "aud"]);
        // The validity period is checked later, by the service's clock.
        (validation.validate_exp, validation.validate_nbf) = (false, false);
        let read = decode::<Map<String, Value>>(token, key, &validation);
        read.map(|read| read.claims).map_err(|error| self.wrong(words(&error)))
    }

    /// Returns the caller's name, the validity and the permissions that these claims of a token determine.
    fn judge(&self, claims: &Map<String, Value>) -> Result<Verified, String> {
        let terms = &self.terms;
        if claims.contains_key(CONFIRMATION) {
            return Err(format!("it has `{CONFIRMATION}`, which binds it to a key; the service does not support that"));
        }
        let validity = validity(claims)?;
        let own = claims.get(&terms.name_claim).and_then(Value::as_str);
        let own = own.ok_or_else(|| format!("its claim `{}` is not a string", terms.name_claim))?;
        let who = terms.caller(own).map_err(|why| format!("its claim `{}`: {why}", terms.name_claim))?;
        let nobody = || Holder::nobody(who.clone());
        let grants = terms.grants.iter().filter(|grant| grant.applies(claims));
        let holder = grants.fold(None, |may: Option<Holder>, grant| Some(may.unwrap_or_else(nobody).and(&grant.may)));
        Ok(Verified { who, holder: holder.map(Arc::new), validity })
    }
}

impl ClaimGrant {
    fn applies(&self, claims: &Map<String, Value>) -> bool {
        match claims.get(&self.claim) {
            Some(Value::String(text)) => *text == self.has,
            Some(Value::Array(entries)) => entries.iter().any(|entry| entry.as_str() == Some(&self.has)),
            None | Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => false,
        }
    }
}

/// Returns whether tokens of this `typ` can grant access.
fn is_accepted_type(typ: &str) -> bool {
    const PREFIX: &str = "application/";
    let has_prefix = typ.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX));
    let name = if has_prefix { &typ[PREFIX.len()..] } else { typ };
    TYPES.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns the validity period of a token. Fails if the token has no expiry.
fn validity(claims: &Map<String, Value>) -> Result<Validity, String> {
    let seconds = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => seconds(value).map(Some).ok_or_else(|| format!("its `{name}` is not a number of seconds")),
    };
    let leeway = LEEWAY.as_millis();
    let until = seconds("exp")?.ok_or_else(|| "it has no `exp`, so it would never expire".to_owned())?;
    let until = Timestamp::from_millis(until.saturating_mul(1_000).saturating_add(leeway));
    let from = seconds("nbf")?.map(|from| Timestamp::from_millis(from.saturating_mul(1_000).saturating_sub(leeway)));
    Validity::read(from.map(Moment), Some(Moment(until)))
}

/// Parses a time in the form of RFC 7519: a number of seconds. A fraction is ignored.
fn seconds(value: &Value) -> Option<u64> {
    let whole = || {
        let text = value.as_f64().filter(|it| it.is_finite() && *it >= 0.0)?.trunc().to_string();
        text.parse().ok()
    };
    value.as_u64().or_else(whole)
}

/// Describes an error in words that contain no part of the token.
fn words(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::InvalidSignature => "its signature is wrong",
        ErrorKind::InvalidAudience => "it is for another audience",
        ErrorKind::InvalidIssuer => "its issuer is unknown",
        ErrorKind::MissingRequiredClaim(_) => "it lacks `iss` or `aud`",
        ErrorKind::InvalidToken | ErrorKind::Base64(_) | ErrorKind::Json(_) | ErrorKind::Utf8(_) => "it is malformed",
        _ => "it is invalid",
    }
}
