//! Segments of an archive as they are read: files of a directory, or the pieces of a bucket, one behind the other. Owns which
//! pieces belong to a segment: those that its writers say, and no other writer's.

use bytes::Bytes;

use super::ArchiveError;
use super::chunks::lengths;
use super::layout::{PieceRun, piece_name, pieces_folder, segment_file};
use super::opened::Archive;

/// A segment as far as it can be read.
#[derive(Debug, Clone)]
pub(crate) struct SegmentView {
    pub(crate) number: u64,
    pub(crate) first: u64,
    pub(crate) line: u64,
    pub(crate) bytes: u64,
    pub(crate) last: u64,
    /// `None` where it is one file.
    pub(crate) pieces: Option<ViewedPieces>,
}

/// The pieces of one.
#[derive(Debug, Clone)]
pub(crate) struct ViewedPieces {
    pub(crate) runs: Vec<PieceRun>,
    /// Where the last begins, if that is known.
    pub(crate) tail: Option<u64>,
}

/// One piece, as far as it is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) name: String,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// What was read of a segment.
pub(crate) struct ReadLog {
    pub(crate) bytes: Bytes,
    pieces: Vec<Piece>,
    name: String,
}

impl ReadLog {
    /// The file in which an offset of the segment is.
    pub(crate) fn name_at(&self, offset: u64) -> &str {
        let piece = self.pieces.iter().find(|piece| piece.from <= offset && offset < piece.to);
        piece.map_or(&self.name, |piece| &piece.name)
    }
}

fn damaged(archive: &Archive, name: &str, what: &str) -> ArchiveError {
    ArchiveError::Damaged { what: format!("`{}` {what}", archive.shown(name)) }
}

/// A segment from an offset on.
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
            let what = format!("is cut short: it should have {} bytes, and has {}", segment.bytes, part.length);
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
        bytes.extend_from_slice(part.ok_or_else(|| damaged(archive, &piece.name, "is cut short"))?);
    }
    Ok(ReadLog { bytes: bytes.into(), pieces, name: folder })
}

/// The pieces of a segment that has so many bytes, in order.
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
                        damaged(archive, &before.name, &format!("is cut short, or `{name}` behind it is missing"))
                    }
                    _ => damaged(archive, &path, "is cut short or missing"),
                });
            }
            let to = from.saturating_add(length).min(end);
            pieces.push(Piece { name: path, from, to });
            from = to;
        }
    }
    Ok(pieces)
}
