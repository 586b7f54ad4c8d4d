//! Spans of a real service, and a hanging collector.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use client::body::TerminateWorkflow;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use crate::start;
use crate::support::{Scratch, Service, baton};

/// Longer than a shutdown takes, of which the collector may use two seconds.
const STOP_WAIT: Duration = Duration::from_secs(8);

/// A collector that accepts connections and never responds.
fn hanging() -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let held = std::thread::spawn(move || {
        let mut held = Vec::new();
        for connection in listener.incoming() {
            held.push(connection.unwrap());
        }
    });
    (url, held)
}

async fn metric(service: &Service, begin: &str) -> u64 {
    let metrics = service.client().metrics().await.unwrap();
    let line = metrics.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{begin} in {metrics}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_collector_delays_neither_runs_nor_a_shutdown() {
    let scratch = Scratch::new("spans-hang");
    let (collector, _held) = hanging();
    let mut service = Service::start_after(&scratch.0, ":", &["--otlp-endpoint", &collector]);
    let client = service.client();
    for number in 0..50 {
        let id = format!("w{number}");
        client.start(&start(&id), None).await.unwrap();
        client.terminate(&id, None, &TerminateWorkflow::default(), None).await.unwrap();
    }
    assert_eq!(metric(&service, "baton_spans_waiting").await, 50);
    assert_eq!(metric(&service, "baton_spans_exported_total").await, 0);
    let pid = Pid::from_raw(i32::try_from(service.child.id()).unwrap()).unwrap();
    let began = Instant::now();
    kill_process(pid, Signal::TERM).unwrap();
    let status = loop {
        if let Some(status) = service.child.try_wait().unwrap() {
            break status;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(status.code(), Some(0));
    assert!(began.elapsed() < STOP_WAIT, "{:?}", began.elapsed());
    let log = std::fs::read_to_string(scratch.0.join("log")).unwrap();
    assert!(log.contains("the collector did not take all spans") && log.contains("spans=50"), "{log}");
}

#[test]
fn an_invalid_collector_or_sample_ratio_is_refused() {
    let scratch = Scratch::new("spans-refused");
    let data = scratch.0.join("data");
    let serve = |more: &[&str]| {
        let all = [&["serve", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()], more].concat();
        let output = baton(&all);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let refused = serve(&["--otlp-endpoint", "collector:4317"]);
    assert!(
        refused.contains("--otlp-endpoint: `collector:4317`") && refused.contains("http://127.0.0.1:4318"),
        "{refused}"
    );
    let refused = serve(&["--otlp-endpoint", "http://127.0.0.1:1", "--otlp-sample", "1.5"]);
    assert!(refused.contains("`--otlp-sample 1.5`: expected a number from 0 to 1"), "{refused}");
    let refused = serve(&["--otlp-sample", "NaN"]);
    assert!(refused.contains("expected a number from 0 to 1"), "{refused}");
}

#[test]
fn unsupported_opentelemetry_variables_are_logged() {
    let scratch = Scratch::new("spans-variables");
    let port_file = scratch.0.join("address");
    let child = Command::new(env!("CARGO_BIN_EXE_baton"))
        .args(["serve", "--listen", "127.0.0.1:0", "--store", "memory", "--port-file"])
        .arg(&port_file)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .stderr(std::fs::File::create(scratch.0.join("log")).unwrap())
        .spawn()
        .unwrap();
    drop(Service::when_ready(child, &port_file));
    let log = std::fs::read_to_string(scratch.0.join("log")).unwrap();
    assert!(log.contains("no spans are sent") && log.contains("OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`"), "{log}");
}

#[tokio::test]
async fn the_command_line_continues_its_callers_trace() {
    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let scratch = Scratch::new("spans-caller");
    let service = Service::start(&scratch.0, &[]);
    let started = Command::new(env!("CARGO_BIN_EXE_baton"))
        .args(["workflow", "start", "w", "--type", "t", "--url", &service.url])
        .env("TRACEPARENT", GIVEN)
        .output()
        .unwrap();
    assert!(started.status.success(), "{started:?}");
    let events = service.client().events("w", None).await.unwrap();
    let history::EventKind::WorkflowStarted(it) = &events[0].kind else { panic!("{events:?}") };
    assert_eq!(it.traceparent.unwrap().to_string(), GIVEN);
}
