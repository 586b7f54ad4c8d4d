//! The service's own records in the store. They are stored under a domain name that callers cannot use.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use store::{Cas, Expect, Head, HeadKey, ListQuery, Store};

use crate::Refusal;

/// Domain name under which the records are stored. The name of a caller's domain is never empty.
const OWN: &str = "";

/// First character of the internal domain that stores the schedules of a caller's domain. The name of a caller's domain
/// never contains control characters.
const SCHEDULES: char = '\u{1}';

/// First character of the internal domain with the batches of a caller's domain.
const BATCHES: char = '\u{2}';

pub(crate) fn own_key(name: &str) -> HeadKey {
    HeadKey { domain: OWN.into(), workflow_id: name.into() }
}

pub(crate) fn own_head(before: Option<&Head>, body: Bytes) -> Head {
    let version = before.map_or(1, |head| head.version + 1);
    Head { run: [0; 16], version, body, due: None, row: None, expires_at: None }
}

/// Access to the service's own records.
#[derive(Clone)]
pub(crate) struct Records {
    store: Arc<dyn Store>,
}

impl Records {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Reads a record.
    pub(crate) async fn load(&self, name: &str) -> Result<Option<Head>, Refusal> {
        Ok(self.store.load(&own_key(name)).await?)
    }

    /// Writes a record, unless the record was changed since it was read.
    pub(crate) async fn write(
        &self,
        name: &str,
        before: Option<&Head>,
        record: &impl Serialize,
    ) -> Result<Cas, Refusal> {
        let body = serde_json::to_vec(record).map_err(|error| Refusal::Corrupt { what: error.to_string() })?;
        let expect = match before {
            Some(head) => Expect::Exactly { run: head.run, version: head.version },
            None => Expect::Absent,
        };
        Ok(self.store.commit(&own_key(name), expect, &own_head(before, body.into()), &[]).await?)
    }
}

/// Returns the key of a schedule in the store.
pub(crate) fn schedule_key(domain: &str, id: &str) -> HeadKey {
    HeadKey { domain: format!("{SCHEDULES}{domain}").into(), workflow_id: id.into() }
}

/// Returns true if a domain has schedules.
pub(crate) async fn has_schedules(store: &dyn Store, domain: &str) -> Result<bool, Refusal> {
    let query =
        ListQuery { domain: schedule_key(domain, "").domain, open: Some(true), limit: 1, ..ListQuery::default() };
    Ok(!store.list(&query, None).await?.rows.is_empty())
}

/// Returns the domain of the schedule with this key; `None` if the key belongs to a run.
pub(crate) fn domain_of_schedule(key: &HeadKey) -> Option<&str> {
    key.domain.strip_prefix(SCHEDULES)
}

/// Returns the key of a batch in the store.
pub(crate) fn batch_key(domain: &str, id: &str) -> HeadKey {
    HeadKey { domain: format!("{BATCHES}{domain}").into(), workflow_id: id.into() }
}

/// Returns the number of batches of a domain that are not completed, but at most `limit`.
pub(crate) async fn open_batches(store: &dyn Store, domain: &str, limit: usize) -> Result<usize, Refusal> {
    let query = ListQuery { domain: batch_key(domain, "").domain, open: Some(true), limit, ..ListQuery::default() };
    Ok(store.list(&query, None).await?.rows.len())
}

/// Returns the domain of the batch with this key. Returns `None` if it is the key of a run or a schedule.
pub(crate) fn domain_of_batch(key: &HeadKey) -> Option<&str> {
    key.domain.strip_prefix(BATCHES)
}
