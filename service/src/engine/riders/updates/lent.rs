//! Updates that another node has, for a decider there.

use history::AskedUpdate;
use store::HeadKey;
use uuid::Uuid;

use super::{UpdatePlace, Updates, is_waiting};

impl Updates {
    /// Takes an update that waits, to have it judged elsewhere.
    pub(crate) fn lend(&self, key: &HeadKey, run_id: Uuid, update_id: &str) -> Option<AskedUpdate> {
        let mut runs = self.lock();
        let mut puts = runs.get_mut(key).into_iter().flatten();
        let put = puts.find(|put| is_waiting(put, run_id) && put.asked.update_id == update_id)?;
        put.place = UpdatePlace::Lent;
        Some(put.asked.clone())
    }

    /// It comes back without a verdict: the next turn takes it along.
    pub(crate) fn end_lending(&self, key: &HeadKey, run_id: Uuid, update_id: &str) {
        let mut runs = self.lock();
        for put in runs.get_mut(key).into_iter().flatten() {
            if put.run_id == run_id && put.asked.update_id == update_id && matches!(put.place, UpdatePlace::Lent) {
                put.place = UpdatePlace::Waits;
            }
        }
        self.tidy(&mut runs, key);
    }

    /// A caller stops waiting if no decider has the update; answers whether it did.
    pub(crate) fn leave_if_waiting(&self, key: &HeadKey, update_id: &str, caller: u64) -> bool {
        let mut runs = self.lock();
        let mut puts = runs.get_mut(key).into_iter().flatten();
        let is_it =
            |put: &&mut super::Put| put.asked.update_id == update_id && put.callers.iter().any(|it| it.id == caller);
        // One that is not there any more has been answered.
        let Some(put) = puts.find(is_it).filter(|put| matches!(put.place, UpdatePlace::Waits)) else { return false };
        put.callers.retain(|it| it.id != caller);
        self.tidy(&mut runs, key);
        true
    }
}
