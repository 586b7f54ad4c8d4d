//! How far a load is: all the time on a terminal, elsewhere a line now and then.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

/// How often it is said on a terminal.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// How often elsewhere. Ours: as `baton` does; what takes less says nothing.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Says how far it is; of many tasks at once.
pub(crate) struct Progress {
    is_terminal: bool,
    said: Mutex<Instant>,
}

impl Progress {
    pub(crate) fn begin() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), said: Mutex::new(Instant::now()) }
    }

    /// Says it if it is time to.
    pub(crate) fn at(&self, text: impl FnOnce() -> String) {
        let every = if self.is_terminal { DRAW_EVERY } else { LINE_EVERY };
        // Whoever does not come in is not needed: another is saying it.
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
