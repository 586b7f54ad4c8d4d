//! Runs blocking disk operations without blocking other tasks, and converts their errors.

use std::path::Path;

use store::Error;

/// Runs a blocking disk operation on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(call).await {
        Ok(result) => result,
        Err(error) => Err(Error::Failed { why: error.to_string() }),
    }
}

/// Converts an IO error. `doing` names the operation that failed.
pub(crate) fn storage_error(error: &std::io::Error, doing: &str, path: &Path) -> Error {
    Error::Failed { why: format!("cannot {doing} `{}`: {error}", path.display()) }
}
