//! The thread that brings frozen layers to redb and drops the log behind them. Owns the order of the steps and their pace.
//!
//! 1. wait until the log is durable as far as the layer goes
//! 2. write the layer in small transactions, with pauses (`checkpoint: piece`)
//! 3. the last one also writes the log position (`checkpoint: position`)
//! 4. let the layer go, from here on redb answers (`checkpoint: thaw`)
//! 5. drop the segments before the position (`checkpoint: segment dropped`), one becomes the spare; those that have values which stay
//!    are kept under another name (`values: segment kept`)
//! 6. let those go of which nothing is needed any more (`values: segment dropped`); of those of which less than half is, bring the rest
//!    to redb, when there is nothing else to do (`values: piece`)
//!
//! A crash anywhere leaves redb at the old position with some newer pairs, or at the new position with too long a log.
//! Both are cured by replaying from the position: pairs are written whole, so writing them again changes nothing.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use store::Error;

use crate::layer::{Layer, LayerValue};
use crate::shared::{Frozen, Phase, Shared};
use crate::staying::may_stay;
use crate::tree::{PairChange, Tree};
use crate::values::LogPlace;

/// How much one transaction writes, unless memory is so small that a quarter of a layer is less. Its sync shares the device with the log's, so this bounds how long a commit can be
/// held up by a checkpoint.
const PIECE_BYTES: usize = 512 << 10;
/// The pause between two pieces while there is time.
const PAUSE: Duration = Duration::from_millis(10);
/// Where nothing is committed for so long, what memory has goes to redb. Ours: longer than a service that has something to do leaves between two commits.
const QUIET: Duration = Duration::from_secs(1);
/// Of the log, the least for which that is done. Ours: what a start reads in milliseconds is not worth a transaction after each call.
const QUIET_BYTES: u64 = 1 << 20;

/// Runs until the store closes or fails.
pub(crate) fn run(shared: &Arc<Shared>) {
    // The commits' threads come first. A system that refuses leaves the priority as it was, which is no error.
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
            shared.fail(&format!("writing a checkpoint: {error}"));
            return;
        }
    }
}

enum CheckpointWork {
    Spare,
    /// Of the disk, for when it is full.
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
        // A spare comes first: it takes milliseconds, and without one the commits wait.
        if std::mem::take(&mut state.needs_spare) && state.phase == Phase::Open {
            return Some(CheckpointWork::Spare);
        }
        // Until there is room for it, the log has what is not in redb.
        let bytes = state.frozen.as_ref().map_or(state.active.bytes, |frozen| frozen.layer.bytes);
        let has_room = shared.spare.has_for_redb(bytes);
        let is_durable = |frozen: &&Arc<Frozen>| frozen.durable_needed <= state.durable_batch;
        if let Some(frozen) = state.frozen.as_ref().filter(is_durable).filter(|_| has_room) {
            return Some(CheckpointWork::Layer(Arc::clone(frozen)));
        }
        if state.phase == Phase::Closing && (state.frozen.is_none() || !has_room) {
            if state.active.slots.is_empty() || !has_room {
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
            // What was deleted gives its room back only then.
            let is_wanted = is_worth_it || state.logged > 0 && shared.spare.is_full();
            if is_wanted && state.frozen.is_none() && has_room {
                state.freeze();
            } else if state.phase == Phase::Open && shared.spare.may_be_taken() {
                return Some(CheckpointWork::Room);
            }
        }
    }
}

/// Where the disk is full, the commits make their own, which takes up no more than they write.
fn prepare_spare(shared: &Shared) -> Result<(), Error> {
    if shared.spare.is_full() {
        return Ok(());
    }
    match shared.segments.prepare_spare(|| pause(shared)) {
        Err(error) if error.kind() == ErrorKind::StorageFull => {
            tracing::warn!(%error, "no segment of the log can be made ready");
            Ok(())
        }
        prepared => prepared.map_err(|error| Error::Failed { why: error.to_string() }),
    }
}

fn checkpoint(shared: &Shared, frozen: &Arc<Frozen>) -> Result<(), Error> {
    shared.spare.let_go_if_full();
    write_layer(
        &shared.tree,
        &frozen.layer,
        frozen.position,
        PIECE_BYTES.min(shared.half_bytes / 4),
        || {
            pause(shared);
            shared.spare.let_go_if_full();
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
    shared.made_room();
    shared
        .segments
        .drop_through(frozen.position, |segment| shared.tree.needed().has(segment))
        .map_err(|error| Error::Failed { why: format!("dropping an old segment: {error}") })?;
    shared.made_room();
    release(shared)
}

/// Lets the segments go whose values nobody needs any more.
fn release(shared: &Shared) -> Result<(), Error> {
    let unread = shared.tree.needed().take_unread();
    for segment in unread {
        shared.tree.close_segment(segment);
        let released = shared.segments.release(segment);
        released.map_err(|error| Error::Failed { why: format!("dropping segment {segment} of values: {error}") })?;
    }
    Ok(())
}

/// The segments that are kept for less than half of the values that they were kept for.
fn half_unneeded(shared: &Shared) -> VecDeque<u64> {
    let found = shared.tree.needed().half_unneeded();
    found.into_iter().filter(|segment| shared.segments.keeps(*segment)).collect()
}

/// Brings some of the values to redb that a segment is kept for, and puts it back where there may be more.
fn empty(shared: &Shared, segment: u64, emptying: &mut VecDeque<u64>) -> Result<(), Error> {
    shared.spare.let_go_if_full();
    match shared.tree.staying_in(segment, PIECE_BYTES.min(shared.half_bytes / 4)) {
        Ok(values) if values.is_empty() => release(shared)?,
        Ok(values) => {
            shared.tree.write(values.iter().map(|(key, value)| (&key[..], Some(&value[..]))), None)?;
            emptying.push_front(segment);
        }
        // Whoever asks for what cannot be read is told, and everything else is as it was. It is tried again after the next checkpoint.
        Err(error) => tracing::error!(segment, %error, "a segment that is kept for its values cannot be emptied"),
    }
    pause(shared);
    shared.segments.point("values: piece")
}

/// Gives the device back for a while, unless commits already wait for room or will soon.
fn pause(shared: &Shared) {
    let state = shared.lock();
    let is_in_time = state.active.bytes < shared.half_bytes / 2 && state.logged < shared.log_bytes / 2;
    if is_in_time && state.phase == Phase::Open {
        let is_over = |state: &mut crate::shared::State| state.phase == Phase::Open;
        drop(shared.pace.wait_timeout_while(state, PAUSE, is_over).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Writes a whole layer to redb, in pieces, the position with the last; but for large values for which `place` has one in the log.
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
            Some(value) if may_stay(key, value.len()) => match place(slot) {
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
