//! Reads the log back: from the checkpoint's position to the end, in order, without a gap. Owns the judgement of what is
//! a torn end, which was never acknowledged and is cut off, and what is damage, at which the store refuses to open.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use store::Error;

use crate::frame::{Frame, SEGMENT_HEADER, SegmentHeader, frame_at, frame_behind};
use crate::log::{find_segments, segment_path};
use crate::storage_error;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// The last batch of the log.
    pub(crate) last_batch: u64,
    /// Batches after the checkpoint's position, which were handed to `replay`.
    pub(crate) batches_replayed: u64,
    /// Bytes read from the log.
    pub(crate) bytes_read: u64,
    /// Bytes of a torn end that were cut off.
    pub(crate) bytes_cut: u64,
    /// The segments: first batch, size.
    pub(crate) segments: Vec<(u64, u64)>,
}

/// Hands every batch after `position` to `replay`, oldest first.
pub(crate) fn recover(
    directory: &Path,
    position: u64,
    mut replay: impl FnMut(&Frame<'_>) -> Result<(), Error>,
) -> Result<Recovered, Error> {
    let firsts =
        find_segments(directory).map_err(|error| storage_error(&error, "list the log's segments", directory))?;
    let mut recovered = Recovered {
        last_batch: position,
        ..Recovered::default()
    };
    match firsts.first() {
        None if position == 0 => return Ok(recovered),
        None => return Err(missing(directory, position + 1, "no segment of the log is there")),
        Some(first) if *first > position + 1 => {
            return Err(missing(
                directory,
                position + 1,
                &format!("the oldest segment begins with batch {first}"),
            ));
        }
        Some(first) => recovered.last_batch = first.saturating_sub(1),
    }
    for (index, first) in firsts.iter().enumerate() {
        if *first != recovered.last_batch + 1 {
            let found = format!("the segment after it begins with batch {first}");
            return Err(missing(directory, recovered.last_batch + 1, &found));
        }
        let is_last = index + 1 == firsts.len();
        read_segment(
            &segment_path(directory, *first),
            *first,
            is_last,
            position,
            &mut recovered,
            &mut replay,
        )?;
    }
    if recovered.last_batch < position {
        let found = format!("the log ends with batch {}", recovered.last_batch);
        return Err(missing(directory, recovered.last_batch + 1, &found));
    }
    Ok(recovered)
}

fn missing(directory: &Path, batch: u64, found: &str) -> Error {
    Error::Corrupt {
        what: format!(
            "the log in `{}` should go on with batch {batch}, but {found}; acknowledged commits are missing. Restore the \
             directory from a backup, or put the missing file back",
            directory.display()
        ),
    }
}

fn read_segment(
    path: &Path,
    first: u64,
    is_last: bool,
    position: u64,
    recovered: &mut Recovered,
    replay: &mut impl FnMut(&Frame<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let failed = |error: &std::io::Error| storage_error(error, "read a segment of the log", path);
    let corrupt = |offset: usize, why: &str| Error::Corrupt {
        what: format!(
            "segment `{}` at offset {offset}: {why}. Restore the directory from a backup",
            path.display()
        ),
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(|error| failed(&error))?;
    recovered.bytes_read += bytes.len() as u64;
    let header = SegmentHeader::decode(&bytes).map_err(|why| corrupt(0, &why))?;
    if header.first_batch != first {
        return Err(corrupt(
            0,
            &format!("its header says that it begins with batch {}", header.first_batch),
        ));
    }
    let mut offset = SEGMENT_HEADER;
    while let Some(frame) = bytes.get(offset..).and_then(|rest| {
        let next = recovered.last_batch + 1;
        frame_at(rest, header.salt, next..next + 1)
    }) {
        if frame.batch > position {
            replay(&frame)?;
            recovered.batches_replayed += 1;
        }
        recovered.last_batch = frame.batch;
        offset += frame.size;
    }
    offset = offset.min(bytes.len());
    let rest = bytes.get(offset..).unwrap_or_default();
    if let Some(behind) = frame_behind(rest, header.salt, recovered.last_batch + 1) {
        let why = format!(
            "batch {} cannot be read, and a later one at offset {} can; acknowledged commits are damaged",
            recovered.last_batch + 1,
            offset + behind
        );
        return Err(corrupt(offset, &why));
    }
    if is_last {
        recovered.bytes_cut += rest
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last as u64 + 1);
        secure(path, bytes.get(..offset).unwrap_or_default()).map_err(|error| failed(&error))?;
    }
    // A segment without a frame is replaced by the next one, which gets the same name.
    if offset > SEGMENT_HEADER {
        recovered
            .segments
            .push((first, if is_last { offset as u64 } else { bytes.len() as u64 }));
    }
    Ok(())
}

/// Cuts the last segment where its frames end, and writes it again before anybody is shown what it holds: its last
/// frames may be in the page cache only, and after a failed sync the kernel takes them for written.
fn secure(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.set_len(bytes.len() as u64)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(bytes)?;
    file.sync_all()
}
