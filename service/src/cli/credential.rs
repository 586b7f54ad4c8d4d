//! `baton credential …`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, Subcommand};
use serde_json::json;
use service::http::{Credential as Stanza, Credentials};
use sha2::{Digest, Sha256};

use super::{Done, Failed, print_text};

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
    /// A domain whose workflows it may start, read, signal, cancel and terminate; * is all
    #[arg(long = "application", value_name = "DOMAIN")]
    applications: Vec<String>,
    /// A task list where it may take and answer turns; DOMAIN/* is all of a domain
    #[arg(long = "decider", value_name = "DOMAIN/LIST")]
    deciders: Vec<String>,
    /// A task list where it may take and answer activities; DOMAIN/* is all of a domain
    #[arg(long = "runner", value_name = "DOMAIN/LIST")]
    runners: Vec<String>,
}

impl Credential {
    pub(super) fn run(self) -> Done {
        let Self::New(new) = self;
        new.run()
    }
}

impl New {
    fn run(self) -> Done {
        let Self { name, operator, applications, deciders, runners } = self;
        let allows_nothing = !operator && applications.is_empty() && deciders.is_empty() && runners.is_empty();
        if allows_nothing {
            let what = "say what it may do: --operator, --application, --decider or --runner";
            return Err(Failed::Usage(what.to_owned()));
        }
        let mut entropy = [0; 32];
        getrandom::fill(&mut entropy).map_err(|error| Failed::Other(1, format!("no randomness: {error}")))?;
        let secret = URL_SAFE_NO_PAD.encode(entropy);
        let digest = Sha256::digest(secret.as_bytes());
        let secret_sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        let stanza = Stanza { name, secret_sha256, operator, applications, deciders, runners };
        Credentials::new(vec![stanza.clone()]).map_err(Failed::Usage)?;
        print_text(&toml(&stanza)?)?;
        eprintln!("the secret of `{}`, for BATON_SECRET: {secret}", stanza.name);
        Ok(())
    }
}

/// The stanza. Strings and lists of strings without control characters are the same in TOML as in JSON.
fn toml(stanza: &Stanza) -> Result<String, Failed> {
    let lists = [("applications", &stanza.applications), ("deciders", &stanza.deciders), ("runners", &stanza.runners)];
    let texts = lists.iter().flat_map(|(_, list)| *list).chain([&stanza.name]);
    if texts.flat_map(|text| text.chars()).any(char::is_control) {
        return Err(Failed::Usage("names have no control characters".to_owned()));
    }
    let mut lines = vec![
        "[[credentials]]".to_owned(),
        format!("name = {}", json!(stanza.name)),
        format!("secret-sha256 = {}", json!(stanza.secret_sha256)),
    ];
    lines.extend(stanza.operator.then(|| "operator = true".to_owned()));
    let given = lists.iter().filter(|(_, list)| !list.is_empty());
    lines.extend(given.map(|(name, list)| format!("{name} = {}", json!(list))));
    Ok(lines.join("\n") + "\n")
}
