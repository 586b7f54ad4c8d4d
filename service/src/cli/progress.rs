//! How far a long command is: a bar on a terminal, elsewhere a line now and then, both beside what is printed.

use std::time::Duration;

use clap::Args;
use client::shown;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

use super::note;

/// How often a line says how far it is where there is no terminal. Ours: few in a log of an hour. What takes less says nothing.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// How often a bar is drawn, a second.
const DRAWN_HZ: u8 = 10;

/// Of something of which it is known how much there is.
const BAR: &str = "{msg} [{wide_bar}] {human_pos}/{human_len} {prefix}, {per_sec}, {eta} left";

/// Of something of which it is not.
const SPINNER: &str = "{spinner} {msg}: {human_pos} {prefix}, {elapsed}";

/// Whether to say how far it is.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Quiet {
    /// Do not say how far it is
    #[arg(long, short)]
    quiet: bool,
}

impl Quiet {
    /// Begins to say how far something is: what is done, and what is counted.
    pub(super) fn progress(self, doing: &str, unit: &'static str) -> Progress {
        if self.quiet {
            Progress { doing: doing.to_owned(), unit, shows: Shows::Nothing }
        } else {
            Progress::new(doing, unit)
        }
    }
}

/// Says how far something is, until it is dropped.
pub(super) struct Progress {
    doing: String,
    unit: &'static str,
    shows: Shows,
}

enum Shows {
    Nothing,
    Bar(ProgressBar),
    Lines(Lines),
}

impl Progress {
    /// The same, whatever the command line says.
    pub(super) fn new(doing: &str, unit: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(DRAWN_HZ));
        // As it is where there is no terminal, or one that cannot go back on its line.
        let shows = if bar.is_hidden() {
            Shows::Lines(Lines::begin(Instant::now()))
        } else {
            bar.set_style(style(SPINNER));
            bar.set_prefix(unit);
            bar.set_message(shown::line(doing).into_owned());
            Shows::Bar(bar)
        };
        Self { doing: doing.to_owned(), unit, shows }
    }

    /// So much of so much is done; `None`: it is not known of how much.
    pub(super) fn at(&mut self, done: u64, total: Option<u64>) {
        match &mut self.shows {
            Shows::Nothing => {}
            Shows::Bar(bar) => {
                if bar.length() != total {
                    match total {
                        Some(total) => {
                            bar.set_length(total);
                            bar.set_style(style(BAR).progress_chars("=> "));
                        }
                        None => {
                            bar.unset_length();
                            bar.set_style(style(SPINNER));
                        }
                    }
                }
                bar.set_position(done);
            }
            Shows::Lines(lines) => {
                if let Some(line) = lines.line((&self.doing, self.unit), (done, total), Instant::now()) {
                    note(&line);
                }
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Shows::Bar(bar) = &self.shows {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// When a line is due, and what it says.
struct Lines {
    began: Instant,
    said: Instant,
}

impl Lines {
    fn begin(now: Instant) -> Self {
        Self { began: now, said: now }
    }

    fn line(&mut self, (doing, unit): (&str, &str), (done, total): (u64, Option<u64>), now: Instant) -> Option<String> {
        if now.duration_since(self.said) < LINE_EVERY {
            return None;
        }
        self.said = now;
        let elapsed = now.duration_since(self.began);
        let Some(total) = total else { return Some(format!("{doing}: {done} {unit}, {} s", elapsed.as_secs())) };
        let percent = u128::from(done) * 100 / u128::from(total).max(1);
        let pace = u128::from(done) * 1_000 / elapsed.as_millis().max(1);
        Some(format!("{doing}: {done} of {total} {unit} ({percent} %), {pace} a second"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_less_than_a_line_is_apart_says_nothing_and_what_takes_longer_says_how_far_it_is() {
        let began = Instant::now();
        let mut lines = Lines::begin(began);
        let what = ("reading", "runs");
        assert_eq!(lines.line(what, (5, Some(20)), began + LINE_EVERY.saturating_sub(Duration::from_millis(1))), None);
        let said = lines.line(what, (10, Some(20)), began + LINE_EVERY).unwrap();
        assert_eq!(said, "reading: 10 of 20 runs (50 %), 2 a second");
        assert_eq!(lines.line(what, (11, Some(20)), began + LINE_EVERY + Duration::from_secs(1)), None);
        let said = lines.line(what, (100, None), began + 2 * LINE_EVERY).unwrap();
        assert_eq!(said, "reading: 100 runs, 10 s");
    }

    #[test]
    fn the_templates_are_such() {
        for template in [BAR, SPINNER] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
