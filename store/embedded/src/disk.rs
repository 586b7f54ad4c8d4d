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
pub fn storage_error(error: &std::io::Error, doing: &str, path: &Path) -> Error {
    Error::Failed { why: format!("cannot {doing} `{}`: {error}{}", path.display(), advice(error)) }
}

/// Returns what to do about an IO error, to be appended to its message.
pub(crate) fn advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::StorageFull => "; free space on the disk",
        std::io::ErrorKind::QuotaExceeded => "; free space on the disk, or raise its quota",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn a_full_disk_is_reported_with_advice() {
        let said = |kind: ErrorKind| storage_error(&kind.into(), "write", Path::new("log/1")).to_string();
        assert!(said(ErrorKind::StorageFull).ends_with("; free space on the disk"));
        assert!(said(ErrorKind::StorageFull).contains("cannot write `log/1`: "));
        assert!(!said(ErrorKind::NotFound).contains("free space"));
    }
}
