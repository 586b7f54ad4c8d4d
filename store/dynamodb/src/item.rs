//! Heads as items, and back. Names of attributes are short because DynamoDB counts them in the size that it bills.
//!
//! | attribute | what |
//! |---|---|
//! | `v`, `r`, `b` | version, run, body |
//! | `w` | the row of lists |
//! | `d`, `dt` | index `due`: shard, instant |
//! | `e`, `et` | index `exp`: shard, instant of expiry |
//! | `g`, `gs` | index `vis`: domain and shard, place |

use std::collections::HashMap;
use std::sync::Arc;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use store::listing::Position;
use store::{Error, Head, HeadKey, Row, RunId};

use crate::keys;

pub(crate) type Item = HashMap<String, AttributeValue>;

pub(crate) fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub(crate) fn binary(bytes: impl Into<Vec<u8>>) -> AttributeValue {
    AttributeValue::B(Blob::new(bytes))
}

pub(crate) fn text(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

fn corrupt(what: &str, item: &Item) -> Error {
    let key = |name| item.get(name).and_then(|value| value.as_s().ok()).map_or("?", String::as_str);
    Error::Corrupt { what: format!("the item {} / {} has no readable `{what}`", key("k"), key("s")) }
}

pub(crate) fn read_text<'a>(item: &'a Item, name: &str) -> Result<&'a str, Error> {
    item.get(name).and_then(|value| value.as_s().ok()).map(String::as_str).ok_or_else(|| corrupt(name, item))
}

pub(crate) fn read_binary(item: &Item, name: &str) -> Result<Bytes, Error> {
    let blob = item.get(name).and_then(|value| value.as_b().ok()).ok_or_else(|| corrupt(name, item))?;
    Ok(Bytes::copy_from_slice(blob.as_ref()))
}

fn read_optional_number(item: &Item, name: &str) -> Result<Option<u64>, Error> {
    let Some(value) = item.get(name) else { return Ok(None) };
    value.as_n().ok().and_then(|text| text.parse().ok()).map(Some).ok_or_else(|| corrupt(name, item))
}

pub(crate) fn read_number(item: &Item, name: &str) -> Result<u64, Error> {
    read_optional_number(item, name)?.ok_or_else(|| corrupt(name, item))
}

pub(crate) fn read_run(item: &Item) -> Result<RunId, Error> {
    read_binary(item, "r")?.as_ref().try_into().map_err(|_| corrupt("r", item))
}

pub(crate) fn read_key(item: &Item) -> Result<HeadKey, Error> {
    keys::read_partition(read_text(item, "k")?).ok_or_else(|| corrupt("k", item))
}

fn write_row(row: &Row) -> Result<Vec<u8>, Error> {
    let tags: Vec<&str> = row.tags.iter().map(String::as_str).collect();
    let fields = (&*row.workflow_type, &*row.status, row.started_at, row.closed_at, tags);
    minicbor::to_vec(fields)
        .map_err(|error| Error::NotApplied { why: format!("a row cannot be written: {error}"), retry_after: None })
}

type Fields<'a> = (&'a str, &'a str, u64, Option<u64>, Vec<String>);

pub(crate) fn read_row(item: &Item) -> Result<Option<Row>, Error> {
    if !item.contains_key("w") {
        return Ok(None);
    }
    let bytes = read_binary(item, "w")?;
    let (workflow_type, status, started_at, closed_at, tags): Fields<'_> =
        minicbor::decode(&bytes).map_err(|_| corrupt("w", item))?;
    Ok(Some(Row { workflow_type: Arc::from(workflow_type), status: Arc::from(status), started_at, closed_at, tags }))
}

/// How many shards each index has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shards {
    pub(crate) due: u32,
    pub(crate) rows: u32,
}

/// The item of a head at its place `sort`: `H`, or that of a kept head, which nobody has to look at any more.
pub(crate) fn write_head(key: &HeadKey, sort: String, head: &Head, shards: Shards) -> Result<Item, Error> {
    let partition = keys::partition(key);
    let mut item = Item::new();
    item.insert("v".to_owned(), number(head.version));
    item.insert("r".to_owned(), binary(head.run));
    item.insert("b".to_owned(), binary(head.body.clone()));
    if let Some(at) = head.due {
        // A kept head remembers its instant without being in the index.
        if sort == keys::HEAD {
            item.insert("d".to_owned(), text(keys::due(&partition, shards.due)));
        }
        item.insert("dt".to_owned(), number(at));
    }
    if let Some(at) = head.expires_at {
        item.insert("e".to_owned(), text(keys::expiry(&partition, shards.due)));
        item.insert("et".to_owned(), number(at));
    }
    if let Some(row) = &head.row {
        let position = Position::new(row.started_at, Arc::clone(&key.workflow_id), head.run);
        item.insert("g".to_owned(), text(keys::rows(row.closed_at.is_none(), key, &partition, shards.rows)));
        item.insert("gs".to_owned(), binary(keys::row(&position)));
        item.insert("w".to_owned(), binary(write_row(row)?));
    }
    item.insert("k".to_owned(), text(partition));
    item.insert("s".to_owned(), text(sort));
    Ok(item)
}

pub(crate) fn read_head(item: &Item) -> Result<Head, Error> {
    Ok(Head {
        run: read_run(item)?,
        version: read_number(item, "v")?,
        body: read_binary(item, "b")?,
        due: read_optional_number(item, "dt")?,
        row: read_row(item)?,
        expires_at: read_optional_number(item, "et")?,
    })
}
