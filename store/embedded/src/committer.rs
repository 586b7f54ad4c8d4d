//! Writing the log: takes the open batch, writes it with one write, makes it durable with one sync, tells those who wait. While it
//! syncs, the next batch fills. Owns who does that: a thread, or whoever commits where the log has rested.

use std::sync::{MutexGuard, PoisonError};

use crate::instant;
use crate::log_end::LogEnd;
use crate::shared::{Phase, Shared, State};

/// A batch that is to be written, and by whom.
struct Writing {
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
    fn take_batch_at_rest(&mut self) -> Option<Writing> {
        let bytes = self.builder.len() + instant::BYTES;
        self.log_end.as_ref().filter(|end| end.is_rested_for(bytes))?;
        self.take_batch()
    }

    /// Whether the committer sleeps although there is something for it to do.
    fn is_overslept(&self) -> bool {
        self.is_committer_idle && !self.is_writing && (!self.builder.is_empty() || self.phase != Phase::Open)
    }
}

impl Shared {
    /// Lets the lock go after commits. If the committer sleeps over a batch, that is written here, or the committer is woken: not before, for the
    /// lock is the first that it takes.
    pub(crate) fn let_go(&self, mut state: MutexGuard<'_, State>) {
        if !state.is_overslept() {
            return;
        }
        let writing = state.take_batch_at_rest();
        state.is_committer_idle = writing.is_some();
        drop(state);
        match writing {
            Some(writing) => write(self, writing),
            None => self.batch_ready.notify_one(),
        }
    }

    /// Called by who writes: everything up to `batch` is durable, and another may write on.
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
        ready.tell();
        if has_frozen {
            self.checkpoint_ready.notify_all();
        }
    }

    /// Called by who writes and cannot: stops everything for good.
    fn stopped_writing(&self, why: &str) {
        self.lock().is_writing = false;
        self.fail(why);
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
        state = shared.batch_ready.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Writes a batch, durably.
fn write(shared: &Shared, Writing { mut end, batch, commits }: Writing) {
    /// Who ends by a panic takes the store with it: nobody would write any more.
    struct WriterGuard<'a>(&'a Shared);
    impl Drop for WriterGuard<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                self.0.stopped_writing("writing the log panicked");
            }
        }
    }
    let guard = WriterGuard(shared);
    shared.made_room();
    shared.spare.let_go_if_full();
    match end.append(batch, commits, &shared.segments.opening) {
        Ok(is_half_full) => {
            if is_half_full {
                shared.lock().needs_spare = true;
                shared.checkpoint_ready.notify_all();
            }
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
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::Options;
    use crate::log::{FoundLog, Segments, Tail};
    use crate::log_end::{SHORT_SYNC, SMALL_BATCH};
    use crate::shared::Durable;

    /// A log of one batch, which was over so long ago and took so long; its thread sleeps.
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
            state.log_end.as_mut().unwrap().was_used(ago, took, commits);
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
        let mut end = LogEnd::new(Tail::new(Arc::new(segments.unwrap())), None);
        end.was_used(LONG_AGO, SHORT_SYNC, 1);
        log.shared.lock().log_end = Some(end);
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
