//! `baton activity start` and `execute`, and the commands of the page about single activities.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use client::Patience;
use client::body::{PollActivity, StartActivity, SucceedActivity};
use history::{RetryPolicy, Status};

use crate::commands::Shell;
use crate::support::{Scratch, Service};

const PAGE: &str = include_str!("../../../docs/single-activity.md");

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_page_about_single_activities_work() {
    let shell = Shell::open("single-activity-page");
    let blocks: Vec<&str> =
        PAGE.split("```sh\n").skip(1).filter_map(|block| block.split_once("```")).map(|(block, _)| block).collect();
    assert!(blocks.len() > 6, "{}", blocks.len());
    let script = blocks.concat().replace("http://127.0.0.1:7420", shell.url());
    let binaries = std::path::Path::new(env!("CARGO_BIN_EXE_baton")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    // A poll of the runner may outlive it, so the output goes to a file, which the test can read before the poll ends.
    let output = shell.file("output");
    let file = std::fs::File::create(&output).unwrap();
    let status = Command::new("bash")
        .args(["-euxo", "pipefail", "-c", &script])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .env("PATH", path)
        .env("BATON_URL", shell.url())
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .process_group(0)
        .status()
        .unwrap();
    let text = std::fs::read_to_string(&output).unwrap();
    assert!(status.success(), "{text}");
    for expected in [
        "\"result\": \"HELLO\"",
        "Hello, Ada!",
        "\"result\":\"ORDER 7\"",
        "the run is a single activity without a decider",
        "activity   activity (send-mail) on mail: waiting for a runner",
        "ActivityScheduled",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let outcome = |id: &str| shell.json(&format!("workflow show {id} --json"))["status"].clone();
    assert_eq!((outcome("greet-ada"), outcome("mail-7"), outcome("mail-8")), {
        let [success, canceled] = ["success", "canceled"].map(serde_json::Value::from);
        (success.clone(), success, canceled)
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_waits_reports_the_outcome_by_its_exit_code() {
    let shell = Shell::open("single-activity");
    let (code, text) = shell.run("activity execute --list mail --type send --id w --wait 1100ms");
    assert_eq!(code, 5, "{text}");
    assert!(text.contains("list `mail` has had no pollers for activities since 2"), "{text}");
    let (code, text) = shell.run("activity execute --list mail --type send --id v --schedule-to-start 1s");
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("schedule-to-start-timeout"), "{text}");
    let started = shell.json("activity start --list mail --type send --key k");
    assert_eq!(shell.json("activity start --list mail --type send --key k"), started);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_options_of_a_single_activity_are_refused() {
    let shell = Shell::open("invalid-single-activity");
    shell.ok("activity start --list mail --type send --id w");
    for (line, code, expected) in [
        ("activity start --type send", 2, "--list"),
        ("activity start --list mail", 2, "--type"),
        ("activity start --list mail --type send --pause-when-exhausted", 2, "--retry-attempts"),
        ("activity start --list mail --type send --heartbeat soon", 2, "--heartbeat"),
        ("activity start --list mail --type ", 1, "`--type`"),
        ("activity start --list mail --type send --retry-attempts 0", 1, "`--retry-attempts`"),
        ("activity start --list mail --type send --heartbeat 0s", 1, "`--heartbeat`"),
        ("activity start --list mail --type send --concurrency-key ", 1, "`--concurrency-key`"),
        ("activity start --list mail --type send --id w", 1, "workflow-already-open"),
        ("workflow signal w go", 1, "no-decider"),
        ("workflow query w total", 1, "no-decider"),
    ] {
        let (found, text) = shell.run(line);
        assert_eq!(found, code, "{line}: {text}");
        assert!(text.contains(expected), "{line}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_activity_survives_kills_of_the_service() {
    let scratch = Scratch::new("single-activity-killed");
    let mut service = Service::start(&scratch.0, &[]);
    let start = StartActivity {
        activity_type: "send".to_owned(),
        workflow_id: Some("w".to_owned()),
        retry: Some(RetryPolicy::default()),
        ..StartActivity::default()
    };
    service.client().start_activity("mail", &start, None, None).await.unwrap();
    service.kill();
    let mut service = Service::start(&scratch.0, &[]);
    let wait = std::time::Duration::from_secs(30);
    let task = service.client().poll_activity("mail", &PollActivity::default(), wait).await.unwrap().expect("a task");
    service.kill();
    let mut service = Service::start(&scratch.0, &[]);
    let complete = SucceedActivity::default();
    service.client().succeed_activity(&task.token, &complete, Patience::None).await.unwrap();
    service.kill();
    let service = Service::start(&scratch.0, &[]);
    assert_eq!(service.client().result("w", None, wait).await.unwrap().status, Status::Success);
}
