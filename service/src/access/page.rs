//! Generates the part of `docs/access.md` that lists all calls with their levels.

use std::fmt::Write as _;

use super::{CallAccess, Level, Wire};

/// Introduction of the table of calls.
const EFFECTS: &str = "\
In the following tables, the last column is the effect of a call:

* *reads*: the call changes nothing.
* *takes*: the call hands out a task, extends the timeout of a task, or appends [output](tasks.md#output).
* *changes*: the call changes something. Before the change, the service adds an entry to the [audit
  log](logs.md#audit-log).
* *relays*: the call passes on a call that another node received. The other node adds the entry to its audit log.";

/// Returns the list of levels, and the table of calls with their levels, as Markdown.
pub fn page(calls: &[CallAccess]) -> String {
    let mut text = "## Levels\n\n| level | credentials that have it |\n|---|---|\n".to_owned();
    for level in Level::ALL {
        line(&mut text, &format!("| {} | {} |", level.word(), level.who()));
    }
    line(&mut text, "\n`operator = true` has every level except *node*.");
    line(&mut text, "\n## Calls\n");
    line(&mut text, EFFECTS);
    for (wire, title, head) in [
        (Wire::Rest, "REST API", "call"),
        (Wire::Swf, "SWF protocol", "operation"),
        (Wire::Nodes, "Between nodes", "call"),
    ] {
        line(&mut text, &format!("\n### {title}\n\n| {head} | level | effect |\n|---|---|---|"));
        for call in calls.iter().filter(|call| call.wire == wire) {
            let method = if wire == Wire::Swf { String::new() } else { format!("{} ", call.method) };
            let (level, effect) = (call.level.word(), call.effect.word());
            line(&mut text, &format!("| `{method}{}` | {level} | {effect} |", call.name));
        }
    }
    text
}

fn line(text: &mut String, line: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}
