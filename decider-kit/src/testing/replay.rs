//! Replay of recorded histories, to test flows.

use std::fmt;
use std::path::{Path, PathBuf};

use baton_history::EventKind;

use super::Recorded;
use crate::flow::{Flow, FlowError, FlowState};

/// Reason why a history cannot be replayed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReplayError {
    /// The text is not a history.
    Unreadable(String),
    /// There is no flow for the history's workflow type.
    NoFlow {
        /// Workflow type of the history.
        workflow_type: String,
    },
    /// The flow cannot replay the history.
    Flow {
        /// Error of the flow.
        error: FlowError,
        /// History as a table.
        table: String,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "not a history: {error}"),
            Self::NoFlow { workflow_type } => write!(f, "no flow for `{workflow_type}`"),
            Self::Flow { error, table } => write!(f, "{error}\n\n{table}\n"),
        }
    }
}

impl std::error::Error for ReplayError {}

/// Replays a recorded history with a flow, as a host does if the state is not cached. `history` is the response of `GET
/// …/history`, or the bare array of its events. The run may be open or closed. The code's decisions must match the
/// recorded decisions, except that inputs, task lists and timeouts may differ, as after a deployment.
/// [`Recorded::assert_same`] is stricter and also compares inputs, task lists and timeouts.
///
/// # Errors
///
/// Returns a [`ReplayError`]. A [`FlowError::Mismatch`] names the event, its recorded decision, and the code's
/// decision.
pub fn replay(flow: &Flow, history: &str) -> Result<(), ReplayError> {
    let recorded = Recorded::from_json(history).map_err(|error| ReplayError::Unreadable(error.to_string()))?;
    let mut state = FlowState::default();
    for event in recorded.events() {
        flow.evolve(&mut state, event);
    }
    let table = || baton_tables::history(recorded.events());
    flow.error(&state).map_or(Ok(()), |error| Err(ReplayError::Flow { error, table: table() }))
}

/// Replays every `*.json` file of a directory, in the order of the file names, with the flow for the workflow type of
/// the history. Returns the result of each file.
///
/// # Errors
///
/// If the directory or a file cannot be read.
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

/// Returns the workflow type of a history.
fn typed(text: &str) -> Result<String, ReplayError> {
    let recorded = Recorded::from_json(text).map_err(|error| ReplayError::Unreadable(error.to_string()))?;
    match recorded.events().first().map(|event| &event.kind) {
        Some(EventKind::WorkflowStarted(it)) => Ok(it.workflow_type.clone()),
        _ => Err(ReplayError::Unreadable("the first event is not WorkflowStarted".to_owned())),
    }
}
