//! `baton dynamodb …`.

use clap::{Args, Subcommand};
use store_dynamodb::{Create, Dynamo, TableError};

use crate::dynamodb::{Table, prices};
use cli::{Done, Failed, note, print_json, print_line, print_text};
use serde_json::json;

#[derive(Debug, Subcommand)]
pub(crate) enum Dynamodb {
    CreateTable(CreateTable),
    Check(Check),
    Cost(Cost),
}

/// Create the table, billed on demand, with its indexes and its TTL
#[derive(Debug, Args)]
pub(crate) struct CreateTable {
    #[command(flatten)]
    table: Table,
    /// Create the table without deletion protection
    #[arg(long)]
    unprotected: bool,
    /// If the table exists already, only check it
    #[arg(long)]
    if_missing: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Check that a service can use the table
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: Table,
}

/// Print the costs of operations in units and dollars
///
/// The figures are for runs whose stored state (head) has at most a kilobyte; docs/dynamodb-costs.md explains other
/// sizes. The default prices are those of us-east-1.
#[derive(Debug, Args)]
pub(crate) struct Cost {
    /// Number of operations of each kind
    #[arg(long, default_value_t = 1_000_000, value_name = "COUNT")]
    times: u64,
    /// Price of a million write units, in dollars
    #[arg(long, default_value_t = prices::WRITE_UNIT, value_name = "DOLLARS")]
    write_price: f64,
    /// Price of a million read units, in dollars
    #[arg(long, default_value_t = prices::READ_UNIT, value_name = "DOLLARS")]
    read_price: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Operations with their costs: name, write units and read units. `store/dynamodb/tests/emulated/budget.rs` checks
/// these numbers.
const OPERATIONS: [(&str, f64, f64); 11] = [
    ("start a workflow", 3.0, 0.0),
    ("start or complete a turn or an activity", 1.0, 0.0),
    ("signal", 1.0, 0.0),
    ("read the state of a run that is not in memory", 0.0, 1.0),
    ("a timer fires", 3.0, 0.0),
    ("close a workflow", 4.0, 0.0),
    ("close one after more than ten seconds", 5.0, 0.0),
    ("poll for a task, for any time", 0.0, 0.0),
    ("one day of a run whose task has no pollers", 3.0, 1.0),
    ("23 events, 3 activities, no waiting pollers", 21.0, 0.0),
    ("23 events, 3 activities, waiting pollers", 14.0, 0.0),
];

fn failed(what: impl Into<String>) -> Failed {
    Failed::Other(1, what.into())
}

impl Dynamodb {
    pub(super) async fn run(self) -> Done {
        match self {
            Self::CreateTable(create) => create.run().await,
            Self::Check(check) => check.run().await,
            Self::Cost(cost) => cost.run(),
        }
    }
}

impl CreateTable {
    async fn run(self) -> Done {
        let store = self.table.store().await.map_err(failed)?;
        let has_ttl = match store.create_table(Create { is_protected: !self.unprotected }).await {
            Err(TableError::Exists { .. }) if self.if_missing => return see(&store, &self.table, self.json).await,
            created => created.map_err(|trouble| failed(trouble.to_string()))?,
        };
        let name = self.table.name();
        if !has_ttl {
            note("baton: the table has no TTL: the service will delete expired runs with billed requests");
        }
        if self.json {
            return print_json(&json!({ "table": name, "hasTtl": has_ttl, "isProtected": !self.unprotected }));
        }
        print_line(&format!("`{name}` is ready; consider point-in-time recovery, see docs/dynamodb.md"))
    }
}

impl Check {
    async fn run(self) -> Done {
        let store = self.table.store().await.map_err(failed)?;
        see(&store, &self.table, self.json).await
    }
}

/// Checks the table, and prints whether a service can use it.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
async fn see(store: &Dynamo, table: &Table, is_json: bool) -> Done {
    let checked = store.check().await.map_err(|trouble| failed(trouble.to_string()))?;
    if is_json {
        return print_json(&json!({
            "table": table.name(),
            "hasTtl": checked.has_ttl,
            "isProtected": checked.is_protected,
            "items": checked.items,
            "bytes": checked.bytes,
        }));
    }
    let is = |is: bool| if is { "on" } else { "off" };
    print_line(&format!(
        "`{}` is usable: TTL {}, deletion protection {}, {} items, {:.1} MiB (updated every six hours)",
        table.name(),
        is(checked.has_ttl),
        is(checked.is_protected),
        checked.items,
        checked.bytes as f64 / f64::from(1 << 20),
    ))
}

impl Cost {
    #[expect(clippy::cast_precision_loss, reason = "figures for people, far below 2^52")]
    fn run(self) -> Done {
        use std::fmt::Write as _;
        let dollars =
            |written: f64, read: f64| (written * self.write_price + read * self.read_price) * (self.times as f64 / 1e6);
        if self.json {
            let operations = OPERATIONS.map(|(what, written, read)| {
                let dollars = dollars(written, read);
                json!({ "operation": what, "writeUnits": written, "readUnits": read, "dollars": dollars })
            });
            return print_json(&json!({ "times": self.times, "operations": operations }));
        }
        let mut text = format!("{:<52}{:>12}{:>12}{:>12}\n", "operation", "write units", "read units", "dollars");
        for (what, written, read) in OPERATIONS {
            let dollars = dollars(written, read);
            writeln!(text, "{what:<52}{written:>12}{read:>12}{dollars:>12.2}")
                .map_err(|error| failed(error.to_string()))?;
        }
        write!(text, "dollars for {} operations each, on demand", self.times)
            .map_err(|error| failed(error.to_string()))?;
        print_text(&text)
    }
}
