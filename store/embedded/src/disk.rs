//! Waiting for the disk where it does not hold up others, and saying what went wrong with it.

use std::path::Path;

use store::Error;

/// Runs what waits for a disk where it does not hold up other tasks.
pub(crate) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(call).await {
        Ok(result) => result,
        Err(error) => Err(Error::Failed { why: error.to_string() }),
    }
}

/// An IO error of a file, with what was being done.
pub(crate) fn storage_error(error: &std::io::Error, doing: &str, path: &Path) -> Error {
    Error::Failed { why: format!("cannot {doing} `{}`: {error}", path.display()) }
}
