//! Options that several commands have in common: options for the connection to the service, its domain, the name of the
//! user, and inputs.

use std::io::Read as _;
use std::path::PathBuf;

use clap::Args;
use client::{Access, Client, ClientCertificate, Patience};
use engine::{Clock as _, SystemClock};
use history::{Duration, Payload, Timestamp};

use crate::failed::Failed;

/// Heading of the connection options in `--help`, which lists them after the options of the command itself.
const CONNECTION: &str = "Connection options";

/// Options that select the service, the domain, and the credential to use.
#[derive(Debug, Clone, Args)]
pub struct Target {
    /// URL of the service, e.g. `https://baton.example` or `localhost:7420`
    #[arg(help_heading = CONNECTION, long, env = "BATON_URL", value_name = "URL")]
    #[arg(default_value = "http://127.0.0.1:7420")]
    url: String,
    /// Domain
    #[arg(help_heading = CONNECTION, long, env = "BATON_DOMAIN", default_value = "default", value_name = "NAME")]
    domain: String,
    /// File that contains the secret of a credential. Without this option, the secret is read from the variable
    /// `BATON_SECRET`
    #[arg(help_heading = CONNECTION, long, env = "BATON_SECRET_FILE", value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// PEM file with certificate authorities to trust in addition to those of this machine
    #[arg(help_heading = CONNECTION, long, env = "BATON_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// PEM file with a client certificate, if the service accepts or requires one
    #[arg(help_heading = CONNECTION, long, env = "BATON_CLIENT_CERT", value_name = "FILE")]
    client_cert: Option<PathBuf>,
    /// PEM file with the private key of the certificate, without a passphrase
    #[arg(help_heading = CONNECTION, long, env = "BATON_CLIENT_KEY", value_name = "FILE")]
    client_key: Option<PathBuf>,
}

impl Target {
    /// Returns a client of the service.
    ///
    /// # Errors
    ///
    /// [`Failed::Usage`] if a file cannot be read or an option is invalid.
    pub fn client(&self) -> Result<Client, Failed> {
        let read = |option: &str, path: &Option<PathBuf>| {
            let Some(path) = path else { return Ok(None) };
            let failed = |error| Failed::Usage(format!("{option} {}: {error}", path.display()));
            std::fs::read(path).map(Some).map_err(failed)
        };
        let ca = read("--ca-file", &self.ca_file)?;
        let (certificate, key) = (read("--client-cert", &self.client_cert)?, read("--client-key", &self.client_key)?);
        let certificate = match (&certificate, &key) {
            (Some(certificate), Some(key)) => Some(ClientCertificate { certificate, key }),
            (None, None) => None,
            _ => return Err(Failed::Usage("--client-cert and --client-key must be used together".to_owned())),
        };
        let secret = self.secret()?;
        let access = Access { secret: secret.as_deref(), ca: ca.as_deref(), certificate };
        let client = Client::with_access(&self.url, access)?;
        // A user is waiting, so requests to an unreachable service fail immediately and are not retried.
        Ok(client.domain(&self.domain).patience(Patience::None).within(trace_of_caller().as_ref()))
    }

    pub(crate) fn domain(&self) -> &str {
        &self.domain
    }

    fn secret(&self) -> Result<Option<String>, Failed> {
        let Some(file) = &self.secret_file else {
            return Ok(std::env::var("BATON_SECRET").ok().filter(|secret| !secret.is_empty()));
        };
        let bad = |what: String| Failed::Usage(format!("--secret-file {}: {what}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
        match text.trim() {
            "" => Err(bad("the file is empty".to_owned())),
            secret => Ok(Some(secret.to_owned())),
        }
    }
}

/// Returns the trace context that the calling program has passed in environment variables. A malformed context is
/// ignored. Source: OpenTelemetry, "Environment Variables as Context Propagation Carriers".
fn trace_of_caller() -> Option<client::TraceContext> {
    let tracestate = std::env::var("TRACESTATE").ok();
    client::TraceContext::of_headers(&std::env::var("TRACEPARENT").ok()?, tracestate.as_deref())
}

/// Option for the name of the user, which histories record.
#[derive(Debug, Clone, Args)]
pub struct Identity {
    /// Your name, which the history records
    #[arg(long, env = "USER", default_value = "baton", value_name = "NAME")]
    identity: String,
}

impl Identity {
    pub(crate) fn identity(&self) -> String {
        self.identity.clone()
    }
}

/// The option `--json` of a command whose output is always JSON. Scripts can therefore use the option with every
/// command.
#[derive(Debug, Clone, Copy, Args)]
pub struct AlwaysJson {
    /// Print JSON, as this command does in any case
    #[arg(id = "json", long = "json")]
    _json: bool,
}

/// Parses a time of the past: an RFC 3339 time, or a duration before now.
pub(crate) fn past(text: &str) -> Result<Timestamp, String> {
    past_at(text, SystemClock.now())
}

fn past_at(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let expected = "expected a time such as 2026-11-01T00:00:00Z, or a duration before now such as 2h or 7d";
    // A number could be a year, a date or a number of seconds since 1970.
    if text.parse::<f64>().is_ok() {
        return Err(format!("a number has no unit; {expected}"));
    }
    match text.parse::<Duration>() {
        Ok(ago) => Ok(now.minus(ago)),
        Err(_) => text.parse().map_err(|_| expected.to_owned()),
    }
}

/// Reads the value of an option such as `--input`: JSON, `@file`, or `-` for standard input.
pub(crate) fn read_input(input: Option<&str>) -> Result<Option<Payload>, Failed> {
    let Some(input) = input else { return Ok(None) };
    let text = if input == "-" {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Failed::Usage(format!("standard input: {error}")))?;
        text
    } else if let Some(path) = input.strip_prefix('@') {
        std::fs::read_to_string(path).map_err(|error| Failed::Usage(format!("{path}: {error}")))?
    } else {
        input.to_owned()
    };
    let bad = |error| Failed::Usage(format!("the input is not JSON: {error}; a string needs quotes: '\"text\"'"));
    Payload::from_json(&text).map(Some).map_err(bad)
}

/// Parses a value of an enumeration of the API.
pub(crate) fn word<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Subcommand as _;

    use super::*;
    use crate::CliCommand;

    /// Calls a function with the full name of each command that has no subcommands.
    fn each(command: &mut clap::Command, name: &str, check: &mut dyn FnMut(&str, &mut clap::Command)) {
        let name = format!("{name} {}", command.get_name());
        if command.get_subcommands().next().is_none() {
            check(name.trim_start(), command);
        }
        for inner in command.get_subcommands_mut() {
            each(inner, &name, check);
        }
    }

    #[test]
    fn connection_options_follow_the_options_of_a_command() {
        let mut program = CliCommand::augment_subcommands(clap::Command::new("baton"));
        program.build();
        let (mut with, mut without) = (0, 0);
        each(&mut program, "", &mut |name, command| {
            let connects = command.get_arguments().any(|argument| argument.get_id() == "url");
            let is_under_heading = |argument: &&clap::Arg| argument.get_help_heading() == Some(CONNECTION);
            let options = command.get_arguments().filter(is_under_heading).count();
            let help = command.render_long_help().to_string();
            if connects {
                assert_eq!(options, 6, "{name}: {help}");
                let at =
                    |heading: &str| help.find(&format!("\n{heading}:\n")).unwrap_or_else(|| panic!("{name}: {help}"));
                assert!(at("Options") < at(CONNECTION), "{name}: {help}");
                with += 1;
            } else {
                assert_eq!(options, 0, "{name}");
                without += 1;
            }
        });
        assert!(with > 40 && without >= 5, "{with} {without}");
    }

    #[test]
    fn a_time_is_rfc_3339_or_a_duration_before_now() {
        let now: Timestamp = "2026-11-02T12:00:00Z".parse().unwrap();
        for (text, expected) in [
            ("2h", "2026-11-02T10:00:00Z"),
            ("1d 2h", "2026-11-01T10:00:00Z"),
            ("PT30M", "2026-11-02T11:30:00Z"),
            ("0s", "2026-11-02T12:00:00Z"),
            ("2026-11-01T00:00:00Z", "2026-11-01T00:00:00Z"),
            ("2026-11-01T02:00:00+02:00", "2026-11-01T00:00:00Z"),
            ("99999d", "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!(past_at(text, now), Ok(expected.parse().unwrap()), "{text}");
        }
        for text in ["soon", "2026", "20261101", "3600", "2026-11-01", "10:00", "-2h", "2 fortnights", ""] {
            assert!(past_at(text, now).unwrap_err().contains("expected a time such as"), "{text}");
        }
    }

    #[test]
    fn one_variable_names_the_service_for_every_command() {
        let mut program = CliCommand::augment_subcommands(clap::Command::new("baton"));
        program.build();
        each(&mut program, "", &mut |name, command| {
            for argument in command.get_arguments().filter(|argument| argument.get_id() == "url") {
                assert_eq!(argument.get_env(), Some("BATON_URL".as_ref()), "{name}");
            }
        });
    }
}
