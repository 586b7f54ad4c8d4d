//! Export of spans to a collector, with OTLP over HTTP with protobuf.
//!
//! Exporting never delays requests. Spans wait in a bounded queue; if it is full, further spans are dropped and
//! counted. If a collector does not respond, the export request is retried with backoff. A shutdown waits for the
//! collector for at most [`FINISH_WAIT`].

mod collector;
mod form;
mod proto;
mod queue;

use std::sync::Arc;
use std::time::Duration;

use engine::TakesSpans;
use history::trace::Span;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use collector::{Collector, EXPORT_WAIT};
pub use queue::{QUEUE_SPANS_MAX, SpanCounts};

use collector::ExportOutcome;
use form::SpanForm;
use queue::{Dropped, SpanQueue, SpanQueueEnd};

/// Maximum number of spans per export request. Source: OpenTelemetry's `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`.
pub const BATCH_SPANS_MAX: usize = 512;

/// Time for which spans are collected before they are sent in one export request. Our choice: short enough for people
/// who are looking for a trace.
const BATCH_WAIT: Duration = Duration::from_secs(1);

/// Maximum time for which a shutdown waits for a collector. Our choice: longer than a healthy collector takes for a
/// full queue.
pub const FINISH_WAIT: Duration = Duration::from_secs(2);

/// Delay before an export request is retried for the first time; doubled after each attempt.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// Maximum delay between two attempts to send an export request.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(30);

/// Time for which an export request is retried. Our choice: enough for a restart of the collector. Meanwhile, further
/// spans are queued.
const RETRY_FOR: Duration = Duration::from_secs(60);

/// Exporter of spans to a collector.
pub struct Exporter {
    queue: SpanQueue,
    stopping: watch::Sender<bool>,
    sending: std::sync::Mutex<Option<JoinHandle<()>>>,
}

impl TakesSpans for Exporter {
    fn take(&self, domain: &Arc<str>, spans: Vec<Span>) {
        self.queue.put(domain, spans);
    }
}

impl Exporter {
    /// Starts an exporter to a collector. `service_name` is the name of the service in the spans. Must be called
    /// within a runtime.
    pub fn start(collector: Collector, service_name: &str) -> Arc<Self> {
        let (queue, end) = queue::queue();
        let (stopping, stopped) = watch::channel(false);
        let form = SpanForm::of_service(service_name);
        let sender = Sender { collector, form, end, stopped, is_failing: false };
        let sending = std::sync::Mutex::new(Some(tokio::spawn(sender.run())));
        Arc::new(Self { queue, stopping, sending })
    }

    /// Returns the numbers of exported and dropped spans.
    pub fn counts(&self) -> &Arc<SpanCounts> {
        self.queue.counts()
    }

    /// Sends the queued spans, for at most [`FINISH_WAIT`]. Spans that are added later are dropped.
    pub async fn finish(&self) {
        self.stopping.send_replace(true);
        let sending = self.sending.lock().ok().and_then(|mut sending| sending.take());
        if let Some(mut sending) = sending
            && tokio::time::timeout(FINISH_WAIT, &mut sending).await.is_err()
        {
            sending.abort();
        }
        let left = self.counts().waiting();
        if left > 0 {
            self.counts().dropped(Dropped::Stopping, left);
            tracing::warn!(spans = left, "the collector did not take all spans before the service stopped");
        }
    }
}

/// Task that sends export requests, one at a time.
struct Sender {
    collector: Collector,
    form: SpanForm,
    end: SpanQueueEnd,
    stopped: watch::Receiver<bool>,
    is_failing: bool,
}

impl Sender {
    async fn run(mut self) {
        loop {
            let batch = self.end.batch(BATCH_SPANS_MAX, BATCH_WAIT, &mut self.stopped).await;
            let Some(batch) = batch else { return };
            let (spans, body) = (batch.len(), self.form.request(&batch));
            drop(batch);
            let outcome = self.send(body).await;
            self.end.counts().left(spans);
            match outcome {
                ExportOutcome::Taken { refused } => {
                    self.end.counts().exported(spans.saturating_sub(refused));
                    self.end.counts().dropped(Dropped::Refused, refused);
                    self.report_recovery(refused);
                }
                ExportOutcome::Refused(why) => {
                    self.end.counts().dropped(Dropped::Refused, spans);
                    self.report_failure(&why);
                }
                ExportOutcome::Unreachable { why, .. } => {
                    self.end.counts().dropped(Dropped::Unreachable, spans);
                    self.report_failure(&why);
                }
            }
        }
    }

    /// Sends an export request, and retries until the collector has accepted or refused it, or the time for retries
    /// has passed.
    async fn send(&mut self, body: bytes::Bytes) -> ExportOutcome {
        let (until, mut wait) = (Instant::now() + RETRY_FOR, RETRY_WAIT);
        loop {
            let sent = self.collector.send(body.clone()).await;
            let ExportOutcome::Unreachable { why, retry_after } = &sent else { return sent };
            self.report_failure(why);
            let wait_now = retry_after.unwrap_or(wait).min(RETRY_WAIT_MAX);
            if Instant::now() + wait_now >= until || *self.stopped.borrow() {
                return sent;
            }
            // A shutdown ends the delay, and one last attempt follows immediately.
            let stopped = self.stopped.wait_for(|stopped| *stopped);
            drop(tokio::time::timeout(wait_now, stopped).await);
            wait *= 2;
        }
    }

    fn report_failure(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let collector = self.collector.shown();
            tracing::warn!(%collector, why, "the collector does not accept spans; they are queued, and dropped when \
                                             the queue is full");
        }
    }

    fn report_recovery(&mut self, refused: usize) {
        if refused > 0 {
            self.report_failure("it rejected some of the spans");
        } else if std::mem::replace(&mut self.is_failing, false) {
            let dropped = self.end.counts().all_dropped();
            tracing::info!(dropped_in_all = dropped, "the collector accepts spans again");
        }
    }
}

#[cfg(test)]
mod tests;
