//! Content of the file of redb: its tables and the numbers stored in addition to the map. Also begins transactions and
//! converts the errors of redb.

use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{Database, ReadableTable, Table, TableDefinition, WriteTransaction};
use store::Error;

use crate::sums;

pub(crate) const MAP: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("map");
pub(crate) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
pub(crate) const POSITION: Number = Number { name: "position", sum: "position: checksum" };
/// Log position up to which every row has its index entries by workflow type and tag (`terms.rs`). The entries are
/// complete if it equals the log position of the map. It is smaller if the last write was made by an earlier version of
/// Baton, which did not create index entries.
pub(crate) const TERMS: &str = "terms";
/// Batch up to which an unfinished copy of a store is complete. It is not a position from which a log can be read.
pub(crate) const COPIED: Number = Number { name: "copied", sum: "copied: checksum" };
/// Present if every value has a checksum. Earlier versions of Baton wrote values without checksums.
pub(crate) const SUMMED: &str = "checksums";
/// Last key whose value has got a checksum, while checksums are added to the values of a file written by an earlier
/// version of Baton. It is stored under the empty key.
pub(crate) const SUMMING: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("checksums: last key");

/// A number that is stored in addition to the map, and the name under which its checksum is stored.
pub(crate) struct Number {
    pub(crate) name: &'static str,
    sum: &'static str,
}

impl Number {
    pub(crate) fn get(&self, meta: &impl ReadableTable<&'static str, u64>) -> Result<Option<u64>, Error> {
        let number = meta.get(self.name).map_err(failed)?.map(|number| number.value());
        let sum = meta.get(self.sum).map_err(failed)?.map(|sum| sum.value());
        if sum != number.map(|number| sums::of_number(self.name, number)) {
            let what = format!("the checksum of `{}` in `tree.redb` does not match. {FROM_BACKUP}", self.name);
            return Err(Error::Corrupt { what });
        }
        Ok(number)
    }

    pub(crate) fn put(&self, meta: &mut Table<'_, &'static str, u64>, number: u64) -> Result<(), Error> {
        meta.insert(self.name, number).map_err(failed)?;
        meta.insert(self.sum, sums::of_number(self.name, number)).map_err(failed)?;
        Ok(())
    }
}

pub(crate) const FROM_BACKUP: &str = "Restore the directory from a backup";

pub(crate) fn failed(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        redb::Error::Corrupted(what) => Error::Corrupt { what: format!("redb: {what}. {FROM_BACKUP}") },
        // redb expected a page beyond the end of the file.
        redb::Error::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Error::Corrupt {
            what: format!("redb: `tree.redb` is truncated, or a page of it was changed. {FROM_BACKUP}"),
        },
        error => Error::Failed { why: format!("redb: {error}") },
    }
}

/// Calls redb, and converts a panic into an error: redb trusts the content of its pages and panics if some of it was
/// changed.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        Err(Error::Corrupt { what: format!("redb: a page of `tree.redb` cannot be read. {FROM_BACKUP}") })
    })
}

/// Begins a transaction with quick repair: redb then stores the state of its allocator. A start after a crash then need
/// not scan the whole file.
pub(crate) fn begin_write(database: &Database) -> Result<WriteTransaction, Error> {
    let mut txn = database.begin_write().map_err(failed)?;
    txn.set_quick_repair(true);
    Ok(txn)
}
