//! Steps when the file of redb is opened: its pages are verified, and values without checksums, written by earlier
//! versions of Baton, get checksums.

use std::ops::Bound;

use redb::{Database, ReadableTable};
use store::Error;

use crate::logged_values::can_be_logged;
use crate::places;
use crate::sums;
use crate::tree::tables::{COPIED, MAP, META, POSITION, SUMMED, SUMMING, begin_write, failed};

/// Maximum size of a file whose pages are verified whenever it is opened. Chosen: redb reads this much in about a tenth
/// of a second, and a start should not take longer. `baton fsck`, and a backup of a stopped store, verify files of any
/// size.
pub(crate) const VERIFIED_AT_OPEN_MAX: u64 = 64 << 20;
/// Maximum number of pairs, and of bytes, that get checksums in one transaction.
const SUMMED_AT_ONCE: (usize, usize) = (20_000, 8 << 20);

/// Extent of the verification when a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verify {
    /// All pages if the file is small, otherwise none.
    IfSmall,
    /// All pages.
    Always,
}

/// Verifies the checksums of all pages of redb.
pub(crate) fn verify(database: &mut Database) -> Result<(), Error> {
    match database.check_integrity() {
        Ok(true) => Ok(()),
        Ok(false) => {
            tracing::warn!("redb has rebuilt its data about free pages in `tree.redb`; all other data is verified");
            Ok(())
        }
        Err(error) => Err(failed(error)),
    }
}

/// Adds a checksum to every value of a file written by an earlier version of Baton, in transactions of limited size. If
/// an earlier call was interrupted, continues after its last completed transaction. The pages are verified first, so
/// that damaged data never gets a valid checksum.
pub(crate) fn add_sums(database: &mut Database) -> Result<(), Error> {
    verify(database)?;
    tracing::info!("adding checksums to the values of an earlier version, once, before the store opens");
    let mut given = 0_u64;
    loop {
        let count = add_some_sums(database)?;
        given += count;
        if count == 0 {
            tracing::info!(values = given, "every value has a checksum now");
            return Ok(());
        }
    }
}

/// Runs one transaction of [`add_sums`]. Returns how many values got a checksum. If all values have a checksum, records
/// this and returns 0.
fn add_some_sums(database: &Database) -> Result<u64, Error> {
    let txn = begin_write(database)?;
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    {
        let mut map = txn.open_table(MAP).map_err(failed)?;
        let mut summing = txn.open_table(SUMMING).map_err(failed)?;
        let last = summing.get(&[][..]).map_err(failed)?.map(|last| last.value().to_vec());
        let after = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut bytes = 0;
        for pair in map.range::<&[u8]>((after, Bound::Unbounded)).map_err(failed)? {
            let (key, value) = pair.map_err(failed)?;
            bytes += key.value().len() + value.value().len();
            pairs.push((key.value().to_vec(), value.value().to_vec()));
            if pairs.len() >= SUMMED_AT_ONCE.0 || bytes >= SUMMED_AT_ONCE.1 {
                break;
            }
        }
        let keys = pairs.iter().map(|(key, _)| key.as_slice());
        let logged = places::seal_places(&txn, keys).map_err(failed)?;
        let mut sealed = Vec::new();
        for ((key, value), is_logged) in pairs.iter().zip(logged) {
            if is_logged && value.is_empty() && can_be_logged(key) {
                sums::seal_logged(&mut sealed, key);
            } else {
                sums::seal(&mut sealed, key, value);
            }
            map.insert(key.as_slice(), sealed.as_slice()).map_err(failed)?;
        }
        if let Some((last, _)) = pairs.last() {
            summing.insert(&[][..], last.as_slice()).map_err(failed)?;
        }
    }
    if pairs.is_empty() {
        places::seal_segments(&txn).map_err(failed)?;
        let mut meta = txn.open_table(META).map_err(failed)?;
        for number in [POSITION, COPIED] {
            let found = meta.get(number.name).map_err(failed)?.map(|found| found.value());
            if let Some(found) = found {
                number.put(&mut meta, found)?;
            }
        }
        meta.insert(SUMMED, 1).map_err(failed)?;
        txn.open_table(SUMMING).map_err(failed)?.remove(&[][..]).map_err(failed)?;
    }
    txn.commit().map_err(failed)?;
    Ok(pairs.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    /// Creates a map with this many values, as written by versions before form 4.
    fn unsummed(path: &std::path::Path, count: u32) {
        let database = Database::create(path).unwrap();
        let txn = begin_write(&database).unwrap();
        {
            let mut map = txn.open_table(MAP).unwrap();
            for number in 0..count {
                map.insert(number.to_be_bytes().as_slice(), format!("value {number}").as_bytes()).unwrap();
            }
            txn.open_table(META).unwrap().insert(POSITION.name, 7).unwrap();
        }
        txn.commit().unwrap();
    }

    #[test]
    fn interrupted_checksumming_is_finished_by_the_next_start() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("tree.redb");
        let count = u32::try_from(2 * SUMMED_AT_ONCE.0 + 5).unwrap();
        unsummed(&path, count);
        // The work is interrupted after each of its transactions, including the last transaction, which records that
        // all values have checksums.
        for transactions in 0..=4 {
            let cut_short = directory.path().join(format!("{transactions}.redb"));
            std::fs::copy(&path, &cut_short).unwrap();
            let database = Database::create(&cut_short).unwrap();
            let given: Vec<u64> = (0..transactions).map(|_| add_some_sums(&database).unwrap()).collect();
            assert!([20_000, 20_000, 5, 0].starts_with(&given), "{given:?}");
            drop(database);
            let (tree, position) = Tree::open(&cut_short, 1 << 20).unwrap();
            assert_eq!(position, 7);
            let snapshot = tree.snapshot().unwrap();
            for number in 0..count {
                let value = snapshot.get(&number.to_be_bytes()).unwrap().unwrap();
                assert_eq!(value, format!("value {number}").as_bytes(), "after {transactions} transactions");
            }
        }
    }
}
