//! Failures of measurements.

use std::error::Error as _;
use std::process::ExitCode;

use client::Error;

/// Reason why a measurement failed.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The arguments were invalid.
    Usage(String),
    /// The service refused a request, or could not be reached.
    Client(Error),
    /// Another failure.
    Other(String),
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
    /// Prints the failure, and returns the exit code that `baton` has for it.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Usage(what) => {
                eprintln!("baton-bench: {what}");
                ExitCode::from(2)
            }
            Self::Client(error @ Error::Refused { .. }) => {
                eprintln!("baton-bench: {error}");
                ExitCode::FAILURE
            }
            Self::Client(error) => {
                eprintln!("baton-bench: {error}");
                let mut source = error.source();
                while let Some(cause) = source {
                    eprintln!("             {cause}");
                    source = cause.source();
                }
                ExitCode::from(3)
            }
            Self::Other(what) => {
                eprintln!("baton-bench: {what}");
                ExitCode::FAILURE
            }
        }
    }
}
