//! Status of a run: open, or the kind of its close.

use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Status of a run: open, or the kind of its close.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cbor(index_only)]
pub enum Status {
    /// Open.
    #[default]
    #[n(0)]
    Open,
    /// Closed with WorkflowSuccess.
    #[n(1)]
    Success,
    /// Closed with WorkflowFailed.
    #[n(2)]
    Failed,
    /// Closed with WorkflowCanceled.
    #[n(3)]
    Canceled,
    /// Closed with WorkflowTimedOut.
    #[n(4)]
    TimedOut,
    /// Closed with WorkflowTerminated.
    #[n(5)]
    Terminated,
    /// Closed with WorkflowContinuedAsNew.
    #[n(6)]
    ContinuedAsNew,
}

impl Status {
    /// All statuses.
    pub const ALL: [Self; 7] = [
        Self::Open,
        Self::Success,
        Self::Failed,
        Self::Canceled,
        Self::TimedOut,
        Self::Terminated,
        Self::ContinuedAsNew,
    ];

    /// Returns the word used in JSON, in lists and in stores.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::TimedOut => "timed-out",
            Self::Terminated => "terminated",
            Self::ContinuedAsNew => "continued-as-new",
        }
    }

    /// Returns the status with this word, or `None` if no status has this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word() == word)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
