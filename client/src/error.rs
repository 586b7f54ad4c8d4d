//! Errors of calls.

use std::sync::Arc;
use std::time::Duration;

use crate::TlsProblem;
use crate::body::Problem;

/// Reason why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The service refused the request and described the reason in a problem document.
    #[error("{} ({})", problem.detail, problem.code)]
    Refused {
        /// Problem document: code, status and description of the refusal.
        problem: Box<Problem>,
        /// Minimum delay before a retry, if the service requested one.
        retry_after: Option<Duration>,
    },
    /// The service could not be reached.
    #[error("the service at {url} cannot be reached")]
    Unreachable {
        /// URL of the service.
        url: String,
        /// Cause of the failure.
        #[source]
        source: Arc<reqwest::Error>,
    },
    /// No secure connection could be established. The request was not sent. A retry may succeed after a certificate
    /// is renewed.
    #[error("the service at {url} cannot be reached securely: {problem}")]
    Insecure {
        /// URL of the service.
        url: String,
        /// Reason why the secure connection could not be established.
        problem: TlsProblem,
        /// Cause of the failure.
        #[source]
        source: Arc<reqwest::Error>,
    },
    /// The connection failed or timed out after the request was sent.
    #[error("the response of the service at {url} was lost")]
    Lost {
        /// URL of the service.
        url: String,
        /// Cause of the failure.
        #[source]
        source: Arc<reqwest::Error>,
    },
    /// The response is not from Baton, or it is from a version of Baton that this client does not understand.
    #[error("the service at {url} sent an unexpected response: {what}")]
    Unexpected {
        /// URL of the request.
        url: String,
        /// Description of the response.
        what: String,
    },
    /// The client's configuration or the request is invalid.
    #[error("{what}")]
    Setup {
        /// Description of what is invalid.
        what: String,
    },
}

impl Error {
    /// Returns the HTTP status, if the service responded.
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

    /// Returns the code of the problem, if the service responded with a problem.
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

    /// Returns true if the same call may succeed later without any change.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Refused { problem, .. } => problem.retryable,
            Self::Unreachable { .. } | Self::Insecure { .. } | Self::Lost { .. } => true,
            Self::Unexpected { .. } | Self::Setup { .. } => false,
        }
    }

    /// Returns true if the answered task no longer belongs to the caller: the task timed out or was already answered,
    /// or its run was closed or deleted. A retry of the answer cannot succeed.
    pub fn is_task_lost(&self) -> bool {
        let of_late_answers = ["turn-completed", "turn-lost", "query-task-lost", "activity-closed", "run-closed"];
        let of_deleted_runs = ["unknown-workflow", "unknown-run"];
        self.code().is_some_and(|code| of_late_answers.contains(&code) || of_deleted_runs.contains(&code))
    }

    /// Returns true if the call certainly had no effect.
    pub fn had_no_side_effect(&self) -> bool {
        match self {
            Self::Refused { problem, .. } => problem.recorded == serde_json::Value::Bool(false),
            Self::Unreachable { .. } | Self::Insecure { .. } | Self::Setup { .. } => true,
            Self::Lost { .. } | Self::Unexpected { .. } => false,
        }
    }

    /// Returns the minimum delay before a retry, if the service requested one.
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
