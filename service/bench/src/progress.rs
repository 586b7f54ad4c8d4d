//! Progress of a load. On a terminal, a line is updated in place. Otherwise, a line is printed from time to time.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

/// Time between two updates on a terminal.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// Time between two lines if the output is not a terminal. Our choice: the same as for `baton`. A shorter load prints
/// no line.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// A progress report that many tasks share.
pub(crate) struct Progress {
    is_terminal: bool,
    said: Mutex<Instant>,
}

impl Progress {
    pub(crate) fn begin() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), said: Mutex::new(Instant::now()) }
    }

    /// Prints the progress if enough time has passed since the last output.
    pub(crate) fn at(&self, text: impl FnOnce() -> String) {
        let every = if self.is_terminal { DRAW_EVERY } else { LINE_EVERY };
        // If the lock is taken, another task is printing.
        let Ok(mut said) = self.said.try_lock() else { return };
        if said.elapsed() < every {
            return;
        }
        *said = Instant::now();
        if self.is_terminal { eprint!("\r{}", text()) } else { eprintln!("{}", text()) }
    }

    /// Ends the line.
    pub(crate) fn end(&self, text: &str) {
        if self.is_terminal {
            eprintln!("\r{text}");
        }
    }
}
