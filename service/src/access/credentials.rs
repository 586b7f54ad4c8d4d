//! The credentials in force: one set, looked at once for each request, and exchanged as a whole.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use history::Timestamp;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::certificate::CertificateName;
use super::secret::{EXPIRY_WARNING, Standing, Validity};
use super::{Credential, Denials, Holder};
use crate::tls::Peer;

/// The hexadecimal digits of a secret's hash that name it to people. Ours: enough to tell a few from each other, and no help
/// to whoever guesses.
pub const PREFIX_DIGITS: usize = 12;

/// Every credential. A handle: all clones see the same, and what [`replace`](Self::replace) changes.
#[derive(Debug, Clone, Default)]
pub struct Credentials(Arc<InForce>);

#[derive(Debug, Default)]
struct InForce {
    set: watch::Sender<Arc<Set>>,
    denials: Denials,
}

/// Credentials that were read together.
#[derive(Debug, Default)]
pub(super) struct Set {
    holders: Vec<Arc<Holder>>,
}

/// By what somebody was let in.
#[derive(Clone, PartialEq, Eq)]
enum Way {
    /// A secret, by its SHA-256.
    Secret([u8; 32]),
    /// A key that signs: its id and its secret.
    Key(String, String),
    /// The certificate of their connection.
    Certificate(Arc<Peer>),
}

/// Somebody who showed what they are known by.
#[derive(Clone)]
pub(crate) struct Admitted {
    pub(super) holder: Arc<Holder>,
    way: Way,
    validity: Validity,
    /// What was in force then.
    set: Arc<Set>,
}

/// Why somebody is not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoEntry {
    /// They show nothing, or nothing that is known.
    Unknown,
    /// What they show is right, and no longer good.
    Expired { who: String, since: Timestamp },
    /// What they show is right, and not yet good.
    Early { who: String, from: Timestamp },
    /// They show nothing but a certificate, which lets nobody in.
    Certificate { shown: String, why: String },
}

impl NoEntry {
    /// Whose credential it is.
    pub(crate) fn who(&self) -> Option<&str> {
        match self {
            Self::Unknown | Self::Certificate { .. } => None,
            Self::Expired { who, .. } | Self::Early { who, .. } => Some(who),
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

impl Set {
    fn read(credentials: Vec<Credential>) -> Result<Self, String> {
        let holders =
            credentials.into_iter().map(|it| Holder::read(it).map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
        let (mut names, mut ids) = (BTreeSet::new(), BTreeSet::new());
        let mut seen: Vec<(&[u8; 32], &str)> = Vec::new();
        let mut named: Vec<(&CertificateName, &str)> = Vec::new();
        for holder in &holders {
            if !names.insert(holder.name()) {
                return Err(format!(
                    "two credentials have the name `{}`; one may have several secrets, as `secrets`",
                    holder.name()
                ));
            }
            if let Some(key) = holder.keys.iter().find(|key| !ids.insert(&key.id)) {
                return Err(format!("two credentials have the access-key-id `{}`", key.id));
            }
            for secret in &holder.secrets {
                if let Some((_, one)) = seen.iter().find(|(sha256, _)| **sha256 == secret.sha256) {
                    let other = holder.name();
                    return Err(format!(
                        "the credentials `{one}` and `{other}` have the same secret; only the first would count"
                    ));
                }
                seen.push((&secret.sha256, holder.name()));
            }
            for (entry, of) in &holder.certificates {
                if let Some((_, one)) = named.iter().find(|(other, _)| *other == of) {
                    let other = holder.name();
                    return Err(format!("the credentials `{one}` and `{other}` both name the certificate `{entry}`"));
                }
                named.push((of, holder.name()));
            }
        }
        Ok(Self { holders })
    }

    /// Looks at every secret, so that the time it takes tells nothing.
    fn find(&self, way: &Way) -> Option<(&Arc<Holder>, Validity)> {
        match way {
            Way::Secret(digest) => self.holders.iter().fold(None, |found, holder| {
                let own = holder.secrets.iter().fold(None, |found, secret| {
                    if is_same(&secret.sha256, digest) { Some((holder, secret.validity)) } else { found }
                });
                found.or(own)
            }),
            Way::Key(id, secret) => self.holders.iter().find_map(|holder| {
                let key = holder.keys.iter().find(|key| key.id == *id && key.secret == *secret)?;
                Some((holder, key.validity))
            }),
            Way::Certificate(peer) => self.certified(peer).ok().map(|holder| (holder, Validity::default())),
        }
    }

    /// Whose a certificate is that was shown.
    fn certified(&self, peer: &Peer) -> Result<&Arc<Holder>, String> {
        let shown = peer.shown()?;
        let mut naming =
            self.holders.iter().filter(|holder| holder.certificates.iter().any(|(_, name)| name.is_of(shown)));
        let holder = naming.next().ok_or_else(|| "no credential names it".to_owned())?;
        match naming.next() {
            None => Ok(holder),
            Some(other) => Err(format!("`{}` and `{}` both name it", holder.name(), other.name())),
        }
    }
}

impl Credentials {
    /// Takes credentials as they were written down.
    ///
    /// # Errors
    ///
    /// For a hash that is not 64 hexadecimal digits, a task list that is not `domain/list`, half a key, nothing to be known
    /// by, nothing that it may do, naming the credential; for an empty name; and for two of the same name, key id or secret.
    pub fn new(credentials: Vec<Credential>) -> Result<Self, String> {
        let set = Arc::new(Set::read(credentials)?);
        Ok(Self(Arc::new(InForce { set: watch::Sender::new(set), denials: Denials::default() })))
    }

    /// Takes these instead, from the next request on.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new); and for none at all where there are some, as everybody would be let in. What was in force
    /// stays so.
    pub fn replace(&self, credentials: Vec<Credential>) -> Result<(), String> {
        let set = Set::read(credentials)?;
        if set.holders.is_empty() && !self.is_empty() {
            let why = "there are no credentials any more, so that everybody would be let in";
            return Err(format!("{why}; restart the service if that is meant"));
        }
        self.0.set.send_replace(Arc::new(set));
        Ok(())
    }

    /// Whether there is none, so that nobody is asked.
    pub fn is_empty(&self) -> bool {
        self.0.set.borrow().holders.is_empty()
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
    ) -> Result<Admitted, NoEntry> {
        match peer {
            Some(peer) if !headers.contains_key(AUTHORIZATION) => self.admit_certified(peer),
            _ => self.admit_bearer(headers, now),
        }
    }

    fn admit_certified(&self, peer: &Arc<Peer>) -> Result<Admitted, NoEntry> {
        let set = self.now();
        let holder = set.certified(peer).map_err(|why| NoEntry::Certificate { shown: peer.to_string(), why })?;
        let (holder, way) = (Arc::clone(holder), Way::Certificate(Arc::clone(peer)));
        Ok(Admitted { holder, way, validity: Validity::default(), set: Arc::clone(&set) })
    }

    fn admit_bearer(&self, headers: &HeaderMap, now: Timestamp) -> Result<Admitted, NoEntry> {
        let secret = bearer(headers).ok_or(NoEntry::Unknown)?;
        let (set, way) = (self.now(), Way::Secret(Sha256::digest(secret.as_bytes()).into()));
        let (holder, validity) = set.find(&way).ok_or(NoEntry::Unknown)?;
        let admitted = Admitted { holder: Arc::clone(holder), way, validity, set: Arc::clone(&set) };
        admitted.must_be_good(now)?;
        Ok(admitted)
    }

    /// What becomes of those who are not let in.
    pub(crate) fn denials(&self) -> &Denials {
        &self.0.denials
    }

    /// Whoever signs with this key, and what with. The key may be one that is not good at this time: that is for those to
    /// hear whose signature is right.
    pub(crate) fn signer(&self, access_key_id: &str) -> Option<(Admitted, String)> {
        let set = self.now();
        let (holder, key) = set.holders.iter().find_map(|holder| {
            let key = holder.keys.iter().find(|key| key.id == access_key_id)?;
            Some((holder, key))
        })?;
        let (holder, secret) = (Arc::clone(holder), key.secret.clone());
        let way = Way::Key(key.id.clone(), secret.clone());
        Some((Admitted { holder, way, validity: key.validity, set: Arc::clone(&set) }, secret))
    }

    /// Whether whoever was let in still would be, and may still do what `may` says of their credential.
    pub(super) fn would_admit(&self, admitted: &Admitted, now: Timestamp, may: impl Fn(&Holder) -> bool) -> bool {
        let set = self.now();
        let is_certificate = matches!(admitted.way, Way::Certificate(_));
        // What a certificate is worth changes with other things, too.
        let (holder, validity) = if Arc::ptr_eq(&set, &admitted.set) && !is_certificate {
            (&admitted.holder, admitted.validity)
        } else if let Some(found) = set.find(&admitted.way) {
            found
        } else {
            return false;
        };
        validity.at(now) == Standing::Good && may(holder)
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

impl Admitted {
    /// Whose credential it is.
    pub(crate) fn holder(&self) -> &Arc<Holder> {
        &self.holder
    }

    /// # Errors
    ///
    /// Where it is not good at this time.
    pub(crate) fn must_be_good(&self, now: Timestamp) -> Result<(), NoEntry> {
        let who = || self.holder.name().to_owned();
        match self.validity.at(now) {
            Standing::Good => Ok(()),
            Standing::Early(from) => Err(NoEntry::Early { who: who(), from }),
            Standing::Expired(since) => Err(NoEntry::Expired { who: who(), since }),
        }
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

/// Looks at every byte, wherever they differ, so that the time it takes tells nothing.
fn is_same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.iter().zip(other).fold(0, |difference, (one, other)| difference | (one ^ other)) == 0
}
