//! Reads of single keys, and of key ranges. The data in memory and in redb is merged, and data that is not durable is
//! never returned.
//!
//! A single key is read on the caller's thread. The upper levels of redb's tree are cached, so the read takes
//! microseconds, which is less than switching to another thread takes. A range may need many pages, so it is read on a
//! thread that may block.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use store::{Due, Error, Head, HeadKey, RunId, UnixMs};

use crate::disk::blocking;
use crate::keys;
use crate::layer::LayerValue;
use crate::newest::FoundValue;
use crate::record::decode_head;
use crate::shared::{Frozen, Shared};
use crate::tree::{Pairs, Snapshot};

/// Maximum number of entries of the active layer (newest data in memory) that are copied or looked up under the lock at
/// a time.
pub(crate) const COPY: usize = 512;

/// Pairs read from a range, in order, and whether the range ends with them.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    pub(crate) pairs: Vec<(Bytes, Bytes)>,
    pub(crate) is_end: bool,
}

/// Limits of one read of a range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Want {
    pub(crate) pairs: usize,
    /// Total size of values after which the read stops.
    pub(crate) bytes: usize,
    pub(crate) is_reverse: bool,
}

impl Shared {
    pub(crate) async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
        let values = self.values(&[keys::head(key)]).await?;
        values.into_iter().flatten().next().as_ref().map(decode_head).transpose()
    }

    pub(crate) async fn load_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Head>, Error> {
        for value in self.values(&[keys::head(key), keys::kept(key, run)]).await?.iter().flatten() {
            let head = decode_head(value)?;
            if head.run == run {
                return Ok(Some(head));
            }
        }
        Ok(None)
    }

    /// Returns the durable values of some keys, all from the same moment.
    pub(crate) async fn values(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>, Error> {
        let found = self.with(keys, |_, found| found)?;
        self.durable_values(found).await
    }

    /// Works like [`values`](Self::values), for keys whose values may be large.
    pub(crate) async fn large_values(self: &Arc<Self>, keys: Vec<Vec<u8>>) -> Result<Vec<Option<Bytes>>, Error> {
        if self.has_in_memory(&keys)? {
            return self.values(&keys).await;
        }
        let shared = Arc::clone(self);
        let found = blocking(move || shared.with(&keys, |_, found| found)).await?;
        self.durable_values(found).await
    }

    async fn durable_values(&self, found: Vec<FoundValue>) -> Result<Vec<Option<Bytes>>, Error> {
        if let Some(batch) = found.iter().map(|found| found.batch).max() {
            self.wait_for_batch(batch).await?;
        }
        Ok(found.into_iter().map(|found| found.value).collect())
    }

    /// Returns the pairs with `from <= key < to`, up to the limits of `want`.
    pub(crate) async fn scan(self: &Arc<Self>, from: Vec<u8>, to: Vec<u8>, want: Want) -> Result<Scanned, Error> {
        self.scan_with(from, to, want, Snapshot::range).await
    }

    /// Works like [`scan`](Self::scan), but returns empty values. The values are not read, so that it does not matter
    /// if they are large or damaged.
    pub(crate) async fn scan_keys(
        self: &Arc<Self>,
        from: Vec<u8>,
        to: Vec<u8>,
        pairs: usize,
    ) -> Result<Scanned, Error> {
        let want = Want { pairs, bytes: usize::MAX, is_reverse: false };
        self.scan_with(from, to, want, Snapshot::keys).await
    }

    async fn scan_with(
        self: &Arc<Self>,
        from: Vec<u8>,
        to: Vec<u8>,
        want: Want,
        read: ReadRange,
    ) -> Result<Scanned, Error> {
        let (mut from, mut to) = (from, to);
        let mut scanned = Scanned::default();
        let mut bytes = 0;
        let mut newest = 0;
        while from < to {
            let layers = self.layers(&from, &to, want.is_reverse)?;
            let remaining = Want { pairs: want.pairs - scanned.pairs.len(), bytes: want.bytes - bytes, ..want };
            let part = blocking(move || layers.merge(remaining, read)).await?;
            newest = newest.max(part.newest_batch);
            bytes += part.pairs.iter().map(|(_, value)| value.len()).sum::<usize>();
            scanned.pairs.extend(part.pairs);
            match part.next {
                None => {
                    scanned.is_end = true;
                    break;
                }
                Some(next) if want.is_reverse => to = next,
                Some(next) => from = next,
            }
            if scanned.pairs.len() >= want.pairs || bytes >= want.bytes {
                break;
            }
        }
        scanned.is_end |= from >= to;
        self.wait_for_batch(newest).await?;
        Ok(scanned)
    }

    /// Returns the entries of both layers and redb in a range, from the same moment. At most [`COPY`] entries of the
    /// active layer are copied under the lock, and if the range has more entries, it is shortened accordingly.
    fn layers(&self, from: &[u8], to: &[u8], is_reverse: bool) -> Result<Layers, Error> {
        let state = self.open()?;
        let range = state.active.range(from, to);
        let active: BTreeMap<_, _> =
            if is_reverse { range.rev().take(COPY).map(copy).collect() } else { range.take(COPY).map(copy).collect() };
        let (mut from, mut to, mut next) = (from.to_vec(), to.to_vec(), None);
        if active.len() == COPY {
            if is_reverse {
                from = active.first_key_value().map_or(from, |(key, _)| key.to_vec());
                next = Some(from.clone());
            } else {
                to = active.last_key_value().map_or(to, |(key, _)| keys::after(key));
                next = Some(to.clone());
            }
        }
        let frozen = state.frozen.clone();
        Ok(Layers { snapshot: self.tree.snapshot()?, frozen, active, from, to, next, is_reverse })
    }
}

struct Layers {
    active: BTreeMap<Bytes, (Option<Bytes>, u64)>,
    frozen: Option<Arc<Frozen>>,
    snapshot: Snapshot,
    from: Vec<u8>,
    to: Vec<u8>,
    /// Key from which the rest of the range must be read. `None` if these layers cover the whole range.
    next: Option<Vec<u8>>,
    is_reverse: bool,
}

struct Merged {
    pairs: Vec<(Bytes, Bytes)>,
    newest_batch: u64,
    next: Option<Vec<u8>>,
}

/// Function that reads a range of keys from redb.
type ReadRange = fn(&Snapshot, &[u8], &[u8], bool) -> Result<Pairs, Error>;

type Slots<'a> = Box<dyn Iterator<Item = Result<(Bytes, (Option<Bytes>, u64)), Error>> + 'a>;

impl Layers {
    fn merge(self, want: Want, read: ReadRange) -> Result<Merged, Error> {
        let Self { active, frozen, snapshot, from, to, next, is_reverse } = self;
        let frozen_slots = frozen.iter().flat_map(|frozen| {
            let range = frozen.layer.range(&from, &to);
            let slots: Slots<'_> =
                if is_reverse { Box::new(range.rev().map(copy).map(Ok)) } else { Box::new(range.map(copy).map(Ok)) };
            slots
        });
        let active: Slots<'_> =
            if is_reverse { Box::new(active.into_iter().rev().map(Ok)) } else { Box::new(active.into_iter().map(Ok)) };
        let tree =
            read(&snapshot, &from, &to, is_reverse)?.map(|pair| pair.map(|(key, value)| (key, (Some(value), 0))));
        let mut sources = [active.peekable(), (Box::new(frozen_slots) as Slots<'_>).peekable(), {
            let tree: Slots<'_> = Box::new(tree);
            tree.peekable()
        }];
        let mut merged = Merged { pairs: Vec::new(), newest_batch: 0, next };
        let mut bytes = 0;
        loop {
            let mut first: Option<Bytes> = None;
            for source in &mut sources {
                let key = match source.peek() {
                    None => continue,
                    Some(Ok((key, _))) => key,
                    Some(Err(_)) => return Err(source.next().and_then(Result::err).unwrap_or(Error::InvalidPage)),
                };
                if first.as_ref().is_none_or(|first| if is_reverse { key > first } else { key < first }) {
                    first = Some(key.clone());
                }
            }
            let Some(first) = first else { return Ok(merged) };
            // If several sources contain a key, the value of the newest one is used.
            let mut winner = None;
            for source in &mut sources {
                if let Some(Ok((_, slot))) = source.next_if(|item| item.as_ref().is_ok_and(|(key, _)| *key == first)) {
                    winner.get_or_insert(slot);
                }
            }
            let Some((value, batch)) = winner else { continue };
            merged.newest_batch = merged.newest_batch.max(batch);
            let Some(value) = value else { continue };
            bytes += value.len();
            merged.pairs.push((first.clone(), value));
            if merged.pairs.len() >= want.pairs || bytes >= want.bytes {
                merged.next = Some(if is_reverse { first.to_vec() } else { keys::after(&first) });
                return Ok(merged);
            }
        }
    }
}

fn copy((key, slot): (&[u8], &LayerValue)) -> (Bytes, (Option<Bytes>, u64)) {
    (Bytes::copy_from_slice(key), (slot.value.clone(), slot.batch))
}

/// Returns the chunks in a range of keys until their total size reaches `max_bytes`, but at least one.
pub(crate) async fn chunks(
    shared: &Arc<Shared>,
    from: Vec<u8>,
    to: Vec<u8>,
    is_reverse: bool,
    max_bytes: usize,
) -> Result<Vec<(u64, Bytes)>, Error> {
    let want = Want { pairs: usize::MAX, bytes: max_bytes.max(1), is_reverse };
    let pairs = shared.scan(from, to, want).await?.pairs;
    pairs.into_iter().map(|(key, value)| Ok((keys::read_part_number(&key)?, value))).collect()
}

/// Returns the due heads that follow `after`, earliest first.
pub(crate) async fn due(
    shared: &Arc<Shared>,
    until: UnixMs,
    after: Option<&Due>,
    limit: usize,
) -> Result<Vec<Due>, Error> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let mut to = vec![keys::DUE];
    to.extend_from_slice(&until.to_be_bytes());
    let want = Want { pairs: limit, bytes: usize::MAX, is_reverse: false };
    let to = keys::after_prefix(&to);
    let mut from = vec![keys::DUE];
    if let Some(after) = after {
        from = keys::due(after.at, &after.key);
        // Begins with the smallest key after the entry.
        from.push(0);
    }
    if from >= to {
        return Ok(Vec::new());
    }
    let pairs = shared.scan(from, to, want).await?.pairs;
    pairs.iter().map(|(key, _)| keys::read_due(key).map(|(at, key)| Due { at, key })).collect()
}
