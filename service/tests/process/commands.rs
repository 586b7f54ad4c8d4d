//! The command line against a real service: effect and output of each command.

use std::time::Duration;

use client::body::{
    AppendOutput, CompleteTurn, PollActivity, PollDecider, QueryResult, Rejection, SucceedActivity, TerminateWorkflow,
    UpdateResult,
};
use client::{Client, Patience};
use history::{Decision, Payload, ScheduleActivity, StartChild};
use serde_json::Value;

use crate::start;
use crate::support::{Scratch, Service, baton};

/// A service, and commands for it.
pub(crate) struct Shell {
    service: Service,
    scratch: Scratch,
}

impl Shell {
    pub(crate) fn open(name: &str) -> Self {
        Self::open_at(Scratch::new(name), &[])
    }

    /// A service with these options whose files are in this directory.
    pub(crate) fn open_at(scratch: Scratch, args: &[&str]) -> Self {
        Self { service: Service::start(&scratch.0, args), scratch }
    }

    pub(crate) fn directory(&self) -> &std::path::Path {
        &self.scratch.0
    }

    /// Ends the service.
    pub(crate) fn stop(&mut self) {
        self.service.kill();
    }

    pub(crate) fn client(&self) -> Client {
        self.service.client()
    }

    /// URL of the service.
    pub(crate) fn url(&self) -> &str {
        &self.service.url
    }

    /// Path of a file in the directory of the test.
    pub(crate) fn file(&self, name: &str) -> std::path::PathBuf {
        self.scratch.0.join(name)
    }

    fn command(&self, line: &str) -> std::process::Command {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_baton"));
        command.args(line.split(' ')).args(["--url", &self.service.url]).stdin(std::process::Stdio::null());
        command
    }

    /// Exit code, standard output and standard error of a command line with quotes and pipes, which a shell executes
    /// with `baton` in its PATH and this service as the default.
    pub(crate) fn script(&self, line: &str) -> (i32, String, String) {
        let bin = std::path::Path::new(env!("CARGO_BIN_EXE_baton")).parent().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", line]).current_dir(&self.scratch.0).env("PATH", path).env("BATON_URL", &self.service.url);
        let output = shell.stdin(std::process::Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// Exit code and output of a command.
    pub(crate) fn run(&self, line: &str) -> (i32, String) {
        let output = self.command(line).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code().unwrap(), text)
    }

    /// Output of a command, which must succeed.
    pub(crate) fn ok(&self, line: &str) -> String {
        let (code, text) = self.run(line);
        assert_eq!(code, 0, "{line}: {text}");
        text
    }

    pub(crate) fn json(&self, line: &str) -> Value {
        let text = self.ok(line);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}: {text}"))
    }

    /// Output of a command, which must be refused.
    pub(crate) fn refused(&self, line: &str) -> String {
        let (code, text) = self.run(line);
        assert_eq!(code, 1, "{line}: {text}");
        text
    }

    /// Completes the next turn with these decisions.
    pub(crate) async fn decide(&self, decisions: Vec<Decision>) {
        let client = self.client();
        let turn = client.poll_decider("deciders", &PollDecider::default(), Duration::from_secs(30)).await.unwrap();
        let complete = CompleteTurn { decisions, ..CompleteTurn::default() };
        client.complete_turn(&turn.unwrap().token, &complete, Patience::None).await.unwrap();
    }
}

pub(crate) fn activity(id: &str) -> Decision {
    let (activity_type, task_list) = ("work".to_owned(), Some("runners".to_owned()));
    ScheduleActivity { activity_id: id.to_owned(), activity_type, task_list, ..ScheduleActivity::default() }.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_acts_on_activities() {
    let shell = Shell::open("by-hand");
    shell.client().start(&start("w"), None).await.unwrap();
    shell.decide(["a", "b", "c"].map(activity).to_vec()).await;

    shell.ok("activity pause w a --reason bank-closed --identity ada");
    assert!(shell.ok("workflow show w").contains("activity   a (work) on runners: paused"));
    assert!(shell.ok("workflow show w").contains("blocked    "));
    assert!(shell.ok("workflow list --status blocked").contains(" w "));
    assert!(shell.ok("history w").contains("ActivityPaused"));
    shell.ok("activity set w a --list others --start-to-close PT1M --heartbeat none");
    assert!(shell.ok("workflow show w").contains("activity   a (work) on others"));
    shell.ok("activity resume w a");
    assert!(shell.refused("activity retry w a").contains("activity-not-retryable"));
    shell.ok("activity complete w a --result {\"by\":\"phone\"}");
    shell.ok("activity fail w b --failure no-such-customer --key once");
    shell.ok("activity fail w b --failure no-such-customer --key once");
    let history = shell.ok("history w");
    for told in ["{\"by\":\"phone\"}", "no-such-customer", "ada"] {
        assert!(history.contains(told), "{told} in {history}");
    }
    assert!(shell.refused("activity complete w a").contains("activity-closed"));
    assert!(shell.refused("activity retry w nothing").contains("activity-closed"));
    assert_eq!(shell.run("activity set w c").0, 1, "no change is specified");
    assert_eq!(shell.run("activity set w c --heartbeat soon").0, 2);
    assert_eq!(shell.run("activity fail w c").0, 2, "a failure needs a reason");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_output_of_an_activity_is_printed_and_followed() {
    let shell = Shell::open("output");
    let client = shell.client();
    client.start(&start("w"), None).await.unwrap();
    shell.decide(vec![activity("a")]).await;
    let task = client.poll_activity("runners", &PollActivity::default(), Duration::from_secs(20)).await.unwrap();
    let token = task.expect("an activity").token;
    let append = async |chunk: serde_json::Value| {
        let output = AppendOutput { chunks: vec![Payload::of(&chunk).unwrap()], sequence: None };
        client.append_output(&token, &output).await.unwrap();
    };
    append("one\ntwo\n".into()).await;
    append(serde_json::json!({ "rows": 2 })).await;
    append("\u{1b}[2Jred".into()).await;
    let printed = shell.ok("activity output w a");
    assert_eq!(printed, "one\ntwo\n{\"rows\":2}\n\\u{1b}[2Jred\n");
    assert_eq!(shell.ok("activity output w a --from 2 --json").matches("\"offset\":2").count(), 1);
    client.succeed_activity(&token, &SucceedActivity::default(), Patience::None).await.unwrap();
    assert!(shell.ok("activity output w a --follow").starts_with("one\n"));
    assert!(shell.refused("activity output w b").contains("output-not-kept"));
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_have_a_header_and_name_every_run() {
    let shell = Shell::open("lists");
    let run = shell.client().start(&start("w"), None).await.unwrap().run_id.to_string();
    let listed = shell.ok("workflow list");
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["started", "closed", "status", "type", "workflow", "id", "run", "id", "tags", "reason"]);
    assert_eq!(&lines[1][1..], ["-", "open", "test", "w", &run], "{listed}");
    assert!(shell.ok("workflow list --id-prefix w").contains(&run));
    assert!(!shell.ok("workflow list --id-prefix x").contains(&run));
    assert!(shell.ok("workflow count --id-prefix w").contains('1'));
    shell.ok("schedule create s --type report --every 1h --paused");
    assert!(shell.ok("schedule list").starts_with(" created"), "{}", shell.ok("schedule list"));
    let domains = shell.ok("domain list");
    assert!(domains.lines().next().unwrap().contains("retention"), "{domains}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_show_and_find_the_reason_of_closed_runs() {
    let shell = Shell::open("reasons");
    for id in ["a", "b"] {
        shell.ok(&format!("workflow start {id} --type test"));
    }
    let details = Some(history::Payload::of("\u{1b}[31mred").unwrap());
    shell
        .client()
        .terminate("a", None, &TerminateWorkflow { details, ..TerminateWorkflow::default() }, None)
        .await
        .unwrap();
    shell.ok("workflow terminate b --reason duplicate");
    let listed = shell.ok("workflow list --reason duplicate");
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(listed.contains(" b ") && listed.trim_end().ends_with("duplicate"), "{listed}");
    assert_eq!(
        shell.ok("workflow count --reason duplicate").lines().next(),
        shell.ok("workflow count --id b").lines().next()
    );
    assert!(shell.ok("workflow show b").contains("reason     duplicate\n"));
    for line in ["workflow list --id a", "workflow show a"] {
        let text = shell.ok(line);
        assert!(text.contains("[31mred") && !text.contains('\u{1b}'), "details are escaped: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_in_four_orders() {
    let shell = Shell::open("orders");
    for id in ["a", "b", "c"] {
        // Each is a separate process, so no two have the same millisecond.
        shell.ok(&format!("workflow start {id} --type test"));
    }
    for id in ["c", "a"] {
        shell.ok(&format!("workflow terminate {id}"));
    }
    for (order, expected) in [
        ("", "c b a"),
        ("--order newest-start", "c b a"),
        ("--order oldest-start", "a b c"),
        ("--order newest-close", "a c"),
        ("--order oldest-close", "c a"),
    ] {
        let listed = shell.ok(format!("workflow list {order}").trim());
        let ids: Vec<&str> = listed.lines().skip(1).filter_map(|line| line.split_whitespace().nth(4)).collect();
        assert_eq!(ids.join(" "), expected, "{order}: {listed}");
    }
    assert_eq!(shell.run("workflow list --order sideways").0, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_on_a_run_take_a_run_id_and_record_the_user() {
    let shell = Shell::open("who");
    let run = shell.client().start(&start("w"), None).await.unwrap().run_id.to_string();
    let other = uuid::Uuid::nil().to_string();
    for (command, event) in
        [("signal w s", "Signal"), ("cancel w", "WorkflowCancelRequested"), ("terminate w", "WorkflowTerminated")]
    {
        assert!(shell.refused(&format!("workflow {command} --run {other}")).contains("unknown-run"), "{command}");
        let output = shell.command(&format!("workflow {command} --run {run}")).env("USER", "ada").output().unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
        let events = shell.json("history w --json");
        let of = events.as_array().unwrap().iter().find(|of| of["type"] == event);
        assert_eq!(of.unwrap_or_else(|| panic!("{event} in {events}"))["identity"], "ada", "{command}");
    }
    let output = shell.command("workflow start v --type test").env("USER", "ada").output().unwrap();
    assert!(output.status.success());
    assert_eq!(shell.json("history v --json")[0]["identity"], "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_commands_report_a_list_without_pollers_at_once() {
    let shell = Shell::open("unpolled");
    for command in [
        "workflow start w --type test --list nobody --wait 1100ms",
        "workflow execute v --type test --list nobody --wait 1.1s",
    ] {
        let (code, text) = shell.run(command);
        assert_eq!(code, 5, "{text}");
        assert_eq!(
            text.matches("list `nobody` has had no pollers for turns since 2").count(),
            2,
            "at once and at the end: {text}"
        );
        assert!(text.contains(" is still open"), "{text}");
    }
    let (code, text) = shell.run("workflow result w --wait 0s");
    assert!(code == 5 && text.contains("list `nobody` has had no pollers"), "{text}");
    assert!(shell.ok("workflow describe w").contains("waits      list `nobody` has had no pollers for turns since 2"));
    for command in [
        "query w total --wait 0.1",
        "update w add --wait 0.1s",
        "workflow query w total --wait 100ms",
        "workflow update w add --wait PT0.1S",
    ] {
        let text = shell.refused(command);
        assert!(text.contains("list `nobody` has had no pollers for turns since 2"), "{command}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn advice_on_the_command_line_names_its_options() {
    let shell = Shell::open("advice");
    let run = shell.client().start(&start("w"), None).await.unwrap().run_id;
    let nobody = uuid::Uuid::nil();
    shell.ok("schedule create s --type t --every 1h --paused");
    shell.ok("workflow pause w");
    for (command, said) in [
        ("workflow start w --type test".to_owned(), "--conflict use-existing"),
        ("workflow start v --type test --list ".to_owned(), "`--list`"),
        ("workflow list --domain nowhere".to_owned(), "baton domain create"),
        ("workflow show nobody".to_owned(), "baton workflow list"),
        (format!("workflow show w --run {nobody}"), "--run"),
        ("workflow delete w".to_owned(), "--terminate"),
        ("workflow pause w".to_owned(), "resume"),
        ("activity retry w nothing".to_owned(), "baton workflow show"),
        ("schedule create s --type t --every 1h".to_owned(), "delete the existing schedule first"),
        ("schedule show nothing".to_owned(), "baton schedule list"),
        ("batch show nothing".to_owned(), "baton batch list"),
        ("batch create signal".to_owned(), "`--signal` is missing"),
        ("batch create reset --to last-turn".to_owned(), "`--status` is missing"),
        ("batch create cancel --pace 0".to_owned(), "`--pace` is 0"),
        ("batch create cancel --status failed".to_owned(), "selects closed runs"),
        (format!("workflow signal w s --if-match \"{run}-9\""), "its new tag"),
    ] {
        let text = shell.refused(&command);
        assert!(text.contains(said), "{command}: {text}");
        for rest in [
            "POST",
            "PUT",
            "GET ",
            "/v1",
            "openapi",
            "updateId",
            "runId",
            "=true",
            "Policy",
            "Idempotency",
            "header",
            "`field`",
        ] {
            assert!(!text.contains(rest), "{command}: {rest} in {text}");
        }
    }
    shell.ok("workflow resume w");
    assert!(shell.refused("update w add --wait 0").contains("with the same --id"));
    shell.ok("workflow terminate w");
    assert!(shell.refused("workflow signal w s").contains("run-closed"));
    shell.ok("workflow start w --type test --reuse allow-duplicate");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_url_may_be_abbreviated() {
    let shell = Shell::open("addresses");
    let port = shell.service.url.rsplit_once(':').unwrap().1;
    for url in [
        format!(":{port}"),
        format!("localhost:{port}"),
        format!("127.0.0.1:{port}"),
        format!("http://localhost:{port}/"),
    ] {
        let output = baton(&["workflow", "count", "--url", &url]);
        assert!(output.status.success(), "{url}: {output:?}");
    }
    let output = baton(&["workflow", "count", "--url", "gopher://localhost"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Collects the values nested in a value.
fn leaves(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.values().for_each(|value| leaves(value, into)),
        Value::Array(items) => items.iter().for_each(|value| leaves(value, into)),
        Value::String(text) => into.push(text.clone()),
        value => into.push(value.to_string()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_shows_everything_that_was_set() {
    let shell = Shell::open("schedule-all");
    let schedule = serde_json::json!({
        "spec": {
            "cron": ["30 2 * * MON-FRI"], "calendars": [{ "hour": "7-9", "dayOfWeek": "SAT" }],
            "intervals": [{ "every": "PT3H", "phase": "PT20M" }], "exclude": [{ "month": "12", "dayOfMonth": "24" }],
            "timeZone": "Europe/Berlin", "startAt": "2026-01-01T00:00:00.000Z", "endAt": "2099-01-01T00:00:00.000Z",
            "jitter": "PT5M",
        },
        "action": {
            "workflowId": "nightly", "workflowType": "report", "taskList": "reports", "input": { "books": 7 },
            "executionTimeout": "PT11H", "runTimeout": "PT10H", "deciderStartToClose": "PT41S",
            "deciderScheduleToStart": "PT42S", "taskPriority": 8, "activityTimeouts": { "heartbeat": "PT43S" },
            "tags": ["gold"], "retention": "P44D", "reusePolicy": "allow-duplicate", "retry": { "maximumAttempts": 45 },
        },
        "overlap": "buffer-one", "catchUpWindow": "PT6H", "pauseOnFailure": true, "remainingActions": 46, "note": "audit",
    });
    let file = shell.scratch.0.join("schedule.json");
    std::fs::write(&file, schedule.to_string()).unwrap();
    let shown = shell.ok(&format!("schedule create s --from @{}", file.display()));
    let mut set = Vec::new();
    leaves(&schedule, &mut set);
    assert!(set.len() >= 30, "{set:?}");
    for value in set {
        assert!(shown.contains(&value), "{value} in {shown}");
    }
}

/// Checks the commands for late deadlines of a clock that was never ahead.
fn late_deadlines(shell: &Shell) {
    let none = "0 deadlines in 0 of 1 open runs";
    assert!(shell.ok("clock show --workflow w").contains(&format!("{none} are too late")));
    assert!(shell.ok("clock repair --workflow w --dry-run").contains(&format!("{none} would be repaired")));
    assert!(shell.ok("clock repair --all-domains --reason NTP").contains("0 deadlines in 0 of "));
    assert_eq!(shell.run("clock show --workflow w --all-domains").0, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_children_is_paused_resumed_and_deleted() {
    let shell = Shell::open("operate");
    shell.client().start(&start("w"), None).await.unwrap();
    let (workflow_id, workflow_type) = ("child".to_owned(), "test".to_owned());
    shell.decide(vec![StartChild { workflow_id, workflow_type, ..StartChild::default() }.into()]).await;
    assert!(shell.ok("workflow show w").contains("child      child: "));

    late_deadlines(&shell);
    shell.ok("workflow pause w --stop-clocks --reason audit --identity ada");
    let shown = shell.ok("workflow show w");
    assert!(shown.contains(" by ada, timers and timeouts stopped: audit"), "{shown}");
    assert!(shell.ok("workflow list --status paused").contains(" w "));
    assert!(shell.refused("workflow pause w").contains("paused"));
    shell.ok("workflow resume w");
    assert!(!shell.ok("workflow show w").contains("paused "));

    assert!(shell.refused("workflow delete w").contains("run-open"));
    assert_eq!(shell.ok("workflow count").trim(), "2");
    let deleted = shell.json("workflow delete w --terminate");
    assert_eq!(deleted["runs"], 1, "{deleted}");
    assert!(shell.refused("workflow show w").contains("unknown-workflow"));
    assert!(shell.refused("history w").contains("unknown-workflow"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_shows_both_runs() {
    let shell = Shell::open("reset");
    let old = shell.client().start(&start("w"), None).await.unwrap().run_id.to_string();
    shell.decide(vec![activity("a")]).await;
    shell.ok("workflow signal w late");
    assert!(shell.refused("workflow reset w --at 4").contains("2 and 5"));
    let done = shell.json("workflow reset w --at 5 --reason mistake --identity ada --key once");
    assert_eq!(shell.json("workflow reset w --at 5 --reason mistake --identity ada --key once"), done);
    let new = done["runId"].as_str().unwrap();
    let shown = shell.ok("workflow show w");
    assert!(shown.contains(&format!("branched   from run {old}, event 5")), "{shown}");
    assert!(shown.contains("activity   a (work) on runners: waiting for a runner"), "{shown}");
    let shown = shell.ok(&format!("workflow show w --run {old}"));
    assert!(shown.contains(&format!("reset      as run {new}")), "{shown}");
    let history = shell.ok("history w");
    assert!(history.contains(&format!("from event 5 of run {old} by ada: mistake")), "{history}");
    assert!(history.contains("Signal"), "{history}");
    assert!(shell.ok(&format!("history w --run {old}")).contains(&format!("run {new} continues from event 5")));
    let third = shell.json(&format!("workflow reset w --run {old} --at 5 --drop-signals"));
    assert!(!shell.ok(&format!("history w --run {}", third["runId"].as_str().unwrap())).contains("Signal"));
}

#[tokio::test(flavor = "multi_thread")]
async fn domains_are_created_changed_and_shown() {
    let shell = Shell::open("domains");
    shell.ok("domain create shop --description orders --retention P7D");
    shell.ok("domain set --domain shop --retention P90D");
    let shown = shell.json("domain show --domain shop");
    assert_eq!((&shown["retention"], &shown["description"]), (&"P90D".into(), &"orders".into()));
    let listed = shell.ok("domain list");
    assert!(listed.contains("shop") && listed.contains("default"), "{listed}");
    assert!(shell.refused("domain create shop").contains("domain-exists"));
    assert!(shell.refused("domain show --domain nowhere").contains("unknown-domain"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_created_triggered_and_deleted() {
    let shell = Shell::open("schedules");
    let shown = shell.ok("schedule create nightly --every PT24H --type report --list reports --paused --note books");
    for line in
        ["schedule   nightly since ", "note       books", "starts     report as nightly-<time>", "every      P1D"]
    {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    assert!(shell.ok("schedule list").contains("paused"));
    assert!(shell.ok("schedule resume nightly").contains("next       "));
    assert_eq!(shell.ok("schedule next nightly --limit 3").lines().count(), 3);
    assert!(shell.ok("schedule pause nightly --reason holidays").contains("holidays"));
    shell.ok("schedule trigger nightly --key once");
    shell.ok("schedule trigger nightly --key once");
    // The action starts a moment later.
    while shell.json("schedule show nightly --json")["totals"]["started"] != 1 {
        tokio::task::yield_now().await;
    }
    assert!(shell.ok("workflow list").contains("nightly-"));
    shell.ok("schedule backfill nightly --from 2026-01-01T00:00:00Z --to 2026-01-03T00:00:00Z --overlap allow-all");
    while shell.json("schedule show nightly --json")["totals"]["started"] != 4 {
        tokio::task::yield_now().await;
    }
    shell.ok("schedule delete nightly");
    assert!(shell.refused("schedule show nightly").contains("unknown-schedule"));
    assert_eq!(shell.run("schedule create broken --type t --every soon").0, 2);
    assert!(shell.refused("schedule create broken --type t --cron never").contains("cron"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_tried_created_stopped_and_deleted() {
    let shell = Shell::open("batches");
    for number in 0..3 {
        shell.client().start(&start(&format!("w{number}")), None).await.unwrap();
    }
    let dry = shell.ok("batch create signal --signal go --id-prefix w --dry-run");
    assert!(dry.starts_with("3 runs would be selected; nothing was changed"), "{dry}");
    assert!(["w0", "w1", "w2"].iter().all(|id| dry.contains(id)), "{dry}");
    assert!(shell.ok("batch list").lines().count() <= 1, "a dry run creates no batch");

    let create = "batch create signal --signal go --input {\"n\":1} --type test --reason r --identity ann --pace 1";
    let created = shell.json(&format!("{create} --key once --json"));
    let id = created["batchId"].as_str().unwrap();
    assert_eq!((&created["operation"]["input"]["n"], &created["pace"]), (&Value::from(1), &Value::from(1)));
    assert_eq!(shell.json(&format!("{create} --key once --json"))["batchId"], id);
    let stopped = shell.ok(&format!("batch stop {id}"));
    assert!(stopped.contains("status     stopped, at most 1 runs a second"), "{stopped}");
    assert!(shell.ok("batch list").contains("stopped"));
    assert!(shell.ok(&format!("batch pace {id} 100")).contains("at most 100 runs a second"));
    let done = shell.ok(&format!("batch resume {id} --wait"));
    for line in
        ["operation  signal ", "filter     type=test", "reason     r", "identity   ann", "3 of 3: 3 done, 0 refused"]
    {
        assert!(done.contains(line), "{line} in {done}");
    }
    assert_eq!(shell.json("history w0 --json")[2]["identity"], "ann");
    assert!(shell.refused(&format!("batch stop {id}")).contains("batch-completed"));
    shell.ok(&format!("batch delete {id}"));
    assert!(shell.refused(&format!("batch show {id}")).contains("unknown-batch"));

    assert!(shell.ok("workflow failures").starts_with(" runs") || shell.ok("workflow failures").is_empty());
    let ids = shell.scratch.0.join("ids");
    std::fs::write(&ids, "w0\n\nlost\n").unwrap();
    let refused = shell.ok(&format!("batch create terminate --ids {} --wait --quiet", ids.display()));
    assert!(refused.contains("refused    1 unknown-workflow") && refused.contains("refusal    lost"), "{refused}");
    std::fs::write(&ids, "\n").unwrap();
    let (code, none) = shell.run(&format!("batch create terminate --ids {}", ids.display()));
    assert!(code == 2 && none.contains("found none"), "{none}");
    assert_eq!(shell.ok("workflow count --status open").trim(), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tag_of_a_query_is_a_condition_of_a_signal() {
    let shell = Shell::open("query");
    shell.client().start(&start("w"), None).await.unwrap();
    shell.decide(vec![activity("a")]).await;
    let client = shell.client();
    let answering = tokio::spawn(async move {
        let poll = PollDecider { queries: true, ..PollDecider::default() };
        for _ in 0..2 {
            let task = client.poll_decider("deciders", &poll, Duration::from_secs(30)).await.unwrap().unwrap();
            let result = Some(history::Payload::of(&7).unwrap());
            let answer = QueryResult { id: task.queries[0].id.clone(), result, ..QueryResult::default() };
            let complete = CompleteTurn { query_results: vec![answer], ..CompleteTurn::default() };
            client.complete_turn(&task.token, &complete, Patience::None).await.unwrap();
        }
    });
    assert_eq!(shell.ok("query w total").trim(), "7");
    let answer = shell.json("query w total --tag");
    answering.await.unwrap();
    assert_eq!(answer["result"], 7);
    let condition = format!("--if-match {}", answer["tag"].as_str().unwrap());
    shell.ok(&format!("workflow signal w s {condition}"));
    assert!(shell.refused(&format!("workflow signal w s {condition}")).contains("version-mismatch"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_starts_its_run_and_prints_its_result() {
    let shell = Shell::open("update");
    let client = shell.client();
    let judging = tokio::spawn(async move {
        let poll = PollDecider { updates: Some(1), ..PollDecider::default() };
        for _ in 0..2 {
            let turn = client.poll_decider("deciders", &poll, Duration::from_secs(30)).await.unwrap().unwrap();
            let mut result = UpdateResult { id: turn.updates[0].id.clone(), ..UpdateResult::default() };
            match turn.updates[0].input.clone() {
                Some(input) => result.accepted = Some(input),
                None => result.rejected = Some(Rejection { reason: "empty".to_owned(), details: None }),
            }
            let complete = CompleteTurn { update_results: vec![result], ..CompleteTurn::default() };
            client.complete_turn(&turn.token, &complete, Patience::None).await.unwrap();
        }
    });
    let begin = "update w add --start test --start-list deciders --start-input {}";
    let answer = shell.json(&format!("{begin} --input 3 --id one"));
    assert_eq!((&answer["started"], &answer["result"]), (&true.into(), &3.into()));
    assert!(shell.refused(begin).contains("update-rejected"));
    judging.await.unwrap();
    assert_eq!(shell.json(&format!("{begin} --id one"))["result"], 3, "fetched again");
    assert_eq!(shell.run("update w add --start-list deciders").0, 2, "the type is missing");
}
