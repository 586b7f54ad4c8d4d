//! A layer: committed data that is not yet in redb. It is a sorted map whose entries take precedence over the pairs in
//! redb. This module merges successive changes of a key.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;

use bytes::Bytes;

use crate::keys;

/// Memory that an entry takes in addition to its key and value: a part of a node of the map, and the headers of the
/// allocations.
const SLOT_OVERHEAD: usize = 128;

/// Newest value of a key in a layer.
#[derive(Debug, Clone)]
pub(crate) struct LayerValue {
    /// Value, or `None` if the key was deleted.
    pub(crate) value: Option<Bytes>,
    /// Batch that contains the change. Readers must not see the change before that batch is durable.
    pub(crate) batch: u64,
    /// Offset of the value in the frame of that batch.
    pub(crate) at: u32,
    /// True if neither an older layer nor redb contains the key, so that its deletion need not be written to redb.
    is_new_below: bool,
}

impl LayerValue {
    /// Returns whether the change must be written to redb.
    pub(crate) fn must_be_written(&self) -> bool {
        self.value.is_some() || !self.is_new_below
    }
}

/// A sorted map of newest values that knows its size in memory.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    pub(crate) slots: BTreeMap<Box<[u8]>, LayerValue>,
    pub(crate) bytes: usize,
}

impl Layer {
    pub(crate) fn get(&self, key: &[u8]) -> Option<&LayerValue> {
        self.slots.get(key)
    }

    /// Returns the entries with `from <= key < to`.
    pub(crate) fn range<'a>(
        &'a self,
        from: &[u8],
        to: &[u8],
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], &'a LayerValue)> + use<'a> {
        // `BTreeMap` panics if a range ends before it begins.
        let to = to.max(from);
        self.slots
            .range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)))
            .map(|(key, slot)| (key.as_ref(), slot))
    }

    /// Sets a value. `is_new` is `true` if neither a layer nor redb contains the key.
    pub(crate) fn put(&mut self, key: &[u8], value: Bytes, batch: u64, at: u32, is_new: bool) {
        self.bytes += value.len();
        if let Some(slot) = self.slots.get_mut(key) {
            self.bytes = self.bytes.saturating_sub(slot.value.as_ref().map_or(0, Bytes::len));
            slot.value = Some(value);
            (slot.batch, slot.at) = (batch, at);
        } else {
            self.bytes += key.len() + SLOT_OVERHEAD;
            self.slots.insert(Box::from(key), LayerValue { value: Some(value), batch, at, is_new_below: is_new });
        }
    }

    /// Deletes a key. If the key belongs to an index, and neither redb nor an older layer contains it, its entry is
    /// removed. Otherwise the deletion is recorded as an entry without a value, so that readers see the deletion only
    /// when it is durable.
    pub(crate) fn delete(&mut self, key: &[u8], batch: u64) {
        let is_index = key.first().is_some_and(|table| keys::INDEXES.contains(table));
        match self.slots.entry(Box::from(key)) {
            Entry::Occupied(mut entry) => {
                self.bytes = self.bytes.saturating_sub(entry.get().value.as_ref().map_or(0, Bytes::len));
                if is_index && entry.get().is_new_below {
                    self.bytes = self.bytes.saturating_sub(key.len() + SLOT_OVERHEAD);
                    entry.remove();
                } else {
                    let slot = entry.get_mut();
                    slot.value = None;
                    slot.batch = batch;
                }
            }
            Entry::Vacant(entry) => {
                self.bytes += key.len() + SLOT_OVERHEAD;
                entry.insert(LayerValue { value: None, batch, at: 0, is_new_below: false });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_entry_that_redb_never_saw_leaves_no_trace() {
        let mut layer = Layer::default();
        layer.put(b"d1", Bytes::from_static(b"v"), 1, 0, true);
        layer.delete(b"d1", 2);
        assert!(layer.slots.is_empty());
        assert_eq!(layer.bytes, 0);
    }

    #[test]
    fn an_index_entry_that_redb_may_have_leaves_a_tombstone() {
        let mut layer = Layer::default();
        layer.delete(b"d1", 1);
        layer.put(b"d1", Bytes::new(), 2, 0, true);
        layer.delete(b"d1", 3);
        assert!(layer.get(b"d1").unwrap().must_be_written());
    }

    #[test]
    fn a_deleted_new_head_leaves_a_tombstone_but_no_write() {
        let mut layer = Layer::default();
        layer.put(b"h1", Bytes::from_static(b"v"), 1, 0, true);
        layer.delete(b"h1", 2);
        let slot = layer.get(b"h1").unwrap();
        assert_eq!((slot.batch, slot.value.is_none(), slot.must_be_written()), (2, true, false));
    }

    #[test]
    fn the_size_covers_only_current_values() {
        let mut layer = Layer::default();
        layer.put(b"h1", Bytes::from(vec![0; 1000]), 1, 0, true);
        layer.put(b"h1", Bytes::from(vec![0; 10]), 2, 0, true);
        assert_eq!(layer.bytes, 2 + SLOT_OVERHEAD + 10);
    }
}
