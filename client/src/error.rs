//! Why a call did not do what was asked.

use std::sync::Arc;
use std::time::Duration;

use crate::TlsProblem;
use crate::body::Problem;

/// Why a call did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The service answered with a problem.
    #[error("{} ({})", problem.detail, problem.code)]
    Refused {
        /// What it said.
        problem: Box<Problem>,
        /// How long it asks to wait before asking again.
        retry_after: Option<Duration>,
    },
    /// The service could not be reached.
    #[error("the service at {url} cannot be reached")]
    Unreachable {
        /// Where it was looked for.
        url: String,
        /// What stood in the way.
        #[source]
        source: Arc<reqwest::Error>,
    },
    /// No connection to it could be encrypted. Nothing was done; it may go better once a certificate is renewed.
    #[error("the service at {url} cannot be reached securely: {problem}")]
    Insecure {
        /// Where it was looked for.
        url: String,
        /// Why.
        problem: TlsProblem,
        /// What was found.
        #[source]
        source: Arc<reqwest::Error>,
    },
    /// The connection broke, or took too long, after the request was sent.
    #[error("the answer of the service at {url} was lost")]
    Lost {
        /// Where it was asked.
        url: String,
        /// What broke.
        #[source]
        source: Arc<reqwest::Error>,
    },
    /// What answered is not Baton, or not a version that this client understands.
    #[error("the service at {url} answered something unexpected: {what}")]
    Unexpected {
        /// Where it was asked.
        url: String,
        /// What it said.
        what: String,
    },
    /// The client cannot be used like this.
    #[error("{what}")]
    Setup {
        /// What is wrong.
        what: String,
    },
}

impl Error {
    /// The HTTP status, if the service answered.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { problem, .. } => Some(problem.status),
            Self::Unreachable { .. }
            | Self::Insecure { .. }
            | Self::Lost { .. }
            | Self::Unexpected { .. }
            | Self::Setup { .. } => None,
        }
    }

    /// The problem's code, if the service answered with one.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { problem, .. } => Some(&problem.code),
            Self::Unreachable { .. }
            | Self::Insecure { .. }
            | Self::Lost { .. }
            | Self::Unexpected { .. }
            | Self::Setup { .. } => None,
        }
    }

    /// Whether the same call may succeed later, with nothing changed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Refused { problem, .. } => problem.retryable,
            Self::Unreachable { .. } | Self::Insecure { .. } | Self::Lost { .. } => true,
            Self::Unexpected { .. } | Self::Setup { .. } => false,
        }
    }

    /// Whether the task that was answered, or asked about, is gone: its time is over, somebody else has it, it was answered before, or its
    /// run has closed or was deleted. No repetition changes that.
    pub fn is_task_lost(&self) -> bool {
        let of_late_answers = ["turn-completed", "turn-lost", "query-task-lost", "activity-closed", "run-closed"];
        let of_deleted_runs = ["unknown-workflow", "unknown-run"];
        self.code().is_some_and(|code| of_late_answers.contains(&code) || of_deleted_runs.contains(&code))
    }

    /// Whether the call certainly left no trace.
    pub fn had_no_side_effect(&self) -> bool {
        match self {
            Self::Refused { problem, .. } => problem.recorded == serde_json::Value::Bool(false),
            Self::Unreachable { .. } | Self::Insecure { .. } | Self::Setup { .. } => true,
            Self::Lost { .. } | Self::Unexpected { .. } => false,
        }
    }

    /// How long the service asks to wait before asking again.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Unreachable { .. }
            | Self::Insecure { .. }
            | Self::Lost { .. }
            | Self::Unexpected { .. }
            | Self::Setup { .. } => None,
        }
    }
}
