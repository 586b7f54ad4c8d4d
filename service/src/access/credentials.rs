//! The credentials and issuers in force. They form one set. Each request reads the set once, and a change replaces the
//! whole set.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use history::Timestamp;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::remote::{Fetching, KEYS_REFETCH_WAIT, RemoteKeys};
use super::secret::{EXPIRY_WARNING, SecretStatus, Validity};
use super::session::{BegunSession, Session, Sessions};
use super::set::{AuthenticatedBy, Set, Stanzas};
use super::token::TokenError;
use super::{Denials, Holder, HolderLevels};
use crate::tls::Peer;
use engine::Engine;

/// Number of leading hexadecimal digits of a secret's hash that identify the secret in output for people. Our choice:
/// enough to distinguish the secrets of a service, and too few to help in guessing one.
pub const PREFIX_DIGITS: usize = 12;

/// All credentials and issuers of a service. Clones refer to the same set, so that [`replace`](Self::replace) affects
/// all clones.
#[derive(Debug, Clone, Default)]
pub struct Credentials(Arc<CredentialsState>);

#[derive(Debug, Default)]
struct CredentialsState {
    set: watch::Sender<Arc<Set>>,
    denials: Denials,
    sessions: Sessions,
}

/// Authenticated caller.
#[derive(Clone)]
pub(crate) struct Principal {
    pub(super) holder: Arc<Holder>,
    method: AuthenticatedBy,
    validity: Validity,
    /// Set of credentials that was in force when the caller was authenticated.
    set: Arc<Set>,
    /// Session to which the request's cookie belongs; `None` if the caller did not authenticate by a cookie.
    session: Option<Session>,
}

/// Kind of secret that has a validity period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CredentialKind {
    Secret,
    Token,
}

/// Reason for an authentication failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AuthenticationError {
    /// The request has no credential, or an unknown one.
    Unknown,
    /// The session that the cookie names has ended or never existed.
    SessionExpired,
    /// The secret or token is correct, but has expired.
    Expired { what: CredentialKind, who: String, since: Timestamp },
    /// The secret or token is correct, but not valid yet.
    NotYetValid { what: CredentialKind, who: String, from: Timestamp },
    /// The token is not trusted. The reason is logged, but not sent to the client.
    Token { why: String },
    /// The token is trusted, but no rule grants it permissions.
    NoRule { who: String },
    /// The connection's certificate belongs to no credential, and the request authenticates in no other way.
    Certificate { shown: String, why: String },
}

impl AuthenticationError {
    /// Returns the name of the credential, if known.
    pub(crate) fn who(&self) -> Option<&str> {
        match self {
            Self::Unknown | Self::SessionExpired | Self::Certificate { .. } | Self::Token { .. } => None,
            Self::Expired { who, .. } | Self::NotYetValid { who, .. } | Self::NoRule { who } => Some(who),
        }
    }
}

/// Reason why a token was rejected.
enum TokenRejection {
    No(AuthenticationError),
    /// The token names a key that is unknown. The issuer may have published it since its keys were last fetched.
    UnknownKey(Arc<RemoteKeys>, String),
}

impl TokenRejection {
    fn into_authentication_error(self) -> AuthenticationError {
        match self {
            Self::No(no) => no,
            Self::UnknownKey(_, name) => AuthenticationError::Token {
                why: format!("a token of issuer `{name}`: its key does not belong to this issuer"),
            },
        }
    }
}

/// Secret that expires soon.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expiring {
    /// Name of the credential.
    pub name: String,
    /// Identifier of the secret: the first digits of a bearer secret's hash, or the id of a signing key.
    pub secret: String,
    /// Time of expiry.
    pub until: Timestamp,
}

impl Credentials {
    /// Parses credentials and issuers of the configuration.
    ///
    /// # Errors
    ///
    /// Fails, naming the credential or issuer, for:
    ///
    /// * an issuer whose keys cannot be read from their file, or that could authenticate no caller
    /// * a hash that is not 64 hexadecimal digits, a task list that is not `domain/list`, or a signing key without its
    ///   id or secret
    /// * a credential without secrets, keys and certificates, or without permissions
    /// * an empty name
    /// * two credentials with the same name, key id or secret
    pub fn new(stanzas: impl Into<Stanzas>) -> Result<Self, String> {
        let set = Arc::new(Set::read(stanzas.into(), &Set::default())?);
        Ok(Self(Arc::new(CredentialsState { set: watch::Sender::new(set), ..CredentialsState::default() })))
    }

    /// Replaces the credentials and issuers. The new ones apply from the next request.
    ///
    /// # Errors
    ///
    /// Fails in the cases in which [`new`](Self::new) fails. Also fails if the new set is empty and the current one is
    /// not, because then callers would no longer be authenticated. The current set then stays in force.
    pub fn replace(&self, stanzas: impl Into<Stanzas>) -> Result<(), String> {
        let set = Set::read(stanzas.into(), &self.now())?;
        if set.is_empty() && !self.is_empty() {
            let why = "no credentials are left, so that anyone would have full access";
            return Err(format!("{why}; restart the service if that is intended"));
        }
        // Issuers' keys may have been fetched while the new set was being parsed. Those keys are added to the new set.
        self.0.set.send_modify(|in_force| *in_force = Arc::new(set.with_fetched_keys().unwrap_or(set)));
        Ok(())
    }

    /// Returns the domains that credentials and rules of issuers name, each with a description of the first credential
    /// or issuer that names it.
    pub fn domains(&self) -> BTreeMap<String, String> {
        self.now().domains()
    }

    /// Returns true if no credentials exist. Callers are then not authenticated.
    pub fn is_empty(&self) -> bool {
        self.0.set.borrow().is_empty()
    }

    fn now(&self) -> Arc<Set> {
        Arc::clone(&self.0.set.borrow())
    }

    /// Returns a receiver that is notified when the set is replaced.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<Set>> {
        self.0.set.subscribe()
    }

    /// Authenticates a caller by the secret in the `Authorization` header. If the request has no such header,
    /// authenticates the caller by the certificate of its connection.
    pub(crate) fn admit(
        &self,
        headers: &HeaderMap,
        peer: Option<&Arc<Peer>>,
        now: Timestamp,
    ) -> Result<Principal, AuthenticationError> {
        match peer {
            Some(peer) if !headers.contains_key(AUTHORIZATION) => self.admit_certified(peer),
            _ => self.admit_bearer(headers, now),
        }
    }

    fn admit_certified(&self, peer: &Arc<Peer>) -> Result<Principal, AuthenticationError> {
        let set = self.now();
        let holder =
            set.certified(peer).map_err(|why| AuthenticationError::Certificate { shown: peer.to_string(), why })?;
        let (holder, method) = (Arc::clone(holder), AuthenticatedBy::Certificate(Arc::clone(peer)));
        Ok(Principal { holder, method, validity: Validity::default(), set: Arc::clone(&set), session: None })
    }

    fn admit_bearer(&self, headers: &HeaderMap, now: Timestamp) -> Result<Principal, AuthenticationError> {
        let secret = bearer(headers).ok_or(AuthenticationError::Unknown)?;
        let (set, method) = (self.now(), AuthenticatedBy::Secret(Sha256::digest(secret.as_bytes()).into()));
        let (holder, validity) = set.find(&method).ok_or(AuthenticationError::Unknown)?;
        let admitted = Principal { holder, method, validity, set: Arc::clone(&set), session: None };
        admitted.check_validity(now)?;
        Ok(admitted)
    }

    /// Authenticates like [`admit`](Self::admit), and also accepts tokens of issuers. If the key of a token is unknown,
    /// the issuer's keys are fetched first, within a rate limit.
    pub(crate) async fn admit_with_token(
        &self,
        headers: &HeaderMap,
        peer: Option<&Arc<Peer>>,
        engine: &Arc<Engine>,
    ) -> Result<Principal, AuthenticationError> {
        let (found, now) = (self.admit(headers, peer, engine.clock().now()), engine.clock().now());
        let token = bearer(headers).filter(|shown| {
            found.as_ref().err() == Some(&AuthenticationError::Unknown) && self.now().may_be_token(shown)
        });
        let Some(token) = token else { return found };
        let digest = Sha256::digest(token.as_bytes()).into();
        match self.admit_token(token, digest, now) {
            Err(TokenRejection::UnknownKey(remote, name)) => {
                self.fetch_keys(&remote, &name, engine).await;
                self.admit_token(token, digest, now).map_err(TokenRejection::into_authentication_error)
            }
            judged => judged.map_err(TokenRejection::into_authentication_error),
        }
    }

    fn admit_token(&self, token: &str, digest: [u8; 32], now: Timestamp) -> Result<Principal, TokenRejection> {
        let set = self.now();
        let verified = set.verify_token(token, &digest).map_err(|disbelief| match disbelief {
            TokenError::Wrong(why) => TokenRejection::No(AuthenticationError::Token { why }),
            TokenError::UnknownKey(remote, name) => TokenRejection::UnknownKey(remote, name),
        })?;
        check_validity(verified.validity, CredentialKind::Token, verified.who.as_str(), now)
            .map_err(TokenRejection::No)?;
        let who = || AuthenticationError::NoRule { who: verified.who.to_string() };
        let holder = verified.holder.ok_or_else(who).map_err(TokenRejection::No)?;
        Ok(Principal {
            holder,
            method: AuthenticatedBy::Token(token.into(), digest),
            validity: verified.validity,
            set,
            session: None,
        })
    }

    /// Fetches an issuer's keys, unless a fetch has begun recently. When the future resolves, the fetched keys are in
    /// force.
    fn fetch_keys(&self, remote: &Arc<RemoteKeys>, name: &str, engine: &Arc<Engine>) -> Fetching {
        let (credentials, engine, issuer) = (self.clone(), Arc::clone(engine), name.to_owned());
        remote.fetch(name, move |is_fetched| {
            engine.metrics().issuer_keys_fetched(&issuer, is_fetched);
            credentials.0.set.send_if_modified(|set| {
                let others = set.with_fetched_keys();
                let is_other = others.is_some();
                if let Some(others) = others {
                    *set = Arc::new(others);
                }
                is_other
            });
        })
    }

    /// Fetches the keys of issuers when the last fetch was too long ago or has failed. Never returns.
    pub async fn keep_keys(self, engine: Arc<Engine>) {
        let mut changes = self.changes();
        loop {
            let set = self.now();
            for (name, remote) in set.named_remotes().filter(|(_, remote)| remote.is_due()) {
                // The fetch runs in a separate task and continues when its future is dropped.
                drop(self.fetch_keys(remote, name, &engine));
            }
            drop(set);
            tokio::select! {
                // `changed` cannot fail, because this handle owns the sender.
                _ = changes.changed() => {}
                () = tokio::time::sleep(KEYS_REFETCH_WAIT) => {}
            }
        }
    }

    /// Authenticates a caller by a session cookie.
    pub(crate) fn admit_session(&self, secret: &str, now: Timestamp) -> Result<Principal, AuthenticationError> {
        let sessions = &self.0.sessions;
        let (session, method) = sessions.find(secret, now).ok_or(AuthenticationError::SessionExpired)?;
        let set = self.now();
        let found = set.find(&method).filter(|(_, validity)| validity.at(now) == SecretStatus::Good);
        let Some((holder, validity)) = found else {
            // The credential with which the caller signed in is no longer valid.
            sessions.end(secret);
            return Err(AuthenticationError::SessionExpired);
        };
        Ok(Principal { holder, method, validity, set, session: Some(session) })
    }

    /// Begins a session for a caller that was authenticated by a secret or a token. Returns `None` for callers that
    /// authenticate each request by a signature or a certificate.
    pub(crate) fn begin_session(&self, admitted: &Principal, now: Timestamp) -> Option<BegunSession> {
        let is_shown = matches!(admitted.method, AuthenticatedBy::Secret(_) | AuthenticatedBy::Token(..))
            && admitted.session.is_none();
        let who = is_shown.then(|| admitted.holder.by().clone())?;
        self.0.sessions.begin(admitted.method.clone(), who, now)
    }

    /// Ends a session.
    pub(crate) fn end_session(&self, secret: &str) {
        self.0.sessions.end(secret);
    }

    /// Returns the permissions of all credentials, sorted by the names of the credentials.
    pub(crate) fn levels(&self) -> Vec<HolderLevels> {
        let mut levels: Vec<_> = self.now().holders.iter().map(|holder| holder.levels()).collect();
        levels.sort_by(|one, other| one.name.cmp(&other.name));
        levels
    }

    /// Returns the counter and limiter of denials.
    pub(crate) fn denials(&self) -> &Denials {
        &self.0.denials
    }

    /// Returns the holder of the signing key with this id, and the key's secret. The key may have expired. The caller
    /// of this function must report the expiry only if the signature is correct.
    pub(crate) fn signer(&self, access_key_id: &str) -> Option<(Principal, String)> {
        let set = self.now();
        let (holder, key) = set.holders.iter().find_map(|holder| {
            let key = holder.keys.iter().find(|key| key.id == access_key_id)?;
            Some((holder, key))
        })?;
        let (holder, secret) = (Arc::clone(holder), key.secret.clone());
        let method = AuthenticatedBy::Key(key.id.clone(), secret.clone());
        Some((Principal { holder, method, validity: key.validity, set: Arc::clone(&set), session: None }, secret))
    }

    /// Checks an authenticated caller again. Returns the current validity of its credential. Returns `None` if the
    /// credential no longer exists, is not valid at `now`, or has permissions for which `may` returns false.
    pub(super) fn would_admit(
        &self,
        admitted: &Principal,
        now: Timestamp,
        may: impl Fn(&Holder) -> bool,
    ) -> Option<Validity> {
        let set = self.now();
        if admitted.session.as_ref().is_some_and(Session::is_over) {
            return None;
        }
        let is_certificate = matches!(admitted.method, AuthenticatedBy::Certificate(_));
        // A certificate is looked up even if the set of credentials has not changed, because its validity also depends
        // on the trusted authorities, which can change separately.
        let (holder, validity) = if Arc::ptr_eq(&set, &admitted.set) && !is_certificate {
            (Arc::clone(&admitted.holder), admitted.validity)
        } else {
            set.find(&admitted.method)?
        };
        let validity = admitted.session.as_ref().map_or(validity, |session| validity.and_until(session.until()));
        (validity.at(now) == SecretStatus::Good && may(&holder)).then_some(validity)
    }

    /// Returns the secrets and keys that are valid now and expire within [`EXPIRY_WARNING`], the earliest first.
    pub fn expiring(&self, now: Timestamp) -> Vec<Expiring> {
        let set = self.now();
        let all = set.holders.iter().flat_map(|holder| {
            let secrets = holder.secrets.iter().map(|secret| (prefix(&secret.sha256), secret.validity));
            let keys = holder.keys.iter().map(|key| (key.id.clone(), key.validity));
            secrets.chain(keys).filter_map(|(secret, validity)| {
                let until = validity.until().filter(|until| now < *until && until.since(now) <= EXPIRY_WARNING)?;
                Some(Expiring { name: holder.name().to_owned(), secret, until })
            })
        });
        let mut all: Vec<Expiring> = all.collect();
        all.sort_by_key(|it| it.until);
        all
    }
}

impl Principal {
    /// Returns the session, if the caller has signed in.
    pub(crate) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Returns the holder of the credential.
    pub(crate) fn holder(&self) -> &Arc<Holder> {
        &self.holder
    }

    /// Checks that the credential is valid at this time.
    ///
    /// # Errors
    ///
    /// If it is not valid.
    pub(crate) fn check_validity(&self, now: Timestamp) -> Result<(), AuthenticationError> {
        check_validity(self.validity, CredentialKind::Secret, self.holder.name(), now)
    }
}

fn check_validity(
    validity: Validity,
    what: CredentialKind,
    who: &str,
    now: Timestamp,
) -> Result<(), AuthenticationError> {
    match validity.at(now) {
        SecretStatus::Good => Ok(()),
        SecretStatus::NotYetValid(from) => Err(AuthenticationError::NotYetValid { what, who: who.to_owned(), from }),
        SecretStatus::Expired(since) => Err(AuthenticationError::Expired { what, who: who.to_owned(), since }),
    }
}

/// Returns the bearer secret or token in the headers.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, secret) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim_start_matches(' '))
}

fn prefix(sha256: &[u8; 32]) -> String {
    let mut text = sha256.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    });
    text.truncate(PREFIX_DIGITS);
    text
}
