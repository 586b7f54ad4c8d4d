//! Credentials: their form in the configuration, and their parsed form.

use std::sync::Arc;

use history::{CallerName, Decision, Permissions};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::certificate::CertificateName;
use super::hex::unhex;
use super::secret::{AccessKey, EMPTY_SHA256, SECRET_CHARS_MIN, SECRETS_MAX, Secret, Validity};

/// Credential in the configuration. Of a bearer secret, it contains only the hash; only the client that uses the secret
/// knows it.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Credential {
    /// Unique name, for people.
    pub name: String,
    /// SHA-256 of a secret that does not expire, in hexadecimal. Empty if there is none.
    #[serde(default)]
    pub secret_sha256: String,
    /// Further bearer secrets, each with a validity period.
    #[serde(default)]
    pub secrets: Vec<Secret>,
    /// Id of the key with which a client signs SWF requests.
    pub access_key_id: Option<String>,
    /// Secret of the signing key. It is stored in clear text, because verifying a signature requires it.
    pub secret_access_key: Option<String>,
    /// Further signing keys, each with a validity period.
    #[serde(default)]
    pub access_keys: Vec<AccessKey>,
    /// Certificates of this credential, as `CN=…`, `DNS:…`, `URI:…` or `SHA256:…`. A client that presents one of them
    /// needs no secret.
    #[serde(default)]
    pub certificates: Vec<String>,
    /// True if the credential permits everything.
    #[serde(default)]
    pub operator: bool,
    /// True if the credential permits reading the metrics.
    #[serde(default)]
    pub metrics: bool,
    /// Domains in which the holder may read everything; `*` means all.
    #[serde(default)]
    pub readers: Vec<String>,
    /// Domains in which the holder may read everything except payloads; `*` means all.
    #[serde(default)]
    pub readers_without_payloads: Vec<String>,
    /// Domains in which the holder may start, read, signal, query, update, cancel and terminate runs; `*` means all.
    #[serde(default)]
    pub applications: Vec<String>,
    /// Domains that the holder may operate: manual interventions, resets, pauses, deletion, types, schedules; `*`
    /// means all.
    #[serde(default)]
    pub operators: Vec<String>,
    /// Task lists, as `domain/list`, whose turns the holder may take and answer; `domain/*` means all lists of a
    /// domain. A slash or a percent sign in a name is percent-encoded, as in a path.
    #[serde(default)]
    pub deciders: Vec<String>,
    /// Task lists, in the notation of `deciders`, whose activities the holder may take and answer.
    #[serde(default)]
    pub runners: Vec<String>,
    /// Decisions that the holder may make in its turns; all of them if absent.
    pub may_decide: Option<Permissions>,
}

impl std::fmt::Debug for Credential {
    /// Formats the name of the credential, without its secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Parsed credential.
#[derive(Clone)]
pub(crate) struct Holder {
    name: CallerName,
    /// Hashes of the bearer secrets. Empty if the credential authenticates only with signatures, certificates or
    /// tokens.
    pub(super) secrets: Vec<Digest>,
    pub(super) keys: Vec<Key>,
    /// Certificates, each as written in the configuration and in parsed form.
    pub(super) certificates: Vec<(String, CertificateName)>,
    pub(super) is_operator: bool,
    pub(super) metrics: bool,
    pub(super) readers: Domains,
    pub(super) readers_without_payloads: Domains,
    pub(super) applications: Domains,
    pub(super) operators: Domains,
    pub(super) deciders: Vec<Deciders>,
    pub(super) runners: Vec<Lists>,
}

/// Permissions of a credential, in the form that is shown to people. They contain nothing with which a client could
/// authenticate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HolderLevels {
    pub(crate) name: String,
    pub(crate) operator: bool,
    pub(crate) metrics: bool,
    pub(crate) readers: Vec<String>,
    pub(crate) readers_without_payloads: Vec<String>,
    pub(crate) applications: Vec<String>,
    pub(crate) operators: Vec<String>,
    pub(crate) deciders: Vec<String>,
    pub(crate) runners: Vec<String>,
}

/// Bearer secret, as its SHA-256.
#[derive(Clone)]
pub(super) struct Digest {
    pub(super) sha256: [u8; 32],
    pub(super) validity: Validity,
}

/// Key of SWF signatures.
#[derive(Clone)]
pub(super) struct Key {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) validity: Validity,
}

impl std::fmt::Debug for Holder {
    /// Formats the name of the credential, without its secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Holder").field("name", &self.name).finish_non_exhaustive()
    }
}

/// List of domain names that a permission applies to; `*` means all domains.
#[derive(Debug, Clone)]
pub(super) struct Domains(Vec<String>);

impl Domains {
    pub(super) fn has(&self, domain: &str) -> bool {
        self.0.iter().any(|of| of == "*" || of == domain)
    }
}

/// One task list of a domain, or all lists of the domain.
#[derive(Debug, Clone)]
pub(super) struct Lists {
    domain: String,
    /// Name of the list; all lists of the domain if absent.
    list: Option<String>,
}

impl Lists {
    fn read(entry: &str) -> Option<Self> {
        let (domain, list) = entry.split_once('/').filter(|(_, list)| !list.contains('/'))?;
        let decode = |text| percent_decode_str(text).decode_utf8().ok().filter(|text| !text.is_empty());
        let list = if list == "*" { None } else { Some(decode(list)?.into_owned()) };
        Some(Self { domain: decode(domain)?.into_owned(), list })
    }

    /// Returns the entry as the configuration writes it, but without percent-encoding.
    fn written(&self) -> String {
        format!("{}/{}", self.domain, self.list.as_deref().unwrap_or("*"))
    }

    pub(super) fn has(&self, domain: &str, list: &str) -> bool {
        self.domain == domain && self.list.as_deref().is_none_or(|name| name == list)
    }
}

/// Task lists whose turns a credential may take, and the decisions that it may make in them.
#[derive(Debug, Clone)]
pub(super) struct Deciders {
    pub(super) lists: Lists,
    /// Permitted decisions; all decisions if absent.
    may: Option<Arc<Permissions>>,
}

/// Separator between an issuer's name and the name of a caller with a token of that issuer. Names of credentials
/// cannot contain it.
pub(super) const SEPARATOR: char = ':';

impl Holder {
    /// Returns a holder with this name and without permissions.
    pub(super) fn nobody(name: CallerName) -> Self {
        let none = || Domains(Vec::new());
        Self {
            name,
            secrets: Vec::new(),
            keys: Vec::new(),
            certificates: Vec::new(),
            is_operator: false,
            metrics: false,
            readers: none(),
            readers_without_payloads: none(),
            applications: none(),
            operators: none(),
            deciders: Vec::new(),
            runners: Vec::new(),
        }
    }

    /// Adds the permissions of the holder `other`.
    pub(super) fn and(mut self, other: &Self) -> Self {
        self.is_operator |= other.is_operator;
        self.metrics |= other.metrics;
        self.readers.0.extend_from_slice(&other.readers.0);
        self.readers_without_payloads.0.extend_from_slice(&other.readers_without_payloads.0);
        self.applications.0.extend_from_slice(&other.applications.0);
        self.operators.0.extend_from_slice(&other.operators.0);
        self.deciders.extend_from_slice(&other.deciders);
        self.runners.extend_from_slice(&other.runners);
        self
    }

    pub(super) fn read(credential: Credential) -> Result<Self, String> {
        let (secrets, keys) = (secrets(&credential)?, keys(&credential)?);
        let certificates =
            credential.certificates.iter().map(|entry| CertificateName::read(entry).map(|name| (entry.clone(), name)));
        let certificates: Vec<_> = certificates
            .collect::<Result<_, _>>()
            .map_err(|problem| format!("credential `{}`: {problem}", credential.name))?;
        if secrets.is_empty() && keys.is_empty() && certificates.is_empty() {
            let how = "give it secret-sha256, secrets, an access key or certificates";
            return Err(format!("credential `{}` has no means of authentication; {how}", credential.name));
        }
        let count = secrets.len() + keys.len() + certificates.len();
        if count > SECRETS_MAX {
            return Err(format!(
                "credential `{}` has {count} secrets, keys and certificates, expected at most {SECRETS_MAX}; \
                 give each program a separate credential",
                credential.name
            ));
        }
        let name = &credential.name;
        if name.trim().is_empty() {
            return Err("a credential has an empty name; give it a name".to_owned());
        }
        let what = format!("credential `{}`", name.escape_debug());
        if name.contains(SEPARATOR) {
            return Err(format!("{what}: `{SEPARATOR}` is reserved for callers of an issuer; remove it"));
        }
        let name = CallerName::new(name).map_err(|fault| format!("{what}: {fault}"))?;
        Ok(Self { secrets, keys, certificates, ..Self::of_levels(name, &what, credential)? })
    }

    /// Returns a holder with the permissions of a credential but without its secrets, keys and certificates. In error
    /// messages, `what` names the credential or rule that grants the permissions.
    pub(super) fn of_levels(name: CallerName, what: &str, credential: Credential) -> Result<Self, String> {
        let Credential { operator, metrics, readers, readers_without_payloads, .. } = credential;
        let Credential { applications, operators, deciders, runners, may_decide, .. } = credential;
        let lists = |entries: Vec<String>| -> Result<Vec<Lists>, String> {
            let read = |entry: String| {
                if entry.starts_with("*/") {
                    let how = "name the domain before the slash, or write `%2A` for a domain named `*`";
                    return Err(format!("{what}: `{entry}` names no domain; {how}"));
                }
                Lists::read(&entry).ok_or_else(|| format!("{what}: `{entry}` is not `domain/list`"))
            };
            entries.into_iter().map(read).collect()
        };
        let (deciders, runners) = (lists(deciders)?, lists(runners)?);
        let domains = [&readers, &readers_without_payloads, &applications, &operators];
        if domains.iter().any(|domains| domains.iter().any(String::is_empty)) {
            return Err(format!("{what}: the name of a domain is empty; use `*` for all domains"));
        }
        let names_none = domains.iter().all(|domains| domains.is_empty());
        if !operator && !metrics && names_none && deciders.is_empty() && runners.is_empty() {
            let levels =
                "operator, metrics, readers, readers-without-payloads, applications, operators, deciders, runners";
            return Err(format!("{what} has no permissions; give it at least one of: {levels}"));
        }
        if let Some(may) = &may_decide {
            let problem = if operator {
                Some("has no effect: with `operator = true`, every decision is allowed".to_owned())
            } else if deciders.is_empty() {
                Some("has no effect: there are no `deciders`".to_owned())
            } else if may.is_everything() {
                let known = "decisions, task-lists, activity-types, child-types";
                Some(format!("is empty; give at least one of: {known}"))
            } else {
                let unknown = may.decisions.iter().flatten().find(|name| !Decision::NAMES.contains(&name.as_str()));
                unknown.map(|name| {
                    format!("has the unknown decision `{name}`, expected one of `{}`", Decision::NAMES.join("`, `"))
                })
            };
            if let Some(problem) = problem {
                return Err(format!("{what}: may-decide {problem}"));
            }
        }
        let may = may_decide.map(Arc::new);
        let deciders = deciders.into_iter().map(|lists| Deciders { lists, may: may.clone() }).collect();
        Ok(Self {
            is_operator: operator,
            metrics,
            readers: Domains(readers),
            readers_without_payloads: Domains(readers_without_payloads),
            applications: Domains(applications),
            operators: Domains(operators),
            deciders,
            runners,
            ..Self::nobody(name)
        })
    }

    /// Returns whether the credential permits deciding turns of this task list.
    pub(super) fn decides(&self, domain: &str, list: &str) -> bool {
        self.deciders.iter().any(|it| it.lists.has(domain, list))
    }

    /// Returns the limits on decisions in turns of this task list. A decision is permitted if at least one of the
    /// limits permits it. `None` permits all decisions.
    pub(super) fn may_decide(&self, domain: &str, list: &str) -> Option<Arc<[Permissions]>> {
        let of_list = self.deciders.iter().filter(|deciders| deciders.lists.has(domain, list));
        let limits: Option<Vec<_>> = of_list.map(|deciders| deciders.may.as_deref().cloned()).collect();
        limits.filter(|_| !self.is_operator).map(Into::into)
    }

    /// Returns the name of the credential.
    pub(crate) fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Returns the name of the credential in the form in which events record it.
    pub(super) fn by(&self) -> &CallerName {
        &self.name
    }

    /// Returns the permissions in the form that is shown to people.
    pub(crate) fn levels(&self) -> HolderLevels {
        let domains = |domains: &Domains| domains.0.clone();
        HolderLevels {
            name: self.name.to_string(),
            operator: self.is_operator,
            metrics: self.metrics,
            readers: domains(&self.readers),
            readers_without_payloads: domains(&self.readers_without_payloads),
            applications: domains(&self.applications),
            operators: domains(&self.operators),
            deciders: self.deciders.iter().map(|deciders| deciders.lists.written()).collect(),
            runners: self.runners.iter().map(Lists::written).collect(),
        }
    }

    /// Returns the domains that the permissions name, except `*`.
    pub(super) fn domains(&self) -> impl Iterator<Item = &str> {
        let levels = [&self.readers, &self.readers_without_payloads, &self.applications, &self.operators];
        let named = levels.into_iter().flat_map(|domains| &domains.0).map(String::as_str).filter(|name| *name != "*");
        let lists = self.deciders.iter().map(|it| &it.lists).chain(&self.runners);
        named.chain(lists.map(|lists| lists.domain.as_str()))
    }

    /// Returns whether the credential permits reading the runs of this domain, with or without payloads.
    pub(super) fn reads(&self, domain: &str) -> bool {
        self.sees_payloads(domain) || self.readers_without_payloads.has(domain)
    }

    /// Returns whether a reader, application or operator permission of this domain includes payloads. Ignores
    /// `operator = true`, which also includes payloads; [`is_shown_payloads`](Self::is_shown_payloads) takes it into
    /// account.
    pub(super) fn sees_payloads(&self, domain: &str) -> bool {
        [&self.readers, &self.applications, &self.operators].iter().any(|domains| domains.has(domain))
    }

    /// Returns whether the credential permits seeing payloads of this domain.
    pub(super) fn is_shown_payloads(&self, domain: &str) -> bool {
        self.is_operator || self.sees_payloads(domain)
    }

    /// Returns whether any permission names this domain.
    pub(super) fn has_level_in(&self, domain: &str) -> bool {
        self.reads(domain)
            || self.deciders.iter().map(|it| &it.lists).chain(&self.runners).any(|lists| lists.domain == domain)
    }
}

/// Parses the secrets of a credential and refuses malformed ones.
fn secrets(credential: &Credential) -> Result<Vec<Digest>, String> {
    let Credential { name, secret_sha256, secrets, .. } = credential;
    let first = Some(Secret { sha256: secret_sha256.clone(), ..Secret::default() });
    let first = first.filter(|first| !first.sha256.is_empty());
    let read = |what: &str, secret: Secret| {
        let validity = Validity::read(secret.not_before, secret.expires);
        let sha256 = unhex(&secret.sha256)
            .ok_or_else(|| format!("credential `{name}`: {what} must have 64 hexadecimal digits"))?;
        if sha256 == EMPTY_SHA256 {
            let how = "create one with `baton credential new`";
            return Err(format!("credential `{name}`: {what} is the hash of an empty text; {how}"));
        }
        Ok(Digest { sha256, validity: validity.map_err(|why| format!("credential `{name}`: a secret {why}"))? })
    };
    let first = first.into_iter().map(|secret| read("secret-sha256", secret));
    first.chain(secrets.iter().map(|secret| read("the sha256 of a secret", secret.clone()))).collect()
}

/// Parses the signing keys of a credential.
fn keys(credential: &Credential) -> Result<Vec<Key>, String> {
    let Credential { name, access_key_id, secret_access_key, access_keys, .. } = credential;
    let first = match (access_key_id, secret_access_key) {
        (None, None) => None,
        (Some(id), Some(secret)) => Some(AccessKey { id: id.clone(), secret: secret.clone(), ..AccessKey::default() }),
        _ => Some(AccessKey::default()),
    };
    let read = |key: AccessKey| {
        if key.id.is_empty() || key.secret.is_empty() {
            let both = "access-key-id and secret-access-key are both required, and must not be empty";
            return Err(format!("credential `{name}`: {both}"));
        }
        let found = key.secret.chars().count();
        if found < SECRET_CHARS_MIN {
            return Err(format!(
                "credential `{name}`: the secret of the key `{}` has {found} characters, expected at least \
                 {SECRET_CHARS_MIN}; create one with `baton credential new {name} --access-key`",
                key.id
            ));
        }
        let validity = Validity::read(key.not_before, key.expires);
        let validity = validity.map_err(|why| format!("credential `{name}`: the key `{}` {why}", key.id))?;
        Ok(Key { id: key.id, secret: key.secret, validity })
    };
    first.into_iter().chain(access_keys.iter().cloned()).map(read).collect()
}
