//! `baton secret …`.

use clap::Subcommand;
use client::body::RotateSecret;
use history::Duration;

use super::{Done, Target, print_json};

#[derive(Debug, Subcommand)]
pub enum SecretCommand {
    /// Make another secret for task tokens and nodes; for operators
    Rotate {
        /// How long tokens of those before stay good; 30d when absent, `0s` to end them at once
        #[arg(long)]
        overlap: Option<Duration>,
        #[command(flatten)]
        target: Target,
    },
}

impl SecretCommand {
    pub(crate) async fn run(self) -> Done {
        let Self::Rotate { overlap, target } = self;
        print_json(&target.client()?.rotate_secret(&RotateSecret { overlap }).await?)
    }
}
