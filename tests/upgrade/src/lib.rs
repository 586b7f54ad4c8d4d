//! Data stored by earlier versions of Baton, which is kept in `recorded/` permanently, and the code to record and read
//! it. See the [README](../README.md).

pub mod packed;
pub mod record;
pub mod scene;
pub mod table;

use std::path::{Path, PathBuf};

/// Returns the directories with recorded data, sorted by name.
///
/// # Errors
///
/// If the directories cannot be listed.
pub fn recorded() -> std::io::Result<Vec<PathBuf>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root)? {
        found.push(entry?.path());
    }
    found.sort();
    Ok(found)
}
