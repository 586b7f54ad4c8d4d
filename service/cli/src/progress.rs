//! Progress of long commands on standard error. On a terminal, it is shown as a bar. Otherwise, a line is printed every
//! few seconds.

use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tables::escape;
use tokio::time::Instant;

use super::note;

/// Time between two progress lines if standard error is not a terminal. Our choice: a command that runs for an hour
/// prints only some hundred lines into a log, and a short command prints none.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Number of times per second that the bar is redrawn. Our choice.
const DRAWN_HZ: u8 = 10;

/// Template of the bar if the total is known.
const BAR: &str = "{msg} [{wide_bar}] {human_pos}/{human_len} {prefix}, {per_sec}, {eta} left";

/// Template of the line that replaces the bar if the total is unknown.
const SPINNER: &str = "{spinner} {msg}: {human_pos} {prefix}, {elapsed}";

/// The option that disables progress reports.
#[derive(Debug, Clone, Copy, Args)]
pub struct Quiet {
    /// Print no progress
    #[arg(long, short)]
    quiet: bool,
}

impl Quiet {
    /// Starts to report the progress of the activity `doing`. `unit` is the name of the counted items.
    pub fn progress(self, doing: &str, unit: &'static str) -> Progress {
        if self.quiet {
            Progress { doing: doing.to_owned(), unit, shows: Shows::Nothing }
        } else {
            Progress::new(doing, unit)
        }
    }
}

/// Progress report, which continues until this value is dropped.
#[derive(Debug)]
pub struct Progress {
    doing: String,
    unit: &'static str,
    shows: Shows,
}

#[derive(Debug)]
enum Shows {
    Nothing,
    Bar(ProgressBar),
    LineProgress(LineProgress),
}

impl Progress {
    /// Starts to report progress, even if the user has given `--quiet`.
    pub fn new(doing: &str, unit: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(DRAWN_HZ));
        // The bar is hidden if standard error is not a terminal, or is a terminal that cannot rewrite a line.
        let shows = if bar.is_hidden() {
            Shows::LineProgress(LineProgress::begin(Instant::now()))
        } else {
            bar.set_style(style(SPINNER));
            bar.set_prefix(unit);
            bar.set_message(escape::line(doing).into_owned());
            Shows::Bar(bar)
        };
        Self { doing: doing.to_owned(), unit, shows }
    }

    /// Reports that `done` units of `total` are complete. If `total` is `None`, the total is unknown.
    pub fn at(&mut self, done: u64, total: Option<u64>) {
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
            Shows::LineProgress(lines) => {
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

/// Determines when a progress line is due, and formats it.
#[derive(Debug)]
struct LineProgress {
    began: Instant,
    said: Instant,
}

impl LineProgress {
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
        Some(format!("{doing}: {done} of {total} {unit} ({percent} %), {pace} per second"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_commands_print_progress_lines() {
        let began = Instant::now();
        let mut lines = LineProgress::begin(began);
        let what = ("reading", "runs");
        assert_eq!(lines.line(what, (5, Some(20)), began + LINE_EVERY.saturating_sub(Duration::from_millis(1))), None);
        let said = lines.line(what, (10, Some(20)), began + LINE_EVERY).unwrap();
        assert_eq!(said, "reading: 10 of 20 runs (50 %), 2 per second");
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
