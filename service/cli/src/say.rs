//! All output of the command line. It may contain text from other people, which is escaped here so that a terminal
//! does not interpret it (`tables::escape`).

use std::io::Write;

use serde::Serialize;
use tables::escape;

use super::{Done, Failed};

/// Prints a body as JSON.
///
/// # Errors
///
/// [`Failed::Other`] if standard output cannot be written.
pub fn print_json(body: &impl Serialize) -> Done {
    let text = serde_json::to_string_pretty(body).map_err(|error| Failed::Other(1, error.to_string()))?;
    print_json_text(&text)
}

/// Prints JSON text.
///
/// # Errors
///
/// [`Failed::Other`] if standard output cannot be written.
pub fn print_json_text(text: &str) -> Done {
    print(&escape::json(text))
}

/// Prints one line.
///
/// # Errors
///
/// [`Failed::Other`] if standard output cannot be written.
pub fn print_line(text: &str) -> Done {
    print(&escape::line(text))
}

/// Prints a text and keeps its line breaks.
///
/// # Errors
///
/// [`Failed::Other`] if standard output cannot be written.
pub fn print_text(text: &str) -> Done {
    print(&escape::lines(text))
}

/// Prints a table with a header.
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

/// Writes to standard output. A reader that closes it early (`| head`) is not an error.
fn print(text: &str) -> Done {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failed::Other(1, error.to_string())),
        _ => Ok(()),
    }
}

/// Prints a message on standard error.
pub fn note(text: &str) {
    // A closed standard error is ignored.
    let _ = writeln!(std::io::stderr(), "{}", escape::lines(text));
}
