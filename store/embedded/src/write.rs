//! Writes of one workflow id: compares and swaps the head, and updates the indexes.

use std::sync::Arc;

use bytes::Bytes;
use store::listing::Position;
use store::{Cas, Error, Expect, Head, HeadKey, Order, PartKey, Row, RunId, UnixMs};

use crate::LIMITS;
use crate::keys;
use crate::newest::FoundValue;
use crate::record::{decode_head, encode_head, encode_row};
use crate::shared::{Durable, Shared, State};
use crate::terms::term_keys;

enum WriteOutcome {
    Won(Durable),
    Lost(Option<Head>, u64),
}

pub(crate) fn check_size(found: usize, max: usize) -> Result<(), Error> {
    if found > max { Err(Error::TooLarge { max, found }) } else { Ok(()) }
}

impl Shared {
    pub(crate) async fn commit(
        &self,
        key: &HeadKey,
        expect: Expect<'_>,
        head: &Head,
        parts: &[(PartKey, Bytes)],
    ) -> Result<Cas, Error> {
        Self::check_commit(head, parts)?;
        let record = encode_head(head);
        let parts: Vec<_> = parts.iter().map(|(part, bytes)| (keys::part(key, head.run, *part), bytes)).collect();
        self.ensure_space().await?;
        let place = [keys::head(key)];
        let outcome = self.with(&place, |state, found| {
            let Some(FoundValue { value, batch }) = found.into_iter().next() else {
                return Err(Error::Corrupt { what: "a lookup of a written key returned no result".to_owned() });
            };
            let old = value.as_ref().map(decode_head).transpose()?;
            if !holds(&expect, old.as_ref()) {
                return Ok(WriteOutcome::Lost(old, batch));
            }
            for (part, bytes) in &parts {
                state.put(part, Bytes::clone(bytes), false);
            }
            match expect {
                Expect::Replacing(kept) => {
                    keep(state, key, old.as_ref(), kept.expires_at);
                    index(state, key, old.as_ref().and_then(|old| old.due), None, head);
                }
                Expect::Absent | Expect::Exactly { .. } => {
                    index(state, key, old.as_ref().and_then(|old| old.due), old.as_ref(), head);
                }
            }
            state.put(&place[0], record.clone(), old.is_none());
            Ok(WriteOutcome::Won(Self::committed(state)))
        })??;
        self.settled(outcome).await
    }

    fn check_commit(head: &Head, parts: &[(PartKey, Bytes)]) -> Result<(), Error> {
        check_size(head.body.len(), LIMITS.head_hard)?;
        let mut size = head.body.len();
        for (_, bytes) in parts {
            check_size(bytes.len(), LIMITS.part_max)?;
            size += bytes.len() + 128;
        }
        Self::check_frame(size)
    }

    /// Waits until a commit is durable, and returns its result.
    async fn settled(&self, outcome: WriteOutcome) -> Result<Cas, Error> {
        match outcome {
            WriteOutcome::Won(durable) => {
                self.wait(durable).await?;
                self.count_commit();
                Ok(Cas::Won)
            }
            WriteOutcome::Lost(old, batch) => {
                self.wait_for_batch(batch).await?;
                Ok(Cas::Lost(old))
            }
        }
    }

    pub(crate) async fn put_kept(&self, key: &HeadKey, head: &Head, parts: &[(PartKey, Bytes)]) -> Result<Cas, Error> {
        Self::check_commit(head, parts)?;
        let place = keys::kept(key, head.run);
        self.ensure_space().await?;
        let outcome = self.with(&[keys::head(key), place.clone()], |state, found| {
            for FoundValue { value, batch } in found {
                let there = value.as_ref().map(decode_head).transpose()?;
                if let Some(there) = there.filter(|there| there.run == head.run) {
                    return Ok::<_, Error>(WriteOutcome::Lost(Some(there), batch));
                }
            }
            for (part, bytes) in parts {
                state.put(&keys::part(key, head.run, *part), Bytes::clone(bytes), false);
            }
            index(state, key, None, None, &Head { due: None, ..head.clone() });
            state.put(&place, encode_head(head), true);
            Ok(WriteOutcome::Won(Self::committed(state)))
        })??;
        self.settled(outcome).await
    }

    pub(crate) async fn put_part(&self, key: &HeadKey, run: RunId, part: PartKey, bytes: Bytes) -> Result<(), Error> {
        check_size(bytes.len(), LIMITS.part_max)?;
        self.ensure_space().await?;
        let durable = self.with(&[keys::head(key), keys::kept(key, run)], |state, found| {
            let mut is_known = false;
            for value in found.iter().filter_map(|found| found.value.as_ref()) {
                is_known |= decode_head(value)?.run == run;
            }
            if is_known {
                state.put(&keys::part(key, run, part), bytes.clone(), false);
                Ok(Some(Self::committed(state)))
            } else {
                Ok::<_, Error>(None)
            }
        })??;
        match durable {
            Some(durable) => self.wait(durable).await,
            None => Ok(()),
        }
    }
}

fn holds(expect: &Expect<'_>, found: Option<&Head>) -> bool {
    match (expect, found) {
        (Expect::Absent, None) => true,
        (Expect::Exactly { run, version }, Some(found)) => found.run == *run && found.version == *version,
        (Expect::Replacing(old), Some(found)) => found.run == old.run && found.version == old.version,
        (Expect::Absent, Some(_)) | (Expect::Exactly { .. } | Expect::Replacing(_), None) => false,
    }
}

fn expiry(key: &HeadKey, head: &Head) -> Option<Vec<u8>> {
    head.expires_at.map(|at| keys::expiry(at, key, head.run))
}

/// Writes a copy of a replaced head under the key of its run. The copy is kept until `expires_at`. The run's row does
/// not change.
fn keep(state: &mut State, key: &HeadKey, old: Option<&Head>, expires_at: Option<UnixMs>) {
    let Some(old) = old else { return };
    let kept = Head { expires_at, ..old.clone() };
    state.put(&keys::kept(key, kept.run), encode_head(&kept), true);
    move_expiry(state, expiry(key, old), expiry(key, &kept));
}

fn move_expiry(state: &mut State, old: Option<Vec<u8>>, new: Option<Vec<u8>>) {
    if old == new {
        return;
    }
    if let Some(old) = old {
        state.delete(&old);
    }
    if let Some(new) = new {
        state.put(&new, Bytes::new(), true);
    }
}

/// Updates the indexes after a head has changed: due time, row, index entries by type and tag, and expiry. `same_run`
/// is the previous head if it belongs to the same run. Only entries that change are written.
fn index(state: &mut State, key: &HeadKey, old_due: Option<UnixMs>, same_run: Option<&Head>, head: &Head) {
    if old_due != head.due {
        if let Some(at) = old_due {
            state.delete(&keys::due(at, key));
        }
        if let Some(at) = head.due {
            state.put(&keys::due(at, key), Bytes::new(), true);
        }
    }
    move_expiry(state, same_run.and_then(|old| expiry(key, old)), expiry(key, head));
    let old_row = same_run.and_then(|old| old.row.as_ref());
    if old_row == head.row.as_ref() {
        return;
    }
    let old_rows = old_row.map(|row| row_keys(key, head.run, row)).unwrap_or_default();
    let new_rows = head.row.as_ref().map(|row| row_keys(key, head.run, row)).unwrap_or_default();
    let old_terms = old_row.map(|row| terms_of(key, head.run, row)).unwrap_or_default();
    let new_terms = head.row.as_ref().map(|row| terms_of(key, head.run, row)).unwrap_or_default();
    for old in old_rows.iter().filter(|old| !new_rows.contains(old)) {
        state.delete(old);
    }
    for old in old_terms.iter().filter(|old| !new_terms.contains(old)) {
        state.delete(old);
    }
    state.count(&key.domain, old_row, head.row.as_ref());
    if let Some(row) = &head.row {
        for new in &new_rows {
            state.put(new, encode_row(row), !old_rows.contains(new));
        }
    }
    for new in new_terms.iter().filter(|new| !old_terms.contains(new)) {
        state.put(new, Bytes::new(), true);
    }
}

/// Returns the keys under which a run's row is stored: in the table of open or closed rows by start and, for a closed
/// run, in the table of rows by close.
pub(crate) fn row_keys(key: &HeadKey, run: RunId, row: &Row) -> Vec<Vec<u8>> {
    let by_start = if row.closed_at.is_none() { keys::OPEN_ROW } else { keys::CLOSED_ROW };
    let places = [(by_start, Order::NewestStart), (keys::ENDED_ROW, Order::NewestClose)];
    let place = |(table, order)| {
        let position = Position::of(order, &key.workflow_id, run, row)?;
        Some(keys::row(table, &key.domain, &position))
    };
    places.into_iter().filter_map(place).collect()
}

/// Returns the keys of a row's index entries by type and tag.
fn terms_of(key: &HeadKey, run: RunId, row: &Row) -> Vec<Vec<u8>> {
    let position = Position::new(row.started_at, row.started_at, Arc::clone(&key.workflow_id), run);
    term_keys(&key.domain, &position, row)
}

/// Deletes the head at the key `place`, which is a current or a kept head, and its entries in the indexes.
pub(crate) fn unindex(state: &mut State, key: &HeadKey, place: &[u8], head: &Head) {
    state.delete(place);
    if let Some(at) = head.due.filter(|_| place.first() == Some(&keys::HEAD)) {
        state.delete(&keys::due(at, key));
    }
    if let Some(at) = head.expires_at {
        state.delete(&keys::expiry(at, key, head.run));
    }
    if let Some(row) = &head.row {
        for place in row_keys(key, head.run, row).iter().chain(&terms_of(key, head.run, row)) {
            state.delete(place);
        }
        state.count(&key.domain, Some(row), None);
    }
}
