//! `baton-bench upgrade`: an older `baton` and the current one alternate over the same data under continuous load.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::{Args, Subcommand};
use client::Client;
use serde_json::Value;
use store_dynamodb::Create;

use super::balancer::Balancer;
use super::checks::Report;
use super::load::Load;
use super::nodes::{Ending, Nodes};
use super::troubles::Counts;
use crate::failed::Failed;
use crate::service::{baton, other};
use crate::table::Place;

/// Time for which each program runs before it is replaced. Our choice: long enough for a workflow of the load, which
/// takes 1.5 seconds.
const TURN: Duration = Duration::from_secs(3);

/// Maximum time for the last workflows.
const REST_WAIT: Duration = Duration::from_secs(60);

/// Upgrade: an older program and this one over the same data under load; then checks every acknowledged change
///
/// Upgrades to the `baton` in the directory of this program, and downgrades if both have the same format numbers in
/// `baton version`. The exit code is 1 if a check fails.
#[derive(Debug, Args)]
pub(crate) struct Upgrade {
    #[command(subcommand)]
    over: Over,
    /// The older `baton`
    #[arg(long, value_name = "FILE")]
    old: PathBuf,
    /// Maximum number of concurrent workflows
    #[arg(long, default_value_t = 8)]
    concurrency: usize,
    /// Log level of the services, as for `baton serve`
    #[arg(long, default_value = "error")]
    log: String,
}

#[derive(Debug, Subcommand)]
enum Over {
    /// One data directory, with one program after the other, each shut down or killed
    Embedded,
    /// One table, with three nodes that are replaced one by one
    Table(Place),
}

/// One of the two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Old,
    New,
}

/// Replacement of a node: its number, the new program, and how the old program ends.
type Step = (usize, Which, Ending);

/// Replacements of the old program by the new one and back, each by a shutdown and by a kill. The second list is used
/// only if a downgrade is possible.
const EMBEDDED: ([Step; 1], [Step; 5]) = (
    [(0, Which::New, Ending::Stopped)],
    [
        (0, Which::Old, Ending::Stopped),
        (0, Which::New, Ending::Killed),
        (0, Which::Old, Ending::Killed),
        (0, Which::New, Ending::Stopped),
        (0, Which::New, Ending::Killed),
    ],
);

/// The same steps for three nodes, one after the other.
const TABLE: ([Step; 3], [Step; 3]) = (
    [(0, Which::New, Ending::Stopped), (1, Which::New, Ending::Killed), (2, Which::New, Ending::Stopped)],
    [(2, Which::Old, Ending::Stopped), (1, Which::Old, Ending::Killed), (0, Which::Old, Ending::Stopped)],
);

impl Upgrade {
    pub(crate) async fn run(self) -> Result<(), Failed> {
        let new = baton()?;
        let not_there: &[_] = match &self.over {
            Over::Embedded => &["table", "messages of nodes"],
            Over::Table(_) => &["data directory", "log", "records", "archive"],
        };
        let differ = differences(&self.old, &new, not_there)?;
        for what in &differ {
            println!("{what}: a downgrade is not possible");
        }
        let scratch = tempfile::tempdir().map_err(|error| other(error.to_string()))?;
        let (mut arguments, count, (forward, back)) = match &self.over {
            Over::Embedded => {
                let data = scratch.path().join("data").to_string_lossy().into_owned();
                (vec!["--data-dir".to_owned(), data], 1, (EMBEDDED.0.to_vec(), EMBEDDED.1.to_vec()))
            }
            Over::Table(place) => {
                let name = format!("baton-upgrade-{}", std::process::id());
                let made = place.store(&name).await.map_err(other)?.create_table(Create { is_protected: false }).await;
                made.map_err(|trouble| other(trouble.to_string()))?;
                let mut arguments = ["--store", "dynamodb"].map(str::to_owned).to_vec();
                arguments.extend(place.arguments(&name, &place.endpoint_url));
                (arguments, 3, (TABLE.0.to_vec(), TABLE.1.to_vec()))
            }
        };
        arguments.extend(["--log".to_owned(), self.log.clone()]);
        let steps = forward.into_iter().chain(if differ.is_empty() { back } else { Vec::new() });

        let mut nodes = Nodes::start(&self.old, &arguments, count).await?;
        let balancer = Balancer::start(nodes.addresses()).await.map_err(|error| other(error.to_string()))?;
        let client = Client::new(&balancer.url)?;
        let load = Load::start(&client, self.concurrency);
        let mut idle = Vec::new();
        let mut lives = 0;
        nodes.watch(TURN).await;
        for (node, which, ending) in steps {
            let program = if which == Which::Old { &self.old } else { &new };
            lives += 1;
            if !nodes.wait_for_work(node).await {
                idle.push(format!("at node {node}, the program before {which:?} recorded nothing"));
            }
            nodes.replace(node, program, ending).await?;
            nodes.watch(TURN).await;
        }
        nodes.restore().await?;
        let ledger = load.finish(REST_WAIT).await;
        let report = Report::make(&client, &ledger, &[], &Counts::default(), nodes.counters().await, 0).await?;
        report.print_checks();
        println!("{:<52}{lives:>10}{:>10}", "each program had work while it ran", idle.len());
        for what in &idle {
            println!("    {what}");
        }
        nodes.stop().await;
        if report.is_passed() && idle.is_empty() { Ok(()) } else { Err(other("a check failed".to_owned())) }
    }
}

/// Returns the format numbers that `baton version` prints; `None` for a program without that command.
fn forms(program: &Path) -> Result<Option<Vec<Value>>, Failed> {
    let failed = |error: &dyn std::fmt::Display| other(format!("{}: {error}", program.display()));
    let output = Command::new(program).args(["version", "--json"]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Ok(None);
    }
    let said: Value = serde_json::from_slice(&output.stdout).map_err(|error| failed(&error))?;
    Ok(said.get("forms").and_then(Value::as_array).cloned())
}

/// Returns the formats whose numbers differ, except the given formats, whose data is absent.
fn differences(old: &Path, new: &Path, not_there: &[&str]) -> Result<Vec<String>, Failed> {
    let Some(before) = forms(old)? else {
        return Ok(vec!["the older program does not print its format numbers".to_owned()]);
    };
    let after = forms(new)?.ok_or_else(|| other("this `baton` has no command `version`".to_owned()))?;
    let is_there =
        |form: &&Value| form.get("form").and_then(Value::as_str).is_none_or(|form| !not_there.contains(&form));
    let differ = before.iter().filter(is_there).filter(|form| !after.contains(form));
    Ok(differ.map(|form| format!("{form} differs")).collect())
}
