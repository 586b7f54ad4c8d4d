//! Token issuers: their form in the configuration, and their parsed form.

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

/// Maximum number of issuers of a service. Our choice: a company has one or two. The limit bounds the work for each
/// token, because its issuer is compared with all of them.
pub const ISSUERS_MAX: usize = 16;

/// Maximum number of rules of an issuer. Our choice: enough for a hundred teams. The limit bounds the work for each new
/// token, because all rules are checked against its claims.
pub const RULES_MAX: usize = 256;

/// Maximum length of an issuer's name in bytes. Our choice: a quarter of the 128 bytes of a caller's name, which
/// begins with the issuer's name.
pub const ISSUER_NAME_BYTES_MAX: usize = 32;

/// Issuer of JSON Web Tokens in the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Issuer {
    /// Name of the issuer. The names of callers with tokens of the issuer begin with this name and a colon.
    pub name: String,
    /// Value of the claim `iss` in the issuer's tokens.
    pub issuer: String,
    /// Accepted values of the claim `aud`. A token must have one of them.
    pub audiences: Vec<String>,
    /// File with the issuer's public keys, as a JSON Web Key Set. Either this or `jwks_url` is required.
    pub jwks_file: Option<PathBuf>,
    /// URL of the issuer's public keys.
    pub jwks_url: Option<String>,
    /// Accepted signature algorithms; all supported ones if absent.
    pub algorithms: Option<Vec<String>>,
    /// Claim with the caller's name; `sub` if absent.
    pub name_claim: Option<String>,
    /// Permissions of the issuer's tokens, by their claims.
    #[serde(default)]
    pub rules: Vec<ClaimRule>,
}

/// Permissions of tokens with a certain value in a claim. The possible permissions are those of a credential.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClaimRule {
    /// Name of a claim whose value is a string or a list of strings.
    pub claim: String,
    /// Required value of the claim. If the claim is a list, one of its strings must have this value.
    pub has: String,
    /// True if the rule permits everything.
    #[serde(default)]
    pub operator: bool,
    /// True if the rule permits reading the metrics.
    #[serde(default)]
    pub metrics: bool,
    /// Domains in which the caller may read everything; `*` means all.
    #[serde(default)]
    pub readers: Vec<String>,
    /// Domains in which the caller may read everything except payloads; `*` means all.
    #[serde(default)]
    pub readers_without_payloads: Vec<String>,
    /// Domains in which the caller has the permissions of applications; `*` means all.
    #[serde(default)]
    pub applications: Vec<String>,
    /// Domains that the caller may operate; `*` means all.
    #[serde(default)]
    pub operators: Vec<String>,
    /// Task lists whose turns the caller may take and answer, in the notation of credentials.
    #[serde(default)]
    pub deciders: Vec<String>,
    /// Task lists whose activities the caller may take and answer, in the notation of credentials.
    #[serde(default)]
    pub runners: Vec<String>,
    /// Decisions that the caller may make in turns of the rule's `deciders`; all of them if absent.
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

/// Permissions that a rule grants to tokens with a certain claim.
#[derive(Debug)]
pub(super) struct ClaimGrant {
    pub(super) claim: String,
    pub(super) has: String,
    pub(super) may: Holder,
}

/// Parsed issuer.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) name: String,
    pub(super) issuer: String,
    pub(super) audiences: Vec<String>,
    pub(super) algorithms: Vec<Algorithm>,
    pub(super) name_claim: String,
    pub(super) grants: Vec<ClaimGrant>,
    /// Remote source of the issuer's keys; `None` if the keys are in a file.
    pub(super) remote: Option<Arc<RemoteKeys>>,
}

impl Terms {
    /// Parses an issuer. Returns it with the keys that are known now. `before` contains the sources of remote keys that
    /// are in use. A source with the same URL is used again, with the keys that it has already fetched.
    pub(super) fn read<'a>(
        written: Issuer,
        mut before: impl Iterator<Item = &'a Arc<RemoteKeys>>,
    ) -> Result<(Self, Arc<KeySet>), String> {
        let Issuer { name, issuer, audiences, jwks_file, jwks_url, algorithms, name_claim, rules } = written;
        let shown = name.escape_debug();
        let wrong = |what: &str| format!("issuer `{shown}`: {what}");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > ISSUER_NAME_BYTES_MAX || !name.chars().all(is_plain) {
            let what = "its name must consist of letters, digits, `-`, `_` and `.`, at most";
            return Err(wrong(&format!("{what} {ISSUER_NAME_BYTES_MAX}: it is part of its callers' names")));
        }
        if issuer.is_empty() {
            return Err(wrong("`issuer` is empty; give the `iss` of its tokens"));
        }
        if audiences.is_empty() || audiences.iter().any(String::is_empty) {
            return Err(wrong("`audiences` must list the `aud` of tokens for this service"));
        }
        let algorithms = match algorithms {
            None => ALGORITHMS.iter().map(|(_, algorithm)| *algorithm).collect(),
            Some(names) if names.is_empty() => return Err(wrong("`algorithms` is empty; omit it for all")),
            Some(names) => names.iter().map(|it| algorithm(it).map_err(|why| wrong(&why))).collect::<Result<_, _>>()?,
        };
        let name_claim = name_claim.unwrap_or_else(|| "sub".to_owned());
        if rules.is_empty() || rules.len() > RULES_MAX {
            let count = rules.len();
            return Err(wrong(&format!(
                "it has {count} rules, expected one to {RULES_MAX}: they grant the permissions"
            )));
        }
        // This name is only a placeholder. When a token is verified, the holder gets the caller's name.
        let nobody = CallerName::new(&name).map_err(|fault| wrong(&fault.to_string()))?;
        let grant = |rule: ClaimRule| {
            let what = format!("issuer `{name}`, the rule for `{}` in `{}`,", rule.has, rule.claim);
            let (claim, has) = (rule.claim.clone(), rule.has.clone());
            if claim.is_empty() || has.is_empty() {
                return Err(format!("{what} needs both `claim` and `has`"));
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
            (None, None) | (Some(_), Some(_)) => return Err(wrong("give either jwks-file or jwks-url")),
        };
        Ok((Self { name, issuer, audiences, algorithms, name_claim, grants, remote }, keys))
    }

    /// Returns the full name of a caller: the name of the issuer, and the name `own` from the token.
    ///
    /// # Errors
    ///
    /// If `own` is empty or contains control characters, or if the full name is too long.
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
        format!("`{name}` is not a supported algorithm, expected one of `{expected}`")
    })
}

fn in_file(path: &Path) -> Result<KeySet, String> {
    let mut bytes = Vec::new();
    // Reads one byte more than allowed, to detect a file that is too large.
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(KEYS_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    KeySet::read(&bytes)
}
