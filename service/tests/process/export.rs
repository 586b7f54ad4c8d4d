//! Runs that move from one `baton serve` to another with the documented commands.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use client::Client;
use client::body::{
    CompleteTurn, CreateDomain, PollActivity, PollDecider, StartWorkflow, SucceedActivity, TerminateWorkflow,
};
use client::{Filter, Patience};
use history::{Decision, Payload, SucceedWorkflow};
use tokio::time::timeout;

use crate::start;
use crate::support::{Scratch, Service};

/// A shell in a directory, with `baton` in its PATH and this service as the default.
struct Shell<'a> {
    at: &'a Path,
    url: &'a str,
}

impl Shell<'_> {
    fn output(&self, line: &str) -> Output {
        let bin = Path::new(env!("CARGO_BIN_EXE_baton")).parent().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(self.at).env("PATH", path).env("BATON_URL", self.url);
        shell.output().unwrap()
    }

    fn output_of(&self, line: &str) -> String {
        let output = self.output(line);
        assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
        // Calls that take longer than a few seconds report their progress.
        let said = String::from_utf8_lossy(&output.stderr);
        let is_progress = |said: &str| said.starts_with("importing: ") || said.starts_with("exporting: ");
        assert!(line.contains("--out -") || said.lines().all(is_progress), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, line: &str, code: i32) -> String {
        let output = self.output(line);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{line}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// A payload whose text must not change on any part of its way.
const ODD: &str = "{\r\n\t\"sum\" : [ 1.50,-0,\n9007199254740993 ],\"sum\":\"\\ud800 \\n \\u00e9 \u{e9} \\/\"}";

/// Starts various runs: closed in different ways, with tags and payloads, several of one workflow id, and an open one.
async fn fill(client: &Client) {
    for number in 0..20 {
        let id = format!("order-{number}");
        let input = Some(Payload::of(&"ü\u{1b}\u{9b}".repeat(number * 500)).unwrap());
        let begin = StartWorkflow { input, tags: vec![format!("tag-{}", number % 2)], ..start(&id) };
        client.start(&begin, Some(&id)).await.unwrap();
        let turn = client.poll_decider("deciders", &PollDecider::default(), Duration::from_secs(30)).await.unwrap();
        client.signal(&id, "paid", Payload::from_json(ODD).ok(), None).await.unwrap();
        let decisions = vec![Decision::from(SucceedWorkflow::default())];
        let complete = CompleteTurn { decisions, ..CompleteTurn::default() };
        let token = turn.unwrap().token;
        drop(client.complete_turn(&token, &complete, Patience::None).await);
        client.terminate(&id, None, &TerminateWorkflow::default(), None).await.unwrap();
        client.start(&begin_again(&id), None).await.unwrap();
        client.terminate(&id, None, &TerminateWorkflow::default(), None).await.unwrap();
    }
    client.start(&start("open"), None).await.unwrap();
}

/// The events of every run of a workflow id, byte for byte.
async fn histories(client: &Client, id: &str) -> Vec<String> {
    let filter = Filter { workflow_id: Some(id.to_owned()), ..Filter::default() };
    let mut events = Vec::new();
    for run in client.list(&filter, None).await.unwrap().workflows {
        let history = client.raw_history(id, run.run_id, None).await.unwrap();
        assert_eq!(history.next, None);
        events.extend(history.events.iter().map(|event| event.get().to_owned()));
    }
    events
}

fn begin_again(id: &str) -> StartWorkflow {
    StartWorkflow { reuse_policy: Some(history::ReusePolicy::AllowDuplicate), ..start(id) }
}

/// Content of a file without its creation time and digest.
fn runs(scratch: &Scratch, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(scratch.0.join(file)).unwrap();
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines[1..lines.len() - 1].to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_has_only_stored_fields_of_events() {
    let scratch = Scratch::new("moved-names");
    let (old, new) = (Service::start(&scratch.0.join("old"), &[]), Service::start(&scratch.0.join("new"), &[]));
    let client = old.client();
    client.start(&start("order-1"), None).await.unwrap();
    let wait = Duration::from_secs(30);
    // The same activity twice, which causes a warning in the description.
    for _ in 0..2 {
        let turn = client.poll_decider("deciders", &PollDecider::default(), wait).await.unwrap().unwrap();
        let decision = serde_json::from_value(serde_json::json!({
            "type": "ScheduleActivity", "activityId": "a", "activityType": "do", "taskList": "acts",
        }));
        let complete = CompleteTurn { decisions: vec![decision.unwrap()], ..CompleteTurn::default() };
        drop(client.complete_turn(&turn.token, &complete, Patience::None).await.unwrap());
        let task = client.poll_activity("acts", &PollActivity::default(), wait).await.unwrap().unwrap();
        drop(client.succeed_activity(&task.token, &SucceedActivity::default(), Patience::None).await.unwrap());
    }
    client.terminate("order-1", None, &TerminateWorkflow::default(), None).await.unwrap();
    let shell = Shell { at: &scratch.0, url: &old.url };
    let read = shell.output_of("baton history order-1 --json").replace(": ", ":");
    assert!(read.matches("\"activityId\":\"a\"").count() >= 6, "scheduled, started, succeeded, twice: {read}");
    shell.output_of("baton export --out runs.jsonl");
    let exported = runs(&scratch, "runs.jsonl");
    let named: Vec<_> = exported.iter().filter(|line| line.contains("activityId") && line.contains("\"id\"")).collect();
    assert!(named.len() == 2 && named.iter().all(|line| line.contains("ActivityScheduled")), "{named:?}");
    let there = Shell { at: &scratch.0, url: &new.url };
    assert_eq!(there.output_of("baton import runs.jsonl"), "1 runs imported, 0 already existed\n");
    there.output_of("baton export --out again.jsonl");
    assert_eq!(runs(&scratch, "again.jsonl"), exported, "every description and every event");
    assert_eq!(
        there.output_of("baton history order-1 --json").replace(": ", ":"),
        read,
        "the same fields are added for readers there"
    );
    assert!(exported[0].contains("\"repeating\":{\"times\":1"), "{}", exported[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_move_to_another_service_with_the_documented_commands() {
    let scratch = Scratch::new("moved");
    let old = Service::start(&scratch.0.join("old"), &[]);
    let mut new = Service::start(&scratch.0.join("new"), &[]);
    timeout(Duration::from_secs(60), fill(&old.client())).await.unwrap();
    let page = include_str!("../../../docs/moving.md");
    let (_, block) = page.split_once("```sh\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let said: Vec<_> = {
        let shell = Shell { at: &scratch.0, url: "http://127.0.0.1:1" };
        let real =
            |line: &str| line.replace("http://old.example:7420", &old.url).replace("http://new.example:7420", &new.url);
        block.lines().map(|line| shell.output_of(&real(line))).collect()
    };
    assert_eq!(
        said[0],
        "40 runs with 220 events are in runs.jsonl; 1 open run was not exported: only closed runs can be moved\n"
    );
    assert_eq!(said[1], "runs.jsonl is valid: 40 runs with 220 events, from domain `default`\n");
    assert_eq!(said[2], "40 runs imported, 0 already existed\n");
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(scratch.0.join("runs.jsonl")).unwrap());
        assert_eq!(mode & 0o777, 0o600);
    }
    let url = new.url.clone();
    let there = Shell { at: &scratch.0, url: &url };
    assert_eq!(there.output_of("baton import runs.jsonl"), "0 runs imported, 40 already existed\n");
    there.output_of("baton export --out again.jsonl");
    assert_eq!(histories(&new.client(), "order-3").await, histories(&old.client(), "order-3").await);
    let first = runs(&scratch, "again.jsonl").into_iter().find(|line| line.contains("sum")).unwrap();
    assert!(first.starts_with(r#"{"text":"#), "{first}");
    let of_file: serde_json::Value = serde_json::from_str(&first).unwrap();
    assert!(of_file["text"].as_str().unwrap().contains(ODD), "{first}");
    let sorted = |file| {
        let mut lines = runs(&scratch, file);
        lines.sort();
        lines
    };
    assert_eq!(sorted("again.jsonl"), sorted("runs.jsonl"), "every description and every event");
    let tagged = there
        .output_of("baton export --tag tag-1 --type test --status terminated --since 2001-01-01T00:00:00Z --out -");
    assert!(tagged.lines().count() > 10 && !tagged.contains("tag-0"), "{tagged}");
    assert_eq!(there.output_of("baton export order-3 --out one.jsonl"), "2 runs with 11 events are in one.jsonl\n");
    let listed =
        new.client().list(&Filter { workflow_id: Some("order-3".to_owned()), ..Filter::default() }, None).await;
    let run = listed.unwrap().workflows[0].run_id;
    let said = there.output_of(&format!("baton export order-3 --run {run} --out run.jsonl"));
    assert!(said.starts_with("1 runs"), "{said}");
    assert!(there.output_of("baton export --until 2001-01-01T00:00:00Z --out none.jsonl").starts_with("0 runs"));
    assert_eq!(there.output_of("baton import none.jsonl"), "0 runs imported, 0 already existed\n");
    // Another domain must exist, and needs an option.
    let said = there.refused("baton import runs.jsonl --domain orders", 2);
    assert!(said.contains("the runs are from domain `default`") && said.contains("--other-domain"), "{said}");
    let said = there.refused("baton import runs.jsonl --domain orders --other-domain", 1);
    assert!(said.contains("no domain `orders`") && said.contains("domain create"), "{said}");
    new.client().create_domain(&CreateDomain { name: "orders".to_owned(), ..CreateDomain::default() }).await.unwrap();
    let said = there.output_of("baton import runs.jsonl --domain orders --other-domain");
    // A request whose response is late is repeated, and finds the run that it has imported.
    let counts: Vec<u32> = said.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert_eq!((counts.len(), counts.iter().sum()), (2, 40), "{said}");
    let orders = new.client().domain("orders").count(&Filter::default()).await.unwrap();
    assert_eq!(orders.count, 40, "each run is imported once");
    new.kill();
    let data = scratch.0.join("new/data");
    assert!(there.output_of(&format!("baton fsck --data-dir {}", data.display())).starts_with("all runs are valid: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_file_is_refused_and_an_import_survives_a_restart() {
    let scratch = Scratch::new("bad-move");
    let old = Service::start(&scratch.0.join("old"), &[]);
    timeout(Duration::from_secs(60), fill(&old.client())).await.unwrap();
    let mut new = Service::start(&scratch.0.join("new"), &[]);
    let address = new.url.trim_start_matches("http://").to_owned();
    Shell { at: &scratch.0, url: &old.url }.output_of("baton export --out runs.jsonl");
    let shell = Shell { at: &scratch.0, url: &new.url };
    let text = std::fs::read_to_string(scratch.0.join("runs.jsonl")).unwrap();
    let bad = |name: &str, text: &str, said: &str| {
        std::fs::write(scratch.0.join(name), text).unwrap();
        let refused = shell.refused(&format!("baton import {name}"), 1);
        assert!(refused.contains(said), "{name}: {refused}");
    };
    bad("cut", &text[..text.len() - 200], "the file is truncated");
    bad("changed", &text.replacen("paid", "pait", 1), "the file was changed");
    bad("newer", &text.replacen("\"format\":2", "\"format\":9", 1), "the file has format 9");
    bad("foreign", "{\"id\":1}\n", "not a file of `baton export`");
    assert!(shell.refused("baton import nowhere", 1).contains("nowhere: cannot be read"));
    assert!(shell.refused("baton export --out runs.jsonl", 2).contains("already exists"));
    let count = async |client: &Client| client.count(&Filter::default()).await.unwrap().count;
    assert_eq!(count(&new.client()).await, 0, "the import has written nothing");
    // The service stops and restarts during the import.
    new.kill();
    let importing = std::thread::spawn({
        let (at, url) = (scratch.0.clone(), new.url.clone());
        move || Shell { at: &at, url: &url }.output_of("baton import runs.jsonl")
    });
    let new = Service::start_at(&scratch.0.join("new"), &address, &[]);
    assert_eq!(importing.join().unwrap(), "40 runs imported, 0 already existed\n");
    assert_eq!(count(&new.client()).await, 40);
}
