//! Threads of the store.

use std::thread::JoinHandle;

use store::Error;

/// Starts a thread for which no commit waits.
pub(crate) fn spawn_background(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(|error| Error::Failed { why: format!("cannot start thread `{name}`: {error}") })
}
