//! What the files of the log are called, and what marks the frames in them.

use std::io;
use std::path::{Path, PathBuf};

/// A segment that is being made ready, before it has its number.
pub(crate) const NEW: &str = "new";
const SUFFIX: &str = "log";
/// Of a segment that stays for its values only.
const VALUES: &str = "values";

/// The path of a segment.
pub(crate) fn segment_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(segment_name(number))
}

/// The path of a segment that stays for its values only.
pub(crate) fn values_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:020}.{VALUES}"))
}

/// What a segment is called.
pub(crate) fn segment_name(number: u64) -> String {
    format!("{number:020}.{SUFFIX}")
}

/// What the checksums of a segment's frames are mixed with.
pub(crate) fn salt(id: u64, number: u64) -> u64 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&id.to_le_bytes());
    hasher.update(&number.to_le_bytes());
    (id ^ number.rotate_left(32)).wrapping_add(u64::from(hasher.finalize()) << 16)
}

/// The numbers of the segments in a directory, in order. Removes what was being made ready.
pub(crate) fn find_segments(directory: &Path) -> io::Result<Vec<u64>> {
    let new = directory.join(NEW);
    if new.exists() {
        std::fs::remove_file(&new)?;
    }
    numbered(directory, SUFFIX)
}

/// The numbers of the segments that stay for their values only, in order.
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
