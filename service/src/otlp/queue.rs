//! The bounded queue of spans that wait for export. Adding spans never blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use history::trace::Span;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// Maximum number of spans in the queue. Our choice: about ten megabytes of memory, and the spans of a busy node in a
/// few seconds.
pub const QUEUE_SPANS_MAX: usize = 8_192;

/// Reason for dropping spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dropped {
    /// The queue is full.
    QueueFull,
    /// The collector refused the spans.
    Refused,
    /// The collector was unreachable for too long.
    Unreachable,
    /// The service is stopping.
    Stopping,
}

impl Dropped {
    const ALL: [Self; 4] = [Self::QueueFull, Self::Refused, Self::Unreachable, Self::Stopping];

    fn word(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Stopping => "stopping",
        }
    }
}

/// Numbers of spans by outcome, and the number of waiting spans.
#[derive(Debug, Default)]
pub struct SpanCounts {
    waiting: AtomicUsize,
    exported: AtomicU64,
    dropped: [AtomicU64; Dropped::ALL.len()],
}

impl SpanCounts {
    /// Returns the number of spans that are queued or being sent.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns the number of spans that the collector accepted.
    pub fn all_exported(&self) -> u64 {
        self.exported.load(Ordering::Relaxed)
    }

    /// Returns the number of dropped spans.
    pub fn all_dropped(&self) -> u64 {
        self.dropped.iter().map(|dropped| dropped.load(Ordering::Relaxed)).sum()
    }

    /// Returns the numbers of dropped spans by reason.
    pub fn dropped_by_why(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Dropped::ALL.into_iter().zip(&self.dropped).map(|(why, count)| (why.word(), count.load(Ordering::Relaxed)))
    }

    pub(super) fn exported(&self, spans: usize) {
        self.exported.fetch_add(spans as u64, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self, why: Dropped, spans: usize) {
        let place = Dropped::ALL.into_iter().position(|other| other == why);
        if let Some(count) = place.and_then(|place| self.dropped.get(place)) {
            count.fetch_add(spans as u64, Ordering::Relaxed);
        }
    }

    pub(super) fn left(&self, spans: usize) {
        self.waiting.fetch_sub(spans, Ordering::Relaxed);
    }
}

/// Spans that are added to the queue in one call, with their domain.
type Put = (Arc<str>, Vec<Span>);

/// Sending side of the queue.
pub(super) struct SpanQueue {
    put: mpsc::UnboundedSender<Put>,
    counts: Arc<SpanCounts>,
    is_full: AtomicBool,
}

/// Receiving side of the queue.
pub(super) struct SpanQueueEnd {
    taken: mpsc::UnboundedReceiver<Put>,
    counts: Arc<SpanCounts>,
    /// Spans that were received from the queue but did not fit into the last batch.
    rest: Vec<(Arc<str>, Span)>,
}

/// Creates a queue. A counter bounds its size; the channel itself is unbounded.
pub(super) fn queue() -> (SpanQueue, SpanQueueEnd) {
    let (put, taken) = mpsc::unbounded_channel();
    let counts = Arc::<SpanCounts>::default();
    let queue = SpanQueue { put, counts: Arc::clone(&counts), is_full: AtomicBool::new(false) };
    (queue, SpanQueueEnd { taken, counts, rest: Vec::new() })
}

impl SpanQueue {
    pub(super) fn counts(&self) -> &Arc<SpanCounts> {
        &self.counts
    }

    /// Adds spans, or drops them if the queue is full. A warning is logged when the queue becomes full. While it stays
    /// full, the warning is not repeated.
    pub(super) fn put(&self, domain: &Arc<str>, spans: Vec<Span>) {
        let count = spans.len();
        let room = |waiting: usize| Some(waiting + count).filter(|waiting| *waiting <= QUEUE_SPANS_MAX);
        if self.counts.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_err() {
            self.counts.dropped(Dropped::QueueFull, count);
            if !self.is_full.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    waiting = QUEUE_SPANS_MAX,
                    "spans are dropped: the queue for the collector is full; see baton_spans_dropped_total"
                );
            }
            return;
        }
        self.is_full.store(false, Ordering::Relaxed);
        if self.put.send((Arc::clone(domain), spans)).is_err() {
            // The receiving task has ended, so these spans will not be sent.
            self.counts.left(count);
            self.counts.dropped(Dropped::Stopping, count);
        }
    }
}

impl SpanQueueEnd {
    pub(super) fn counts(&self) -> &SpanCounts {
        &self.counts
    }

    /// Returns the next batch of at most `most` spans. Waits for the first span, and then at most `wait` for further
    /// ones. When the service is stopping, this function no longer waits, and returns `None` once no spans are left.
    /// The spans count as waiting until they are reported as [left](SpanCounts::left).
    pub(super) async fn batch(
        &mut self,
        most: usize,
        wait: Duration,
        stopped: &mut watch::Receiver<bool>,
    ) -> Option<Vec<(Arc<str>, Span)>> {
        let mut batch = std::mem::take(&mut self.rest);
        let mut until = None;
        if !batch.is_empty() {
            until = Some(Instant::now() + wait);
        }
        while batch.len() < most {
            let is_stopped = *stopped.borrow();
            let next = match until {
                _ if is_stopped => self.taken.try_recv().ok(),
                None => tokio::select! {
                    next = self.taken.recv() => next,
                    _ = stopped.changed() => continue,
                },
                Some(until) => tokio::select! {
                    next = self.taken.recv() => next,
                    () = tokio::time::sleep_until(until) => None,
                    _ = stopped.changed() => continue,
                },
            };
            let Some((domain, spans)) = next else { break };
            until.get_or_insert_with(|| Instant::now() + wait);
            batch.extend(spans.into_iter().map(|span| (Arc::clone(&domain), span)));
        }
        if batch.len() > most {
            self.rest = batch.split_off(most);
        }
        (!batch.is_empty()).then_some(batch)
    }
}
