//! The checkpoint thread: writes data from memory to redb, and then drops the part of the log that is no longer needed.
//! Committed data that is not yet in redb is held in memory in two layers. Commits change the active layer, and the
//! frozen layer is being written to redb. The steps are as follows. The names in parentheses are those of the steps for
//! fault injection.
//!
//! 1. Wait until the log is durable up to the end of the frozen layer.
//! 2. Write the layer to redb in small transactions, with pauses (`checkpoint: piece`).
//! 3. Write the log position in the last transaction (`checkpoint: position`).
//! 4. Drop the layer from memory. From then on, reads get its data from redb (`checkpoint: thaw`).
//! 5. Drop the segments before the position (`checkpoint: segment dropped`). One of them becomes the spare for the next
//!    segment. Segments with large values that stay in the log are kept under another name (`values: segment kept`).
//! 6. Drop kept segments whose values are no longer needed (`values: segment dropped`). If there is nothing else to do,
//!    take kept segments of which less than half is needed, and move their remaining values to redb (`values: piece`).
//!
//! A crash between any two steps leaves redb at the old position with some newer pairs, or at the new position with
//! more log than needed. Replaying the log from the position repairs both: each pair is written as a whole, so writing
//! it again changes nothing.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use store::Error;

use crate::layer::{Layer, LayerValue};
use crate::logged_values::may_be_logged;
use crate::shared::{Frozen, Phase, Shared};
use crate::tree::{PairChange, Tree};
use crate::values::LogPlace;

/// Bytes written by one transaction; a quarter of a layer if that is less. The sync of a transaction competes with
/// syncs of the log for the disk. Small transactions therefore bound the time for which a checkpoint can delay a
/// commit.
const PIECE_BYTES: usize = 512 << 10;
/// Pause between two transactions of a checkpoint. Omitted if commits wait for the checkpoint or soon will.
const PAUSE: Duration = Duration::from_millis(10);
/// Time without commits after which a checkpoint is written, even if there is little data in memory. Chosen: longer
/// than the gaps between the commits of a busy service.
const QUIET: Duration = Duration::from_secs(1);
/// Minimum size of the log for a checkpoint after a time without commits ([`QUIET`]). Chosen: a start reads this much
/// log in milliseconds, so a smaller log is not worth a transaction.
const QUIET_BYTES: u64 = 1 << 20;

/// Runs the checkpoint thread until the store closes or fails.
pub(crate) fn run(shared: &Arc<Shared>) {
    // This thread gets a lower priority than the threads that commit. A refusal by the operating system is harmless.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 10);
    let mut emptying = half_unneeded(shared);
    while let Some(work) = next(shared, &mut emptying) {
        let done = match work {
            CheckpointWork::Spare => prepare_spare(shared),
            CheckpointWork::Room => {
                shared.spare.take();
                Ok(())
            }
            CheckpointWork::Layer(frozen) => checkpoint(shared, &frozen).map(|()| emptying = half_unneeded(shared)),
            CheckpointWork::Emptying(segment) => empty(shared, segment, &mut emptying),
        };
        if let Err(error) = done {
            // Removes the prefix of `Error::Failed`, because `fail` wraps the message in the same error.
            let why = match error {
                Error::Failed { why } => why,
                error => error.to_string(),
            };
            shared.fail(&format!("cannot write a checkpoint: {why}"));
            return;
        }
    }
}

enum CheckpointWork {
    Spare,
    /// Releases the reserved disk space, because the disk is full.
    Room,
    Layer(Arc<Frozen>),
    Emptying(u64),
}

fn next(shared: &Shared, emptying: &mut VecDeque<u64>) -> Option<CheckpointWork> {
    let mut state = shared.lock();
    let mut batch_before = state.open_batch;
    loop {
        if state.phase == Phase::Stopping {
            return None;
        }
        // Preparing the next segment of the log comes first: it takes only milliseconds, and without the segment the
        // commits would wait.
        if std::mem::take(&mut state.needs_spare) && state.phase == Phase::Open {
            return Some(CheckpointWork::Spare);
        }
        // If the disk lacks space for the data, the data stays in memory and in the log.
        let bytes = state.frozen.as_ref().map_or(state.active.bytes, |frozen| frozen.layer.bytes);
        let fits = shared.spare.has_for_redb(bytes);
        let is_durable = |frozen: &&Arc<Frozen>| frozen.durable_needed <= state.durable_batch;
        if let Some(frozen) = state.frozen.as_ref().filter(is_durable).filter(|_| fits) {
            return Some(CheckpointWork::Layer(Arc::clone(frozen)));
        }
        if state.phase == Phase::Closing && (state.frozen.is_none() || !fits) {
            if state.active.slots.is_empty() || !fits {
                return None;
            }
            state.freeze();
            continue;
        }
        if state.phase == Phase::Open
            && shared.spare.has_for_redb(PIECE_BYTES)
            && let Some(segment) = emptying.pop_front()
        {
            return Some(CheckpointWork::Emptying(segment));
        }
        let waited;
        (state, waited) = shared.checkpoint_ready.wait_timeout(state, QUIET).unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            let is_quiet = std::mem::replace(&mut batch_before, state.open_batch) == state.open_batch;
            let is_worth_it = is_quiet && state.logged >= QUIET_BYTES;
            // The space of deleted data is freed only by a checkpoint, so a full disk also requires a checkpoint.
            let is_wanted = is_worth_it || state.logged > 0 && shared.spare.is_full();
            if is_wanted && state.frozen.is_none() && fits {
                state.freeze();
            } else if state.phase == Phase::Open && shared.spare.may_be_taken() {
                return Some(CheckpointWork::Room);
            }
        }
    }
}

/// Prepares the next segment of the log (the spare). If the disk is full, no segment is prepared. Commits then create a
/// segment themselves, which occupies only the space of the bytes written.
fn prepare_spare(shared: &Shared) -> Result<(), Error> {
    if shared.spare.is_full() {
        return Ok(());
    }
    match shared.segments.prepare_spare(|| pause(shared)) {
        Err(error) if error.kind() == ErrorKind::StorageFull => {
            tracing::warn!(%error, "cannot prepare the next segment of the log");
            Ok(())
        }
        prepared => prepared.map_err(|error| Error::Failed { why: error.to_string() }),
    }
}

fn checkpoint(shared: &Shared, frozen: &Arc<Frozen>) -> Result<(), Error> {
    shared.spare.release_if_full();
    write_layer(
        &shared.tree,
        &frozen.layer,
        frozen.position,
        PIECE_BYTES.min(shared.half_bytes / 4),
        || {
            pause(shared);
            shared.spare.release_if_full();
            shared.segments.point("checkpoint: piece")
        },
        || shared.segments.point("checkpoint: position"),
        |slot| shared.segments.place(slot.batch, slot.at),
    )?;
    shared.segments.point("checkpoint: thaw")?;
    {
        let mut state = shared.lock();
        state.frozen = None;
        state.epoch += 1;
    }
    shared.notify_space();
    shared
        .segments
        .drop_through(frozen.position, |segment| shared.tree.needed().has(segment))
        .map_err(|error| Error::Failed { why: format!("cannot drop an old segment: {error}") })?;
    shared.notify_space();
    release(shared)
}

/// Drops segments that were kept for large values which are no longer needed.
fn release(shared: &Shared) -> Result<(), Error> {
    let unread = shared.tree.needed().take_unread();
    for segment in unread {
        shared.tree.close_segment(segment);
        let released = shared.segments.release(segment);
        released.map_err(|error| Error::Failed { why: format!("cannot drop segment {segment} of values: {error}") })?;
    }
    Ok(())
}

/// Returns the segments kept for large values of which less than half is still needed.
fn half_unneeded(shared: &Shared) -> VecDeque<u64> {
    let found = shared.tree.needed().half_unneeded();
    found.into_iter().filter(|segment| shared.segments.keeps(*segment)).collect()
}

/// Moves some needed values to redb, from a segment that is kept for its large values. If there may be more such
/// values, the segment is queued again.
fn empty(shared: &Shared, segment: u64, emptying: &mut VecDeque<u64>) -> Result<(), Error> {
    shared.spare.release_if_full();
    match shared.tree.logged_values_in(segment, PIECE_BYTES.min(shared.half_bytes / 4)) {
        Ok(values) if values.is_empty() => release(shared)?,
        Ok(values) => {
            shared.tree.write(values.iter().map(|(key, value)| (&key[..], Some(&value[..]))), None)?;
            emptying.push_front(segment);
        }
        // Reads of the damaged value fail with an error. No other data is affected. The next checkpoint tries again.
        Err(error) => tracing::error!(segment, %error, "cannot move the values of a kept segment to redb"),
    }
    pause(shared);
    shared.segments.point("values: piece")
}

/// Pauses, so that other threads can use the disk. Does not pause if commits wait for the checkpoint or soon will.
fn pause(shared: &Shared) {
    let state = shared.lock();
    let is_in_time = state.active.bytes < shared.half_bytes / 2 && state.logged < shared.log_bytes / 2;
    if is_in_time && state.phase == Phase::Open {
        let is_over = |state: &mut crate::shared::State| state.phase == Phase::Open;
        drop(shared.pace.wait_timeout_while(state, PAUSE, is_over).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Writes a whole layer to redb in small transactions. The last one also records the log position. Large values for
/// which `place` returns a location stay in the log, and only their location is written.
pub(crate) fn write_layer(
    tree: &Tree,
    layer: &Layer,
    position: u64,
    piece_bytes: usize,
    mut between: impl FnMut() -> Result<(), Error>,
    before_last: impl FnOnce() -> Result<(), Error>,
    place: impl Fn(&LayerValue) -> Option<(u64, u64)>,
) -> Result<(), Error> {
    let mut piece: Vec<(&[u8], PairChange<'_>)> = Vec::new();
    let mut bytes = 0;
    for (key, slot) in layer.slots.iter().filter(|(_, slot)| LayerValue::must_be_written(slot)) {
        if bytes >= piece_bytes {
            tree.change(piece.drain(..), None)?;
            bytes = 0;
            between()?;
        }
        let change = match &slot.value {
            Some(value) if may_be_logged(key, value.len()) => match place(slot) {
                Some(place) => PairChange::Stay(LogPlace::of(place, value)),
                None => PairChange::Put(value),
            },
            value => value.as_deref().into(),
        };
        bytes += key.len() + if let PairChange::Put(value) = change { value.len() } else { 0 };
        piece.push((key, change));
    }
    before_last()?;
    tree.change(piece.drain(..), Some(position))
}
