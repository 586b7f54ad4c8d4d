//! Why a measurement ended early.

use std::error::Error as _;
use std::process::ExitCode;

use client::Error;

/// Why a measurement ended early.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Something was wrong with the arguments.
    Usage(String),
    /// The service said no, or could not be asked.
    Client(Error),
    /// Something else.
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
    /// Says it to the person at the terminal; answers the exit code, which is `baton`'s own for the same.
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
