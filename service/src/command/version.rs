//! `baton version`: prints this program's version, and the number of each format that it reads and writes.

use clap::Args;
use serde::Serialize;

use cli::{Done, print_json, print_line, print_rows};
use engine::numbers;
use store_embedded::forms;

/// Print the version of this program, and its format numbers
///
/// Two versions with the same numbers can use the same data, one after the other, or at the same time as nodes.
/// docs/upgrading.md explains what to do if numbers differ.
#[derive(Debug, Args)]
pub(crate) struct Version {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct FormatNumber {
    form: &'static str,
    number: String,
}

fn form(form: &'static str, number: &dyn std::fmt::Display) -> FormatNumber {
    FormatNumber { form, number: number.to_string() }
}

/// Returns all formats in the order of the table in `docs/upgrading.md`.
fn all() -> Vec<FormatNumber> {
    vec![
        form("data directory", &forms::DIRECTORY),
        form("log", &forms::LOG),
        form("records", &forms::RECORDS),
        form("archive", &store_archive::FORM),
        #[cfg(feature = "dynamodb")]
        form("table", &store_dynamodb::forms::TABLE),
        form("heads", &numbers::HEADS),
        form("states", &history::codec::FORMAT),
        form("events", &history::codec::EVENTS),
        form("service records", &numbers::RECORDS),
        form("tokens", &numbers::TOKENS),
        form("messages of nodes", &numbers::MESSAGES),
        form("REST", &service::api::REST_VERSION),
        form("SWF", &service::api::SWF_VERSION),
    ]
}

impl Version {
    pub(super) fn run(self) -> Done {
        let (version, forms) = (env!("CARGO_PKG_VERSION"), all());
        if self.json {
            return print_json(
                &serde_json::json!({ "version": version, "zoneTables": history::zone_tables(), "forms": forms }),
            );
        }
        print_line(&format!("baton {version}, time-zone tables {}", history::zone_tables()))?;
        print_rows(
            ["FORMAT", "NUMBER"],
            forms.into_iter().map(|FormatNumber { form, number }| [form.to_owned(), number]),
        )
    }
}
