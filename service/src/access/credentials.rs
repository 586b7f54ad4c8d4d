//! The credentials and issuers in force: one set, looked at once for each request, and exchanged as a whole.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use history::Timestamp;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::remote::{Fetching, KEYS_AGAIN_AFTER, RemoteKeys};
use super::secret::{EXPIRY_WARNING, SecretStanding, Validity};
use super::session::{BegunSession, Session, Sessions};
use super::set::{Set, Stanzas, Way};
use super::token::Disbelief;
use super::{Denials, Holder, HolderLevels};
use crate::tls::Peer;
use engine::Engine;

/// The hexadecimal digits of a secret's hash that name it to people. Ours: enough to tell a few from each other, and no help
/// to whoever guesses.
pub const PREFIX_DIGITS: usize = 12;

/// Every credential. A handle: all clones see the same, and what [`replace`](Self::replace) changes.
#[derive(Debug, Clone, Default)]
pub struct Credentials(Arc<CredentialsInForce>);

#[derive(Debug, Default)]
struct CredentialsInForce {
    set: watch::Sender<Arc<Set>>,
    denials: Denials,
    sessions: Sessions,
}

/// Somebody who showed what they are known by.
#[derive(Clone)]
pub(crate) struct Principal {
    pub(super) holder: Arc<Holder>,
    way: Way,
    validity: Validity,
    /// What was in force then.
    set: Arc<Set>,
    /// Whose cookie it was, where they have signed in.
    session: Option<Session>,
}

/// What somebody shows that is good for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CredentialKind {
    Secret,
    Token,
}

/// Why somebody is not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoEntry {
    /// They show nothing, or nothing that is known.
    Unknown,
    /// They show the cookie of a session that is over, or was none.
    SessionOver,
    /// What they show is right, and no longer good.
    Expired { what: CredentialKind, who: String, since: Timestamp },
    /// What they show is right, and not yet good.
    Early { what: CredentialKind, who: String, from: Timestamp },
    /// They show a token that is not believed; why is for the log alone.
    Token { why: String },
    /// They show a token that is believed, and no rule of its issuer gives them anything.
    NoRule { who: String },
    /// They show nothing but a certificate, which lets nobody in.
    Certificate { shown: String, why: String },
}

impl NoEntry {
    /// Whose credential it is.
    pub(crate) fn who(&self) -> Option<&str> {
        match self {
            Self::Unknown | Self::SessionOver | Self::Certificate { .. } | Self::Token { .. } => None,
            Self::Expired { who, .. } | Self::Early { who, .. } | Self::NoRule { who } => Some(who),
        }
    }
}

/// Why a token lets nobody in.
enum Unbelieved {
    No(NoEntry),
    /// There may be other keys by now.
    UnknownKey(Arc<RemoteKeys>, String),
}

impl Unbelieved {
    fn into_no_entry(self) -> NoEntry {
        match self {
            Self::No(no) => no,
            Self::UnknownKey(_, name) => {
                NoEntry::Token { why: format!("a token of issuer `{name}`: its key is not one of this issuer's") }
            }
        }
    }
}

/// A secret whose end is near.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expiring {
    /// The credential.
    pub name: String,
    /// Which of its secrets: the first digits of its hash, or the id of a key.
    pub secret: String,
    /// It is good until then.
    pub until: Timestamp,
}

impl Credentials {
    /// Takes credentials and issuers as they were written down.
    ///
    /// # Errors
    ///
    /// For an issuer whose keys cannot be read from their file, and for one that nobody could be let in by; for a hash that is not 64 hexadecimal digits, a task list that is not `domain/list`, half a key, nothing to be known
    /// by, nothing that it may do, naming the credential; for an empty name; and for two of the same name, key id or secret.
    pub fn new(stanzas: impl Into<Stanzas>) -> Result<Self, String> {
        let set = Arc::new(Set::read(stanzas.into(), &Set::default())?);
        Ok(Self(Arc::new(CredentialsInForce { set: watch::Sender::new(set), ..CredentialsInForce::default() })))
    }

    /// Takes these instead, from the next request on.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new); and for none at all where there are some, as everybody would be let in. What was in force
    /// stays so.
    pub fn replace(&self, stanzas: impl Into<Stanzas>) -> Result<(), String> {
        let set = Set::read(stanzas.into(), &self.now())?;
        if set.is_empty() && !self.is_empty() {
            let why = "there are no credentials any more, so that everybody would be let in";
            return Err(format!("{why}; restart the service if that is meant"));
        }
        // With what was fetched while it was read.
        self.0.set.send_modify(|in_force| *in_force = Arc::new(set.with_fetched_keys().unwrap_or(set)));
        Ok(())
    }

    /// The domains that credentials and rules of issuers name, each with the first that does, for people.
    pub fn domains(&self) -> BTreeMap<String, String> {
        self.now().domains()
    }

    /// Whether there is none, so that nobody is asked.
    pub fn is_empty(&self) -> bool {
        self.0.set.borrow().is_empty()
    }

    fn now(&self) -> Arc<Set> {
        Arc::clone(&self.0.set.borrow())
    }

    /// Tells whoever waits for it that other credentials are in force.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<Set>> {
        self.0.set.subscribe()
    }

    /// Whoever shows a secret in these headers; where they say nothing of it, whoever has shown a certificate for the
    /// connection.
    pub(crate) fn admit(
        &self,
        headers: &HeaderMap,
        peer: Option<&Arc<Peer>>,
        now: Timestamp,
    ) -> Result<Principal, NoEntry> {
        match peer {
            Some(peer) if !headers.contains_key(AUTHORIZATION) => self.admit_certified(peer),
            _ => self.admit_bearer(headers, now),
        }
    }

    fn admit_certified(&self, peer: &Arc<Peer>) -> Result<Principal, NoEntry> {
        let set = self.now();
        let holder = set.certified(peer).map_err(|why| NoEntry::Certificate { shown: peer.to_string(), why })?;
        let (holder, way) = (Arc::clone(holder), Way::Certificate(Arc::clone(peer)));
        Ok(Principal { holder, way, validity: Validity::default(), set: Arc::clone(&set), session: None })
    }

    fn admit_bearer(&self, headers: &HeaderMap, now: Timestamp) -> Result<Principal, NoEntry> {
        let secret = bearer(headers).ok_or(NoEntry::Unknown)?;
        let (set, way) = (self.now(), Way::Secret(Sha256::digest(secret.as_bytes()).into()));
        let (holder, validity) = set.find(&way).ok_or(NoEntry::Unknown)?;
        let admitted = Principal { holder, way, validity, set: Arc::clone(&set), session: None };
        admitted.must_be_good(now)?;
        Ok(admitted)
    }

    /// The same, also by a token of an issuer's. Where the key of a token is not known, those of its issuer are fetched first,
    /// as often as that may be.
    pub(crate) async fn admit_with_token(
        &self,
        headers: &HeaderMap,
        peer: Option<&Arc<Peer>>,
        engine: &Arc<Engine>,
    ) -> Result<Principal, NoEntry> {
        let (found, now) = (self.admit(headers, peer, engine.clock().now()), engine.clock().now());
        let token = bearer(headers)
            .filter(|shown| found.as_ref().err() == Some(&NoEntry::Unknown) && self.now().may_be_token(shown));
        let Some(token) = token else { return found };
        let digest = Sha256::digest(token.as_bytes()).into();
        match self.admit_token(token, digest, now) {
            Err(Unbelieved::UnknownKey(remote, name)) => {
                self.fetch_keys(&remote, &name, engine).await;
                self.admit_token(token, digest, now).map_err(Unbelieved::into_no_entry)
            }
            judged => judged.map_err(Unbelieved::into_no_entry),
        }
    }

    fn admit_token(&self, token: &str, digest: [u8; 32], now: Timestamp) -> Result<Principal, Unbelieved> {
        let set = self.now();
        let verified = set.believe(token, &digest).map_err(|disbelief| match disbelief {
            Disbelief::Wrong(why) => Unbelieved::No(NoEntry::Token { why }),
            Disbelief::UnknownKey(remote, name) => Unbelieved::UnknownKey(remote, name),
        })?;
        must_be_good(verified.validity, CredentialKind::Token, verified.who.as_str(), now).map_err(Unbelieved::No)?;
        let who = || NoEntry::NoRule { who: verified.who.to_string() };
        let holder = verified.holder.ok_or_else(who).map_err(Unbelieved::No)?;
        Ok(Principal { holder, way: Way::Token(token.into(), digest), validity: verified.validity, set, session: None })
    }

    /// Has an issuer's keys fetched, unless they just were. They are in force once this resolves.
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

    /// Keeps the keys of issuers up to date that are at an address; goes on for ever.
    pub async fn keep_keys(self, engine: Arc<Engine>) {
        let mut changes = self.changes();
        loop {
            let set = self.now();
            for (name, remote) in set.named_remotes().filter(|(_, remote)| remote.is_due()) {
                // It goes on by itself.
                drop(self.fetch_keys(remote, name, &engine));
            }
            drop(set);
            tokio::select! {
                // The sender is with this handle.
                _ = changes.changed() => {}
                () = tokio::time::sleep(KEYS_AGAIN_AFTER) => {}
            }
        }
    }

    /// Whoever has signed in and shows what the cookie of their session holds.
    pub(crate) fn admit_session(&self, secret: &str, now: Timestamp) -> Result<Principal, NoEntry> {
        let sessions = &self.0.sessions;
        let (session, way) = sessions.find(secret, now).ok_or(NoEntry::SessionOver)?;
        let set = self.now();
        let found = set.find(&way).filter(|(_, validity)| validity.at(now) == SecretStanding::Good);
        let Some((holder, validity)) = found else {
            // What it was begun with is no longer good.
            sessions.end(secret);
            return Err(NoEntry::SessionOver);
        };
        Ok(Principal { holder, way, validity, set, session: Some(session) })
    }

    /// Begins a session of somebody who was let in by a secret or a token; `None` for others, who show what they have with each
    /// request.
    pub(crate) fn begin_session(&self, admitted: &Principal, now: Timestamp) -> Option<BegunSession> {
        let is_shown = matches!(admitted.way, Way::Secret(_) | Way::Token(..)) && admitted.session.is_none();
        let who = is_shown.then(|| admitted.holder.by().clone())?;
        self.0.sessions.begin(admitted.way.clone(), who, now)
    }

    /// Ends a session.
    pub(crate) fn end_session(&self, secret: &str) {
        self.0.sessions.end(secret);
    }

    /// The credentials in force, by name.
    pub(crate) fn levels(&self) -> Vec<HolderLevels> {
        let mut levels: Vec<_> = self.now().holders.iter().map(|holder| holder.levels()).collect();
        levels.sort_by(|one, other| one.name.cmp(&other.name));
        levels
    }

    /// What becomes of those who are not let in.
    pub(crate) fn denials(&self) -> &Denials {
        &self.0.denials
    }

    /// Whoever signs with this key, and what with. The key may be one that is not good at this time: that is for those to
    /// hear whose signature is right.
    pub(crate) fn signer(&self, access_key_id: &str) -> Option<(Principal, String)> {
        let set = self.now();
        let (holder, key) = set.holders.iter().find_map(|holder| {
            let key = holder.keys.iter().find(|key| key.id == access_key_id)?;
            Some((holder, key))
        })?;
        let (holder, secret) = (Arc::clone(holder), key.secret.clone());
        let way = Way::Key(key.id.clone(), secret.clone());
        Some((Principal { holder, way, validity: key.validity, set: Arc::clone(&set), session: None }, secret))
    }

    /// How long whoever was let in still would be, as long as they may still do what `may` says of their credential.
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
        let is_certificate = matches!(admitted.way, Way::Certificate(_));
        // What a certificate is worth changes with other things, too.
        let (holder, validity) = if Arc::ptr_eq(&set, &admitted.set) && !is_certificate {
            (Arc::clone(&admitted.holder), admitted.validity)
        } else {
            set.find(&admitted.way)?
        };
        let validity = admitted.session.as_ref().map_or(validity, |session| validity.and_until(session.until()));
        (validity.at(now) == SecretStanding::Good && may(&holder)).then_some(validity)
    }

    /// The secrets and keys that are good now and will not be in [`EXPIRY_WARNING`], those that end first before others.
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
    /// Their session, where they have signed in.
    pub(crate) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Whose credential it is.
    pub(crate) fn holder(&self) -> &Arc<Holder> {
        &self.holder
    }

    /// # Errors
    ///
    /// Where it is not good at this time.
    pub(crate) fn must_be_good(&self, now: Timestamp) -> Result<(), NoEntry> {
        must_be_good(self.validity, CredentialKind::Secret, self.holder.name(), now)
    }
}

fn must_be_good(validity: Validity, what: CredentialKind, who: &str, now: Timestamp) -> Result<(), NoEntry> {
    match validity.at(now) {
        SecretStanding::Good => Ok(()),
        SecretStanding::Early(from) => Err(NoEntry::Early { what, who: who.to_owned(), from }),
        SecretStanding::Expired(since) => Err(NoEntry::Expired { what, who: who.to_owned(), since }),
    }
}

/// What a caller shows.
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
