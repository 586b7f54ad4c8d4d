//! The real binary with DynamoDB: Amazon's DynamoDB Local, or the endpoint in `BATON_TEST_DYNAMODB`.
//!
//! Not part of the default tests: `cargo test -p baton-service --features dynamodb --test dynamodb`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

extern crate baton_service as service;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use client::body::{CompleteTurn, PollActivity, PollDecider, StartWorkflow};
use client::tasks::Outcome;
use client::{Client, Patience};
use history::{Decision, Payload, ScheduleActivity, Status, SucceedWorkflow, check};

/// Endpoint of DynamoDB.
fn endpoint() -> String {
    std::env::var("BATON_TEST_DYNAMODB").expect(
        "BATON_TEST_DYNAMODB names no engine; `.ci/dynamodb-local 8000` runs Amazon's (it needs Java 17 and Maven), then \
         BATON_TEST_DYNAMODB=http://127.0.0.1:8000",
    )
}

fn baton(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command.args(args).args(["--endpoint-url", &endpoint(), "--region", "local"]).stdin(Stdio::null());
    command.env("AWS_ACCESS_KEY_ID", "local").env("AWS_SECRET_ACCESS_KEY", "local");
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

/// Creates a separate table for a test.
fn table(name: &str) -> String {
    let table = format!("baton-test-{name}-{}", std::process::id());
    let create = ["dynamodb", "create-table", "--unprotected", "--table", &table];
    let made = baton(&create).output().unwrap();
    assert!(made.status.success(), "{}", said(&made));
    let again = baton(&create).output().unwrap();
    assert!(again.status.code() == Some(1) && said(&again).contains("already"), "{}", said(&again));
    let again = baton(&[&create[..], &["--if-missing"]].concat()).output().unwrap();
    assert!(again.status.success() && said(&again).contains("is usable"), "{}", said(&again));
    table
}

/// A node that is killed when the test ends.
struct Node {
    child: Child,
    url: String,
}

impl Node {
    fn start(table: &str, name: &str) -> Self {
        let mut serve = baton(&["serve", "--store", "dynamodb", "--listen", "127.0.0.1:0", "--log", "warn"]);
        serve.args(["--table", table]);
        Self::serving(serve, &std::env::temp_dir().join(format!("{table}-{name}")))
    }

    /// A service with the embedded store.
    fn embedded(directory: &Path) -> Self {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_baton"));
        serve.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--data-dir"]).arg(directory);
        Self::serving(serve, &directory.with_extension("address"))
    }

    fn serving(mut serve: Command, port_file: &Path) -> Self {
        drop(std::fs::remove_file(port_file));
        let mut child = serve.arg("--port-file").arg(port_file).stdin(Stdio::null()).spawn().unwrap();
        let url = loop {
            if let Ok(address) = std::fs::read_to_string(port_file) {
                break format!("http://{}", address.trim());
            }
            assert!(child.try_wait().unwrap().is_none(), "the service keeps running");
            std::thread::yield_now();
        };
        drop(std::fs::remove_file(port_file));
        Self { child, url }
    }

    fn client(&self) -> Client {
        Client::new(&self.url).unwrap().patience(Patience::None)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

const WAIT: Duration = Duration::from_secs(20);

async fn turn(client: &Client, decisions: Vec<Decision>) {
    let task = client.poll_decider("deciders", &PollDecider::default(), WAIT).await.unwrap().expect("a turn");
    let complete = CompleteTurn { decisions, ..CompleteTurn::default() };
    let outcome = client.complete_turn(&task.token, &complete, Patience::None).await.unwrap();
    assert!(matches!(outcome, Outcome::Recorded));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_of_a_killed_node_completes_on_another() {
    let table = table("killed");
    let first = Node::start(&table, "first");
    let client = first.client();
    let input = Payload::of(&"x".repeat(2_000)).unwrap();
    let start = StartWorkflow {
        workflow_id: "order-1".to_owned(),
        workflow_type: "order".to_owned(),
        task_list: Some("deciders".to_owned()),
        input: Some(input.clone()),
        ..StartWorkflow::default()
    };
    client.start(&start, None).await.unwrap();
    let activity = ScheduleActivity {
        activity_id: "charge".to_owned(),
        activity_type: "charge".to_owned(),
        task_list: Some("PCI".to_owned()),
        input: Some(input),
        ..ScheduleActivity::default()
    };
    turn(&client, vec![activity.into()]).await;
    drop(first);
    let second = Node::start(&table, "second");
    let client = second.client();
    let task =
        client.poll_activity("PCI", &PollActivity::default(), WAIT).await.unwrap().expect("the task still waits");
    let result = client::body::SucceedActivity { result: None };
    client.succeed_activity(&task.token, &result, Patience::None).await.unwrap();
    turn(&client, vec![SucceedWorkflow::default().into()]).await;
    let result = client.result("order-1", None, WAIT).await.unwrap();
    assert_eq!(result.status, Status::Success);
    check::history(&client.events("order-1", None).await.unwrap()).unwrap();
    let metrics = client.metrics().await.unwrap();
    assert!(metrics.lines().any(|line| line.starts_with("baton_store_write_units_total ") && !line.ends_with(" 0")));
}

/// Runs a command of the command line for this service, which must succeed.
fn output_of(url: &str, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_baton")).args(args).args(["--url", url]).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", said(&output));
    said(&output)
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_move_between_stores_byte_for_byte() {
    let table = table("moved");
    let scratch = std::env::temp_dir().join(&table);
    std::fs::create_dir_all(&scratch).unwrap();
    let (old, new) = (Node::embedded(&scratch.join("old")), Node::start(&table, "moved"));
    let client = old.client();
    // Small and large runs, with payloads too large for a head, and two runs of one workflow id.
    for (number, signals) in [(0, 1), (1, 40), (2, 400), (1, 3)] {
        let id = format!("order-{number}");
        let again = Some(history::ReusePolicy::AllowDuplicate);
        let start = StartWorkflow {
            workflow_id: id.clone(),
            workflow_type: "order".to_owned(),
            task_list: Some("deciders".to_owned()),
            tags: vec!["eu".to_owned()],
            reuse_policy: again,
            ..StartWorkflow::default()
        };
        client.start(&start, None).await.unwrap();
        for signal in 0..signals {
            let input = Payload::of(&"x\u{1b}ü".repeat(if signal % 5 == 0 { 4_000 } else { 20 })).unwrap();
            client.signal(&id, "paid", Some(input), None).await.unwrap();
        }
        turn(&client, vec![SucceedWorkflow::default().into()]).await;
    }
    let file = |name: &str| scratch.join(name).to_str().unwrap().to_owned();
    let lines = |name: &str| {
        let text = std::fs::read_to_string(file(name)).unwrap();
        let mut lines: Vec<_> = text.lines().skip(1).filter(|line| !line.starts_with("{\"end\":")).collect();
        lines.sort_unstable();
        lines.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    output_of(&old.url, &["export", "--out", &file("old.jsonl")]);
    for _ in 0..2 {
        let said = output_of(&new.url, &["import", &file("old.jsonl")]);
        assert!(said.contains("4 runs imported") || said.contains("4 already existed"), "{said}");
    }
    output_of(
        &new.url,
        &["export", "--tag", "eu", "--type", "order", "--status", "success", "--out", &file("new.jsonl")],
    );
    assert_eq!(lines("new.jsonl"), lines("old.jsonl"));
    assert_eq!(new.client().count(&client::Filter::default()).await.unwrap().count, 4);
    let third = Node::embedded(&scratch.join("third"));
    output_of(&third.url, &["import", &file("new.jsonl")]);
    output_of(&third.url, &["export", "--out", &file("third.jsonl")]);
    assert_eq!(lines("third.jsonl"), lines("old.jsonl"));
    drop((old, new, third));
    std::fs::remove_dir_all(&scratch).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_one_node_reaches_a_poller_on_another_at_once() {
    let table = table("nodes");
    let (one, two) = (Node::start(&table, "one"), Node::start(&table, "two"));
    let (at_one, at_two) = (one.client(), two.client());
    // After a heartbeat of each, the nodes know each other.
    let known = async {
        let mut number = 0;
        loop {
            number += 1;
            start(&at_one, &format!("early-{number}")).await;
            if take(&at_two, Duration::from_secs(1)).await.is_some() {
                return;
            }
        }
    };
    tokio::time::timeout(WAIT, known).await.expect("tasks reach the other node");
    while take(&at_two, Duration::from_secs(1)).await.is_some() {}
    let mut medians = Vec::new();
    // A busy machine is slow only for a moment, so the test measures several rounds.
    for round in 0..ROUNDS {
        let mut waits = Vec::new();
        for number in 0..20 {
            let poller = at_two.clone();
            let polling = tokio::spawn(async move { (take(&poller, WAIT).await, Instant::now()) });
            until_one_waits(&at_two).await;
            start(&at_one, &format!("order-{round}-{number}")).await;
            let answered = Instant::now();
            let (task, taken) = polling.await.unwrap();
            assert_eq!(task.as_deref(), Some(format!("order-{round}-{number}").as_str()));
            waits.push(taken.saturating_duration_since(answered));
        }
        waits.sort();
        println!("from the response to a start on one node to the task on the other: {waits:?}");
        // Without a message, the other node would find it in the table after seconds.
        assert!(waits.iter().all(|wait| *wait < LOOKED_UP), "{waits:?}");
        medians.extend(waits.get(waits.len() / 2).copied());
        if medians.last() <= Some(&HANDOVER_MAX) {
            return;
        }
    }
    panic!("it takes {medians:?}, at most {HANDOVER_MAX:?} are allowed");
}

/// Maximum of the median time for a task to reach a poller on another node. Source: docs/dynamodb.md, "Several nodes".
const HANDOVER_MAX: Duration = Duration::from_millis(50);

/// Maximum number of rounds.
const ROUNDS: usize = 5;

/// Minimum time if the other node had to find the task in the table.
const LOOKED_UP: Duration = Duration::from_secs(5);

async fn start(client: &Client, id: &str) {
    let start = StartWorkflow {
        workflow_id: id.to_owned(),
        workflow_type: "order".to_owned(),
        task_list: Some("deciders".to_owned()),
        ..StartWorkflow::default()
    };
    client.start(&start, None).await.unwrap();
}

/// Takes a turn, completes its run, and returns the workflow id.
async fn take(client: &Client, wait: Duration) -> Option<String> {
    let task = client.poll_decider("deciders", &PollDecider::default(), wait).await.unwrap()?;
    let decisions = vec![SucceedWorkflow::default().into()];
    let complete = CompleteTurn { decisions, ..CompleteTurn::default() };
    client.complete_turn(&task.token, &complete, Patience::None).await.unwrap();
    Some(task.workflow_id)
}

async fn until_one_waits(client: &Client) {
    let waits = |text: &str| {
        let mut lines = text.lines().filter(|line| line.starts_with("baton_pollers_waiting{"));
        lines.any(|line| !line.ends_with(" 0"))
    };
    while !waits(&client.metrics().await.unwrap()) {
        tokio::task::yield_now().await;
    }
}

#[test]
fn an_unusable_table_ends_the_service_with_an_explanation() {
    let output =
        baton(&["serve", "--store", "dynamodb", "--listen", "127.0.0.1:0", "--table", "nobody"]).output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("table `nobody` does not exist") && text.contains("create-table"), "{text}");
    let check = baton(&["dynamodb", "check", "--table", "nobody"]).output().unwrap();
    assert_eq!(check.status.code(), Some(1), "{}", said(&check));
    let check = baton(&["dynamodb", "check", "--table", &table("check")]).output().unwrap();
    assert!(check.status.success() && said(&check).contains("TTL on"), "{}", said(&check));
}

/// Answers one request as a table that does not exist, and returns the request's headers.
fn answer_once(listener: &std::net::TcpListener) -> String {
    use std::io::{Read as _, Write as _};
    let (mut socket, _) = listener.accept().unwrap();
    let mut head = String::new();
    let mut byte = [0];
    while !head.ends_with("\r\n\r\n") {
        assert_eq!(socket.read(&mut byte).unwrap(), 1, "{head}");
        head.push(char::from(byte[0]));
    }
    let body = r#"{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException","message":"no such table"}"#;
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    );
    socket.write_all(answer.as_bytes()).unwrap();
    head
}

#[test]
fn an_endpoint_on_this_machine_takes_made_up_credentials() {
    let home = tempfile::TempDir::new().unwrap();
    let table = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let metadata = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    metadata.set_nonblocking(true).unwrap();
    let url = |listener: &std::net::TcpListener| format!("http://{}", listener.local_addr().unwrap());
    let mut serve = Command::new(env!("CARGO_BIN_EXE_baton"));
    serve.args(["serve", "--store", "dynamodb", "--listen", "127.0.0.1:0", "--endpoint-url", &url(&table)]);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
        serve.env_remove(name);
    }
    serve.env("HOME", home.path()).env("AWS_EC2_METADATA_SERVICE_ENDPOINT", url(&metadata));
    let serve = serve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let head = answer_once(&table).to_lowercase();
    assert!(head.contains("credential=local/") && head.contains("/local/dynamodb/"), "{head}");
    let output = serve.wait_with_output().unwrap();
    let said = said(&output);
    assert!(!output.status.success() && said.contains("made-up ones are used"), "{said}");
    let asked = metadata.accept().map(|_| ()).unwrap_err();
    assert_eq!(asked.kind(), std::io::ErrorKind::WouldBlock, "the metadata service is not asked");
}
