//! One set of credentials and issuers. Finds the holder of a presented credential in the set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use history::CallerName;

use super::certificate::CertificateName;
use super::issuer::ISSUERS_MAX;
use super::remote::RemoteKeys;
use super::secret::Validity;
use super::token::{TokenError, Trusted, Verified, account_of, is_token};
use super::{Credential, Holder, Issuer};
use crate::tls::Peer;

/// Credentials and issuers, as written in the configuration.
#[derive(Debug, Clone, Default)]
pub struct Stanzas {
    /// Credentials.
    pub credentials: Vec<Credential>,
    /// Issuers whose tokens are trusted.
    pub issuers: Vec<Issuer>,
}

impl From<Vec<Credential>> for Stanzas {
    fn from(credentials: Vec<Credential>) -> Self {
        Self { credentials, issuers: Vec::new() }
    }
}

/// Parsed credentials and issuers.
#[derive(Debug, Default)]
pub(super) struct Set {
    pub(super) holders: Vec<Arc<Holder>>,
    issuers: Vec<Arc<Trusted>>,
}

/// Credential that authenticated a caller.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum AuthenticatedBy {
    /// Bearer secret, given by its SHA-256.
    Secret([u8; 32]),
    /// Signing key, given by its id and its secret.
    Key(String, String),
    /// Certificate of the connection.
    Certificate(Arc<Peer>),
    /// Token, with its SHA-256.
    Token(Arc<str>, [u8; 32]),
}

impl Set {
    /// Parses a set. Keys that the current set `before` has already fetched are reused.
    pub(super) fn read(stanzas: Stanzas, before: &Self) -> Result<Self, String> {
        let Stanzas { credentials, issuers } = stanzas;
        let holders =
            credentials.into_iter().map(|it| Holder::read(it).map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
        must_be_different(&holders)?;
        if issuers.len() > ISSUERS_MAX {
            return Err(format!("there are {} issuers, expected at most {ISSUERS_MAX}", issuers.len()));
        }
        let read = |issuer| Trusted::read(issuer, before.remotes()).map(Arc::new);
        let issuers = issuers.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let (mut names, mut accounts) = (BTreeSet::new(), BTreeSet::new());
        for issuer in &issuers {
            let (name, account) = (&issuer.terms.name, &issuer.terms.issuer);
            if !names.insert(name) {
                return Err(format!("two issuers have the name `{name}`"));
            }
            if !accounts.insert(account) {
                return Err(format!("two issuers have the same `issuer`, `{account}`; put all rules into one of them"));
            }
        }
        drop((names, accounts));
        Ok(Self { holders, issuers })
    }

    /// Returns the domains that credentials and rules of issuers name, each with a description of the first credential
    /// or issuer that names it.
    pub(super) fn domains(&self) -> BTreeMap<String, String> {
        let of = |whose: String, may: &Holder| {
            let domains: Vec<String> = may.domains().map(str::to_owned).collect();
            domains.into_iter().map(move |domain| (domain, whose.clone()))
        };
        let holders = self.holders.iter().flat_map(|holder| of(format!("credential `{}`", holder.name()), holder));
        let rules = self.issuers.iter().flat_map(|issuer| {
            let whose = format!("issuer `{}`", issuer.terms.name);
            issuer.terms.grants.iter().flat_map(move |grant| of(whose.clone(), &grant.may))
        });
        let mut found = BTreeMap::new();
        for (domain, whose) in holders.chain(rules) {
            found.entry(domain).or_insert(whose);
        }
        found
    }

    pub(super) fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.issuers.is_empty()
    }

    /// Returns the sources of remote keys of all issuers.
    pub(super) fn remotes(&self) -> impl Iterator<Item = &Arc<RemoteKeys>> {
        self.issuers.iter().filter_map(|issuer| issuer.terms.remote.as_ref())
    }

    /// Returns the sources of remote keys with the names of their issuers.
    pub(super) fn named_remotes(&self) -> impl Iterator<Item = (&str, &Arc<RemoteKeys>)> {
        self.issuers.iter().filter_map(|it| Some((it.terms.name.as_str(), it.terms.remote.as_ref()?)))
    }

    /// Returns a copy of the set with all keys that were fetched since the set was created; `None` if no keys were
    /// fetched since then.
    pub(super) fn with_fetched_keys(&self) -> Option<Self> {
        let fetched = |issuer: &Arc<Trusted>| {
            let keys = issuer.terms.remote.as_ref()?.known();
            (keys != issuer.keys).then(|| Arc::new(Trusted::with(Arc::clone(&issuer.terms), keys)))
        };
        let others: Vec<_> = self.issuers.iter().map(fetched).collect();
        if others.iter().all(Option::is_none) {
            return None;
        }
        let issuers =
            others.into_iter().zip(&self.issuers).map(|(other, same)| other.unwrap_or_else(|| Arc::clone(same)));
        Some(Self { holders: self.holders.clone(), issuers: issuers.collect() })
    }

    /// Finds the holder of a credential. Always compares all secrets, so that the response time reveals nothing about
    /// them.
    pub(super) fn find(&self, method: &AuthenticatedBy) -> Option<(Arc<Holder>, Validity)> {
        match method {
            AuthenticatedBy::Secret(digest) => self.holders.iter().fold(None, |found, holder| {
                let own = holder.secrets.iter().fold(None, |found, secret| {
                    let is_own = is_same(&secret.sha256, digest);
                    if is_own { Some((Arc::clone(holder), secret.validity)) } else { found }
                });
                found.or(own)
            }),
            AuthenticatedBy::Key(id, secret) => self.holders.iter().find_map(|holder| {
                let key = holder.keys.iter().find(|key| key.id == *id && key.secret == *secret)?;
                Some((Arc::clone(holder), key.validity))
            }),
            AuthenticatedBy::Certificate(peer) => {
                self.certified(peer).ok().map(|holder| (Arc::clone(holder), Validity::default()))
            }
            AuthenticatedBy::Token(token, digest) => {
                let verified = self.verify_token(token, digest).ok()?;
                Some((verified.holder?, verified.validity))
            }
        }
    }

    /// Returns the holder of a presented certificate.
    pub(super) fn certified(&self, peer: &Peer) -> Result<&Arc<Holder>, String> {
        let shown = peer.shown()?;
        let mut naming =
            self.holders.iter().filter(|holder| holder.certificates.iter().any(|(_, name)| name.is_of(shown)));
        let holder = naming.next().ok_or_else(|| "no credential names it".to_owned())?;
        match naming.next() {
            None => Ok(holder),
            Some(other) => Err(format!("`{}` and `{}` both name it", holder.name(), other.name())),
        }
    }

    /// Returns whether a presented secret may be a token. This is possible if issuers are configured and the secret has
    /// the form of a token.
    pub(super) fn may_be_token(&self, shown: &str) -> bool {
        !self.issuers.is_empty() && is_token(shown)
    }

    /// Verifies a presented token and returns its holder. The validity period of the token is not checked.
    pub(super) fn verify_token(&self, token: &str, digest: &[u8; 32]) -> Result<Verified, TokenError> {
        let wrong = |why: &str| TokenError::Wrong(format!("a token: {why}"));
        let account = account_of(token).map_err(wrong)?;
        let issuer = self.issuers.iter().find(|issuer| issuer.terms.issuer == account);
        issuer.ok_or_else(|| wrong("its issuer is unknown"))?.verify(token, digest)
    }
}

/// Checks that no two credentials have the same name, secret, key id or certificate.
fn must_be_different(holders: &[Arc<Holder>]) -> Result<(), String> {
    let (mut names, mut ids): (BTreeSet<&CallerName>, BTreeSet<&String>) = Default::default();
    let mut seen: Vec<(&[u8; 32], &str)> = Vec::new();
    let mut named: Vec<(&CertificateName, &str)> = Vec::new();
    for holder in holders {
        if !names.insert(holder.by()) {
            return Err(format!(
                "two credentials have the name `{}`; use `secrets` for several secrets",
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
                    "the credentials `{one}` and `{other}` have the same secret; give each a different one"
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
    Ok(())
}

/// Compares in constant time, so that the response time reveals nothing about the secrets.
fn is_same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.iter().zip(other).fold(0, |difference, (one, other)| difference | (one ^ other)) == 0
}
