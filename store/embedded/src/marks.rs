//! Marks. A mark is written without reading an existing mark of the same name. An entry in the index of expiries may
//! therefore belong to a mark that was replaced in the meantime.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use store::{Error, HeadKey, MARK_BYTES_MAX, Mark, UnixMs};

use crate::keys;
use crate::read::Want;
use crate::shared::{Durable, Shared};
use crate::write::check_size;

/// Maximum number of marks written in one commit.
const AT_ONCE: usize = 1024;

/// Encodes a mark as its expiry followed by its bytes.
fn record(mark: &Mark) -> Bytes {
    let mut record = BytesMut::with_capacity(8 + mark.bytes.len());
    record.put_u64(mark.expires_at);
    record.put_slice(&mark.bytes);
    record.freeze()
}

fn read(record: &Bytes) -> Result<(UnixMs, Bytes), Error> {
    let corrupt = || Error::Corrupt { what: format!("a stored mark of {} bytes cannot be read", record.len()) };
    let at = record.first_chunk::<8>().ok_or_else(corrupt)?;
    Ok((u64::from_be_bytes(*at), record.slice(8..)))
}

impl Shared {
    pub(crate) async fn put_marks(&self, key: &HeadKey, marks: &[Mark]) -> Result<(), Error> {
        for mark in marks {
            check_size(mark.bytes.len(), MARK_BYTES_MAX)?;
        }
        let mut last = None;
        for marks in marks.chunks(AT_ONCE) {
            self.ensure_space().await?;
            let mut state = self.open()?;
            for mark in marks {
                state.put(&keys::mark(key, mark.name), record(mark), false);
                state.put(&keys::mark_expiry(mark.expires_at, key, mark.name), Bytes::new(), false);
            }
            last = Some(Self::committed(&mut state));
            self.write_or_wake(state);
        }
        // Batches become durable in order, so it suffices to wait for the last one.
        match last {
            Some(durable) => self.wait(durable).await,
            None => Ok(()),
        }
    }

    pub(crate) async fn marks(&self, key: &HeadKey, names: &[u64]) -> Result<Vec<Option<Bytes>>, Error> {
        let places: Vec<_> = names.iter().map(|name| keys::mark(key, *name)).collect();
        let bytes = |record: Bytes| read(&record).map(|(_, bytes)| bytes);
        self.values(&places).await?.into_iter().map(|record| record.map(bytes).transpose()).collect()
    }
}

/// Deletes expired marks, beginning with the earliest expiry. Returns their number, and the commit to wait for.
pub(crate) async fn forget_expired(
    shared: &Arc<Shared>,
    now: UnixMs,
    limit: usize,
) -> Result<(usize, Option<Durable>), Error> {
    let mut to = vec![keys::MARK_EXPIRY];
    to.extend_from_slice(&now.to_be_bytes());
    let want = Want { pairs: limit.min(AT_ONCE), bytes: usize::MAX, is_reverse: false };
    if want.pairs == 0 {
        return Ok((0, None));
    }
    let expired = shared.scan(vec![keys::MARK_EXPIRY], keys::after_prefix(&to), want).await?.pairs;
    let mut places = Vec::with_capacity(expired.len());
    for (found, _) in &expired {
        let (_, key, name) = keys::read_mark_expiry(found)?;
        places.push(keys::mark(&key, name));
    }
    if places.is_empty() {
        return Ok((0, None));
    }
    shared.ensure_space_for_deletion().await?;
    let durable = shared.with(&places, |state, found| {
        for ((place, (index, _)), found) in places.iter().zip(&expired).zip(found) {
            state.delete(index);
            // The index entry may belong to a mark that was replaced. The current mark may expire later.
            let is_over = match found.value.as_ref().map(read).transpose()? {
                Some((expires_at, _)) => expires_at <= now,
                None => false,
            };
            if is_over {
                state.delete(place);
            }
        }
        Ok::<_, Error>(Shared::committed(state))
    })??;
    Ok((expired.len(), Some(durable)))
}
