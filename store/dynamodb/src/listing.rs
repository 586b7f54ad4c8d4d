//! Lists: the partitions of the index `vis` that a query touches, merged in order. A page ends early where one of them
//! was not read further, so that no row is shown before one that belongs in front of it.

use std::collections::BTreeMap;

use store::listing::{Position, matches};
use store::{Error, ListPage, ListQuery, Listed, PageToken};

use crate::Dynamo;
use crate::attributes::{Item, binary, text};
use crate::errors::not_applied;
use crate::item::{read_key, read_row, read_run};
use crate::keys;

/// How many rows are read of a partition for one page.
const ROWS_READ_MAX: usize = 1000;

fn read_listed(item: &Item) -> Result<Option<Listed>, Error> {
    let Some(row) = read_row(item)? else { return Ok(None) };
    Ok(Some(Listed { workflow_id: read_key(item)?.workflow_id, run: read_run(item)?, row }))
}

impl Dynamo {
    pub(crate) async fn list_page(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
        let after = page.map(Position::from_token).transpose()?;
        let mut rows = BTreeMap::new();
        // Rows behind this place are not all known.
        let mut horizon: Option<Position> = None;
        if let Some(id) = &query.workflow_id {
            let key = store::HeadKey { domain: query.domain.clone(), workflow_id: id.as_str().into() };
            self.rows_of_id(&key, &mut rows).await?;
        } else {
            for is_open in [true, false].into_iter().filter(|is_open| query.open.is_none_or(|open| open == *is_open)) {
                for shard in 0..self.options.row_shards {
                    let partition = keys::rows_shard(is_open, &query.domain, shard);
                    let end = self.rows_of_shard(partition, query, after.as_ref(), &mut rows).await?;
                    horizon = match (horizon, end) {
                        (Some(horizon), Some(end)) => Some(horizon.min(end)),
                        (horizon, end) => horizon.or(end),
                    };
                }
            }
        }
        let limit = query.limit.max(1);
        let mut fitting = rows.into_iter().filter(|(position, listed)| {
            after.as_ref().is_none_or(|after| position > after)
                && horizon.as_ref().is_none_or(|horizon| position <= horizon)
                && matches(query, &listed.workflow_id, &listed.row)
        });
        let (places, rows): (Vec<_>, Vec<_>) = fitting.by_ref().take(limit).unzip();
        let next = match (fitting.next(), places.last()) {
            (Some(_), Some(last)) => Some(last.token()),
            _ => horizon.as_ref().map(Position::token),
        };
        Ok(ListPage { rows, next })
    }

    /// The head and every kept head of one workflow id, read consistently.
    async fn rows_of_id(&self, key: &store::HeadKey, rows: &mut BTreeMap<Position, Listed>) -> Result<(), Error> {
        let partition = keys::partition(key);
        let query = self
            .query()
            .key_condition_expression("k = :k AND begins_with(s, :p)")
            .expression_attribute_values(":k", text(&partition))
            .expression_attribute_values(":p", text(keys::KEPT))
            .consistent_read(true);
        for item in self.query_all(query, None).await? {
            rows.extend(read_listed(&item)?.map(|listed| (Position::of(&listed), listed)));
        }
        // Last, for the head is newer than a kept head of the same run.
        if let Some(item) = self.get(&partition, keys::HEAD).await? {
            rows.extend(read_listed(&item)?.map(|listed| (Position::of(&listed), listed)));
        }
        Ok(())
    }

    /// One page of one partition; answers the last place read when there is more.
    async fn rows_of_shard(
        &self,
        partition: String,
        query: &ListQuery,
        after: Option<&Position>,
        rows: &mut BTreeMap<Position, Listed>,
    ) -> Result<Option<Position>, Error> {
        // Places sort by descending start, so the latest start asked for is the lower end of the range.
        let mut low = match query.started_before {
            Some(0) => return Ok(None),
            Some(before) => (!(before - 1)).to_be_bytes().to_vec(),
            None => vec![0],
        };
        if let Some(after) = after {
            low = low.max(keys::row(after));
        }
        let mut high = (!query.started_from.unwrap_or(0)).to_be_bytes().to_vec();
        high.push(0xFF);
        if low > high {
            return Ok(None);
        }
        // Two may stand at `after` itself, a head and what was kept of it, and one more must be read to get on.
        let wanted = query.limit.max(1).saturating_add(2).min(ROWS_READ_MAX);
        let limit = if query.is_filtered() { ROWS_READ_MAX } else { wanted };
        let answer = self
            .query()
            .index_name("vis")
            .key_condition_expression("g = :g AND gs BETWEEN :a AND :z")
            .expression_attribute_values(":g", text(partition))
            .expression_attribute_values(":a", binary(low))
            .expression_attribute_values(":z", binary(high))
            .limit(i32::try_from(limit).unwrap_or(i32::MAX))
            .send()
            .await
            .map_err(|error| not_applied(&error))?;
        self.meter.read(answer.consumed_capacity());
        let mut last = None;
        for item in answer.items() {
            if let Some(listed) = read_listed(item)? {
                let position = Position::of(&listed);
                last = Some(position.clone());
                rows.insert(position, listed);
            }
        }
        Ok(if answer.last_evaluated_key().is_some() { last } else { None })
    }
}
