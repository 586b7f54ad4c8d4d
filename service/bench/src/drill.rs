//! `baton-bench drill`: real nodes over one table under load. Nodes are killed and paused, and connections to the table
//! are delayed, throttled and cut. Then every acknowledged change must be in the table.

mod balancer;
mod checks;
/// Module shared with the simulated drill, which measures the same gaps.
#[path = "../../../tests/src/drill/gaps.rs"]
mod gaps;
mod load;
mod nodes;
mod troubles;
pub(super) mod upgrade;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use client::Client;
use fastrand::Rng;
use store_dynamodb::Create;
use tokio::time::Instant;

use self::balancer::Balancer;
use self::checks::{Report, Standstill};
use self::load::Load;
use self::nodes::Nodes;
use self::troubles::Troubles;
use crate::failed::Failed;
use crate::service::{baton, other};
use crate::table::Place;

/// Duration of a pause of a node. Our choice: longer than the time after which other nodes consider it dead.
const PAUSE: Duration = Duration::from_secs(8);

/// Times for which a killed node stays away: a short time that other nodes do not notice, and a long time that they
/// notice.
const AWAY: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(9)];

/// Maximum time for the last workflows after the end of all failures.
const REST_WAIT: Duration = Duration::from_secs(60);

/// Drill: nodes over one table, killed, paused and cut off under load; then checks every acknowledged change
///
/// Creates a table, starts nodes on it, and puts a proxy that injects failures before the database and a load balancer
/// before the nodes. Works only with DynamoDB Local and similar databases, because requests to AWS are signed for AWS's
/// address. The exit code is 1 if a check fails.
#[derive(Debug, Args)]
pub(super) struct Drill {
    #[command(flatten)]
    place: Place,
    /// Duration of the failures in seconds
    #[arg(long, default_value_t = 40)]
    seconds: u64,
    /// Number of nodes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(2..=16))]
    nodes: u64,
    /// Maximum number of concurrent workflows
    #[arg(long, default_value_t = 16)]
    concurrency: usize,
    /// Seconds from the return of one node until the next node is killed or paused
    #[arg(long, default_value_t = 2.0)]
    kill_every: f64,
    /// Log level of the nodes, as for `baton serve`
    #[arg(long, default_value = "error")]
    log: String,
    /// Seed for the order of failures; random by default, and printed
    #[arg(long)]
    seed: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Drill {
    pub(super) async fn run(self) -> Result<(), Failed> {
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
        let mut random = Rng::with_seed(seed);
        let name = format!("baton-drill-{}", std::process::id());
        let store = self.place.store(&name).await.map_err(other)?;
        store.create_table(Create { is_protected: false }).await.map_err(|trouble| other(trouble.to_string()))?;
        let troubles = Troubles::start(&self.place.endpoint_url, random.u64(..))
            .await
            .map_err(|error| other(error.to_string()))?;
        let mut arguments = ["--store", "dynamodb"].map(str::to_owned).to_vec();
        arguments.extend(self.place.arguments(&name, &troubles.url));
        arguments.extend(["--log".to_owned(), self.log.clone()]);
        let mut nodes = Nodes::start(&baton()?, &arguments, self.nodes).await?;
        let balancer = Balancer::start(nodes.addresses()).await.map_err(|error| other(error.to_string()))?;
        let client = Client::new(&balancer.url)?;
        let load = Load::start(&client, self.concurrency);
        eprintln!("drill: seed {seed}, table `{name}`, {} nodes, {} s of failures", self.nodes, self.seconds);

        let standstills = self.trouble(&mut nodes, &troubles, &mut random).await?;

        troubles.end();
        nodes.restore().await?;
        let ledger = load.finish(REST_WAIT).await;
        let report =
            Report::make(&client, &ledger, &standstills, &troubles.counts(), nodes.counters().await, seed).await?;
        report.print(self.json)?;
        nodes.stop().await;
        if report.is_passed() { Ok(()) } else { Err(other("a check failed".to_owned())) }
    }

    /// Kills and pauses nodes, one at a time, while connections to the table fail.
    async fn trouble(
        &self,
        nodes: &mut Nodes,
        troubles: &Arc<Troubles>,
        random: &mut Rng,
    ) -> Result<Vec<Standstill>, Failed> {
        let calm = Duration::try_from_secs_f64(self.kill_every).map_err(|error| Failed::Usage(error.to_string()))?;
        let storms = tokio::spawn(Arc::clone(troubles).storms(random.u64(..)));
        let end = Instant::now() + Duration::from_secs(self.seconds);
        let mut standstills = Vec::new();
        let mut rounds = 0_usize;
        while Instant::now() < end {
            nodes.watch(calm).await;
            let victim = random.usize(..nodes.len());
            // Every fifth node is paused, beginning with the third; the others are killed.
            standstills.push(if rounds % 5 == 2 {
                nodes.pause(victim, PAUSE).await?
            } else {
                let away = AWAY.get(rounds % AWAY.len()).copied().unwrap_or_default();
                nodes.kill(victim, away).await?
            });
            rounds += 1;
        }
        storms.abort();
        Ok(standstills)
    }
}
