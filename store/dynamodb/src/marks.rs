//! Marks: separate items in the partition of their workflow id. DynamoDB deletes them by their `ttl`.

use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::types::ReturnConsumedCapacity;
use bytes::Bytes;
use store::{Error, HeadKey, MARK_BYTES_MAX, Mark, UnixMs};
use tokio::task::JoinSet;

use crate::attributes::{number, text};
use crate::errors::not_applied;
use crate::item::{read_bytes, write_mark};
use crate::{Dynamo, check_size, keys};

/// Maximum number of marks written or read concurrently.
const AT_ONCE: usize = 16;

impl Dynamo {
    pub(crate) async fn put_mark_items(&self, key: &HeadKey, marks: &[Mark]) -> Result<(), Error> {
        for mark in marks {
            check_size(mark.bytes.len(), MARK_BYTES_MAX)?;
        }
        for marks in marks.chunks(AT_ONCE) {
            let mut puts = JoinSet::new();
            for mark in marks {
                let put = self
                    .writes
                    .put_item()
                    .table_name(&self.options.table)
                    .set_item(Some(write_mark(key, mark)))
                    .return_consumed_capacity(ReturnConsumedCapacity::Total);
                puts.spawn(put.send());
            }
            while let Some(answer) = puts.join_next().await {
                // If the response to a put is lost, the caller puts the mark again with the same content.
                let answer = answer.map_err(|error| ended(&error))?.map_err(|error| not_applied(&error))?;
                self.meter.wrote(answer.consumed_capacity());
                if !self.options.has_ttl {
                    self.count_new_item();
                }
            }
            self.count_bytes(marks.iter().map(|mark| mark.bytes.len()).sum());
        }
        Ok(())
    }

    pub(crate) async fn mark_items(&self, key: &HeadKey, names: &[u64]) -> Result<Vec<Option<Bytes>>, Error> {
        let partition = keys::partition(key);
        let mut found = vec![None; names.len()];
        for (found, names) in found.chunks_mut(AT_ONCE).zip(names.chunks(AT_ONCE)) {
            let mut gets = JoinSet::new();
            for (place, name) in names.iter().enumerate() {
                let get = self.get_request(&partition, &keys::mark(*name));
                gets.spawn(async move { (place, get.send().await) });
            }
            while let Some(answer) = gets.join_next().await {
                let (place, answer) = answer.map_err(|error| ended(&error))?;
                let answer = answer.map_err(|error| not_applied(&error))?;
                self.meter.read(answer.consumed_capacity());
                let bytes = answer.item.as_ref().map(|item| read_bytes(item, MARK_BYTES_MAX)).transpose()?;
                if let (Some(found), Some(bytes)) = (found.get_mut(place), bytes) {
                    *found = Some(bytes);
                }
            }
        }
        Ok(found)
    }

    /// Deletes an expired mark that the sweep has found, unless it was replaced in the meantime.
    pub(crate) async fn forget_mark(&self, key: &HeadKey, sort: &str, expired_at: UnixMs) -> Result<bool, Error> {
        let answer = self
            .writes
            .delete_item()
            .table_name(&self.options.table)
            .key("k", text(keys::partition(key)))
            .key("s", text(sort))
            .condition_expression("et = :e")
            .expression_attribute_values(":e", number(expired_at))
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await;
        match answer {
            Ok(answer) => {
                self.meter.wrote(answer.consumed_capacity());
                Ok(true)
            }
            Err(error)
                if error.as_service_error().is_some_and(DeleteItemError::is_conditional_check_failed_exception) =>
            {
                self.meter.lost(0);
                Ok(false)
            }
            Err(error) => Err(not_applied(&error)),
        }
    }
}

fn ended(error: &tokio::task::JoinError) -> Error {
    Error::NotApplied { why: error.to_string(), retry_after: None }
}
