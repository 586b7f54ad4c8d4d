//! A table of DynamoDB Local as a file with one item per line, in DynamoDB's JSON format. Requests need no SDK, because
//! DynamoDB Local does not check signatures.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::record::Failed;

/// Maximum number of items in one request. Source: the API reference, `BatchWriteItem`.
const PUT_AT_ONCE: usize = 25;

/// Sends one request and returns the body of the response.
///
/// # Errors
///
/// If the request fails. The error contains the response of DynamoDB Local.
pub async fn ask(endpoint: &str, operation: &str, body: &Value) -> Result<Value, Failed> {
    let request =
        reqwest::Client::new().post(endpoint).header("x-amz-target", format!("DynamoDB_20120810.{operation}"));
    let request = request.header("content-type", "application/x-amz-json-1.0").header(
        "authorization",
        "AWS4-HMAC-SHA256 Credential=local/20260101/local/dynamodb/aws4_request, SignedHeaders=host, Signature=0",
    );
    let answer = request.body(body.to_string()).send().await?;
    let is_done = answer.status().is_success();
    let said = answer.text().await?;
    if is_done { Ok(serde_json::from_str(&said)?) } else { Err(format!("{operation}: {said}").into()) }
}

/// Writes every item of a table to a file.
///
/// # Errors
///
/// If a request fails or the file cannot be written.
pub async fn dump(endpoint: &str, table: &str, into: &Path) -> Result<(), Failed> {
    let mut lines = Vec::new();
    let mut from = Value::Null;
    loop {
        let scan = match from {
            Value::Null => json!({ "TableName": table }),
            from => json!({ "TableName": table, "ExclusiveStartKey": from }),
        };
        let page = ask(endpoint, "Scan", &scan).await?;
        lines.extend(page.get("Items").and_then(Value::as_array).into_iter().flatten().map(ToString::to_string));
        from = page.get("LastEvaluatedKey").cloned().unwrap_or_default();
        if from.is_null() {
            break;
        }
    }
    lines.sort();
    let text = lines.iter().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "{line}");
        text
    });
    let mut file = GzEncoder::new(File::create(into)?, Compression::best());
    file.write_all(text.as_bytes())?;
    file.finish()?;
    Ok(())
}

/// Puts the items of a file into an existing table.
///
/// # Errors
///
/// If a request fails or the file cannot be read.
pub async fn load(endpoint: &str, table: &str, from: &Path) -> Result<(), Failed> {
    let mut text = String::new();
    GzDecoder::new(File::open(from)?).read_to_string(&mut text)?;
    let items = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    for some in items.chunks(PUT_AT_ONCE) {
        let puts: Vec<_> = some.iter().map(|item| json!({ "PutRequest": { "Item": item } })).collect();
        ask(endpoint, "BatchWriteItem", &json!({ "RequestItems": { table: puts } })).await?;
    }
    Ok(())
}
