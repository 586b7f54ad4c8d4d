//! Why a command ended early, as people and scripts are told.

use std::process::ExitCode;

use client::Error;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Something was wrong with the arguments.
    Usage(String),
    /// The service said no, or could not be asked.
    Client(Error),
    /// Something else, with the exit code.
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
    /// Says it to the person at the terminal.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Usage(what) => {
                eprintln!("baton: {what}");
                ExitCode::from(2)
            }
            Self::Client(Error::Refused { problem, .. }) => {
                eprintln!("baton: {} ({})\n       {}", problem.detail, problem.code, problem.advice);
                ExitCode::from(1)
            }
            Self::Client(error) => {
                eprintln!("baton: {error}");
                let mut source = std::error::Error::source(error);
                while let Some(cause) = source {
                    eprintln!("       {cause}");
                    source = cause.source();
                }
                if matches!(error, Error::Unreachable { .. }) {
                    eprintln!("       is `baton serve` running there? --url or BATON_URL says where to look");
                }
                ExitCode::from(3)
            }
            Self::Other(code, what) => {
                eprintln!("baton: {what}");
                ExitCode::from(*code)
            }
        }
    }
}
