//! The real binary as a process: restarts, `kill -9` under load, exit codes of the command line, and credentials.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::indexing_slicing, reason = "a test that cannot go on fails")]

// The sources of the examples, which are modules here, use the package names.
extern crate baton_service as service;
extern crate client as baton_client;
extern crate decider_kit as baton_decider_kit;
extern crate history as baton_history;
extern crate runner_kit as baton_runner_kit;

mod audit;
mod backup;
#[path = "../shared/certificates.rs"]
mod certificates;
mod commands;
mod configured_lists;
mod credentials;
// The sources of the example, which refer to each other as `crate::…`.
#[path = "../../../examples/subscription/customers.rs"]
mod customers;
#[path = "../../../examples/subscription/decider.rs"]
mod decider;
mod disk;
mod doctor;
mod ending;
mod export;
#[path = "../../../examples/subscription/flow.rs"]
mod flow;
#[path = "../shared/hash.rs"]
mod hash;
mod https;
mod idle;
#[path = "../shared/issuer.rs"]
mod issuer;
mod json_output;
mod list_filters;
#[path = "../shared/lost.rs"]
mod lost;
mod man_pages;
mod progress;
mod secrets;
mod single_activity;
mod spans;
mod subscription;
mod support;
mod task_lists;
mod terminal;
mod tls;
mod tokens;
mod types;
mod upgrading;
mod zones;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use client::body::{CompleteTurn, PollDecider, StartWorkflow, TerminateWorkflow};
use client::tasks::Outcome;
use client::{Client, Patience};
use history::{Decision, Status, SucceedWorkflow, check};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

use crate::hash::sha256_hex;
use crate::support::{Scratch, Service, baton};

/// Response of `/readyz` of a service without warnings.
const READY: &str = r#"{"ready":true,"warnings":[]}"#;

fn start(id: &str) -> StartWorkflow {
    StartWorkflow {
        workflow_id: id.to_owned(),
        workflow_type: "test".to_owned(),
        task_list: Some("deciders".to_owned()),
        ..StartWorkflow::default()
    }
}

/// Starts the runs `PREFIX-0`, `PREFIX-1` and so on until a start fails, and reports each on the channel. Returns the
/// acknowledged ids.
fn start_runs(client: Client, prefix: String, started: UnboundedSender<()>) -> JoinHandle<Vec<String>> {
    tokio::spawn(async move {
        let mut acknowledged = Vec::new();
        for number in 0.. {
            let id = format!("{prefix}-{number}");
            match client.start(&start(&id), None).await {
                Ok(_) => acknowledged.push(id),
                Err(_) => break,
            }
            let _ = started.send(());
        }
        acknowledged
    })
}

async fn succeed_one(client: &Client) -> Option<String> {
    let task = client.poll_decider("deciders", &PollDecider::default(), Duration::from_secs(5)).await.ok()??;
    let decisions = vec![Decision::from(SucceedWorkflow::default())];
    let complete = CompleteTurn { decisions, ..CompleteTurn::default() };
    match client.complete_turn(&task.token, &complete, Patience::None).await {
        Ok(Outcome::Recorded) => Some(task.workflow_id),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_changes_survive_kill_9_under_load() {
    let scratch = Scratch::new("kill");
    let mut started: Vec<String> = Vec::new();
    let mut completed: Vec<String> = Vec::new();
    for round in 0..8 {
        let mut service = Service::start(&scratch.0, &[]);
        let (told, mut telling) = tokio::sync::mpsc::unbounded_channel();
        let starters: Vec<_> =
            (0..4).map(|lane| start_runs(service.client(), format!("{round}-{lane}"), told.clone())).collect();
        let client = service.client();
        let decider = tokio::spawn(async move {
            let mut acknowledged = Vec::new();
            while let Some(id) = succeed_one(&client).await {
                acknowledged.push(id);
                let _ = told.send(());
            }
            acknowledged
        });
        // The load grows with each round, so that the kill happens at different points.
        for _ in 0..20 + 37 * round {
            telling.recv().await.unwrap();
        }
        service.kill();
        for starter in starters {
            started.extend(starter.await.unwrap());
        }
        completed.extend(decider.await.unwrap());
    }
    assert!(!started.is_empty() && !completed.is_empty(), "there was load");
    let mut service = Service::start(&scratch.0, &[]);
    let client = service.client();
    for id in &started {
        let events = client.events(id, None).await.unwrap_or_else(|error| panic!("{id}: {error}"));
        check::history(&events).unwrap();
    }
    for id in &completed {
        let result = client.result(id, None, Duration::ZERO).await.unwrap();
        assert_eq!(result.status, Status::Success, "{id}");
    }
    service.kill();
    let data_dir = scratch.0.join("data");
    let checked = baton(&["fsck", "--data-dir", data_dir.to_str().unwrap()]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_report_their_outcome_by_exit_code() {
    let scratch = Scratch::new("cli");
    let mut service = Service::start(&scratch.0, &[]);
    let url = service.url.clone();
    let code = |args: &[&str]| {
        let output = baton(&[args, &["--url", url.as_str()]].concat());
        (output.status.code().unwrap(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (started, text) =
        code(&["workflow", "start", "a", "--type", "test", "--list", "deciders", "--input", "{\"n\":1}"]);
    assert_eq!(started, 0, "{text}");
    let (again, text) = code(&["workflow", "start", "a", "--type", "test"]);
    assert_eq!(again, 1, "{text}");
    assert!(text.contains("workflow-already-open") && text.contains("another workflow id"), "{text}");
    assert_eq!(code(&["workflow", "start", "b", "--type", "test", "--input", "nonsense"]).0, 2);
    assert_eq!(code(&["workflow", "result", "a"]).0, 5);
    assert_eq!(code(&["workflow", "signal", "a", "hello", "--input", "\"there\""]).0, 0);
    succeed_one(&service.client()).await.unwrap();
    assert_eq!(code(&["workflow", "result", "a", "--wait", "PT5S"]).0, 0);
    let (history, text) = code(&["history", "a"]);
    assert_eq!(history, 0);
    for word in ["WorkflowStarted", "`hello` \"there\"", "DeciderCompleted", "WorkflowSuccess", "because of"] {
        assert!(text.contains(word), "{word} in\n{text}");
    }
    let (followed, text) = code(&["history", "a", "--follow", "--json"]);
    assert_eq!((followed, text.lines().count()), (0, 6), "{text}");
    assert_eq!(code(&["workflow", "start", "c", "--type", "test"]).0, 0);
    assert_eq!(code(&["workflow", "terminate", "c", "--reason", "enough"]).0, 0);
    assert_eq!(code(&["workflow", "result", "c"]).0, 4);
    let (listed, text) = code(&["workflow", "list", "--status", "terminated"]);
    assert_eq!(listed, 0);
    assert!(text.contains(" c ") && !text.contains(" a "), "{text}");
    assert_eq!(code(&["workflow", "show", "nobody"]).0, 1);
    service.kill();
    let (unreachable, text) = code(&["workflow", "list"]);
    assert_eq!(unreachable, 3, "{text}");
    assert!(text.contains("check that `baton serve` is running"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_start_reports_the_result_and_exit_code() {
    let scratch = Scratch::new("cli-wait");
    let service = Service::start(&scratch.0, &[]);
    let begin = |id: &str, wait: &str| {
        let args = ["workflow", "start", id, "--type", "test", "--list", "deciders", "--key", id, "--wait", wait];
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.args(args).args(["--url", &service.url]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let end = |child: Child| {
        let output = child.wait_with_output().unwrap();
        let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let status = shown["status"].as_str().unwrap().to_owned();
        (output.status.code().unwrap(), status, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let waiting = begin("good", "PT60S");
    while succeed_one(&service.client()).await.is_none() {}
    let (code, status, _) = end(waiting);
    assert_eq!((code, status.as_str()), (0, "success"));

    let (code, status, said) = end(begin("slow", "PT0.1S"));
    assert_eq!((code, status.as_str()), (5, "open"));
    assert!(said.contains("still open"), "{said}");
    // The start is recorded, and the key finds its run.
    let again = begin("slow", "PT60S");
    service.client().terminate("slow", None, &TerminateWorkflow::default(), None).await.unwrap();
    let (code, status, said) = end(again);
    assert_eq!((code, status.as_str()), (4, "terminated"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_service_on_one_data_directory_is_refused() {
    let scratch = Scratch::new("lock");
    let service = Service::start(&scratch.0, &[]);
    let data_dir = scratch.0.join("data");
    let second = baton(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data_dir.to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    let told = format!("{}: in use by process {}; stop that process first", data_dir.display(), service.child.id());
    assert!(said.contains(&told) && !said.contains("failed"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_directory_is_compacted_offline_and_keeps_its_runs() {
    let scratch = Scratch::new("compact");
    let mut service = Service::start(&scratch.0, &[]);
    let data_dir = scratch.0.join("data");
    let compact = || baton(&["compact", "--data-dir", data_dir.to_str().unwrap()]);
    for number in 0..20 {
        service.client().start(&start(&format!("w-{number}")), None).await.unwrap();
    }
    let refused = compact();
    assert_eq!(refused.status.code(), Some(1), "a service has it");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    let told = format!("{}: in use by process {}", data_dir.display(), service.child.id());
    assert!(said.contains(&told), "{said}");
    service.kill();
    let packed = compact();
    let said = String::from_utf8_lossy(&packed.stdout).into_owned();
    assert!(packed.status.success() && said.contains("returned to the disk"), "{said}");
    let fsck = baton(&["fsck", "--data-dir", data_dir.to_str().unwrap()]);
    assert!(fsck.status.success());
    assert!(String::from_utf8_lossy(&fsck.stdout).contains("all runs are valid: 20 runs with "));
    assert_eq!(baton(&["compact", "--data-dir", "/nowhere/at/all"]).status.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runners_credential_polls_only_its_own_list() {
    let scratch = Scratch::new("credentials");
    let config = scratch.0.join("baton.toml");
    let text = format!(
        "[[credentials]]\nname = 'ops'\nsecret-sha256 = '{}'\noperator = true\n\n\
         [[credentials]]\nname = 'pci-rack'\nsecret-sha256 = '{}'\nrunners = ['default/PCI']\n\n\
         [[credentials]]\nname = 'letters'\nsecret-sha256 = '{}'\ndeciders = ['default/*']\n\
         may-decide = {{ task-lists = ['mail'], decisions = ['ScheduleActivity'] }}\n",
        sha256_hex("ops"),
        sha256_hex("pci"),
        sha256_hex("letters"),
    );
    std::fs::write(&config, text).unwrap();
    let service = Service::start(&scratch.0, &["--config", config.to_str().unwrap()]);
    let code = |result: Result<_, client::Error>| result.err().and_then(|error| error.status());
    let poll = client::body::PollActivity::default();
    let pci = Client::with_secret(&service.url, "pci").unwrap().patience(Patience::None);
    assert!(pci.poll_activity("PCI", &poll, Duration::ZERO).await.unwrap().is_none());
    assert_eq!(code(pci.poll_activity("orders", &poll, Duration::ZERO).await.map(drop)), Some(403));
    assert_eq!(code(pci.poll_decider("PCI", &PollDecider::default(), Duration::ZERO).await.map(drop)), Some(403));
    assert_eq!(code(pci.start(&start("x"), None).await.map(drop)), Some(403));
    assert_eq!(code(service.client().start(&start("x"), None).await.map(drop)), Some(401));
    assert_eq!(code(pci.ready().await.map(drop)), None);
    let ops = Client::with_secret(&service.url, "ops").unwrap().patience(Patience::None);
    assert_eq!(code(ops.start(&start("x"), None).await.map(drop)), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generated_credential_can_be_used() {
    let scratch = Scratch::new("new-credential");
    let made = baton(&["credential", "new", "the \"rack\"", "--runner", "default/PCI", "--print"]);
    assert!(made.status.success());
    let config = scratch.0.join("baton.toml");
    std::fs::write(&config, &made.stdout).unwrap();
    let told = String::from_utf8(made.stderr).unwrap();
    let secret = told.trim().rsplit(' ').next().unwrap();
    assert!(!String::from_utf8_lossy(&made.stdout).contains(secret), "the secret is not in the file");
    let service = Service::start(&scratch.0, &["--config", config.to_str().unwrap()]);
    let rack = Client::with_secret(&service.url, secret).unwrap().patience(Patience::None);
    let poll = client::body::PollActivity::default();
    assert!(rack.poll_activity("PCI", &poll, Duration::ZERO).await.unwrap().is_none());
    assert!(rack.poll_activity("orders", &poll, Duration::ZERO).await.is_err());
    for wrong in [
        &["credential", "new", "x", "--print"][..],
        &["credential", "new", "x", "--runner", "PCI", "--print"],
        &["credential", "new", "x", "--runner", "default/PCI"],
    ] {
        assert_eq!(baton(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_credentials_only_configured_host_names_are_allowed() {
    let scratch = Scratch::new("hosts");
    let service = Service::start(&scratch.0, &["--allowed-hosts", "baton.lan,other.lan"]);
    let port = service.url.rsplit(':').next().unwrap().to_owned();
    let status = async |host: String| {
        let ask = reqwest::Client::new().get(format!("{}/v1/domains", service.url)).header("host", host);
        ask.send().await.unwrap().status().as_u16()
    };
    for host in ["localhost", "127.0.0.1", "baton.lan", "other.lan"] {
        assert_eq!(status(format!("{host}:{port}")).await, 200, "{host}");
    }
    assert_eq!(status(format!("evil.example:{port}")).await, 421);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generated_access_key_can_be_used() {
    let scratch = Scratch::new("new-key");
    let made = baton(&["credential", "new", "shop", "--application", "default", "--access-key", "--print"]);
    assert!(made.status.success());
    let told = String::from_utf8(made.stderr).unwrap();
    let value = |name: &str| told.split_whitespace().find_map(|word| word.strip_prefix(name)).unwrap().to_owned();
    let (id, secret) = (value("AWS_ACCESS_KEY_ID="), value("AWS_SECRET_ACCESS_KEY="));
    let stanza = String::from_utf8(made.stdout).unwrap();
    let expected = format!(
        "[[credentials]]\nname = \"shop\"\naccess-key-id = \"{id}\"\nsecret-access-key = \"{secret}\"\napplications = [\"default\"]\n"
    );
    assert_eq!(stanza.trim_end(), expected.trim_end());
    let config = scratch.0.join("baton.toml");
    std::fs::write(&config, stanza).unwrap();
    let service = Service::start(&scratch.0, &["--config", config.to_str().unwrap()]);
    let unsigned =
        reqwest::Client::new().post(&service.url).header("x-amz-target", "SimpleWorkflowService.ListDomains");
    let answer = unsigned.body("{}").send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 400);
    assert!(answer.text().await.unwrap().contains("MissingAuthenticationTokenException"));
}

#[test]
fn an_unknown_setting_in_the_file_is_refused() {
    let scratch = Scratch::new("settings");
    let config = scratch.0.join("baton.toml");
    let serve = |text: &str| {
        std::fs::write(&config, text).unwrap();
        let path = config.to_str().unwrap();
        // No machine has this address, so the service ends before it serves.
        let told = ["--allow-remote-without-credentials", "--allow-remote-without-tls"];
        let output = baton(&[&["serve", "--config", path, "--listen", "192.0.2.1:1"], told.as_slice()].concat());
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(serve("tabel = 'orders'").contains("unknown field `tabel`"));
    let text = serve("store = 'dynamodb'\ntable = 'orders'\nallow-provisioned = true\nendpoint-url = 'http://db'");
    assert!(text.contains("192.0.2.1:1"), "{text}");
}

#[cfg(not(feature = "dynamodb"))]
#[test]
fn a_build_without_dynamodb_explains_how_to_build_with_it() {
    let output = baton(&["serve", "--store", "dynamodb", "--table", "orders", "--listen", "127.0.0.1:0"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("`orders`") && text.contains("--features dynamodb"), "{text}");
}
