//! The chain of entries: the format of a line, and its link to the previous line.
//!
//! A line is a JSON object whose last member is `hash`: SHA-256, in hexadecimal, of the bytes of the line before
//! `,"hash"`. These bytes contain the member `previous`, the hash of the previous line. Changing, removing, inserting
//! or moving a line therefore changes the hashes of all later lines. Anyone who has kept the hash of the last line can
//! detect such a change.

use std::fmt::Write as _;
use std::net::SocketAddr;

use history::{CallerName, Timestamp};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use sha2::{Digest, Sha256};

/// Value of `previous` in the first entry.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Maximum length of a recorded name in bytes; longer names are truncated. Our choice: valid names have at most 256
/// characters, which take at most 1,024 bytes. Requests with longer names are refused after the entry was written.
const NAME_BYTES_MAX: usize = 1_024;

/// Text between the hashed part of a line and the value of `hash`.
const HASH: &str = ",\"hash\":\"";

/// Text after the value of `hash`.
const END: &str = "\"}";

/// Number of hexadecimal digits of a hash.
const DIGITS: usize = 64;

macro_rules! names {
    ($( $(#[doc = $doc:literal])+ $field:ident $word:literal; )+) => {
        /// Names of the items that a change affects. The entry records them because none is part of a payload.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Names {
            $(
                $(#[doc = $doc])+
                #[serde(default, skip_serializing_if = "Option::is_none", rename = $word)]
                pub $field: Option<String>,
            )+
        }

        impl Names {
            /// Stores the value of a member of the request. Members that the audit log does not record are ignored.
            pub fn put(&mut self, member: &str, name: &str) {
                match member {
                    $( $word => self.$field = Some(short(name)), )+
                    _ => {}
                }
            }

            /// Returns whether the audit log records members with this name.
            pub fn has_member(member: &str) -> bool {
                [$( $word, )+].contains(&member)
            }
        }
    };
}

names! {
    /// Identity that the caller claims.
    identity "identity";
    /// Domain.
    domain "domain";
    /// Workflow id.
    workflow_id "workflowId";
    /// Run id.
    run_id "runId";
    /// Workflow type.
    workflow_type "workflowType";
    /// Activity type.
    activity_type "activityType";
    /// Activity id, which the decider chose.
    activity_id "activityId";
    /// Task list.
    task_list "taskList";
    /// Schedule id.
    schedule_id "scheduleId";
    /// Limit group.
    group "group";
    /// Batch id.
    batch_id "batchId";
    /// Update id.
    update_id "updateId";
    /// Name of a signal in an SWF request.
    signal_name "signalName";
    /// Value of a member `name`: the name of a new domain or type, of a signal or of an update.
    name "name";
    /// Version of a new type.
    version "version";
    /// Resource name of a domain whose tags an SWF request changes.
    resource_arn "resourceArn";
}

fn short(name: &str) -> String {
    let end = (0..=NAME_BYTES_MAX.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    name.get(..end.unwrap_or_default()).unwrap_or_default().to_owned()
}

/// Change that a caller is about to make.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Name of the caller's credential; absent if callers are not authenticated.
    pub by: Option<CallerName>,
    /// Address of the caller.
    pub peer: Option<SocketAddr>,
    /// The call that makes the change: method and route, or the SWF operation. Without a call, `configuration` and the
    /// section of the configuration file.
    pub call: String,
    /// Names of the items that the change affects.
    #[serde(flatten)]
    pub names: Names,
    /// Id of the request, which the access log and the response also contain. Changes by the configuration file that
    /// are made together have the same id.
    pub request_id: String,
}

/// Outcome of a change.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeOutcome {
    /// Sequence number of the entry that announced the change.
    #[serde(rename = "requestSeq")]
    pub request_seq: u64,
    /// Status of the response; absent if the caller stopped waiting for the response.
    pub status: Option<u16>,
    /// Error code, if the request was refused.
    pub code: Option<String>,
}

/// Content of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EntryContent {
    /// Outcome of a change.
    Outcome(ChangeOutcome),
    /// Change that is about to be made.
    Change(Box<Change>),
}

/// Entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Sequence number: 1, 2, 3, …
    pub seq: u64,
    /// Time when the entry was written.
    pub at: Timestamp,
    /// Content of the entry.
    #[serde(flatten)]
    pub record: EntryContent,
    /// Hash of the previous entry.
    pub previous: String,
}

/// End of a chain, to which the next entry will be linked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChainHead {
    /// Sequence number of the last entry; 0 if there is none.
    pub(super) seq: u64,
    pub(super) hash: String,
}

impl ChainHead {
    pub(super) fn genesis() -> Self {
        Self { seq: 0, hash: GENESIS.to_owned() }
    }

    /// Creates the next entry of this chain, and appends its line to `lines`. Returns the entry's sequence number.
    pub(super) fn append(
        &mut self,
        record: EntryContent,
        at: Timestamp,
        lines: &mut Vec<u8>,
    ) -> Result<u64, serde_json::Error> {
        let entry = Entry { seq: self.seq + 1, at, record, previous: self.hash.clone() };
        let mut line = serde_json::to_string(&entry)?;
        // Removes the closing brace, because the hash must precede it.
        line.pop();
        let hash = hash(&line);
        for part in [&line, HASH, &hash, END, "\n"] {
            lines.extend_from_slice(part.as_bytes());
        }
        *self = Self { seq: entry.seq, hash };
        Ok(entry.seq)
    }
}

/// Parses a line into the entry and its hash, and verifies that the hash matches the line.
pub(super) fn read(line: &[u8]) -> Result<(Entry, String), String> {
    let line = std::str::from_utf8(line).map_err(|_| "is not text".to_owned())?;
    let parts = line.strip_suffix(END).and_then(|line| {
        let (before, hash) = line.split_at_checked(line.len().checked_sub(DIGITS)?)?;
        Some((before.strip_suffix(HASH)?, hash))
    });
    let (hashed, found) = parts.ok_or_else(|| "does not end with its hash".to_owned())?;
    let expected = hash(hashed);
    if found != expected {
        return Err(format!("was changed: its hash is {found}, but that of its text is {expected}"));
    }
    let entry = serde_json::from_str(&format!("{hashed}}}")).map_err(|error| format!("is not an entry: {error}"))?;
    Ok((entry, expected))
}

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(String::with_capacity(DIGITS), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_round_trips_with_the_hash_of_the_previous_one() {
        let names = Names { workflow_id: Some("w".to_owned()), ..Names::default() };
        let by = CallerName::new("ops").unwrap();
        let peer = "127.0.0.1:9".parse().ok();
        let change = Change { by: Some(by), peer, call: "POST /".to_owned(), names, request_id: "r".to_owned() };
        let outcome = ChangeOutcome { request_seq: 1, status: Some(409), code: Some("run-closed".to_owned()) };
        let records = [EntryContent::Change(Box::new(change)), EntryContent::Outcome(outcome)];
        let (mut head, mut previous) = (ChainHead::genesis(), GENESIS.to_owned());
        for (record, seq) in records.into_iter().zip(1..) {
            let mut line = Vec::new();
            let at = Timestamp::from_millis(1_000);
            assert_eq!(head.append(record.clone(), at, &mut line).unwrap(), seq);
            let (entry, hash) = read(line.strip_suffix(b"\n").unwrap()).unwrap();
            assert_eq!(entry, Entry { seq, at, record, previous });
            assert_eq!(head, ChainHead { seq, hash: hash.clone() });
            previous = hash;
        }
    }

    #[test]
    fn the_bytes_of_an_entry_are_stable() {
        let change =
            Change { by: None, peer: None, call: "c".to_owned(), names: Names::default(), request_id: "r".into() };
        let mut line = Vec::new();
        ChainHead::genesis()
            .append(EntryContent::Change(Box::new(change)), Timestamp::from_millis(0), &mut line)
            .unwrap();
        let hash = "7b8ff05e4ec6275870636bc9e0773567f651104aa4d5e71ff4e9624bb006107e";
        let expected = format!(
            "{{\"seq\":1,\"at\":\"1970-01-01T00:00:00.000Z\",\"call\":\"c\",\"requestId\":\"r\",\
             \"previous\":\"{GENESIS}\",\"hash\":\"{hash}\"}}\n"
        );
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }

    #[test]
    fn long_names_are_cut_at_a_character_boundary() {
        let mut names = Names::default();
        names.put("workflowId", &"漢".repeat(400));
        names.put("input", "secret");
        assert_eq!(names, Names { workflow_id: Some("漢".repeat(341)), ..Names::default() });
        assert!(Names::has_member("taskList") && !Names::has_member("input"));
    }
}
