//! Bases: all key-value pairs of a snapshot of the store, divided into chunks at positions that depend only on the
//! pairs. Each chunk is a file named by its SHA-256. A chunk that already exists is checked but not written again: in a
//! directory, it is read and compared; in a bucket, its length is compared. This module owns the format of chunks.
//!
//! ```text
//! chunk: (key length u32 | value length u32 | key | value) …
//! list:  SHA-256 (32 bytes) of each chunk, in order of the keys
//! ```

use std::collections::BTreeMap;

use bytes::Bytes;

use super::ArchiveError;
use super::opened::Archive;
use super::sealed::{hex, sha256};

/// Average size of a chunk in bytes. Our choice: small enough that a change of a few pairs costs little, and large
/// enough that a million runs need only a thousand files.
const CHUNK_BYTES: u64 = 1 << 20;
/// Minimum size of a chunk. Only the last chunk of a base can be smaller.
const CHUNK_MIN: usize = 256 << 10;
/// Size at which a chunk is always ended.
const CHUNK_MAX: usize = 4 << 20;

/// Result of writing a base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrittenBase {
    pub(crate) list: String,
    pub(crate) pairs: u64,
    pub(crate) bytes: u64,
    /// Bytes of chunks that already existed in the archive.
    pub(crate) bytes_there: u64,
}

/// Writer of the chunks of one base.
pub(crate) struct ChunkWriter<'a> {
    archive: &'a Archive,
    folder: String,
    /// Existing chunks with their sizes; only for a bucket.
    there: BTreeMap<String, u64>,
    chunk: Vec<u8>,
    list: Vec<u8>,
    pairs: u64,
    bytes: u64,
    bytes_there: u64,
}

impl<'a> ChunkWriter<'a> {
    pub(crate) fn new(archive: &'a Archive, folder: String) -> Result<Self, ArchiveError> {
        let there = if archive.is_bucket() { lengths(archive, &folder)? } else { BTreeMap::new() };
        let (chunk, list) = (Vec::new(), Vec::new());
        Ok(Self { archive, folder, there, chunk, list, pairs: 0, bytes: 0, bytes_there: 0 })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn pairs(&self) -> u64 {
        self.pairs
    }

    /// Adds the next pair.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), ArchiveError> {
        for length in [key.len(), value.len()] {
            self.chunk.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
        }
        self.chunk.extend_from_slice(key);
        self.chunk.extend_from_slice(value);
        self.pairs += 1;
        let size = (8 + key.len() + value.len()) as u64;
        // Whether a chunk ends after a pair depends on the pair and on the chunk's size, and not on earlier chunks.
        // Therefore a change within one chunk does not move the ends of later chunks.
        let is_cut = u64::from(crc32fast::hash(key)) * CHUNK_BYTES < size << 32;
        if self.chunk.len() >= CHUNK_MAX || self.chunk.len() >= CHUNK_MIN && is_cut {
            self.cut()?;
        }
        Ok(())
    }

    fn cut(&mut self) -> Result<(), ArchiveError> {
        let chunk = std::mem::take(&mut self.chunk);
        self.bytes += chunk.len() as u64;
        let digest = self.keep(chunk)?;
        self.list.extend_from_slice(&digest);
        Ok(())
    }

    fn keep(&mut self, chunk: Vec<u8>) -> Result<[u8; 32], ArchiveError> {
        let (digest, length) = (sha256(&chunk), chunk.len() as u64);
        let name = hex(&digest);
        let is_there = if self.archive.is_bucket() {
            self.there.get(&name) == Some(&length)
        } else {
            read_chunk(self.archive, &self.folder, &name).is_ok()
        };
        if is_there {
            self.bytes_there += length;
        } else {
            self.archive.put_chunk(&self.folder, &name, &chunk.into())?;
        }
        Ok(digest)
    }

    /// Writes the last chunk and the list of all chunks. Both are durable on return.
    pub(crate) fn finish(mut self) -> Result<WrittenBase, ArchiveError> {
        if !self.chunk.is_empty() {
            self.cut()?;
        }
        let list = std::mem::take(&mut self.list);
        let list = hex(&self.keep(list)?);
        self.archive.place.sync(&self.folder)?;
        Ok(WrittenBase { list, pairs: self.pairs, bytes: self.bytes, bytes_there: self.bytes_there })
    }
}

/// Returns the files of a folder with their sizes.
pub(crate) fn lengths(archive: &Archive, folder: &str) -> Result<BTreeMap<String, u64>, ArchiveError> {
    let listed = archive.place.list(folder)?;
    Ok(listed.into_iter().filter_map(|file| Some((file.name, file.bytes?))).collect())
}

/// Reads a chunk and checks its digest.
pub(crate) fn read_chunk(archive: &Archive, folder: &str, name: &str) -> Result<Bytes, ArchiveError> {
    let path = format!("{folder}/{name}");
    let damaged = |what: &str| ArchiveError::Damaged { what: format!("`{}` {what}", archive.shown(&path)) };
    let Some(file) = archive.place.read(&path)? else { return Err(damaged("is missing")) };
    if hex(&sha256(&file.bytes)) == name { Ok(file.bytes) } else { Err(damaged("is truncated or was changed")) }
}

/// Returns the names of the chunks of a base, in order of their keys.
pub(crate) fn read_list(archive: &Archive, folder: &str, list: &str) -> Result<Vec<String>, ArchiveError> {
    let bytes = read_chunk(archive, folder, list)?;
    let (digests, rest) = bytes.as_chunks::<32>();
    if !rest.is_empty() {
        let what = format!("`{}` is not a list of chunks", archive.shown(&format!("{folder}/{list}")));
        return Err(ArchiveError::Damaged { what });
    }
    Ok(digests.iter().map(|digest| hex(digest)).collect())
}

/// Returns the pairs of a chunk.
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
