//! `baton clock …`.

use clap::Subcommand;

use super::{Done, Target, print_json};

#[derive(Debug, Subcommand)]
pub(crate) enum Clock {
    /// Say that the service's clock is right although it jumped: what is past its retention is deleted, and warnings end
    Confirm {
        #[command(flatten)]
        target: Target,
    },
}

impl Clock {
    pub(super) async fn run(self) -> Done {
        let Self::Confirm { target } = self;
        print_json(&target.client()?.confirm_clock().await?)
    }
}
