//! `baton credential …`: edits the service's configuration file. These commands send no requests to a service.

mod file;

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, Subcommand};
use engine::{Clock as _, SystemClock};
use history::{Duration, Timestamp};
use serde_json::{Value, json};
use service::access::PREFIX_DIGITS;
use service::access::{AccessKey, Credential as Stanza, Credentials, Moment, Secret};
use sha2::{Digest, Sha256};

use cli::{Done, Failed, note, print_json, print_line, print_rows, print_text};
use file::File;

/// Prefix of generated secrets, by which scanners of repositories and logs recognize leaked secrets.
const SECRET_PREFIX: &str = "baton_";

#[derive(Debug, Subcommand)]
pub(crate) enum CredentialCommand {
    New(New),
    List(ListCredentials),
    Revoke(Revoke),
}

/// Option that selects the configuration file of the service.
#[derive(Debug, Args)]
struct Config {
    /// Configuration file of the service (TOML)
    #[arg(long = "config", env = "BATON_CONFIG", value_name = "FILE")]
    path: Option<PathBuf>,
}

impl Config {
    fn file(&self) -> Result<File, Failed> {
        let path = self.path.as_ref().ok_or_else(|| {
            Failed::Usage("set the service's configuration file with --config or BATON_CONFIG".to_owned())
        })?;
        File::read(path)
    }
}

/// Create a credential, or another secret of one, in the service's configuration file
///
/// The secret is printed once on standard output and not stored; the file contains its hash. If a credential with this
/// name exists already, it gets the new secret in addition to its existing ones. A running service reloads the file
/// within seconds.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct New {
    /// Name of the credential
    name: String,
    /// Permit everything
    #[arg(long)]
    operator: bool,
    /// Permit reading /metrics
    #[arg(long)]
    metrics: bool,
    /// Permit reading in this domain; * for all
    #[arg(long = "reader", value_name = "DOMAIN")]
    readers: Vec<String>,
    /// Permit reading in this domain without payloads; * for all
    #[arg(long = "reader-without-payloads", value_name = "DOMAIN")]
    readers_without_payloads: Vec<String>,
    /// Permit starting, reading, signaling, querying, updating, canceling and terminating workflows in this domain; *
    /// for all
    #[arg(long = "application", value_name = "DOMAIN")]
    applications: Vec<String>,
    /// Permit operating this domain: activities, resets, pauses, deletion, types, schedules; * for all
    #[arg(long = "operates", value_name = "DOMAIN")]
    operators: Vec<String>,
    /// Permit deciders on this task list; DOMAIN/* for all lists of a domain
    #[arg(long = "decider", value_name = "DOMAIN/LIST")]
    deciders: Vec<String>,
    /// Permit runners on this task list; DOMAIN/* for all lists of a domain
    #[arg(long = "runner", value_name = "DOMAIN/LIST")]
    runners: Vec<String>,
    /// Validity of the secret, e.g. `90d` [default: unlimited]
    #[arg(long, value_name = "TIME")]
    expires: Option<Duration>,
    /// Create an access key for clients of AWS SWF, which sign requests
    ///
    /// The file then contains the secret of the key in clear text, because verifying signatures requires it. Protect
    /// the file.
    #[arg(long)]
    access_key: bool,
    /// Print the section for the file instead of changing the file, and print the secret on standard error
    #[arg(long)]
    print: bool,
    /// Print JSON with the name and the secret; with --print, also with the section
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: Config,
}

/// List the credentials of a configuration file: names, permissions, and the validity of each secret
///
/// A secret is identified by the first digits of its hash, an access key by its id.
#[derive(Debug, Args)]
pub(crate) struct ListCredentials {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: Config,
}

/// Remove a credential, or one of its secrets, from the service's configuration file
///
/// Within seconds, a running service rejects the removed credential or secret, and ends open requests that use it.
#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// Name of the credential
    name: String,
    /// Remove only this secret: the first digits of its hash, or the id of an access key, as in `baton credential list`
    #[arg(long, value_name = "DIGITS")]
    secret: Option<String>,
    #[command(flatten)]
    config: Config,
}

impl CredentialCommand {
    pub(super) fn run(self) -> Done {
        match self {
            Self::New(new) => new.run(),
            Self::List(list) => list.run(),
            Self::Revoke(revoke) => revoke.run(),
        }
    }
}

/// New credential: its section of the configuration file, and the secret for the client that will use it.
struct Made {
    stanza: Stanza,
    told: String,
    what: &'static str,
}

impl Made {
    /// Returns the output of `--json`.
    fn json(&self, name: &str, section: Option<&str>) -> Value {
        let mut json = match self.stanza.access_keys.first() {
            Some(key) => json!({ "name": name, "accessKeyId": key.id, "secretAccessKey": key.secret }),
            None => json!({ "name": name, "secret": self.told }),
        };
        if let Some((section, json)) = section.zip(json.as_object_mut()) {
            json.insert("section".to_owned(), section.into());
        }
        json
    }
}

impl New {
    fn run(self) -> Done {
        let (print, is_json) = (self.print, self.json);
        let name = self.name.clone();
        if print {
            let made = self.make()?;
            Credentials::new(vec![made.stanza.clone()]).map_err(Failed::Usage)?;
            if is_json {
                return print_json(&made.json(&name, Some(&toml(&made.stanza)?)));
            }
            print_text(&toml(&made.stanza)?)?;
            note(&format!("the {} of `{name}`: {}", made.what, made.told));
            return Ok(());
        }
        let mut file = match &self.config.path {
            Some(path) if !path.exists() => File::new(path),
            _ => self.config.file()?,
        };
        let is_known = file.credentials()?.iter().any(|stanza| stanza.name == name);
        if is_known && self.says_what_it_may() {
            let what = format!("`{name}` already exists and gets another secret; its permissions are in the file");
            return Err(Failed::Usage(format!("{what}: omit the permission options")));
        }
        let made = self.make()?;
        if is_known {
            file.add_secret(&name, &made.stanza)?;
        } else {
            file.append(&toml(&made.stanza)?);
        }
        file.write()?;
        let how = if is_known { "an additional secret" } else { "a new credential" };
        note(&format!("`{name}`, {how}: written to {}; a running service loads it within seconds", file.shown()));
        if is_json {
            return print_json(&made.json(&name, None));
        }
        // On a terminal, the secret follows this message directly. If standard output is redirected, another message
        // says where the secret is.
        if std::io::stdout().is_terminal() {
            note(&format!("{}, which is not stored anywhere else:", made.what));
        } else {
            note(&format!("its {} was written to standard output, and is not stored anywhere else", made.what));
        }
        print_line(&made.told)
    }

    fn says_what_it_may(&self) -> bool {
        let lists = [&self.readers, &self.readers_without_payloads, &self.applications, &self.operators];
        let lists = lists.into_iter().chain([&self.deciders, &self.runners]);
        self.operator || self.metrics || lists.into_iter().any(|list| !list.is_empty())
    }

    fn make(self) -> Result<Made, Failed> {
        let expires = self.expires.map(|span| Moment(SystemClock.now().plus(span)));
        let secret = URL_SAFE_NO_PAD.encode(random::<32>()?);
        let Self { name, operator, metrics, readers, readers_without_payloads, access_key, .. } = self;
        let Self { applications, operators, deciders, runners, .. } = self;
        let may = Stanza { name, operator, metrics, readers, readers_without_payloads, ..Stanza::default() };
        let may = Stanza { applications, operators, deciders, runners, ..may };
        if access_key {
            // The id has the length of AWS's access key ids, and consists of characters that also occur in AWS's ids.
            let id: String = random::<16>()?.iter().map(|byte| char::from(b'A' + byte % 26)).collect();
            let id = format!("BATN{id}");
            let told = format!("AWS_ACCESS_KEY_ID={id} AWS_SECRET_ACCESS_KEY={secret}");
            let key = AccessKey { id, secret, expires, ..AccessKey::default() };
            return Ok(Made { stanza: Stanza { access_keys: vec![key], ..may }, told, what: "key" });
        }
        let secret = format!("{SECRET_PREFIX}{secret}");
        let sha256 = hex(&Sha256::digest(secret.as_bytes()));
        let made = Secret { sha256, expires, ..Secret::default() };
        Ok(Made { stanza: Stanza { secrets: vec![made], ..may }, told: secret, what: "secret" })
    }
}

impl ListCredentials {
    fn run(self) -> Done {
        let now = SystemClock.now();
        let credentials = self.config.file()?.credentials()?;
        if self.json {
            return print_json(&credentials.iter().map(credential_json).collect::<Vec<_>>());
        }
        let rows = credentials.into_iter().flat_map(|stanza| {
            let levels = levels(&stanza);
            let row = |known: Known| [stanza.name.clone(), levels.clone(), known.id.clone(), known.validity(now)];
            known_by(&stanza).into_iter().map(row).collect::<Vec<_>>()
        });
        print_rows(["NAME", "PERMISSIONS", "SECRET", "VALID"], rows)
    }
}

impl Revoke {
    fn run(self) -> Done {
        let Self { name, secret, config } = self;
        let mut file = config.file()?;
        match &secret {
            None => file.remove(&name)?,
            Some(secret) => file.remove_secret(&name, secret)?,
        }
        if file.credentials()?.is_empty() {
            let why = "this is the last credential, and without credentials the service gives all callers full access";
            return Err(Failed::Other(1, format!("{why}; create another one first")));
        }
        file.write()?;
        let what = secret.map_or_else(String::new, |secret| format!("the secret {secret} of "));
        note(&format!("{what}`{name}` is removed from {}; a running service rejects it within seconds", file.shown()));
        Ok(())
    }
}

/// A secret, key or certificate of a credential.
struct Known {
    what: &'static str,
    /// Identifier, which is not secret.
    id: String,
    not_before: Option<Moment>,
    expires: Option<Moment>,
}

impl Known {
    /// Returns the validity in words.
    fn validity(&self, now: Timestamp) -> String {
        if self.what == CERTIFICATE {
            "as in the certificate".to_owned()
        } else {
            good(now, self.not_before, self.expires)
        }
    }
}

/// Kind of an entry for a certificate, whose validity is in the certificate.
const CERTIFICATE: &str = "certificate";

/// Returns all secrets, keys and certificates of a credential.
fn known_by(stanza: &Stanza) -> Vec<Known> {
    let always = |what, id| Known { what, id, not_before: None, expires: None };
    let secret = (!stanza.secret_sha256.is_empty()).then(|| always("secret", short(&stanza.secret_sha256)));
    let secrets = stanza.secrets.iter().map(|it| {
        let (id, not_before, expires) = (short(&it.sha256), it.not_before, it.expires);
        Known { what: "secret", id, not_before, expires }
    });
    let key = stanza.access_key_id.iter().map(|id| always("accessKey", id.clone()));
    let keys = stanza.access_keys.iter().map(|it| {
        let (id, not_before, expires) = (it.id.clone(), it.not_before, it.expires);
        Known { what: "accessKey", id, not_before, expires }
    });
    let certificates = stanza.certificates.iter().map(|entry| always(CERTIFICATE, entry.clone()));
    secret.into_iter().chain(secrets).chain(key).chain(keys).chain(certificates).collect()
}

/// Returns a credential as an object with the names of the REST API, without its secrets.
fn credential_json(stanza: &Stanza) -> Value {
    let known = known_by(stanza).into_iter().map(|known| {
        let mut json = json!({ "kind": known.what, "id": known.id });
        let times = [("notBefore", known.not_before), ("expires", known.expires)];
        if let Some(json) = json.as_object_mut() {
            json.extend(times.into_iter().filter_map(|(name, at)| Some((name.to_owned(), at?.0.to_string().into()))));
        }
        json
    });
    json!({
        "name": stanza.name,
        "operator": stanza.operator,
        "metrics": stanza.metrics,
        "readers": stanza.readers,
        "readersWithoutPayloads": stanza.readers_without_payloads,
        "applications": stanza.applications,
        "operators": stanza.operators,
        "deciders": stanza.deciders,
        "runners": stanza.runners,
        "secrets": known.collect::<Vec<_>>(),
    })
}

/// Shortens the hash of a secret to the digits that identify it in output.
fn short(sha256: &str) -> String {
    sha256.chars().take(PREFIX_DIGITS).collect()
}

fn good(now: Timestamp, not_before: Option<Moment>, expires: Option<Moment>) -> String {
    let from = not_before.filter(|from| now < from.0).map(|from| format!("from {}", from.0));
    let until = expires.map(|until| {
        let what = if until.0 <= now { "expired" } else { "until" };
        format!("{what} {}", until.0)
    });
    let parts: Vec<String> = from.into_iter().chain(until).collect();
    if parts.is_empty() { "always".to_owned() } else { parts.join(" ") }
}

/// Formats the permissions of a credential as in the configuration file.
fn levels(stanza: &Stanza) -> String {
    let truths = [("operator", stanza.operator), ("metrics", stanza.metrics)];
    let truths = truths.into_iter().filter(|(_, may)| *may).map(|(name, _)| name.to_owned());
    let lists = lists(stanza).into_iter().filter(|(_, list)| !list.is_empty());
    truths.chain(lists.map(|(name, list)| format!("{name} {}", list.join(", ")))).collect::<Vec<_>>().join("; ")
}

fn lists(stanza: &Stanza) -> [(&'static str, &Vec<String>); 6] {
    [
        ("readers", &stanza.readers),
        ("readers-without-payloads", &stanza.readers_without_payloads),
        ("applications", &stanza.applications),
        ("operators", &stanza.operators),
        ("deciders", &stanza.deciders),
        ("runners", &stanza.runners),
    ]
}

fn random<const N: usize>() -> Result<[u8; N], Failed> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| Failed::Other(1, format!("cannot get random numbers: {error}")))?;
    Ok(bytes)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Formats the section of a new credential as TOML. Strings and lists of strings are written as JSON, which is also
/// valid TOML if they contain no control characters.
fn toml(stanza: &Stanza) -> Result<String, Failed> {
    let texts = lists(stanza).into_iter().flat_map(|(_, list)| list).chain([&stanza.name]);
    if texts.flat_map(|text| text.chars()).any(char::is_control) {
        return Err(Failed::Usage("names must not contain control characters".to_owned()));
    }
    let mut lines = vec!["[[credentials]]".to_owned(), format!("name = {}", json!(stanza.name))];
    let until = |expires: Option<Moment>| expires.map_or_else(String::new, |it| format!(", expires = {}", it.0));
    // A secret without expiry is written in the shorter form `secret-sha256`.
    lines.extend(stanza.secrets.iter().map(|it| match it.expires {
        None => format!("secret-sha256 = {}", json!(it.sha256)),
        expires => format!("secrets = [{{ sha256 = {}{} }}]", json!(it.sha256), until(expires)),
    }));
    lines.extend(stanza.access_keys.iter().flat_map(|it| match it.expires {
        None => {
            vec![format!("access-key-id = {}", json!(it.id)), format!("secret-access-key = {}", json!(it.secret))]
        }
        expires => {
            let key = format!("id = {}, secret = {}{}", json!(it.id), json!(it.secret), until(expires));
            vec![format!("access-keys = [{{ {key} }}]")]
        }
    }));
    let truths = [("operator", stanza.operator), ("metrics", stanza.metrics)];
    lines.extend(truths.iter().filter(|(_, may)| *may).map(|(name, _)| format!("{name} = true")));
    let given = lists(stanza).into_iter().filter(|(_, list)| !list.is_empty());
    lines.extend(given.map(|(name, list)| format!("{name} = {}", json!(list))));
    Ok(lines.join("\n") + "\n")
}
