//! Output of activities: a queue of chunks, and the loop that sends them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_client::body::AppendOutput;
use baton_client::{Client, Error};
use baton_history::Payload;
use baton_history::limits::{OUTPUT_CHUNK_BYTES_MAX, OUTPUT_CHUNKS_MAX};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::Instrument as _;

/// Maximum bytes of chunks that wait to be sent. The oldest chunks beyond it are dropped. Our choice: the output that
/// the service keeps per activity.
const QUEUE_BYTES_MAX: usize = 1024 * 1024;

/// Maximum bytes of chunks in one request. Our choice: half of the service's limit for bodies.
const REQUEST_BYTES_MAX: usize = 512 * 1024;

/// Minimum interval between two requests. Chunks that are appended in the meantime share a request. Our choice: readers
/// perceive the delay as immediate.
const SEND_EVERY: Duration = Duration::from_millis(100);

/// Delay after a request that has failed. Our choice.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Error code of the service if the output of other activities leaves no room.
const NO_ROOM: &str = "output-limit-exceeded";

/// Maximum time after the end of an activity for which its answer waits until the output is sent. Our choice.
const FLUSH_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct OutputQueue {
    chunks: VecDeque<Payload>,
    bytes: usize,
    /// Number of the first chunk in the queue, counted from the start of the attempt.
    first: u32,
    /// True if the service accepts no more output of this attempt.
    is_closed: bool,
}

/// Chunks that wait to be sent.
#[derive(Debug, Default)]
pub(crate) struct OutputSender {
    queue: Mutex<OutputQueue>,
    appended: Notify,
}

impl OutputQueue {
    fn drop_first(&mut self) {
        if let Some(chunk) = self.chunks.pop_front() {
            self.bytes -= chunk.len();
            self.first = self.first.saturating_add(1);
        }
    }

    /// Returns the next request. It repeats chunks whose response has not arrived, with the same numbers.
    fn request(&self) -> Option<AppendOutput> {
        let mut left = REQUEST_BYTES_MAX;
        let fits = |chunk: &&Payload| {
            let fits = left.checked_sub(chunk.len());
            left = fits.unwrap_or_default();
            fits.is_some()
        };
        let chunks: Vec<_> = self.chunks.iter().take(OUTPUT_CHUNKS_MAX).take_while(fits).cloned().collect();
        (!chunks.is_empty()).then_some(AppendOutput { chunks, sequence: Some(self.first) })
    }
}

impl OutputSender {
    fn queue(&self) -> MutexGuard<'_, OutputQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the chunks that are not sent.
    pub(crate) fn chunks(&self) -> Vec<Payload> {
        self.queue().chunks.iter().cloned().collect()
    }

    /// Returns true if chunks are not sent.
    pub(crate) fn has_chunks(&self) -> bool {
        !self.queue().chunks.is_empty()
    }

    /// Adds a chunk.
    pub(crate) fn append(&self, chunk: Payload) {
        let bytes = chunk.len();
        if bytes > OUTPUT_CHUNK_BYTES_MAX {
            tracing::warn!(bytes, "a chunk of output is dropped: it has more than {OUTPUT_CHUNK_BYTES_MAX} bytes");
            return;
        }
        let mut queue = self.queue();
        if queue.is_closed {
            return;
        }
        while queue.bytes + bytes > QUEUE_BYTES_MAX {
            queue.drop_first();
        }
        queue.bytes += bytes;
        queue.chunks.push_back(chunk);
        drop(queue);
        self.appended.notify_one();
    }
}

/// What requests with output need.
pub(crate) struct OutputLink<'a> {
    pub(crate) output: &'a OutputSender,
    pub(crate) client: &'a Client,
    pub(crate) token: &'a str,
    /// Set to true if the activity should stop.
    pub(crate) cancel: &'a watch::Sender<bool>,
}

impl OutputLink<'_> {
    /// Sends the next request, if there are chunks. Returns false if the queue is empty.
    async fn send(&self) -> Result<bool, Error> {
        let Self { output, client, token, cancel } = *self;
        let Some(request) = output.queue().request() else { return Ok(false) };
        let end = request.sequence.unwrap_or_default().saturating_add(u32::try_from(request.chunks.len()).unwrap_or(0));
        match client.append_output(token, &request).await {
            Ok(appended) => {
                let mut queue = output.queue();
                while queue.first < end && !queue.chunks.is_empty() {
                    queue.drop_first();
                }
                drop(queue);
                if appended.cancel_requested {
                    cancel.send_replace(true);
                }
                Ok(true)
            }
            Err(error) if error.is_retryable() => Err(error),
            Err(error) => {
                tracing::info!(%error, "the service accepts no more output of this activity");
                let mut queue = output.queue();
                queue.is_closed = true;
                queue.chunks.clear();
                queue.bytes = 0;
                Ok(false)
            }
        }
    }
}

/// Sends output while an activity runs.
pub(crate) async fn send(link: &OutputLink<'_>) -> Infallible {
    loop {
        link.output.appended.notified().await;
        // Boxed, because an activity without output must not reserve space for requests.
        Box::pin(send_all(link)).await;
    }
}

async fn send_all(link: &OutputLink<'_>) {
    loop {
        let began = Instant::now();
        match link.send().in_current_span().await {
            Ok(true) => tokio::time::sleep_until(began + SEND_EVERY).await,
            Ok(false) => return,
            Err(error) => {
                tracing::debug!(%error, "output could not be sent; it is sent again");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
}

/// Sends the remaining output of an activity that has ended. If a request was waiting for its response at the end, its
/// chunks are sent again, and the service recognizes them by their numbers.
pub(crate) async fn flush(link: &OutputLink<'_>) {
    let sending = async {
        loop {
            match link.send().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) if error.code() == Some(NO_ROOM) => {
                    tracing::warn!("the last output of an activity was not sent: the service has no room for it");
                    return;
                }
                Err(_) => tokio::time::sleep(RETRY_AFTER).await,
            }
        }
    };
    if tokio::time::timeout(FLUSH_WAIT, sending).await.is_err() {
        tracing::warn!("the last output of an activity was not sent: the service does not respond");
    }
}
