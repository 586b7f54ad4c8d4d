//! The commands of the program `baton`: `serve`, further commands that are part of the service, and those of the
//! crate `cli`.

// All output is printed by functions of `cli`.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod audit;
mod credential;
#[cfg(feature = "dynamodb")]
mod dynamodb;
mod standby;
mod version;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use cli::{Completions, Done, Failed, Man, exit_code, print_json, without_dangerous_tips};

use crate::settings::Serve;

/// Durable workflows as plain histories: the service, and commands to use and operate it.
///
/// Durations are written `30s`, `1h 30m` or `7d`, in ISO 8601 (`PT30S`), or as a number of seconds.
///
/// Exit codes: 0 success; 1 the service refused the request; 2 invalid usage; 3 the service cannot be reached.
/// `workflow result` and `workflow start --wait` also return 4 if the run did not succeed, and 5 if it is still open.
#[derive(Debug, Parser)]
#[command(name = "baton", version)]
pub(crate) struct Baton {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<Serve>),
    #[command(flatten)]
    Cli(Box<cli::CliCommand>),
    Standby(standby::StandbyCommand),
    /// Read and verify the audit log
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Create, list and revoke credentials in the service's configuration file
    #[command(subcommand)]
    Credential(credential::CredentialCommand),
    /// Create and check the table of `serve --store dynamodb`, and estimate its costs
    #[cfg(feature = "dynamodb")]
    #[command(subcommand)]
    Dynamodb(dynamodb::Dynamodb),
    /// Print the REST API as an `OpenAPI` document
    Openapi,
    Version(version::Version),
    Completions(Completions),
    Man(Man),
}

impl Baton {
    /// Parses the command line. If it is invalid, prints the error and ends the process.
    pub(crate) fn read() -> Self {
        Self::try_parse().unwrap_or_else(|error| without_dangerous_tips(error).exit())
    }

    /// Returns true if this process is the service.
    pub(crate) fn is_service(&self) -> bool {
        matches!(self.command, Command::Serve(_))
    }

    pub(crate) async fn run(self) -> ExitCode {
        exit_code(match self.command {
            Command::Serve(serve) => return Box::pin(serve.run()).await,
            Command::Cli(command) => return command.run().await,
            Command::Standby(standby) => standby.run().await,
            Command::Audit(audit) => audit.run().await,
            Command::Credential(credential) => credential.run(),
            #[cfg(feature = "dynamodb")]
            Command::Dynamodb(dynamodb) => dynamodb.run().await,
            Command::Openapi => openapi(),
            Command::Version(version) => version.run(),
            Command::Completions(completions) => completions.run(Self::command()),
            Command::Man(man) => man.run(Self::command()),
        })
    }
}

/// Prints the `OpenAPI` document, indented.
fn openapi() -> Done {
    let document: serde_json::Value =
        history::read_json(&service::api::recorded_document()).map_err(|error| Failed::Other(1, error.to_string()))?;
    print_json(&document)
}
