//! `baton credential …`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, Subcommand};
use serde_json::json;
use service::http::{Credential as Stanza, Credentials};
use sha2::{Digest, Sha256};

use super::{Done, Failed, note, print_text};

#[derive(Debug, Subcommand)]
pub(crate) enum Credential {
    New(New),
}

/// Make a secret, and the stanza that lets its holder in
///
/// The stanza goes to standard output, for the service's TOML file; the secret, which is kept nowhere, to standard error.
#[derive(Debug, Args)]
pub(crate) struct New {
    /// Whose it is, for people
    name: String,
    /// May do everything
    #[arg(long)]
    operator: bool,
    /// May read /metrics
    #[arg(long)]
    metrics: bool,
    /// A domain that it may read; * is all
    #[arg(long = "reader", value_name = "DOMAIN")]
    readers: Vec<String>,
    /// A domain that it may read without payloads; * is all
    #[arg(long = "reader-without-payloads", value_name = "DOMAIN")]
    readers_without_payloads: Vec<String>,
    /// A domain whose workflows it may start, read, signal, query, update, cancel and terminate; * is all
    #[arg(long = "application", value_name = "DOMAIN")]
    applications: Vec<String>,
    /// A domain that it may operate: acts by hand, resets, pauses, deletion, types, schedules; * is all
    #[arg(long = "operates", value_name = "DOMAIN")]
    operators: Vec<String>,
    /// A task list where it may take and answer turns; DOMAIN/* is all of a domain
    #[arg(long = "decider", value_name = "DOMAIN/LIST")]
    deciders: Vec<String>,
    /// A task list where it may take and answer activities; DOMAIN/* is all of a domain
    #[arg(long = "runner", value_name = "DOMAIN/LIST")]
    runners: Vec<String>,
    /// Make a key that signs, for clients of AWS SWF
    ///
    /// Its secret is in the stanza, because signatures cannot be checked with less: keep the file from others' eyes.
    #[arg(long)]
    aws: bool,
}

impl Credential {
    pub(super) fn run(self) -> Done {
        let Self::New(new) = self;
        new.run()
    }
}

impl New {
    fn run(self) -> Done {
        let Self { name, operator, metrics, readers, readers_without_payloads, aws, .. } = self;
        let Self { applications, operators, deciders, runners, .. } = self;
        let lists = [&readers, &readers_without_payloads, &applications, &operators, &deciders, &runners];
        if !operator && !metrics && lists.iter().all(|list| list.is_empty()) {
            let what = "say what it may do: --operator, --metrics, --reader, --reader-without-payloads, --application, \
                 --operates, --decider or --runner";
            return Err(Failed::Usage(what.to_owned()));
        }
        let may = Stanza { name, operator, metrics, readers, readers_without_payloads, ..Stanza::default() };
        let may = Stanza { applications, operators, deciders, runners, ..may };
        let secret = URL_SAFE_NO_PAD.encode(random::<32>()?);
        let stanza = if aws {
            // As long as AWS's, and of the characters that AWS's have.
            let id: String = random::<16>()?.iter().map(|byte| char::from(b'A' + byte % 26)).collect();
            Stanza { access_key_id: Some(format!("BATN{id}")), secret_access_key: Some(secret.clone()), ..may }
        } else {
            let digest = Sha256::digest(secret.as_bytes());
            let secret_sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
            Stanza { secret_sha256, ..may }
        };
        Credentials::new(vec![stanza.clone()]).map_err(Failed::Usage)?;
        print_text(&toml(&stanza)?)?;
        match &stanza.access_key_id {
            Some(id) => {
                note(&format!("the key of `{}`: AWS_ACCESS_KEY_ID={id} AWS_SECRET_ACCESS_KEY={secret}", stanza.name));
            }
            None => note(&format!("the secret of `{}`, for BATON_SECRET: {secret}", stanza.name)),
        }
        Ok(())
    }
}

fn random<const N: usize>() -> Result<[u8; N], Failed> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| Failed::Other(1, format!("no randomness: {error}")))?;
    Ok(bytes)
}

/// The stanza. Strings and lists of strings without control characters are the same in TOML as in JSON.
fn toml(stanza: &Stanza) -> Result<String, Failed> {
    let lists = [
        ("readers", &stanza.readers),
        ("readers-without-payloads", &stanza.readers_without_payloads),
        ("applications", &stanza.applications),
        ("operators", &stanza.operators),
        ("deciders", &stanza.deciders),
        ("runners", &stanza.runners),
    ];
    let texts = lists.iter().flat_map(|(_, list)| *list).chain([&stanza.name]);
    if texts.flat_map(|text| text.chars()).any(char::is_control) {
        return Err(Failed::Usage("names have no control characters".to_owned()));
    }
    let mut lines = vec!["[[credentials]]".to_owned(), format!("name = {}", json!(stanza.name))];
    let secrets = [
        ("secret-sha256", Some(&stanza.secret_sha256).filter(|hash| !hash.is_empty())),
        ("access-key-id", stanza.access_key_id.as_ref()),
        ("secret-access-key", stanza.secret_access_key.as_ref()),
    ];
    lines.extend(secrets.iter().filter_map(|(name, value)| Some(format!("{name} = {}", json!((*value)?)))));
    let truths = [("operator", stanza.operator), ("metrics", stanza.metrics)];
    lines.extend(truths.iter().filter(|(_, may)| *may).map(|(name, _)| format!("{name} = true")));
    let given = lists.iter().filter(|(_, list)| !list.is_empty());
    lines.extend(given.map(|(name, list)| format!("{name} = {}", json!(list))));
    Ok(lines.join("\n") + "\n")
}
