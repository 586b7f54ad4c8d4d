//! The part of `docs/access.md` that is made of the table.

use std::fmt::Write as _;

use super::{Level, Wire, table};

/// The levels, and every call with its own, as Markdown.
pub fn page() -> String {
    let mut text = "## The levels\n\n| level | whose credential meets it |\n|---|---|\n".to_owned();
    for level in Level::ALL {
        line(&mut text, &format!("| {} | {} |", level.word(), level.who()));
    }
    line(&mut text, "\n`operator = true` meets every level but that of nodes.");
    let calls = table();
    for (wire, title, head) in
        [(Wire::Rest, "REST", "call"), (Wire::Swf, "SWF's wire", "operation"), (Wire::Nodes, "Between nodes", "call")]
    {
        line(&mut text, &format!("\n## {title}\n\n| {head} | level |\n|---|---|"));
        for call in calls.iter().filter(|call| call.wire == wire) {
            let method = if wire == Wire::Swf { String::new() } else { format!("{} ", call.method) };
            line(&mut text, &format!("| `{method}{}` | {} |", call.name, call.level.word()));
        }
    }
    text
}

fn line(text: &mut String, line: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}
