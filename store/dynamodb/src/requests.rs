//! Single requests to the table. Each adds the units that it consumed to the counters. The rules of the store are in
//! other modules.

use std::sync::atomic::Ordering;

use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::get_item::builders::GetItemFluentBuilder;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::{ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure};
use bytes::Bytes;
use store::{Cas, Due, Error, Head, HeadKey, PartKey, RunId, UnixMs};

use crate::Dynamo;
use crate::attributes::{Item, binary, number, read_text, text};
use crate::errors::{not_applied, of_commit};
use crate::item::{self, read_bytes, read_head};
use crate::{PART_MAX, keys};

impl Dynamo {
    /// Creates the request for one item, with a consistent read.
    pub(crate) fn get_request(&self, partition: &str, sort: &str) -> GetItemFluentBuilder {
        self.small_reads
            .get_item()
            .table_name(&self.options.table)
            .key("k", text(partition))
            .key("s", text(sort))
            .consistent_read(true)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
    }

    /// Reads one item with a consistent read.
    pub(crate) async fn get(&self, partition: &str, sort: &str) -> Result<Option<Item>, Error> {
        let answer = self.get_request(partition, sort).send().await.map_err(|error| not_applied(&error))?;
        self.meter.read(answer.consumed_capacity());
        Ok(answer.item)
    }

    pub(crate) fn query(&self) -> QueryFluentBuilder {
        self.reads.query().table_name(&self.options.table).return_consumed_capacity(ReturnConsumedCapacity::Total)
    }

    /// Reads all items of a query, or the first `limit` items.
    pub(crate) async fn query_all(&self, query: QueryFluentBuilder, limit: Option<usize>) -> Result<Vec<Item>, Error> {
        let (mut pages, mut found) = (query.into_paginator().send(), Vec::new());
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| not_applied(&error))?;
            self.meter.read(page.consumed_capacity());
            found.extend(page.items.unwrap_or_default());
            if let Some(limit) = limit
                && found.len() >= limit
            {
                found.truncate(limit);
                break;
            }
        }
        Ok(found)
    }

    /// Puts a part. An unknown outcome is harmless: the put can be repeated, and the head that refers to the part is
    /// put later.
    pub(crate) async fn put_part_item(
        &self,
        key: &HeadKey,
        run: RunId,
        part: PartKey,
        bytes: &Bytes,
    ) -> Result<(), Error> {
        let answer = self
            .writes
            .put_item()
            .table_name(&self.options.table)
            .set_item(Some(item::write_part(key, run, part, bytes, self.latest_time())))
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .map_err(|error| not_applied(&error))?;
        self.meter.wrote(answer.consumed_capacity());
        self.count_bytes(bytes.len());
        self.count_new_item();
        Ok(())
    }

    /// Writes a kept copy of an earlier run's head. If the request takes effect late, it does not replace a copy with a
    /// newer version.
    pub(crate) async fn keep(&self, key: &HeadKey, old: &Head) -> Result<(), Error> {
        let item = item::write_head(key, keys::kept(old.run), old, self.shards())?;
        let answer = self
            .writes
            .put_item()
            .table_name(&self.options.table)
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(k) OR v < :v")
            .expression_attribute_values(":v", number(old.version))
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await;
        match answer {
            Ok(answer) => self.meter.wrote(answer.consumed_capacity()),
            Err(error) if error.as_service_error().is_some_and(PutItemError::is_conditional_check_failed_exception) => {
                self.meter.lost(old.body.len());
            }
            Err(error) => return Err(not_applied(&error)),
        }
        Ok(())
    }

    /// Puts the head of an earlier run, unless that run already exists.
    pub(crate) async fn put_kept_item(&self, key: &HeadKey, head: &Head) -> Result<Cas, Error> {
        let answer = self
            .writes
            .put_item()
            .table_name(&self.options.table)
            .set_item(Some(item::write_head(key, keys::kept(head.run), head, self.shards())?))
            .condition_expression("attribute_not_exists(k)")
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        match answer {
            Ok(answer) => {
                self.meter.wrote(answer.consumed_capacity());
                self.commits.fetch_add(1, Ordering::Relaxed);
                self.count_bytes(head.body.len());
                self.count_new_item();
                Ok(Cas::Won)
            }
            Err(error) => match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(lost)) => {
                    self.meter.lost(lost.item().map_or(0, item::size));
                    lost.item().map(read_head).transpose().map(Cas::Lost)
                }
                _ => Err(of_commit(&error)),
            },
        }
    }

    /// Deletes an item. With `only`, deletes it only if it belongs to the given run and, if a version is given, has
    /// that version.
    pub(crate) async fn delete(
        &self,
        partition: &str,
        sort: &str,
        only: Option<(RunId, Option<u64>)>,
    ) -> Result<(), Error> {
        let mut request = self
            .writes
            .delete_item()
            .table_name(&self.options.table)
            .key("k", text(partition))
            .key("s", text(sort))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        if let Some((run, version)) = only {
            let condition = if version.is_some() { "r = :r AND v = :v" } else { "r = :r" };
            request = request.condition_expression(condition).expression_attribute_values(":r", binary(run));
            if let Some(version) = version {
                request = request.expression_attribute_values(":v", number(version));
            }
        }
        match request.send().await {
            Ok(answer) => self.meter.wrote(answer.consumed_capacity()),
            Err(error)
                if error.as_service_error().is_some_and(DeleteItemError::is_conditional_check_failed_exception) =>
            {
                self.meter.lost(0);
            }
            Err(error) => return Err(not_applied(&error)),
        }
        Ok(())
    }

    /// Reads the chunks whose sort keys are between `first` and `last`, both included, forward or backward.
    pub(crate) async fn read_chunks(
        &self,
        key: &HeadKey,
        first: String,
        last: String,
        forward: bool,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        let mut pages = self
            .query()
            .key_condition_expression("k = :k AND s BETWEEN :a AND :z")
            .expression_attribute_values(":k", text(keys::partition(key)))
            .expression_attribute_values(":a", text(first))
            .expression_attribute_values(":z", text(last))
            .consistent_read(true)
            .scan_index_forward(forward)
            .into_paginator()
            .send();
        let (mut sum, mut taken) = (0, Vec::new());
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| not_applied(&error))?;
            self.meter.read(page.consumed_capacity());
            for item in page.items() {
                let last = keys::read_part_number(read_text(item, "s")?)
                    .ok_or_else(|| Error::Corrupt { what: "the key of a chunk has no number".to_owned() })?;
                let bytes = read_bytes(item, PART_MAX)?;
                sum += bytes.len();
                taken.push((last, bytes));
                if sum >= max_bytes {
                    return Ok(taken);
                }
            }
        }
        Ok(taken)
    }

    /// Reads the rows of one partition of the index `due` up to an instant, earliest first. With `after`, reads only
    /// the rows after that entry.
    pub(crate) async fn early(
        &self,
        partition: String,
        until: UnixMs,
        after: Option<&Due>,
        limit: usize,
    ) -> Result<Vec<Item>, Error> {
        if limit == 0 || after.is_some_and(|after| after.at > until) {
            return Ok(Vec::new());
        }
        // Builds the position of a row in the form in which DynamoDB marks the end of a page.
        let start = after.map(|after| {
            let of_head = [("k", text(keys::partition(&after.key))), ("s", text(keys::HEAD.to_owned()))];
            let of_row = [("d", text(partition.clone())), ("dt", number(after.at))];
            of_head.into_iter().chain(of_row).map(|(name, value)| (name.to_owned(), value)).collect()
        });
        let query = self
            .small_reads
            .query()
            .table_name(&self.options.table)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .index_name("due")
            .key_condition_expression("d = :p AND dt <= :u")
            .expression_attribute_values(":p", text(partition))
            .expression_attribute_values(":u", number(until))
            .set_exclusive_start_key(start)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX));
        self.query_all(query, Some(limit)).await
    }
}
