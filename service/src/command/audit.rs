//! `baton audit …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use client::body::AuditEntry;
use serde_json::json;
use service::audit::verify;

use cli::{Done, Failed, Target, print_json, print_line, print_rows};

/// Default number of entries. Our choice: a screen or two.
const ENTRIES_DEFAULT: u64 = 100;

/// Number of entries per request. Source: the maximum page size of the service.
const PAGE: usize = 1_000;

#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    List(ListEntries),
    Verify(VerifyFiles),
}

/// List entries of the audit log, oldest first; requires an operator's credential
///
/// Each node has a separate log; --url selects the node. Entries are not verified: `baton audit verify` does that.
#[derive(Debug, Args)]
pub(crate) struct ListEntries {
    /// Only entries after this number [default: the newest entries]
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
    /// Maximum number of entries
    #[arg(long, value_name = "COUNT", default_value_t = ENTRIES_DEFAULT)]
    limit: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Verify the files of an audit log: every entry is unchanged and follows its predecessor
///
/// Reads only files, and can run while a service writes the log. Reports the file and line of the first invalid entry,
/// with exit code 1. A user who can write the files can also truncate or rewrite the chain: keep the printed head in
/// another place, and verify with --head.
#[derive(Debug, Args)]
pub(crate) struct VerifyFiles {
    /// Directory of the log, or of a copy
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Hash of an entry that must exist: the head that an earlier verification printed
    #[arg(long, value_name = "HASH")]
    head: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Audit {
    pub(super) async fn run(self) -> Done {
        match self {
            Self::List(list) => list.run().await,
            Self::Verify(verify) => verify.run(),
        }
    }
}

impl VerifyFiles {
    fn run(self) -> Done {
        let head = self.head.map(|head| head.trim().to_lowercase());
        let checked =
            verify(&self.directory, head.as_deref()).map_err(|misfit| Failed::Other(1, misfit.to_string()))?;
        if self.json {
            return print_json(&json!({
                "entries": checked.entries,
                "firstEntry": checked.first,
                "from": checked.times.as_ref().map(|(first, _)| first.to_string()),
                "to": checked.times.as_ref().map(|(_, last)| last.to_string()),
                "head": checked.head,
            }));
        }
        print_line(&format!("entries  {}", checked.entries))?;
        if let Some((first, last)) = checked.times {
            print_line(&format!("first    {first}"))?;
            print_line(&format!("last     {last}"))?;
        }
        print_line(&format!("head     {}", checked.head))?;
        match checked.first {
            0 => print_line("no entries"),
            1 => print_line("the chain is intact"),
            first => print_line(&format!("the chain is intact from entry {first}; older files are missing")),
        }
    }
}

impl ListEntries {
    async fn run(self) -> Done {
        let client = self.target.client()?;
        let mut after = match self.after {
            Some(after) => after,
            None => client.audit(u64::MAX, Some(1)).await?.last.saturating_sub(self.limit),
        };
        let mut entries = Vec::new();
        while (entries.len() as u64) < self.limit {
            let left = usize::try_from(self.limit).unwrap_or(usize::MAX) - entries.len();
            let page = client.audit(after, Some(left.min(PAGE))).await?;
            entries.extend(page.entries);
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
        if self.json {
            return print_json(&entries);
        }
        print_rows(["seq", "at", "by", "call", "about", "outcome"], entries.into_iter().map(row))
    }
}

fn row(entry: AuditEntry) -> [String; 6] {
    let about = about(&entry);
    let outcome = entry.request_seq.map(|of| {
        let status = entry.status.map_or_else(|| "caller disconnected".to_owned(), |status| status.to_string());
        let code = entry.code.map_or_else(String::new, |code| format!(" {code}"));
        format!("of {of}: {status}{code}")
    });
    let (by, call) = (entry.by.map(|by| by.to_string()).unwrap_or_default(), entry.call.unwrap_or_default());
    [entry.seq.to_string(), entry.at.to_string(), by, call, about, outcome.unwrap_or_default()]
}

/// Returns the names in an entry.
fn about(entry: &AuditEntry) -> String {
    let names = [
        ("domain", &entry.domain),
        ("workflow", &entry.workflow_id),
        ("run", &entry.run_id),
        ("type", &entry.workflow_type),
        ("type", &entry.activity_type),
        ("activity", &entry.activity_id),
        ("list", &entry.task_list),
        ("schedule", &entry.schedule_id),
        ("update", &entry.update_id),
        ("signal", &entry.signal_name),
        ("name", &entry.name),
        ("version", &entry.version),
        ("resource", &entry.resource_arn),
        ("identity", &entry.identity),
    ];
    let named = names.iter().filter_map(|(what, name)| name.as_ref().map(|name| format!("{what}={name}")));
    named.collect::<Vec<_>>().join(" ")
}
