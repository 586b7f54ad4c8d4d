//! Looks up the newest values of keys under the lock: in memory and, for keys that are not in memory, in redb.

use bytes::Bytes;
use store::Error;

use std::sync::MutexGuard;

use crate::shared::{Shared, State};
use crate::tree::Snapshot;

/// Values read from redb, for keys that were not in memory. `epoch` is the number of layers that had been written to
/// redb at that time.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    epoch: Option<u64>,
    values: Vec<Option<Bytes>>,
}

/// Newest value of a key, and the batch that must be durable before the value may be returned.
#[derive(Debug)]
pub(crate) struct FoundValue {
    pub(crate) value: Option<Bytes>,
    pub(crate) batch: u64,
}

impl Shared {
    /// Returns the state if the newest values of all `keys` are known, either from memory or from `fetched` if no layer
    /// was written to redb since. Otherwise returns a snapshot of redb, from which they must be fetched.
    fn plan(&self, keys: &[Vec<u8>], fetched: &Fetched) -> Result<ReadPlan<'_>, Error> {
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

    /// Returns whether the newest values of all `keys` are in memory.
    pub(crate) fn has_in_memory(&self, keys: &[Vec<u8>]) -> Result<bool, Error> {
        let state = self.open()?;
        Ok(keys.iter().all(|key| state.slot(key).is_some()))
    }

    /// Calls `then` with the newest values of `keys`. The lock is held during the call, so that the values cannot
    /// change.
    pub(crate) fn with<T>(
        &self,
        keys: &[Vec<u8>],
        mut then: impl FnMut(&mut State, Vec<FoundValue>) -> T,
    ) -> Result<T, Error> {
        let mut fetched = Fetched::default();
        loop {
            let (epoch, snapshot) = match self.plan(keys, &fetched)? {
                ReadPlan::All(mut state, found) => {
                    let done = then(&mut state, found);
                    self.write_or_wake(state);
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
    fn fetched_values_are_valid_until_the_next_layer_is_in_redb() {
        let directory = tempfile::TempDir::new().unwrap();
        let shared = Shared::without_threads(&crate::Options::new(directory.path()));
        let key = b"hkey".to_vec();
        shared.tree.write([(key.as_slice(), Some(b"old".as_slice()))].into_iter(), Some(1)).unwrap();
        let keys = [key.clone()];
        let Ok(ReadPlan::Fetch(epoch, snapshot)) = shared.plan(&keys, &Fetched::default()) else {
            panic!("the key is only in redb")
        };
        let fetched = Fetched { epoch: Some(epoch), values: vec![snapshot.get(&key).unwrap()] };
        let plan = shared.plan(&keys, &fetched);
        assert!(matches!(&plan, Ok(ReadPlan::All(_, found)) if found[0].value.as_deref() == Some(b"old")));
        drop(plan);

        // Before the reader gets the lock again, a commit and a checkpoint take place.
        shared.tree.write([(key.as_slice(), Some(b"new".as_slice()))].into_iter(), Some(2)).unwrap();
        shared.lock().epoch += 1;
        let Ok(ReadPlan::Fetch(_, snapshot)) = shared.plan(&keys, &fetched) else {
            panic!("the fetched value is outdated")
        };
        assert_eq!(snapshot.get(&key).unwrap().as_deref(), Some(b"new".as_slice()));
    }
}
