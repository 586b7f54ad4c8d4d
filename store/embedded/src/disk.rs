//! Blocking disk access without blocking other tasks, and its errors.

use std::path::Path;

use store::Error;

/// Runs a blocking disk operation on a thread where it does not block other tasks.
pub(crate) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(call).await {
        Ok(result) => result,
        Err(error) => Err(Error::Failed { why: error.to_string() }),
    }
}

/// Converts an IO error of a file, adding the attempted operation.
pub(crate) fn storage_error(error: &std::io::Error, doing: &str, path: &Path) -> Error {
    Error::Failed { why: format!("cannot {doing} `{}`: {error}", path.display()) }
}
