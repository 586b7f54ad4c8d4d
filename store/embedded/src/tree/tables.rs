//! What is in redb's file: the tables, the numbers beside the map, transactions, and what its errors mean.

use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{Database, ReadableTable, Table, TableDefinition, WriteTransaction};
use store::Error;

use crate::sums;

pub(crate) const MAP: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("map");
pub(crate) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
pub(crate) const POSITION: Number = Number { name: "position", sum: "position: checksum" };
/// The position up to which rows have entries under their terms (`terms.rs`). It is the position where this version, or a later one, has
/// written last; another, or none, where one has that made no entries.
pub(crate) const TERMS: &str = "terms";
/// As far as batches of an archive are in a copy that is not finished. Not where a log goes on.
pub(crate) const COPIED: Number = Number { name: "copied", sum: "copied: checksum" };
/// Present once every value has a checksum. Values of versions before that had none.
pub(crate) const SUMMED: &str = "checksums";
/// While values of an earlier version are given checksums: the last key that has one, under the empty key.
pub(crate) const SUMMING: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("checksums: last key");

/// A number beside the map, and the name under which its checksum is.
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
        // A page that is said to be where the file has ended.
        redb::Error::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Error::Corrupt {
            what: format!("redb: `tree.redb` is cut short, or a page of it was changed. {FROM_BACKUP}"),
        },
        error => Error::Failed { why: format!("redb: {error}") },
    }
}

/// Calls redb, which takes what is in a page for what it wrote there and panics over some pages that were changed.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        Err(Error::Corrupt { what: format!("redb: a page of `tree.redb` cannot be read. {FROM_BACKUP}") })
    })
}

/// Quick repair saves the allocator's state with each transaction, so that opening after a crash takes no walk through the whole file.
pub(crate) fn begin_write(database: &Database) -> Result<WriteTransaction, Error> {
    let mut txn = database.begin_write().map_err(failed)?;
    txn.set_quick_repair(true);
    Ok(txn)
}
