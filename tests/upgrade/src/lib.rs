//! What earlier versions of Baton stored, kept in `recorded/` for ever, and what is needed to record and to read it.
//! [README](../README.md).

pub mod packed;
pub mod record;
pub mod scene;
pub mod table;

use std::path::{Path, PathBuf};

/// The directories of all that was recorded, in order.
///
/// # Errors
///
/// When they cannot be listed.
pub fn recorded() -> std::io::Result<Vec<PathBuf>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root)? {
        found.push(entry?.path());
    }
    found.sort();
    Ok(found)
}
