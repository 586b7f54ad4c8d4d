//! Failures of commands.

use client::Error;

/// Result of a command.
pub type Done = Result<(), Failed>;

/// Reason why a command failed.
#[derive(Debug)]
pub enum Failed {
    /// The arguments were invalid.
    Usage(String),
    /// The service refused the request, or could not be reached.
    Client(Error),
    /// Any other failure, with its exit code and message.
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
