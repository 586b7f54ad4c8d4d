//! `baton history`: prints the history of a run as a table.

use std::time::Duration;

use clap::Args;
use client::Page;
use uuid::Uuid;

use super::{Done, Target, print_json, print_json_line, print_line, print_text};

/// Show a run's history as a table
#[derive(Debug, Args)]
pub struct History {
    /// Workflow id
    workflow_id: String,
    /// Run id [default: the newest run]
    #[arg(long)]
    run: Option<Uuid>,
    /// Print the newest event first
    #[arg(long, conflicts_with = "follow")]
    reverse: bool,
    /// Print new events as they are recorded, until the run closes
    #[arg(long)]
    follow: bool,
    /// Print JSON: the events in the format of the API; with --follow one per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

impl History {
    pub(crate) async fn run(self) -> Done {
        if self.follow {
            return self.follow().await;
        }
        let mut events = self.target.client()?.events(&self.workflow_id, self.run).await?;
        if self.reverse {
            events.reverse();
        }
        if self.json { print_json(&events) } else { print_text(&tables::history(&events)) }
    }

    async fn follow(&self) -> Done {
        let client = self.target.client()?;
        let mut page = Page { wait: Some(Duration::from_secs(60)), ..Page::default() };
        let mut run = self.run;
        loop {
            let read = client.history(&self.workflow_id, run, &page).await?;
            run = Some(read.run_id);
            if let Some(last) = read.events.last() {
                page.after = Some(last.id);
            }
            for event in &read.events {
                if self.json {
                    print_json_line(event)?;
                } else {
                    let (id, name) = (event.id, event.kind.name());
                    let by = event.by.as_ref().map(|by| format!("  (credential `{by}`)")).unwrap_or_default();
                    print_line(&format!("{id:>5}  {}  {name:<26} {}{by}", event.timestamp, tables::summary(event)))?;
                }
            }
            if read.closed && page.after == Some(read.last_event_id) {
                return Ok(());
            }
        }
    }
}
