//! Starting runs: what becomes of a start where its workflow id is in use, and with the signal that it carries.

use std::sync::Arc;

use history::admit::{Starting, starting};
use history::{Command, Run, Start, Transition};

use super::cell::{RunCell, State};
use super::hand_out::waiting_turn;
use super::{Engine, Refusal, Started};

/// Why a run was terminated for which another one was started.
const REPLACED: &str = "replaced by a new start";

impl Engine {
    pub(super) async fn run_start(
        self: &Arc<Self>,
        cell: &Arc<RunCell>,
        state: &mut State,
        start: &Start,
    ) -> Result<Option<Started>, Refusal> {
        let mut attempt = 0;
        loop {
            let was_loaded = matches!(state, State::Loaded(_));
            let now = self.clock.now();
            let run_id = self.ids.run_id(now);
            let existing = self.loaded(cell, state).await?.map(|loaded| loaded.run().clone());
            let starting = starting(existing.as_ref(), start);
            // Never say no, or that a run is open, from a cache (STORAGE.md §3.7 S1).
            let needs_proof = match &starting {
                Err(fault) => fault.depends_on_state(),
                Ok(Starting::Existing { .. }) => start.signal.is_none(),
                Ok(Starting::New | Starting::Repeated { .. } | Starting::TerminateFirst) => false,
            };
            if was_loaded && needs_proof {
                *state = State::Unloaded;
                continue;
            }
            match (starting?, existing) {
                (Starting::Repeated { run_id }, _) => {
                    return Ok(Some(Started { run_id, repeated: true, existing: false }));
                }
                (Starting::Existing { run_id }, Some(run)) => {
                    let told = signal_of(start);
                    if told.is_none() || self.run_told(cell, state, run, told.as_ref(), &mut attempt).await? {
                        return Ok(Some(Started { run_id, repeated: false, existing: true }));
                    }
                    continue;
                }
                (Starting::TerminateFirst, Some(run)) => {
                    let terminate = Command::Terminate {
                        reason: Some(REPLACED.to_owned()),
                        details: None,
                        identity: start.identity.clone(),
                        key: None,
                    };
                    // Whether it is this that closes it or something else: the next look finds what there is to do.
                    self.run_told(cell, state, run, Some(&terminate), &mut attempt).await?;
                    continue;
                }
                (Starting::New | Starting::Existing { .. } | Starting::TerminateFirst, _) => {}
            }
            let mut transition = Transition::start(start, run_id, now)?;
            if let State::Loaded(earlier) = &*state {
                if !earlier.body.links.outbox.is_empty() {
                    return Ok(None);
                }
                transition.links_mut().seen = earlier.body.links.seen.clone();
            }
            if self.write(cell, state, transition, 0, 0, &mut attempt).await?.is_some() {
                return Ok(Some(Started { run_id, repeated: false, existing: false }));
            }
        }
    }

    /// Admits a command to a run and commits it; false when another attempt is needed, on what the store has.
    async fn run_told(
        self: &Arc<Self>,
        cell: &Arc<RunCell>,
        state: &mut State,
        run: Run,
        command: Option<&Command>,
        attempt: &mut u32,
    ) -> Result<bool, Refusal> {
        let (last_event_id, waiting_turn) = (run.last_event_id, waiting_turn(&run));
        let State::Loaded(loaded) = &*state else { return Ok(false) };
        let mut transition = Transition::linked(run, loaded.body.links.clone());
        if let Some(command) = command {
            transition.admit(command, self.clock.now())?;
        }
        Ok(self.write(cell, state, transition, last_event_id, waiting_turn, attempt).await?.is_some())
    }
}

/// The signal that a start carries, for a run that is open already.
fn signal_of(start: &Start) -> Option<Command> {
    let signal = start.signal.clone()?;
    let (name, input, identity, key) = (signal.name, signal.input, start.identity.clone(), start.key);
    Some(Command::Signal { name, input, identity, key, if_version: None })
}
