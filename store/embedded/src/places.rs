//! redb's tables for large values that stay in the log: where each value is, and how many bytes of each segment are
//! still needed. This module also determines when no reader needs a segment any more.
//!
//! For such a value, redb's table of all pairs (the map) contains a marker, and the table `places` contains its
//! location under the same key. Rows of the tables in this module consist of 8-byte big-endian numbers and a checksum.
//! With this form, all tables have the same Rust type. Each further type would add about 60 KB to the program.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use redb::{ReadTransaction, ReadableTable as _, StorageError, Table, TableDefinition, TableError, WriteTransaction};

use crate::keys;
use crate::sums::{self, SummedValue};
use crate::values::{LogPlace, ValueFiles};

type Bytewise = TableDefinition<'static, &'static [u8], &'static [u8]>;
type BytewiseTable<'a> = Table<'a, &'static [u8], &'static [u8]>;

/// Table with the location of each value that stays in the log, by the value's key.
const PLACES: Bytewise = TableDefinition::new("places");
/// Table with the keys of these values, by the segment and the offset of the value.
const LOGGED: Bytewise = TableDefinition::new("staying");
/// Table with the number of bytes of needed values in each segment (now, and the maximum so far), by segment.
const SEGMENTS: Bytewise = TableDefinition::new("segments");

fn row<const N: usize>(numbers: [u64; N]) -> Vec<u8> {
    numbers.into_iter().flat_map(u64::to_be_bytes).collect()
}

fn numbers<const N: usize>(row: &[u8]) -> Result<[u64; N], StorageError> {
    let (words, rest) = row.as_chunks::<8>();
    let words = <&[[u8; 8]; N]>::try_from(words).ok().filter(|_| rest.is_empty());
    let damaged = || StorageError::Corrupted(format!("a row of {} bytes about values in the log", row.len()));
    Ok(words.ok_or_else(damaged)?.map(u64::from_be_bytes))
}

/// Encodes numbers as a row, with a checksum.
fn sealed<const N: usize>(key: &[u8], numbers: [u64; N]) -> Vec<u8> {
    let mut sealed = Vec::new();
    sums::seal(&mut sealed, key, &row(numbers));
    sealed
}

/// Decodes a row, and checks its checksum.
fn unsealed<const N: usize>(key: &[u8], row: &[u8]) -> Result<[u64; N], StorageError> {
    match sums::unseal(key, row) {
        Some(SummedValue::Value(row)) => numbers(row),
        _ => {
            let what =
                "the checksum of a row about values in the log does not match. Restore the directory from a backup";
            Err(StorageError::Corrupted(what.to_owned()))
        }
    }
}

/// Adds checksums to the rows of `places` with these keys, which an earlier version of Baton wrote without checksums.
/// Returns for each key whether `places` has a row.
pub(crate) fn seal_places<'a>(
    txn: &WriteTransaction,
    keys: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<bool>, redb::Error> {
    let mut places = txn.open_table(PLACES)?;
    let mut have_places = Vec::new();
    for key in keys {
        let place = places.get(key)?.map(|place| numbers::<3>(place.value())).transpose()?;
        if let Some(place) = place {
            places.insert(key, sealed(key, place).as_slice())?;
        }
        have_places.push(place.is_some());
    }
    Ok(have_places)
}

/// Adds checksums to all rows of the table `segments`, which an earlier version of Baton wrote without checksums.
pub(crate) fn seal_segments(txn: &WriteTransaction) -> Result<(), redb::Error> {
    let mut segments = txn.open_table(SEGMENTS)?;
    let mut rows = Vec::new();
    for found in segments.iter()? {
        let (segment, row) = found?;
        rows.push((segment.value().to_vec(), numbers::<2>(row.value())?));
    }
    for (segment, row) in rows {
        segments.insert(segment.as_slice(), sealed(&segment, row).as_slice())?;
    }
    Ok(())
}

/// Number of bytes of needed values in each segment: now, and the maximum so far.
pub(crate) type Needs = BTreeMap<u64, (u64, u64)>;

/// Segments that contain needed values according to the last durable transaction.
#[derive(Debug, Default)]
pub(crate) struct NeededSegments {
    needed: Needs,
    /// Segments that are no longer needed, oldest first. Each group has a token. Readers that may still read these
    /// segments hold the same token.
    unneeded: VecDeque<(Arc<()>, Vec<u64>)>,
    /// Token for readers that start now.
    reading: Arc<()>,
}

impl NeededSegments {
    /// Loads which segments contain needed values, creating the tables if necessary.
    pub(crate) fn load(txn: &WriteTransaction) -> Result<Self, redb::Error> {
        txn.open_table(PLACES)?;
        txn.open_table(LOGGED)?;
        let segments = txn.open_table(SEGMENTS)?;
        let mut needed = Needs::new();
        for found in segments.iter()? {
            let (segment, row) = found?;
            let [now, most] = unsealed(segment.value(), row.value())?;
            let [segment] = numbers(segment.value())?;
            needed.insert(segment, (now, most));
        }
        Ok(Self { needed, ..Self::default() })
    }

    /// Returns a token. A reader must take it before it takes a snapshot, and hold it while it reads. As long as it is
    /// held, the values of the snapshot stay in the log.
    pub(crate) fn reading(&self) -> Arc<()> {
        Arc::clone(&self.reading)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.needed.is_empty()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = u64> {
        self.needed.keys().copied()
    }

    /// Returns whether readers may need a segment.
    pub(crate) fn has(&self, segment: u64) -> bool {
        self.needed.contains_key(&segment) || self.unneeded.iter().any(|(_, segments)| segments.contains(&segment))
    }

    /// Applies the changes of a transaction that is durable.
    pub(crate) fn apply(&mut self, changed: Needs) {
        let mut unneeded = Vec::new();
        for (segment, (now, most)) in changed {
            if now > 0 {
                self.needed.insert(segment, (now, most));
            } else if self.needed.remove(&segment).is_some() {
                unneeded.push(segment);
            }
        }
        if !unneeded.is_empty() {
            self.unneeded.push_back((std::mem::take(&mut self.reading), unneeded));
        }
    }

    /// Returns the unneeded segments that have no readers, and removes them from the list.
    pub(crate) fn take_unread(&mut self) -> Vec<u64> {
        let mut unread = Vec::new();
        while let Some((_, segments)) = self.unneeded.pop_front_if(|(reading, _)| Arc::strong_count(reading) == 1) {
            // A later value may have made a segment needed again.
            unread.extend(segments.into_iter().filter(|segment| !self.needed.contains_key(segment)));
        }
        unread
    }

    /// Returns the segments of whose values less than half is still needed, by bytes.
    pub(crate) fn half_unneeded(&self) -> Vec<u64> {
        let needed = self.needed.iter();
        needed.filter(|(_, (now, most))| *now < most.div_ceil(2)).map(|(segment, _)| *segment).collect()
    }
}

/// Changes of locations that one transaction makes.
pub(crate) struct PlaceChanges<'a> {
    places: BytewiseTable<'a>,
    logged: BytewiseTable<'a>,
    segments: BytewiseTable<'a>,
    /// True if the table `places` may contain locations. Otherwise there is nothing to remove.
    has_any: bool,
    changed: Needs,
}

impl<'a> PlaceChanges<'a> {
    pub(crate) fn begin(txn: &'a WriteTransaction, has_any: bool) -> Result<Self, TableError> {
        let (places, logged) = (txn.open_table(PLACES)?, txn.open_table(LOGGED)?);
        Ok(Self { places, logged, segments: txn.open_table(SEGMENTS)?, has_any, changed: Needs::new() })
    }

    fn needed(&mut self, segment: u64) -> Result<&mut (u64, u64), StorageError> {
        use std::collections::btree_map::Entry;
        Ok(match self.changed.entry(segment) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(missing) => {
                let key = row([segment]);
                let found = self.segments.get(key.as_slice())?;
                let needed = found.map(|found| unsealed(&key, found.value())).transpose()?;
                missing.insert(needed.map(|[now, most]| (now, most)).unwrap_or_default())
            }
        })
    }

    /// Removes the location of the value of a key, if there is one.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<(), StorageError> {
        if !self.has_any {
            return Ok(());
        }
        let Some(place) = self.places.remove(key)?.map(|place| unsealed(key, place.value())) else {
            return Ok(());
        };
        let place = match place {
            Ok(place) => place,
            // The value is removed, so no reader needs its location. The only effect is that its segment is kept longer
            // than necessary.
            Err(error) => {
                tracing::error!(of = keys::describe(key), %error, "the location of a removed value is damaged");
                return Ok(());
            }
        };
        let LogPlace { segment, offset, length, .. } = LogPlace::of_numbers(place);
        self.logged.remove(row([segment, offset]).as_slice())?;
        let (now, _) = self.needed(segment)?;
        *now = now.saturating_sub(u64::from(length));
        Ok(())
    }

    /// Sets the location of the value of a key.
    pub(crate) fn put(&mut self, key: &[u8], place: LogPlace) -> Result<(), StorageError> {
        self.has_any = true;
        self.places.insert(key, sealed(key, place.numbers()).as_slice())?;
        self.logged.insert(row([place.segment, place.offset]).as_slice(), key)?;
        let (now, most) = self.needed(place.segment)?;
        *now += u64::from(place.length);
        *most = (*most).max(*now);
        Ok(())
    }

    /// Writes the number of needed bytes of all changed segments.
    pub(crate) fn end(mut self) -> Result<Needs, StorageError> {
        for (segment, (now, most)) in &self.changed {
            let key = row([*segment]);
            if *now == 0 {
                self.segments.remove(key.as_slice())?;
            } else {
                self.segments.insert(key.as_slice(), sealed(&key, [*now, *most]).as_slice())?;
            }
        }
        Ok(self.changed)
    }
}

/// Returns the keys and locations of values in a kept segment, up to this many bytes of values, but at least one.
pub(crate) fn logged_values_in(
    txn: &ReadTransaction,
    segment: u64,
    most_bytes: usize,
) -> Result<Vec<(Bytes, LogPlace)>, redb::Error> {
    let (logged, places) = (txn.open_table(LOGGED)?, txn.open_table(PLACES)?);
    let (mut found, mut bytes) = (Vec::new(), 0);
    for pair in logged.range(row([segment]).as_slice()..row([segment + 1]).as_slice())? {
        let key = Bytes::copy_from_slice(pair?.1.value());
        if let Some(place) = places.get(&key[..])? {
            let place = LogPlace::of_numbers(unsealed(&key, place.value())?);
            bytes += usize::try_from(place.length).unwrap_or(usize::MAX);
            found.push((key, place));
        }
        if bytes >= most_bytes {
            break;
        }
    }
    Ok(found)
}

/// Returns whether a segment contains any value that stays in the log. This examines the table of these values instead
/// of relying on the stored number of needed bytes of the segment.
pub(crate) fn has_logged_value(txn: &ReadTransaction, segment: u64) -> Result<bool, redb::Error> {
    let logged = txn.open_table(LOGGED)?;
    let mut found = logged.range(row([segment]).as_slice()..row([segment + 1]).as_slice())?;
    Ok(found.next().transpose()?.is_some())
}

/// Locations of the values in the log, in a snapshot of redb.
#[derive(Clone)]
pub(crate) struct StoredLoggedValues {
    places: Arc<redb::ReadOnlyTable<&'static [u8], &'static [u8]>>,
    files: Arc<ValueFiles>,
    _reading: Arc<()>,
}

impl StoredLoggedValues {
    pub(crate) fn of(txn: &ReadTransaction, files: &Arc<ValueFiles>, reading: Arc<()>) -> Result<Self, TableError> {
        Ok(Self { places: Arc::new(txn.open_table(PLACES)?), files: Arc::clone(files), _reading: reading })
    }

    /// Returns the location of a value that stays in the log. Called for keys for which the map in redb contains the
    /// marker of such a value.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<LogPlace>, StorageError> {
        let place = self.places.get(key)?.map(|place| unsealed(key, place.value())).transpose()?;
        Ok(place.map(LogPlace::of_numbers))
    }

    pub(crate) fn read(&self, place: LogPlace) -> Result<Bytes, store::Error> {
        self.files.read(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unneeded_segment_is_released_after_its_last_reader() {
        let mut segments = NeededSegments::default();
        segments.apply(Needs::from([(1, (10, 10)), (2, (10, 10))]));
        let reader = segments.reading();
        segments.apply(Needs::from([(1, (0, 10))]));
        let later = segments.reading();
        segments.apply(Needs::from([(2, (0, 10))]));
        assert_eq!(segments.take_unread(), [] as [u64; 0]);
        assert!(segments.has(1) && segments.has(2));
        drop(later);
        assert_eq!(segments.take_unread(), [] as [u64; 0], "an earlier reader may still see both");
        drop(reader);
        assert_eq!(segments.take_unread(), [1, 2]);
        assert!(!segments.has(1) && !segments.has(2));
    }

    #[test]
    fn a_segment_needed_again_is_kept() {
        let mut segments = NeededSegments::default();
        segments.apply(Needs::from([(1, (10, 10))]));
        segments.apply(Needs::from([(1, (0, 10))]));
        segments.apply(Needs::from([(1, (5, 5))]));
        assert_eq!(segments.take_unread(), [] as [u64; 0]);
        assert!(segments.has(1));
    }

    #[test]
    fn a_segment_is_emptied_if_less_than_half_is_needed() {
        let mut segments = NeededSegments::default();
        segments.apply(Needs::from([(1, (5, 10)), (2, (4, 10)), (3, (1, 1))]));
        assert_eq!(segments.half_unneeded(), [2]);
    }
}
