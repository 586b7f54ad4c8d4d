//! `baton domain …`.

use clap::Subcommand;
use client::body::{ChangeDomain, CreateDomain};
use history::Duration;

use super::{Done, Target, print_json, print_rows};

#[derive(Debug, Subcommand)]
pub enum DomainCommand {
    /// Create a domain
    Create {
        /// Its name
        name: String,
        /// What it is for
        #[arg(long)]
        description: Option<String>,
        /// How long its runs stay readable after they closed, e.g. 30d
        #[arg(long)]
        retention: Option<Duration>,
        #[command(flatten)]
        target: Target,
    },
    /// Change what the domain named by --domain is for, or how long its next runs are kept
    Set {
        /// What it is for
        #[arg(long)]
        description: Option<String>,
        /// How long runs stay readable after they closed that are started from now on, e.g. 30d
        #[arg(long)]
        retention: Option<Duration>,
        #[command(flatten)]
        target: Target,
    },
    /// List the domains
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Have nothing started or registered any more in the domain named by --domain; what is open goes on
    Deprecate {
        #[command(flatten)]
        target: Target,
    },
    /// Delete a deprecated domain that has no runs and no schedules any more
    Delete {
        /// Its name
        name: String,
        #[command(flatten)]
        target: Target,
    },
    /// Show the domain named by --domain
    Show {
        #[command(flatten)]
        target: Target,
    },
}

impl DomainCommand {
    pub(crate) async fn run(self) -> Done {
        match self {
            Self::Create { name, description, retention, target } => {
                let created = target
                    .client()?
                    .create_domain(&CreateDomain { name, description, retention, ..CreateDomain::default() })
                    .await?;
                print_json(&created)
            }
            Self::Set { description, retention, target } => {
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
            Self::Deprecate { target } => print_json(&target.client()?.deprecate_domain().await?),
            Self::Delete { name, target } => Ok(target.client()?.domain(&name).delete_domain().await?),
            Self::Show { target } => print_json(&target.client()?.show_domain().await?),
        }
    }
}
