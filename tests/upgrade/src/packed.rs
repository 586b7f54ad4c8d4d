//! Directories as single compressed files. Compression makes them small, because most of a log segment is empty.

use std::fs::File;
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::record::Failed;

/// Packs a directory into a file.
///
/// # Errors
///
/// If a file cannot be read or written.
pub fn pack(directory: &Path, into: &Path) -> Result<(), Failed> {
    let mut files = tar::Builder::new(GzEncoder::new(File::create(into)?, Compression::best()));
    files.sparse(false);
    files.append_dir_all(".", directory)?;
    files.into_inner()?.finish()?;
    Ok(())
}

/// Unpacks a file into a directory.
///
/// # Errors
///
/// If a file cannot be read or written.
pub fn unpack(packed: &Path, directory: &Path) -> Result<(), Failed> {
    std::fs::create_dir_all(directory)?;
    tar::Archive::new(GzDecoder::new(File::open(packed)?)).unpack(directory)?;
    Ok(())
}
