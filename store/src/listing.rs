//! How lists match and page, said once for every engine. Owns no storage.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::{Error, ListQuery, Listed, PageToken, Row, RunId, UnixMs};

/// Whether a row of the query's domain meets every condition of the query.
pub fn matches(query: &ListQuery, workflow_id: &str, row: &Row) -> bool {
    query.open.is_none_or(|open| open == row.closed_at.is_none())
        && query.status.as_deref().is_none_or(|status| *status == *row.status)
        && query.workflow_type.as_deref().is_none_or(|name| *name == *row.workflow_type)
        && query.workflow_name.as_deref().is_none_or(|name| row.workflow_type.split('/').next() == Some(name))
        && query.workflow_id.as_deref().is_none_or(|id| id == workflow_id)
        && query.tag.as_deref().is_none_or(|tag| row.tags.iter().any(|found| found == tag))
        && query.started_from.is_none_or(|from| row.started_at >= from)
        && query.started_before.is_none_or(|before| row.started_at < before)
        && query.closed_from.is_none_or(|from| row.closed_at.is_some_and(|at| at >= from))
        && query.closed_before.is_none_or(|before| row.closed_at.is_some_and(|at| at < before))
}

/// A place in a list. Sorts as lists do: newest start first, then by workflow id, then by run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    started_at: Reverse<UnixMs>,
    workflow_id: Arc<str>,
    run: RunId,
}

impl Position {
    /// Where a run that started then stands.
    pub fn new(started_at: UnixMs, workflow_id: Arc<str>, run: RunId) -> Self {
        Self { started_at: Reverse(started_at), workflow_id, run }
    }

    /// Where a line stands.
    pub fn of(listed: &Listed) -> Self {
        Self::new(listed.row.started_at, Arc::clone(&listed.workflow_id), listed.run)
    }

    /// When the run at this place started.
    pub fn started_at(&self) -> UnixMs {
        self.started_at.0
    }

    /// The workflow id at this place.
    pub fn workflow_id(&self) -> &Arc<str> {
        &self.workflow_id
    }

    /// The run at this place.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// The token of the page that begins after this place.
    pub fn token(&self) -> PageToken {
        let mut bytes = Vec::with_capacity(24 + self.workflow_id.len());
        bytes.extend_from_slice(&self.started_at.0.to_be_bytes());
        bytes.extend_from_slice(&self.run);
        bytes.extend_from_slice(self.workflow_id.as_bytes());
        PageToken(bytes)
    }

    /// The place that a token was made from.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPage`] when the token was not made by [`token`](Self::token).
    pub fn from_token(token: &PageToken) -> Result<Self, Error> {
        let (started_at, rest) = token.0.split_first_chunk::<8>().ok_or(Error::InvalidPage)?;
        let (run, id) = rest.split_first_chunk::<16>().ok_or(Error::InvalidPage)?;
        let id = std::str::from_utf8(id).map_err(|_| Error::InvalidPage)?;
        Ok(Self::new(u64::from_be_bytes(*started_at), Arc::from(id), *run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leads_back_to_its_place() {
        let position = Position::new(7, Arc::from("order-1"), [9; 16]);
        assert_eq!(Position::from_token(&position.token()).unwrap(), position);
        assert!(matches!(Position::from_token(&PageToken(vec![1, 2])), Err(Error::InvalidPage)));
    }
}
