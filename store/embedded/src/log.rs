//! The files of the log: appending to the current segment, switching to the next segment, and dropping old segments.
//! The order of renames and syncs makes a crash between any two of these steps harmless. [`crate::recovery`] reads the
//! log when a store is opened.
//!
//! Segments are numbered. The next segment (the spare) is prepared in the background under its final name. It is either
//! filled with zeros, or a reused segment whose header was erased. It is durable before it is used, so that switching
//! to it takes only a write of the header with the first frame, and one sync. This sync takes 0.09 ms. It would take
//! 0.15 ms if it had to grow the file, and 30 ms if it included a rename.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use store::{Error, LatencyHistogram};
use tokio::time::Instant;

use crate::faults::Faults;
use crate::frame::{Builder, SEGMENT_HEADER, SegmentHeader};
use crate::free::FreeSpace;
use crate::holds::Holds;
use crate::latency::LatencyRecorder;
use crate::logged_values::LoggedValues;
use crate::names::{NEW, salt, segment_path, values_path};
use crate::opening::Opening;
use crate::options::Options;
use crate::private;

/// Maximum number of old segments that are kept for reuse.
const SPARES: usize = 2;
/// Number of zero bytes that are written at a time.
const ZEROS: usize = 256 << 10;
/// Minimum free disk space for keeping log that an archive has not copied yet. Chosen: four times the usual size of the
/// log that waits for a checkpoint. Log that is kept for an unreachable archive must never fill the disk.
const HELD_FREE_MIN: u64 = 256 << 20;

/// The segments of the log.
#[derive(Debug)]
pub(crate) struct Segments {
    directory: PathBuf,
    /// The directory, which is held open. New names in the directory can then be made durable even if no file
    /// descriptor is free.
    names: File,
    pub(crate) opening: Arc<Opening>,
    id: u64,
    segment_bytes: u64,
    faults: Arc<Faults>,
    /// End of the data in the newest segment.
    tail_end: AtomicU64,
    files: Mutex<SegmentFiles>,
    /// Locations of large values. They have a separate lock, because `files` stays locked while a name is made durable.
    values: Mutex<LoggedValues>,
    pub(crate) syncs: AtomicU64,
    sync_latency: LatencyRecorder,
    pub(crate) bytes_written: AtomicU64,
    /// Holds of backups and of shipping, which keep log that they have not copied yet.
    pub(crate) holds: Arc<Holds>,
    /// Maximum number of bytes of the log that are kept because of holds.
    held_bytes: u64,
    free: FreeSpace,
}

#[derive(Debug)]
struct SegmentFiles {
    live: VecDeque<Live>,
    /// Prepared segments that will be used next.
    spares: VecDeque<File>,
    /// Number of the first prepared segment. If there is none, number of the next segment.
    next: u64,
    /// Segments that are no longer part of the log and are kept for the large values in them, with their sizes.
    kept: BTreeMap<u64, u64>,
}

/// A segment of the log.
#[derive(Debug, Clone)]
pub struct Live {
    /// Number of the segment.
    pub number: u64,
    /// First batch of the segment.
    pub first_batch: u64,
    /// Size of the segment in bytes.
    pub bytes: u64,
}

/// Result of reading the log when the store is opened.
#[derive(Debug, Default)]
pub(crate) struct FoundLog {
    /// Segments that belong to the log.
    pub(crate) live: Vec<Live>,
    /// Smallest number that no segment has used.
    pub(crate) next: u64,
    pub(crate) values: LoggedValues,
    /// Segments that are kept only for the large values in them, with their sizes.
    pub(crate) kept: BTreeMap<u64, u64>,
}

/// Makes creations, renames and deletions in a directory durable.
///
/// # Errors
///
/// The error of the operating system.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

impl Segments {
    pub(crate) fn new(
        directory: &Path,
        id: u64,
        options: &Options,
        opening: Arc<Opening>,
        found: FoundLog,
    ) -> io::Result<Self> {
        let FoundLog { live, next, values, kept } = found;
        Ok(Self {
            directory: directory.to_owned(),
            names: File::open(directory)?,
            opening,
            id,
            segment_bytes: options.segment_bytes,
            holds: Arc::default(),
            held_bytes: options.held_bytes,
            free: FreeSpace::of(directory, Arc::clone(&options.faults)),
            faults: Arc::clone(&options.faults),
            tail_end: AtomicU64::new(0),
            files: Mutex::new(SegmentFiles { live: live.into(), spares: VecDeque::new(), next, kept }),
            values: Mutex::new(values),
            syncs: AtomicU64::new(0),
            sync_latency: LatencyRecorder::default(),
            bytes_written: AtomicU64::new(0),
        })
    }

    fn files(&self) -> MutexGuard<'_, SegmentFiles> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn values(&self) -> MutexGuard<'_, LoggedValues> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the disk space used by the log.
    pub(crate) fn bytes(&self) -> u64 {
        let files = self.files();
        files.live.iter().map(|live| live.bytes).sum::<u64>() + self.segment_bytes * files.spares.len() as u64
    }

    /// Returns the disk space used by segments that are kept only for the large values in them.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.files().kept.values().sum()
    }

    /// Returns the segment and offset of a value if it can stay in the log. Returns `None` if the value must be written
    /// to redb.
    pub(crate) fn place(&self, batch: u64, at: u32) -> Option<(u64, u64)> {
        self.values().place(batch, at)
    }

    pub(crate) fn point(&self, name: &str) -> Result<(), Error> {
        self.faults.point(name).map_err(|error| Error::Failed { why: error.to_string() })
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.faults.before_sync()?;
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let synced = file.sync_data();
        self.sync_latency.note(began.elapsed());
        synced
    }

    /// Returns the latencies of log syncs.
    pub(crate) fn sync_latency(&self) -> LatencyHistogram {
        self.sync_latency.read()
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        if let Err((possible, error)) = self.faults.before_write(bytes.len()) {
            file.write_all(bytes.get(..possible).unwrap_or_default())?;
            return Err(error);
        }
        self.bytes_written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        file.write_all(bytes)
    }

    /// Prepares the next segment, unless one is already prepared. The segment is written in small pieces, because a
    /// sync of many megabytes would delay the syncs of commits. `between` is called after each piece. Must not be
    /// called by a thread that commits.
    pub(crate) fn prepare_spare(&self, between: impl Fn()) -> io::Result<()> {
        if !self.files().spares.is_empty() {
            return Ok(());
        }
        let create = || self.faults.before_open().and_then(|()| private::create(&self.directory.join(NEW)));
        // If no segment can be prepared, commits create their segment themselves.
        let Some(mut file) = self.opening.if_possible(create)? else { return Ok(()) };
        let zeros = vec![0; ZEROS];
        let mut missing = usize::try_from(self.segment_bytes).unwrap_or(usize::MAX);
        // If the next segment will probably be kept for its large values, it is not filled with zeros. The zeros would
        // double the bytes written, and the segment could not be reused later. Without zeros, syncs take longer, but
        // the difference is negligible for batches with large values.
        if self.values().next_is_worth_it() {
            file.set_len(self.segment_bytes)?;
            missing = 0;
        }
        while missing > 0 {
            let some = missing.min(zeros.len());
            self.write(&mut file, zeros.get(..some).unwrap_or_default())?;
            file.sync_data()?;
            missing -= some;
            if self.tail_end.load(Ordering::Relaxed) < self.segment_bytes / 4 * 3 {
                between();
            }
        }
        file.sync_all()?;
        let mut files = self.files();
        if files.spares.is_empty() {
            self.number(&mut files, file)?;
        }
        Ok(())
    }

    /// Renames the file `NEW` to the next segment number, durably. The lock is held, so that no other thread uses the
    /// number.
    fn number(&self, files: &mut SegmentFiles, file: File) -> io::Result<()> {
        self.faults.point("segment: named")?;
        let number = files.next + files.spares.len() as u64;
        std::fs::rename(self.directory.join(NEW), segment_path(&self.directory, number))?;
        self.faults.point("segment: directory synced")?;
        self.names.sync_all()?;
        self.syncs.fetch_add(2, Ordering::Relaxed);
        files.spares.push_back(file);
        Ok(())
    }

    /// Opens the next segment and writes its header. The header is not durable yet.
    fn next(&self, first_batch: u64) -> io::Result<OpenSegment> {
        let mut is_again = false;
        // The lock is not held while `patiently` waits between attempts.
        let (mut files, mut file, is_new) = self.opening.patiently(|| {
            let mut files = self.files();
            if let Some(file) = files.spares.pop_front() {
                return Ok((files, file, false));
            }
            let path = segment_path(&self.directory, files.next);
            // A failed attempt may already have created the file.
            let is_first = !std::mem::replace(&mut is_again, true);
            self.faults.before_open()?;
            let mut options = OpenOptions::new();
            options.write(true).create_new(is_first).create(true).truncate(true);
            let file = private::open(&mut options, &path)?;
            Ok((files, file, true))
        })?;
        if is_new {
            file.set_len(self.segment_bytes)?;
            file.sync_all()?;
            self.names.sync_all()?;
            self.syncs.fetch_add(2, Ordering::Relaxed);
        }
        let number = files.next;
        files.next += 1;
        files.live.push_back(Live { number, first_batch, bytes: self.segment_bytes });
        drop(files);
        let salt = salt(self.id, number);
        file.seek(SeekFrom::Start(0))?;
        self.write(&mut file, &SegmentHeader { first_batch, salt }.encode())?;
        Ok(OpenSegment { file, number, salt, end: SEGMENT_HEADER as u64 })
    }

    /// Returns the segments that contain batches, oldest first.
    pub(crate) fn live(&self) -> Vec<Live> {
        self.files().live.iter().cloned().collect()
    }

    /// Returns the batch up to which the log may be dropped. `position` is the batch up to which redb contains
    /// everything. Batches that still have to be copied to an archive are kept if they do not take more space than
    /// allowed.
    fn may_go(&self, position: u64) -> u64 {
        let Some(copied) = self.holds.copied().filter(|copied| *copied < position) else { return position };
        let is_too_much = self.bytes() > self.held_bytes + self.segment_bytes * SPARES as u64;
        let is_disk_low = self.free.bytes().is_some_and(|free| free < HELD_FREE_MIN);
        if is_too_much || is_disk_low {
            tracing::warn!(
                copied,
                position,
                bytes = self.bytes(),
                is_disk_low,
                "the log is no longer kept for an archive or standby that lags behind; it starts over with a new base"
            );
            return position;
        }
        copied
    }

    /// Removes the segments that contain only batches up to `position`, or keeps them for reuse. The newest segment
    /// that is known to contain a batch is never removed. A newer segment may be empty after a crash, and a log without
    /// batches would be treated as lost.
    ///
    /// A segment with large values that stay in the log is renamed instead. It is then no longer part of the log.
    pub(crate) fn drop_through(&self, position: u64, has_values: impl Fn(u64) -> bool) -> io::Result<()> {
        let may_go = self.may_go(position);
        let first = self.files().live.front().map_or(0, |live| live.number);
        self.values().forget(position, first);
        loop {
            let oldest = {
                let mut files = self.files();
                if files.live.get(1).is_none_or(|next| next.first_batch > may_go) {
                    return Ok(());
                }
                files.live.pop_front()
            };
            let Some(oldest) = oldest else { return Ok(()) };
            let path = segment_path(&self.directory, oldest.number);
            if has_values(oldest.number) {
                self.faults.point("values: segment kept")?;
                std::fs::rename(&path, values_path(&self.directory, oldest.number))?;
                self.names.sync_all()?;
                self.files().kept.insert(oldest.number, oldest.bytes);
            } else {
                self.faults.point("checkpoint: segment dropped")?;
                self.retire(&path, oldest.bytes)?;
            }
        }
    }

    /// Drops a kept segment whose values are no longer needed.
    pub(crate) fn release(&self, number: u64) -> io::Result<()> {
        // If the segment is still part of the log, `drop_through` removes it later.
        let Some(bytes) = self.files().kept.remove(&number) else { return Ok(()) };
        self.faults.point("values: segment dropped")?;
        self.retire(&values_path(&self.directory, number), bytes)
    }

    /// Returns whether a segment is kept only for the large values in it.
    pub(crate) fn keeps(&self, number: u64) -> bool {
        self.files().kept.contains_key(&number)
    }

    /// Removes a segment, or keeps it for reuse.
    fn retire(&self, path: &Path, bytes: u64) -> io::Result<()> {
        if bytes == self.segment_bytes && self.files().spares.len() < SPARES {
            return self.use_again(path);
        }
        std::fs::remove_file(path)?;
        self.names.sync_all()
    }

    fn use_again(&self, path: &Path) -> io::Result<()> {
        let new = self.directory.join(NEW);
        std::fs::rename(path, &new)?;
        // The rename must be durable before the content changes. Otherwise the file could be found under its old name
        // after a crash.
        self.names.sync_all()?;
        let open = || self.faults.before_open().and_then(|()| OpenOptions::new().write(true).open(&new));
        let Some(mut file) = self.opening.if_possible(open)? else {
            std::fs::remove_file(&new)?;
            return self.names.sync_all();
        };
        self.write(&mut file, &[0; SEGMENT_HEADER])?;
        file.sync_data()?;
        self.number(&mut self.files(), file)
    }
}

/// The segment that is being written.
#[derive(Debug)]
struct OpenSegment {
    file: File,
    number: u64,
    salt: u64,
    end: u64,
}

impl OpenSegment {
    /// Returns whether a batch of this size fits into the segment. The first batch of a segment always fits.
    fn fits(&self, bytes: usize, segment_bytes: u64) -> bool {
        self.end <= SEGMENT_HEADER as u64 || self.end + bytes as u64 + 8 <= segment_bytes
    }
}

/// Writer of the log, used by one thread at a time.
#[derive(Debug)]
pub(crate) struct Tail {
    segments: Arc<Segments>,
    segment: Option<OpenSegment>,
}

impl Tail {
    /// Creates a writer. Its first batch begins a new segment.
    pub(crate) fn new(segments: Arc<Segments>) -> Self {
        Self { segments, segment: None }
    }

    /// Returns whether a batch of this size fits into the current segment.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        self.segment.as_ref().is_some_and(|segment| segment.fits(bytes, self.segments.segment_bytes))
    }

    /// Appends a batch, which is durable on return. Returns `true` if the segment is now half full, so that the next
    /// segment should be prepared.
    pub(crate) fn append(&mut self, builder: &mut Builder, batch: u64) -> io::Result<bool> {
        let segment_bytes = self.segments.segment_bytes;
        let segment = match self.segment.take_if(|segment| segment.fits(builder.len(), segment_bytes)) {
            Some(segment) => self.segment.insert(segment),
            None => self.segment.insert(self.segments.next(batch)?),
        };
        let logged = builder.logged_bytes;
        let bytes = builder.seal(segment.salt, batch);
        let (begin, half) = (segment.end, segment_bytes / 2);
        self.segments.write(&mut segment.file, bytes)?;
        segment.end += bytes.len() as u64;
        self.segments.sync(&segment.file)?;
        self.segments.tail_end.store(segment.end, Ordering::Relaxed);
        self.segments.faults.set_synced_bytes(segment.end);
        self.segments.values().note(batch, (segment.number, begin), bytes.len() as u64, logged);
        if segment.end > segment_bytes
            && let Some(live) = self.segments.files().live.back_mut()
        {
            live.bytes = live.bytes.max(segment.end);
        }
        Ok(begin < half && segment.end >= half)
    }
}
