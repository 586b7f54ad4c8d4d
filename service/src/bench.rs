//! `baton bench …`: loads over real HTTP against a service in a process of its own, and what they cost.

mod children;
#[cfg(feature = "dynamodb")]
mod drill;
mod fair;
mod idle;
mod load;
mod open;
mod queries;
mod service;
mod swf;
mod turns;

use clap::{Args, Subcommand};

use crate::failed::Failed;

/// Measure: starts workflows of sequential activities and reports rates, latencies, syncs, disk and memory
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    load: load::Load,
}

#[derive(Debug, Subcommand)]
enum What {
    Turns(turns::Turns),
    Open(open::Open),
    Queries(queries::Queries),
    Idle(idle::Idle),
    Swf(swf::Swf),
    Children(children::Children),
    Fair(fair::Fair),
    #[cfg(feature = "dynamodb")]
    Drill(drill::Drill),
}

impl Bench {
    pub(crate) async fn run(self) -> Result<(), Failed> {
        match self.what {
            None => self.load.run().await,
            Some(What::Turns(turns)) => turns.run().await,
            Some(What::Open(open)) => open.run().await,
            Some(What::Queries(queries)) => queries.run().await,
            Some(What::Idle(idle)) => idle.run().await,
            Some(What::Swf(swf)) => swf.run().await,
            Some(What::Children(children)) => children.run().await,
            Some(What::Fair(fair)) => fair.run().await,
            #[cfg(feature = "dynamodb")]
            Some(What::Drill(drill)) => drill.run().await,
        }
    }
}
