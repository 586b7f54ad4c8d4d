//! Control characters in texts of other users: the command line escapes them on a terminal.

use std::time::Duration;

use client::body::{
    CreateBatch, CreateDomain, CreateSchedule, FailTurn, PauseSchedule, PauseTaskList, PauseWorkflow, PollDecider,
    RegisterType, Schedule, SetKeyLimits, SetListLimits, SetTaskLimits, StartWorkflow, TerminateWorkflow,
};
use client::{Patience, TaskListKind};
use history::{ActivityDefaults, Payload};
use serde_json::Value;

use crate::commands::Shell;
use crate::start;

/// Clears the screen, sets the title, sets colors, changes the direction, deletes, and breaks lines.
const ORDERS: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{9d}0;owned\u{9c}\u{202e}\u{2066}\u{7f}\u{8}\r\u{2028}";

/// Control characters that are allowed in names and reasons.
const TURNED: &str = "m\u{202e}e\u{2066}";

/// A text that imitates a line of the output.
const FORGED: &str = "fine\ntotals     99 started";

/// Whether a terminal would interpret this character. Line breaks are checked separately.
fn is_order(c: char) -> bool {
    (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{2066}' | '\u{2028}')
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_others_are_escaped_on_a_terminal() {
    let shell = Shell::open("terminal");
    let client = shell.client();
    let name = || Some(TURNED.to_owned());
    let payload = || Some(Payload::of(&ORDERS).unwrap());
    let evil =
        CreateDomain { name: "evil".to_owned(), description: Some(ORDERS.to_owned()), ..CreateDomain::default() };
    client.create_domain(&evil).await.unwrap();
    let begin = StartWorkflow { input: payload(), identity: name(), ..start("w") };
    client.start(&begin, None).await.unwrap();
    client.signal("w", "go", payload(), None).await.unwrap();
    for _ in 0..2 {
        let poll = PollDecider { identity: name(), ..PollDecider::default() };
        let turn = client.poll_decider("deciders", &poll, Duration::from_secs(30)).await.unwrap().expect("a turn");
        let fail = FailTurn { reason: Some("panic".to_owned()), details: payload() };
        client.fail_turn(&turn.token, &fail, Patience::None).await.unwrap();
    }
    let pause = PauseWorkflow { reason: name(), identity: name(), ..PauseWorkflow::default() };
    client.pause("w", None, &pause, None).await.unwrap();
    let spec = serde_json::from_value(serde_json::json!({ "cron": ["0 8 * * *"] })).unwrap();
    let action = StartWorkflow { input: payload(), ..start("s") };
    let schedule = Schedule { spec, note: Some(FORGED.to_owned()), action, ..Schedule::default() };
    let create = CreateSchedule { schedule_id: "s".to_owned(), schedule, paused: false };
    client.create_schedule(&create, None).await.unwrap();
    let pause = PauseSchedule { reason: name() };
    client.pause_schedule("s", &pause).await.unwrap();

    // A run without failing activities refuses the operation, so that the batch shows a refusal.
    let operation = serde_json::json!({ "operation": { "type": "retry-activities" }, "identity": TURNED });
    let mut batch: CreateBatch = serde_json::from_value(operation).unwrap();
    (batch.reason, batch.filter.workflow_ids) = (name(), vec![TURNED.to_owned()]);
    let batch = client.create_batch(&batch, None).await.unwrap().batch_id;

    let pause = PauseTaskList { stop_clocks: true, reason: name(), identity: name() };
    client.pause_list("deciders", TaskListKind::Decider, &pause).await.unwrap();
    let group = SetTaskLimits { max_running: Some(1), rate: None };
    client.set_limit_group(TURNED, &group).await.unwrap();
    let key = SetKeyLimits { key: TURNED.to_owned(), ..SetKeyLimits::default() };
    let limits = SetListLimits { limits: vec![key], group: name(), ..SetListLimits::default() };
    client.limit_list(TURNED, TaskListKind::Activity, &limits).await.unwrap();

    let register = RegisterType::<ActivityDefaults> {
        name: TURNED.to_owned(),
        version: None,
        description: Some(ORDERS.to_owned()),
        defaults: ActivityDefaults { task_list: name(), ..ActivityDefaults::default() },
    };
    client.register_type(&register).await.unwrap();

    let type_show = format!("type show {TURNED} --activities");
    let list_show = format!("task-list show {TURNED}");
    let unknown = format!("workflow show {ORDERS}");
    let (batch_show, batch_json) = (format!("batch show {batch} --wait"), format!("batch show {batch} --json"));
    let looks = [
        "domain list",
        "domain list --json",
        "domain show --domain evil",
        "domain create evil",
        "workflow show w",
        "workflow show w --json",
        "workflow list",
        "workflow list --json",
        "workflow count",
        "workflow result w",
        "history w",
        "history w --reverse",
        "history w --json",
        "schedule list",
        "schedule show s",
        "schedule show s --json",
        "schedule next s",
        "task-list list",
        "task-list list --json",
        "task-list show deciders",
        list_show.as_str(),
        "limit-group list",
        "type list",
        "type list --json",
        type_show.as_str(),
        "node list",
        "node show",
        "limit-group list --json",
        "schedule resume s",
        "history nobody",
        "query nobody what",
        "update nobody what",
        "workflow failures",
        "batch list",
        "batch create cancel --dry-run",
        batch_show.as_str(),
        batch_json.as_str(),
        unknown.as_str(),
    ];
    let check = |line: &str| {
        let (_, said) = shell.run(line);
        let found = said.chars().find(|c| is_order(*c));
        assert_eq!(found, None, "{line}: {said:?}");
        said
    };
    for line in looks {
        check(line);
    }
    let shown = check("workflow show w");
    assert!(shown.lines().any(|line| line.starts_with("failing") && line.contains("\\u{9b}31m")), "{shown}");
    let shown = check("schedule show s");
    assert!(shown.contains("fine\\ntotals     99 started"), "a line break in a note starts no line: {shown}");
    // JSON output has the texts unchanged.
    let domains: Value = serde_json::from_str(&check("domain list --json")).unwrap();
    assert_eq!(domains[1]["description"], ORDERS);
    let events: Value = serde_json::from_str(&check("history w --json")).unwrap();
    assert_eq!(events[0]["input"], ORDERS);

    let terminate = TerminateWorkflow { reason: Some("over".to_owned()), details: payload(), identity: name() };
    client.terminate("w", None, &terminate, None).await.unwrap();
    for line in ["history w --follow", "history w --follow --json", "workflow result w", "workflow show w", "history w"]
    {
        check(line);
    }
}
