//! Recorded histories as tests of flows.

use std::fmt;
use std::path::{Path, PathBuf};

use baton_history::EventKind;

use super::Recorded;
use crate::flow::{Flow, FlowError, FlowState};

/// Why a history cannot be replayed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReplayError {
    /// It is no history.
    Unreadable(String),
    /// There is no flow for its workflow type.
    NoFlow {
        /// The workflow type.
        workflow_type: String,
    },
    /// The flow cannot follow it.
    Trouble {
        /// Why.
        trouble: FlowError,
        /// The history as a table.
        table: String,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "not a history: {error}"),
            Self::NoFlow { workflow_type } => write!(f, "no flow for `{workflow_type}`"),
            Self::Trouble { trouble, table } => write!(f, "{trouble}\n\n{table}\n"),
        }
    }
}

impl std::error::Error for ReplayError {}

/// Runs a flow along a recorded history (the answer of `GET …/history`, or the bare array of its events; open or closed),
/// as a decider does after a cache miss. What the code issues must be what the history has; inputs, lists and timeouts may
/// differ, as they may after a deploy. [`Recorded::assert_same`] is stricter: it compares those, too.
///
/// # Errors
///
/// [`ReplayError`]; a [`FlowError::Mismatch`] names the event, what it is, and what the code issued.
pub fn replay(flow: &Flow, history: &str) -> Result<(), ReplayError> {
    let recorded = Recorded::from_json(history).map_err(|error| ReplayError::Unreadable(error.to_string()))?;
    let mut state = FlowState::default();
    for event in recorded.events() {
        flow.evolve(&mut state, event);
    }
    let table = || baton_client::table::history(recorded.events());
    flow.trouble(&state).map_or(Ok(()), |trouble| Err(ReplayError::Trouble { trouble, table: table() }))
}

/// Replays every `*.json` of a directory with the flow of its workflow type, sorted by name.
///
/// # Errors
///
/// When the directory or a file cannot be read. What becomes of each history is in the list.
pub fn replay_directory(
    directory: impl AsRef<Path>,
    flow_of: impl Fn(&str) -> Option<Flow>,
) -> std::io::Result<Vec<(PathBuf, Result<(), ReplayError>)>> {
    let entries = std::fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = entries.collect::<Result<Vec<_>, _>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let replayed = paths.into_iter().map(|path| {
        let text = std::fs::read_to_string(&path)?;
        let replayed = typed(&text).and_then(|workflow_type| {
            let flow = flow_of(&workflow_type).ok_or(ReplayError::NoFlow { workflow_type })?;
            replay(&flow, &text)
        });
        Ok((path, replayed))
    });
    replayed.collect()
}

/// The workflow type of a history.
fn typed(text: &str) -> Result<String, ReplayError> {
    let recorded = Recorded::from_json(text).map_err(|error| ReplayError::Unreadable(error.to_string()))?;
    match recorded.events().first().map(|event| &event.kind) {
        Some(EventKind::WorkflowStarted(it)) => Ok(it.workflow_type.clone()),
        _ => Err(ReplayError::Unreadable("it does not begin with WorkflowStarted".to_owned())),
    }
}
