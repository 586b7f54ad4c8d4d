//! Encodings of heads and rows: a byte with the number of the format, then CBOR.

use std::sync::Arc;

use bytes::Bytes;
use minicbor::{Decode, Encode};
use store::{Error, Head, Row, RowReason, RunId, UnixMs};

use crate::forms::RECORDS;

#[derive(Debug, Encode, Decode)]
struct RowRecord<'a> {
    #[b(0)]
    workflow_type: &'a str,
    #[b(1)]
    status: &'a str,
    #[n(2)]
    started_at: UnixMs,
    #[n(3)]
    closed_at: Option<UnixMs>,
    #[b(4)]
    tags: Vec<&'a str>,
    #[cbor(n(5), default, skip_if = "std::ops::Not::not")]
    flagged: bool,
    #[b(6)]
    reason: Option<&'a str>,
    #[b(7)]
    details: Option<&'a str>,
}

#[derive(Debug, Encode, Decode)]
struct HeadRecord<'a> {
    #[cbor(n(0), with = "minicbor::bytes")]
    run: RunId,
    #[n(1)]
    version: u64,
    #[n(2)]
    due: Option<UnixMs>,
    #[n(3)]
    expires_at: Option<UnixMs>,
    #[b(4)]
    row: Option<RowRecord<'a>>,
    #[cbor(b(5), with = "minicbor::bytes")]
    body: &'a [u8],
}

impl<'a> RowRecord<'a> {
    fn of(row: &'a Row) -> Self {
        Self {
            workflow_type: &row.workflow_type,
            status: &row.status,
            started_at: row.started_at,
            closed_at: row.closed_at,
            tags: row.tags.iter().map(String::as_str).collect(),
            flagged: row.flagged,
            reason: row.reason(),
            details: row.details(),
        }
    }

    fn to_row(&self) -> Row {
        Row {
            workflow_type: Arc::from(self.workflow_type),
            status: Arc::from(self.status),
            flagged: self.flagged,
            started_at: self.started_at,
            closed_at: self.closed_at,
            tags: self.tags.iter().map(|tag| (*tag).to_owned()).collect(),
            why: RowReason::of(self.reason.map(str::to_owned), self.details.map(str::to_owned)),
        }
    }
}

fn encode(record: &impl Encode<()>, size: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(size);
    bytes.push(RECORDS);
    let Ok(()) = minicbor::encode(record, &mut bytes).map_err(|error| -> std::convert::Infallible {
        unreachable!("writing to a Vec cannot fail, and the records use no custom encoders: {error}")
    });
    bytes.into()
}

fn decode<'a, T: Decode<'a, ()>>(bytes: &'a [u8], what: &str) -> Result<T, Error> {
    let corrupt = |why: String| Error::Corrupt { what: format!("a stored {what}: {why}") };
    match bytes.split_first() {
        Some((&RECORDS, record)) => minicbor::decode(record).map_err(|error| corrupt(error.to_string())),
        Some((format, _)) => {
            Err(corrupt(format!("format {format}, but this version of Baton reads formats up to {RECORDS}")))
        }
        None => Err(corrupt("empty".to_owned())),
    }
}

pub(crate) fn encode_head(head: &Head) -> Bytes {
    let record = HeadRecord {
        run: head.run,
        version: head.version,
        due: head.due,
        expires_at: head.expires_at,
        row: head.row.as_ref().map(RowRecord::of),
        body: &head.body,
    };
    encode(&record, head.body.len() + 192)
}

/// Decodes a head. The body is not copied; it shares the memory of `bytes`.
pub(crate) fn decode_head(bytes: &Bytes) -> Result<Head, Error> {
    let record: HeadRecord<'_> = decode(bytes, "head")?;
    Ok(Head {
        run: record.run,
        version: record.version,
        body: bytes.slice_ref(record.body),
        due: record.due,
        row: record.row.as_ref().map(RowRecord::to_row),
        expires_at: record.expires_at,
    })
}

pub(crate) fn encode_row(row: &Row) -> Bytes {
    encode(&RowRecord::of(row), 128)
}

pub(crate) fn decode_row(bytes: &[u8]) -> Result<Row, Error> {
    Ok(decode::<RowRecord<'_>>(bytes, "row")?.to_row())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The encoding of rows by versions that did not store reasons.
    #[derive(Debug, PartialEq, Encode, Decode)]
    struct EarlierRow<'a> {
        #[b(0)]
        workflow_type: &'a str,
        #[b(1)]
        status: &'a str,
        #[n(2)]
        started_at: UnixMs,
        #[n(3)]
        closed_at: Option<UnixMs>,
        #[b(4)]
        tags: Vec<&'a str>,
        #[cbor(n(5), default, skip_if = "std::ops::Not::not")]
        flagged: bool,
    }

    fn earlier(flagged: bool) -> EarlierRow<'static> {
        EarlierRow {
            workflow_type: "order",
            status: "failed",
            started_at: 1,
            closed_at: Some(2),
            tags: vec!["eu"],
            flagged,
        }
    }

    fn row(flagged: bool, reason: Option<&str>, details: Option<&str>) -> Row {
        Row {
            workflow_type: "order".into(),
            status: "failed".into(),
            flagged,
            started_at: 1,
            closed_at: Some(2),
            tags: vec!["eu".to_owned()],
            why: RowReason::of(reason.map(str::to_owned), details.map(str::to_owned)),
        }
    }

    #[test]
    fn rows_without_reasons_have_the_earlier_encoding() {
        for flagged in [false, true] {
            let stored = encode(&earlier(flagged), 64);
            assert_eq!(decode_row(&stored).unwrap(), row(flagged, None, None));
            assert_eq!(encode_row(&row(flagged, None, None)), stored);
        }
    }

    #[test]
    fn versions_without_reasons_can_read_rows_with_one() {
        for (reason, details) in [(Some("declined"), Some("card 7")), (Some("declined"), None), (None, Some("card 7"))]
        {
            for flagged in [false, true] {
                let row = row(flagged, reason, details);
                let stored = encode_row(&row);
                assert_eq!(decode::<EarlierRow<'_>>(&stored, "row").unwrap(), earlier(flagged));
                assert_eq!(decode_row(&stored).unwrap(), row);
            }
        }
    }
}
