//! The checks after a drill: everything acknowledged must be in the table.

use std::collections::{HashMap, HashSet};

use client::{Client, Filter};
use history::{Event, EventId, EventKind, Payload, Timestamp, check};
use uuid::Uuid;

use super::gaps::{Gap, gaps};
use super::load::{Acknowledged, Ledger};
use super::troubles;
use crate::failed::Failed;
use crate::service::{Counters, other};

/// Maximum time that a dead node's runs may stand still. Source: docs/dynamodb.md, "Drill".
const STANDSTILL_MAX: history::Duration = history::Duration::from_secs(8);

/// Maximum time that a dead node's runs may stand still in all but one of a thousand cases. Source: docs/dynamodb.md,
/// "Drill".
const STANDSTILL_MOSTLY: history::Duration = history::Duration::from_secs(6);

/// One in this number of standstills may be longer than [`STANDSTILL_MOSTLY`]. One may be longer even in a drill with
/// fewer standstills.
const ONE_OF: usize = 1_000;

/// Failure of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Killed,
    Paused,
}

/// A period in which a node was away.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standstill {
    pub(super) what: What,
    pub(super) at: Timestamp,
}

/// One check, and the number of its failures.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    what: &'static str,
    examined: usize,
    failed: usize,
    /// The first few failures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    examples: Vec<String>,
}

/// Maximum number of failures in the report.
const EXAMPLES: usize = 5;

impl Check {
    fn new(what: &'static str) -> Self {
        Self { what, examined: 0, failed: 0, examples: Vec::new() }
    }

    fn look(&mut self, is_good: bool, example: impl FnOnce() -> String) {
        self.examined += 1;
        if !is_good {
            self.failed += 1;
            if self.examples.len() < EXAMPLES {
                self.examples.push(example());
            }
        }
    }
}

/// Results of a drill.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    seed: u64,
    checks: Vec<Check>,
    kills: usize,
    pauses: usize,
    troubles: troubles::Counts,
    runs: usize,
    events: usize,
    commits: u64,
    conflicts: u64,
    /// Longest time that a run stood still after a node's death. The time ends at the run's next event. It also ends
    /// when the next node was killed or paused, because that node may have been about to continue the run.
    standstill_after_kill_ms: u64,
    /// Distribution of the times that runs stood still after a node's death, including short times.
    standstills_after_kill_ms: Percentiles,
    /// Longest time that a run stood still after a pause of a node, measured from the beginning of the pause.
    standstill_after_pause_ms: u64,
    /// Longest time that any run stood still for any reason.
    standstill_ms: u64,
}

/// Percentiles of a distribution.
#[derive(Debug, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Percentiles {
    p50: u64,
    p90: u64,
    p99: u64,
    p999: u64,
}

impl Percentiles {
    fn of(mut all: Vec<history::Duration>) -> Self {
        all.sort();
        let at = |thousandths: usize| {
            let place = (all.len() * thousandths).div_ceil(1_000).saturating_sub(1);
            all.get(place).copied().unwrap_or_default().as_millis()
        };
        Self { p50: at(500), p90: at(900), p99: at(990), p999: at(999) }
    }
}

type Histories = HashMap<(String, Uuid), Vec<Event>>;

impl Report {
    pub(super) async fn make(
        client: &Client,
        ledger: &Ledger,
        standstills: &[Standstill],
        troubles: &troubles::Counts,
        counters: Counters,
        seed: u64,
    ) -> Result<Self, Failed> {
        let mut histories = Histories::new();
        let mut page = None;
        loop {
            let filter = Filter { limit: Some(1_000), ..Filter::default() };
            let listed = client.list(&filter, page.as_deref()).await?;
            for run in listed.workflows {
                let events = client.events(&run.workflow_id, Some(run.run_id)).await?;
                histories.insert((run.workflow_id, run.run_id), events);
            }
            page = listed.next_page;
            if page.is_none() {
                break;
            }
        }
        // Lists may lag, so acknowledged runs are read by their ids.
        for start in &ledger.starts {
            let key = (start.workflow_id.clone(), start.run_id);
            if !histories.contains_key(&key)
                && let Ok(events) = client.events(&key.0, Some(key.1)).await
            {
                histories.insert(key, events);
            }
        }
        let count = |what: What| standstills.iter().filter(|standstill| standstill.what == what).count();
        let longest = |what: Option<What>| {
            let gaps = histories.values().flat_map(|events| gaps(events));
            gaps.filter_map(|gap| gap.since(what, standstills)).max().unwrap_or_default().as_millis()
        };
        let mut checks = vec![
            acknowledged("an acknowledged start is in the history", &ledger.starts, &histories, |kind| match kind {
                EventKind::WorkflowStarted(it) => it.input.as_ref(),
                _ => None,
            }),
            acknowledged("an acknowledged signal is in the history", &ledger.signals, &histories, |kind| match kind {
                EventKind::Signal(it) => it.input.as_ref(),
                _ => None,
            }),
            results("an acknowledged result is the activity's", &ledger.results, &histories),
            once("no activity's result is recorded twice", &histories),
            ends("a workflow has one run, and it reached its end", &histories),
            true_histories("a history is one that the rules allow", &histories),
            doubts("no caller had to give up", ledger),
        ];
        let after_kills = histories.values().flat_map(|events| gaps(events));
        let after_kills = after_kills.filter_map(|gap| Some((gap.since(Some(What::Killed), standstills)?, gap.what)));
        let after_kills: Vec<_> = after_kills.collect();
        // The limits apply only if a node died.
        if count(What::Killed) > 0 {
            checks.push(always("a run continues within 8 s of a node's death", &after_kills));
            checks.push(mostly("and within 6 s, except for one in a thousand", &after_kills));
        }
        Ok(Self {
            seed,
            checks,
            kills: count(What::Killed),
            pauses: count(What::Paused),
            troubles: *troubles,
            runs: histories.len(),
            events: histories.values().map(Vec::len).sum(),
            commits: counters.commits,
            conflicts: counters.conflicts,
            standstill_after_kill_ms: longest(Some(What::Killed)),
            standstills_after_kill_ms: Percentiles::of(after_kills.into_iter().map(|(stood, _)| stood).collect()),
            standstill_after_pause_ms: longest(Some(What::Paused)),
            standstill_ms: longest(None),
        })
    }

    pub(super) fn is_passed(&self) -> bool {
        self.checks.iter().all(|check| check.failed == 0 && check.examined > 0)
    }

    pub(super) fn print_checks(&self) {
        println!("{:<52}{:>10}{:>10}", "check", "checked", "failed");
        for check in &self.checks {
            println!("{:<52}{:>10}{:>10}", check.what, check.examined, check.failed);
            for example in &check.examples {
                println!("    {example}");
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people, far below 2^52")]
    pub(super) fn print(&self, json: bool) -> Result<(), Failed> {
        if json {
            let text = serde_json::to_string_pretty(self).map_err(|error| other(error.to_string()))?;
            println!("{text}");
            return Ok(());
        }
        self.print_checks();
        let row = |what: &str, count: String| println!("{what:<52}{count:>10}");
        let seconds = |millis: u64| format!("{:.1} s", millis as f64 / 1_000.0);
        println!();
        row("seed", self.seed.to_string());
        row("nodes killed", self.kills.to_string());
        row("nodes paused", self.pauses.to_string());
        row("requests to the table", self.troubles.requests.to_string());
        row("  throttled", self.troubles.throttled.to_string());
        row("  failed with a server error", self.troubles.broken.to_string());
        row("  delayed", self.troubles.stalled.to_string());
        row("  with a delayed response", self.troubles.answers_stalled.to_string());
        row("  carried out, with a lost response", self.troubles.answers_lost.to_string());
        row("runs", self.runs.to_string());
        row("events", self.events.to_string());
        row("commits counted", self.commits.to_string());
        let percent = self.conflicts as f64 / self.commits.max(1) as f64 * 100.0;
        row("  retried after a conflict", format!("{percent:.2} %"));
        let Percentiles { p50, p90, p99, p999 } = self.standstills_after_kill_ms;
        for (percent, millis) in [("50 %", p50), ("90 %", p90), ("99 %", p99), ("99.9 %", p999)] {
            row(&format!("standstill across a node's death, {percent}"), seconds(millis));
        }
        row("longest standstill across a node's death", seconds(self.standstill_after_kill_ms));
        row("longest standstill across a node's pause", seconds(self.standstill_after_pause_ms));
        row("longest standstill of any run", seconds(self.standstill_ms));
        Ok(())
    }
}

impl Gap {
    /// Returns the longest time from a failure of this kind within the gap to the next failure or the end of the gap.
    /// Returns `None` if the gap contains no such failure. Without a kind, returns the length of the gap.
    fn since(&self, what: Option<What>, standstills: &[Standstill]) -> Option<history::Duration> {
        let Some(what) = what else { return Some(self.to.since(self.from)) };
        let within = standstills.iter().filter(|it| self.from <= it.at && it.at <= self.to);
        let ends = within.clone().skip(1).map(|next| next.at).chain([self.to]);
        within.zip(ends).filter(|(it, _)| it.what == what).map(|(it, end)| end.since(it.at)).max()
    }
}

/// Time for which a run or a node stood still, and its description.
type Stood = (history::Duration, String);

fn always(what: &'static str, all: &[Stood]) -> Check {
    let mut check = Check::new(what);
    for (stood, gap) in all {
        check.look(*stood <= STANDSTILL_MAX, || format!("{gap} made no progress for {stood}"));
    }
    check
}

/// Like [`always`], but with the limit [`STANDSTILL_MOSTLY`], which one standstill in a thousand may exceed.
fn mostly(what: &'static str, all: &[Stood]) -> Check {
    let mut check = Check::new(what);
    let mut spared = (all.len() / ONE_OF).max(1);
    for (stood, gap) in all {
        let is_short = *stood <= STANDSTILL_MOSTLY;
        let is_spared = !is_short && spared > 0;
        spared -= usize::from(is_spared);
        check.look(is_short || is_spared, || format!("{gap} made no progress for {stood}"));
    }
    check
}

/// Checks that each acknowledged event exists with its content.
fn acknowledged(
    what: &'static str,
    said: &[Acknowledged],
    histories: &Histories,
    payload: impl Fn(&EventKind) -> Option<&Payload>,
) -> Check {
    let mut check = Check::new(what);
    for it in said {
        let events = histories.get(&(it.workflow_id.clone(), it.run_id));
        let event = events.and_then(|events| events.iter().find(|event| event.id == it.event_id));
        let is_there = event.is_some_and(|event| payload(&event.kind) == Some(&it.said));
        check.look(is_there, || format!("{} event {} of run {}", it.workflow_id, it.event_id, it.run_id));
    }
    check
}

/// Returns the results of an activity. There must be exactly one.
fn results_of(events: &[Event], scheduled_event_id: EventId) -> Vec<Option<&Payload>> {
    let of_it = events.iter().filter_map(|event| match &event.kind {
        EventKind::ActivitySuccess(it) if it.scheduled_event_id == scheduled_event_id => Some(it.result.as_ref()),
        _ => None,
    });
    of_it.collect()
}

fn results(what: &'static str, said: &[Acknowledged], histories: &Histories) -> Check {
    let mut check = Check::new(what);
    for it in said {
        let events = histories.get(&(it.workflow_id.clone(), it.run_id));
        let found = events.map(|events| results_of(events, it.event_id)).unwrap_or_default();
        check.look(found == [Some(&it.said)], || format!("{} activity {}: {found:?}", it.workflow_id, it.event_id));
    }
    check
}

fn once(what: &'static str, histories: &Histories) -> Check {
    let mut check = Check::new(what);
    let mut known = HashSet::new();
    for ((workflow_id, _), events) in histories {
        for event in events {
            if let EventKind::ActivitySuccess(it) = &event.kind {
                let is_new = it.result.as_ref().is_some_and(|result| known.insert(result.to_string()));
                let is_only = results_of(events, it.scheduled_event_id).len() == 1;
                check.look(is_new && is_only, || format!("{workflow_id} event {}", event.id));
            }
        }
    }
    check
}

fn ends(what: &'static str, histories: &Histories) -> Check {
    let mut check = Check::new(what);
    let mut known = HashSet::new();
    for ((workflow_id, _), events) in histories {
        let last = events.last();
        let is_success = last.is_some_and(|event| matches!(event.kind, EventKind::WorkflowSuccess(_)));
        check.look(known.insert(workflow_id) && is_success, || format!("{workflow_id}: {}", tables::history(events)));
    }
    check
}

fn true_histories(what: &'static str, histories: &Histories) -> Check {
    let mut check = Check::new(what);
    for ((workflow_id, _), events) in histories {
        let checked = check::history(events);
        check.look(checked.is_ok(), || format!("{workflow_id}: {checked:?}"));
    }
    check
}

fn doubts(what: &'static str, ledger: &Ledger) -> Check {
    let mut check = Check::new(what);
    for _ in &ledger.starts {
        check.look(true, String::new);
    }
    for doubt in &ledger.in_doubt {
        check.look(false, || doubt.clone());
    }
    check
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_from_a_death_to_the_next_or_to_its_end() {
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1_000);
        let gap = Gap { what: String::new(), from: at(10), to: at(30) };
        let killed = |seconds| Standstill { what: What::Killed, at: at(seconds) };
        let paused = |seconds| Standstill { what: What::Paused, at: at(seconds) };
        let stood = |what, all: &[Standstill]| gap.since(what, all).map(|stood| stood.as_millis() / 1_000);
        assert_eq!(stood(None, &[]), Some(20));
        assert_eq!(
            stood(Some(What::Killed), &[killed(5), killed(31)]),
            None,
            "the node did not die during the standstill"
        );
        assert_eq!(stood(Some(What::Killed), &[killed(12)]), Some(18));
        assert_eq!(stood(Some(What::Killed), &[killed(12), killed(15), paused(25)]), Some(10));
        // The time after the first failure counts even if a second failure follows much later.
        assert_eq!(stood(Some(What::Killed), &[killed(11), killed(29)]), Some(18));
        assert_eq!(stood(Some(What::Paused), &[killed(12), paused(25)]), Some(5));
    }

    #[test]
    fn one_standstill_in_a_thousand_may_exceed_six_seconds() {
        let stood = |seconds: u64| (history::Duration::from_secs(seconds), String::new());
        let failed = |check: Check| (check.examined, check.failed);
        let of = |long: usize, short: usize| {
            let all: Vec<Stood> =
                (0..long).map(|_| stood(7)).chain((0..short).map(|_| stood(6))).chain([stood(8)]).collect();
            (failed(always("", &all)), failed(mostly("", &all)))
        };
        assert_eq!(of(0, 20), ((21, 0), (21, 0)), "including the one of 8 s");
        assert_eq!(of(1, 20), ((22, 0), (22, 1)));
        assert_eq!(of(1, 1_998), ((2_000, 0), (2_000, 0)));
        assert_eq!(of(2, 1_998), ((2_001, 0), (2_001, 1)));
        assert_eq!(failed(always("", &[stood(9), stood(8)])), (2, 1));
    }

    #[test]
    fn percentiles_are_of_recorded_values() {
        let all = (1..=1_000).rev().map(history::Duration::from_millis).collect();
        let Percentiles { p50, p90, p99, p999 } = Percentiles::of(all);
        assert_eq!([p50, p90, p99, p999], [500, 900, 990, 999]);
        assert_eq!(Percentiles::of(Vec::new()).p999, 0);
    }
}
