//! Sending spans to a collector over OTLP: HTTP with protobuf.
//!
//! Nobody waits for a collector. Spans wait in memory up to a bound, and beyond it they are dropped and counted; a collector that
//! does not answer is asked again, later and later, and whoever stops waits for it no longer than [`FINISH_WAIT`].

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

/// The most spans in a request. Source: OpenTelemetry's `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`.
pub const BATCH_SPANS_MAX: usize = 512;

/// How long spans wait for others to go along with. Ours: a trace is there when somebody looks for it.
const BATCH_WAIT: Duration = Duration::from_secs(1);

/// How long one that stops waits for a collector. Ours: longer than a collector that is well takes for all that may wait.
pub const FINISH_WAIT: Duration = Duration::from_secs(2);

/// The wait before a request is tried a second time; doubled after each further one.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// The longest of these waits.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(30);

/// How long a request is tried. Ours: a collector is started anew within that; meanwhile the queue fills.
const RETRY_FOR: Duration = Duration::from_secs(60);

/// Takes spans, and has them sent.
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
    /// Sends what it is given to a collector, as that of the service with this name. Within a runtime.
    pub fn start(collector: Collector, service_name: &str) -> Arc<Self> {
        let (queue, end) = queue::queue();
        let (stopping, stopped) = watch::channel(false);
        let form = SpanForm::of_service(service_name);
        let sender = Sender { collector, form, end, stopped, is_failing: false };
        let sending = std::sync::Mutex::new(Some(tokio::spawn(sender.run())));
        Arc::new(Self { queue, stopping, sending })
    }

    /// What became of spans.
    pub fn counts(&self) -> &Arc<SpanCounts> {
        self.queue.counts()
    }

    /// Sends what waits, for so long as [`FINISH_WAIT`]; what is left then is dropped.
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

/// What sends, one request at a time.
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
                    self.is_well(refused);
                }
                ExportOutcome::Refused(why) => {
                    self.end.counts().dropped(Dropped::Refused, spans);
                    self.is_not_well(&why);
                }
                ExportOutcome::Unreachable { why, .. } => {
                    self.end.counts().dropped(Dropped::Unreachable, spans);
                    self.is_not_well(&why);
                }
            }
        }
    }

    /// Sends a request until the collector has taken or refused it, or time is up.
    async fn send(&mut self, body: bytes::Bytes) -> ExportOutcome {
        let (until, mut wait) = (Instant::now() + RETRY_FOR, RETRY_WAIT);
        loop {
            let sent = self.collector.send(body.clone()).await;
            let ExportOutcome::Unreachable { why, retry_after } = &sent else { return sent };
            self.is_not_well(why);
            let wait_now = retry_after.unwrap_or(wait).min(RETRY_WAIT_MAX);
            if Instant::now() + wait_now >= until || *self.stopped.borrow() {
                return sent;
            }
            // Whoever stops has one more try at once.
            let stopped = self.stopped.wait_for(|stopped| *stopped);
            drop(tokio::time::timeout(wait_now, stopped).await);
            wait *= 2;
        }
    }

    fn is_not_well(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let collector = self.collector.shown();
            tracing::warn!(%collector, why, "the collector does not take spans; they wait, and are dropped when too many do");
        }
    }

    fn is_well(&mut self, refused: usize) {
        if refused > 0 {
            self.is_not_well("it refused some of those that were sent");
        } else if std::mem::replace(&mut self.is_failing, false) {
            let dropped = self.end.counts().all_dropped();
            tracing::info!(dropped_in_all = dropped, "the collector takes spans again");
        }
    }
}

#[cfg(test)]
mod tests;
