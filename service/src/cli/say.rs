//! The one place where the command line writes. What it is given may be other people's text, so nothing of it leaves here
//! that a terminal would obey (`client::shown`).

use std::io::Write;

use client::{shown, table};
use serde::Serialize;

use super::{Done, Failed};

/// Prints an answer as JSON.
pub(super) fn print_json(body: &impl Serialize) -> Done {
    let text = serde_json::to_string_pretty(body).map_err(|error| Failed::Other(1, error.to_string()))?;
    print_json_text(&text)
}

/// Prints JSON that is there already.
pub(super) fn print_json_text(text: &str) -> Done {
    print(&shown::json(text))
}

/// Prints one line.
pub(super) fn print_line(text: &str) -> Done {
    print(&shown::line(text))
}

/// Prints a text whose line breaks are ours.
pub(super) fn print_text(text: &str) -> Done {
    print(&shown::lines(text))
}

/// Prints rows below a header.
pub(super) fn print_rows<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> Done {
    print_text(&table::rows(header, rows))
}

/// A reader that has seen enough (`| head`) is no failure.
fn print(text: &str) -> Done {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failed::Other(1, error.to_string())),
        _ => Ok(()),
    }
}

/// Says something to the person at the terminal, beside what is printed.
pub(crate) fn note(text: &str) {
    // Where nobody can be told, nobody is.
    let _ = writeln!(std::io::stderr(), "{}", shown::lines(text));
}
