//! Opens a store: locks the directory, opens redb, applies the log, and starts the threads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use store::Error;

use crate::background::spawn_background;
use crate::directory::{Directory, log_path, record_known_batch, tree_path};
use crate::disk::storage_error;
use crate::frame::{BatchOperation, operations};
use crate::log::{FoundLog, Live, Segments, Tail};
use crate::log_end::LogEnd;
use crate::logged_values::may_be_logged;
use crate::names::{find_values, values_path};
use crate::opening::Opening;
use crate::options::{Options, Recovery};
use crate::recovery::recover;
use crate::shared::{Shared, State};
use crate::source::LogSource;
use crate::spare::SpareSpace;
use crate::tree::{Tree, Verify};
use crate::values::ValueFiles;
use crate::{checkpoint, committer, counts, keys, terms};

/// Parts of a store that was opened.
pub(crate) struct Opened {
    pub(crate) shared: Arc<Shared>,
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) directory: Directory,
    pub(crate) tree_path: PathBuf,
    pub(crate) recovery: Recovery,
    pub(crate) source: LogSource,
}

pub(crate) fn open(options: &Options) -> Result<Opened, Error> {
    let directory = Directory::take(&options.directory)?;
    let spare = SpareSpace::open(options);
    let log = log_path(&options.directory);
    let opening = Arc::new(Opening::default());
    let files = ValueFiles::new(log.clone(), Arc::clone(&opening), Arc::clone(&options.faults));
    let verify = if options.verify_all { Verify::Always } else { Verify::IfSmall };
    let (tree, position) = Tree::open_with(&tree_path(&options.directory), options.cache_bytes, files, verify)?;
    let mut state = State::new(position);
    let (mut replayed_to, mut layers_written) = (position, 0);
    let recovered = recover(&log, directory.id, position, directory.known, |frame| {
        let mut logged = 0;
        if state.active.bytes >= options.memory_bytes / 2 {
            layers_written += set_aside(&tree, &mut state, replayed_to)?;
        }
        for operation in operations(frame.operations) {
            match operation? {
                // The value may or may not be in redb already, because a checkpoint may have been interrupted.
                BatchOperation::Put { key, value, at } => {
                    logged += if may_be_logged(key, value.len()) { value.len() as u64 } else { 0 };
                    state.active.put(key, Bytes::copy_from_slice(value), frame.batch, at, false);
                }
                BatchOperation::Delete { key } => state.active.delete(key, frame.batch),
            }
        }
        state.logged += frame.size as u64;
        replayed_to = frame.batch;
        Ok(logged)
    })?;
    let kept = find_kept(&tree, &log, &recovered.segments)?;
    state.open_batch = recovered.last_batch + 1;
    state.durable_batch = recovered.last_batch;
    let known = recovered.last_batch;
    if known > 0 && directory.known != Some(known) {
        match record_known_batch(&options.directory, known) {
            // `KNOWN` cannot be updated on a full disk. Its old content is still correct: it names an earlier batch.
            Err(error) if directory.known.is_some() && error.kind() == std::io::ErrorKind::StorageFull => {
                tracing::warn!(%error, "cannot write KNOWN");
            }
            made => made.map_err(|error| storage_error(&error, "write KNOWN in", &options.directory))?,
        }
    }
    let next = kept.last_key_value().map_or(0, |(last, _)| last + 1).max(recovered.next_number);
    let found = FoundLog { live: recovered.segments, next, values: recovered.values, kept };
    let segments = Segments::new(&log, directory.id, options, opening, found);
    let segments = Arc::new(segments.map_err(|error| storage_error(&error, "open", &log))?);
    let tail = Tail::new(Arc::clone(&segments));
    let recovery = Recovery {
        batches_replayed: recovered.batches_replayed,
        bytes_read: recovered.bytes_read,
        bytes_cut: recovered.bytes_cut,
        layers_written,
    };
    let Recovery { batches_replayed, bytes_read, bytes_cut, .. } = recovery;
    tracing::info!(
        directory = %options.directory.display(), position, batches_replayed, bytes_read, bytes_cut, layers_written,
        "the store is open"
    );
    find_doomed(&tree, &mut state)?;
    counts::load(&tree, &mut state)?;
    if !tree.has_terms() {
        terms::make(&tree, &state)?;
    }
    let first = (known == 0).then(|| options.directory.clone());
    state.log_end = Some(LogEnd::new(tail, first));
    let shared = Arc::new(Shared::new(state, tree, segments, spare, options));
    let source = LogSource::new(Arc::clone(&shared), options.directory.clone(), log, directory.id);
    let threads = vec![
        spawn("store-commit", &shared, |shared| committer::run(shared))?,
        spawn("store-checkpoint", &shared, checkpoint::run)?,
    ];
    Ok(Opened { shared, threads, directory, tree_path: tree_path(&options.directory), recovery, source })
}

/// Frees memory while the log is applied. The first full layer (data that is not yet in redb) is set aside for the
/// checkpoint thread, which writes it after the store is open. If another layer becomes full, this function writes the
/// layer that was set aside, because at most two layers may be in memory. Returns the number of layers written.
fn set_aside(tree: &Tree, state: &mut State, replayed_to: u64) -> Result<u64, Error> {
    let older = state.frozen.take();
    if let Some(older) = &older {
        checkpoint::write_layer(tree, &older.layer, older.position, usize::MAX, || Ok(()), || Ok(()), |_| None)?;
    }
    state.freeze_replayed(replayed_to);
    Ok(u64::from(older.is_some()))
}

/// Returns the segments that are kept for the large values in them, with their sizes, and deletes kept segments that
/// are not needed. Fails if a needed segment is missing and is not part of the log either.
fn find_kept(tree: &Tree, log: &Path, live: &[Live]) -> Result<BTreeMap<u64, u64>, Error> {
    let failed = |error: std::io::Error| storage_error(&error, "list or clear the segments of values in", log);
    let found = find_values(log).map_err(failed)?;
    let is_there = |segment| found.binary_search(&segment).is_ok() || live.iter().any(|live| live.number == segment);
    if let Some(segment) = tree.needed().all().find(|segment| !is_there(*segment)) {
        let path = values_path(log, segment);
        return Err(Error::Corrupt {
            what: format!(
                "`{}` is missing, which contains values of acknowledged commits. Restore the directory from a backup, \
                 or put the missing file back",
                path.display()
            ),
        });
    }
    let mut kept = BTreeMap::new();
    for segment in found {
        let path = values_path(log, segment);
        if tree.needed().has(segment) {
            kept.insert(segment, path.metadata().map_err(failed)?.len());
        } else if tree.has_logged_value(segment)? {
            return Err(Error::Corrupt {
                what: format!(
                    "`tree.redb` does not list `{}` as needed, but refers to values in it. Restore the directory \
                     from a backup",
                    path.display()
                ),
            });
        } else {
            std::fs::remove_file(&path).map_err(failed)?;
        }
    }
    Ok(kept)
}

/// Finds the runs whose deletion was interrupted.
fn find_doomed(tree: &Tree, state: &mut State) -> Result<(), Error> {
    let mut doomed = BTreeSet::new();
    for pair in tree.snapshot()?.range(&[keys::DOOMED], &[keys::DOOMED + 1], false)? {
        doomed.insert(pair?.0.to_vec());
    }
    for (key, slot) in state.unwritten(&[keys::DOOMED], &[keys::DOOMED + 1]) {
        if slot.value.is_some() {
            doomed.insert(key.to_vec());
        } else {
            doomed.remove(key);
        }
    }
    state.doomed = doomed;
    Ok(())
}

fn spawn(
    name: &str,
    shared: &Arc<Shared>,
    run: impl FnOnce(&Arc<Shared>) + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    /// Stops the store if the thread panics, because commits would otherwise wait forever.
    struct PanicGuard(Arc<Shared>);
    impl Drop for PanicGuard {
        fn drop(&mut self) {
            if std::thread::panicking() {
                self.0.fail("a thread of the store panicked");
            }
        }
    }
    let watch = PanicGuard(Arc::clone(shared));
    spawn_background(name, move || run(&watch.0))
}

/// Compacts the file of redb. The store must have been closed, so that redb contains everything.
pub(crate) fn compact(directory: &Path) -> Result<(), Error> {
    let _directory = Directory::take(directory)?;
    let (tree, _) = Tree::open(&tree_path(directory), Options::new(directory).cache_bytes)?;
    tree.compact()?;
    tree.close();
    Ok(())
}
