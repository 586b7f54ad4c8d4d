//! redb as one sorted map of bytes, together with the log position up to which it contains everything. Large values may
//! stay in the log instead. This module begins and commits transactions, and does not interpret keys. Every value has a
//! checksum (`sums.rs`). The checksums of redb's own pages are verified when a small file is opened, or on request.

mod opening;
mod snapshot;
mod tables;

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata};
use store::Error;

use crate::disk::storage_error;
use crate::logged_values::can_be_logged;
use crate::places::{self, NeededSegments, PlaceChanges, StoredLoggedValues};
use crate::private;
use crate::sums;
use crate::tree::opening::{VERIFIED_AT_OPEN_MAX, add_sums, verify};
use crate::tree::tables::{COPIED, MAP, META, Number, POSITION, SUMMED, TERMS, begin_write, failed, guarded};
use crate::values::{LogPlace, ValueFiles};

pub(crate) use opening::Verify;
pub use snapshot::{Pairs, Snapshot};

/// Map of keys and values in redb. It contains all data that is no longer in the log.
#[derive(Debug)]
pub struct Tree {
    database: RwLock<Option<Database>>,
    has_terms: AtomicBool,
    files: Arc<ValueFiles>,
    /// True if values stay in the log, or did since the file was opened.
    has_places: AtomicBool,
    needed: Mutex<NeededSegments>,
    writes: AtomicU64,
    bytes_written: AtomicU64,
}

/// Change of a key's value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PairChange<'a> {
    Put(&'a [u8]),
    /// The value stays in the log at this location.
    Stay(LogPlace),
    Remove,
}

impl<'a> From<Option<&'a [u8]>> for PairChange<'a> {
    fn from(value: Option<&'a [u8]>) -> Self {
        value.map_or(Self::Remove, Self::Put)
    }
}

/// Snapshot of all pairs in redb, and the log position up to which it certainly contains everything.
pub struct WholeSnapshot {
    /// The pairs.
    pub map: Snapshot,
    /// Last batch that is completely in `map`.
    pub position: u64,
    /// Number of pairs.
    pub pairs: u64,
}

impl Tree {
    /// Opens or creates the file of redb, for a store whose values are all in redb. Also returns the log position up to
    /// which the file contains everything.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] or [`Error::Corrupt`] if redb cannot be read or written.
    pub fn open(path: &Path, cache_bytes: usize) -> Result<(Self, u64), Error> {
        Self::open_with(path, cache_bytes, ValueFiles::default(), Verify::IfSmall)
    }

    /// Opens or creates the file of redb, for a store whose large values may stay in the log.
    pub(crate) fn open_with(
        path: &Path,
        cache_bytes: usize,
        files: ValueFiles,
        verify: Verify,
    ) -> Result<(Self, u64), Error> {
        guarded(|| Self::open_file(path, cache_bytes, files, verify))
    }

    fn open_file(path: &Path, cache_bytes: usize, files: ValueFiles, verified: Verify) -> Result<(Self, u64), Error> {
        let file = private::open(OpenOptions::new().read(true).write(true).create(true).truncate(false), path)
            .map_err(|error| storage_error(&error, "open", path))?;
        let length = file.metadata().map_err(|error| storage_error(&error, "inspect", path))?.len();
        let mut database = Database::builder().set_cache_size(cache_bytes).create_file(file).map_err(failed)?;
        if length > 0 && (verified == Verify::Always || length <= VERIFIED_AT_OPEN_MAX) {
            verify(&mut database)?;
        }
        let txn = begin_write(&database)?;
        let (is_empty, is_summed) = {
            let map = txn.open_table(MAP).map_err(failed)?;
            let mut meta = txn.open_table(META).map_err(failed)?;
            let is_empty = map.is_empty().map_err(failed)? && meta.is_empty().map_err(failed)?;
            let is_summed = meta.get(SUMMED).map_err(failed)?.is_some();
            if is_empty {
                meta.insert(SUMMED, 1).map_err(failed)?;
            }
            (is_empty, is_summed)
        };
        txn.commit().map_err(failed)?;
        if !is_empty && !is_summed {
            add_sums(&mut database)?;
        }
        let txn = begin_write(&database)?;
        let needed = NeededSegments::load(&txn).map_err(failed)?;
        let (position, has_terms) = {
            let meta = txn.open_table(META).map_err(failed)?;
            let position = POSITION.get(&meta)?.unwrap_or(0);
            let terms = meta.get(TERMS).map_err(failed)?.map(|terms| terms.value());
            (position, terms == Some(position))
        };
        txn.commit().map_err(failed)?;
        let tree = Self {
            database: RwLock::new(Some(database)),
            has_terms: AtomicBool::new(has_terms),
            files: Arc::new(files),
            has_places: AtomicBool::new(!needed.is_empty()),
            needed: Mutex::new(needed),
            writes: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
        };
        Ok((tree, position))
    }

    /// Returns whether every row has its index entries by workflow type and tag (`terms.rs`).
    pub(crate) fn has_terms(&self) -> bool {
        self.has_terms.load(Ordering::Relaxed)
    }

    /// Records in redb that every row has its index entries by workflow type and tag.
    pub(crate) fn record_has_terms(&self) -> Result<(), Error> {
        let txn = self.with(begin_write)?;
        {
            let mut meta = txn.open_table(META).map_err(failed)?;
            let position = POSITION.get(&meta)?.unwrap_or(0);
            meta.insert(TERMS, position).map_err(failed)?;
        }
        txn.commit().map_err(failed)?;
        self.has_terms.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn with<T>(&self, call: impl FnOnce(&Database) -> Result<T, Error>) -> Result<T, Error> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        call(database.as_ref().ok_or_else(|| Error::Failed { why: "the store was closed".to_owned() })?)
    }

    /// Returns the segments of the log that contain needed values.
    pub(crate) fn needed(&self) -> MutexGuard<'_, NeededSegments> {
        self.needed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a snapshot of the map, and a transaction that reads the other tables from the same moment.
    fn read(&self) -> Result<(Snapshot, redb::ReadTransaction), Error> {
        guarded(|| {
            self.with(|database| {
                let reading = self.needed().reading();
                let txn = database.begin_read().map_err(failed)?;
                let map = txn.open_table(MAP).map_err(failed)?;
                // `has_places` is set before the first location becomes visible, so no location can be missed.
                let has_places = self.has_places.load(Ordering::SeqCst);
                let logged = has_places
                    .then(|| StoredLoggedValues::of(&txn, &self.files, reading))
                    .transpose()
                    .map_err(failed)?;
                Ok((Snapshot { map, logged }, txn))
            })
        })
    }

    /// Returns a snapshot of the map.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, Error> {
        Ok(self.read()?.0)
    }

    /// Returns a snapshot of the map, with its log position.
    pub(crate) fn whole(&self) -> Result<WholeSnapshot, Error> {
        let (map, txn) = self.read()?;
        let meta = txn.open_table(META).map_err(failed)?;
        let position = POSITION.get(&meta)?.unwrap_or(0);
        let pairs = map.map.len().map_err(failed)?;
        Ok(WholeSnapshot { map, position, pairs })
    }

    /// Returns values that stay in this segment of the log, up to this many bytes, but at least one.
    pub(crate) fn logged_values_in(&self, segment: u64, most_bytes: usize) -> Result<Vec<(Bytes, Bytes)>, Error> {
        let (_, txn) = self.read()?;
        let places = guarded(|| places::logged_values_in(&txn, segment, most_bytes).map_err(failed))?;
        let read = |(key, place): (Bytes, LogPlace)| {
            let value = self.files.read(place).map_err(|error| sums::named(&key, error))?;
            Ok((key, value))
        };
        places.into_iter().map(read).collect()
    }

    /// Returns whether any value stays in this segment. This examines the table of these values instead of relying on
    /// the stored number of needed bytes of the segment.
    pub(crate) fn has_logged_value(&self, segment: u64) -> Result<bool, Error> {
        let (_, txn) = self.read()?;
        guarded(|| places::has_logged_value(&txn, segment).map_err(failed))
    }

    /// Closes the file of a segment that has no readers any more.
    pub(crate) fn close_segment(&self, segment: u64) {
        self.files.close(segment);
    }

    /// Returns the batch up to which a copy of a store is complete, or `None` if the copy does not yet contain its
    /// whole base (snapshot of the copied store).
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] or [`Error::Corrupt`] if redb cannot be read or written.
    pub fn copied(&self) -> Result<Option<u64>, Error> {
        self.with(|database| {
            let txn = database.begin_read().map_err(failed)?;
            let meta = txn.open_table(META).map_err(failed)?;
            COPIED.get(&meta)
        })
    }

    /// Writes some pairs of a copy and, if given, the batch up to which the copy is then complete, in one transaction.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] or [`Error::Corrupt`] if redb cannot be read or written.
    pub fn write_copy<'a>(
        &self,
        pairs: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
        copied: Option<u64>,
    ) -> Result<(), Error> {
        self.write_with(pairs.map(|(key, value)| (key, value.into())), copied.map(|copied| (COPIED, copied)))
    }

    /// Writes some pairs in one transaction; `None` removes a key. If a position is given, also records that the map
    /// contains everything up to that log position.
    pub(crate) fn write<'a>(
        &self,
        pairs: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
        position: Option<u64>,
    ) -> Result<(), Error> {
        self.change(pairs.map(|(key, value)| (key, value.into())), position)
    }

    /// Works like [`write`](Self::write), for pairs whose values may stay in the log.
    pub(crate) fn change<'a>(
        &self,
        pairs: impl Iterator<Item = (&'a [u8], PairChange<'a>)>,
        position: Option<u64>,
    ) -> Result<(), Error> {
        self.write_with(pairs, position.map(|position| (POSITION, position)))
    }

    fn write_with<'a>(
        &self,
        pairs: impl Iterator<Item = (&'a [u8], PairChange<'a>)>,
        mark: Option<(Number, u64)>,
    ) -> Result<(), Error> {
        guarded(|| self.write_unguarded(pairs, mark))
    }

    fn write_unguarded<'a>(
        &self,
        pairs: impl Iterator<Item = (&'a [u8], PairChange<'a>)>,
        mark: Option<(Number, u64)>,
    ) -> Result<(), Error> {
        let txn = self.with(begin_write)?;
        let needs = {
            let mut map = txn.open_table(MAP).map_err(failed)?;
            let has_places = self.has_places.load(Ordering::SeqCst);
            let mut places = PlaceChanges::begin(&txn, has_places).map_err(failed)?;
            let (mut bytes, mut sealed) = (0, Vec::new());
            for (key, change) in pairs {
                let old = match change {
                    PairChange::Put(value) => {
                        sums::seal(&mut sealed, key, value);
                        map.insert(key, sealed.as_slice())
                    }
                    PairChange::Stay(_) => {
                        sums::seal_logged(&mut sealed, key);
                        map.insert(key, sealed.as_slice())
                    }
                    PairChange::Remove => {
                        sealed.clear();
                        map.remove(key)
                    }
                };
                bytes += key.len() + sealed.len();
                let may_have_been_logged = old.map_err(failed)?.is_some_and(|old| sums::may_mean_logged(old.value()));
                if may_have_been_logged && can_be_logged(key) {
                    places.remove(key).map_err(failed)?;
                }
                if let PairChange::Stay(place) = change {
                    bytes += size_of::<LogPlace>() + key.len();
                    places.put(key, place).map_err(failed)?;
                }
            }
            self.bytes_written.fetch_add(bytes as u64, Ordering::Relaxed);
            if let Some((name, number)) = mark {
                let mut meta = txn.open_table(META).map_err(failed)?;
                name.put(&mut meta, number)?;
                if name.name == POSITION.name && self.has_terms() {
                    meta.insert(TERMS, number).map_err(failed)?;
                }
            }
            places.end().map_err(failed)?
        };
        self.writes.fetch_add(1, Ordering::Relaxed);
        if !needs.is_empty() {
            self.has_places.store(true, Ordering::SeqCst);
        }
        txn.commit().map_err(failed)?;
        self.needed().apply(needs);
        Ok(())
    }

    /// Returns the number of transactions that were written.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes of pairs that were written, without the overhead of redb.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    /// Compacts the file, and returns the freed space to the disk. The map must not be used at the same time.
    pub(crate) fn compact(&self) -> Result<bool, Error> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        let Some(database) = database.as_mut() else {
            return Ok(false);
        };
        database.compact().map_err(|error| Error::Failed { why: format!("redb: {error}") })
    }

    /// Closes the file.
    pub fn close(&self) {
        self.database.write().unwrap_or_else(PoisonError::into_inner).take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshots_values_are_readable_while_it_is_held() {
        let directory = tempfile::TempDir::new().unwrap();
        let log = directory.path().to_owned();
        std::fs::write(crate::names::values_path(&log, 1), b"before value behind").unwrap();
        let files = ValueFiles::new(log, Arc::default(), Arc::default());
        let path = directory.path().join("tree.redb");
        let (tree, _) = Tree::open_with(&path, 1 << 20, files, Verify::IfSmall).unwrap();
        let key = b"pkey".as_slice();
        let place = LogPlace::of((1, 7), b"value");
        tree.change([(key, PairChange::Stay(place))].into_iter(), Some(1)).unwrap();
        let earlier = tree.snapshot().unwrap();
        tree.change([(key, PairChange::Remove)].into_iter(), Some(2)).unwrap();
        let later = tree.snapshot().unwrap();
        assert_eq!(tree.needed().take_unread(), [] as [u64; 0]);
        assert_eq!(earlier.get(key).unwrap().as_deref(), Some(b"value".as_slice()));
        let mut pairs = earlier.all().unwrap();
        drop(earlier);
        assert_eq!(tree.needed().take_unread(), [] as [u64; 0], "the pairs hold the snapshot");
        assert_eq!(pairs.next().unwrap().unwrap().1.as_ref(), b"value");
        drop(pairs);
        assert_eq!(tree.needed().take_unread(), [1]);
        assert_eq!(later.get(key).unwrap(), None);
        drop(tree);
        assert!(Tree::open(&path, 1 << 20).unwrap().0.needed().is_empty());
    }

    /// A version without terms may use the store in between. It writes the position of the map, but not the position of
    /// the terms.
    #[test]
    fn a_position_written_without_terms_has_none() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("tree.redb");
        let nothing = || std::iter::empty::<(&[u8], Option<&[u8]>)>();
        let open = || Tree::open(&path, 1 << 20).unwrap().0;
        let tree = open();
        assert!(!tree.has_terms());
        tree.write(nothing(), Some(5)).unwrap();
        tree.record_has_terms().unwrap();
        tree.write(nothing(), Some(6)).unwrap();
        drop(tree);
        let tree = open();
        assert!(tree.has_terms());
        let txn = tree.with(|database| database.begin_write().map_err(failed)).unwrap();
        POSITION.put(&mut txn.open_table(META).unwrap(), 7).unwrap();
        txn.commit().unwrap();
        drop(tree);
        assert!(!open().has_terms());
    }
}
