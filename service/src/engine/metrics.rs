//! What operators can see of the engine, as Prometheus metrics.

use std::fmt::Write as _;

use history::{ScheduleCounts, Standing};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::matching::{ListKey, Side};

/// Counters of the engine, in a registry that other parts of the service may add to.
#[derive(Debug)]
pub struct Metrics {
    registry: std::sync::Mutex<Registry>,
    commits: Counter,
    events: Counter,
    pub(super) conflicts: Counter,
    pub(super) matched_at_once: Counter,
    pub(super) given_back: Counter,
    pub(super) expired: Counter,
    pub(super) looks: Counter,
    pub(super) marks_written: Counter,
    pub(super) marks_read: Counter,
    pub(super) requests_forgotten_early: Counter,
    pub(super) effects: Counter,
    effects_put_off: Family<[(&'static str, &'static str); 1], Counter>,
    pub(super) queries_answered: Counter,
    pub(super) queries_unchanged: Counter,
    pub(super) ask_tasks: Counter,
    pub(super) ask_tasks_lost: Counter,
    pub(super) updates_accepted: Counter,
    pub(super) updates_rejected: Counter,
    pub(super) speculative_turns: Counter,
    pub(super) speculative_turns_lost: Counter,
    /// Actions of schedules, by what became of them.
    actions: Family<[(&'static str, &'static str); 1], Counter>,
    /// Runs that came to need somebody, and those that no longer do, for each way of needing one.
    needy: [(Standing, Counter, Counter); Standing::NEEDY.len()],
    refusals: Family<[(&'static str, &'static str); 1], Counter>,
}

/// What is read off at the moment of asking.
pub(super) struct Gauges {
    pub(super) cached_runs: usize,
    pub(super) cached_bytes: usize,
    pub(super) agenda: usize,
    pub(super) watched_runs: usize,
    pub(super) askers: usize,
    pub(super) updates: usize,
    pub(super) lists: Vec<(ListKey, usize, usize)>,
    pub(super) store: store::Stats,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut registry = Registry::with_prefix("baton");
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let commits = counter("commits", "Commits that were won");
        let events = counter("events", "Events that were recorded");
        let conflicts = counter("commit_conflicts", "Commits that lost a race and were tried again");
        let matched_at_once = counter("tasks_matched_at_once", "Tasks started in the commit that made them");
        let given_back = counter("tasks_given_back", "Tasks whose taker was gone before they were delivered");
        let expired = counter("runs_expired", "Runs forgotten after their retention");
        let looks = counter("looks", "Runs that were looked at because their time had come");
        let marks_written = counter(
            "request_marks_written",
            "Requests with a key that left the state of their run and are kept beside it",
        );
        let marks_read = counter("request_marks_read", "Requests with a key that were looked for beside their run");
        let requests_forgotten_early = counter(
            "requests_forgotten_early",
            "Requests with a key that are forgotten within a day, as more than a hundred thousand of their workflow id came since",
        );
        let effects = counter("effects", "Effects of runs on others that were seen to");
        let queries_answered = counter("queries_answered", "Queries that were answered with a result");
        let queries_unchanged = counter("queries_unchanged", "Watching queries whose wait ended without news");
        let ask_tasks = counter("query_tasks", "Tasks handed out that only ask: no turn was outstanding");
        let ask_tasks_lost =
            counter("query_tasks_lost", "Tasks that only ask that were lost and whose queries were put again");
        let updates_accepted = counter("updates_accepted", "Updates whose callers were told that they were accepted");
        let updates_rejected = counter("updates_rejected", "Updates whose callers were told that they were rejected");
        let speculative_turns = counter("speculative_turns", "Turns handed out for updates alone, without a write");
        let speculative_turns_lost =
            counter("speculative_turns_lost", "Speculative turns that were lost and whose updates were put again");
        let needy = Standing::NEEDY.map(|standing| {
            let word = standing.word();
            let flagged = counter(&format!("runs_{word}"), &format!("Runs that were flagged as {word}"));
            let help = format!("Runs that were flagged as {word} and are not any more");
            (standing, flagged, counter(&format!("runs_un{word}"), &help))
        });
        let actions = Family::default();
        registry.register("schedule_actions", "Times of schedules, by what became of them", actions.clone());
        let effects_put_off = Family::default();
        let what = "Effects of runs on others that must wait, by why";
        registry.register("effects_put_off", what, effects_put_off.clone());
        let refusals = Family::default();
        registry.register("refusals", "Refused commands, by code", refusals.clone());
        let registry = std::sync::Mutex::new(registry);
        Self {
            registry,
            commits,
            events,
            conflicts,
            matched_at_once,
            given_back,
            expired,
            looks,
            marks_written,
            marks_read,
            requests_forgotten_early,
            effects,
            effects_put_off,
            queries_answered,
            queries_unchanged,
            ask_tasks,
            ask_tasks_lost,
            updates_accepted,
            updates_rejected,
            speculative_turns,
            speculative_turns_lost,
            actions,
            needy,
            refusals,
        }
    }

    /// Adds metrics of another part of the service.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.registry.lock().expect("no code panics while it holds this lock"));
    }

    pub(super) fn conflict(&self) {
        self.conflicts.inc();
    }

    /// What a look at a schedule has added to what it has done.
    pub(super) fn scheduled(&self, before: &ScheduleCounts, after: &ScheduleCounts) {
        for (outcome, before, after) in [
            ("started", before.started, after.started),
            ("refused", before.refused, after.refused),
            ("skipped", before.skipped, after.skipped),
            ("missed", before.missed, after.missed),
        ] {
            if after > before {
                self.actions.get_or_create(&[("outcome", outcome)]).inc_by(after - before);
            }
        }
    }

    pub(super) fn committed(&self, events: usize) {
        self.commits.inc();
        self.events.inc_by(events as u64);
    }

    /// An effect could not be done, and is tried again later.
    pub(super) fn put_off(&self, code: &'static str) {
        self.effects_put_off.get_or_create(&[("code", code)]).inc();
    }

    pub(super) fn refused(&self, code: &'static str) {
        self.refusals.get_or_create(&[("code", code)]).inc();
    }

    /// How a run stood before a commit, and how it stands after.
    pub(super) fn stands(&self, before: Option<Standing>, after: Standing) {
        if before == Some(after) {
            return;
        }
        for (standing, flagged, unflagged) in &self.needy {
            if *standing == after {
                flagged.inc();
            } else if Some(*standing) == before {
                unflagged.inc();
            }
        }
    }

    pub(super) fn render(&self, gauges: &Gauges) -> String {
        let mut text = String::with_capacity(4_096);
        let registry = self.registry.lock().expect("no code panics while it holds this lock");
        let encoded = encode(&mut text, &registry);
        drop(registry);
        // Gauges that are cheap to read now and pointless to keep up to date come before the end mark.
        let mut text = text.trim_end_matches("# EOF\n").to_owned();
        let mut gauge = |name: &str, value: u64| writeln!(text, "# TYPE baton_{name} gauge\nbaton_{name} {value}");
        let store = gauges.store;
        let written = encoded
            .and_then(|()| gauge("cached_runs", gauges.cached_runs as u64))
            .and_then(|()| gauge("cached_bytes", gauges.cached_bytes as u64))
            .and_then(|()| gauge("agenda_runs", gauges.agenda as u64))
            .and_then(|()| gauge("watched_runs", gauges.watched_runs as u64))
            .and_then(|()| gauge("queries_waiting", gauges.askers as u64))
            .and_then(|()| gauge("updates_waiting", gauges.updates as u64))
            .and_then(|()| gauge("store_commits", store.commits))
            .and_then(|()| gauge("store_syncs", store.syncs))
            .and_then(|()| gauge("store_bytes_written", store.bytes_written))
            .and_then(|()| gauge("store_bytes_on_disk", store.bytes_on_disk))
            .and_then(|()| gauge("store_write_units", store.write_units))
            .and_then(|()| gauge("store_read_units", store.read_units))
            .and_then(|()| lists(&mut text, gauges));
        if let Err(error) = written {
            tracing::error!(%error, "metrics could not be written");
        }
        text.push_str("# EOF\n");
        text
    }
}

fn lists(text: &mut String, gauges: &Gauges) -> std::fmt::Result {
    for (name, of) in [("tasks_waiting", 0), ("pollers_waiting", 1)] {
        writeln!(text, "# TYPE baton_{name} gauge")?;
        for (list, tasks, pollers) in &gauges.lists {
            let side = match list.side {
                Side::Decider => "decider",
                Side::Activity => "activity",
            };
            let count = if of == 0 { tasks } else { pollers };
            let (domain, list) = (LabelValue(&list.domain), LabelValue(&list.name));
            writeln!(text, "baton_{name}{{domain={domain},side=\"{side}\",list={list}}} {count}")?;
        }
    }
    Ok(())
}

/// The value of a label, in quotes, with what may not stand in them as it is. The library writes values as they are.
///
/// Source: the Prometheus text format, which `OpenMetrics` has the same: backslash, newline, double quote, and nothing else.
struct LabelValue<'a>(&'a str);

impl std::fmt::Display for LabelValue<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_are_escaped_as_the_text_format_has_it_and_no_further() {
        for (value, written) in [
            ("orders", r#""orders""#),
            (r#"a"b"#, r#""a\"b""#),
            (r"a\b", r#""a\\b""#),
            ("a\nb", r#""a\nb""#),
            ("tab\tnul\0quote' é 漢 \u{200b}", "\"tab\tnul\0quote' é 漢 \u{200b}\""),
        ] {
            assert_eq!(LabelValue(value).to_string(), written);
        }
    }
}
