//! The command line of Baton: the commands that send requests to a service or work on a data directory, and the
//! output of results.
//!
//! The program `baton` in the package `baton-service` combines these commands with `serve` and the other commands
//! that are part of the service.

// All output is printed by functions of `say`.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod activity;
mod advice;
mod backup;
mod batch;
mod clock;
mod compact;
mod completions;
mod described;
mod doctor;
mod domain;
mod export;
mod failed;
mod fsck;
mod history;
mod import;
mod limit_group;
mod limits;
mod man;
mod moved;
mod node;
mod options;
mod paged;
mod progress;
mod query;
mod registered_type;
mod report;
mod run_filters;
mod say;
mod schedule;
mod secret;
mod task_list;
mod tips;
mod update;
mod workflow;

use std::process::ExitCode;

use clap::Subcommand;

pub use backup::{blocking, show_progress};
pub use completions::Completions;
pub use failed::{Done, Failed};
pub use man::Man;
pub use options::Target;
pub use progress::{Progress, Quiet};
pub use report::exit_code;
pub use say::{note, print_json, print_json_text, print_line, print_rows, print_text};
pub use tips::without_dangerous_tips;

use options::{Identity, read_input};
use say::print_json_line;

/// Command that sends requests to a service or works on a data directory.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Create, show, change and delete domains
    #[command(subcommand)]
    Domain(domain::DomainCommand),
    /// Start, list, show, signal and end workflows
    #[command(subcommand)]
    Workflow(workflow::Workflow),
    /// Create, show and change schedules, which start workflows at given times
    #[command(subcommand)]
    Schedule(schedule::ScheduleCommand),
    /// Operate on many runs with one command: retry, signal, cancel, terminate, pause, resume, reset, delete
    #[command(subcommand)]
    Batch(batch::BatchCommand),
    #[expect(missing_docs, reason = "clap takes the description of the type")]
    History(history::History),
    #[expect(missing_docs, reason = "clap takes the description of the type")]
    Query(query::QueryCommand),
    #[expect(missing_docs, reason = "clap takes the description of the type")]
    Update(update::UpdateCommand),
    /// Start runs of a single activity; complete, fail, retry, pause, resume or change an open activity
    #[command(subcommand)]
    Activity(activity::ActivityCommands),
    /// List and show task lists, limit, pause and resume them
    #[command(subcommand)]
    TaskList(task_list::TaskListCommand),
    /// Create, list and delete groups of task lists that share limits
    #[command(subcommand)]
    LimitGroup(limit_group::LimitGroupCommand),
    /// Register, list, show, deprecate and delete types of workflows and activities
    #[command(subcommand)]
    Type(registered_type::TypeCommand),
    /// List and show the nodes that share a store
    #[command(subcommand)]
    Node(node::NodeCommand),
    /// Confirm the service's clock, and repair deadlines that it set while its clock was ahead
    #[command(subcommand)]
    Clock(clock::ClockCommand),
    /// Rotate the secret that signs task tokens
    #[command(subcommand)]
    Secret(secret::SecretCommand),
    #[expect(missing_docs, reason = "clap takes the description of the type")]
    Doctor(doctor::Doctor),
    #[expect(missing_docs, reason = "clap takes the description of the type")]
    Fsck(fsck::Fsck),
    #[expect(missing_docs, reason = "clap takes the description of the type")]
    Backup(backup::Backup),
    #[expect(missing_docs, reason = "clap takes the description of the type")]
    Restore(backup::Restore),
    #[expect(missing_docs, reason = "clap takes the description of the type")]
    Export(Box<export::Export>),
    #[expect(missing_docs, reason = "clap takes the description of the type")]
    Import(import::Import),
    #[expect(missing_docs, reason = "clap takes the description of the type")]
    Compact(compact::Compact),
}

impl CliCommand {
    /// Runs the command and returns the exit code.
    pub async fn run(self) -> ExitCode {
        let done = match self {
            Self::Domain(domain) => domain.run().await,
            Self::Workflow(workflow) => workflow.run().await,
            Self::Schedule(schedule) => schedule.run().await,
            Self::Batch(batch) => batch.run().await,
            Self::History(history) => history.run().await,
            Self::Query(query) => query.run().await,
            Self::Update(update) => update.run().await,
            Self::Activity(activity) => activity.run().await,
            Self::TaskList(lists) => lists.run().await,
            Self::LimitGroup(groups) => groups.run().await,
            Self::Type(types) => types.run().await,
            Self::Node(nodes) => nodes.run().await,
            Self::Clock(clock) => clock.run().await,
            Self::Secret(secret) => secret.run().await,
            Self::Doctor(doctor) => return doctor.run().await,
            Self::Fsck(fsck) => fsck.run().await,
            Self::Backup(backup) => backup.run().await,
            Self::Restore(restore) => restore.run().await,
            Self::Export(export) => export.run().await,
            Self::Import(import) => import.run().await,
            Self::Compact(compact) => compact.run().await,
        };
        exit_code(done)
    }
}
