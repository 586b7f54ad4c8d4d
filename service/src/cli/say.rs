//! All output of the command line. It may contain text from other people, which is escaped here so that a terminal
//! does not interpret it (`client::shown`).

use std::io::Write;

use client::{shown, table};
use serde::Serialize;

use super::{Done, Failed};

/// Prints a body as JSON.
pub(super) fn print_json(body: &impl Serialize) -> Done {
    let text = serde_json::to_string_pretty(body).map_err(|error| Failed::Other(1, error.to_string()))?;
    print_json_text(&text)
}

/// Prints JSON text.
pub(super) fn print_json_text(text: &str) -> Done {
    print(&shown::json(text))
}

/// Prints one line.
pub(super) fn print_line(text: &str) -> Done {
    print(&shown::line(text))
}

/// Prints a text and keeps its line breaks.
pub(super) fn print_text(text: &str) -> Done {
    print(&shown::lines(text))
}

/// Prints a table with a header.
pub(super) fn print_rows<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> Done {
    print_text(&table::rows(header, rows))
}

/// Writes to standard output. A reader that closes it early (`| head`) is not an error.
fn print(text: &str) -> Done {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failed::Other(1, error.to_string())),
        _ => Ok(()),
    }
}

/// Prints a message on standard error.
pub(crate) fn note(text: &str) {
    // A closed standard error is ignored.
    let _ = writeln!(std::io::stderr(), "{}", shown::lines(text));
}
