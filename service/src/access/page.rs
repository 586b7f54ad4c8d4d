//! The part of `docs/access.md` that is made of the table.

use std::fmt::Write as _;

use super::{CallAccess, Level, Wire};

/// The levels, and every call with its own, as Markdown.
pub fn page(calls: &[CallAccess]) -> String {
    let mut text = "## The levels\n\n| level | whose credential meets it |\n|---|---|\n".to_owned();
    for level in Level::ALL {
        line(&mut text, &format!("| {} | {} |", level.word(), level.who()));
    }
    line(&mut text, "\n`operator = true` meets every level but that of nodes.");
    line(&mut text, "\n## The calls\n");
    line(
        &mut text,
        "What a call does: it *reads*; it *takes* a task, or says that one is still being worked on; it *changes*",
    );
    line(
        &mut text,
        "something, and has an entry in the [audit log](operating.md#who-changed-what) before it does; it *relays* what",
    );
    line(&mut text, "a call to another node is doing, which has its entry there.");
    for (wire, title, head) in
        [(Wire::Rest, "REST", "call"), (Wire::Swf, "SWF's wire", "operation"), (Wire::Nodes, "Between nodes", "call")]
    {
        line(&mut text, &format!("\n## {title}\n\n| {head} | level | |\n|---|---|---|"));
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
