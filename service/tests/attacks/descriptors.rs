//! A service that may open few files, and clients with more connections than that.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::task::JoinSet;

use crate::support::{Scratch, Service};

/// Opens idle connections, some of which may wait to be accepted.
fn idle(service: &Service, count: usize) -> JoinSet<tokio::net::TcpStream> {
    let mut idle = JoinSet::new();
    for _ in 0..count {
        let address = service.url.trim_start_matches("http://").to_owned();
        idle.spawn(async move { tokio::net::TcpStream::connect(address).await.unwrap() });
    }
    idle
}

/// A kept connection for requests.
struct Kept(BufReader<TcpStream>);

impl Kept {
    fn to(service: &Service) -> Self {
        Self(BufReader::new(TcpStream::connect(service.url.trim_start_matches("http://")).unwrap()))
    }

    /// Starts a run with an input of this many bytes.
    fn start(&mut self, id: &str, size: usize) {
        let (status, _) = self.try_to_start(id, size);
        assert_eq!(status, "201");
    }

    /// Requests a start, and returns the status and body.
    fn try_to_start(&mut self, id: &str, size: usize) -> (String, String) {
        let input = "x".repeat(size);
        let body = format!("{{\"workflowId\":\"{id}\",\"workflowType\":\"test\",\"input\":\"{input}\"}}");
        let length = body.len();
        let head = "POST /v1/domains/default/workflows HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json";
        write!(self.0.get_mut(), "{head}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line| line != "\r\n") {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the connection ended");
            lines.push(line);
        }
        let length =
            lines.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.trim().parse().ok());
        let mut body = vec![0; length.unwrap()];
        self.0.read_exact(&mut body).unwrap();
        let status = lines[0].split(' ').nth(1).unwrap().to_owned();
        (status, String::from_utf8(body).unwrap())
    }

    /// Enough for checkpoints and new segments of the log.
    fn start_20_mb(&mut self) {
        for number in 0..100 {
            self.start(&format!("w-{number}"), 200_000);
        }
    }
}

fn soft_limit(service: &Service) -> String {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", service.child.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().to_owned()
}

fn log(scratch: &Path) -> String {
    std::fs::read_to_string(scratch.join("log")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_raises_its_soft_limit_of_open_files() {
    let scratch = Scratch::new("soft-limit");
    let service = Service::start_after(&scratch.0, "ulimit -Sn 256; ulimit -Hn 1200", &["--max-connections", "600"]);
    assert_eq!(soft_limit(&service), "1200");
    let idle = idle(&service, 400).join_all().await;
    // Another request succeeds while they are open.
    Kept::to(&service).start_20_mb();
    drop(idle);
    assert_eq!(log(&scratch.0), "", "no warning");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_few_descriptors_a_service_accepts_fewer_connections() {
    let scratch = Scratch::new("hard-limit");
    let mut service = Service::start_after(&scratch.0, "ulimit -n 256", &["--max-connections", "20000"]);
    // This connection is opened before the others.
    let mut kept = Kept::to(&service);
    kept.start("first", 0);
    let idle = idle(&service, 400);
    let open = || std::fs::read_dir(format!("/proc/{}/fd", service.child.id())).unwrap().count();
    while open() < 128 {
        std::thread::yield_now();
    }
    kept.start_20_mb();
    assert!(open() < 200, "{} descriptors: 128 connections and files of the service", open());
    assert!(service.child.try_wait().unwrap().is_none());
    drop(idle);
    // The waiting request gets its response.
    service.client().describe("w-99", None).await.unwrap();
    let log = log(&scratch.0);
    assert!(log.contains("max_connections=20000 connections=128 descriptors=256"), "{log}");
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fewer_descriptors_than_by_default_are_no_warning() {
    let scratch = Scratch::new("default-limit");
    let service = Service::start_after(&scratch.0, "ulimit -n 4096", &[]);
    service.client().describe("w", None).await.unwrap_err();
    let log = log(&scratch.0);
    assert!(!log.contains("connections"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_recovers_when_descriptors_are_available_again() {
    let scratch = Scratch::new("no-descriptor");
    let args = ["--store-memory-mib", "4", "--store-log-mib", "8"];
    let mut service = Service::start_after(&scratch.0, "ulimit -n 256", &args);
    let mut kept = Kept::to(&service);
    kept.start("first", 0);
    let pid = Pid::from_raw(i32::try_from(service.child.id()).unwrap()).unwrap();
    let limit = |current| {
        prlimit(Some(pid), Resource::Nofile, Rlimit { current: Some(current), maximum: Some(256) }).unwrap();
    };
    // From here no file can be opened; open files stay open.
    limit(3);
    let writes = std::thread::spawn(move || kept.start_20_mb());
    while !log(&scratch.0).contains("the log cannot open a file now") {
        assert!(!writes.is_finished(), "no file had to be opened");
        std::thread::yield_now();
    }
    limit(256);
    writes.join().unwrap();
    service.client().describe("w-99", None).await.unwrap();
    let metrics = reqwest::get(format!("{}/metrics", service.url)).await.unwrap().text().await.unwrap();
    let count = metrics.lines().find_map(|line| line.strip_prefix("baton_store_opens_deferred_total "));
    assert!(count.unwrap().parse::<u64>().unwrap() > 0);
    assert!(service.child.try_wait().unwrap().is_none());
    let log = log(&scratch.0);
    assert!(!log.contains("the store has failed"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_changes_while_the_audit_log_has_no_descriptor() {
    let scratch = Scratch::new("no-descriptor-audit");
    let audit = scratch.0.join("audit");
    let args = ["--audit-log", audit.to_str().unwrap()];
    let service = Service::start_after(&scratch.0, "ulimit -n 256", &args);
    let mut kept = Kept::to(&service);
    kept.start("first", 0);
    // The next entry needs a new file.
    let file = audit.join("audit-00000000000000000001.jsonl");
    std::fs::rename(&file, audit.join("moved")).unwrap();
    let pid = Pid::from_raw(i32::try_from(service.child.id()).unwrap()).unwrap();
    let limit = |current| {
        prlimit(Some(pid), Resource::Nofile, Rlimit { current: Some(current), maximum: Some(256) }).unwrap();
    };
    limit(3);
    let (status, body) = kept.try_to_start("refused", 0);
    assert!(status == "503" && body.contains("audit-log-unavailable"), "{status} {body}");
    limit(256);
    kept.start("second", 0);
    let client = service.client();
    let error = client.describe("refused", None).await.unwrap_err();
    assert_eq!(error.code(), Some("unknown-workflow"));
    std::fs::rename(audit.join("moved"), file).unwrap();
    assert!(service::audit::verify(&audit, None).unwrap().entries >= 3);
}
