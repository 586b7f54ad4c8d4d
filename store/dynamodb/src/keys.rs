//! The format of the table's keys.
//!
//! | item | `k` | `s` |
//! |---|---|---|
//! | head | `W#domain#workflowId` | `H` |
//! | kept head of an earlier run | same | `R#run` |
//! | part: chunk, pack, heartbeat | same | `P#run#`, then `c`, `p` or `b`, then a number |
//! | mark | same | `K#`, then its name |
//! | reserved: task hint | `T#…` | |
//! | reserved: node heartbeat | `N` | |
//! | options of the table | `C#` | `table` |
//!
//! Runs and numbers are written in hexadecimal with a fixed length, so that keys sort in the order of these values. The
//! key of a part begins with its run, so that one query finds all parts of a run.

use std::fmt::Write as _;
use std::sync::Arc;

use store::listing::Position;
use store::{Error, HeadKey, ListQuery, PartKey, Row, RunId};

use crate::attributes::{Item, read_text, text};

pub(crate) const HEAD: &str = "H";
pub(crate) const KEPT: &str = "R#";
pub(crate) const MARK: &str = "K#";
pub(crate) const CONFIGURATION: &str = "C#";
pub(crate) const LAYOUT: &str = "table";

/// Appends a text. Escapes `%` and `#`, which are separators in keys, and control characters, which consoles and
/// exports cannot show.
fn push_escaped(to: &mut String, text: &str) {
    for c in text.chars() {
        if c == '%' || c == '#' || c < ' ' {
            let _ = write!(to, "%{:02x}", u32::from(c));
        } else {
            to.push(c);
        }
    }
}

fn unescape(text: &str) -> Option<Arc<str>> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let code = u8::from_str_radix(after.get(..2)?, 16).ok()?;
        out.push(char::from(code));
        rest = after.get(2..)?;
    }
    out.push_str(rest);
    Some(Arc::from(out))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the partition key of all items that belong to one workflow id.
pub(crate) fn partition(key: &HeadKey) -> String {
    let mut text = String::from("W#");
    push_escaped(&mut text, &key.domain);
    text.push('#');
    push_escaped(&mut text, &key.workflow_id);
    text
}

/// Returns the domain and workflow id of a partition key.
pub(crate) fn read_partition(text: &str) -> Option<HeadKey> {
    let (domain, id) = text.strip_prefix("W#")?.split_once('#')?;
    Some(HeadKey { domain: unescape(domain)?, workflow_id: unescape(id)? })
}

pub(crate) fn kept(run: RunId) -> String {
    format!("{KEPT}{}", hex(&run))
}

/// Returns the prefix of all parts of a run.
pub(crate) fn parts_of(run: RunId) -> String {
    format!("P#{}#", hex(&run))
}

pub(crate) fn part(run: RunId, part: PartKey) -> String {
    let (kind, number) = match part {
        PartKey::Chunk { last } => ('c', last),
        PartKey::Pack { op } => ('p', op),
        PartKey::Heartbeat { scheduled } => ('b', scheduled),
    };
    format!("{}{kind}{number:016x}", parts_of(run))
}

pub(crate) fn mark(name: u64) -> String {
    format!("{MARK}{name:016x}")
}

/// Returns the number at the end of a part's key.
pub(crate) fn read_part_number(sort: &str) -> Option<u64> {
    u64::from_str_radix(sort.get(sort.len().checked_sub(16)?..)?, 16).ok()
}

/// Returns the run at the beginning of a part's key.
pub(crate) fn read_part_run(sort: &str) -> Option<RunId> {
    let digits = sort.strip_prefix("P#")?.get(..32)?;
    Some(u128::from_str_radix(digits, 16).ok()?.to_be_bytes())
}

/// Returns the key of an item of any kind.
pub(crate) fn of_item(item: &Item) -> Result<Item, Error> {
    ["k", "s"].into_iter().map(|name| Ok((name.to_owned(), text(read_text(item, name)?)))).collect()
}

/// Computes the FNV-1a hash. It must never change, because shards computed from it are stored in the table.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn shard(partition: &str, shards: u32) -> u64 {
    hash(partition) % u64::from(shards.max(1))
}

/// Returns the shard of the index `due` for this key.
pub(crate) fn shard_of(key: &HeadKey, shards: u32) -> u32 {
    // The result is less than `shards`, which is a `u32`.
    u32::try_from(shard(&partition(key), shards)).unwrap_or_default()
}

/// Returns the partition of the index `due` for this head.
pub(crate) fn due(partition: &str, shards: u32) -> String {
    due_shard(shard(partition, shards))
}

pub(crate) fn due_shard(shard: impl Into<u64>) -> String {
    format!("D#{:04}", shard.into())
}

/// The kinds of rows that have separate partitions in the indexes. Flagged open runs are separate from other open runs,
/// so that they are found and counted without examining open runs that are not flagged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Index `vis`: open runs that are not flagged, by start.
    Open,
    /// Index `vis`: open runs that are flagged, by start.
    Flagged,
    /// Index `vis`: closed runs, by start.
    Closed,
    /// Index `end`: closed runs, by close.
    Ended,
}

impl Rows {
    /// Returns the kind of a row in the index by start.
    pub(crate) fn by_start(row: &Row) -> Self {
        match (row.closed_at, row.flagged) {
            (Some(_), _) => Self::Closed,
            (None, true) => Self::Flagged,
            (None, false) => Self::Open,
        }
    }

    /// Returns the kinds of rows, in the index by start, that can match a query.
    pub(crate) fn of_query(query: &ListQuery) -> impl Iterator<Item = Self> {
        let open = if query.order.is_by_close() { query.open.or(Some(false)) } else { query.open };
        let flagged = query.flagged;
        [Self::Open, Self::Flagged, Self::Closed].into_iter().filter(move |of| {
            let is_open = *of != Self::Closed;
            // Closed rows have one kind, whether they are flagged or not.
            open.is_none_or(|open| open == is_open)
                && (!is_open || flagged.is_none_or(|flagged| flagged == (*of == Self::Flagged)))
        })
    }
}

/// Returns the partition of an index of rows (`vis` or `end`) that contains the row of this head.
pub(crate) fn rows(of: Rows, key: &HeadKey, partition: &str, shards: u32) -> String {
    rows_shard(of, &key.domain, shard(partition, shards))
}

pub(crate) fn rows_shard(of: Rows, domain: &str, shard: impl Into<u64>) -> String {
    let mut text = String::from(match of {
        Rows::Open => "O#",
        Rows::Flagged => "F#",
        Rows::Closed => "C#",
        Rows::Ended => "E#",
    });
    push_escaped(&mut text, domain);
    let _ = write!(text, "#{:04}", shard.into());
    text
}

/// Encodes a position so that the bytes sort like lists: by close (descending) in the index by close, then by start
/// (descending), workflow id, and run.
pub(crate) fn row(of: Rows, position: &Position) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(36 + position.workflow_id().len());
    if of == Rows::Ended {
        bytes.extend_from_slice(&(!position.at()).to_be_bytes());
    }
    bytes.extend_from_slice(&(!position.started_at()).to_be_bytes());
    for byte in position.workflow_id().bytes() {
        bytes.push(byte);
        if byte == 0 {
            bytes.push(0xFF);
        }
    }
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&position.run());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_decode_to_their_keys_with_any_characters() {
        for (domain, id) in
            [("", ""), ("a#", "b"), ("a", "#b"), ("%23", "a\0b"), ("ü", "/#%\u{10FFFF}"), ("d", "a:b|c/arn")]
        {
            let key = HeadKey { domain: Arc::from(domain), workflow_id: Arc::from(id) };
            assert_eq!(read_partition(&partition(&key)), Some(key));
        }
        assert_eq!(read_partition("N"), None);
        assert_eq!(read_partition("W#a#%2"), None);
    }

    /// Tests names of the maximum length: 256 characters of three bytes each, and 65 more characters for a type with
    /// its version.
    #[test]
    fn the_longest_names_fit_into_keys() {
        let (name, kind) = ("漢".repeat(256), "漢".repeat(256 + 1 + 64));
        let types = format!("\u{1}workflow-types\u{1}{name}");
        for (domain, id) in [(&name, &name), (&types, &kind)] {
            let key = HeadKey { domain: domain.as_str().into(), workflow_id: id.as_str().into() };
            let partition = partition(&key);
            assert!(partition.len() <= 2_048, "{}", partition.len());
            assert!(rows(Rows::Ended, &key, &partition, 4).len() <= 2_048);
            let row = row(Rows::Ended, &Position::new(0, 0, key.workflow_id, [0; 16]));
            assert!(row.len() <= 1_024, "{}", row.len());
        }
    }

    #[test]
    fn row_keys_sort_like_lists() {
        for (of, starts) in [(Rows::Open, [0, 0]), (Rows::Ended, [0, 1])] {
            let mut places: Vec<_> = [(9, "b"), (9, "a"), (9, "a\0"), (10, "z"), (9, "a#"), (1, "")]
                .into_iter()
                .flat_map(|(at, id)| [[0; 16], [255; 16]].map(|run| (at, id, run)))
                .flat_map(|(at, id, run)| starts.map(|ago| Position::new(at, at - ago, Arc::from(id), run)))
                .collect();
            places.sort();
            let by_place: Vec<_> = places.iter().map(|position| row(of, position)).collect();
            let mut by_bytes = by_place.clone();
            by_bytes.sort();
            assert_eq!(by_place, by_bytes);
        }
    }

    #[test]
    fn part_keys_sort_by_number_and_contain_it() {
        let earlier = part([1; 16], PartKey::Chunk { last: 9 });
        let later = part([1; 16], PartKey::Chunk { last: 10 });
        assert!(earlier < later);
        assert_eq!(read_part_number(&later), Some(10));
        assert_eq!(read_part_run(&later), Some([1; 16]));
        assert_eq!(read_part_run(&kept([1; 16])), None);
    }
}
