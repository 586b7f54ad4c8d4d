//! Functions that print all output of the command line. Output may contain text that came from other people. These
//! functions escape it, so that a terminal does not interpret control characters in it (`tables::escape`).

use std::io::Write;

use serde::Serialize;
use tables::escape;

use super::{Done, Failed};

/// Prints a value as JSON.
///
/// # Errors
///
/// [`Failed::Other`] if standard output cannot be written.
pub fn print_json(body: &impl Serialize) -> Done {
    let text = serde_json::to_string_pretty(body).map_err(|error| Failed::Other(1, error.to_string()))?;
    print_json_text(&text)
}

/// Prints text that is in JSON format.
///
/// # Errors
///
/// [`Failed::Other`] if standard output cannot be written.
pub fn print_json_text(text: &str) -> Done {
    print(&escape::json(text))
}

/// Prints a value as JSON on one line, for commands that print one value after the other.
///
/// # Errors
///
/// [`Failed::Other`] if standard output cannot be written.
pub(crate) fn print_json_line(body: &impl Serialize) -> Done {
    print_json_text(&serde_json::to_string(body).map_err(|error| Failed::Other(1, error.to_string()))?)
}

/// Prints one line.
///
/// # Errors
///
/// [`Failed::Other`] if standard output cannot be written.
pub fn print_line(text: &str) -> Done {
    print(&escape::line(text))
}

/// Prints a text, including its line breaks.
///
/// # Errors
///
/// [`Failed::Other`] if standard output cannot be written.
pub fn print_text(text: &str) -> Done {
    print(&escape::lines(text))
}

/// Prints a table with a header row.
///
/// # Errors
///
/// [`Failed::Other`] if standard output cannot be written.
pub fn print_rows<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> Done {
    print_text(&tables::rows(header, rows))
}

/// Writes to standard output. Succeeds even if the reader has closed it, as `head` does.
fn print(text: &str) -> Done {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failed::Other(1, error.to_string())),
        _ => Ok(()),
    }
}

/// Prints a message on standard error.
pub fn note(text: &str) {
    // The error is ignored, because standard error may have been closed.
    let _ = writeln!(std::io::stderr(), "{}", escape::lines(text));
}
