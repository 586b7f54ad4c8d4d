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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Commands without `--json`, and the reason.
    const WITHOUT_JSON: [(&str, &str); 10] = [
        ("serve", "prints nothing; --log-json selects JSON for its log"),
        ("openapi", "the OpenAPI document is JSON"),
        ("completions", "the output is a script"),
        ("man", "the output is a page of troff"),
        ("domain delete", "prints nothing"),
        ("schedule delete", "prints nothing"),
        ("batch delete", "prints nothing"),
        ("limit-group delete", "prints nothing"),
        ("type delete", "prints nothing"),
        ("credential revoke", "prints only a message on standard error"),
    ];

    /// Calls a function with each command that can be run, and its full name without `baton`.
    fn each(command: &clap::Command, name: &str, check: &mut dyn FnMut(&str, &clap::Command)) {
        if !command.is_subcommand_required_set() {
            check(name.trim_start(), command);
        }
        for inner in command.get_subcommands() {
            each(inner, &format!("{name} {}", inner.get_name()), check);
        }
    }

    #[test]
    fn every_command_takes_json_or_has_a_reason_not_to() {
        let (mut with, mut without) = (0, BTreeSet::new());
        each(&Baton::command(), "", &mut |name, command| {
            let Some(json) = command.get_arguments().find(|argument| argument.get_long() == Some("json")) else {
                without.insert(name.to_owned());
                return;
            };
            assert!(!json.get_action().takes_values(), "{name}: --json takes no value");
            assert!(
                json.get_help_heading().is_none() && !json.is_hide_set(),
                "{name}: --json is among the command's options"
            );
            let help = json.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.starts_with("Print ") && help.contains("JSON"), "{name}: {help}");
            with += 1;
        });
        let expected: BTreeSet<String> = WITHOUT_JSON.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(without, expected);
        assert!(with > 75, "{with}");
    }
}
