//! Writing the log: takes the open batch, writes it with one write, makes it durable with one sync, tells those who wait. While it
//! syncs, the next batch fills. Owns who does that: a thread, or whoever commits where the log has rested.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use crate::directory::make_known;
use crate::frame::Builder;
use crate::instant;
use crate::log::Tail;
use crate::shared::{Phase, Shared, State};

/// The longest sync after which whoever commits does the next: its thread does nothing else meanwhile. Ours: two threads' switches are
/// saved, which take some 0.1 ms; a disk that is slower gains little by it.
const SHORT_SYNC: Duration = Duration::from_micros(500);
/// The largest batch that whoever commits writes. Ours: what is larger takes longer than the last one did.
const SMALL_BATCH: usize = 64 << 10;

/// The end of the log, and what it takes to write on there. Whoever has it writes.
#[derive(Debug)]
pub(crate) struct LogEnd {
    tail: Tail,
    builder: Builder,
    /// The directory of a store that has no batch yet: before the first is acknowledged, it is made known there that there is one.
    first: Option<PathBuf>,
    done: Option<DoneBatch>,
}

/// The last batch that was written.
#[derive(Debug)]
struct DoneBatch {
    at: Instant,
    took: Duration,
    commits: u64,
}

impl LogEnd {
    pub(crate) fn new(tail: Tail, first: Option<PathBuf>) -> Self {
        Self { tail, builder: Builder::default(), first, done: None }
    }

    /// Whether the thread that commits so many bytes may as well write them: that does not take long; and the last batch was of one commit, and was
    /// over for at least as long as it took, so that what comes at the same time still shares a sync.
    fn is_rested_for(&self, bytes: usize) -> bool {
        let is_rested =
            |last: &DoneBatch| last.commits == 1 && last.took <= SHORT_SYNC && last.at.elapsed() > last.took;
        self.done.as_ref().is_some_and(is_rested)
            && self.first.is_none()
            && bytes <= SMALL_BATCH
            && self.tail.has_room(bytes)
    }
}

/// A batch that is to be written, and by whom.
pub(crate) struct Writing {
    end: LogEnd,
    batch: u64,
    commits: u64,
}

impl State {
    /// The open batch, if there is one and nobody writes.
    fn take_batch(&mut self) -> Option<Writing> {
        if self.builder.is_empty() {
            return None;
        }
        let mut end = self.log_end.take()?;
        instant::put(self);
        std::mem::swap(&mut self.builder, &mut end.builder);
        let batch = self.open_batch;
        self.open_batch += 1;
        self.is_writing = true;
        Some(Writing { end, batch, commits: std::mem::take(&mut self.open_commits) })
    }

    /// The same for who has just committed, where the thread rests.
    pub(crate) fn take_batch_at_rest(&mut self) -> Option<Writing> {
        let bytes = self.builder.len() + instant::BYTES;
        self.log_end.as_ref().filter(|end| end.is_rested_for(bytes))?;
        self.take_batch()
    }
}

/// Runs until the store closes or fails.
pub(crate) fn run(shared: &Shared) {
    while let Some(writing) = next(shared) {
        write(shared, writing);
    }
}

/// Waits for a batch; `None` when there will be no more and nobody writes.
fn next(shared: &Shared) -> Option<Writing> {
    let mut state = shared.lock();
    loop {
        if !state.is_writing {
            if state.phase != Phase::Stopping
                && let Some(writing) = state.take_batch()
            {
                return Some(writing);
            }
            if state.phase != Phase::Open {
                state.log_end = None;
                return None;
            }
        }
        state.is_committer_idle = true;
        state = shared.batch_ready.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
    }
}

/// Writes a batch, durably.
pub(crate) fn write(shared: &Shared, Writing { mut end, batch, commits }: Writing) {
    /// Who ends by a panic takes the store with it: nobody would write any more.
    struct PanicGuard<'a>(&'a Shared);
    impl Drop for PanicGuard<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                self.0.stopped_writing("writing the log panicked");
            }
        }
    }
    let guard = PanicGuard(shared);
    shared.made_room();
    let began = Instant::now();
    let appended = end.tail.append(&mut end.builder, batch).and_then(|is_half_full| {
        if let Some(directory) = end.first.take() {
            shared.segments.opening.patiently(|| make_known(&directory, batch))?;
        }
        Ok(is_half_full)
    });
    match appended {
        Ok(is_half_full) => {
            if is_half_full {
                shared.lock().needs_spare = true;
                shared.checkpoint_ready.notify_all();
            }
            end.builder.clear();
            let now = Instant::now();
            end.done = Some(DoneBatch { at: now, took: now - began, commits });
            shared.set_durable(batch, end);
        }
        // Never retried: after a failed sync nobody knows what is on the disk.
        Err(error) => shared.stopped_writing(&format!("writing the log: {error}")),
    }
    drop(guard);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::Options;
    use crate::log::{FoundLog, Segments};
    use crate::shared::Durable;

    /// A log of one batch, which was over so long ago and took so long; its thread sleeps.
    struct RestingLog {
        shared: Shared,
        options: Options,
        _directory: tempfile::TempDir,
    }

    impl RestingLog {
        fn new(done: Duration, took: Duration, commits: u64) -> Self {
            let directory = tempfile::TempDir::new().unwrap();
            let options = Options::new(directory.path());
            let shared = Shared::without_threads(&options);
            let log = Self { shared, options, _directory: directory };
            log.shared.lock().log_end = Some(LogEnd::new(Tail::new(Arc::clone(&log.shared.segments)), None));
            let _durable = log.put(1);
            let writing = log.shared.lock().take_batch().unwrap();
            write(&log.shared, writing);
            let mut state = log.shared.lock();
            assert_eq!(state.durable_batch, 1);
            let at = Instant::now().checked_sub(done).unwrap();
            state.log_end.as_mut().unwrap().done = Some(DoneBatch { at, took, commits });
            state.is_committer_idle = true;
            drop(state);
            log
        }

        /// Commits so many bytes.
        fn put(&self, bytes: usize) -> Durable {
            let mut state = self.shared.open().unwrap();
            state.put(b"hkey", Bytes::from(vec![0; bytes]), true);
            let durable = Shared::committed(&mut state);
            self.shared.let_go(state);
            durable
        }

        /// Whether what is committed now is written by who commits, and not left to the thread.
        fn writes_itself(&self, bytes: usize) -> bool {
            let _durable = self.put(bytes);
            let state = self.shared.lock();
            assert_eq!(
                state.is_committer_idle,
                state.durable_batch == 2,
                "the thread is woken where nobody else writes"
            );
            state.durable_batch == 2
        }
    }

    const LONG_AGO: Duration = Duration::from_secs(60);

    #[test]
    fn who_commits_alone_writes_it() {
        assert!(RestingLog::new(LONG_AGO, SHORT_SYNC, 1).writes_itself(1));
    }

    #[test]
    fn the_thread_writes_where_others_commit_at_the_same_time() {
        assert!(!RestingLog::new(LONG_AGO, SHORT_SYNC, 2).writes_itself(1), "the last batch was of two commits");
        assert!(!RestingLog::new(Duration::ZERO, LONG_AGO, 1).writes_itself(1), "the last batch was just over");
    }

    #[test]
    fn the_thread_writes_what_takes_long() {
        let longer = SHORT_SYNC + Duration::from_micros(1);
        assert!(!RestingLog::new(LONG_AGO, longer, 1).writes_itself(1), "the disk is slow");
        assert!(!RestingLog::new(LONG_AGO, SHORT_SYNC, 1).writes_itself(SMALL_BATCH), "it is large");
        let mut log = RestingLog::new(LONG_AGO, SHORT_SYNC, 1);
        log.options.segment_bytes = 1;
        let segments = Segments::new(&log.options.directory, 2, &log.options, Arc::default(), FoundLog::default());
        log.shared.lock().log_end.as_mut().unwrap().tail = Tail::new(Arc::new(segments.unwrap()));
        assert!(!log.writes_itself(1), "it begins a segment, for which there may be no descriptor");
    }

    #[test]
    fn who_commits_and_cannot_write_stops_the_store() {
        let log = RestingLog::new(LONG_AGO, SHORT_SYNC, 1);
        log.options.faults.fail_syncs();
        let _durable = log.put(1);
        let state = log.shared.lock();
        assert!(state.phase == Phase::Stopping && state.failure.is_some() && !state.is_writing);
        drop(state);
        assert!(next(&log.shared).is_none(), "the thread ends");
    }

    #[test]
    fn the_thread_does_not_end_while_somebody_writes() {
        let log = RestingLog::new(LONG_AGO, SHORT_SYNC, 2);
        let _durable = log.put(1);
        let writing = log.shared.lock().take_batch().unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| next(&log.shared).is_none());
            log.shared.set_phase(Phase::Closing);
            while !log.shared.lock().is_committer_idle && !thread.is_finished() {
                std::thread::yield_now();
            }
            assert!(!thread.is_finished());
            write(&log.shared, writing);
            assert!(thread.join().unwrap());
        });
        assert_eq!(log.shared.lock().durable_batch, 2);
    }
}
