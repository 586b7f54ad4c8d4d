//! `baton limit-group …`, and limits as options.

use clap::{Args, Subcommand};
use client::body::{LimitGroup, SetStartRate, SetTaskLimits};
use history::Factor;

use super::limits::limits;
use super::options::AlwaysJson;
use super::{Done, Failed, Target, print_json, print_rows};

#[derive(Debug, Subcommand)]
pub enum LimitGroupCommand {
    /// Create a limit group, or replace its limits
    Set {
        /// Name of the group
        name: String,
        #[command(flatten)]
        limits: LimitOptions,
        #[command(flatten)]
        json: AlwaysJson,
        #[command(flatten)]
        target: Target,
    },
    /// List limit groups
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Delete a limit group that no task list uses
    Delete {
        /// Name of the group
        name: String,
        #[command(flatten)]
        target: Target,
    },
}

/// Limits as options.
#[derive(Debug, Clone, Args)]
pub struct LimitOptions {
    /// Maximum number of running tasks
    #[arg(long, value_name = "COUNT")]
    max_running: Option<u32>,
    /// Maximum rate of starts, e.g. 5/s or 90/m
    #[arg(long, value_name = "RATE", value_parser = per_second)]
    rate: Option<StartsPerSecond>,
    /// Number of tasks that may start at once after a time without starts [default: the rate per second, rounded up]
    #[arg(long, value_name = "COUNT", requires = "rate")]
    burst: Option<u32>,
}

impl LimitOptions {
    pub(super) fn limits(&self) -> SetTaskLimits {
        let rate = self.rate.map(|rate| rate.with_burst(self.burst));
        SetTaskLimits { max_running: self.max_running, rate }
    }
}

/// Average number of starts per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StartsPerSecond(Factor);

impl StartsPerSecond {
    pub(super) fn with_burst(self, burst: Option<u32>) -> SetStartRate {
        SetStartRate { per_second: self.0, burst }
    }
}

/// Parses a number of starts per second or minute.
pub(super) fn per_second(text: &str) -> Result<StartsPerSecond, String> {
    client::limits::starts_per_second(text).map(StartsPerSecond)
}

impl LimitGroupCommand {
    pub(crate) async fn run(self) -> Done {
        match self {
            Self::Set { name, limits, target, json: _ } => {
                let limits = limits.limits();
                if limits == SetTaskLimits::default() {
                    return Err(Failed::Usage("expected a limit: --max-running, --rate or both".to_owned()));
                }
                print_json(&target.client()?.set_limit_group(&name, &limits).await?)
            }
            Self::List { json, target } => {
                let groups = target.client()?.limit_groups().await?.groups;
                if json {
                    return print_json(&groups);
                }
                let row =
                    |LimitGroup { name, max_running, rate }: LimitGroup| [name, limits(max_running, rate.as_ref())];
                print_rows(["group", "limits"], groups.into_iter().map(row))
            }
            Self::Delete { name, target } => Ok(target.client()?.delete_limit_group(&name).await?),
        }
    }
}
