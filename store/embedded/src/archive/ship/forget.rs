//! What an archive does not need any more, and goes.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Shipper;
use crate::archive::ArchiveError;
use crate::archive::chunks::read_list;
use crate::archive::layout::{ArchivedSegment, SegmentEnd, chunks_folder, pieces_folder, segment_file};
use crate::archive::pieces::pieces_of;
use crate::instant;

impl Shipper {
    /// Removes what no restore to an instant within `keep` needs.
    pub(crate) fn forget(&mut self, keep: Duration) -> Result<(), ArchiveError> {
        let keep = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        let since = instant::now().saturating_sub(keep);
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

    /// Removes pieces of a closed segment that do not belong to it: others have been put in their place.
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
