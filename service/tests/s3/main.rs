//! Archives in a bucket, by the true program over the wire: `.ci/s3` starts a server that speaks as S3 does.

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

/// What must stand in no output.
const SECRET: &str = "s3cret-of-the-tests";
const TOKEN: &str = "t0ken-of-the-tests";

/// Where the server is.
fn server() -> String {
    std::env::var("BATON_TEST_S3").expect("BATON_TEST_S3 says where a server of S3 is: `.ci/s3` starts one")
}

/// A bucket of this test's own.
async fn bucket(name: &str) -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let bucket = format!("{name}-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::SeqCst));
    let made = reqwest::Client::new().put(format!("{}/{bucket}", server())).send().await.unwrap();
    assert!(made.status().is_success(), "{made:?}");
    bucket
}

/// What the server takes for a signature: it looks whether there is one.
const SIGNED: &str =
    "AWS4-HMAC-SHA256 Credential=a/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

/// An object, whole.
async fn get(bucket: &str, name: &str) -> Vec<u8> {
    let url = format!("{}/{bucket}/{name}", server());
    let got = reqwest::Client::new().get(url).header("authorization", SIGNED).send().await.unwrap();
    assert!(got.status().is_success(), "{got:?}");
    got.bytes().await.unwrap().to_vec()
}

/// Puts an object past the program.
async fn put(bucket: &str, name: &str, bytes: impl Into<Vec<u8>>) {
    let url = format!("{}/{bucket}/{name}", server());
    let bytes: Vec<u8> = bytes.into();
    let put = reqwest::Client::new().put(url).header("authorization", SIGNED).body(bytes.clone()).send().await.unwrap();
    assert!(put.status().is_success(), "{put:?}");
    assert_eq!(get(bucket, name).await, bytes);
}

/// The names of what is in a bucket.
async fn objects(bucket: &str) -> Vec<String> {
    let listed = reqwest::get(format!("{}/{bucket}?list-type=2", server())).await.unwrap().text().await.unwrap();
    assert!(listed.contains("<IsTruncated>false"), "{listed}");
    let named = listed.split("<Key>").skip(1);
    named.map(|rest| rest.split_once("</Key>").unwrap().0.to_owned()).collect()
}

/// `baton`, with what it needs to reach the server at `endpoint`.
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

/// What a command has said, which must hold no secret.
fn texts(output: &Output) -> (String, String) {
    let texts =
        (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned());
    for text in [&texts.0, &texts.1] {
        assert!(!text.contains(SECRET) && !text.contains(TOKEN), "{text}");
    }
    texts
}

fn told(args: &[&str]) -> String {
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

/// A service on `DIRECTORY/data`; what it says goes to the file `log` there.
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

/// What a service has said, which must hold no secret.
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
async fn a_service_is_backed_up_to_a_bucket_and_restored_from_it_to_any_instant() {
    let scratch = Scratch::new("s3-backup");
    let bucket = bucket("backup").await;
    let (archive, data) = (format!("s3://{bucket}/a/prefix"), path(&scratch, "data"));
    let mut service = serve(&scratch.0, &[]);
    let client = service.client();
    for number in 0..200 {
        client.start(&start(&format!("w{number}")), None).await.unwrap();
    }
    let said = told(&["backup", &archive, "--data-dir", &data]);
    assert!(said.contains("has everything that was acknowledged before") && said.contains("a new base of"), "{said}");
    let first = objects(&bucket).await.len();
    client.start(&start("later"), None).await.unwrap();
    let said = told(&["backup", &archive, "--data-dir", &data]);
    assert!(said.contains("no new base was needed"), "{said}");
    // Only what is new: a piece of the log.
    assert!(objects(&bucket).await.len() <= first + 1, "{:?}", objects(&bucket).await);
    let instant = client.start(&start("last"), None).await.map(|_| now()).unwrap();
    client.start(&start("too late"), None).await.unwrap();
    told(&["backup", &archive, "--data-dir", &data]);
    let said = told(&["backup", "verify", &archive]);
    let row: Vec<_> = said.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[3]), ("1", "203"), "{said}");
    service.kill();
    // The directory that nobody has open, too.
    told(&["backup", &archive, "--data-dir", &data]);
    for (name, to, there, missing) in
        [("whole", None, "too late", "never"), ("instant", Some(instant.as_str()), "last", "too late")]
    {
        let restored = path(&scratch, &format!("{name}/data"));
        let to: Vec<&str> = to.into_iter().flat_map(|to| ["--to", to]).collect();
        let said = told(&[&["restore", &archive, "--data-dir", &restored][..], &to].concat());
        assert!(said.contains("is the store as it was at"), "{said}");
        assert!(told(&["fsck", "--data-dir", &restored]).starts_with("every run is in order: "));
        let service = serve(&scratch.0.join(name), &[]);
        let client = service.client();
        assert!(is_there(&client, there).await && !is_there(&client, missing).await, "{name}");
    }
    log(&scratch.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_documentation_work_as_they_are_written() {
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
