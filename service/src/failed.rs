//! Failures of commands: messages for people, and exit codes for scripts.

use std::process::ExitCode;

use client::{Error, shown};

use crate::cli::advice;
use crate::cli::say::note;

/// Reason why a command failed.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The arguments were invalid.
    Usage(String),
    /// The service refused the request, or could not be reached.
    Client(Error),
    /// Another failure, with its exit code.
    Other(u8, String),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        match error {
            Error::Setup { what } => Self::Usage(what),
            error => Self::Client(error),
        }
    }
}

impl Failed {
    /// Prints the failure and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Usage(what) => {
                note(&format!("baton: {what}"));
                ExitCode::from(2)
            }
            Self::Client(Error::Refused { problem, .. }) => {
                let (detail, advice) = (advice::detail(problem), advice::advice(problem));
                let detail = shown::line(&detail);
                note(&format!("baton: {detail} ({})\n       {advice}", problem.code));
                ExitCode::from(1)
            }
            Self::Client(error) => {
                note(&format!("baton: {}", shown::line(&error.to_string())));
                if let Error::Insecure { problem, .. } = error {
                    note(&format!("       {}", advice::of_tls(problem)));
                    return ExitCode::from(3);
                }
                let mut source = std::error::Error::source(error);
                while let Some(cause) = source {
                    note(&format!("       {}", shown::line(&cause.to_string())));
                    source = cause.source();
                }
                if matches!(error, Error::Unreachable { .. }) {
                    note("       is `baton serve` running there? --url or BATON_URL says where to look");
                }
                ExitCode::from(3)
            }
            Self::Other(code, what) => {
                note(&format!("baton: {what}"));
                ExitCode::from(*code)
            }
        }
    }
}
