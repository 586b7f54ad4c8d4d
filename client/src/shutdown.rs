//! Graceful shutdown of the hosts of both kits, and containment of panics in the code that the hosts run.

use std::any::Any;
use std::time::Duration;

use tokio::sync::watch;

/// Maximum time for outstanding answers to be recorded when a host stops. Our choice: the service records answers
/// within milliseconds. A response takes longer only if it waits for a further task, which a stopping host does not
/// need.
pub(crate) const ANSWER_GRACE: Duration = Duration::from_secs(2);

/// Resolves on SIGTERM or Ctrl-C.
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
                tracing::warn!(%error, "cannot listen for SIGTERM; only Ctrl-C stops this host");
                drop(tokio::signal::ctrl_c().await);
            }
        }
    }
    #[cfg(not(unix))]
    drop(tokio::signal::ctrl_c().await);
}

/// Resolves when `stopped` becomes true.
async fn stop(stopped: &watch::Receiver<bool>) {
    // An error means that the sender was dropped, because the host has ended.
    drop(stopped.clone().wait_for(|stopped| *stopped).await);
}

/// Returns the outcome of the work. If the host stops before the work is done, drops the work and returns `None`.
pub async fn unless<T>(stopped: &watch::Receiver<bool>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        outcome = work => Some(outcome),
        () = stop(stopped) => None,
    }
}

/// Returns the message of a panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}
