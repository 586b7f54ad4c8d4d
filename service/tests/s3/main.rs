//! Archives in a bucket, with the real program over HTTP: `.ci/s3` starts a server with the S3 API.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::indexing_slicing, reason = "a test that cannot go on fails")]

extern crate baton_service as service;

mod faults;
#[path = "../shared/lost.rs"]
#[allow(dead_code, reason = "each test binary uses its part")]
mod lost;
mod proxy;
mod refusals;
#[path = "../process/support.rs"]
#[allow(dead_code, reason = "each test binary uses its part")]
mod support;
mod takeover;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use client::body::StartWorkflow;

use crate::lost::{is_there, now, path};
use crate::support::{Scratch, Service};

/// Values that no output may contain.
const SECRET: &str = "s3cret-of-the-tests";
const TOKEN: &str = "t0ken-of-the-tests";

/// Address of the server.
fn server() -> String {
    std::env::var("BATON_TEST_S3").expect("BATON_TEST_S3 says where a server of S3 is: `.ci/s3` starts one")
}

/// Creates a separate bucket for a test.
async fn bucket(name: &str) -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let bucket = format!("{name}-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::SeqCst));
    let made = reqwest::Client::new().put(format!("{}/{bucket}", server())).send().await.unwrap();
    assert!(made.status().is_success(), "{made:?}");
    bucket
}

/// A signature for the server, which only checks that there is one.
const SIGNED: &str =
    "AWS4-HMAC-SHA256 Credential=a/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

/// Content of an object.
async fn get(bucket: &str, name: &str) -> Vec<u8> {
    let url = format!("{}/{bucket}/{name}", server());
    let got = reqwest::Client::new().get(url).header("authorization", SIGNED).send().await.unwrap();
    assert!(got.status().is_success(), "{got:?}");
    got.bytes().await.unwrap().to_vec()
}

/// Writes an object directly.
async fn put(bucket: &str, name: &str, bytes: impl Into<Vec<u8>>) {
    let url = format!("{}/{bucket}/{name}", server());
    let bytes: Vec<u8> = bytes.into();
    let put = reqwest::Client::new().put(url).header("authorization", SIGNED).body(bytes.clone()).send().await.unwrap();
    assert!(put.status().is_success(), "{put:?}");
    assert_eq!(get(bucket, name).await, bytes);
}

/// Names of the objects in a bucket.
async fn objects(bucket: &str) -> Vec<String> {
    let listed = reqwest::get(format!("{}/{bucket}?list-type=2", server())).await.unwrap().text().await.unwrap();
    assert!(listed.contains("<IsTruncated>false"), "{listed}");
    let named = listed.split("<Key>").skip(1);
    named.map(|rest| rest.split_once("</Key>").unwrap().0.to_owned()).collect()
}

/// A `baton` command with the variables that it needs to reach the server at `endpoint`.
fn baton_at(endpoint: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command
        .env("AWS_ENDPOINT_URL", endpoint)
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "key-of-the-tests")
        .env("AWS_SECRET_ACCESS_KEY", SECRET)
        .env("AWS_SESSION_TOKEN", TOKEN)
        .stdin(Stdio::null());
    command
}

/// Output of a command, which must not contain a secret.
fn texts(output: &Output) -> (String, String) {
    let texts =
        (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned());
    for text in [&texts.0, &texts.1] {
        assert!(!text.contains(SECRET) && !text.contains(TOKEN), "{text}");
    }
    texts
}

fn output_of(args: &[&str]) -> String {
    let output = baton_at(&server()).args(args).output().unwrap();
    let (said, failed) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {said}{failed}");
    said
}

fn refused_at(endpoint: &str, args: &[&str]) -> String {
    let output = baton_at(endpoint).args(args).output().unwrap();
    let (said, failed) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}{failed}");
    failed
}

/// A service on `DIRECTORY/data` that logs to `DIRECTORY/log`.
fn serve_at(endpoint: &str, directory: &Path, args: &[&str]) -> Service {
    std::fs::create_dir_all(directory).unwrap();
    let port_file = directory.join("address");
    drop(std::fs::remove_file(&port_file));
    let child = baton_at(endpoint)
        .args(["serve", "--listen", "127.0.0.1:0", "--log", "debug", "--port-file"])
        .arg(&port_file)
        .arg("--data-dir")
        .arg(directory.join("data"))
        .args(args)
        .stderr(std::fs::File::create(directory.join("log")).unwrap())
        .spawn()
        .unwrap();
    Service::when_ready(child, &port_file)
}

fn serve(directory: &Path, args: &[&str]) -> Service {
    serve_at(&server(), directory, args)
}

/// Log of a service, which must not contain a secret.
fn log(directory: &Path) -> String {
    let log = std::fs::read_to_string(directory.join("log")).unwrap();
    assert!(!log.contains(SECRET) && !log.contains(TOKEN), "{log}");
    log
}

fn start(id: &str) -> StartWorkflow {
    StartWorkflow {
        workflow_id: id.to_owned(),
        workflow_type: "wire".to_owned(),
        task_list: Some("deciders".to_owned()),
        ..StartWorkflow::default()
    }
}

async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(90), wait).await.is_ok(), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_backed_up_to_a_bucket_and_restored_to_any_time() {
    let scratch = Scratch::new("s3-backup");
    let bucket = bucket("backup").await;
    let (archive, data) = (format!("s3://{bucket}/a/prefix"), path(&scratch, "data"));
    let mut service = serve(&scratch.0, &[]);
    let client = service.client();
    for number in 0..200 {
        client.start(&start(&format!("w{number}")), None).await.unwrap();
    }
    let said = output_of(&["backup", &archive, "--data-dir", &data]);
    assert!(said.contains("contains everything acknowledged before") && said.contains("new base with"), "{said}");
    let first = objects(&bucket).await.len();
    client.start(&start("later"), None).await.unwrap();
    let said = output_of(&["backup", &archive, "--data-dir", &data]);
    assert!(said.contains("no new base needed"), "{said}");
    // Only the new part of the log.
    assert!(objects(&bucket).await.len() <= first + 1, "{:?}", objects(&bucket).await);
    let instant = client.start(&start("last"), None).await.map(|_| now()).unwrap();
    client.start(&start("too late"), None).await.unwrap();
    output_of(&["backup", &archive, "--data-dir", &data]);
    let said = output_of(&["backup", "verify", &archive]);
    let row: Vec<_> = said.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[3]), ("1", "203"), "{said}");
    service.kill();
    // Also from a data directory that is not in use.
    output_of(&["backup", &archive, "--data-dir", &data]);
    for (name, to, there, missing) in
        [("whole", None, "too late", "never"), ("instant", Some(instant.as_str()), "last", "too late")]
    {
        let restored = path(&scratch, &format!("{name}/data"));
        let to: Vec<&str> = to.into_iter().flat_map(|to| ["--to", to]).collect();
        let said = output_of(&[&["restore", &archive, "--data-dir", &restored][..], &to].concat());
        assert!(said.contains("contains the store as of"), "{said}");
        assert!(output_of(&["fsck", "--data-dir", &restored]).starts_with("all runs are valid: "));
        let service = serve(&scratch.0.join(name), &[]);
        let client = service.client();
        assert!(is_there(&client, there).await && !is_there(&client, missing).await, "{name}");
    }
    log(&scratch.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_documentation_work() {
    let scratch = Scratch::new("s3-documented");
    let bucket = bucket("documented").await;
    let _service = serve(&scratch.0, &[]);
    std::os::unix::fs::symlink(scratch.0.join("data"), scratch.0.join("baton-data")).unwrap();
    let page = include_str!("../../../docs/backup.md");
    let (_, block) = page.split_once("```sh\nexport AWS_REGION").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let lines: Vec<_> = block.lines().filter(|line| line.starts_with("baton ") && !line.contains("serve")).collect();
    assert!(lines.len() >= 3, "{block}");
    let bin = Path::new(env!("CARGO_BIN_EXE_baton")).parent().unwrap();
    for line in lines {
        let line = line.replace("my-bucket", &bucket);
        let output = Command::new("sh")
            .args(["-c", &line])
            .current_dir(&scratch.0)
            .env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()))
            .envs(baton_at(&server()).get_envs().filter_map(|(name, value)| Some((name, value?))))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
    }
}
