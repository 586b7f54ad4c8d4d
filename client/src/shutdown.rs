//! What both kits' hosts share: ending in order, and containing panics of the code they host.

use std::any::Any;
use std::time::Duration;

use tokio::sync::watch;

/// How long an answer that is under way may take when a host stops. Answers are recorded within milliseconds; what takes
/// longer is the wait for a next task, which is no longer wanted.
pub(crate) const ANSWER_GRACE: Duration = Duration::from_secs(2);

/// Resolves at SIGTERM or ctrl-c.
pub async fn requested() {
    #[cfg(unix)]
    {
        let terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
        match terminate {
            Ok(mut terminate) => {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = tokio::signal::ctrl_c() => {}
                }
            }
            Err(error) => {
                tracing::warn!(%error, "SIGTERM cannot be waited for");
                drop(tokio::signal::ctrl_c().await);
            }
        }
    }
    #[cfg(not(unix))]
    drop(tokio::signal::ctrl_c().await);
}

/// Waits until `stopped` says so.
async fn stop(stopped: &watch::Receiver<bool>) {
    // An error means that the host is gone, which is as good.
    drop(stopped.clone().wait_for(|stopped| *stopped).await);
}

/// The work's outcome; `None` when the host stops first, and the work is dropped.
pub async fn unless<T>(stopped: &watch::Receiver<bool>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        outcome = work => Some(outcome),
        () = stop(stopped) => None,
    }
}

/// What a panic said.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}
