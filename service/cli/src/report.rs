//! Reports of failures: messages for people, and exit codes for scripts.

use std::process::ExitCode;

use client::Error;
use tables::escape;

use crate::advice;
use crate::failed::{Done, Failed};
use crate::say::note;

/// Returns the exit code for the result of a command. If the command has failed, also prints the failure.
pub fn exit_code(done: Done) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => report(&failed),
    }
}

/// Prints a failure and returns its exit code.
pub(crate) fn report(failed: &Failed) -> ExitCode {
    match failed {
        Failed::Usage(what) => {
            note(&format!("baton: {what}"));
            ExitCode::from(2)
        }
        Failed::Client(Error::Refused { problem, .. }) => {
            let (detail, advice) = (advice::detail(problem), advice::advice(problem));
            let detail = escape::line(&detail);
            note(&format!("baton: {detail} ({})\n       {advice}", problem.code));
            ExitCode::from(1)
        }
        Failed::Client(error) => {
            note(&format!("baton: {}", escape::line(&error.to_string())));
            if let Error::Insecure { problem, .. } = error {
                note(&format!("       {}", advice::of_tls(problem)));
                return ExitCode::from(3);
            }
            let mut source = std::error::Error::source(error);
            while let Some(cause) = source {
                note(&format!("       {}", escape::line(&cause.to_string())));
                source = cause.source();
            }
            if matches!(error, Error::Unreachable { .. }) {
                note("       check that `baton serve` is running there, or correct --url or BATON_URL");
            }
            ExitCode::from(3)
        }
        Failed::Other(code, what) => {
            note(&format!("baton: {what}"));
            ExitCode::from(*code)
        }
    }
}
