//! Encoding of heads as items. Attribute names are short because DynamoDB includes them in the billed size.
//!
//! | attribute | content |
//! |---|---|
//! | `v`, `r` | version, run |
//! | `b` or `z` | body of a head, or bytes of a part: plain or compressed |
//! | `w` | row: data of the run that lists show |
//! | `d`, `dt` | index `due`: shard, instant |
//! | `et`, `ttl` | expiry in milliseconds; and in seconds, for DynamoDB |
//! | `t` | time at which a part was written, if the store knew it |
//! | `g`, `gs` | index `vis`: domain and shard, position in the list ordered by start |
//! | `e`, `es` | index `end`: domain and shard, position in the list ordered by close; only if open over [`SHORT_MS`] |

use std::sync::Arc;

use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use store::listing::Position;
use store::{Error, Head, HeadKey, Mark, Order, PartKey, Row, RowReason, RunId, UnixMs};

use crate::attributes::{
    Item, binary, corrupt, number, read_binary, read_number, read_optional_number, read_text, text,
};
use crate::keys;
use crate::keys::Rows;
use crate::packed::{Stored, pack, unpack};
use crate::units::WRITE_UNIT_BYTES;

/// Maximum size of a head's body. An item may have 400 KB, and names of the maximum length take about 10 KB in keys,
/// index keys and the row. Checked by a test.
pub(crate) const HEAD_HARD: usize = store::HEAD_HARD_MIN;

pub(crate) fn read_run(item: &Item) -> Result<RunId, Error> {
    read_binary(item, "r")?.as_ref().try_into().map_err(|_| corrupt("r", item))
}

pub(crate) fn read_key(item: &Item) -> Result<HeadKey, Error> {
    keys::read_partition(read_text(item, "k")?).ok_or_else(|| corrupt("k", item))
}

fn write_row(row: &Row) -> Result<Vec<u8>, Error> {
    let tags: Vec<&str> = row.tags.iter().map(String::as_str).collect();
    let fields = (&*row.workflow_type, &*row.status, row.started_at, row.closed_at, tags, row.flagged);
    let failed = |error: minicbor::encode::Error<std::convert::Infallible>| Error::NotApplied {
        why: format!("cannot encode a row: {error}"),
        retry_after: None,
    };
    let mut bytes = minicbor::to_vec(fields).map_err(failed)?;
    if row.why.is_some() {
        // The reason is a second CBOR item. Earlier versions of Baton, which did not store reasons, ignore it.
        minicbor::encode((row.reason(), row.details()), &mut bytes).map_err(failed)?;
    }
    Ok(bytes)
}

type Fields<'a> = (&'a str, &'a str, u64, Option<u64>, Vec<String>, bool);

pub(crate) fn read_row(item: &Item) -> Result<Option<Row>, Error> {
    if !item.contains_key("w") {
        return Ok(None);
    }
    let bytes = read_binary(item, "w")?;
    let mut decoder = minicbor::Decoder::new(&bytes);
    let (workflow_type, status, started_at, closed_at, tags, flagged): Fields<'_> =
        decoder.decode().map_err(|_| corrupt("w", item))?;
    let (reason, details): (Option<String>, Option<String>) =
        if decoder.position() < bytes.len() { decoder.decode().map_err(|_| corrupt("w", item))? } else { (None, None) };
    let (workflow_type, status) = (Arc::from(workflow_type), Arc::from(status));
    Ok(Some(Row { workflow_type, status, flagged, started_at, closed_at, tags, why: RowReason::of(reason, details) }))
}

/// Maximum time, in milliseconds, for which a "short" run was open. A short run has no row in the index by close,
/// because the row would cost a write unit per run. Lists ordered by close find short runs by their start. For this,
/// each page also reads the rows of runs that started up to this much earlier than the listed period.
pub(crate) const SHORT_MS: u64 = 10_000;

/// Returns whether a closed run was open so briefly that it has no row in the index by close.
pub(crate) fn is_short(row: &Row) -> bool {
    row.closed_at.is_some_and(|closed_at| closed_at.saturating_sub(row.started_at) <= SHORT_MS)
}

/// Number of shards of each index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shards {
    pub(crate) due: u32,
    pub(crate) rows: u32,
}

/// Encodes a head. `sort` is the sort key: `H` for the current head, or the key of a kept head of an earlier run. A
/// kept head is never due.
pub(crate) fn write_head(key: &HeadKey, sort: String, head: &Head, shards: Shards) -> Result<Item, Error> {
    let partition = keys::partition(key);
    let mut item = Item::new();
    item.insert("v".to_owned(), number(head.version));
    item.insert("r".to_owned(), binary(head.run));
    if let Some(at) = head.due {
        // A kept head stores its due time, but is not in the index `due`.
        if sort == keys::HEAD {
            item.insert("d".to_owned(), text(keys::due(&partition, shards.due)));
        }
        item.insert("dt".to_owned(), number(at));
    }
    if let Some(at) = head.expires_at {
        put_expiry(&mut item, at);
    }
    if let Some(row) = &head.row {
        let mut places = vec![("g", "gs", Rows::by_start(row), Order::NewestStart)];
        if !is_short(row) {
            places.push(("e", "es", Rows::Ended, Order::NewestClose));
        }
        for (hash, range, of, order) in places {
            if let Some(position) = Position::of(order, &key.workflow_id, head.run, row) {
                item.insert(hash.to_owned(), text(keys::rows(of, key, &partition, shards.rows)));
                item.insert(range.to_owned(), binary(keys::row(of, &position)));
            }
        }
        item.insert("w".to_owned(), binary(write_row(row)?));
    }
    item.insert("k".to_owned(), text(partition));
    item.insert("s".to_owned(), text(sort));
    put_bytes(&mut item, &head.body);
    Ok(item)
}

fn put_expiry(item: &mut Item, at: UnixMs) {
    item.insert("et".to_owned(), number(at));
    item.insert("ttl".to_owned(), number(at.div_ceil(1_000)));
}

/// Adds a body or the bytes of a part, compressed if that saves write units. Must be called last, because it depends on
/// the size of the item.
fn put_bytes(item: &mut Item, bytes: &Bytes) {
    let (name, value) = match pack(bytes, WRITE_UNIT_BYTES.saturating_sub(size(item) + 1)) {
        Stored::Plain(bytes) => ("b", binary(bytes)),
        Stored::Deflated(bytes) => ("z", binary(bytes)),
    };
    item.insert(name.to_owned(), value);
}

/// Decodes the bytes of a part or a body, which must not exceed `max`.
pub(crate) fn read_bytes(item: &Item, max: usize) -> Result<Bytes, Error> {
    match item.get("z").and_then(|value| value.as_b().ok()) {
        Some(deflated) => unpack(deflated.as_ref(), max).ok_or_else(|| corrupt("z", item)),
        None => read_binary(item, "b"),
    }
}

/// Returns the size of an item as DynamoDB counts it, for the types that this store writes. Source: the developer
/// guide, "DynamoDB item sizes and formats".
pub(crate) fn size(item: &Item) -> usize {
    let of = |value: &AttributeValue| match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::B(blob) => blob.as_ref().len(),
        AttributeValue::N(digits) => digits.trim_end_matches('0').len().div_ceil(2) + 1,
        _ => 0,
    };
    item.iter().map(|(name, value)| name.len() + of(value)).sum()
}

/// Encodes a part. Repeated writes of a part have the same content, so the recorded time can be the time of any of
/// them.
pub(crate) fn write_part(key: &HeadKey, run: RunId, part: PartKey, bytes: &Bytes, written_at: Option<UnixMs>) -> Item {
    let mut item = Item::new();
    item.insert("k".to_owned(), text(keys::partition(key)));
    item.insert("s".to_owned(), text(keys::part(run, part)));
    if let Some(at) = written_at {
        item.insert("t".to_owned(), number(at));
    }
    put_bytes(&mut item, bytes);
    item
}

/// Encodes a mark.
pub(crate) fn write_mark(key: &HeadKey, mark: &Mark) -> Item {
    let mut item = Item::new();
    item.insert("k".to_owned(), text(keys::partition(key)));
    item.insert("s".to_owned(), text(keys::mark(mark.name)));
    put_expiry(&mut item, mark.expires_at);
    put_bytes(&mut item, &mark.bytes);
    item
}

pub(crate) fn read_head(item: &Item) -> Result<Head, Error> {
    Ok(Head {
        run: read_run(item)?,
        version: read_number(item, "v")?,
        body: read_bytes(item, HEAD_HARD)?,
        due: read_optional_number(item, "dt")?,
        row: read_row(item)?,
        expires_at: read_optional_number(item, "et")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maximum size of an item, including names and values of attributes. Source: the developer guide, "Quotas": 400
    /// KB.
    const ITEM_BYTES_MAX: usize = 400 * 1024;

    #[test]
    fn the_largest_head_fits_into_an_item_under_the_longest_names() {
        let name = "漢".repeat(256);
        let key = HeadKey { domain: name.as_str().into(), workflow_id: name.as_str().into() };
        let row = Row {
            workflow_type: "漢".repeat(256 + 1 + 64).into(),
            status: "continued-as-new".into(),
            flagged: false,
            started_at: u64::MAX >> 17,
            closed_at: Some(u64::MAX >> 16),
            tags: vec![name.clone(); 5],
            why: RowReason::of(Some(name), Some("漢".repeat(120))),
        };
        let mut state = 7_u64;
        let noise = (0..HEAD_HARD).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        });
        let head = Head {
            run: [7; 16],
            version: u64::MAX,
            body: noise.collect(),
            due: Some(u64::MAX >> 16),
            row: Some(row),
            expires_at: Some(u64::MAX >> 16),
        };
        let item = write_head(&key, keys::HEAD.to_owned(), &head, Shards { due: 16, rows: 4 }).unwrap();
        let found = size(&item);
        assert!(found <= ITEM_BYTES_MAX, "{found}");
        assert_eq!(read_head(&item).unwrap(), head);
    }

    fn row() -> Row {
        Row {
            workflow_type: "order".into(),
            status: "failed".into(),
            flagged: false,
            started_at: 1,
            closed_at: Some(2),
            tags: vec!["eu".to_owned()],
            why: None,
        }
    }

    #[test]
    fn rows_without_reasons_can_be_read() {
        // Encoding by a version without reasons: ("order", "failed", 1, 2, ["eu"], false).
        let stored = b"\x86\x65order\x66failed\x01\x02\x81\x62eu\xf4".to_vec();
        assert_eq!(write_row(&row()).unwrap(), stored, "a row without a reason has the earlier encoding");
        let item = Item::from([("w".to_owned(), binary(stored.clone()))]);
        assert_eq!(read_row(&item).unwrap(), Some(row()));
        let damaged = Item::from([("w".to_owned(), binary([&stored[..], b"\xff"].concat()))]);
        assert!(matches!(read_row(&damaged), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn versions_without_reasons_can_read_rows_with_one() {
        let some = |text: &str| Some(text.to_owned());
        for (reason, details) in [(some("declined"), some("card 7")), (some("declined"), None), (None, some("card 7"))]
        {
            let row = Row { why: RowReason::of(reason, details), ..row() };
            let stored = write_row(&row).unwrap();
            let (workflow_type, status, started_at, ..): Fields<'_> = minicbor::decode(&stored).unwrap();
            assert_eq!((workflow_type, status, started_at), ("order", "failed", 1));
            assert_eq!(read_row(&Item::from([("w".to_owned(), binary(stored))])).unwrap(), Some(row));
        }
    }
}
