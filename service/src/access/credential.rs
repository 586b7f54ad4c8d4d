//! Credentials: how an operator writes them down, and what is read of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Denials;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use history::{CallerName, Decision, Permissions};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// A credential, as an operator writes it down. The secret of a bearer is nowhere but with its holder.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Credential {
    /// Whose it is, for people.
    pub name: String,
    /// The SHA-256 of the secret, in hexadecimal. Empty for one that only signs.
    #[serde(default)]
    pub secret_sha256: String,
    /// Names this credential in signatures over SWF's wire.
    #[serde(default)]
    pub access_key_id: Option<String>,
    /// What those signatures are made with. The secret itself: a signature cannot be checked with less.
    #[serde(default)]
    pub secret_access_key: Option<String>,
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
    /// Domains in which it may start, read, signal, query, update, cancel and terminate; `*` is all.
    #[serde(default)]
    pub applications: Vec<String>,
    /// Domains that it may operate: what is done by hand, resets, pauses, deletion, types, schedules; `*` is all.
    #[serde(default)]
    pub operators: Vec<String>,
    /// Task lists, as `domain/list`, where it may take and answer turns; `domain/*` is all of a domain. A slash or a
    /// percent sign within a name is percent-encoded, as in a path.
    #[serde(default)]
    pub deciders: Vec<String>,
    /// Task lists, in the same way, where it may take and answer activities.
    #[serde(default)]
    pub runners: Vec<String>,
    /// What it may decide where it answers turns; everything when absent.
    #[serde(default)]
    pub may_decide: Option<Permissions>,
}

impl std::fmt::Debug for Credential {
    /// Without its secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Every credential.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    known: Vec<Arc<Holder>>,
    denials: Arc<Denials>,
}

/// A credential, read.
#[derive(Clone)]
pub(crate) struct Holder {
    name: CallerName,
    /// None for one that only signs.
    digest: Option<[u8; 32]>,
    /// Its id and its secret.
    key: Option<(String, String)>,
    pub(super) is_operator: bool,
    pub(super) metrics: bool,
    pub(super) readers: Domains,
    pub(super) readers_without_payloads: Domains,
    pub(super) applications: Domains,
    pub(super) operators: Domains,
    pub(super) deciders: Vec<Lists>,
    pub(super) runners: Vec<Lists>,
    may_decide: Option<Arc<Permissions>>,
}

impl std::fmt::Debug for Holder {
    /// Without its secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Holder").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Domains by their names; `*` is all.
#[derive(Debug, Clone)]
pub(super) struct Domains(Vec<String>);

impl Domains {
    pub(super) fn has(&self, domain: &str) -> bool {
        self.0.iter().any(|of| of == "*" || of == domain)
    }
}

/// A task list of a domain, or all of them.
#[derive(Debug, Clone)]
pub(super) struct Lists {
    domain: String,
    /// All when absent.
    list: Option<String>,
}

impl Lists {
    fn read(entry: &str) -> Option<Self> {
        let (domain, list) = entry.split_once('/').filter(|(_, list)| !list.contains('/'))?;
        let decode = |text| percent_decode_str(text).decode_utf8().ok().filter(|text| !text.is_empty());
        let list = if list == "*" { None } else { Some(decode(list)?.into_owned()) };
        Some(Self { domain: decode(domain)?.into_owned(), list })
    }

    pub(super) fn has(&self, domain: &str, list: &str) -> bool {
        self.domain == domain && self.list.as_deref().is_none_or(|name| name == list)
    }
}

impl Holder {
    fn read(credential: Credential) -> Result<Self, String> {
        let Credential { name, secret_sha256, access_key_id, secret_access_key, operator, metrics, .. } = credential;
        let Credential {
            readers,
            readers_without_payloads,
            applications,
            operators,
            deciders,
            runners,
            may_decide,
            ..
        } = credential;
        if name.trim().is_empty() {
            return Err("a credential has an empty name; say whose it is".to_owned());
        }
        let name = CallerName::new(&name).map_err(|fault| format!("credential `{}`: {fault}", name.escape_debug()))?;
        let key = match (access_key_id, secret_access_key) {
            (None, None) => None,
            (Some(id), Some(secret)) if !id.is_empty() && !secret.is_empty() => Some((id, secret)),
            _ => {
                let both = "access-key-id and secret-access-key belong together, and neither is empty";
                return Err(format!("credential `{name}`: {both}"));
            }
        };
        // One that signs needs no other secret.
        let digest = if key.is_some() && secret_sha256.is_empty() { None } else { Some(unhex(&secret_sha256)) };
        let digest = digest
            .map(|digest| {
                digest.ok_or_else(|| format!("credential `{name}`: secret-sha256 must have 64 hexadecimal digits"))
            })
            .transpose()?;
        let lists = |entries: Vec<String>| -> Result<Vec<Lists>, String> {
            let read = |entry: String| {
                if entry.starts_with("*/") {
                    let how = "name the domain before the slash, or write `%2A` for one that is called `*`";
                    return Err(format!("credential `{name}`: `{entry}` is of no domain; {how}"));
                }
                Lists::read(&entry).ok_or_else(|| format!("credential `{name}`: `{entry}` is not `domain/list`"))
            };
            entries.into_iter().map(read).collect()
        };
        let (deciders, runners) = (lists(deciders)?, lists(runners)?);
        let domains = [&readers, &readers_without_payloads, &applications, &operators];
        if domains.iter().any(|domains| domains.iter().any(String::is_empty)) {
            return Err(format!("credential `{name}`: the name of a domain is empty; `*` is all of them"));
        }
        let names_none = domains.iter().all(|domains| domains.is_empty());
        if !operator && !metrics && names_none && deciders.is_empty() && runners.is_empty() {
            let levels =
                "operator, metrics, readers, readers-without-payloads, applications, operators, deciders, runners";
            return Err(format!("credential `{name}` may do nothing; give it one of: {levels}"));
        }
        if let Some(may) = &may_decide {
            let problem = if operator {
                Some("limits nobody: with `operator = true` it may decide everything".to_owned())
            } else if deciders.is_empty() {
                Some("limits nobody: there are no `deciders`".to_owned())
            } else if may.is_everything() {
                let known = "decisions, task-lists, activity-types, child-types";
                Some(format!("limits nothing; give one of: {known}"))
            } else {
                let unknown = may.decisions.iter().flatten().find(|name| !Decision::NAMES.contains(&name.as_str()));
                unknown.map(|name| {
                    format!("names the decision `{name}`, expected one of `{}`", Decision::NAMES.join("`, `"))
                })
            };
            if let Some(problem) = problem {
                return Err(format!("credential `{name}`: may-decide {problem}"));
            }
        }
        Ok(Self {
            name,
            digest,
            key,
            is_operator: operator,
            metrics,
            readers: Domains(readers),
            readers_without_payloads: Domains(readers_without_payloads),
            applications: Domains(applications),
            operators: Domains(operators),
            deciders,
            runners,
            may_decide: may_decide.map(Arc::new),
        })
    }

    /// What it may decide; everything when absent.
    pub(super) fn may_decide(&self) -> Option<&Arc<Permissions>> {
        self.may_decide.as_ref()
    }

    /// Whose it is.
    pub(crate) fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The same, as events have it.
    pub(super) fn by(&self) -> &CallerName {
        &self.name
    }

    /// Whether it may read the runs of this domain, with or without their payloads.
    pub(super) fn reads(&self, domain: &str) -> bool {
        self.sees_payloads(domain) || self.readers_without_payloads.has(domain)
    }

    /// Whether what it reads of this domain has payloads. Where it has several levels, the highest counts.
    pub(super) fn sees_payloads(&self, domain: &str) -> bool {
        [&self.readers, &self.applications, &self.operators].iter().any(|domains| domains.has(domain))
    }

    /// Whether any of its levels names this domain.
    pub(super) fn has_to_do_with(&self, domain: &str) -> bool {
        self.reads(domain) || self.deciders.iter().chain(&self.runners).any(|lists| lists.domain == domain)
    }
}

impl Credentials {
    /// Takes credentials as they were written down.
    ///
    /// # Errors
    ///
    /// For a hash that is not 64 hexadecimal digits, a task list that is not `domain/list`, half a key, nothing that it may
    /// do, naming the credential; for an empty name; and for two of the same key id or the same secret.
    pub fn new(credentials: Vec<Credential>) -> Result<Self, String> {
        let known = credentials.into_iter().map(|it| Holder::read(it).map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
        let mut ids = BTreeSet::new();
        for (id, _) in known.iter().filter_map(|holder| holder.key.as_ref()) {
            if !ids.insert(id) {
                return Err(format!("two credentials have the access-key-id `{id}`"));
            }
        }
        for (at, holder) in known.iter().enumerate() {
            let is_twin = |other: &&Arc<Holder>| holder.digest.is_some() && other.digest == holder.digest;
            if let Some(twin) = known.iter().take(at).find(is_twin) {
                let (one, other) = (&twin.name, &holder.name);
                return Err(format!(
                    "the credentials `{one}` and `{other}` have the same secret; only the first would count"
                ));
            }
        }
        Ok(Self { known, denials: Arc::default() })
    }

    /// Whether there is none, so that nobody is asked.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whoever holds this secret.
    fn holder(&self, secret: &str) -> Option<&Arc<Holder>> {
        let digest: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        self.known.iter().find(|holder| holder.digest.is_some_and(|own| is_same(&own, &digest)))
    }

    /// Whoever shows a secret in these headers.
    pub(crate) fn bearer(&self, headers: &HeaderMap) -> Option<&Arc<Holder>> {
        let (scheme, secret) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
        if scheme.eq_ignore_ascii_case("bearer") { self.holder(secret.trim_start_matches(' ')) } else { None }
    }

    /// What becomes of those who are not let in.
    pub(crate) fn denials(&self) -> &Denials {
        &self.denials
    }

    /// Whoever signs with this key, and what with.
    pub(crate) fn signer(&self, access_key_id: &str) -> Option<(&Arc<Holder>, &str)> {
        self.known.iter().find_map(|holder| {
            let (id, secret) = holder.key.as_ref()?;
            (id == access_key_id).then_some((holder, secret.as_str()))
        })
    }
}

/// Looks at every byte, wherever they differ, so that the time it takes tells nothing.
fn is_same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.iter().zip(other).fold(0, |difference, (one, other)| difference | (one ^ other)) == 0
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(bytes)
}
