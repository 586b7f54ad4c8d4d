//! Delivery of spans to healthy and failing collectors.

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use history::{SpanId, Timestamp, TraceId, trace::SpanEnd};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::proto::{ExportRequest, ExportResponse, PartialSuccess};
use super::*;

fn span(number: u64) -> Span {
    let mut trace_id = [0; 16];
    trace_id[8..].copy_from_slice(&number.to_be_bytes());
    Span {
        trace_id: TraceId::from_bytes(trace_id).unwrap(),
        span_id: SpanId::from_bytes(number.to_be_bytes()).unwrap(),
        parent: None,
        tracestate: None,
        name: "workflow order".to_owned(),
        began_at: Timestamp::from_millis(1_000),
        ended_at: Timestamp::from_millis(2_000),
        taken_at: None,
        end: SpanEnd::Succeeded,
        attributes: Vec::new(),
        link: None,
    }
}

fn spans(count: usize) -> Vec<Span> {
    (1..=count as u64).map(span).collect()
}

/// Starts a collector that sends the given responses first and accepts all later requests. The returned receiver gets
/// the number of spans in each request.
async fn collector(
    answers: impl IntoIterator<Item = (StatusCode, Vec<u8>)>,
) -> (Collector, mpsc::UnboundedReceiver<usize>) {
    let (told, heard) = mpsc::unbounded_channel();
    let answers = Arc::new(std::sync::Mutex::new(answers.into_iter().collect::<std::collections::VecDeque<_>>()));
    let answer = move |body: Bytes| {
        let request = ExportRequest::decode(body).unwrap();
        let of = |scopes: &proto::ScopeSpans| scopes.spans.len();
        let count = request.resource_spans.iter().flat_map(|it| &it.scope_spans).map(of).sum();
        told.send(count).unwrap();
        let answer = answers.lock().unwrap().pop_front().unwrap_or((StatusCode::OK, Vec::new()));
        async move { answer.into_response() }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(answer);
    tokio::spawn(async { axum::serve(listener, router).await });
    (Collector::at(&format!("http://{address}"), None).unwrap(), heard)
}

/// Returns a collector that accepts connections and never responds.
async fn hanging() -> Collector {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            held.push(connection);
        }
    });
    Collector::at(&format!("http://{address}"), None).unwrap()
}

fn dropped(exporter: &Exporter) -> Vec<(&'static str, u64)> {
    exporter.counts().dropped_by_why().filter(|(_, count)| *count > 0).collect()
}

#[tokio::test]
async fn spans_go_out_in_batches_and_what_waits_goes_out_at_the_end() {
    let (collector, mut heard) = collector([]).await;
    let exporter = Exporter::start(collector, "s");
    exporter.take(&"d".into(), spans(BATCH_SPANS_MAX + 1));
    assert_eq!(heard.recv().await, Some(BATCH_SPANS_MAX));
    exporter.take(&"d".into(), spans(2));
    exporter.finish().await;
    assert_eq!(heard.recv().await, Some(3));
    assert_eq!(exporter.counts().all_exported(), BATCH_SPANS_MAX as u64 + 3);
    assert_eq!((exporter.counts().waiting(), dropped(&exporter)), (0, Vec::new()));
    // Spans added after the shutdown are counted as dropped.
    exporter.take(&"d".into(), spans(1));
    assert_eq!((exporter.counts().waiting(), dropped(&exporter)), (0, vec![("stopping", 1)]));
}

#[tokio::test]
async fn a_hanging_collector_delays_nothing_and_drops_are_counted() {
    let exporter = Exporter::start(hanging().await, "s");
    let began = Instant::now();
    exporter.take(&"d".into(), spans(QUEUE_SPANS_MAX));
    exporter.take(&"d".into(), spans(1));
    exporter.take(&"d".into(), spans(7));
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!((exporter.counts().waiting(), dropped(&exporter)), (QUEUE_SPANS_MAX, vec![("queue-full", 8)]));
    let began = Instant::now();
    exporter.finish().await;
    assert!(began.elapsed() < FINISH_WAIT + Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(dropped(&exporter), [("queue-full", 8), ("stopping", QUEUE_SPANS_MAX as u64)]);
}

#[tokio::test]
async fn a_busy_collector_is_retried_but_not_a_refusing_one() {
    let nothing = Vec::new;
    let busy = (StatusCode::SERVICE_UNAVAILABLE, nothing());
    let partial = ExportResponse { partial_success: Some(PartialSuccess { rejected_spans: 2 }) }.encode_to_vec();
    let answers = [busy, (StatusCode::OK, partial), (StatusCode::BAD_REQUEST, nothing())];
    let (collector, mut heard) = collector(answers).await;
    let exporter = Exporter::start(collector, "s");
    exporter.take(&"d".into(), spans(BATCH_SPANS_MAX));
    assert_eq!((heard.recv().await, heard.recv().await), (Some(BATCH_SPANS_MAX), Some(BATCH_SPANS_MAX)));
    exporter.take(&"d".into(), spans(3));
    assert_eq!(heard.recv().await, Some(3));
    exporter.finish().await;
    assert_eq!(exporter.counts().all_exported(), BATCH_SPANS_MAX as u64 - 2);
    assert_eq!(dropped(&exporter), [("refused", 5)]);
}

#[tokio::test]
async fn a_collector_that_is_away_is_waited_for_no_longer_at_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let exporter = Exporter::start(Collector::at(&format!("http://{address}"), None).unwrap(), "s");
    exporter.take(&"d".into(), spans(2));
    let began = Instant::now();
    exporter.finish().await;
    assert!(began.elapsed() < FINISH_WAIT, "{:?}", began.elapsed());
    assert_eq!(dropped(&exporter), [("unreachable", 2)]);
}
