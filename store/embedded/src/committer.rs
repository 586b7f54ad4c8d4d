//! The thread that writes the log: takes the open batch, writes it with one write, makes it durable with one sync, tells
//! those who wait. While it syncs, the next batch fills.

use std::path::PathBuf;
use std::sync::Arc;

use crate::directory::make_known;
use crate::frame::Builder;
use crate::instant;
use crate::log::Tail;
use crate::shared::{Phase, Shared};

/// Runs until the store closes or fails. `first` is the directory of a store that has no batch yet: before the first is
/// acknowledged, it is made known there that there is one.
pub(crate) fn run(shared: &Arc<Shared>, mut tail: Tail, mut first: Option<PathBuf>) {
    let mut builder = Builder::default();
    while let Some(batch) = take(shared, &mut builder) {
        shared.made_room();
        let appended = tail.append(&mut builder, batch).and_then(|is_half_full| {
            if let Some(directory) = first.take() {
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
                shared.set_durable(batch);
            }
            Err(error) => {
                // Never retried: after a failed sync nobody knows what is on the disk.
                shared.fail(&format!("writing the log: {error}"));
                return;
            }
        }
        builder.clear();
    }
}

/// Waits for a batch and swaps it against the empty one; `None` when there will be no more.
fn take(shared: &Shared, builder: &mut Builder) -> Option<u64> {
    let mut state = shared.lock();
    loop {
        if state.phase == Phase::Stopping {
            return None;
        }
        if !state.builder.is_empty() {
            instant::put(&mut state);
            std::mem::swap(&mut state.builder, builder);
            let batch = state.open_batch;
            state.open_batch += 1;
            return Some(batch);
        }
        if state.phase == Phase::Closing {
            return None;
        }
        state.is_committer_idle = true;
        state = shared.batch_ready.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
    }
}
