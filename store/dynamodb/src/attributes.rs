//! Encoding of item attributes.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use store::Error;

/// An item of the table.
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

pub(crate) fn corrupt(what: &str, item: &Item) -> Error {
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

pub(crate) fn read_optional_number(item: &Item, name: &str) -> Result<Option<u64>, Error> {
    let Some(value) = item.get(name) else { return Ok(None) };
    value.as_n().ok().and_then(|text| text.parse().ok()).map(Some).ok_or_else(|| corrupt(name, item))
}

pub(crate) fn read_number(item: &Item, name: &str) -> Result<u64, Error> {
    read_optional_number(item, name)?.ok_or_else(|| corrupt(name, item))
}
