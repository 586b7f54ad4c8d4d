//! One entry after another: what a line says, and how it hangs on the one before it.
//!
//! A line is a JSON object whose last member is `hash`: SHA-256, in hexadecimal, of the bytes of the line before `,"hash"`. One
//! of the members in these bytes is `previous`, the hash of the line before. So nothing can be changed, left out, put in or
//! exchanged without changing all that follows, and whoever has kept the last hash sees that.

use std::fmt::Write as _;
use std::net::SocketAddr;

use history::{CallerName, Timestamp};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use sha2::{Digest, Sha256};

/// What stands in the first entry of all as the hash of the one before it.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The longest name that is kept of a request, in bytes; a longer one is cut off. Ours: names have 256 characters at most, and
/// what is longer is refused later.
const NAME_BYTES_MAX: usize = 1_024;

/// What stands between the part of a line that is hashed and its hash.
const HASH: &str = ",\"hash\":\"";

/// What follows the hash.
const END: &str = "\"}";

/// Hexadecimal digits of a hash.
const DIGITS: usize = 64;

macro_rules! names {
    ($( $(#[doc = $doc:literal])+ $field:ident $word:literal; )+) => {
        /// What a change is about, by name. No payloads.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Names {
            $(
                $(#[doc = $doc])+
                #[serde(default, skip_serializing_if = "Option::is_none", rename = $word)]
                pub $field: Option<String>,
            )+
        }

        impl Names {
            /// Keeps the name of a member of a request, where that is one that is kept.
            pub fn put(&mut self, member: &str, name: &str) {
                match member {
                    $( $word => self.$field = Some(short(name)), )+
                    _ => {}
                }
            }

            /// Whether the name of this member is kept.
            pub fn has_member(member: &str) -> bool {
                [$( $word, )+].contains(&member)
            }
        }
    };
}

names! {
    /// Who the caller says he is.
    identity "identity";
    /// The domain.
    domain "domain";
    /// The workflow id.
    workflow_id "workflowId";
    /// The run.
    run_id "runId";
    /// The type of a workflow.
    workflow_type "workflowType";
    /// The type of an activity.
    activity_type "activityType";
    /// The decider's name for an activity.
    activity_id "activityId";
    /// The task list.
    task_list "taskList";
    /// The schedule.
    schedule_id "scheduleId";
    /// The update.
    update_id "updateId";
    /// Over SWF's wire the signal.
    signal_name "signalName";
    /// What has no other member: a domain or type that is made, a signal, an update.
    name "name";
    /// The version of a type that is made.
    version "version";
    /// Over SWF's wire the domain that is tagged.
    resource_arn "resourceArn";
}

fn short(name: &str) -> String {
    let end = (0..=NAME_BYTES_MAX.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    name.get(..end.unwrap_or_default()).unwrap_or_default().to_owned()
}

/// Somebody is about to change something.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The name of his credential; absent where nobody is asked for one.
    pub by: Option<CallerName>,
    /// Where he is.
    pub peer: Option<SocketAddr>,
    /// The call: method and route, or the operation over SWF's wire.
    pub call: String,
    /// What it is about.
    #[serde(flatten)]
    pub names: Names,
    /// Names the request, in the access log and in the answer, too.
    pub request_id: String,
}

/// How a change went.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeOutcome {
    /// The entry that announced it.
    pub of: u64,
    /// The status of its answer; absent where whoever asked did not wait for it.
    pub status: Option<u16>,
    /// Why it was refused.
    pub code: Option<String>,
}

/// What an entry is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EntryContent {
    /// How a change went.
    Outcome(ChangeOutcome),
    /// A change that is about to be made.
    Change(Box<Change>),
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number: 1, 2, 3, …
    pub seq: u64,
    /// When it was written.
    pub at: Timestamp,
    /// What it is about.
    #[serde(flatten)]
    pub record: EntryContent,
    /// The hash of the entry before it.
    pub previous: String,
}

/// Where a chain ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChainHead {
    /// The number of the last entry; 0 of none.
    pub(super) seq: u64,
    pub(super) hash: String,
}

impl ChainHead {
    pub(super) fn genesis() -> Self {
        Self { seq: 0, hash: GENESIS.to_owned() }
    }

    /// Adds an entry to this chain: its line to these, and its number.
    pub(super) fn append(
        &mut self,
        record: EntryContent,
        at: Timestamp,
        lines: &mut Vec<u8>,
    ) -> Result<u64, serde_json::Error> {
        let entry = Entry { seq: self.seq + 1, at, record, previous: self.hash.clone() };
        let mut line = serde_json::to_string(&entry)?;
        // The brace at its end stands behind the hash.
        line.pop();
        let hash = hash(&line);
        for part in [&line, HASH, &hash, END, "\n"] {
            lines.extend_from_slice(part.as_bytes());
        }
        *self = Self { seq: entry.seq, hash };
        Ok(entry.seq)
    }
}

/// A line, taken apart: the entry, and its hash. Says what is wrong with it by itself.
pub(super) fn read(line: &[u8]) -> Result<(Entry, String), String> {
    let line = std::str::from_utf8(line).map_err(|_| "is not text".to_owned())?;
    let parts = line.strip_suffix(END).and_then(|line| {
        let (before, hash) = line.split_at_checked(line.len().checked_sub(DIGITS)?)?;
        Some((before.strip_suffix(HASH)?, hash))
    });
    let (hashed, found) = parts.ok_or_else(|| "does not end with its hash".to_owned())?;
    let expected = hash(hashed);
    if found != expected {
        return Err(format!("was changed: its hash is {found}, and that of its text is {expected}"));
    }
    let entry = serde_json::from_str(&format!("{hashed}}}")).map_err(|error| format!("is no entry: {error}"))?;
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
    fn an_entry_reads_as_it_was_written_and_has_the_hash_of_the_one_before_it() {
        let names = Names { workflow_id: Some("w".to_owned()), ..Names::default() };
        let by = CallerName::new("ops").unwrap();
        let peer = "127.0.0.1:9".parse().ok();
        let change = Change { by: Some(by), peer, call: "POST /".to_owned(), names, request_id: "r".to_owned() };
        let outcome = ChangeOutcome { of: 1, status: Some(409), code: Some("run-closed".to_owned()) };
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
    fn the_bytes_of_an_entry_stay_as_they_are() {
        let change =
            Change { by: None, peer: None, call: "c".to_owned(), names: Names::default(), request_id: "r".into() };
        let mut line = Vec::new();
        ChainHead::genesis()
            .append(EntryContent::Change(Box::new(change)), Timestamp::from_millis(0), &mut line)
            .unwrap();
        let hash = "7b8ff05e4ec6275870636bc9e0773567f651104aa4d5e71ff4e9624bb006107e";
        let expected = format!(
            "{{\"seq\":1,\"at\":\"1970-01-01T00:00:00.000Z\",\"call\":\"c\",\"requestId\":\"r\",\"previous\":\"{GENESIS}\",\
             \"hash\":\"{hash}\"}}\n"
        );
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }

    #[test]
    fn names_are_kept_by_member_and_cut_off_where_a_character_ends() {
        let mut names = Names::default();
        names.put("workflowId", &"漢".repeat(400));
        names.put("input", "secret");
        assert_eq!(names, Names { workflow_id: Some("漢".repeat(341)), ..Names::default() });
        assert!(Names::has_member("taskList") && !Names::has_member("input"));
    }
}
