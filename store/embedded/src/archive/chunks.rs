//! Bases: all pairs of a snapshot, cut into chunks where the keys say so, each in a file that is called by its SHA-256. What
//! is there already is read and checked, and not written again. Owns the shape of chunks.
//!
//! ```text
//! chunk: (key length u32 | value length u32 | key | value) …
//! list:  SHA-256 (32 bytes) of each chunk, in order of the keys
//! ```

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::ArchiveError;
use super::sealed::{Files, hex, sha256};
use crate::disk::storage_error;
use crate::log::sync_directory;
use crate::private;

/// About how large chunks are. Ours: small enough that a change costs little, large enough that a million runs are a thousand files.
const CHUNK_BYTES: u64 = 1 << 20;
/// No chunk is cut before it has so much.
const CHUNK_MIN: usize = 256 << 10;
/// Each is cut when it has so much.
const CHUNK_MAX: usize = 4 << 20;
/// More is not believed: the largest value is 16 MiB.
const CHUNK_BELIEVED: u64 = 64 << 20;

/// What came of writing a base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrittenBase {
    pub(crate) list: String,
    pub(crate) pairs: u64,
    pub(crate) bytes: u64,
    /// Bytes of chunks that were there already.
    pub(crate) bytes_there: u64,
}

/// Writes the chunks of one base.
pub(crate) struct ChunkWriter<'a> {
    files: &'a Files,
    directory: PathBuf,
    chunk: Vec<u8>,
    list: Vec<u8>,
    pairs: u64,
    bytes: u64,
    bytes_there: u64,
}

impl<'a> ChunkWriter<'a> {
    pub(crate) fn new(files: &'a Files, directory: PathBuf) -> Self {
        let (chunk, list) = (Vec::new(), Vec::new());
        Self { files, directory, chunk, list, pairs: 0, bytes: 0, bytes_there: 0 }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn pairs(&self) -> u64 {
        self.pairs
    }

    /// Takes the next pair.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), ArchiveError> {
        for length in [key.len(), value.len()] {
            self.chunk.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
        }
        self.chunk.extend_from_slice(key);
        self.chunk.extend_from_slice(value);
        self.pairs += 1;
        let size = (8 + key.len() + value.len()) as u64;
        // By the keys alone, so that a change within a chunk leaves the others as they are.
        let is_cut = u64::from(crc32fast::hash(key)) * CHUNK_BYTES < size << 32;
        if self.chunk.len() >= CHUNK_MAX || self.chunk.len() >= CHUNK_MIN && is_cut {
            self.cut()?;
        }
        Ok(())
    }

    fn cut(&mut self) -> Result<(), ArchiveError> {
        let chunk = std::mem::take(&mut self.chunk);
        let digest = self.keep(&chunk)?;
        self.list.extend_from_slice(&digest);
        self.bytes += chunk.len() as u64;
        Ok(())
    }

    fn keep(&mut self, chunk: &[u8]) -> Result<[u8; 32], ArchiveError> {
        let digest = sha256(chunk);
        let name = hex(&digest);
        if read_chunk(&self.directory, &name).is_ok() {
            self.bytes_there += chunk.len() as u64;
            return Ok(digest);
        }
        let failed = |error: io::Error| storage_error(&error, "write chunks in", &self.directory);
        let new = self.directory.join("new");
        let mut file = private::create(&new).map_err(failed)?;
        self.files.write(&mut file, chunk).map_err(failed)?;
        self.files.sync(&file).map_err(failed)?;
        self.files.faults.point("archive: chunk").map_err(failed)?;
        std::fs::rename(&new, self.directory.join(&name)).map_err(failed)?;
        Ok(digest)
    }

    /// Writes what is left, and the list; durable on return.
    pub(crate) fn finish(mut self) -> Result<WrittenBase, ArchiveError> {
        if !self.chunk.is_empty() {
            self.cut()?;
        }
        let list = std::mem::take(&mut self.list);
        let list = hex(&self.keep(&list)?);
        sync_directory(&self.directory).map_err(|error| storage_error(&error, "write chunks in", &self.directory))?;
        Ok(WrittenBase { list, pairs: self.pairs, bytes: self.bytes, bytes_there: self.bytes_there })
    }
}

/// A chunk, whole.
pub(crate) fn read_chunk(directory: &Path, name: &str) -> Result<Vec<u8>, ArchiveError> {
    let path = directory.join(name);
    let damaged = |what: &str| ArchiveError::Damaged { what: format!("`{}` {what}", path.display()) };
    let mut file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(damaged("is missing")),
        opened => opened.map_err(|error| storage_error(&error, "read", &path))?,
    };
    let mut bytes = Vec::new();
    let read = file.by_ref().take(CHUNK_BELIEVED).read_to_end(&mut bytes);
    read.map_err(|error| storage_error(&error, "read", &path))?;
    if hex(&sha256(&bytes)) == name { Ok(bytes) } else { Err(damaged("is cut short or was changed")) }
}

/// The names of a base's chunks, in order of the keys.
pub(crate) fn read_list(directory: &Path, list: &str) -> Result<Vec<String>, ArchiveError> {
    let bytes = read_chunk(directory, list)?;
    let (digests, rest) = bytes.as_chunks::<32>();
    if !rest.is_empty() {
        return Err(ArchiveError::Damaged { what: format!("`{}` is no list", directory.join(list).display()) });
    }
    Ok(digests.iter().map(|digest| hex(digest)).collect())
}

/// The pairs of a chunk.
pub(crate) fn pairs(chunk: &Bytes) -> Result<Vec<(Bytes, Bytes)>, ArchiveError> {
    let mut pairs = Vec::new();
    let mut rest = chunk.clone();
    while !rest.is_empty() {
        let pair = take_pair(&mut rest);
        pairs.push(pair.ok_or_else(|| ArchiveError::Damaged { what: "a whole chunk ends within a pair".to_owned() })?);
    }
    Ok(pairs)
}

fn take_pair(rest: &mut Bytes) -> Option<(Bytes, Bytes)> {
    let mut length = || {
        let length = u32::from_le_bytes(*rest.first_chunk::<4>()?);
        *rest = rest.slice(4..);
        usize::try_from(length).ok()
    };
    let (key, value) = (length()?, length()?);
    if rest.len() < key.checked_add(value)? {
        return None;
    }
    let key = rest.split_to(key);
    Some((key, rest.split_to(value)))
}
