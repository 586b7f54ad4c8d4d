//! `baton task-list` and `baton limit-group`, and the commands of the page about limits.

use std::time::Duration;

use client::body::{CompleteTurn, PollActivity, PollDecider, SetListLimits};
use client::{Patience, TaskListKind};
use history::ScheduleActivity;
use serde_json::{Value, json};

use crate::commands::Shell;
use crate::start;

const PAGE: &str = include_str!("../../../docs/limit-task-lists.md");

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_page_about_limits_work_as_written() {
    let shell = Shell::open("limits-page");
    let blocks = PAGE.split("```sh\n").skip(1).filter_map(|block| block.split_once("```"));
    let commands = blocks.flat_map(|(block, _)| block.lines().map(str::trim)).filter(|line| !line.is_empty());
    let mut count = 0;
    for command in commands {
        let line = command.strip_prefix("baton ").unwrap_or_else(|| panic!("{command} is no command of baton"));
        shell.ok(line);
        count += 1;
    }
    assert!(count > 12, "{count}");
    assert_eq!(shell.json("limit-group list --json"), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limited_list_shows_what_waits_behind_it() {
    let shell = Shell::open("limited-list");
    let client = shell.client();
    let set =
        shell.json("task-list limit payments --activities --max-running 1 --key visa=10,5/s,weight:3 --rate 90/m");
    let rate = json!({ "perSecond": 1.5, "burst": 2 });
    let key = json!({ "key": "visa", "maxRunning": 10, "rate": { "perSecond": 5, "burst": 5 }, "weight": 3 });
    assert_eq!(set["limits"], json!({ "maxRunning": 1, "rate": rate, "limits": [key] }));
    client.start(&start("w"), None).await.unwrap();
    let poll = PollDecider::default();
    let turn = client.poll_decider("deciders", &poll, Duration::from_secs(30)).await.unwrap().expect("a turn");
    let activity = |id: &str| {
        let (activity_type, task_list) = ("charge".to_owned(), Some("payments".to_owned()));
        ScheduleActivity { activity_id: id.to_owned(), activity_type, task_list, ..ScheduleActivity::default() }.into()
    };
    let complete = CompleteTurn { decisions: ["a", "b"].map(activity).to_vec(), ..CompleteTurn::default() };
    client.complete_turn(&turn.token, &complete, Patience::None).await.unwrap();
    let poll = PollActivity::default();
    client.poll_activity("payments", &poll, Duration::from_secs(30)).await.unwrap().expect("an activity");
    let shown = shell.ok("workflow show w");
    assert!(shown.contains("b (charge) on payments: waits behind: 1 of 1 running on payments"), "{shown}");
    let shown = shell.ok("task-list show payments");
    assert!(shown.contains("\nlimit      at most 1 running, at most 1.5/s (burst 2)\n"), "{shown}");
    assert!(shown.contains("\nbehind     1 task waits behind: 1 of 1 running on payments\n"), "{shown}");
    shell.ok("task-list pause payments --activities --reason maintenance --identity ann");
    let shown = shell.ok("task-list show payments");
    assert!(shown.contains(" by ann: maintenance\n"), "{shown}");
    let listed = shell.ok("task-list list");
    assert!(listed.lines().any(|line| line.contains("payments") && line.contains("paused, 1 running")), "{listed}");
    let lists = shell.json("task-list list --json");
    let names: Vec<&Value> = lists.as_array().unwrap().iter().map(|list| &list["name"]).collect();
    assert!(names.contains(&&json!("payments")), "{lists}");
    let refused = shell.refused("task-list pause payments --activities");
    assert!(refused.contains("already paused") && refused.contains("`baton task-list resume`"), "{refused}");
    shell.ok("task-list resume payments --activities");
    shell.json("task-list limit payments --activities --remove");
    let unlimited = client.limit_list("payments", TaskListKind::Activity, &SetListLimits::default()).await.unwrap();
    assert_eq!(unlimited.limits, None);
    let shown = shell.ok("task-list show nothing");
    assert_eq!(shown, "no tasks, pollers, limits or pause are known\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_limits_are_refused_with_the_name_of_the_option() {
    let shell = Shell::open("invalid-limits");
    for (line, code, expected) in [
        ("task-list limit l --activities", 2, "--remove to remove all limits"),
        ("task-list limit l --max-running 1", 2, "--activities|--deciders"),
        ("task-list limit l --activities --remove --max-running 1", 2, "cannot be used with"),
        ("task-list limit l --activities --burst 1", 2, "--rate"),
        ("task-list limit l --activities --rate 5", 2, "such as 5/s"),
        ("task-list limit l --activities --key visa", 2, "KEY=LIMITS"),
        ("task-list limit l --activities --max-running 0", 1, "`--max-running` is 0"),
        ("task-list limit l --activities --per-key-max-running 0", 1, "`--per-key-max-running` is 0"),
        ("task-list limit l --activities --rate 0/s", 1, "`--rate` is 0"),
        ("task-list limit l --activities --key k=0", 1, "`--key` is 0"),
        ("task-list limit l --deciders --group g", 1, "`baton limit-group set`"),
        ("limit-group set g", 2, "--max-running, --rate or both"),
        ("limit-group delete g", 1, "no limit group `g`"),
    ] {
        let (found, text) = shell.run(line);
        assert_eq!(found, code, "{line}: {text}");
        assert!(text.contains(expected), "{line}: {text}");
    }
}
