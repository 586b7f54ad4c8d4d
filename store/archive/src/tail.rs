//! Archive copy of the log segment that is being written. In a directory, it is a file to which bytes are appended. In
//! a bucket, it consists of pieces. The last piece is put again each time bytes are added. When it is large enough, the
//! next piece begins.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::ArchiveError;
use super::layout::{Newest, OpenPieces, PieceRun, piece_name, pieces_folder, segment_file};
use super::opened::Archive;
use super::place::{FileTag, PutWhen};
use super::sealed::{Files, hex};
use store_embedded::files::{SegmentReader, storage_error, sync_directory};
use store_embedded::private;

/// Size at which a piece is complete and is not put again. Our choice: an amount that even a slow connection can send
/// again with each put.
const PIECE_BYTES: usize = 256 << 10;
/// Maximum number of bytes that are collected for one put.
const PIECE_MAX: usize = 4 << 20;

/// Archive copy of the segment that is being written.
pub(crate) struct ArchiveTail {
    pub(crate) number: u64,
    /// Length of the copy in bytes.
    pub(crate) end: u64,
    to: ArchiveTailTo,
}

enum ArchiveTailTo {
    File { file: File, path: PathBuf, files: Files },
    Pieces(PieceWriter),
}

/// Writes pieces to a bucket. Each put names the version that it replaces, so that a late put has no effect.
struct PieceWriter {
    folder: String,
    runs: Vec<PieceRun>,
    writer: u64,
    /// Offset of the last piece in the segment.
    from: u64,
    bytes: Vec<u8>,
    /// Number of bytes of the last piece that were put.
    there: usize,
    tag: Option<FileTag>,
    /// Digest of all bytes of the segment so far.
    digest: Sha256,
    /// True if earlier writers may have left pieces that are not needed.
    is_resumed: bool,
}

impl ArchiveTail {
    /// Begins the copy of a segment with the segment's header.
    pub(crate) fn begin(
        archive: &Archive,
        epoch: &str,
        number: u64,
        header: &[u8],
        writer: u64,
    ) -> Result<Self, ArchiveError> {
        let end = header.len() as u64;
        let Some(root) = archive.place.directory() else {
            let digest = Sha256::new_with_prefix(header);
            let (folder, runs) = (pieces_folder(epoch, number), vec![PieceRun { writer, from: 0 }]);
            let (bytes, tag) = (header.to_vec(), None);
            let pieces = PieceWriter { folder, runs, writer, from: 0, bytes, there: 0, tag, digest, is_resumed: false };
            return Ok(Self { number, end, to: ArchiveTailTo::Pieces(pieces) });
        };
        let path = root.join(segment_file(epoch, number));
        let files = Files { faults: std::sync::Arc::clone(&archive.faults) };
        let failed = |error: io::Error| storage_error(&error, "write", &path);
        let mut file = private::create(&path).map_err(failed)?;
        files.write(&mut file, header).map_err(failed)?;
        files.sync(&file).map_err(failed)?;
        path.parent().map_or(Ok(()), sync_directory).map_err(failed)?;
        Ok(Self { number, end, to: ArchiveTailTo::File { file, path, files } })
    }

    /// Continues at the recorded end of the archived log. Returns `None` if the store's log and the archived log differ
    /// before that end.
    pub(crate) fn resume(
        archive: &Archive,
        epoch: &str,
        newest: &Newest,
        from: &SegmentReader,
        writer: u64,
    ) -> Result<Option<Self>, ArchiveError> {
        let (number, end) = (newest.segment, newest.bytes);
        let to = match (archive.place.directory(), &newest.pieces) {
            (None, Some(open)) => PieceWriter::resume(pieces_folder(epoch, number), open, end, from, writer)?,
            (Some(root), None) => resume_file(archive, &root.join(segment_file(epoch, number)), end, from)?,
            (None, None) | (Some(_), Some(_)) => None,
        };
        Ok(to.map(|to| Self { number, end, to }))
    }

    /// Removes bytes beyond the recorded end.
    pub(crate) fn trim(&mut self) -> Result<(), ArchiveError> {
        let ArchiveTailTo::File { file, path, .. } = &mut self.to else { return Ok(()) };
        let trimmed = file.set_len(self.end).and_then(|()| file.seek(SeekFrom::End(0)));
        trimmed.map_err(|error| storage_error(&error, "write", path))?;
        Ok(())
    }

    /// Appends complete frames.
    pub(crate) fn write(&mut self, archive: &Archive, bytes: &[u8]) -> Result<(), ArchiveError> {
        match &mut self.to {
            ArchiveTailTo::File { file, path, files } => {
                files.write(file, bytes).map_err(|error| storage_error(&error, "write the log to", path))?;
            }
            ArchiveTailTo::Pieces(pieces) => {
                pieces.bytes.extend_from_slice(bytes);
                pieces.digest.update(bytes);
                if pieces.bytes.len() >= PIECE_MAX {
                    pieces.put(archive)?;
                }
            }
        }
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Makes all appended bytes durable.
    pub(crate) fn sync(&mut self, archive: &Archive) -> Result<(), ArchiveError> {
        match &mut self.to {
            ArchiveTailTo::File { file, path, files } => {
                Ok(files.sync(file).map_err(|error| storage_error(&error, "write the log to", path))?)
            }
            ArchiveTailTo::Pieces(pieces) => pieces.put(archive),
        }
    }

    /// Returns the pieces of the segment. `None` if it is a single file.
    pub(crate) fn pieces(&self) -> Option<OpenPieces> {
        let ArchiveTailTo::Pieces(PieceWriter { runs, from, digest, .. }) = &self.to else { return None };
        Some(OpenPieces { runs: runs.clone(), tail: *from, sha256: hex(&digest.clone().finalize()) })
    }

    /// Returns whether earlier writers may have left pieces that are not needed.
    pub(crate) fn is_resumed(&self) -> bool {
        matches!(&self.to, ArchiveTailTo::Pieces(pieces) if pieces.is_resumed)
    }
}

impl PieceWriter {
    fn resume(
        folder: String,
        open: &OpenPieces,
        end: u64,
        log: &SegmentReader,
        writer: u64,
    ) -> Result<Option<ArchiveTailTo>, ArchiveError> {
        let (mut digest, mut bytes) = (Sha256::new(), Vec::new());
        for piece in log.pieces(0, end) {
            let (offset, part) = piece?;
            digest.update(&part);
            let skipped = usize::try_from(open.tail.saturating_sub(offset)).unwrap_or(usize::MAX);
            bytes.extend_from_slice(part.get(skipped..).unwrap_or_default());
        }
        if hex(&digest.clone().finalize()) != open.sha256 {
            return Ok(None);
        }
        // This writer puts the last piece again, under a name that contains the writer's id.
        let mut runs = open.runs.clone();
        runs.retain(|run| run.from < open.tail);
        runs.push(PieceRun { writer, from: open.tail });
        let (from, tag) = (open.tail, None);
        let pieces = Self { folder, runs, writer, from, bytes, there: 0, tag, digest, is_resumed: true };
        Ok(Some(ArchiveTailTo::Pieces(pieces)))
    }

    fn put(&mut self, archive: &Archive) -> Result<(), ArchiveError> {
        if self.there == self.bytes.len() {
            return Ok(());
        }
        let name = format!("{}/{}", self.folder, piece_name(self.from, self.writer));
        let when = self.tag.as_ref().map_or(PutWhen::Absent, PutWhen::Unchanged);
        let Some(tag) = archive.put(&name, &Bytes::copy_from_slice(&self.bytes), when)? else {
            let why = format!("another process has written `{}`", archive.shown(&name));
            return Err(ArchiveError::Away { why });
        };
        (self.tag, self.there) = (Some(tag), self.bytes.len());
        if self.there >= PIECE_BYTES {
            self.from += self.there as u64;
            (self.tag, self.there) = (None, 0);
            self.bytes.clear();
        }
        Ok(())
    }
}

/// Fails if the archive was copied from a directory to a bucket or from a bucket to a directory.
pub(crate) fn check_form(archive: &Archive, newest: &Newest) -> Result<(), ArchiveError> {
    let has_pieces = newest.pieces.is_some();
    if newest.segment == 0 || has_pieces == archive.is_bucket() {
        return Ok(());
    }
    let (of, here) = if has_pieces { ("a bucket", "directory") } else { ("a directory", "bucket") };
    let why = format!(
        "the archive `{archive}` was copied from {of} to this {here}: it can be restored but not continued. Name \
         another location"
    );
    Err(ArchiveError::Refused { why })
}

fn resume_file(
    archive: &Archive,
    path: &Path,
    end: u64,
    log: &SegmentReader,
) -> Result<Option<ArchiveTailTo>, ArchiveError> {
    let failed = |error: io::Error| storage_error(&error, "write", path);
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
    if log.bytes()? < end {
        return Ok(None);
    }
    for piece in log.pieces(0, end) {
        let (offset, ours) = piece?;
        let mut theirs = vec![0; ours.len()];
        match file.read_exact_at(&mut theirs, offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read.map_err(failed)?,
        }
        if ours != theirs {
            return Ok(None);
        }
    }
    let files = Files { faults: std::sync::Arc::clone(&archive.faults) };
    Ok(Some(ArchiveTailTo::File { file, path: path.to_owned(), files }))
}
