//! Directories in one small file each: most of a segment of the log is empty.

use std::fs::File;
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::record::Failed;

/// Packs what is in a directory.
///
/// # Errors
///
/// Whatever files do.
pub fn pack(directory: &Path, into: &Path) -> Result<(), Failed> {
    let mut files = tar::Builder::new(GzEncoder::new(File::create(into)?, Compression::best()));
    files.sparse(false);
    files.append_dir_all(".", directory)?;
    files.into_inner()?.finish()?;
    Ok(())
}

/// Makes a directory of what was packed.
///
/// # Errors
///
/// Whatever files do.
pub fn unpack(packed: &Path, directory: &Path) -> Result<(), Failed> {
    std::fs::create_dir_all(directory)?;
    tar::Archive::new(GzDecoder::new(File::open(packed)?)).unpack(directory)?;
    Ok(())
}
