//! What redb knows of the values that stay in the log: the place of each, and how much of which segment is needed. Owns the three tables
//! of that, and the knowledge of when nobody reads a segment any more.
//!
//! A value that stays has an entry in the map that says so, and its place under the same key in `places`. Rows are numbers of eight bytes,
//! the highest byte first, and a checksum, so that all tables are of one type: each type of a table is some 60 KB of program.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use redb::{ReadTransaction, ReadableTable as _, StorageError, Table, TableDefinition, TableError, WriteTransaction};

use crate::keys;
use crate::sums::{self, SummedValue};
use crate::values::{LogPlace, ValueFiles};

type Bytewise = TableDefinition<'static, &'static [u8], &'static [u8]>;
type BytewiseTable<'a> = Table<'a, &'static [u8], &'static [u8]>;

/// The place of each value that stays, by its key.
const PLACES: Bytewise = TableDefinition::new("places");
/// The keys of the values that stay in a segment, by segment and offset.
const STAYING: Bytewise = TableDefinition::new("staying");
/// Bytes of values in a segment that are needed, and the most that ever were, by segment.
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

/// A row with its checksum.
fn sealed<const N: usize>(key: &[u8], numbers: [u64; N]) -> Vec<u8> {
    let mut sealed = Vec::new();
    sums::seal(&mut sealed, key, &row(numbers));
    sealed
}

/// The numbers of a row that has a checksum.
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

/// Gives rows of earlier versions their checksums: those of the places of some keys. Answers whether each of the keys has a place.
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

/// The same of the rows of segments, all of them.
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

/// Bytes of values in segments that are needed, and the most that ever were.
pub(crate) type Needs = BTreeMap<u64, (u64, u64)>;

/// The segments that are needed, as of the last transaction.
#[derive(Debug, Default)]
pub(crate) struct NeededSegments {
    needed: Needs,
    /// Those that are not needed any more, with the sign of those who may read them still; the longest unneeded first.
    unneeded: VecDeque<(Arc<()>, Vec<u64>)>,
    /// The sign of those who begin to read now.
    reading: Arc<()>,
}

impl NeededSegments {
    /// Makes the tables if need be.
    pub(crate) fn load(txn: &WriteTransaction) -> Result<Self, redb::Error> {
        txn.open_table(PLACES)?;
        txn.open_table(STAYING)?;
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

    /// To be held while a snapshot is read, and taken before it is: what it shows stays as long.
    pub(crate) fn reading(&self) -> Arc<()> {
        Arc::clone(&self.reading)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.needed.is_empty()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = u64> {
        self.needed.keys().copied()
    }

    /// Whether somebody may read values of a segment.
    pub(crate) fn has(&self, segment: u64) -> bool {
        self.needed.contains_key(&segment) || self.unneeded.iter().any(|(_, segments)| segments.contains(&segment))
    }

    /// A transaction is durable, with which the needs of these segments have changed.
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

    /// The segments that nobody reads any more.
    pub(crate) fn take_unread(&mut self) -> Vec<u64> {
        let mut unread = Vec::new();
        while let Some((_, segments)) = self.unneeded.pop_front_if(|(reading, _)| Arc::strong_count(reading) == 1) {
            // One may be needed again, for what came to it later.
            unread.extend(segments.into_iter().filter(|segment| !self.needed.contains_key(segment)));
        }
        unread
    }

    /// Those of which less than half is still needed.
    pub(crate) fn half_unneeded(&self) -> Vec<u64> {
        let needed = self.needed.iter();
        needed.filter(|(_, (now, most))| *now < most.div_ceil(2)).map(|(segment, _)| *segment).collect()
    }
}

/// The places, as one transaction changes them.
pub(crate) struct PlaceChanges<'a> {
    places: BytewiseTable<'a>,
    staying: BytewiseTable<'a>,
    segments: BytewiseTable<'a>,
    /// Whether there can be any place.
    has_any: bool,
    changed: Needs,
}

impl<'a> PlaceChanges<'a> {
    pub(crate) fn begin(txn: &'a WriteTransaction, has_any: bool) -> Result<Self, TableError> {
        let (places, staying) = (txn.open_table(PLACES)?, txn.open_table(STAYING)?);
        Ok(Self { places, staying, segments: txn.open_table(SEGMENTS)?, has_any, changed: Needs::new() })
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

    /// The value of this key does not stay any more, if it did.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<(), StorageError> {
        if !self.has_any {
            return Ok(());
        }
        let Some(place) = self.places.remove(key)?.map(|place| unsealed(key, place.value())) else {
            return Ok(());
        };
        let place = match place {
            Ok(place) => place,
            // Nothing reads the value any more. Its segment is kept for longer than it is needed.
            Err(error) => {
                tracing::error!(of = keys::describe(key), %error, "the place of a value that was removed is damaged");
                return Ok(());
            }
        };
        let LogPlace { segment, offset, length, .. } = LogPlace::of_numbers(place);
        self.staying.remove(row([segment, offset]).as_slice())?;
        let (now, _) = self.needed(segment)?;
        *now = now.saturating_sub(u64::from(length));
        Ok(())
    }

    /// The value of this key stays.
    pub(crate) fn put(&mut self, key: &[u8], place: LogPlace) -> Result<(), StorageError> {
        self.has_any = true;
        self.places.insert(key, sealed(key, place.numbers()).as_slice())?;
        self.staying.insert(row([place.segment, place.offset]).as_slice(), key)?;
        let (now, most) = self.needed(place.segment)?;
        *now += u64::from(place.length);
        *most = (*most).max(*now);
        Ok(())
    }

    /// Writes what is needed of the segments that have changed.
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

/// Keys of values that stay in a segment, and their places, until they have so many bytes together; at least one if there is any.
pub(crate) fn staying_in(
    txn: &ReadTransaction,
    segment: u64,
    most_bytes: usize,
) -> Result<Vec<(Bytes, LogPlace)>, redb::Error> {
    let (staying, places) = (txn.open_table(STAYING)?, txn.open_table(PLACES)?);
    let (mut found, mut bytes) = (Vec::new(), 0);
    for pair in staying.range(row([segment]).as_slice()..row([segment + 1]).as_slice())? {
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

/// Whether any value stays in a segment, by the values themselves.
pub(crate) fn stays_any(txn: &ReadTransaction, segment: u64) -> Result<bool, redb::Error> {
    let staying = txn.open_table(STAYING)?;
    let mut found = staying.range(row([segment]).as_slice()..row([segment + 1]).as_slice())?;
    Ok(found.next().transpose()?.is_some())
}

/// The values that stay, as of one moment.
#[derive(Clone)]
pub(crate) struct StayingValues {
    places: Arc<redb::ReadOnlyTable<&'static [u8], &'static [u8]>>,
    files: Arc<ValueFiles>,
    _reading: Arc<()>,
}

impl StayingValues {
    pub(crate) fn of(txn: &ReadTransaction, files: &Arc<ValueFiles>, reading: Arc<()>) -> Result<Self, TableError> {
        Ok(Self { places: Arc::new(txn.open_table(PLACES)?), files: Arc::clone(files), _reading: reading })
    }

    /// The place of a value that the map says stays.
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
    fn a_segment_that_is_not_needed_is_let_go_when_those_who_may_read_it_have_ended() {
        let mut segments = NeededSegments::default();
        segments.apply(Needs::from([(1, (10, 10)), (2, (10, 10))]));
        let reader = segments.reading();
        segments.apply(Needs::from([(1, (0, 10))]));
        let later = segments.reading();
        segments.apply(Needs::from([(2, (0, 10))]));
        assert_eq!(segments.take_unread(), [] as [u64; 0]);
        assert!(segments.has(1) && segments.has(2));
        drop(later);
        assert_eq!(segments.take_unread(), [] as [u64; 0], "who began earlier may see both");
        drop(reader);
        assert_eq!(segments.take_unread(), [1, 2]);
        assert!(!segments.has(1) && !segments.has(2));
    }

    #[test]
    fn a_segment_that_is_needed_again_stays() {
        let mut segments = NeededSegments::default();
        segments.apply(Needs::from([(1, (10, 10))]));
        segments.apply(Needs::from([(1, (0, 10))]));
        segments.apply(Needs::from([(1, (5, 5))]));
        assert_eq!(segments.take_unread(), [] as [u64; 0]);
        assert!(segments.has(1));
    }

    #[test]
    fn a_segment_is_worth_emptying_when_less_than_half_of_it_is_needed() {
        let mut segments = NeededSegments::default();
        segments.apply(Needs::from([(1, (5, 10)), (2, (4, 10)), (3, (1, 1))]));
        assert_eq!(segments.half_unneeded(), [2]);
    }
}
