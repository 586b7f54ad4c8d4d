//! Deletion of runs. The run's head (current or replaced) is deleted together with its row. If the run has few parts,
//! they are deleted in the same commit. Otherwise a deletion record is written, which survives a crash, and the parts
//! are deleted in several commits.

use std::sync::Arc;

use bytes::Bytes;
use store::{Error, Head, HeadKey, RunId, UnixMs};

use crate::read::Want;
use crate::record::decode_head;
use crate::shared::{Durable, Shared, State};
use crate::write::unindex;
use crate::{Embedded, keys, marks};

/// Maximum number of parts deleted in one commit.
const PARTS: usize = 1024;

impl Embedded {
    /// Deletes a run in any state.
    pub(crate) async fn forget_run(&self, key: &HeadKey, run: RunId) -> Result<(), Error> {
        let _one_at_a_time = self.forgetting.lock().await;
        let mut durable = forget(&self.shared, key, run, |_| true).await?;
        if let Some(swept) = sweep(&self.shared, key, run).await? {
            durable = Some(swept);
        }
        self.wait_for(durable).await
    }

    async fn wait_for(&self, durable: Option<Durable>) -> Result<(), Error> {
        match durable {
            Some(durable) => self.shared.wait(durable).await,
            None => Ok(()),
        }
    }

    /// Deletes expired runs and marks, beginning with the earliest expiry.
    pub(crate) async fn forget_expired(&self, now: UnixMs, limit: usize) -> Result<usize, Error> {
        let _one_at_a_time = self.forgetting.lock().await;
        let left: Vec<_> = self.shared.open()?.doomed.iter().take(limit).cloned().collect();
        for doomed in left {
            let (key, run) = keys::read_doomed(&doomed)?;
            let swept = sweep(&self.shared, &key, run).await?;
            self.wait_for(swept).await?;
        }
        let mut to = vec![keys::EXPIRY];
        to.extend_from_slice(&now.to_be_bytes());
        let to = keys::after_prefix(&to);
        let mut count = 0;
        // Batches become durable in order, so it suffices to wait for the last one.
        let mut last = None;
        while count < limit {
            let want = Want { pairs: (limit - count).min(PARTS), bytes: usize::MAX, is_reverse: false };
            let expired = self.shared.scan(vec![keys::EXPIRY], to.clone(), want).await?;
            let mut progress = 0;
            for (found, _) in &expired.pairs {
                let (_, key, run) = keys::read_expiry(found)?;
                let is_expired = |head: &Head| head.expires_at.is_some_and(|at| at <= now);
                if let Some(forgotten) = forget(&self.shared, &key, run, is_expired).await? {
                    last = Some(sweep(&self.shared, &key, run).await?.unwrap_or(forgotten));
                    progress += 1;
                }
            }
            count += progress;
            if expired.is_end || progress == 0 {
                break;
            }
        }
        let (marks, durable) = marks::forget_expired(&self.shared, now, limit).await?;
        self.wait_for(durable.or(last)).await?;
        Ok(count.max(marks))
    }

    /// If the deletion of a run was interrupted, finishes it before a run with the same id is created again.
    pub(crate) async fn finish_forgetting(&self, key: &HeadKey, run: RunId) -> Result<(), Error> {
        {
            let state = self.shared.open()?;
            if state.doomed.is_empty() || !state.doomed.contains(&keys::doomed(key, run)) {
                return Ok(());
            }
        }
        let _one_at_a_time = self.forgetting.lock().await;
        let swept = sweep(&self.shared, key, run).await?;
        self.wait_for(swept).await
    }
}

/// Deletes a run's head (current or replaced) if it still meets `condition`, and records that the run's parts must be
/// deleted.
async fn forget(
    shared: &Arc<Shared>,
    key: &HeadKey,
    run: RunId,
    condition: impl Fn(&Head) -> bool,
) -> Result<Option<Durable>, Error> {
    shared.ensure_space_for_deletion().await?;
    let places = [keys::head(key), keys::kept(key, run)];
    let doomed = keys::doomed(key, run);
    shared.with(&places, |state: &mut State, found| {
        for (place, found) in places.iter().zip(found) {
            let Some(head) = found.value.as_ref().map(decode_head).transpose()? else {
                continue;
            };
            if head.run == run && condition(&head) {
                unindex(state, key, place, &head);
                state.put(&doomed, Bytes::new(), true);
                state.doomed.insert(doomed.clone());
                return Ok::<_, Error>(Some(Shared::committed(state)));
            }
        }
        Ok(None)
    })?
}

/// Deletes the parts of a run that has a deletion record, and then the record.
async fn sweep(shared: &Arc<Shared>, key: &HeadKey, run: RunId) -> Result<Option<Durable>, Error> {
    let doomed = keys::doomed(key, run);
    if !shared.open()?.doomed.contains(&doomed) {
        return Ok(None);
    }
    let prefix = keys::parts_of(key, run);
    loop {
        let parts = shared.scan_keys(prefix.clone(), keys::after_prefix(&prefix), PARTS).await?;
        shared.ensure_space_for_deletion().await?;
        let durable = {
            let mut state = shared.open()?;
            for (part, _) in &parts.pairs {
                state.delete(part);
            }
            if parts.is_end {
                state.delete(&doomed);
                state.doomed.remove(&doomed);
            }
            let durable = Shared::committed(&mut state);
            shared.write_or_wake(state);
            durable
        };
        if parts.is_end {
            return Ok(Some(durable));
        }
        shared.wait(durable).await?;
    }
}
