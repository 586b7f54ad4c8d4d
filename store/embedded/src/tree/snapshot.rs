//! A snapshot of the map, which also reads the values that stay in the log.

use bytes::Bytes;
use store::Error;

use crate::places::StoredLoggedValues;
use crate::sums::{self, SummedValue};
use crate::tree::tables::{FROM_BACKUP, failed, guarded};

/// The map at one moment.
pub struct Snapshot {
    pub(super) map: redb::ReadOnlyTable<&'static [u8], &'static [u8]>,
    pub(super) logged: Option<StoredLoggedValues>,
}

/// Pairs of a range, forward or backward.
pub type Pairs = Box<dyn Iterator<Item = Result<(Bytes, Bytes), Error>>>;

impl Snapshot {
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        guarded(|| {
            let Some(found) = self.map.get(key).map_err(failed)? else { return Ok(None) };
            value(self.logged.as_ref(), key, found.value()).map(Some)
        })
    }

    /// Returns every pair, in key order.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] or [`Error::Corrupt`] if redb cannot be read.
    pub fn all(&self) -> Result<Pairs, Error> {
        let logged = self.logged.clone();
        let range = guarded(|| self.map.range::<&[u8]>(..).map_err(failed))?;
        Ok(guarded_pairs(range.map(move |pair| copy(logged.as_ref(), pair))))
    }

    /// Returns the pairs with `from <= key < to`.
    pub(crate) fn range(&self, from: &[u8], to: &[u8], is_reverse: bool) -> Result<Pairs, Error> {
        let logged = self.logged.clone();
        self.pairs(from, to, is_reverse, move |pair| copy(logged.as_ref(), pair))
    }

    /// Returns the keys of a range, each with an empty value.
    pub(crate) fn keys(&self, from: &[u8], to: &[u8], is_reverse: bool) -> Result<Pairs, Error> {
        self.pairs(from, to, is_reverse, |pair| {
            let (key, _) = pair.map_err(failed)?;
            Ok((Bytes::copy_from_slice(key.value()), Bytes::new()))
        })
    }

    fn pairs(
        &self,
        from: &[u8],
        to: &[u8],
        is_reverse: bool,
        copy: impl FnMut(Result<(Guard<'_>, Guard<'_>), redb::StorageError>) -> Result<(Bytes, Bytes), Error> + 'static,
    ) -> Result<Pairs, Error> {
        if from >= to {
            return Ok(Box::new(std::iter::empty()));
        }
        let range = guarded(|| self.map.range(from..to).map_err(failed))?;
        Ok(if is_reverse { guarded_pairs(range.rev().map(copy)) } else { guarded_pairs(range.map(copy)) })
    }
}

type Guard<'a> = redb::AccessGuard<'a, &'static [u8]>;

fn copy(
    logged: Option<&StoredLoggedValues>,
    pair: Result<(Guard<'_>, Guard<'_>), redb::StorageError>,
) -> Result<(Bytes, Bytes), Error> {
    let (key, found) = pair.map_err(failed)?;
    Ok((Bytes::copy_from_slice(key.value()), value(logged, key.value(), found.value())?))
}

/// Returns the pairs read from redb, up to the first error. A panic of redb becomes an error.
fn guarded_pairs(mut pairs: impl Iterator<Item = Result<(Bytes, Bytes), Error>> + 'static) -> Pairs {
    let mut is_over = false;
    Box::new(std::iter::from_fn(move || {
        let next = if is_over { None } else { guarded(|| Ok(pairs.next())).unwrap_or_else(|error| Some(Err(error))) };
        is_over = !matches!(next, Some(Ok(_)));
        next
    }))
}

/// Returns the value of a key. `found` is the entry of the map for the key: a value with its checksum, or the marker of
/// a value that stays in the log.
fn value(logged: Option<&StoredLoggedValues>, key: &[u8], found: &[u8]) -> Result<Bytes, Error> {
    match sums::unseal(key, found) {
        Some(SummedValue::Value(value)) => Ok(Bytes::copy_from_slice(value)),
        Some(SummedValue::InLog) => {
            let place = logged.map(|logged| logged.get(key)).transpose().map_err(failed);
            let place = place.map_err(|error| sums::named(key, error))?.flatten();
            match logged.zip(place) {
                Some((logged, place)) => logged.read(place).map_err(|error| sums::named(key, error)),
                None => {
                    let what = format!("its location in the log is missing from `tree.redb`. {FROM_BACKUP}");
                    Err(sums::named(key, Error::Corrupt { what }))
                }
            }
        }
        None => Err(sums::changed(key)),
    }
}
