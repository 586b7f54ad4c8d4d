//! Names of the files of the log, and the salts of the checksums in them.

use std::io;
use std::path::{Path, PathBuf};

/// Name of a segment that is being prepared and has no number yet.
pub(crate) const NEW: &str = "new";
const SUFFIX: &str = "log";
/// Suffix of a segment that is kept only for the large values in it.
const VALUES: &str = "values";

/// Returns the path of a segment.
pub(crate) fn segment_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(segment_name(number))
}

/// Returns the path of a segment that is kept only for the large values in it.
pub(crate) fn values_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:020}.{VALUES}"))
}

/// Returns the name of a segment.
pub fn segment_name(number: u64) -> String {
    format!("{number:020}.{SUFFIX}")
}

/// Returns the salt of the checksums in a segment. It differs between stores and between segments.
pub fn salt(id: u64, number: u64) -> u64 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&id.to_le_bytes());
    hasher.update(&number.to_le_bytes());
    (id ^ number.rotate_left(32)).wrapping_add(u64::from(hasher.finalize()) << 16)
}

/// Returns the numbers of the segments in a directory, in order. Removes an unfinished segment that was being prepared.
pub(crate) fn find_segments(directory: &Path) -> io::Result<Vec<u64>> {
    let new = directory.join(NEW);
    if new.exists() {
        std::fs::remove_file(&new)?;
    }
    numbered(directory, SUFFIX)
}

/// Returns the numbers of the segments that are kept only for their values, in order.
pub(crate) fn find_values(directory: &Path) -> io::Result<Vec<u64>> {
    numbered(directory, VALUES)
}

fn numbered(directory: &Path, suffix: &str) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == suffix)
            && let Some(number) = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok())
        {
            found.push(number);
        }
    }
    found.sort_unstable();
    Ok(found)
}
