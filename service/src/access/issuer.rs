//! Issuers of tokens: how an operator writes them down, and what is read of them.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use history::{CallerName, Permissions};
use jsonwebtoken::Algorithm;
use serde::Deserialize;

use super::credential::SEPARATOR;
use super::jwks::{ALGORITHMS, KEYS_BYTES_MAX, KeySet};
use super::remote::RemoteKeys;
use super::{Credential, Holder};

/// Issuers of one service. Ours: a company has one or two, and each is looked at for each token.
pub const ISSUERS_MAX: usize = 16;

/// The rules of one issuer. Ours: a hundred teams, each looked for in the claims of each new token.
pub const RULES_MAX: usize = 256;

/// The bytes of an issuer's name. Ours: it stands in the names of all of its callers, which have 128.
pub const ISSUER_NAME_BYTES_MAX: usize = 32;

/// An issuer of JSON Web Tokens, as an operator writes it down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Issuer {
    /// What the names of its callers begin with, before a colon.
    pub name: String,
    /// As its tokens have it in `iss`.
    pub issuer: String,
    /// A token has to be for one of these, in `aud`.
    pub audiences: Vec<String>,
    /// Where its keys are, as a JSON Web Key Set: a file,
    pub jwks_file: Option<PathBuf>,
    /// or an address.
    pub jwks_url: Option<String>,
    /// The algorithms that its tokens are signed with; all that are known when absent.
    pub algorithms: Option<Vec<String>>,
    /// The claim that has the caller's name; `sub` when absent.
    pub name_claim: Option<String>,
    /// Who may do what.
    #[serde(default)]
    pub rules: Vec<ClaimRule>,
}

/// What a token may do that has something in a claim. The words are those of a credential.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClaimRule {
    /// The claim: a text, or a list of texts.
    pub claim: String,
    /// It is this text, or has it.
    pub has: String,
    /// May do everything.
    #[serde(default)]
    pub operator: bool,
    /// May read the metrics.
    #[serde(default)]
    pub metrics: bool,
    /// Domains in which it may read everything; `*` is all.
    #[serde(default)]
    pub readers: Vec<String>,
    /// Domains in which it may read everything but payloads; `*` is all.
    #[serde(default)]
    pub readers_without_payloads: Vec<String>,
    /// Domains in which it may do what applications do; `*` is all.
    #[serde(default)]
    pub applications: Vec<String>,
    /// Domains that it may operate; `*` is all.
    #[serde(default)]
    pub operators: Vec<String>,
    /// Task lists where it may take and answer turns, as a credential has them.
    #[serde(default)]
    pub deciders: Vec<String>,
    /// Task lists where it may take and answer activities, in the same way.
    #[serde(default)]
    pub runners: Vec<String>,
    /// What it may decide in turns of its own `deciders`; everything when absent.
    pub may_decide: Option<Permissions>,
}

impl ClaimRule {
    fn levels(self) -> Credential {
        Credential {
            operator: self.operator,
            metrics: self.metrics,
            readers: self.readers,
            readers_without_payloads: self.readers_without_payloads,
            applications: self.applications,
            operators: self.operators,
            deciders: self.deciders,
            runners: self.runners,
            may_decide: self.may_decide,
            ..Credential::default()
        }
    }
}

/// What is given to who has something in a claim.
#[derive(Debug)]
pub(super) struct ClaimGrant {
    pub(super) claim: String,
    pub(super) has: String,
    pub(super) may: Holder,
}

/// An issuer, read.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) name: String,
    pub(super) issuer: String,
    pub(super) audiences: Vec<String>,
    pub(super) algorithms: Vec<Algorithm>,
    pub(super) name_claim: String,
    pub(super) grants: Vec<ClaimGrant>,
    /// Where its keys are fetched from; `None` where they are in a file.
    pub(super) remote: Option<Arc<RemoteKeys>>,
}

impl Terms {
    /// What was written, and the keys that are known. `before` has addresses that are known, with what was fetched from there.
    pub(super) fn read<'a>(
        written: Issuer,
        mut before: impl Iterator<Item = &'a Arc<RemoteKeys>>,
    ) -> Result<(Self, Arc<KeySet>), String> {
        let Issuer { name, issuer, audiences, jwks_file, jwks_url, algorithms, name_claim, rules } = written;
        let shown = name.escape_debug();
        let wrong = |what: &str| format!("issuer `{shown}`: {what}");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > ISSUER_NAME_BYTES_MAX || !name.chars().all(is_plain) {
            let what = "its name must be of letters, digits, `-`, `_` and `.`, at most";
            return Err(wrong(&format!("{what} {ISSUER_NAME_BYTES_MAX}: it stands in the names of its callers")));
        }
        if issuer.is_empty() {
            return Err(wrong("`issuer` is empty; give what its tokens have as `iss`"));
        }
        if audiences.is_empty() || audiences.iter().any(String::is_empty) {
            return Err(wrong("`audiences` must name what tokens for this service have as `aud`"));
        }
        let algorithms = match algorithms {
            None => ALGORITHMS.iter().map(|(_, algorithm)| *algorithm).collect(),
            Some(names) if names.is_empty() => return Err(wrong("`algorithms` is empty; leave it out for all")),
            Some(names) => names.iter().map(|it| algorithm(it).map_err(|why| wrong(&why))).collect::<Result<_, _>>()?,
        };
        let name_claim = name_claim.unwrap_or_else(|| "sub".to_owned());
        if rules.is_empty() || rules.len() > RULES_MAX {
            let count = rules.len();
            return Err(wrong(&format!("it has {count} rules, expected one to {RULES_MAX}: they say who may do what")));
        }
        // Whoever they are given to is named later.
        let nobody = CallerName::new(&name).map_err(|fault| wrong(&fault.to_string()))?;
        let grant = |rule: ClaimRule| {
            let what = format!("issuer `{name}`, the rule for `{}` in `{}`,", rule.has, rule.claim);
            let (claim, has) = (rule.claim.clone(), rule.has.clone());
            if claim.is_empty() || has.is_empty() {
                return Err(format!("{what} needs both a `claim` and what it `has`"));
            }
            Ok(ClaimGrant { claim, has, may: Holder::of_levels(nobody.clone(), &what, rule.levels())? })
        };
        let grants = rules.into_iter().map(grant).collect::<Result<_, _>>()?;
        let (remote, keys) = match (jwks_file, jwks_url) {
            (Some(file), None) => {
                let keys = in_file(&file).map_err(|why| wrong(&format!("{}: {why}", file.display())))?;
                (None, Arc::new(keys))
            }
            (None, Some(url)) => {
                let remote = match before.find(|remote| remote.is_at(&url)) {
                    Some(remote) => Arc::clone(remote),
                    None => Arc::new(RemoteKeys::new(&url).map_err(|why| wrong(&why))?),
                };
                let keys = remote.known();
                (Some(remote), keys)
            }
            (None, None) | (Some(_), Some(_)) => return Err(wrong("give one of jwks-file and jwks-url")),
        };
        Ok((Self { name, issuer, audiences, algorithms, name_claim, grants, remote }, keys))
    }

    /// The name of a caller of this issuer's.
    ///
    /// # Errors
    ///
    /// For one that is empty or too long, or that has control characters in it.
    pub(super) fn caller(&self, own: &str) -> Result<CallerName, String> {
        if own.trim().is_empty() {
            return Err("is empty".to_owned());
        }
        CallerName::new(&format!("{}{SEPARATOR}{own}", self.name)).map_err(|fault| fault.to_string())
    }
}

fn algorithm(name: &str) -> Result<Algorithm, String> {
    let known = ALGORITHMS.iter().find(|(known, _)| *known == name);
    known.map(|(_, algorithm)| *algorithm).ok_or_else(|| {
        let expected = ALGORITHMS.map(|(name, _)| name).join("`, `");
        format!("`{name}` is no algorithm that is taken, expected one of `{expected}`")
    })
}

fn in_file(path: &Path) -> Result<KeySet, String> {
    let mut bytes = Vec::new();
    // One byte more tells that it is too large.
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(KEYS_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    KeySet::read(&bytes)
}
