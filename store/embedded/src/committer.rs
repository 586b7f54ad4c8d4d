//! Writes the log. The open batch is taken, written with one write, and made durable with one sync. Then the commits in
//! it are acknowledged. During the sync, the next batch fills. If the log is idle, the caller that commits writes the
//! batch itself. Otherwise the committer thread writes it.

use std::sync::{MutexGuard, PoisonError};

use crate::disk;
use crate::instant;
use crate::log_end::LogEnd;
use crate::shared::{Phase, Shared, State};

/// A batch that is being written.
struct Writing {
    end: LogEnd,
    batch: u64,
    commits: u64,
}

impl State {
    /// Takes the open batch, if there is one and no write is in progress.
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

    /// Takes the open batch for the caller that commits. Returns `None` if the log is not idle.
    fn take_inline_batch(&mut self) -> Option<Writing> {
        let bytes = self.builder.len() + instant::BYTES;
        self.log_end.as_ref().filter(|end| end.allows_writing_inline(bytes))?;
        self.take_batch()
    }

    /// Returns whether the committer thread sleeps although there is work for it.
    fn is_overslept(&self) -> bool {
        self.is_committer_idle && !self.is_writing && (!self.builder.is_empty() || self.phase != Phase::Open)
    }
}

impl Shared {
    /// Releases the lock after a commit. If the committer thread sleeps although there is a batch, writes the batch or
    /// wakes the thread. The thread is not woken earlier, because it would then have to wait for the lock.
    pub(crate) fn write_or_wake(&self, mut state: MutexGuard<'_, State>) {
        if !state.is_overslept() {
            return;
        }
        let writing = state.take_inline_batch();
        state.is_committer_idle = writing.is_some();
        drop(state);
        match writing {
            Some(writing) => write(self, writing),
            None => self.batch_ready.notify_one(),
        }
    }

    /// Called after a write: everything up to `batch` is durable, and the next write may begin.
    fn set_durable(&self, batch: u64, end: LogEnd) {
        let (ready, has_frozen, is_overslept) = {
            let mut state = self.lock();
            let ready = state.became_durable(batch);
            state.log_end = Some(end);
            state.is_writing = false;
            let is_overslept = state.is_overslept();
            state.is_committer_idle &= !is_overslept;
            (ready, state.frozen.is_some(), is_overslept)
        };
        if is_overslept {
            self.batch_ready.notify_one();
        }
        ready.acknowledge();
        if has_frozen {
            self.checkpoint_ready.notify_all();
        }
    }

    /// Called after a failed write. The store stops permanently.
    fn stopped_writing(&self, why: &str) {
        self.lock().is_writing = false;
        self.fail(why);
    }
}

/// Runs the committer thread until the store closes or fails.
pub(crate) fn run(shared: &Shared) {
    while let Some(writing) = next(shared) {
        write(shared, writing);
    }
}

/// Waits for a batch. Returns `None` when no more batches can follow and no write is in progress.
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
        state = shared.batch_ready.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Writes a batch and makes it durable.
fn write(shared: &Shared, Writing { mut end, batch, commits }: Writing) {
    /// Stops the store if the writer panics, because no other thread would continue to write.
    struct WriterGuard<'a>(&'a Shared);
    impl Drop for WriterGuard<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                self.0.stopped_writing("writing the log panicked");
            }
        }
    }
    let guard = WriterGuard(shared);
    shared.notify_space();
    shared.spare.release_if_full();
    match end.append(batch, commits, &shared.segments.opening) {
        Ok(is_half_full) => {
            if is_half_full {
                shared.lock().needs_spare = true;
                shared.checkpoint_ready.notify_all();
            }
            shared.set_durable(batch, end);
        }
        // The write is not retried: after a failed sync, it is unknown what is on the disk.
        Err(error) => shared.stopped_writing(&format!("cannot write the log: {error}{}", disk::advice(&error))),
    }
    drop(guard);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::Options;
    use crate::log::{FoundLog, Segments, Tail};
    use crate::log_end::{SHORT_SYNC, SMALL_BATCH};
    use crate::shared::Durable;

    /// A log with one written batch, whose committer thread sleeps. The time since that batch, its duration and its
    /// number of commits are chosen by the test.
    struct RestingLog {
        shared: Shared,
        options: Options,
        _directory: tempfile::TempDir,
    }

    impl RestingLog {
        fn new(ago: Duration, took: Duration, commits: u64) -> Self {
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
            state.log_end.as_mut().unwrap().set_last_batch(ago, took, commits);
            state.is_committer_idle = true;
            drop(state);
            log
        }

        /// Commits a value of this many bytes.
        fn put(&self, bytes: usize) -> Durable {
            let mut state = self.shared.open().unwrap();
            state.put(b"hkey", Bytes::from(vec![0; bytes]), true);
            let durable = Shared::committed(&mut state);
            self.shared.write_or_wake(state);
            durable
        }

        /// Commits a value. Returns whether the calling thread has written the value itself.
        fn writes_itself(&self, bytes: usize) -> bool {
            let _durable = self.put(bytes);
            let state = self.shared.lock();
            assert_eq!(
                state.is_committer_idle,
                state.durable_batch == 2,
                "the thread is woken if the caller does not write"
            );
            state.durable_batch == 2
        }
    }

    const LONG_AGO: Duration = Duration::from_secs(60);

    #[test]
    fn a_lone_commit_is_written_by_its_caller() {
        assert!(RestingLog::new(LONG_AGO, SHORT_SYNC, 1).writes_itself(1));
    }

    #[test]
    fn the_thread_writes_when_there_are_concurrent_commits() {
        assert!(!RestingLog::new(LONG_AGO, SHORT_SYNC, 2).writes_itself(1), "the last batch had two commits");
        assert!(!RestingLog::new(Duration::ZERO, LONG_AGO, 1).writes_itself(1), "the last batch has just ended");
    }

    #[test]
    fn the_thread_writes_what_may_take_long() {
        let longer = SHORT_SYNC + Duration::from_micros(1);
        assert!(!RestingLog::new(LONG_AGO, longer, 1).writes_itself(1), "the disk is slow");
        assert!(!RestingLog::new(LONG_AGO, SHORT_SYNC, 1).writes_itself(SMALL_BATCH), "the batch is large");
        let mut log = RestingLog::new(LONG_AGO, SHORT_SYNC, 1);
        log.options.segment_bytes = 1;
        let segments = Segments::new(&log.options.directory, 2, &log.options, Arc::default(), FoundLog::default());
        let mut end = LogEnd::new(Tail::new(Arc::new(segments.unwrap())), None);
        end.set_last_batch(LONG_AGO, SHORT_SYNC, 1);
        log.shared.lock().log_end = Some(end);
        assert!(!log.writes_itself(1), "it starts a segment, for which a descriptor may be missing");
    }

    #[test]
    fn a_caller_that_cannot_write_stops_the_store() {
        let log = RestingLog::new(LONG_AGO, SHORT_SYNC, 1);
        log.options.faults.fail_syncs();
        let _durable = log.put(1);
        let state = log.shared.lock();
        assert!(state.phase == Phase::Stopping && state.failure.is_some() && !state.is_writing);
        drop(state);
        assert!(next(&log.shared).is_none(), "the thread ends");
    }

    #[test]
    fn the_thread_does_not_end_during_a_write() {
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
