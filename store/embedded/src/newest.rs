//! The newest values of keys, looked up under the lock: in memory, and in redb for what memory does not have.

use bytes::Bytes;
use store::Error;

use std::sync::MutexGuard;

use crate::shared::{Shared, State};
use crate::tree::Snapshot;

/// Values from redb, for keys that memory did not have, as of an epoch.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    epoch: Option<u64>,
    values: Vec<Option<Bytes>>,
}

/// A key's newest value, and the batch that must be durable before it is shown.
#[derive(Debug)]
pub(crate) struct FoundValue {
    pub(crate) value: Option<Bytes>,
    pub(crate) batch: u64,
}

impl Shared {
    /// The state, if all `keys` can be told from it: from memory, or from redb as `fetched`. Else what to fetch from.
    fn told(&self, keys: &[Vec<u8>], fetched: &Fetched) -> Result<ReadPlan<'_>, Error> {
        let state = self.open()?;
        let is_current = fetched.epoch == Some(state.epoch);
        let found: Option<Vec<FoundValue>> = keys
            .iter()
            .enumerate()
            .map(|(index, key)| match state.slot(key) {
                Some(slot) => Some(FoundValue { value: slot.value.clone(), batch: slot.batch }),
                None if is_current => {
                    fetched.values.get(index).map(|value| FoundValue { value: value.clone(), batch: 0 })
                }
                None => None,
            })
            .collect();
        match found {
            Some(found) => Ok(ReadPlan::All(state, found)),
            None => Ok(ReadPlan::Fetch(state.epoch, self.tree.snapshot()?)),
        }
    }

    /// Whether memory alone can tell all `keys`.
    pub(crate) fn has_in_memory(&self, keys: &[Vec<u8>]) -> Result<bool, Error> {
        let state = self.open()?;
        Ok(keys.iter().all(|key| state.slot(key).is_some()))
    }

    /// The newest values of `keys`, and `then` called on them under the lock, so that they are still the newest.
    pub(crate) fn with<T>(
        &self,
        keys: &[Vec<u8>],
        mut then: impl FnMut(&mut State, Vec<FoundValue>) -> T,
    ) -> Result<T, Error> {
        let mut fetched = Fetched::default();
        loop {
            let (epoch, snapshot) = match self.told(keys, &fetched)? {
                ReadPlan::All(mut state, found) => {
                    let done = then(&mut state, found);
                    self.let_go(state);
                    return Ok(done);
                }
                ReadPlan::Fetch(epoch, snapshot) => (epoch, snapshot),
            };
            let values = keys.iter().map(|key| snapshot.get(key)).collect::<Result<_, _>>()?;
            fetched = Fetched { epoch: Some(epoch), values };
        }
    }
}

enum ReadPlan<'a> {
    All(MutexGuard<'a, State>, Vec<FoundValue>),
    Fetch(u64, Snapshot),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_from_redb_counts_only_until_a_layer_has_gone_there() {
        let directory = tempfile::TempDir::new().unwrap();
        let shared = Shared::without_threads(&crate::Options::new(directory.path()));
        let key = b"hkey".to_vec();
        shared.tree.write([(key.as_slice(), Some(b"old".as_slice()))].into_iter(), Some(1)).unwrap();
        let keys = [key.clone()];
        let Ok(ReadPlan::Fetch(epoch, snapshot)) = shared.told(&keys, &Fetched::default()) else {
            panic!("only redb can tell")
        };
        let fetched = Fetched { epoch: Some(epoch), values: vec![snapshot.get(&key).unwrap()] };
        assert!(
            matches!(shared.told(&keys, &fetched), Ok(ReadPlan::All(_, found)) if found[0].value.as_deref() == Some(b"old"))
        );

        // Somebody commits, and the checkpoint brings it to redb, before the reader has the lock again.
        shared.tree.write([(key.as_slice(), Some(b"new".as_slice()))].into_iter(), Some(2)).unwrap();
        shared.lock().epoch += 1;
        let Ok(ReadPlan::Fetch(_, snapshot)) = shared.told(&keys, &fetched) else {
            panic!("what was fetched is of before")
        };
        assert_eq!(snapshot.get(&key).unwrap().as_deref(), Some(b"new".as_slice()));
    }
}
