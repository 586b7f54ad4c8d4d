//! Memory of idle polls, measured for a real process.

use std::io::Write as _;
use std::net::TcpStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::{Scratch, Service};

/// Maximum of bytes for an idle poll with its connection. 10,000 polls then take 250 MiB.
const POLL_BYTES_MAX: u64 = 25 * 1024;

/// Number of polls before the measurement. They allocate memory that only the first polls need.
const BEFORE: usize = 1_000;

/// Number of measured polls.
const MEASURED: usize = 3_000;

const HEAD: &str = "HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";

fn rest(side: &str, list: &str, wait: u32) -> String {
    let path = format!("/v1/domains/default/task-lists/{list}/{side}/poll");
    format!("POST {path} {HEAD}prefer: wait={wait}\r\ncontent-length: 2\r\n\r\n{{}}")
}

fn swf(operation: &str) -> String {
    let body = r#"{"domain":"default","taskList":{"name":"idle"}}"#;
    let target = format!("x-amz-target: SimpleWorkflowService.{operation}");
    format!("POST / {HEAD}{target}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// The memory of a process, in bytes.
fn memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1_024
}

/// Opens a connection and sends a request.
fn ask(service: &Service, request: &str) -> TcpStream {
    let mut connection = TcpStream::connect(service.url.trim_start_matches("http://")).unwrap();
    connection.write_all(request.as_bytes()).unwrap();
    connection
}

/// Opens connections until `to` polls wait; returns the service's memory then.
async fn grow(service: &Service, polls: &mut Vec<TcpStream>, to: usize, request: &str) -> u64 {
    while polls.len() < to {
        polls.push(ask(service, request));
        // Not faster than the service accepts them.
        if polls.len().is_multiple_of(100) || polls.len() == to {
            while waiting(service).await < polls.len() {
                tokio::task::yield_now().await;
            }
        }
    }
    memory(service.child.id())
}

/// Number of polls that wait on the list.
async fn waiting(service: &Service) -> usize {
    let metrics = reqwest::get(format!("{}/metrics", service.url)).await.unwrap().text().await.unwrap();
    let mut lines = metrics.lines().filter(|line| line.starts_with("baton_pollers_waiting{"));
    let line = lines.find(|line| line.contains("list=\"idle\""));
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_poll_takes_little_memory_over_both_protocols() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    for (kind, request) in [
        ("decider", rest("decider", "idle", 60)),
        ("activity", rest("activity", "idle", 60)),
        ("PollForDecisionTask", swf("PollForDecisionTask")),
        ("PollForActivityTask", swf("PollForActivityTask")),
    ] {
        let scratch = Scratch::new(&format!("idle-{kind}"));
        let service = Service::start(&scratch.0, &[]);
        let mut polls = Vec::new();
        let before = grow(&service, &mut polls, BEFORE, &request).await;
        let after = grow(&service, &mut polls, BEFORE + MEASURED, &request).await;
        let of_poll = after.saturating_sub(before) / MEASURED as u64;
        println!("{kind}: {of_poll} bytes a poll");
        assert!(of_poll <= POLL_BYTES_MAX, "{kind}: {of_poll} bytes a poll, at most {POLL_BYTES_MAX}");
    }
}
