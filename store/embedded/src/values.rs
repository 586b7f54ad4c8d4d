//! Large values that stay in the log: their locations, and reading them. redb records which values these are
//! (`places.rs`), and the log owns the segments (`log.rs`).

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use store::Error;

use crate::disk::storage_error;
use crate::faults::Faults;
use crate::names::{segment_path, values_path};
use crate::opening::Opening;

/// Maximum number of segment files that are held open. Chosen: values that are read together are in few segments.
const OPEN: usize = 8;

/// Location of a value in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogPlace {
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    crc: u32,
}

impl LogPlace {
    pub(crate) fn of((segment, offset): (u64, u64), value: &[u8]) -> Self {
        // The size of a frame bounds the size of a value, so the length fits.
        let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
        Self { segment, offset, length, crc: crc32fast::hash(value) }
    }

    /// Returns the location in the form in which redb stores it.
    pub(crate) fn numbers(self) -> [u64; 3] {
        [self.segment, self.offset, u64::from(self.length) << 32 | u64::from(self.crc)]
    }

    pub(crate) fn of_numbers([segment, offset, rest]: [u64; 3]) -> Self {
        let half = |number| u32::try_from(number & u64::from(u32::MAX)).unwrap_or_default();
        Self { segment, offset, length: half(rest >> 32), crc: half(rest) }
    }
}

/// Reads values that stay in the log.
#[derive(Debug, Default)]
pub(crate) struct ValueFiles {
    log: PathBuf,
    opening: Arc<Opening>,
    faults: Arc<Faults>,
    open: Mutex<VecDeque<(u64, Arc<File>)>>,
}

impl ValueFiles {
    pub(crate) fn new(log: PathBuf, opening: Arc<Opening>, faults: Arc<Faults>) -> Self {
        Self { log, opening, faults, open: Mutex::default() }
    }

    /// Reads a value. The call blocks on the disk.
    pub(crate) fn read(&self, place: LogPlace) -> Result<Bytes, Error> {
        let LogPlace { segment, offset, length, crc } = place;
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => self.damaged(place, "is missing"),
            _ => storage_error(&error, "read a value in", &segment_path(&self.log, segment)),
        };
        let file = self.file(segment).map_err(failed)?;
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut bytes, offset).map_err(failed)?;
        if crc32fast::hash(&bytes) == crc { Ok(bytes.into()) } else { Err(self.damaged(place, "was changed")) }
    }

    fn damaged(&self, place: LogPlace, how: &str) -> Error {
        let LogPlace { segment, offset, length, .. } = place;
        let log = self.log.display();
        Error::Corrupt {
            what: format!(
                "a value of {length} bytes at offset {offset} of segment {segment} in `{log}` {how}. Restore the \
                 directory from a backup"
            ),
        }
    }

    fn open(&self) -> MutexGuard<'_, VecDeque<(u64, Arc<File>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, segment: u64) -> io::Result<Arc<File>> {
        if let Some((_, file)) = self.open().iter().find(|(open, _)| *open == segment) {
            return Ok(Arc::clone(file));
        }
        let file = self.opening.patiently(|| {
            self.faults.before_open()?;
            // The first path applies if the segment is part of the log, the second if it is kept only for its values.
            // No later segment gets the same number, so the wrong file cannot be opened.
            match File::open(segment_path(&self.log, segment)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => File::open(values_path(&self.log, segment)),
                opened => opened,
            }
        })?;
        let file = Arc::new(file);
        let mut open = self.open();
        open.push_front((segment, Arc::clone(&file)));
        open.truncate(OPEN);
        Ok(file)
    }

    /// Closes the file of a segment that has no readers any more.
    pub(crate) fn close(&self, segment: u64) {
        self.open().retain(|(open, _)| *open != segment);
    }
}
