//! `baton task-list …`.

use clap::{Args, Subcommand};
use client::TaskListKind;
use client::body::{
    HeldBack, KeyLimits, ListLimits, ListPoller, ListedTask, ListedTaskList, PauseTaskList, SetKeyLimits,
    SetListLimits, SetTaskLimits, WaitsBehind,
};

use super::described::shown;
use super::limit_group::{LimitOptions, StartsPerSecond, per_second};
use super::limits::{behind, limits, phrase, rate};
use super::options::AlwaysJson;
use super::paged::all_pages;
use super::{Done, Failed, Identity, Target, print_json, print_rows, print_text};

#[derive(Debug, Subcommand)]
pub enum TaskListCommand {
    /// List task lists that have tasks, pollers, limits or a pause
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Show the task lists of a name: waiting tasks, pollers, limits, and what the limits hold back
    Show {
        /// Name of the task list
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Replace the limits of a task list: all earlier limits, but not a pause
    Limit(Box<LimitArgs>),
    /// Pause a task list: its tasks wait, and running tasks continue
    Pause {
        #[command(flatten)]
        which: ListArgs,
        /// Also stop the schedule-to-start timeouts of waiting tasks; they continue when the list is resumed
        #[arg(long)]
        stop_clocks: bool,
        /// Reason
        #[arg(long)]
        reason: Option<String>,
        #[command(flatten)]
        who: Identity,
    },
    /// Resume a paused task list
    Resume {
        #[command(flatten)]
        which: ListArgs,
    },
}

/// Arguments that select a task list.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Name of the task list
    name: String,
    #[command(flatten)]
    kind: KindArgs,
    #[command(flatten)]
    _json: AlwaysJson,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct KindArgs {
    /// List of runners
    #[arg(long)]
    activities: bool,
    /// List of deciders
    #[arg(long)]
    deciders: bool,
}

impl KindArgs {
    fn kind(&self) -> TaskListKind {
        if self.deciders { TaskListKind::Decider } else { TaskListKind::Activity }
    }
}

#[derive(Debug, Args)]
pub struct LimitArgs {
    #[command(flatten)]
    which: ListArgs,
    #[command(flatten)]
    limits: LimitOptions,
    /// Maximum number of running tasks of each concurrency key
    #[arg(long, value_name = "COUNT")]
    per_key_max_running: Option<u32>,
    /// Maximum rate of starts of each concurrency key, e.g. 5/s
    #[arg(long, value_name = "RATE", value_parser = per_second)]
    per_key_rate: Option<StartsPerSecond>,
    /// Limits of a single key, e.g. visa=20 (running tasks), visa=5/s, or visa=20,5/s,weight:3; can be repeated
    #[arg(long = "key", value_name = "KEY=LIMITS", value_parser = key)]
    keys: Vec<SetKeyLimits>,
    /// Limit group to which the list belongs
    #[arg(long)]
    group: Option<String>,
    /// Remove all limits
    #[arg(long, conflicts_with_all = [
        "max_running", "rate", "per_key_max_running", "per_key_rate", "keys", "group"
    ])]
    remove: bool,
}

/// Parses a key and its limits.
fn key(text: &str) -> Result<SetKeyLimits, String> {
    let expected = "expected KEY=LIMITS, e.g. visa=20, visa=5/s or visa=20,weight:3";
    let (key, limits) = text.rsplit_once('=').ok_or(expected)?;
    client::limits::key_limits(key, limits)
}

impl LimitArgs {
    async fn run(self) -> Done {
        let SetTaskLimits { max_running, rate } = self.limits.limits();
        let (each_running, each_rate) = (self.per_key_max_running, self.per_key_rate.map(|rate| rate.with_burst(None)));
        let has_per_key = each_running.is_some() || each_rate.is_some();
        let per_key = has_per_key.then_some(SetTaskLimits { max_running: each_running, rate: each_rate });
        let set = SetListLimits { max_running, rate, per_key, limits: self.keys, group: self.group };
        if set == SetListLimits::default() && !self.remove {
            let what = "expected a limit, such as --max-running 20, or --remove to remove all limits of the list";
            return Err(Failed::Usage(what.to_owned()));
        }
        let ListArgs { name, kind, target, .. } = self.which;
        print_json(&target.client()?.limit_list(&name, kind.kind(), &set).await?)
    }
}

impl TaskListCommand {
    pub(crate) async fn run(self) -> Done {
        match self {
            Self::List { json, target } => list(json, &target).await,
            Self::Show { name, json, target } => {
                let lists = target.client()?.task_list(&name).await?;
                if json { print_json(&lists) } else { print_text(&show(&lists.task_lists)) }
            }
            Self::Limit(limit) => limit.run().await,
            Self::Pause { which: ListArgs { name, kind, target, .. }, stop_clocks, reason, who } => {
                let pause = PauseTaskList { stop_clocks, identity: Some(who.identity()), reason };
                print_json(&target.client()?.pause_list(&name, kind.kind(), &pause).await?)
            }
            Self::Resume { which: ListArgs { name, kind, target, .. } } => {
                print_json(&target.client()?.resume_list(&name, kind.kind()).await?)
            }
        }
    }
}

async fn list(json: bool, target: &Target) -> Done {
    let client = target.client()?;
    let found = all_pages(async |page: Option<String>| {
        let read = client.task_lists(None, page.as_deref()).await?;
        Ok((read.task_lists, read.next_page))
    })
    .await?;
    if json {
        return print_json(&found);
    }
    print_rows(["waiting", "oldest", "running", "polls", "kind", "list", "limits"], found.iter().map(row))
}

fn row(list: &ListedTaskList) -> [String; 7] {
    let more = if list.more_waiting { "+" } else { "" };
    let running = list.uses.first().map(|used| u64::from(used.running)).or(list.in_flight);
    [
        format!("{}{more}", list.waiting),
        list.oldest_since.map_or_else(|| "-".to_owned(), |since| since.to_string()),
        running.map_or_else(|| "-".to_owned(), |running| running.to_string()),
        list.polls.to_string(),
        list.kind.clone(),
        list.name.clone(),
        in_short(list),
    ]
}

/// Describes the limits and the pause of a list in a few words.
fn in_short(list: &ListedTaskList) -> String {
    let mut words: Vec<String> = list.paused.iter().map(|_| "paused".to_owned()).collect();
    if let Some(limits) = &list.limits {
        words.extend(limits.max_running.map(|max| format!("{max} running")));
        words.extend(limits.rate.as_ref().map(rate));
        words.extend(limits.per_key.as_ref().map(|_| "per key".to_owned()));
        let keys = limits.limits.len();
        words.extend((keys > 0).then(|| format!("{keys} keys")));
        words.extend(limits.group.as_ref().map(|group| format!("group {group}")));
    }
    words.join(", ")
}

fn show(lists: &[ListedTaskList]) -> String {
    let is_known = |list: &&ListedTaskList| {
        let has_tasks = list.waiting > 0 || list.more_waiting || list.in_flight.is_some_and(|count| count > 0);
        has_tasks || !list.pollers.is_empty() || list.limits.is_some() || list.paused.is_some()
    };
    let known: Vec<String> = lists.iter().filter(is_known).map(show_one).collect();
    if known.is_empty() { "no tasks, pollers, limits or pause are known".to_owned() } else { known.join("\n\n") }
}

fn show_one(list: &ListedTaskList) -> String {
    let mut lines = vec![format!("list       {} ({})", list.name, list.kind)];
    let more = if list.more_waiting { " or more" } else { "" };
    let oldest = list.oldest_since.map(|since| format!(", the oldest since {since}")).unwrap_or_default();
    lines.push(format!("waiting    {}{more}{oldest}", list.waiting));
    let running = list.uses.first().map(|used| u64::from(used.running)).or(list.in_flight);
    lines.extend(running.map(|running| format!("running    {running}")));
    let unpolled = list.no_pollers_since.map(|since| format!(", none since {since}")).unwrap_or_default();
    lines.push(format!("polls      {}{unpolled}", list.polls));
    lines.extend(list.pollers.iter().map(poller));
    lines.extend(list.polling_nodes.iter().map(|node| format!("poller     at node {node}")));
    if let Some(pause) = &list.paused {
        let by = pause.identity.as_ref().map(|who| format!(" by {who}")).unwrap_or_default();
        let why = pause.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let clocks = if pause.stop_clocks { ", schedule-to-start timeouts stopped" } else { "" };
        lines.push(format!("paused     since {}{by}{clocks}{why}", pause.since));
    }
    lines.extend(list.limits.iter().flat_map(limit_lines));
    lines.extend(list.counting.then(|| "counting   the service counts the running tasks".to_owned()));
    lines.extend(list.uses.iter().skip(1).map(|used| {
        let most = limits(used.max_running, used.rate.as_ref());
        let most = if most.is_empty() { most } else { format!(", {most}") };
        format!("in use     {} {}: {} running{most}", used.scope, used.name, used.running)
    }));
    lines.extend(list.behind.iter().map(|held| {
        let tasks = if held.waiting == 1 { "1 task waits".to_owned() } else { format!("{} tasks wait", held.waiting) };
        format!("behind     {tasks} behind: {}", held_back(held, &list.name))
    }));
    lines.extend(list.next.iter().map(|task| next(task, &list.name)));
    shown(&lines)
}

fn poller(it: &ListPoller) -> String {
    let name = it.identity.as_deref().unwrap_or("without an identity");
    let by = it.by.as_ref().map(|by| format!(" (credential `{by}`)")).unwrap_or_default();
    let now = match (it.last_polled_at, it.polls) {
        (Some(at), _) => format!("last polled at {at}"),
        (None, 1) => "1 poll".to_owned(),
        (None, polls) => format!("{polls} polls"),
    };
    format!("poller     {name}{by} since {}, {now}", it.since)
}

fn limit_lines(of: &ListLimits) -> Vec<String> {
    let ListLimits { max_running, rate, per_key, limits: keys, group } = of;
    let mut lines = Vec::new();
    let own = limits(*max_running, rate.as_ref());
    lines.extend((!own.is_empty()).then(|| format!("limit      {own}")));
    lines.extend(per_key.as_ref().map(|of| format!("each key   {}", limits(of.max_running, of.rate.as_ref()))));
    lines.extend(keys.iter().map(|KeyLimits { key, max_running, rate, weight }| {
        let weight = weight.map(|weight| format!("weight {weight}"));
        let own = Some(limits(*max_running, rate.as_ref())).filter(|own| !own.is_empty());
        format!("key        {key}: {}", own.into_iter().chain(weight).collect::<Vec<_>>().join(", "))
    }));
    lines.extend(group.as_ref().map(|group| format!("group      {group}")));
    lines
}

fn next(task: &ListedTask, list: &str) -> String {
    let key = task.concurrency_key.as_ref().map(|key| format!(" with key `{key}`")).unwrap_or_default();
    let since = task.since.map(|since| format!(" since {since}")).unwrap_or_default();
    let behind = behind(&task.behind, list).map(|behind| format!(", {behind}")).unwrap_or_default();
    format!("next       {} event {}{key}{since}{behind}", task.workflow_id, task.scheduled_event_id)
}

fn held_back(held: &HeldBack, list: &str) -> String {
    let HeldBack { limit, scope, name, running, max, rate, waiting: _ } = held.clone();
    phrase(&WaitsBehind { limit, scope, name, running, max, rate, ahead: None }, list)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_limits_of_a_key_are_read() {
        let read = |text: &str| key(text).map(|key| serde_json::to_value(key).unwrap());
        assert_eq!(read("visa=20"), Ok(json!({ "key": "visa", "maxRunning": 20 })));
        let all = json!({ "key": "a=b", "maxRunning": 2, "rate": { "perSecond": 5 }, "weight": 3 });
        assert_eq!(read("a=b=2,5/s,weight:3"), Ok(all));
        for bad in ["visa", "visa=", "visa=x", "visa=1,weight:x", "visa=5/d", "visa=-1"] {
            assert!(read(bad).unwrap_err().contains("expected"), "{bad}");
        }
    }

    #[test]
    fn a_limited_list_is_shown_with_all_that_waits() {
        let at = "2026-01-01T00:00:00.000Z";
        let list = json!({
            "name": "PCI", "kind": "activity", "waiting": 3, "moreWaiting": true, "oldestSince": at, "inFlight": 9,
            "dispatchedLastMinute": 1, "polls": 3, "pollers": [
                { "identity": "till-1", "by": "rack", "polls": 2, "since": at },
                { "polls": 1, "since": at },
                { "identity": "till-2", "polls": 0, "since": at, "lastPolledAt": "2026-01-01T00:01:00.000Z" },
            ],
            "pollingNodes": ["http://two:7420"],
            "limits": {
                "maxRunning": 20, "rate": { "perSecond": 0.5, "burst": 1 }, "perKey": { "maxRunning": 2 },
                "limits": [{ "key": "visa", "weight": 3 }, { "key": "gold", "maxRunning": 4 }], "group": "bank",
            },
            "paused": { "since": at, "stopClocks": true, "reason": "maintenance", "identity": "ann" },
            "uses": [
                { "scope": "list", "name": "PCI", "running": 20, "maxRunning": 20 },
                { "scope": "group", "name": "bank", "running": 21, "maxRunning": 40 },
                { "scope": "key", "name": "gold", "running": 1 },
            ],
            "behind": [
                { "limit": "paused", "scope": "list", "name": "PCI", "waiting": 3 },
                { "limit": "max-running", "scope": "key", "name": "gold", "running": 4, "max": 4, "waiting": 1 },
            ],
            "next": [{
                "workflowId": "order-1", "runId": "01890000-0000-7000-8000-000000000001", "scheduledEventId": 5,
                "priority": 0, "since": at, "concurrencyKey": "visa",
                "behind": [
                    { "limit": "max-running", "scope": "list", "name": "PCI", "running": 20, "max": 20, "ahead": 0 },
                    { "limit": "max-running", "scope": "group", "name": "bank", "running": 9, "max": 9, "ahead": 0 },
                    { "limit": "rate", "scope": "key", "name": "visa", "rate": { "perSecond": 5, "burst": 5 } },
                    { "limit": "counting", "scope": "list", "name": "PCI" },
                ],
            }],
        });
        let list: ListedTaskList = serde_json::from_value(list).unwrap();
        let expected = format!(
            "\
list       PCI (activity)
waiting    3 or more, the oldest since {at}
running    20
polls      3
poller     till-1 (credential `rack`) since {at}, 2 polls
poller     without an identity since {at}, 1 poll
poller     till-2 since {at}, last polled at 2026-01-01T00:01:00.000Z
poller     at node http://two:7420
paused     since {at} by ann, schedule-to-start timeouts stopped: maintenance
limit      at most 20 running, at most 0.5/s (burst 1)
each key   at most 2 running
key        visa: weight 3
key        gold: at most 4 running
group      bank
in use     group bank: 21 running, at most 40 running
in use     key gold: 1 running
behind     3 tasks wait behind: PCI is paused
behind     1 task waits behind: 4 of 4 running with key `gold` on PCI
next       order-1 event 5 with key `visa` since {at}, waits behind: 20 of 20 running on PCI; 9 of 9 running in \
group bank; at most 5/s (burst 5) with key `visa` on PCI; the service counts the running tasks of PCI"
        );
        assert_eq!(show(std::slice::from_ref(&list)), expected);
        assert_eq!(
            row(&list),
            [
                "3+",
                at,
                "20",
                "3",
                "activity",
                "PCI",
                "paused, 20 running, 0.5/s (burst 1), per key, 2 keys, group bank"
            ]
        );
        let nothing: ListedTaskList = serde_json::from_value(json!({
            "name": "l", "kind": "decider", "waiting": 0, "moreWaiting": false, "dispatchedLastMinute": 0, "polls": 0,
        }))
        .unwrap();
        assert_eq!(show(&[nothing]), "no tasks, pollers, limits or pause are known");
    }
}
