//! Removes data from an archive that is no longer needed.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Shipper;
use crate::ArchiveError;
use crate::chunks::read_list;
use crate::layout::{ArchivedSegment, SegmentEnd, chunks_folder, pieces_folder, segment_file};
use crate::pieces::pieces_of;
use store_embedded::files::now;

/// Maximum difference between the clock and the time of the last but one base, in milliseconds. A clock that is further
/// ahead is treated as if it showed this difference. Otherwise a clock that is temporarily years ahead would cause the
/// removal of all bases except the newest. Our choice: one day. If bases are taken less often than once a day, old data
/// is kept longer.
const AHEAD_MAX: u64 = 24 * 3_600 * 1_000;

/// Returns the earliest instant to which a restore must still be possible.
fn kept_since(bases: impl DoubleEndedIterator<Item = u64>, now: u64, keep: Duration) -> u64 {
    let now = bases.rev().nth(1).map_or(now, |base| now.min(base.saturating_add(AHEAD_MAX)));
    now.saturating_sub(u64::try_from(keep.as_millis()).unwrap_or(u64::MAX))
}

impl Shipper {
    /// Removes data that is not needed for a restore to any instant within `keep`.
    pub(crate) fn forget(&mut self, keep: Duration) -> Result<(), ArchiveError> {
        let since = kept_since(self.manifest.bases.iter().map(|base| base.instant), now(), keep);
        let Some(first) = self.manifest.bases.iter().rposition(|base| base.instant <= since).filter(|first| *first > 0)
        else {
            return Ok(());
        };
        self.manifest.bases.drain(..first);
        let position = self.manifest.bases.first().map_or(0, |base| base.position);
        let is_old = |segment: &ArchivedSegment| segment.end.as_ref().is_some_and(|end| end.last <= position);
        let (old, kept) = std::mem::take(&mut self.manifest.segments).into_iter().partition::<Vec<_>, _>(is_old);
        self.manifest.segments = kept;
        self.put_manifest()?;
        for segment in old {
            let folder = pieces_folder(&self.folder, segment.number);
            if segment.end.as_ref().is_some_and(|end| end.pieces.is_some()) {
                for piece in self.archive.place.list(&folder)? {
                    self.archive.place.remove(&format!("{folder}/{}", piece.name))?;
                }
            } else {
                self.archive.place.remove(&segment_file(&self.folder, segment.number))?;
            }
        }
        self.forget_chunks()
    }

    fn forget_chunks(&self) -> Result<(), ArchiveError> {
        let folder = chunks_folder(&self.folder);
        let mut kept = BTreeSet::new();
        for base in &self.manifest.bases {
            kept.extend(read_list(&self.archive, &folder, &base.list)?);
            kept.insert(base.list.clone());
        }
        for file in self.archive.place.list(&folder)? {
            if !kept.contains(&file.name) {
                self.archive.place.remove(&format!("{folder}/{}", file.name))?;
            }
        }
        Ok(())
    }

    /// Removes, from a closed segment, pieces that another writer has replaced.
    pub(super) fn tidy(&self, number: u64, end: &SegmentEnd) -> Result<(), ArchiveError> {
        let Some(runs) = &end.pieces else { return Ok(()) };
        let folder = pieces_folder(&self.folder, number);
        let needed: BTreeSet<_> =
            pieces_of(&self.archive, &folder, runs, end.bytes)?.into_iter().map(|piece| piece.name).collect();
        for file in self.archive.place.list(&folder)? {
            let name = format!("{folder}/{}", file.name);
            if !needed.contains(&name) {
                self.archive.place.remove(&name)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_far_ahead_expires_no_needed_base() {
        const HOUR: u64 = 3_600 * 1_000;
        let (day, keep) = (24 * HOUR, Duration::from_secs(7 * 24 * 3_600));
        let bases = |count: u64| (1..=count).map(move |number| number * day);
        assert_eq!(kept_since(bases(20), 20 * day + HOUR, keep), 13 * day, "the last but one is a day old");
        // A clock that is two years ahead has the same effect as a clock that is one day ahead. This holds even if a
        // base was taken in the meantime.
        assert_eq!(kept_since(bases(20), 750 * day, keep), 13 * day);
        assert_eq!(kept_since(bases(20).chain([750 * day]), 750 * day, keep), 14 * day);
        assert_eq!(kept_since(bases(1), 20 * day, keep), 13 * day, "the only base never expires");
    }
}
