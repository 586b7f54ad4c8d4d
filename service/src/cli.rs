//! The command line: its commands, and output of their results.

// Everything is printed by `say`.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod activity;
pub(crate) mod advice;
mod audit;
mod backup;
mod clock;
mod compact;
mod completions;
mod credential;
mod described;
mod doctor;
mod domain;
#[cfg(feature = "dynamodb")]
mod dynamodb;
mod export;
mod fsck;
mod history;
mod import;
mod man;
mod moved;
mod progress;
mod query;
pub(crate) mod say;
mod schedule;
mod secret;
mod standby;
mod tips;
mod update;
mod version;
mod workflow;

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;

use ::history::Payload;
use clap::{Args, Parser, Subcommand};
use client::{Access, Client, ClientCertificate, Patience};

use crate::failed::Failed;
use crate::serve::Serve;
use progress::{Progress, Quiet};
use say::{note, print_json, print_json_text, print_line, print_rows, print_text};

/// Durable workflows as plain histories: the service, and the tools to look at it and to talk to it.
///
/// Durations are written like `30s`, `1h 30m` or `7d`, as ISO 8601 has them (`PT30S`), or as a number of seconds.
///
/// Exit codes: 0 done; 1 refused by the service; 2 wrong usage; 3 the service cannot be reached; 4 `workflow result`
/// and `workflow start --wait`: the run did not close with success; 5 these: the run is still open.
#[derive(Debug, Parser)]
#[command(name = "baton", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<Serve>),
    /// Create and look at domains
    #[command(subcommand)]
    Domain(domain::Domain),
    /// Start, list, look at and end workflows
    #[command(subcommand)]
    Workflow(workflow::Workflow),
    /// Create, look at and change schedules, which start workflows at their times
    #[command(subcommand)]
    Schedule(schedule::Schedule),
    History(history::History),
    Query(query::Query),
    Update(update::Update),
    /// Complete, fail, retry, pause, resume or change an open activity by hand
    #[command(subcommand)]
    Activity(activity::Activity),
    /// See to the service's clock
    #[command(subcommand)]
    Clock(clock::Clock),
    /// See to the secret that task tokens are made with
    #[command(subcommand)]
    Secret(secret::Secret),
    /// Check and read the audit log
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Make credentials for the service's configuration
    #[command(subcommand)]
    Credential(credential::Credential),
    /// Make, check and price the table of `serve --store dynamodb`
    #[cfg(feature = "dynamodb")]
    #[command(subcommand)]
    Dynamodb(dynamodb::Dynamodb),
    Doctor(doctor::Doctor),
    Fsck(fsck::Fsck),
    Backup(backup::Backup),
    Restore(backup::Restore),
    Standby(standby::Standby),
    Export(Box<export::Export>),
    Import(import::Import),
    Compact(compact::Compact),
    /// Print the API as an `OpenAPI` document
    Openapi,
    Version(version::Version),
    Completions(completions::Completions),
    Man(man::Man),
}

/// Which service to talk to.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// Where the service is, e.g. `https://baton.example`, or `localhost:7420`
    #[arg(long, env = "BATON_URL", default_value = "http://127.0.0.1:7420", value_name = "URL")]
    url: String,
    /// The domain
    #[arg(long, env = "BATON_DOMAIN", default_value = "default", value_name = "NAME")]
    domain: String,
    /// A file with a credential's secret; without one `BATON_SECRET` has it. On a command line everybody could read it
    #[arg(long, env = "BATON_SECRET_FILE", value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Certificates of authorities to trust for https beside those that this machine trusts, as PEM
    #[arg(long, env = "BATON_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// A certificate to show to the service, as PEM, where it takes one in the place of a secret or wants one of
    /// everybody
    #[arg(long, env = "BATON_CLIENT_CERT", value_name = "FILE")]
    client_cert: Option<PathBuf>,
    /// Its key, as PEM without a passphrase
    #[arg(long, env = "BATON_CLIENT_KEY", value_name = "FILE")]
    client_key: Option<PathBuf>,
}

impl Target {
    pub(crate) fn client(&self) -> Result<Client, Failed> {
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
            _ => return Err(Failed::Usage("--client-cert and --client-key belong together: give both".to_owned())),
        };
        let secret = self.secret()?;
        let access = Access { secret: secret.as_deref(), ca: ca.as_deref(), certificate };
        let client = Client::with_access(&self.url, access)?;
        // A person is waiting, so that an unreachable service is reported at once.
        Ok(client.domain(&self.domain).patience(Patience::None).within(trace_of_caller().as_ref()))
    }

    fn domain(&self) -> &str {
        &self.domain
    }

    fn secret(&self) -> Result<Option<String>, Failed> {
        let Some(file) = &self.secret_file else {
            return Ok(std::env::var("BATON_SECRET").ok().filter(|secret| !secret.is_empty()));
        };
        let bad = |what: String| Failed::Usage(format!("--secret-file {}: {what}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
        match text.trim() {
            "" => Err(bad("it is empty".to_owned())),
            secret => Ok(Some(secret.to_owned())),
        }
    }
}

/// Returns the trace context of this program's caller from the environment. Source: OpenTelemetry, "Environment
/// Variables as Context Propagation Carriers". A malformed one is ignored.
fn trace_of_caller() -> Option<client::TraceContext> {
    let tracestate = std::env::var("TRACESTATE").ok();
    client::TraceContext::of_headers(&std::env::var("TRACEPARENT").ok()?, tracestate.as_deref())
}

type Done = Result<(), Failed>;

impl Cli {
    /// Parses the command line. If it is invalid, prints the error and ends the process.
    pub(crate) fn read() -> Self {
        Self::try_parse().unwrap_or_else(|error| tips::safe(error).exit())
    }

    /// Returns true if this process is the service.
    pub(crate) fn is_service(&self) -> bool {
        matches!(self.command, Command::Serve(_))
    }

    pub(crate) async fn run(self) -> ExitCode {
        let done = match self.command {
            Command::Serve(serve) => return Box::pin(serve.run()).await,
            Command::Domain(domain) => domain.run().await,
            Command::Workflow(workflow) => workflow.run().await,
            Command::Schedule(schedule) => schedule.run().await,
            Command::History(history) => history.run().await,
            Command::Query(query) => query.run().await,
            Command::Update(update) => update.run().await,
            Command::Activity(activity) => activity.run().await,
            Command::Clock(clock) => clock.run().await,
            Command::Secret(secret) => secret.run().await,
            Command::Audit(audit) => audit.run().await,
            Command::Credential(credential) => credential.run(),
            #[cfg(feature = "dynamodb")]
            Command::Dynamodb(dynamodb) => dynamodb.run().await,
            Command::Doctor(doctor) => return doctor.run().await,
            Command::Fsck(fsck) => fsck.run().await,
            Command::Backup(backup) => backup.run().await,
            Command::Restore(restore) => restore.run().await,
            Command::Export(export) => export.run().await,
            Command::Import(import) => import.run().await,
            Command::Standby(standby) => standby.run().await,
            Command::Compact(compact) => compact.run().await,
            Command::Openapi => openapi(),
            Command::Version(version) => version.run(),
            Command::Completions(completions) => completions.run(),
            Command::Man(man) => man.run(),
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(failed) => failed.report(),
        }
    }
}

/// Prints the `OpenAPI` document, indented.
fn openapi() -> Done {
    let document: serde_json::Value = ::history::read_json(&service::api::recorded_document())
        .map_err(|error| Failed::Other(1, error.to_string()))?;
    print_json(&document)
}

/// Who does it.
#[derive(Debug, Clone, Args)]
pub(crate) struct Who {
    /// Who you are; the history keeps it
    #[arg(long, env = "USER", default_value = "baton", value_name = "NAME")]
    identity: String,
}

impl Who {
    fn identity(&self) -> String {
        self.identity.clone()
    }
}

/// Reads an `--input`: JSON, `@file`, or `-` for standard input.
fn read_input(input: Option<&str>) -> Result<Option<Payload>, Failed> {
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
    let bad = |error| Failed::Usage(format!("the input is not JSON: {error}; a text needs quotes: '\"text\"'"));
    Payload::from_json(&text).map(Some).map_err(bad)
}
