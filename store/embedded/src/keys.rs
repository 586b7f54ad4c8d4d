//! The format of keys. It is the same in the log, in memory and in redb: one byte for the table, followed by fields in
//! an encoding that sorts correctly.
//!
//! | table | key after the table's byte |
//! |---|---|
//! | head | domain, workflow id |
//! | kept head (of an earlier run) | domain, workflow id, run |
//! | part | domain, workflow id, run, kind, number |
//! | due | instant, domain, workflow id |
//! | open row, closed row | domain, start (descending), workflow id, run |
//! | closed row by close (*ended row*) | domain, close (descending), start (descending), workflow id, run |
//! | expiry | instant, domain, workflow id, run |
//! | run whose deletion is not finished (*doomed*) | domain, workflow id, run |
//! | mark | domain, workflow id, name |
//! | expiry of a mark | instant, domain, workflow id, name |
//! | number of rows | domain, open and flagged state, status |
//! | index entry of open row, of closed row | domain, number of type or tag, start (descending), workflow id, run |
//! | timestamp of the newest batch | (none: there is only one) |

use std::sync::Arc;

use store::listing::Position;
use store::{Error, HeadKey, PartKey, Row, RunId, UnixMs};

pub(crate) const HEAD: u8 = b'h';
pub(crate) const KEPT: u8 = b'k';
pub(crate) const PART: u8 = b'p';
pub(crate) const DUE: u8 = b'd';
pub(crate) const OPEN_ROW: u8 = b'o';
pub(crate) const CLOSED_ROW: u8 = b'c';
pub(crate) const ENDED_ROW: u8 = b'e';
pub(crate) const EXPIRY: u8 = b'x';
pub(crate) const DOOMED: u8 = b'z';
pub(crate) const MARK: u8 = b'm';
pub(crate) const MARK_EXPIRY: u8 = b'y';
/// First byte of the keys of counts.
pub const COUNT: u8 = b'n';
/// Tables of the index entries of rows by workflow type and tag (*terms*). A checkpoint writes in key order, and these
/// tables sort before the tables of rows. Therefore, if redb no longer contains a row, it no longer contains the index
/// entries of the row.
pub(crate) const OPEN_TERM: u8 = b'a';
pub(crate) const CLOSED_TERM: u8 = b'b';
pub(crate) const INSTANT: u8 = b'i';

/// Tables that can be computed from heads and marks.
pub(crate) const INDEXES: [u8; 8] = [DUE, OPEN_ROW, CLOSED_ROW, ENDED_ROW, EXPIRY, MARK_EXPIRY, OPEN_TERM, CLOSED_TERM];

const CHUNK: u8 = 0;
const PACK: u8 = 1;
const BEAT: u8 = 2;

/// Appends a text so that keys sort correctly if other fields follow. A zero byte is written as 00 FF, and the text
/// ends with 00 00.
fn push_text(to: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        to.push(byte);
        if byte == 0 {
            to.push(0xFF);
        }
    }
    to.extend_from_slice(&[0, 0]);
}

fn push_key(to: &mut Vec<u8>, key: &HeadKey) {
    push_text(to, &key.domain);
    push_text(to, &key.workflow_id);
}

fn start(table: u8, key: &HeadKey, more: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(5 + key.domain.len() + key.workflow_id.len() + more);
    bytes.push(table);
    bytes
}

pub(crate) fn head(key: &HeadKey) -> Vec<u8> {
    let mut bytes = start(HEAD, key, 0);
    push_key(&mut bytes, key);
    bytes
}

/// Returns the prefix of all keys of heads, or of heads of earlier runs, whose workflow id starts with `prefix`.
/// `table` selects one of the two.
pub(crate) fn workflow_id_prefix_key(table: u8, domain: &str, prefix: &str) -> Vec<u8> {
    let mut bytes = rows_of(table, domain);
    push_text(&mut bytes, prefix);
    // Removes the end marker of the text, so that longer texts match, too.
    bytes.truncate(bytes.len() - 2);
    bytes
}

/// Returns the prefix of the kept heads (of earlier runs) of a workflow id.
pub(crate) fn kept_of(key: &HeadKey) -> Vec<u8> {
    let mut bytes = start(KEPT, key, 16);
    push_key(&mut bytes, key);
    bytes
}

pub(crate) fn kept(key: &HeadKey, run: RunId) -> Vec<u8> {
    let mut bytes = kept_of(key);
    bytes.extend_from_slice(&run);
    bytes
}

/// Returns the prefix of all parts of a run.
pub(crate) fn parts_of(key: &HeadKey, run: RunId) -> Vec<u8> {
    let mut bytes = start(PART, key, 25);
    push_key(&mut bytes, key);
    bytes.extend_from_slice(&run);
    bytes
}

pub(crate) fn part(key: &HeadKey, run: RunId, part: PartKey) -> Vec<u8> {
    let (kind, number) = match part {
        PartKey::Chunk { last } => (CHUNK, last),
        PartKey::Pack { op } => (PACK, op),
        PartKey::Heartbeat { scheduled } => (BEAT, scheduled),
    };
    let mut bytes = parts_of(key, run);
    bytes.push(kind);
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes
}

pub(crate) fn due(at: UnixMs, key: &HeadKey) -> Vec<u8> {
    let mut bytes = start(DUE, key, 8);
    bytes.extend_from_slice(&at.to_be_bytes());
    push_key(&mut bytes, key);
    bytes
}

/// Typical size of the key of a row, without the domain.
const ROW_KEY_BYTES: usize = 96;

/// Returns the prefix of a domain's keys in a table of rows, or in the table of stored numbers of rows.
pub(crate) fn rows_of(table: u8, domain: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ROW_KEY_BYTES + domain.len());
    bytes.push(table);
    push_text(&mut bytes, domain);
    bytes
}

/// Returns the key of a row. The table `ENDED_ROW` is sorted by close, the other tables of rows by start.
pub(crate) fn row(table: u8, domain: &str, position: &Position) -> Vec<u8> {
    let mut bytes = rows_of(table, domain);
    if table == ENDED_ROW {
        bytes.extend_from_slice(&(!position.at()).to_be_bytes());
    }
    bytes.extend_from_slice(&(!position.started_at()).to_be_bytes());
    push_text(&mut bytes, position.workflow_id());
    bytes.extend_from_slice(&position.run());
    bytes
}

/// Returns the prefix of the index entries of a workflow type or tag in this table. `term` is its number.
pub(crate) fn terms_of(table: u8, domain: &str, term: u64) -> Vec<u8> {
    let mut bytes = rows_of(table, domain);
    bytes.extend_from_slice(&term.to_be_bytes());
    bytes
}

/// Returns the key of a row's index entry for the workflow type or tag with the number `term`. `position` is the
/// position of the row in the list ordered by start.
pub(crate) fn term(table: u8, domain: &str, term: u64, position: &Position) -> Vec<u8> {
    let mut bytes = terms_of(table, domain, term);
    bytes.extend_from_slice(&(!position.started_at()).to_be_bytes());
    push_text(&mut bytes, position.workflow_id());
    bytes.extend_from_slice(&position.run());
    bytes
}

pub(crate) fn expiry(at: UnixMs, key: &HeadKey, run: RunId) -> Vec<u8> {
    let mut bytes = start(EXPIRY, key, 24);
    bytes.extend_from_slice(&at.to_be_bytes());
    push_key(&mut bytes, key);
    bytes.extend_from_slice(&run);
    bytes
}

pub(crate) fn doomed(key: &HeadKey, run: RunId) -> Vec<u8> {
    let mut bytes = start(DOOMED, key, 16);
    push_key(&mut bytes, key);
    bytes.extend_from_slice(&run);
    bytes
}

pub(crate) fn mark(key: &HeadKey, name: u64) -> Vec<u8> {
    let mut bytes = start(MARK, key, 8);
    push_key(&mut bytes, key);
    bytes.extend_from_slice(&name.to_be_bytes());
    bytes
}

pub(crate) fn mark_expiry(at: UnixMs, key: &HeadKey, name: u64) -> Vec<u8> {
    let mut bytes = start(MARK_EXPIRY, key, 16);
    bytes.extend_from_slice(&at.to_be_bytes());
    push_key(&mut bytes, key);
    bytes.extend_from_slice(&name.to_be_bytes());
    bytes
}

/// Returns the key of the stored number that counts this row.
pub(crate) fn count(domain: &str, row: &Row) -> Vec<u8> {
    let mut bytes = rows_of(COUNT, domain);
    bytes.push(u8::from(row.closed_at.is_none()) | u8::from(row.flagged) << 1);
    bytes.extend_from_slice(row.status.as_bytes());
    bytes
}

/// Rows that one stored number counts, as read from the key of the number.
#[derive(Debug, PartialEq, Eq)]
pub struct CountKey {
    /// True for open runs.
    pub is_open: bool,
    /// True for flagged runs.
    pub is_flagged: bool,
    /// Status of the runs.
    pub status: Arc<str>,
}

/// Returns the first key after all keys with this prefix.
pub(crate) fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut bytes = prefix.to_vec();
    while let Some(last) = bytes.pop() {
        if last < u8::MAX {
            bytes.push(last + 1);
            break;
        }
    }
    bytes
}

/// Returns the smallest key that is greater than `key`.
pub(crate) fn after(key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(key.len() + 1);
    bytes.extend_from_slice(key);
    bytes.push(0);
    bytes
}

struct KeyReader<'a>(&'a [u8]);

impl KeyReader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }

    fn text(&mut self) -> Option<Arc<str>> {
        let mut text = Vec::new();
        loop {
            let [byte] = self.array()?;
            if byte == 0 {
                let [mark] = self.array()?;
                match mark {
                    0 => break,
                    0xFF => text.push(0),
                    _ => return None,
                }
            } else {
                text.push(byte);
            }
        }
        String::from_utf8(text).ok().map(Arc::from)
    }

    fn key(&mut self) -> Option<HeadKey> {
        Some(HeadKey { domain: self.text()?, workflow_id: self.text()? })
    }
}

fn read<T>(bytes: &[u8], fields: impl FnOnce(&mut KeyReader<'_>) -> Option<T>) -> Result<T, Error> {
    let corrupt = || Error::Corrupt { what: format!("a key of {} bytes cannot be read: {bytes:02x?}", bytes.len()) };
    let mut reader = KeyReader(bytes);
    let [_table] = reader.array().ok_or_else(corrupt)?;
    let value = fields(&mut reader).ok_or_else(corrupt)?;
    if reader.0.is_empty() { Ok(value) } else { Err(corrupt()) }
}

pub(crate) fn read_due(bytes: &[u8]) -> Result<(UnixMs, HeadKey), Error> {
    read(bytes, |reader| Some((u64::from_be_bytes(reader.array()?), reader.key()?)))
}

/// Returns the workflow id and the run in the key of a row.
pub(crate) fn read_row(bytes: &[u8]) -> Result<(Arc<str>, RunId), Error> {
    let is_ended = bytes.first() == Some(&ENDED_ROW);
    read(bytes, |reader| {
        let _domain = reader.text()?;
        let _instants = (if is_ended { reader.array::<8>()? } else { [0; 8] }, reader.array::<8>()?);
        Some((reader.text()?, reader.array()?))
    })
}

/// Returns the position of a row in the list ordered by start. `bytes` is the key of an index entry of the row.
pub(crate) fn read_term(bytes: &[u8]) -> Result<Position, Error> {
    read(bytes, |reader| {
        let (_domain, _term) = (reader.text()?, reader.array::<8>()?);
        let started_at = !u64::from_be_bytes(reader.array()?);
        Some(Position::new(started_at, started_at, reader.text()?, reader.array()?))
    })
}

/// Returns the workflow id in the key of a head, or of the head of an earlier run.
pub(crate) fn read_workflow_id(bytes: &[u8]) -> Result<Arc<str>, Error> {
    read(bytes, |reader| {
        let key = reader.key()?;
        reader.0 = &[];
        Some(key.workflow_id)
    })
}

/// Returns the domain in the key of a row.
pub(crate) fn read_row_domain(bytes: &[u8]) -> Result<Arc<str>, Error> {
    read(bytes, |reader| {
        let domain = reader.text()?;
        reader.0 = &[];
        Some(domain)
    })
}

/// Reads the key of a count.
///
/// # Errors
///
/// [`Error::Corrupt`] if it is malformed.
pub fn read_count(bytes: &[u8]) -> Result<CountKey, Error> {
    read(bytes, |reader| {
        let _domain = reader.text()?;
        let [flags] = reader.array()?;
        let status = Arc::from(std::str::from_utf8(std::mem::take(&mut reader.0)).ok()?);
        Some(CountKey { is_open: flags & 1 != 0, is_flagged: flags & 2 != 0, status })
    })
}

pub(crate) fn read_expiry(bytes: &[u8]) -> Result<(UnixMs, HeadKey, RunId), Error> {
    read(bytes, |reader| Some((u64::from_be_bytes(reader.array()?), reader.key()?, reader.array()?)))
}

pub(crate) fn read_mark_expiry(bytes: &[u8]) -> Result<(UnixMs, HeadKey, u64), Error> {
    read(bytes, |reader| {
        Some((u64::from_be_bytes(reader.array()?), reader.key()?, u64::from_be_bytes(reader.array()?)))
    })
}

pub(crate) fn read_doomed(bytes: &[u8]) -> Result<(HeadKey, RunId), Error> {
    read(bytes, |reader| Some((reader.key()?, reader.array()?)))
}

/// Describes, for an error message, the data stored under a key. The description contains the kind of data and, if the
/// key can be read, the workflow, the run and the event.
pub(crate) fn describe(bytes: &[u8]) -> String {
    let described = read(bytes, |reader| {
        let table = *bytes.first()?;
        let kind = match table {
            HEAD => "the state",
            KEPT => "the kept state",
            PART => "a part",
            DUE => "an entry of the due index",
            OPEN_ROW | CLOSED_ROW | ENDED_ROW => "a row",
            EXPIRY | MARK_EXPIRY => "an entry of the index of expiries",
            DOOMED => "a deletion",
            MARK => "the record of a request",
            _ => return None,
        };
        if matches!(table, OPEN_ROW | CLOSED_ROW | ENDED_ROW) {
            let domain = reader.text()?;
            let _instants = (if table == ENDED_ROW { reader.array::<8>()? } else { [0; 8] }, reader.array::<8>()?);
            let (workflow_id, run) = (reader.text()?, reader.array()?);
            return Some(format!("{kind} of run {} of workflow `{workflow_id}` in domain `{domain}`", run_text(run)));
        }
        if matches!(table, DUE | EXPIRY | MARK_EXPIRY) {
            let _instant = reader.array::<8>()?;
        }
        let HeadKey { domain, workflow_id } = reader.key()?;
        let of = format!("of workflow `{workflow_id}` in domain `{domain}`");
        Some(match table {
            KEPT | EXPIRY | DOOMED => format!("{kind} of run {} {of}", run_text(reader.array()?)),
            PART => {
                let (run, [part], number) = (reader.array()?, reader.array()?, u64::from_be_bytes(reader.array()?));
                let kind = match part {
                    CHUNK => format!("the events up to {number}"),
                    PACK => format!("payloads (pack {number})"),
                    BEAT => format!("the heartbeat of the activity of event {number}"),
                    _ => return None,
                };
                format!("{kind} of run {} {of}", run_text(run))
            }
            _ => {
                reader.0 = &[];
                format!("{kind} {of}")
            }
        })
    });
    described.unwrap_or_else(|_| {
        format!("an entry of table `{}`", bytes.first().copied().unwrap_or_default().escape_ascii())
    })
}

/// Formats a run id.
fn run_text(run: RunId) -> String {
    let id = u128::from_be_bytes(run);
    let part = |shift: u32| (id >> shift) & 0xffff;
    format!("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", id >> 96, part(80), part(64), part(48), id & 0xffff_ffff_ffff)
}

/// Returns the number at the end of a part's key.
pub(crate) fn read_part_number(bytes: &[u8]) -> Result<u64, Error> {
    let (_, number) = bytes
        .split_last_chunk::<8>()
        .ok_or_else(|| Error::Corrupt { what: format!("the key of a part cannot be read: {bytes:02x?}") })?;
    Ok(u64::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(domain: &str, workflow_id: &str) -> HeadKey {
        HeadKey { domain: Arc::from(domain), workflow_id: Arc::from(workflow_id) }
    }

    #[test]
    fn decoded_keys_equal_the_encoded_ones_even_with_zero_bytes() {
        for id in ["", "a", "a\0b", "\0", "ü\0\0", "a:b|c/arn"] {
            let key = key("d\0", id);
            assert_eq!(read_due(&due(5, &key)).unwrap(), (5, key.clone()));
            assert_eq!(read_expiry(&expiry(6, &key, [3; 16])).unwrap(), (6, key.clone(), [3; 16]));
            assert_eq!(read_mark_expiry(&mark_expiry(6, &key, 9)).unwrap(), (6, key.clone(), 9));
            assert_eq!(read_doomed(&doomed(&key, [3; 16])).unwrap(), (key.clone(), [3; 16]));
            for table in [OPEN_ROW, CLOSED_ROW, ENDED_ROW] {
                let position = Position::new(7, 7, key.workflow_id.clone(), [3; 16]);
                let row = row(table, &key.domain, &position);
                assert_eq!(read_row(&row).unwrap(), (key.workflow_id.clone(), [3; 16]));
                assert_eq!(read_row_domain(&row).unwrap(), key.domain);
            }
            for (is_open, is_flagged) in [(true, false), (true, true), (false, false)] {
                let (status, closed_at) = (Arc::from(id), if is_open { None } else { Some(8) });
                let row = Row {
                    workflow_type: Arc::from("t"),
                    status: Arc::clone(&status),
                    flagged: is_flagged,
                    started_at: 7,
                    closed_at,
                    tags: Vec::new(),
                    why: None,
                };
                assert_eq!(read_count(&count("d\0", &row)).unwrap(), CountKey { is_open, is_flagged, status });
            }
        }
    }

    #[test]
    fn a_key_is_described_by_its_fields() {
        let (key, run) = (key("d", "w"), [0xab; 16]);
        let of = "run abababab-abab-abab-abab-abababababab of workflow `w` in domain `d`";
        assert_eq!(describe(&head(&key)), "the state of workflow `w` in domain `d`");
        assert_eq!(describe(&kept(&key, run)), format!("the kept state of {of}"));
        assert_eq!(describe(&part(&key, run, PartKey::Chunk { last: 57 })), format!("the events up to 57 of {of}"));
        assert_eq!(describe(&part(&key, run, PartKey::Pack { op: 3 })), format!("payloads (pack 3) of {of}"));
        assert_eq!(describe(&due(9, &key)), "an entry of the due index of workflow `w` in domain `d`");
        assert_eq!(describe(&mark(&key, 1)), "the record of a request of workflow `w` in domain `d`");
        for table in [OPEN_ROW, ENDED_ROW] {
            let row = row(table, "d", &Position::new(7, 7, Arc::from("w"), run));
            assert_eq!(describe(&row), format!("a row of {of}"));
        }
        assert_eq!(describe(&[PART, 1]), "an entry of table `p`");
        assert_eq!(describe(&[0xFF]), "an entry of table `\\xff`");
    }

    #[test]
    fn row_keys_sort_like_lists() {
        let places = [(9, "b"), (9, "a"), (9, "a\0"), (10, "z"), (9, "ab"), (1, "")];
        let of = |table| {
            let runs = places.into_iter().flat_map(|(at, id)| [[0; 16], [255; 16]].map(|run| (at, id, run)));
            // In the table of ended rows, runs that closed at the same time are sorted by start.
            let starts = runs.flat_map(|(at, id, run)| [0, 1].map(|ago| (at, at - ago, id, run)));
            let starts = starts.filter(|(at, start, ..)| table == ENDED_ROW || at == start);
            starts.map(|(at, start, id, run)| Position::new(at, start, Arc::from(id), run)).collect::<Vec<_>>()
        };
        for table in [OPEN_ROW, ENDED_ROW] {
            let mut places = of(table);
            places.sort();
            let by_place: Vec<_> = places.iter().map(|position| row(table, "d", position)).collect();
            let mut by_bytes = by_place.clone();
            by_bytes.sort();
            assert_eq!(by_place, by_bytes);
        }
    }

    #[test]
    fn ids_with_a_common_prefix_are_adjacent_even_with_zero_bytes() {
        for (id, prefix) in
            [("order-1", "order"), ("order", "order"), ("a\0b", "a"), ("a\0b", "a\0"), ("\0\0", "\0"), ("x", "")]
        {
            let key = key("d", id);
            for (table, found) in [(HEAD, head(&key)), (KEPT, kept(&key, [3; 16]))] {
                assert!(found.starts_with(&workflow_id_prefix_key(table, "d", prefix)), "{id:?} {prefix:?}");
                assert!(!found.starts_with(&workflow_id_prefix_key(table, "", prefix)), "another domain");
                assert_eq!(&*read_workflow_id(&found).unwrap(), id);
            }
        }
        assert!(
            !head(&key("d", "a")).starts_with(&workflow_id_prefix_key(HEAD, "d", "a\0")),
            "shorter than the prefix"
        );
    }

    #[test]
    fn ranges_of_workflow_ids_do_not_overlap() {
        let inner = kept(&key("d", "ab"), [1; 16]);
        let prefix = kept_of(&key("d", "a"));
        assert!(!inner.starts_with(&prefix));
        assert_eq!(after_prefix(&[1, 255, 255]), vec![2]);
    }
}
