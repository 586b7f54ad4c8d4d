//! AWS Signature Version 4 in request headers: parsing and verification. `access` finds the signing key and checks
//! permissions.
//!
//! Source: AWS's documentation of Signature Version 4; the faults are those of AWS's JSON services.

use std::fmt::Write as _;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName, Uri};
use history::{Duration, Timestamp};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::fault::{FaultKind, SwfFault};

/// Beginning of the `Authorization` header of a signed request.
const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Last part of a signature's scope.
const TERMINATOR: &str = "aws4_request";

/// Service in a signature's scope.
const SERVICE: &str = "swf";

/// Header with the time of signing, according to the sender's clock.
const DATE: &str = "x-amz-date";

/// Prefix of headers that must be signed if they are present. One of these headers contains the operation. Source:
/// AWS's documentation. Headers without this prefix may be unsigned: version 2 of the AWS SDK for JavaScript does not
/// sign `content-type`.
const OWN_HEADERS: &str = "x-amz-";

/// Maximum difference between the sender's clock and the service's clock. Source: AWS's documentation (five minutes).
pub(super) const SKEW_MAX: Duration = Duration::from_secs(300);

/// Parsed signature from the headers of a request.
pub(super) struct Signature<'a> {
    /// Id of the signing key.
    pub(super) access_key_id: &'a str,
    /// Scope of the signature: day, region and service.
    scope: CredentialScope<'a>,
    signed_headers: &'a str,
    digits: &'a str,
    date: &'a str,
}

struct CredentialScope<'a> {
    day: &'a str,
    region: &'a str,
    service: &'a str,
}

fn incomplete(message: impl Into<String>) -> SwfFault {
    SwfFault::new(FaultKind::IncompleteSignature, message)
}

fn invalid(message: impl Into<String>) -> SwfFault {
    SwfFault::new(FaultKind::InvalidSignature, message)
}

fn credential(text: &str) -> Option<(&str, CredentialScope<'_>)> {
    // The text is split from its end, because a key id may contain slashes. The scope at the end always has four parts.
    let mut parts = text.rsplitn(5, '/');
    let is_terminated = parts.next()? == TERMINATOR;
    let (service, region, day, access_key_id) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    is_terminated.then_some((access_key_id, CredentialScope { day, region, service }))
}

impl<'a> Signature<'a> {
    /// Parses the signature in the headers of a request.
    ///
    /// # Errors
    ///
    /// `MissingAuthenticationTokenException` if there is no signature; `IncompleteSignatureException` if a part of it
    /// is missing.
    pub(super) fn read(headers: &'a HeaderMap) -> Result<Self, SwfFault> {
        let missing = || SwfFault::new(FaultKind::MissingAuthenticationToken, "Missing Authentication Token");
        let authorization = headers.get(AUTHORIZATION).ok_or_else(missing)?;
        let authorization = authorization.to_str().map_err(|_| missing())?;
        let parameters = authorization.strip_prefix(ALGORITHM).ok_or_else(missing)?;
        let (mut key, mut signed_headers, mut signature) = (None, None, None);
        for parameter in parameters.split(',') {
            match parameter.trim().split_once('=') {
                Some(("Credential", value)) => key = Some(value),
                Some(("SignedHeaders", value)) => signed_headers = Some(value),
                Some(("Signature", value)) => signature = Some(value),
                _ => {}
            }
        }
        let required = |name| incomplete(format!("Authorization header requires '{name}' parameter."));
        let key = key.ok_or_else(|| required("Credential"))?;
        let signature = signature.ok_or_else(|| required("Signature"))?;
        let signed_headers = signed_headers.ok_or_else(|| required("SignedHeaders"))?;
        let (access_key_id, scope) = credential(key).ok_or_else(|| {
            incomplete(format!(
                "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got \
                 '{key}'"
            ))
        })?;
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        let date =
            date.ok_or_else(|| incomplete("Authorization header requires existence of a 'X-Amz-Date' header."))?;
        Ok(Self { access_key_id, scope, signed_headers, digits: signature, date })
    }

    /// Checks the properties of the signature that do not depend on the body.
    ///
    /// # Errors
    ///
    /// `InvalidSignatureException` in one of these cases:
    ///
    /// * The signature is for a different day or service.
    /// * The sender's clock is too inaccurate.
    /// * A header that must be signed is not signed.
    pub(super) fn check_headers(&self, headers: &HeaderMap, now: Timestamp) -> Result<(), SwfFault> {
        self.check_date(now)?;
        self.check_scope()?;
        let ours = headers.keys().map(HeaderName::as_str).filter(|name| name.starts_with(OWN_HEADERS));
        for required in ["host", DATE].into_iter().chain(ours) {
            if !self.signed_headers.split(';').any(|name| name == required) {
                return Err(invalid(format!("'{required}' must be a 'SignedHeader' in the AWS Authorization.")));
            }
        }
        Ok(())
    }

    /// Verifies the signature of the whole request with the secret of the signing key.
    ///
    /// # Errors
    ///
    /// `InvalidSignatureException` if the signature does not match the request.
    pub(super) fn check(&self, secret: &str, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Result<(), SwfFault> {
        let expected = self.expected(secret, uri, headers, body);
        // `verify` compares in constant time.
        let found = unhex(self.digits).unwrap_or_default();
        expected.verify_slice(&found).map_err(|_| {
            invalid(
                "The request signature we calculated does not match the signature you provided. Check your AWS Secret \
                 Access Key and signing method. Consult the service documentation for details.",
            )
        })
    }

    fn check_scope(&self) -> Result<(), SwfFault> {
        let CredentialScope { day, service, .. } = self.scope;
        if service != SERVICE {
            return Err(invalid(format!("Credential should be scoped to correct service: '{SERVICE}'.")));
        }
        if self.date.get(..8) != Some(day) {
            let signed = self.date;
            return Err(invalid(format!(
                "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '{day}' != \
                 '{signed}'."
            )));
        }
        Ok(())
    }

    fn check_date(&self, now: Timestamp) -> Result<(), SwfFault> {
        let date = self.date;
        let malformed = || {
            incomplete(format!(
                "Date must be in ISO-8601 'basic format'. Got '{date}'. See http://en.wikipedia.org/wiki/ISO_8601"
            ))
        };
        let is_basic = date.len() == "20261121T141407Z".len() && date.is_ascii();
        let signed: Timestamp =
            Some(date).filter(|_| is_basic).and_then(|date| date.parse().ok()).ok_or_else(malformed)?;
        let minutes = SKEW_MAX.as_millis() / 60_000;
        if now.since(signed) > SKEW_MAX {
            let (now, oldest) =
                (basic(now), basic(Timestamp::from_millis(now.as_millis().saturating_sub(SKEW_MAX.as_millis()))));
            return Err(invalid(format!(
                "Signature expired: {date} is now earlier than {oldest} ({now} - {minutes} min.)"
            )));
        }
        if signed.since(now) > SKEW_MAX {
            let (newest, now) = (basic(now.plus(SKEW_MAX)), basic(now));
            return Err(invalid(format!(
                "Signature not yet current: {date} is still later than {newest} ({now} + {minutes} min.)"
            )));
        }
        Ok(())
    }

    /// Computes the expected signature of the request.
    fn expected(&self, secret: &str, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Hmac<Sha256> {
        let CredentialScope { day, region, service } = self.scope;
        let canonical = self.canonical(uri, headers, body);
        let text = format!(
            "{ALGORITHM}\n{}\n{day}/{region}/{service}/{TERMINATOR}\n{}",
            self.date,
            hex(&Sha256::digest(canonical.as_bytes()))
        );
        let mut key = format!("AWS4{secret}").into_bytes();
        for part in [day, region, service, TERMINATOR] {
            key = keyed(&key, part.as_bytes()).finalize().into_bytes().to_vec();
        }
        keyed(&key, text.as_bytes())
    }

    /// Returns the canonical form of the request, which consists of its target, the signed headers and the hash of
    /// the body.
    fn canonical(&self, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> String {
        let mut query: Vec<&str> = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).collect();
        query.sort_unstable();
        let mut text = format!("POST\n{}\n{}\n", uri.path(), query.join("&"));
        for name in self.signed_headers.split(';') {
            // The values of a repeated header are joined in the order in which they occur in the request. White space
            // in the values is collapsed.
            let values = headers.get_all(name).iter().map(|value| {
                let value = String::from_utf8_lossy(value.as_bytes());
                value.split_whitespace().collect::<Vec<_>>().join(" ")
            });
            let mut value = values.collect::<Vec<_>>().join(",");
            if name == "host" && value.is_empty() {
                value = uri.authority().map(ToString::to_string).unwrap_or_default();
            }
            let _ = writeln!(text, "{name}:{value}");
        }
        let _ = write!(text, "\n{}\n{}", self.signed_headers, hex(&Sha256::digest(body)));
        text
    }
}

fn keyed(key: &[u8], text: &[u8]) -> Hmac<Sha256> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text);
    mac
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = Some(text).filter(|text| text.is_ascii() && text.len() % 2 == 0)?;
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect()
}

/// Formats a timestamp in ISO 8601's basic format, with a precision of seconds.
fn basic(at: Timestamp) -> String {
    let text = at.to_string();
    let seconds = text.split('.').next().unwrap_or_default();
    seconds.chars().filter(|c| !matches!(c, '-' | ':')).chain(['Z']).collect()
}
