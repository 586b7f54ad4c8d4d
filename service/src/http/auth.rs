//! Who may do what (S3.4, S3.56): credentials, and what each call needs.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Method;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::problem::Refused;
use crate::engine::Engine;

/// A credential, as an operator writes it down. The secret itself is nowhere but with its holder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Credential {
    /// Whose it is, for people.
    pub name: String,
    /// The SHA-256 of the secret, in hexadecimal.
    pub secret_sha256: String,
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

/// Every credential.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    known: Vec<Holder>,
}

/// A credential, read.
#[derive(Debug, Clone)]
struct Holder {
    digest: [u8; 32],
    is_operator: bool,
    applications: Vec<String>,
    deciders: Vec<Lists>,
    runners: Vec<Lists>,
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
        let Credential { name, secret_sha256, operator, applications, deciders, runners } = credential;
        let digest = unhex(&secret_sha256)
            .ok_or_else(|| format!("credential `{name}`: secret-sha256 must have 64 hexadecimal digits"))?;
        let lists = |entries: Vec<String>| -> Result<Vec<Lists>, String> {
            let read = |entry: String| {
                Lists::read(&entry).ok_or_else(|| format!("credential `{name}`: `{entry}` is not `domain/list`"))
            };
            entries.into_iter().map(read).collect()
        };
        Ok(Self { digest, is_operator: operator, applications, deciders: lists(deciders)?, runners: lists(runners)? })
    }
}

impl Credentials {
    /// Takes credentials as they were written down.
    ///
    /// # Errors
    ///
    /// For a hash that is not 64 hexadecimal digits and for a task list that is not `domain/list`, naming the credential.
    pub fn new(credentials: Vec<Credential>) -> Result<Self, String> {
        let known = credentials.into_iter().map(Holder::read).collect::<Result<_, String>>()?;
        Ok(Self { known })
    }

    /// Whether there is none, so that nobody is asked.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whoever holds this secret.
    fn holder(&self, secret: &str) -> Option<&Holder> {
        let digest: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        self.known.iter().find(|holder| is_same(&holder.digest, &digest))
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
enum Need {
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

    fn is_met_by(&self, holder: &Holder) -> bool {
        holder.is_operator
            || match self {
                Self::Nothing | Self::Known => true,
                Self::Operator => false,
                Self::Application(domain) => holder.applications.iter().any(|of| of == "*" || of == domain),
                Self::Decider(domain, list) => holder.deciders.iter().any(|lists| lists.has(domain, list)),
                Self::Runner(domain, list) => holder.runners.iter().any(|lists| lists.has(domain, list)),
            }
    }

    fn words(&self) -> String {
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

/// Lets a request pass, or says why not.
pub(super) async fn check(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let secret = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let holder = secret.and_then(|secret| gate.credentials.holder(secret));
    let need = match (Need::of(&gate.engine, request.method(), request.uri().path()), holder) {
        (Ok(Need::Nothing), _) => return next.run(request).await,
        (_, None) => return Refused::Unauthorized.into_response(),
        (Err(refused), Some(_)) => return refused.into_response(),
        (Ok(need), Some(_)) => need,
    };
    if holder.is_some_and(|holder| need.is_met_by(holder)) {
        next.run(request).await
    } else {
        Refused::Forbidden { what: need.words() }.into_response()
    }
}
