//! Reads entries of the log without verifying them.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::files::{self, Named};
use super::verify::{ChainError, LINE_BYTES_MAX};

/// Approximate maximum size of a page in bytes. A page always contains at least one entry. Our choice: the same as
/// the maximum size of a request.
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// Page of consecutive entries.
#[derive(Debug)]
pub struct EntryPage {
    /// Entries, exactly as stored in the files.
    pub entries: Vec<Box<RawValue>>,
    /// Sequence number of the last entry on this page. If the page is empty, the number after which it would begin.
    pub last: u64,
}

#[derive(Deserialize)]
struct Numbered {
    seq: u64,
}

/// Returns at most `limit` entries after the entry `after`, up to `last`. If the files with the first of these entries
/// were removed, the page begins with the oldest existing entry.
///
/// # Errors
///
/// If the files cannot be read.
pub fn read_after(directory: &Path, after: u64, last: u64, limit: usize) -> Result<EntryPage, ChainError> {
    let files = files::all(directory).map_err(|error| ChainError::of(directory, error.to_string()))?;
    let from = files.iter().rposition(|file| file.first <= after.saturating_add(1)).unwrap_or(0);
    let mut page = EntryPage { entries: Vec::new(), last: after };
    let mut bytes = 0;
    for file in files.iter().skip(from) {
        let mut lines = Lines::open(file)?;
        lines.seek(after)?;
        while let Some((seq, line)) = lines.next()? {
            if seq > last || page.entries.len() >= limit || bytes >= PAGE_BYTES_MAX {
                return Ok(page);
            }
            if seq > after {
                bytes += line.len();
                let entry =
                    RawValue::from_string(line).map_err(|error| ChainError::of(&file.path, error.to_string()))?;
                page.entries.push(entry);
                page.last = seq;
            }
        }
    }
    Ok(page)
}

/// Reader of the lines of a file.
struct Lines<'a> {
    file: &'a Named,
    reader: BufReader<File>,
}

impl<'a> Lines<'a> {
    fn open(file: &'a Named) -> Result<Self, ChainError> {
        let opened = File::open(&file.path).map_err(|error| ChainError::of(&file.path, error.to_string()))?;
        Ok(Self { file, reader: BufReader::new(opened) })
    }

    fn misfit(&self, error: &dyn std::fmt::Display) -> ChainError {
        ChainError::of(&self.file.path, error.to_string())
    }

    fn line(&mut self) -> Result<Option<Vec<u8>>, ChainError> {
        let mut line = Vec::new();
        let read = self.reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        read.map_err(|error| self.misfit(&error))?;
        // A last line without a line break is incomplete, because it is being written.
        Ok((line.pop() == Some(b'\n')).then_some(line))
    }

    /// Returns the next line and the sequence number of its entry.
    fn next(&mut self) -> Result<Option<(u64, String)>, ChainError> {
        let Some(line) = self.line()? else { return Ok(None) };
        let line = String::from_utf8(line).map_err(|error| self.misfit(&error))?;
        let Numbered { seq } = serde_json::from_str(&line).map_err(|error| self.misfit(&error))?;
        Ok(Some((seq, line)))
    }

    /// Searches for the first entry after the entry `after`, by binary search. Moves to its line, or to a line shortly
    /// before it.
    fn seek(&mut self, after: u64) -> Result<(), ChainError> {
        let end = self.reader.get_ref().metadata().map_err(|error| self.misfit(&error))?.len();
        let (mut low, mut high) = (0, end);
        while high - low > LINE_BYTES_MAX {
            let middle = low + (high - low) / 2;
            self.go_to(middle)?;
            // `middle` is usually inside a line. The rest of that line is skipped.
            self.line()?;
            match self.next()? {
                Some((seq, _)) if seq <= after => low = middle,
                _ => high = middle,
            }
        }
        self.go_to(low)?;
        if low > 0 {
            self.line()?;
        }
        Ok(())
    }

    fn go_to(&mut self, at: u64) -> Result<(), ChainError> {
        self.reader.seek(SeekFrom::Start(at)).map(drop).map_err(|error| self.misfit(&error))
    }
}

#[cfg(test)]
mod tests {
    use history::Timestamp;

    use super::super::chain::{ChainHead, ChangeOutcome, EntryContent};
    use super::*;

    #[test]
    fn entries_are_found_in_all_files_and_pages_are_limited() {
        let directory = tempfile::tempdir().unwrap();
        let mut head = ChainHead::genesis();
        // The second file is much longer than a page.
        for (first, count) in [(1, 10), (11, 9_000)] {
            let mut lines = Vec::new();
            for of in first..first + count {
                let outcome = ChangeOutcome { request_seq: of, status: Some(200), code: None };
                head.append(EntryContent::Outcome(outcome), Timestamp::from_millis(of), &mut lines).unwrap();
            }
            std::fs::write(files::named(directory.path(), first).path, lines).unwrap();
        }
        let numbers = |page: &EntryPage| -> Vec<u64> {
            let entries = page.entries.iter().map(|entry| serde_json::from_str(entry.get()).unwrap());
            entries.map(|Numbered { seq }| seq).collect()
        };
        for after in [0, 1, 8, 9, 10, 11, 500, 4_999, 5_000, 8_990, 9_005] {
            let page = read_after(directory.path(), after, 9_008, 5).unwrap();
            let expected: Vec<u64> = (after + 1..=(after + 5).min(9_008)).collect();
            assert_eq!(numbers(&page), expected);
            assert_eq!(page.last, *expected.last().unwrap());
        }
        assert!(read_after(directory.path(), 9_008, 9_008, 5).unwrap().entries.is_empty());
        assert!(read_after(directory.path(), u64::MAX, 9_008, 5).unwrap().entries.is_empty());
        let page = read_after(directory.path(), 0, 9_010, usize::MAX).unwrap();
        let bytes: usize = page.entries.iter().map(|entry| entry.get().len()).sum();
        assert!(page.entries.len() < 9_010 && bytes < PAGE_BYTES_MAX + 1_000, "{bytes}");
        std::fs::remove_file(files::named(directory.path(), 1).path).unwrap();
        assert_eq!(numbers(&read_after(directory.path(), 0, 9_010, 2).unwrap()), [11, 12]);
    }
}
