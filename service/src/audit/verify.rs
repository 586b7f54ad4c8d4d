//! Verification of the chain of entries.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use history::Timestamp;

use super::chain::{self, ChainHead, Entry, GENESIS};
use super::files::{self, Named};

/// Maximum length of a line in bytes. Our choice: an entry fits even if all its names have the maximum length and every
/// byte is escaped.
pub(super) const LINE_BYTES_MAX: u64 = 128 * 1024;

/// Summary of a verified chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedChain {
    /// Number of entries.
    pub entries: u64,
    /// Sequence number of the first entry: 1 unless older files were removed; 0 if there is no entry.
    pub first: u64,
    /// Times of the first and the last entry; absent if there is no entry.
    pub times: Option<(Timestamp, Timestamp)>,
    /// Hash of the last entry.
    pub head: String,
}

/// First inconsistency in a chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {problem}", file.display(), line.map_or_else(String::new, |line| format!(", line {line}")))]
pub struct ChainError {
    /// File with the inconsistency, or the log's directory.
    pub file: PathBuf,
    /// Line number, starting at 1; absent if the error concerns no single line.
    pub line: Option<u64>,
    /// Description of the problem.
    pub problem: String,
}

impl ChainError {
    pub(super) fn of(file: &Path, problem: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: None, problem: problem.into() }
    }

    fn at(file: &Path, line: u64, problem: impl Into<String>) -> Self {
        Self { line: Some(line), ..Self::of(file, problem) }
    }
}

/// Verifies the chain in a directory: every entry is unchanged and follows its predecessor. If `head` is given, an
/// entry with this hash must exist. A service may write the log at the same time.
///
/// # Errors
///
/// The first inconsistency in the chain.
pub fn verify(directory: &Path, head: Option<&str>) -> Result<VerifiedChain, ChainError> {
    let files = files::all(directory).map_err(|error| ChainError::of(directory, error.to_string()))?;
    let mut checked = VerifiedChain { entries: 0, first: 0, times: None, head: GENESIS.to_owned() };
    let (mut end, mut has_head) = (None, head.is_none_or(|head| head == GENESIS));
    for (index, file) in files.iter().enumerate() {
        let walked = walk(file, &mut end, |entry, hash| {
            if checked.entries == 0 {
                checked.first = entry.seq;
            }
            checked.entries += 1;
            checked.times = Some((checked.times.map_or(entry.at, |(first, _)| first), entry.at));
            has_head |= head == Some(hash);
        })?;
        let is_being_written = || index + 1 == files.len() && files::is_in_use(directory);
        if let Some(line) = walked.torn.filter(|_| !is_being_written()) {
            let why = "is truncated; if a crash was the cause, the next start sets it aside";
            return Err(ChainError::at(&file.path, line, why));
        }
    }
    if let Some(ChainHead { hash, .. }) = end {
        checked.head = hash;
    }
    match head {
        Some(head) if !has_head => {
            let file = files.last().map_or(directory, |file| file.path.as_path());
            let found = &checked.head;
            let what = format!("no entry has the hash {head}: the log ends with {found}, so its end was cut off");
            Err(ChainError::of(file, format!("{what}, or files were removed")))
        }
        _ => Ok(checked),
    }
}

/// Result of verifying a file.
pub(super) struct Walked {
    /// Number of the last line, if that line is incomplete.
    pub(super) torn: Option<u64>,
}

/// Verifies that the entries of a file continue the chain that ends at `end`. Moves `end` to the last entry of the
/// file.
pub(super) fn walk(
    file: &Named,
    end: &mut Option<ChainHead>,
    mut each: impl FnMut(&Entry, &str),
) -> Result<Walked, ChainError> {
    let opened = File::open(&file.path).map_err(|error| ChainError::of(&file.path, error.to_string()))?;
    let (mut lines, mut line, mut number) = (BufReader::new(opened), Vec::new(), 0);
    let must_begin = end.as_ref().map_or(file.first, |end| end.seq + 1);
    if must_begin != file.first {
        let what = format!("begins with entry {} by its name, expected entry {must_begin}", file.first);
        return Err(ChainError::of(&file.path, format!("{what}: a file is missing or was added")));
    }
    loop {
        line.clear();
        number += 1;
        let misfit = |problem: String| ChainError::at(&file.path, number, problem);
        let read = lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        let read = read.map_err(|error| misfit(error.to_string()))?;
        if read == 0 {
            return Ok(Walked { torn: None });
        }
        let Some(whole) = line.strip_suffix(b"\n") else {
            if read as u64 == LINE_BYTES_MAX {
                return Err(misfit(format!("has {LINE_BYTES_MAX} bytes or more, too many for an entry")));
            }
            return Ok(Walked { torn: Some(number) });
        };
        let (entry, hash) = chain::read(whole).map_err(misfit)?;
        let expected = end.as_ref().map_or(file.first, |end| end.seq + 1);
        if entry.seq != expected {
            return Err(misfit(format!("is entry {}, expected entry {expected}", entry.seq)));
        }
        let previous = match end.as_ref() {
            Some(end) => Some(end.hash.as_str()),
            None => (entry.seq == 1).then_some(GENESIS),
        };
        if let Some(previous) = previous.filter(|previous| *previous != entry.previous) {
            let found = &entry.previous;
            return Err(misfit(format!(
                "follows an entry with the hash {found}, but the entry before it has {previous}"
            )));
        }
        each(&entry, &hash);
        *end = Some(ChainHead { seq: entry.seq, hash });
    }
}

/// Returns the end of the chain in these files. Reads only the last file, and earlier ones if the last has no entries.
pub(super) fn head(files: &[Named]) -> Result<ChainHead, ChainError> {
    let Some((last, before)) = files.split_last() else { return Ok(ChainHead::genesis()) };
    let mut end = None;
    let walked = walk(last, &mut end, |_, _| {})?;
    if let Some(line) = walked.torn {
        return Err(ChainError::at(&last.path, line, "is truncated"));
    }
    match (end, before) {
        (Some(end), _) => Ok(end),
        // The file is empty: a crash occurred after it was created and before its first entry was written.
        (None, []) if last.first == 1 => Ok(ChainHead::genesis()),
        (None, []) => Err(ChainError::of(&last.path, "has no entry, and the file before it is missing")),
        (None, before) => {
            let found = head(before)?;
            if found.seq + 1 == last.first {
                return Ok(found);
            }
            let what =
                format!("begins with entry {} by its name, but the file before it ends with {}", last.first, found.seq);
            Err(ChainError::of(&last.path, what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chain::{Change, ChangeOutcome, EntryContent, Names};
    use super::*;

    /// Creates a log of three files, with changes and their outcomes.
    fn log() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let mut head = ChainHead::genesis();
        for first in [1, 7, 13] {
            let mut lines = Vec::new();
            for of in (first..first + 6).step_by(2) {
                let names = Names { workflow_id: Some(format!("w-{of}")), ..Names::default() };
                let (call, request_id) = ("POST /v1".to_owned(), format!("r-{of}"));
                let change = Change { by: None, peer: None, call, names, request_id };
                let outcome = ChangeOutcome { request_seq: of, status: Some(201), code: None };
                for record in [EntryContent::Change(Box::new(change)), EntryContent::Outcome(outcome)] {
                    let at = Timestamp::from_millis(1_000 * of);
                    head.append(record, at, &mut lines).unwrap();
                }
            }
            std::fs::write(files::named(directory.path(), first).path, lines).unwrap();
        }
        directory
    }

    /// Applies a change to the lines of the file that begins with this entry.
    fn change(directory: &Path, first: u64, change: impl FnOnce(&mut Vec<String>)) {
        let path = files::named(directory, first).path;
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        change(&mut lines);
        std::fs::write(path, lines.join("\n") + "\n").unwrap();
    }

    #[track_caller]
    fn misfit(directory: &Path, head: Option<&str>, first: u64, line: Option<u64>, says: &str) {
        let found = verify(directory, head).unwrap_err();
        assert_eq!((&found.file, found.line), (&files::named(directory, first).path, line), "{found}");
        assert!(found.to_string().contains(says), "{found}");
    }

    #[test]
    fn a_valid_chain_is_summarized() {
        let directory = log();
        let checked = verify(directory.path(), None).unwrap();
        let times = Some((Timestamp::from_millis(1_000), Timestamp::from_millis(17_000)));
        assert_eq!((checked.entries, checked.first, checked.times), (18, 1, times));
        assert_eq!(verify(directory.path(), Some(&checked.head)).unwrap(), checked);
        assert_eq!(verify(directory.path(), Some(GENESIS)).unwrap(), checked);
        assert_eq!(head(&files::all(directory.path()).unwrap()).unwrap(), ChainHead { seq: 18, hash: checked.head });
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(verify(empty.path(), None).unwrap().entries, 0);
        assert!(verify(&empty.path().join("nothing"), None).is_err());
    }

    #[test]
    fn every_changed_byte_is_reported_with_its_line() {
        let directory = log();
        let path = files::named(directory.path(), 7).path;
        let good = std::fs::read(&path).unwrap();
        let two_lines = good.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(1).unwrap().0;
        let mut line = 1;
        for at in 0..=two_lines {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            let found = verify(directory.path(), None).unwrap_err();
            assert_eq!((&found.file, found.line), (&path, Some(line)), "byte {at}: {found}");
            line += u64::from(good[at] == b'\n');
        }
    }

    #[test]
    fn removed_inserted_and_swapped_lines_are_found() {
        let directory = log();
        change(directory.path(), 7, |lines| drop(lines.remove(2)));
        misfit(directory.path(), None, 7, Some(3), "is entry 10, expected entry 9");
        let directory = log();
        change(directory.path(), 7, |lines| lines.insert(2, lines[1].clone()));
        misfit(directory.path(), None, 7, Some(3), "is entry 8, expected entry 9");
        let directory = log();
        change(directory.path(), 7, |lines| lines.swap(1, 2));
        misfit(directory.path(), None, 7, Some(2), "is entry 9, expected entry 8");
        // Forges an entry that has a correct hash but is linked to the wrong predecessor.
        let directory = log();
        let (mut other, mut forged) = (ChainHead { seq: 8, hash: GENESIS.to_owned() }, Vec::new());
        let outcome = EntryContent::Outcome(ChangeOutcome { request_seq: 7, status: None, code: None });
        other.append(outcome, Timestamp::from_millis(1), &mut forged).unwrap();
        let forged = String::from_utf8(forged).unwrap().trim_end().to_owned();
        change(directory.path(), 7, |lines| lines[2] = forged);
        misfit(directory.path(), None, 7, Some(3), "follows an entry with the hash 000");
    }

    #[test]
    fn missing_files_are_found_except_at_the_beginning() {
        let directory = log();
        std::fs::remove_file(files::named(directory.path(), 7).path).unwrap();
        misfit(directory.path(), None, 13, None, "begins with entry 13 by its name, expected entry 7");
        let directory = log();
        std::fs::remove_file(files::named(directory.path(), 1).path).unwrap();
        let checked = verify(directory.path(), None).unwrap();
        assert_eq!((checked.entries, checked.first), (12, 7));
    }

    #[test]
    fn a_cut_end_is_found_with_a_kept_head() {
        let directory = log();
        let kept = verify(directory.path(), None).unwrap().head;
        change(directory.path(), 13, |lines| drop(lines.pop()));
        let cut = verify(directory.path(), None).unwrap();
        assert_eq!(cut.entries, 17);
        misfit(directory.path(), Some(&kept), 13, None, &format!("no entry has the hash {kept}"));
        // A last line that is cut off is an error, even without `head`. It is no error if a process holds the lock of
        // the directory, because that process may be writing the line.
        let path = files::named(directory.path(), 13).path;
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        misfit(directory.path(), None, 13, Some(5), "is truncated");
        let lock = files::Lock::take(directory.path()).unwrap();
        assert_eq!(verify(directory.path(), None).unwrap().entries, 16);
        drop(lock);
    }

    #[test]
    fn an_empty_file_continues_the_chain() {
        let directory = log();
        let head_of = |directory: &Path| head(&files::all(directory).unwrap());
        std::fs::write(files::named(directory.path(), 19).path, "").unwrap();
        assert_eq!(head_of(directory.path()).unwrap().seq, 18);
        std::fs::write(files::named(directory.path(), 25).path, "").unwrap();
        assert!(head_of(directory.path()).unwrap_err().to_string().contains("ends with 18"));
        let alone = tempfile::tempdir().unwrap();
        std::fs::write(files::named(alone.path(), 1).path, "").unwrap();
        assert_eq!(head_of(alone.path()).unwrap(), ChainHead::genesis());
        std::fs::rename(files::named(alone.path(), 1).path, files::named(alone.path(), 5).path).unwrap();
        assert!(head_of(alone.path()).unwrap_err().to_string().contains("is missing"));
    }
}
