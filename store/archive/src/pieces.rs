//! Reads the segments of an archive. In a directory, a segment is one file. In a bucket, it consists of consecutive
//! pieces. Only pieces put by the writers that are recorded for the segment belong to it.

use bytes::Bytes;

use super::ArchiveError;
use super::chunks::lengths;
use super::layout::{PieceRun, piece_name, pieces_folder, segment_file};
use super::opened::Archive;

/// The part of a segment that can be read.
#[derive(Debug, Clone)]
pub(crate) struct SegmentView {
    pub(crate) number: u64,
    pub(crate) first: u64,
    pub(crate) line: u64,
    pub(crate) bytes: u64,
    pub(crate) last: u64,
    /// Pieces of the segment, or `None` if the segment is a single file.
    pub(crate) pieces: Option<ViewedPieces>,
}

/// Pieces of a segment.
#[derive(Debug, Clone)]
pub(crate) struct ViewedPieces {
    pub(crate) runs: Vec<PieceRun>,
    /// Offset of the last piece, if known.
    pub(crate) tail: Option<u64>,
}

/// A piece from which bytes are read: its file, and the range of the segment's offsets to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) name: String,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// Bytes read from a segment.
pub(crate) struct ReadLog {
    pub(crate) bytes: Bytes,
    pieces: Vec<Piece>,
    name: String,
}

impl ReadLog {
    /// Returns the name of the file that contains this offset of the segment.
    pub(crate) fn name_at(&self, offset: u64) -> &str {
        let piece = self.pieces.iter().find(|piece| piece.from <= offset && offset < piece.to);
        piece.map_or(&self.name, |piece| &piece.name)
    }
}

fn damaged(archive: &Archive, name: &str, what: &str) -> ArchiveError {
    ArchiveError::Damaged { what: format!("`{}` {what}", archive.shown(name)) }
}

/// Reads a segment, beginning at an offset.
pub(crate) fn read_log(
    archive: &Archive,
    epoch: &str,
    segment: &SegmentView,
    from: u64,
) -> Result<ReadLog, ArchiveError> {
    let Some(viewed) = &segment.pieces else {
        let name = segment_file(epoch, segment.number);
        let part = archive.place.read_part(&name, from, segment.bytes)?;
        let part = part.ok_or_else(|| damaged(archive, &name, "is missing"))?;
        if part.length < segment.bytes {
            let what = format!("is truncated: it should have {} bytes, but has {}", segment.bytes, part.length);
            return Err(damaged(archive, &name, &what));
        }
        return Ok(ReadLog { bytes: part.bytes, pieces: Vec::new(), name });
    };
    let folder = pieces_folder(epoch, segment.number);
    let pieces = match (viewed.tail, viewed.runs.last()) {
        (Some(tail), Some(run)) if tail <= from => {
            vec![Piece { name: format!("{folder}/{}", piece_name(tail, run.writer)), from: tail, to: segment.bytes }]
        }
        _ => pieces_of(archive, &folder, &viewed.runs, segment.bytes)?,
    };
    let mut bytes = Vec::new();
    for piece in pieces.iter().filter(|piece| piece.to > from) {
        let within = |offset: u64| usize::try_from(offset.saturating_sub(piece.from)).unwrap_or(usize::MAX);
        let file = archive.place.read(&piece.name)?;
        let file = file.ok_or_else(|| damaged(archive, &piece.name, "is missing"))?;
        let part = file.bytes.get(within(from)..within(piece.to));
        bytes.extend_from_slice(part.ok_or_else(|| damaged(archive, &piece.name, "is truncated"))?);
    }
    Ok(ReadLog { bytes: bytes.into(), pieces, name: folder })
}

/// Returns the pieces of a segment of this size, in the order of their offsets.
pub(crate) fn pieces_of(
    archive: &Archive,
    folder: &str,
    runs: &[PieceRun],
    bytes: u64,
) -> Result<Vec<Piece>, ArchiveError> {
    let lengths = lengths(archive, folder)?;
    let mut pieces: Vec<Piece> = Vec::new();
    let ends = runs.iter().skip(1).map(|run| run.from).chain([bytes]);
    for (run, end) in runs.iter().zip(ends) {
        let mut from = run.from;
        while from < end {
            let name = piece_name(from, run.writer);
            let length = lengths.get(&name).copied().unwrap_or_default();
            let path = format!("{folder}/{name}");
            if length == 0 {
                return Err(match pieces.last() {
                    Some(before) if !lengths.contains_key(&name) => {
                        damaged(archive, &before.name, &format!("is truncated, or its successor `{name}` is missing"))
                    }
                    _ => damaged(archive, &path, "is truncated or missing"),
                });
            }
            let to = from.saturating_add(length).min(end);
            pieces.push(Piece { name: path, from, to });
            from = to;
        }
    }
    Ok(pieces)
}
