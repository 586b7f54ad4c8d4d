//! Who may do what (S3.4, S3.56): credentials, and what each call needs.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::extract::Narrow;
use super::problem::Refused;
use crate::engine::Engine;

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
    /// Domains in which it may start, read, signal, cancel and terminate; `*` is all.
    #[serde(default)]
    pub applications: Vec<String>,
    /// Task lists, as `domain/list`, where it may take and answer turns; `domain/*` is all of a domain. A slash or a
    /// percent sign within a name is percent-encoded, as in a path.
    #[serde(default)]
    pub deciders: Vec<String>,
    /// Task lists, in the same way, where it may take and answer activities.
    #[serde(default)]
    pub runners: Vec<String>,
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
    known: Vec<Holder>,
}

/// A credential, read.
#[derive(Clone)]
pub(crate) struct Holder {
    /// None for one that only signs.
    digest: Option<[u8; 32]>,
    /// Its id and its secret.
    key: Option<(String, String)>,
    is_operator: bool,
    applications: Vec<String>,
    deciders: Vec<Lists>,
    runners: Vec<Lists>,
}

impl std::fmt::Debug for Holder {
    /// Without its secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Holder").finish_non_exhaustive()
    }
}

/// A task list of a domain, or all of them.
#[derive(Debug, Clone)]
struct Lists {
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

    fn has(&self, domain: &str, list: &str) -> bool {
        self.domain == domain && self.list.as_deref().is_none_or(|name| name == list)
    }
}

impl Holder {
    fn read(credential: Credential) -> Result<Self, String> {
        let Credential { name, secret_sha256, access_key_id, secret_access_key, .. } = credential;
        let Credential { operator, applications, deciders, runners, .. } = credential;
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
                Lists::read(&entry).ok_or_else(|| format!("credential `{name}`: `{entry}` is not `domain/list`"))
            };
            entries.into_iter().map(read).collect()
        };
        let (deciders, runners) = (lists(deciders)?, lists(runners)?);
        Ok(Self { digest, key, is_operator: operator, applications, deciders, runners })
    }
}

impl Credentials {
    /// Takes credentials as they were written down.
    ///
    /// # Errors
    ///
    /// For a hash that is not 64 hexadecimal digits, a task list that is not `domain/list`, half a key, naming the
    /// credential; and for two of the same key id.
    pub fn new(credentials: Vec<Credential>) -> Result<Self, String> {
        let known = credentials.into_iter().map(Holder::read).collect::<Result<Vec<_>, String>>()?;
        let mut ids = std::collections::BTreeSet::new();
        for (id, _) in known.iter().filter_map(|holder| holder.key.as_ref()) {
            if !ids.insert(id) {
                return Err(format!("two credentials have the access-key-id `{id}`"));
            }
        }
        Ok(Self { known })
    }

    /// Whether there is none, so that nobody is asked.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whoever holds this secret.
    fn holder(&self, secret: &str) -> Option<&Holder> {
        let digest: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        self.known.iter().find(|holder| holder.digest.is_some_and(|own| is_same(&own, &digest)))
    }

    /// Whoever shows a secret in these headers.
    pub(crate) fn bearer(&self, headers: &HeaderMap) -> Option<&Holder> {
        let secret = headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
        self.holder(secret)
    }

    /// Whoever signs with this key, and what with.
    pub(crate) fn signer(&self, access_key_id: &str) -> Option<(&Holder, &str)> {
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

/// What a call needs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing.
    Nothing,
    /// Any credential.
    Known,
    /// An operator's.
    Operator,
    /// One for applications of this domain.
    Application(String),
    /// One for deciders of this list.
    Decider(String, String),
    /// One for runners of this list.
    Runner(String, String),
}

impl Need {
    fn of(engine: &Engine, method: &Method, path: &str) -> Result<Self, Refused> {
        let segments: Result<Vec<String>, _> = path
            .split('/')
            .skip(1)
            .map(|segment| percent_decode_str(segment).decode_utf8().map(std::borrow::Cow::into_owned))
            .collect();
        let segments = segments.map_err(|_| Refused::BadPath("the path is not UTF-8".to_owned()))?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        Ok(match segments.as_slice() {
            ["healthz" | "readyz" | "openapi.json"] => Self::Nothing,
            // The page says nothing of what is kept here.
            [""] if *method == Method::GET || *method == Method::HEAD => Self::Nothing,
            ["v1", "domains"] | ["v1", "domains", _, "workflow-types" | "activity-types", ..]
                if *method == Method::GET =>
            {
                Self::Known
            }
            ["v1", "domains", _] if *method == Method::GET => Self::Known,
            // What is deleted is gone.
            ["v1", "domains", _, "workflows", ..] if *method == Method::DELETE => Self::Operator,
            ["v1", "domains", domain, "workflows" | "schedules" | "workflow-types" | "activity-types", ..] => {
                Self::Application((*domain).to_owned())
            }
            ["v1", "domains", domain, "task-lists", list, "decider", ..] => {
                Self::Decider((*domain).to_owned(), (*list).to_owned())
            }
            ["v1", "domains", domain, "task-lists", list, "activity", ..] => {
                Self::Runner((*domain).to_owned(), (*list).to_owned())
            }
            ["v1", "decider-tasks", token, ..] => {
                let token = engine.decider_token(token)?;
                Self::Decider(token.domain.to_string(), token.task_list)
            }
            ["v1", "activity-tasks", token, ..] => {
                let token = engine.activity_token(token)?;
                Self::Runner(token.domain.to_string(), token.task_list)
            }
            // Whatever has no row here is for operators, so that a new call is closed until somebody thinks of it.
            _ => Self::Operator,
        })
    }

    pub(crate) fn is_met_by(&self, holder: &Holder) -> bool {
        holder.is_operator
            || match self {
                Self::Nothing | Self::Known => true,
                Self::Operator => false,
                Self::Application(domain) => holder.applications.iter().any(|of| of == "*" || of == domain),
                Self::Decider(domain, list) => holder.deciders.iter().any(|lists| lists.has(domain, list)),
                Self::Runner(domain, list) => holder.runners.iter().any(|lists| lists.has(domain, list)),
            }
    }

    pub(crate) fn words(&self) -> String {
        match self {
            Self::Nothing | Self::Known => "do this".to_owned(),
            Self::Operator => "do what operators do".to_owned(),
            Self::Application(domain) => format!("use workflows of domain `{domain}`"),
            Self::Decider(domain, list) => format!("take or answer turns of list `{list}` in domain `{domain}`"),
            Self::Runner(domain, list) => format!("take or answer activities of list `{list}` in domain `{domain}`"),
        }
    }
}

/// What the check needs to know.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) engine: Arc<Engine>,
    pub(super) credentials: Arc<Credentials>,
}

/// Lets a request pass, or says why not. SWF's wire, which says so in its own words, is told who there is.
pub(super) async fn check(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    if request.uri().path() == crate::swf::PATH && request.method() == Method::POST {
        request.extensions_mut().insert(gate.credentials);
        return next.run(request).await;
    }
    let holder = gate.credentials.bearer(request.headers());
    let need = match (Need::of(&gate.engine, request.method(), request.uri().path()), holder) {
        (Ok(Need::Nothing), _) => return next.run(request).await,
        (_, None) => return Refused::Unauthorized.into_response(),
        (Err(refused), Some(_)) => return refused.into_response(),
        (Ok(need), Some(_)) => need,
    };
    let Some(holder) = holder.filter(|holder| need.is_met_by(holder)) else {
        return Refused::Forbidden { what: need.words() }.into_response();
    };
    if let Need::Decider(domain, _) | Need::Runner(domain, _) = need
        && !Need::Application(domain).is_met_by(holder)
    {
        request.extensions_mut().insert(Narrow);
    }
    next.run(request).await
}
