//! Filters, orders and pages of `baton workflow list` and `count`.

use std::process::Command;

use client::body::TerminateWorkflow;
use futures_util::StreamExt as _;
use serde_json::Value;

use crate::commands::{Shell, activity};
use crate::start;

/// Number of runs that take two pages of the service.
const TWO_PAGES: usize = 1_050;

/// Returns the workflow ids in the output of `baton workflow list --json`.
fn ids(listed: &Value) -> Vec<&str> {
    listed.as_array().unwrap().iter().map(|run| run["workflowId"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_found_by_start_and_close_times() {
    let shell = Shell::open("list-times");
    for id in ["a", "b", "c"] {
        // Each is a separate process, so no two have the same millisecond.
        shell.ok(&format!("workflow start {id} --type test"));
    }
    for id in ["a", "b"] {
        shell.ok(&format!("workflow terminate {id}"));
    }
    let listed = shell.json("workflow list --order oldest-start --json");
    assert_eq!(ids(&listed), ["a", "b", "c"]);
    let at = |run: usize, field: &str| listed[run][field].as_str().unwrap().to_owned();
    let (b_started, b_closed) = (at(1, "startedAt"), at(1, "closedAt"));
    for (filters, expected) in [
        (format!("--started-after {b_started}"), "b c"),
        (format!("--started-before {b_started}"), "a"),
        (format!("--started-after {} --started-before {b_started}", at(0, "startedAt")), "a"),
        (format!("--closed-after {b_closed}"), "b"),
        (format!("--closed-before {b_closed}"), "a"),
        (format!("--started-after {b_started} --closed-after 1h"), "b"),
        ("--started-after 6h".to_owned(), "a b c"),
        ("--started-before 6h".to_owned(), ""),
        ("--started-before 0s".to_owned(), "a b c"),
        ("--closed-after 6h".to_owned(), "a b"),
        ("--closed-before PT6H".to_owned(), ""),
        // Options of earlier versions of `baton batch create`.
        (format!("--started-from {b_started}"), "b c"),
        (format!("--closed-from {b_closed}"), "b"),
    ] {
        let found = shell.json(&format!("workflow list --order oldest-start --json {filters}"));
        assert_eq!(ids(&found).join(" "), expected, "{filters}");
        let count = shell.json(&format!("workflow count --json {filters}"));
        assert_eq!(count["count"], expected.split_whitespace().count(), "{filters}: {count}");
        let dry = shell.json(&format!("batch create delete --dry-run --status closed --json {filters}"));
        let closed = expected.split_whitespace().filter(|id| *id != "c").count();
        assert_eq!(dry["count"], closed, "{filters}: {dry}");
    }
    let shown = shell.ok("workflow list --order oldest-start");
    let row: Vec<&str> = shown.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(&row[..4], [&b_started, &b_closed, "terminated", "test"], "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_that_match_no_run_are_refused() {
    let shell = Shell::open("wrong-filters");
    let late = "2026-11-02T00:00:00Z";
    for (filters, expected) in [
        ("--started-after soon", "'soon' for '--started-after <TIME>': expected a time such as 2026-11-01T00:00:00Z"),
        ("--started-after 3600", "a number has no unit"),
        ("--closed-before 2026-11-01", "or a duration before now such as 2h or 7d"),
        ("--started-after 1h --started-before 2h", "expected --started-before to be later"),
        ("--closed-after 1h --closed-before 1d", "expected --closed-before to be later"),
        ("--status blocked --closed-after 1h", "--closed-after selects closed runs, and --status blocked selects open"),
        ("--status open --closed-before 1h", "--closed-before selects closed runs"),
        ("--status bogus", "possible values: open, closed, paused"),
    ] {
        for command in ["workflow list", "workflow count", "batch create cancel --dry-run"] {
            let (code, text) = shell.run(&format!("{command} {filters}"));
            assert!(code == 2 && text.contains(expected), "{command} {filters}: {text}");
        }
    }
    for (line, expected) in [
        ("workflow list --status stuck --order oldest-close", "--order oldest-close selects closed runs"),
        ("workflow count --status open --reason x", "--reason selects closed runs"),
        ("batch create cancel --status open --closed-reason x", "--closed-reason selects closed runs"),
        ("batch create cancel --closed-after 1h", "and `cancel` selects open runs"),
        ("workflow list --limit 0", "expected a number of at least 1; --all lists all runs"),
        ("workflow list --limit x", "expected a number of at least 1"),
        ("workflow list --limit 5 --all", "cannot be used with"),
        ("workflow count --limit 5", "unexpected argument"),
        ("schedule backfill s --from soon --to 1h", "expected a time such as"),
        ("export -o - --since 7", "a number has no unit"),
    ] {
        let (code, text) = shell.run(line);
        assert!(code == 2 && text.contains(expected), "{line}: {text}");
    }
    let equal = format!("workflow list --started-after {late} --started-before {late}");
    let (code, text) = shell.run(&equal);
    let times = "--started-after is 2026-11-02T00:00:00.000Z, and --started-before is 2026-11-02T00:00:00.000Z";
    assert!(code == 2 && text.contains(times), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limited_list_says_that_there_may_be_more_runs() {
    let shell = Shell::open("list-pages");
    let client = shell.client();
    let starts = futures_util::stream::iter(0..TWO_PAGES).map(|number| {
        let client = client.clone();
        async move { client.start(&start(&format!("w-{number:04}")), None).await.unwrap() }
    });
    assert_eq!(starts.buffer_unordered(64).count().await, TWO_PAGES);
    for (options, expected, has_more) in [
        ("", 100, true),
        ("--limit 1", 1, true),
        ("--limit 1000", 1_000, true),
        ("--limit 1001", 1_001, true),
        ("--limit 1050", TWO_PAGES, false),
        ("--limit 5000", TWO_PAGES, false),
        ("--all", TWO_PAGES, false),
        ("--all --id-prefix w-104", 10, false),
    ] {
        let (code, out, said) = shell.script(&format!("baton workflow list --json {options}"));
        assert_eq!((code, said.contains("there may be more: set --limit, or use --all")), (0, has_more), "{options}");
        let listed: Value = serde_json::from_str(&out).unwrap();
        let found: std::collections::BTreeSet<&str> = ids(&listed).into_iter().collect();
        assert_eq!(found.len(), expected, "{options}: {said}");
        let (_, out, _) = shell.script(&format!("baton workflow list {options}"));
        assert_eq!(out.lines().count(), 1 + expected, "{options}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blocked_runs_of_the_last_hours_are_piped_to_jq() {
    let shell = Shell::open("night");
    for id in ["blocked", "fine"] {
        shell.client().start(&start(id), None).await.unwrap();
    }
    shell.decide(vec![activity("a")]).await;
    shell.decide(vec![activity("a")]).await;
    shell.ok("activity pause blocked a --reason bank-closed");
    let line = "baton workflow list --status blocked --started-after 6h --json";
    let (code, out, said) = shell.script(line);
    assert_eq!((code, said.as_str()), (0, ""));
    let listed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((ids(&listed), &listed[0]["blocked"]), (vec!["blocked"], &true.into()), "{listed}");
    let (code, out, _) = shell.script("baton workflow list --status blocked --started-before 6h --json");
    assert_eq!((code, out.as_str()), (0, "[]\n"), "no run is that old");
    if Command::new("jq").arg("--version").output().is_ok() {
        let (code, out, said) = shell.script(&format!("{line} | jq -r '.[].workflowId'"));
        assert_eq!((code, out.as_str(), said.as_str()), (0, "blocked\n", ""));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_as_json_has_the_runs_of_each_status() {
    let shell = Shell::open("count-json");
    for id in ["a", "b", "c"] {
        shell.client().start(&start(id), None).await.unwrap();
    }
    shell.client().terminate("a", None, &TerminateWorkflow::default(), None).await.unwrap();
    let expected = serde_json::json!({ "count": 3, "truncated": false, "byStatus": { "open": 2, "terminated": 1 } });
    assert_eq!(shell.json("workflow count --json"), expected);
    assert_eq!(shell.ok("workflow count").trim(), "3");
}
