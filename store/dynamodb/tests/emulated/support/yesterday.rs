//! A delayed copy of the table. On AWS, indexes and reads that are not strongly consistent may return old data, but the
//! emulator always returns current data. Here each write arrives after a random delay, in order for each item.

use std::collections::HashSet;
use std::sync::Mutex;

use dynoxide::Database;
use serde_json::{Value, json};

use super::execute_on;

/// Function that returns whether to ignore a request for consistency.
pub(crate) type IsUnmarked = fn(operation: &str, request: &Value) -> bool;

/// Source of inconsistent reads.
pub(crate) struct Yesterday {
    pub(crate) database: Database,
    is_unmarked: IsUnmarked,
    under_way: Mutex<UnderWay>,
}

/// Writes that have not arrived yet, and the random numbers that determine when they arrive.
struct UnderWay {
    writes: Vec<Write>,
    dice: u64,
    /// Whether all writes arrive before the next read.
    is_settled: bool,
}

struct Write {
    operation: String,
    /// Key of the item, as text.
    of: String,
    request: Value,
}

impl UnderWay {
    /// Returns the next number of the sequence (splitmix64).
    fn roll(&mut self) -> u64 {
        self.dice = self.dice.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut number = self.dice;
        number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        number ^ (number >> 31)
    }
}

impl Yesterday {
    pub(crate) fn new(seed: u64, is_unmarked: IsUnmarked) -> Self {
        let under_way = Mutex::new(UnderWay { writes: Vec::new(), dice: seed, is_settled: false });
        Self { database: Database::memory().unwrap(), is_unmarked, under_way }
    }

    /// Returns whether a request reads from this copy. If so, some of the pending writes arrive first.
    pub(crate) fn answers(&self, operation: &str, request: &Value) -> bool {
        let is_marked = request["ConsistentRead"] == true;
        let is_of_index = request["IndexName"].is_string();
        assert!(!(is_marked && is_of_index), "DynamoDB refuses consistent reads of an index: {request}");
        let is_read = matches!(operation, "GetItem" | "Query" | "Scan");
        let lags = is_read && (!is_marked || (self.is_unmarked)(operation, request));
        if lags {
            self.apply_some();
        }
        lags
    }

    /// Queues a write to the table.
    pub(crate) fn queue_write(&self, operation: &str, request: &Value) {
        let key = |of: &Value| format!("{} {}", of["k"], of["s"]);
        let (of, request) = match operation {
            "PutItem" => {
                let item = &request["Item"];
                (key(item), json!({ "TableName": request["TableName"], "Item": item }))
            }
            "DeleteItem" => {
                let of = &request["Key"];
                (key(of), json!({ "TableName": request["TableName"], "Key": of }))
            }
            // Creations and deletions of tables take effect at once, because a table exists in all copies before it is
            // used.
            "CreateTable" | "DeleteTable" => return self.apply(operation, request),
            _ => return,
        };
        self.under_way.lock().unwrap().writes.push(Write { operation: operation.to_owned(), of, request });
    }

    /// Applies all pending writes. If `settles`, all later writes are applied before the next read, too.
    pub(crate) fn catch_up(&self, settles: bool) {
        let mut under_way = self.under_way.lock().unwrap();
        under_way.is_settled |= settles;
        for write in std::mem::take(&mut under_way.writes) {
            self.apply(&write.operation, &write.request);
        }
    }

    /// Applies some pending writes, but none before an earlier write to the same item.
    fn apply_some(&self) {
        let mut under_way = self.under_way.lock().unwrap();
        let mut late = HashSet::new();
        for write in std::mem::take(&mut under_way.writes) {
            let arrives = under_way.is_settled || under_way.roll().is_multiple_of(2);
            if arrives && !late.contains(&write.of) {
                self.apply(&write.operation, &write.request);
            } else {
                late.insert(write.of.clone());
                under_way.writes.push(write);
            }
        }
    }

    fn apply(&self, operation: &str, request: &Value) {
        let (status, answer) = execute_on(&self.database, operation, request.to_string().as_bytes());
        assert_eq!(status, 200, "{operation} {request}: {answer}");
    }
}
