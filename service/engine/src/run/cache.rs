//! Cache of the most recently used runs, bounded by size. An evicted run is loaded again when a request needs it.

use std::sync::{Arc, Mutex, MutexGuard};

use lru::LruCache;
use store::HeadKey;

use crate::run::cell::RunCell;

struct CacheEntry {
    cell: Arc<RunCell>,
    bytes: usize,
}

struct CacheEntries {
    by_key: LruCache<HeadKey, CacheEntry>,
    bytes: usize,
}

/// Cells in memory, by workflow id. A cell contains the newest run and the requests to it.
pub(crate) struct Cache {
    entries: Mutex<CacheEntries>,
    bytes_max: usize,
}

/// Estimated size in bytes of a cell without a run.
const CELL_BYTES: usize = 400;

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let entries = CacheEntries { by_key: LruCache::unbounded(), bytes: 0 };
        Self { entries: Mutex::new(entries), bytes_max }
    }

    fn lock(&self) -> MutexGuard<'_, CacheEntries> {
        self.entries.lock().expect("no code panics while it holds this lock")
    }

    /// Returns the cell of a workflow id. Creates the cell if there is none.
    pub(crate) fn cell(&self, key: &HeadKey) -> Arc<RunCell> {
        let mut entries = self.lock();
        if let Some(entry) = entries.by_key.get(key) {
            return Arc::clone(&entry.cell);
        }
        let cell = Arc::new(RunCell::new(key.clone()));
        entries.by_key.put(key.clone(), CacheEntry { cell: Arc::clone(&cell), bytes: CELL_BYTES });
        entries.bytes += CELL_BYTES;
        self.shrink(&mut entries);
        cell
    }

    /// Sets the size of a cell after use; `None` if the cell has no run in memory. A cell without a run is removed
    /// unless it is in use.
    pub(crate) fn settle(&self, cell: &Arc<RunCell>, bytes: Option<usize>) {
        let mut entries = self.lock();
        let CacheEntries { by_key, bytes: sum } = &mut *entries;
        let Some(entry) = by_key.peek_mut(&cell.key).filter(|entry| Arc::ptr_eq(&entry.cell, cell)) else {
            return;
        };
        *sum -= entry.bytes;
        // If only the cache and this caller refer to the cell, it can be removed. Otherwise another caller is about to
        // use the cell.
        match bytes {
            None if Arc::strong_count(cell) <= 2 => drop(by_key.pop(&cell.key)),
            _ => {
                entry.bytes = CELL_BYTES + bytes.unwrap_or(0);
                *sum += entry.bytes;
            }
        }
        self.shrink(&mut entries);
    }

    /// Evicts the least recently used cells that are not in use.
    fn shrink(&self, entries: &mut CacheEntries) {
        let mut in_use = 0;
        while entries.bytes > self.bytes_max && in_use < entries.by_key.len() {
            let Some((key, entry)) = entries.by_key.pop_lru() else {
                return;
            };
            if Arc::strong_count(&entry.cell) > 1 {
                entries.by_key.put(key, entry);
                in_use += 1;
            } else {
                entries.bytes -= entry.bytes;
            }
        }
    }

    /// Returns the number of cells and their size in bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        let entries = self.lock();
        (entries.by_key.len(), entries.bytes)
    }
}
