//! `baton secret …`: rotates the service's secret.

use clap::Subcommand;
use client::body::RotateSecret;
use history::Duration;

use super::options::AlwaysJson;
use super::{Done, Target, print_json};

#[derive(Debug, Subcommand)]
pub enum SecretCommand {
    /// Create a new secret for task tokens and nodes; requires an operator's credential
    Rotate {
        /// Time for which tokens signed with earlier secrets remain valid; `0s` invalidates them now [default: 30d]
        #[arg(long)]
        overlap: Option<Duration>,
        #[command(flatten)]
        json: AlwaysJson,
        #[command(flatten)]
        target: Target,
    },
}

impl SecretCommand {
    pub(crate) async fn run(self) -> Done {
        let Self::Rotate { overlap, target, json: _ } = self;
        print_json(&target.client()?.rotate_secret(&RotateSecret { overlap }).await?)
    }
}
