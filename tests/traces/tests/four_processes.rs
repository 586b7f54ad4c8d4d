//! A collector receives one trace from four processes. It decodes their requests with OpenTelemetry's crate.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on has failed")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

/// Time limit of each wait. Our choice: longer than any wait of a passing test.
const PATIENCE: Duration = Duration::from_secs(120);

/// Maximum difference between a recorded and the real time of the service, in nanoseconds. The service records whole
/// milliseconds.
const MILLISECOND: u64 = 1_000_000;

/// A received span, with the name of the service that sent it.
#[derive(Debug, Clone)]
struct Seen {
    service: String,
    span: Span,
}

fn text<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a str> {
    let value = &attributes.iter().find(|attribute| attribute.key == name)?.value;
    match value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

async fn collector() -> (String, mpsc::UnboundedReceiver<Seen>) {
    let (told, heard) = mpsc::unbounded_channel();
    let take = move |headers: HeaderMap, body: Bytes| {
        assert_eq!(headers["content-type"], "application/x-protobuf");
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        for of_resource in request.resource_spans {
            let resource = of_resource.resource.unwrap_or_default();
            let service = text(&resource.attributes, "service.name").unwrap().to_owned();
            for span in of_resource.scope_spans.into_iter().flat_map(|of_scope| of_scope.spans) {
                told.send(Seen { service: service.clone(), span }).unwrap();
            }
        }
        async {}
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    #[expect(clippy::disallowed_methods, reason = "no call of the service")]
    let router = Router::new().route("/v1/traces", axum::routing::post(take));
    tokio::spawn(async { axum::serve(listener, router).await });
    (url, heard)
}

/// Returns the path of the service's program, which is built into the same directory as this test's program.
fn baton() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_traced")).with_file_name("baton");
    assert!(built.exists(), "no {}: `cargo build -p baton-service` builds it", built.display());
    built
}

fn traced(role: &str, url: &str, collector: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_traced"));
    command.args([role, url, collector]).env("OTEL_BSP_SCHEDULE_DELAY", "100").kill_on_drop(true).spawn().unwrap()
}

/// Formats the spans below a parent as a tree. Each line has the service, and the error message if the span failed.
fn tree(all: &[Seen], parent: &[u8], depth: usize, lines: &mut Vec<String>) {
    let mut below: Vec<_> = all.iter().filter(|seen| seen.span.parent_span_id == parent).collect();
    below.sort_by_key(|seen| (seen.span.start_time_unix_nano, seen.span.end_time_unix_nano));
    for Seen { service, span } in below {
        let status = span.status.as_ref().filter(|status| status.code == 2);
        let status = status.map(|status| format!(" ({})", status.message)).unwrap_or_default();
        lines.push(format!("{}{service}: {}{status}", "  ".repeat(depth), span.name));
        tree(all, &span.span_id, depth + 1, lines);
    }
}

/// Expected tree, without turns and the spans below them, whose number varies.
const TREE: [&str; 13] = [
    "application: check-out",
    "  baton: workflow order",
    "    baton: signal pay",
    "    baton: activity charge",
    "      baton: try charge (busy)",
    "        runner: activity",
    "          runner: at-bank",
    "      baton: try charge",
    "        runner: activity",
    "          runner: at-bank",
    "    baton: timer",
    "    baton: workflow parcel",
    "      baton: activity ship",
];

#[tokio::test]
async fn a_collector_sees_one_trace_over_four_processes() {
    let scratch = tempfile::tempdir().unwrap();
    let (collector, mut heard) = collector().await;
    let port_file = scratch.path().join("address");
    let mut service = Command::new(baton())
        .args(["serve", "--listen", "127.0.0.1:0", "--store", "memory", "--otlp-endpoint", &collector, "--port-file"])
        .arg(&port_file)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let url = loop {
        if let Ok(address) = std::fs::read_to_string(&port_file) {
            break format!("http://{}", address.trim());
        }
        assert!(service.try_wait().unwrap().is_none(), "the service ended early: `.ci/sdk` builds it");
        tokio::task::yield_now().await;
    };
    let others = [traced("decider", &url, &collector), traced("runner", &url, &collector)];
    let ended = tokio::time::timeout(PATIENCE, traced("application", &url, &collector).wait()).await.unwrap();
    assert!(ended.unwrap().success());
    // The run has closed. Its programs may still have to export their last spans.
    let mut all: Vec<Seen> = Vec::new();
    let is_there = |all: &[Seen]| {
        let has = |service: &str, name: &str, count: usize| {
            all.iter().filter(|seen| seen.service == service && seen.span.name == name).count() >= count
        };
        let turns = |service: &str, turn: &str| {
            all.iter().filter(|seen| seen.service == service && seen.span.name.starts_with(turn)).count()
        };
        has("application", "check-out", 1)
            && has("baton", "workflow order", 1)
            && has("runner", "activity", 3)
            && turns("decider", "turn") >= turns("baton", "turn")
    };
    while !is_there(&all) {
        let next = tokio::time::timeout(PATIENCE, heard.recv()).await;
        all.push(next.unwrap_or_else(|_| panic!("some spans did not come: {all:#?}")).unwrap());
    }
    drop(others);

    let root = all.iter().find(|seen| seen.span.name == "check-out").unwrap().span.clone();
    let is_of_trace = |seen: &Seen| seen.span.trace_id == root.trace_id;
    // Spans of calls that belong to no run are not part of this trace.
    let ours: Vec<Seen> = all.iter().filter(|seen| is_of_trace(seen)).cloned().collect();
    assert_eq!(ours.len(), all.len(), "{:?}", all.iter().filter(|seen| !is_of_trace(seen)).collect::<Vec<_>>());
    let mut lines = Vec::new();
    tree(&ours, &[], 0, &mut lines);
    println!("{}", lines.join("\n"));
    assert_eq!(lines.len(), ours.len(), "a span is below one that nobody has told of: {ours:#?}");
    let named: Vec<_> = lines.iter().filter(|line| !line.contains("turn")).map(String::as_str).collect();
    let (shipped, rest) = named.split_last().unwrap();
    assert_eq!((rest, *shipped), (&TREE[..], "        runner: activity"), "{lines:#?}");
    assert!(lines.iter().any(|line| line == "    baton: turn order"), "{lines:#?}");
    assert!(lines.iter().any(|line| line == "      decider: turn"), "{lines:#?}");

    for Seen { service, span } in &ours {
        let (from, until) = (span.start_time_unix_nano, span.end_time_unix_nano);
        assert!(from <= until, "{service}: {span:?}");
        let Some(parent) = ours.iter().find(|seen| seen.span.span_id == span.parent_span_id) else { continue };
        let begins = from + MILLISECOND >= parent.span.start_time_unix_nano;
        assert!(begins, "{service}: {span:?} begins before {parent:?}");
        // An application may end its span before the run closes. In this test it waits for the run.
        let ends = until <= parent.span.end_time_unix_nano + MILLISECOND;
        assert!(ends || parent.service == "application", "{service}: {span:?} ends after {parent:?}");
    }
    let signal = &ours.iter().find(|seen| seen.span.name == "signal pay").unwrap().span;
    assert_eq!((&signal.links[0].trace_id, &signal.links[0].span_id), (&root.trace_id, &root.span_id));
    let run = &ours.iter().find(|seen| seen.span.name == "workflow order").unwrap().span;
    assert_eq!(text(&run.attributes, "baton.workflow.id"), Some("order-1"));
    assert_eq!(text(&run.attributes, "baton.domain"), Some("default"));
    assert_eq!(text(&run.attributes, "baton.status"), Some("success"));
    // The span of an activity has an event with the time at which a runner took it.
    let ship = &ours.iter().find(|seen| seen.span.name == "activity ship").unwrap().span;
    assert_eq!(ship.events[0].name, "taken");
}
