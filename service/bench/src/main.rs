//! `baton-bench`: load tests over real HTTP against a service in a separate process, and their costs.

mod children;
#[cfg(feature = "dynamodb")]
mod drill;
mod failed;
mod fair;
mod floor;
mod idle;
mod limits;
mod load;
mod open;
#[path = "../../src/dynamodb/prices.rs"]
mod prices;
mod progress;
mod queries;
mod service;
mod signals;
mod swf;
#[cfg(feature = "dynamodb")]
mod table;
mod turns;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failed::Failed;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure: starts workflows of sequential activities and reports rates, latencies, syncs, disk and memory
///
/// Services are started from the `baton` in the directory of this program. Build both: `cargo build --profile dist -p
/// baton-service -p baton-bench`.
#[derive(Debug, Parser)]
#[command(name = "baton-bench", version, args_conflicts_with_subcommands = true)]
struct Bench {
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
    Limits(limits::Limits),
    Floor(floor::Floor),
    Signals(signals::Signals),
    #[cfg(feature = "dynamodb")]
    Drill(drill::Drill),
    #[cfg(feature = "dynamodb")]
    Upgrade(drill::upgrade::Upgrade),
}

impl Bench {
    async fn run(self) -> Result<(), Failed> {
        match self.what {
            None => self.load.run().await,
            Some(What::Turns(turns)) => turns.run().await,
            Some(What::Open(open)) => open.run().await,
            Some(What::Queries(queries)) => queries.run().await,
            Some(What::Idle(idle)) => idle.run().await,
            Some(What::Swf(swf)) => swf.run().await,
            Some(What::Children(children)) => children.run().await,
            Some(What::Fair(fair)) => fair.run().await,
            Some(What::Limits(limits)) => limits.run().await,
            Some(What::Floor(floor)) => floor.run().await,
            Some(What::Signals(signals)) => signals.run().await,
            #[cfg(feature = "dynamodb")]
            Some(What::Drill(drill)) => drill.run().await,
            #[cfg(feature = "dynamodb")]
            Some(What::Upgrade(upgrade)) => upgrade.run().await,
        }
    }
}

fn main() -> ExitCode {
    let bench = Bench::parse();
    let mut builder = if bench.load.is_host_of_several_threads() {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("baton-bench: cannot start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(bench.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => failed.report(),
    }
}
