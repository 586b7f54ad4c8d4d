//! `baton domain …`.

use clap::Subcommand;
use client::body::{ChangeDomain, CreateDomain};
use history::Duration;

use super::options::AlwaysJson;
use super::{Done, Target, print_json, print_rows};

#[derive(Debug, Subcommand)]
pub enum DomainCommand {
    /// Create a domain
    Create {
        /// Name of the domain
        name: String,
        /// Description
        #[arg(long)]
        description: Option<String>,
        /// Time for which closed runs are kept, e.g. 30d
        #[arg(long)]
        retention: Option<Duration>,
        #[command(flatten)]
        json: AlwaysJson,
        #[command(flatten)]
        target: Target,
    },
    /// Change the description or the retention of the domain
    Set {
        /// Description
        #[arg(long)]
        description: Option<String>,
        /// Time for which runs are kept after their close, e.g. 30d; applies only to runs that start after this change
        #[arg(long)]
        retention: Option<Duration>,
        #[command(flatten)]
        json: AlwaysJson,
        #[command(flatten)]
        target: Target,
    },
    /// List all domains
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Deprecate the domain: no runs can be started and no types registered in it; its open runs continue
    Deprecate {
        #[command(flatten)]
        json: AlwaysJson,
        #[command(flatten)]
        target: Target,
    },
    /// Delete a deprecated domain without runs and schedules
    Delete {
        /// Name of the domain
        name: String,
        #[command(flatten)]
        target: Target,
    },
    /// Show the domain
    Show {
        #[command(flatten)]
        json: AlwaysJson,
        #[command(flatten)]
        target: Target,
    },
}

impl DomainCommand {
    pub(crate) async fn run(self) -> Done {
        match self {
            Self::Create { name, description, retention, target, json: _ } => {
                let created = target
                    .client()?
                    .create_domain(&CreateDomain { name, description, retention, ..CreateDomain::default() })
                    .await?;
                print_json(&created)
            }
            Self::Set { description, retention, target, json: _ } => {
                let change = ChangeDomain { description: description.map(Some), retention };
                print_json(&target.client()?.change_domain(&change).await?)
            }
            Self::List { json, target } => {
                let domains = target.client()?.domains().await?;
                if json {
                    return print_json(&domains);
                }
                print_rows(
                    ["name", "retention", "description"],
                    domains
                        .into_iter()
                        .map(|it| [it.name, it.retention.to_string(), it.description.unwrap_or_default()]),
                )
            }
            Self::Deprecate { target, json: _ } => print_json(&target.client()?.deprecate_domain().await?),
            Self::Delete { name, target } => Ok(target.client()?.domain(&name).delete_domain().await?),
            Self::Show { target, json: _ } => print_json(&target.client()?.show_domain().await?),
        }
    }
}
