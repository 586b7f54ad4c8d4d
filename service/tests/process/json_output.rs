//! `--json` of every command.

use std::path::Path;
use std::time::Duration;

use client::Patience;
use client::body::{CompleteTurn, FailActivity, PollActivity, PollDecider, QueryResult, StartWorkflow, UpdateResult};
use client::tasks::Outcome;
use history::{RetryPolicy, ScheduleActivity, SucceedWorkflow};
use serde_json::Value;

use crate::commands::{Shell, activity};
use crate::start;
use crate::support::Scratch;

/// Commands with `--json` that other tests execute, and where.
const ELSEWHERE: [(&str, &str); 6] = [
    ("activity-output", "commands.rs: it needs a runner that appends output"),
    ("standby", "backup.rs"),
    ("standby-promote", "backup.rs"),
    ("node-show", "service/tests/http/nodes.rs: it needs a shared store"),
    ("dynamodb-check", "it needs DynamoDB"),
    ("dynamodb-create-table", "it needs DynamoDB"),
];

const PAGE: &str = include_str!("../../../docs/cli.md");

/// Checks that the page names all members of an object that the API does not have.
fn check_members(line: &str, object: &Value) {
    let rows = PAGE.split("| command | members |").nth(1).unwrap().lines().skip(2);
    let rows = rows.map_while(|row| row.strip_prefix("| `")?.split_once("` | "));
    let is_of = |command: &str| match command {
        "import --check" => line.starts_with("import ") && line.contains("--check"),
        "import" => line.starts_with("import ") && !line.contains("--check"),
        "backup" => line.starts_with("backup ") && !line.starts_with("backup verify "),
        command => format!("{line} ").starts_with(&format!("{command} ")),
    };
    for (_, members) in rows.filter(|(command, _)| is_of(command)) {
        for name in object.as_object().into_iter().flatten().map(|(name, _)| name) {
            assert!(members.contains(&format!("`{name}`")), "docs/cli.md documents `{name}` of `{line}`");
        }
    }
}

/// Runs commands with `--json`, checks that standard output is JSON, and collects the commands.
struct JsonShell {
    shell: Shell,
    seen: Vec<String>,
}

impl JsonShell {
    /// Returns the values that a command prints.
    fn values(&mut self, line: &str, expected: i32) -> Vec<Value> {
        let (code, out, said) = self.shell.script(&format!("baton {line} --json"));
        assert_eq!(code, expected, "{line}: {out}{said}");
        self.seen.push(line.replace(' ', "-"));
        let values = serde_json::Deserializer::from_str(&out).into_iter().collect::<Result<Vec<Value>, _>>();
        values.unwrap_or_else(|error| panic!("{line}: {error}: {out}"))
    }

    /// Returns the single value that a command prints.
    fn json(&mut self, line: &str) -> Value {
        let mut values = self.values(line, 0);
        assert_eq!(values.len(), 1, "{line}: {values:?}");
        check_members(line, &values[0]);
        values.remove(0)
    }

    /// Executes a list, and returns the number of its entries.
    fn list(&mut self, line: &str) -> usize {
        self.json(line).as_array().unwrap_or_else(|| panic!("{line} prints an array")).len()
    }
}

/// Answers queries and updates of the runs.
async fn answer(client: client::Client) {
    loop {
        let poll = PollDecider { queries: true, updates: Some(1), ..PollDecider::default() };
        let Some(turn) = client.poll_decider("deciders", &poll, Duration::from_secs(30)).await.unwrap() else {
            continue;
        };
        let result = Some(history::Payload::of(&7).unwrap());
        let query = |id| QueryResult { id, result: result.clone(), ..QueryResult::default() };
        let update = |id| UpdateResult { id, accepted: result.clone(), ..UpdateResult::default() };
        let complete = CompleteTurn {
            query_results: turn.queries.iter().map(|asked| query(asked.id.clone())).collect(),
            update_results: turn.updates.iter().map(|asked| update(asked.id.clone())).collect(),
            ..CompleteTurn::default()
        };
        client.complete_turn(&turn.token, &complete, Patience::None).await.unwrap();
    }
}

async fn runs_and_activities(shell: &mut JsonShell) {
    let client = shell.shell.client();
    for line in ["workflow start w --type test --list deciders", "workflow start other --type test"] {
        assert!(shell.json(line)["runId"].is_string());
    }
    let retry = Some(RetryPolicy { initial_interval: history::Duration::from_days(1), ..RetryPolicy::default() });
    let (activity_type, task_list) = ("work".to_owned(), Some("retried".to_owned()));
    let retried = ScheduleActivity {
        activity_id: "r".to_owned(),
        activity_type,
        task_list,
        retry,
        ..ScheduleActivity::default()
    };
    shell.shell.decide(vec![activity("a"), activity("b"), retried.into()]).await;
    let poll = PollActivity::default();
    let task = client.poll_activity("retried", &poll, Duration::from_secs(30)).await.unwrap().unwrap();
    let fail = FailActivity { reason: "bad".to_owned(), ..FailActivity::default() };
    assert!(matches!(client.fail_activity(&task.token, &fail, Patience::None).await.unwrap(), Outcome::Recorded));
    for line in [
        "activity retry w r",
        "activity set w a --list others",
        "activity pause w a",
        "activity resume w a",
        "activity complete w a --result 1",
        "activity fail w b --failure bad",
        "activity start --type work --list alone --id alone",
        "workflow signal w go",
        "workflow pause w",
        "workflow resume w",
        "workflow show w",
        "workflow count",
        "workflow failures",
    ] {
        assert!(shell.json(line).is_object(), "{line}");
    }
    assert_eq!(shell.list("workflow list"), 3);
    let events = shell.list("history w");
    assert_eq!((events > 5, shell.list("workflow history w")), (true, events));
    assert_eq!(shell.values("workflow result w", 5).len(), 1);
    assert_eq!(shell.values("workflow execute x --type test --list nowhere --wait 0s", 5).len(), 1);
    assert_eq!(shell.values("activity execute --type work --list alone --id third --wait 0s", 5).len(), 1);
    let answering = tokio::spawn(answer(client.clone()));
    for line in ["query w total", "workflow query w total"] {
        assert_eq!(shell.json(line), 7);
    }
    for line in ["update w add", "workflow update w add"] {
        assert_eq!(shell.json(line)["result"], 7);
    }
    answering.abort();
    for line in
        ["workflow reset w --at 2", "workflow cancel w", "workflow terminate w", "workflow delete x --terminate"]
    {
        assert!(shell.json(line).is_object(), "{line}");
    }
    client.start(&StartWorkflow { task_list: Some("closing".to_owned()), ..start("closed") }, None).await.unwrap();
    let turn = client.poll_decider("closing", &PollDecider::default(), Duration::from_secs(30)).await.unwrap().unwrap();
    let complete = CompleteTurn { decisions: vec![SucceedWorkflow::default().into()], ..CompleteTurn::default() };
    client.complete_turn(&turn.token, &complete, Patience::None).await.unwrap();
    let followed = shell.values("history closed --follow", 0);
    assert!(followed.len() > 3 && followed.iter().all(Value::is_object), "one event per line: {followed:?}");
}

fn settings(shell: &mut JsonShell) {
    for line in [
        "domain create shop",
        "domain set --domain shop --retention 9d",
        "domain show --domain shop",
        "domain deprecate --domain shop",
        "schedule create s --type report --every 24h",
        "schedule show s",
        "schedule pause s",
        "schedule resume s",
        "schedule trigger s",
        "schedule backfill s --from 3d --to 1d",
        "schedule next s --limit 2",
        "limit-group set g --max-running 5",
        "task-list limit l --activities --group g",
        "task-list pause l --activities",
        "task-list resume l --activities",
        "task-list show l",
        "type register t/1 --activities",
        "type show t/1 --activities",
        "type deprecate t/1 --activities",
        "type undeprecate t/1 --activities",
        "batch create signal --signal go --dry-run",
        "doctor",
        "version",
        "clock confirm",
        "secret rotate",
    ] {
        assert!(shell.json(line).is_object(), "{line}");
    }
    #[cfg(feature = "dynamodb")]
    assert!(shell.json("dynamodb cost")["operations"].is_array());
    let batch = shell.json("batch create signal --signal go --id-prefix closed --status open --pace 1");
    let batch = batch["batchId"].as_str().unwrap().to_owned();
    assert_eq!(shell.json(&format!("batch show {batch} --wait --quiet"))["status"], "completed");
    // Five runs at a pace of one run per second take longer than the next commands.
    for number in 0..5 {
        shell.json(&format!("workflow start slow-{number} --type test"));
    }
    let slow = shell.json("batch create signal --signal go --id-prefix slow --pace 1");
    let slow = slow["batchId"].as_str().unwrap().to_owned();
    assert_eq!(shell.json(&format!("batch stop {slow}"))["status"], "stopped");
    assert_eq!(shell.json(&format!("batch pace {slow} 100"))["pace"], 100);
    assert_eq!(shell.json(&format!("batch resume {slow} --wait --quiet"))["status"], "completed");
    let lists = [("domain", 2), ("schedule", 1), ("limit-group", 1), ("type", 1), ("batch", 2), ("node", 0)];
    for (noun, entries) in lists {
        assert_eq!(shell.list(&format!("{noun} list")), entries, "{noun}");
    }
    assert!(shell.list("task-list list") >= 1);
    for line in ["clock show", "clock repair", "clock repair --dry-run"] {
        assert_eq!(shell.values(&format!("{line} --quiet"), 0), Vec::<Value>::new(), "{line}: a line per late run");
    }
    let audited = shell.list("audit list");
    assert!(audited > 20, "{audited}");
}

fn files(shell: &mut JsonShell, directory: &Path) {
    let at = |name: &str| directory.join(name).display().to_string();
    let (file, config, archive) = (at("runs"), at("baton.toml"), at("archive"));
    let exported = shell.json(&format!("export --out {file} --quiet"));
    assert_eq!((&exported["file"], &exported["runs"]), (&Value::from(file.as_str()), &Value::from(3)));
    let checked = shell.json(&format!("import {file} --check --quiet"));
    assert_eq!((&checked["domain"], &checked["runs"]), (&Value::from("default"), &Value::from(3)));
    let imported = shell.json(&format!("import {file} --quiet"));
    assert_eq!((&imported["imported"], &imported["existing"]), (&Value::from(0), &Value::from(3)));
    let (code, out, said) = shell.shell.script("baton export --out - --json");
    assert!(code == 2 && out.is_empty() && said.contains("omit --json"), "{said}");

    let created = shell.json(&format!("credential new ops --operator --config {config}"));
    assert!(created["secret"].as_str().unwrap().starts_with("baton_"), "{created}");
    let key = shell.json("credential new swf --application default --access-key --print");
    let (id, section) = (key["accessKeyId"].as_str().unwrap(), key["section"].as_str().unwrap());
    assert!(section.contains(id) && section.contains(key["secretAccessKey"].as_str().unwrap()), "{key}");
    let listed = shell.json(&format!("credential list --config {config}"));
    let ops = &listed.as_array().unwrap()[0];
    assert_eq!(
        (&ops["name"], &ops["operator"], &ops["secrets"][0]["kind"]),
        (&"ops".into(), &true.into(), &"secret".into())
    );
    let secret = created["secret"].as_str().unwrap();
    assert!(!listed.to_string().contains(secret.trim_start_matches("baton_")), "{listed}");

    shell.shell.stop();
    let verified = shell.json(&format!("audit verify {}", at("audit")));
    assert!(verified["entries"].as_u64() > Some(20) && verified["head"].is_string(), "{verified}");
    let data = at("data");
    let checked = shell.json(&format!("fsck --data-dir {data} --quiet"));
    assert!(checked["runs"].as_u64() >= Some(8), "{checked}");
    assert_eq!((&checked["invalid"], &checked["miscounted"]), (&Value::Array(vec![]), &Value::Array(vec![])));
    assert!(shell.json(&format!("compact --data-dir {data} --quiet"))["bytesInUse"].as_u64() > Some(0));
    let backup = shell.json(&format!("backup {archive} --data-dir {data} --quiet"));
    assert!(backup["at"].is_string() && backup["base"]["records"].as_u64() > Some(0), "{backup}");
    let verified = shell.json(&format!("backup verify {archive} --quiet"));
    // Schedules and batches have rows in the store, too, so the number is larger.
    assert!(verified["epochs"][0]["runs"].as_u64() >= checked["runs"].as_u64(), "{verified}");
    let restored = shell.json(&format!("restore {archive} --data-dir {} --quiet", at("copy")));
    assert_eq!(restored["dataDir"], at("copy"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_with_json_prints_only_json() {
    let scratch = Scratch::new("all-json");
    let audit = scratch.0.join("audit").display().to_string();
    let shell = Shell::open_at(scratch, &["--audit-log", &audit]);
    let directory = shell.directory().to_owned();
    let mut shell = JsonShell { shell, seen: Vec::new() };
    runs_and_activities(&mut shell).await;
    settings(&mut shell);
    files(&mut shell, &directory);

    let (code, _, said) = shell.shell.script("baton man pages");
    assert_eq!(code, 0, "{said}");
    let mut pages = 0;
    for page in std::fs::read_dir(directory.join("pages")).unwrap() {
        let page = page.unwrap();
        let name = page.file_name().into_string().unwrap();
        let name = name.trim_start_matches("baton-").trim_end_matches(".1").to_owned();
        let has_json = std::fs::read_to_string(page.path()).unwrap().contains("\\-\\-json");
        if !has_json || ELSEWHERE.iter().any(|(command, _)| *command == name) {
            continue;
        }
        let is_executed = |line: &String| *line == name || line.starts_with(&format!("{name}-"));
        assert!(shell.seen.iter().any(is_executed), "this test executes `{name}`");
        pages += 1;
    }
    assert!(pages > 70, "{pages}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_with_json_is_text_on_standard_error() {
    let shell = Shell::open("json-errors");
    for (line, expected, text) in [
        ("baton workflow show missing --json", 1, "(unknown-workflow)"),
        ("baton workflow list --json --status bogus", 2, "invalid value 'bogus'"),
        ("baton workflow list --json --url http://127.0.0.1:1", 3, "check that `baton serve` is running"),
        ("baton fsck --json --data-dir missing", 1, "the directory does not exist"),
    ] {
        let (code, out, said) = shell.script(line);
        assert_eq!((code, out.as_str()), (expected, ""), "{line}");
        assert!(said.contains(text) && serde_json::from_str::<Value>(&said).is_err(), "{line}: {said}");
    }
}
