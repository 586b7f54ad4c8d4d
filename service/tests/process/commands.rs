//! The command line against a real service: what each command does, and what it prints.

use std::time::Duration;

use client::body::{CompleteTurn, PollDecider, QueryResult, Rejection, UpdateResult};
use client::{Client, Patience};
use history::{Decision, ScheduleActivity, StartChild};
use serde_json::Value;

use crate::start;
use crate::support::{Scratch, Service, baton};

/// A service, and the commands that are put to it.
struct Shell {
    service: Service,
    _scratch: Scratch,
}

impl Shell {
    fn open(name: &str) -> Self {
        let scratch = Scratch::new(name);
        Self { service: Service::start(&scratch.0, &[]), _scratch: scratch }
    }

    fn client(&self) -> Client {
        self.service.client()
    }

    /// The exit code of a command, and what it prints.
    fn run(&self, line: &str) -> (i32, String) {
        let args: Vec<&str> = line.split(' ').chain(["--url", &self.service.url]).collect();
        let output = baton(&args);
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code().unwrap(), text)
    }

    /// What a command prints that does what it should.
    fn ok(&self, line: &str) -> String {
        let (code, text) = self.run(line);
        assert_eq!(code, 0, "{line}: {text}");
        text
    }

    fn json(&self, line: &str) -> Value {
        let text = self.ok(line);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}: {text}"))
    }

    /// What a command says that is refused.
    fn refused(&self, line: &str) -> String {
        let (code, text) = self.run(line);
        assert_eq!(code, 1, "{line}: {text}");
        text
    }

    /// Has the next turn decide.
    async fn decide(&self, decisions: Vec<Decision>) {
        let client = self.client();
        let turn = client.poll_decider("deciders", &PollDecider::default(), Duration::from_secs(30)).await.unwrap();
        let complete = CompleteTurn { decisions, ..CompleteTurn::default() };
        client.complete_turn(&turn.unwrap().token, &complete, Patience::None).await.unwrap();
    }
}

fn activity(id: &str) -> Decision {
    let (activity_type, task_list) = ("work".to_owned(), Some("runners".to_owned()));
    ScheduleActivity { activity_id: id.to_owned(), activity_type, task_list, ..ScheduleActivity::default() }.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn activities_are_seen_to_by_hand() {
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
    assert_eq!(shell.run("activity set w c").0, 1, "it says nothing to change");
    assert_eq!(shell.run("activity set w c --heartbeat soon").0, 2);
    assert_eq!(shell.run("activity fail w c").0, 2, "a failure has a reason");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_paused_resumed_and_deleted_and_its_children_are_shown() {
    let shell = Shell::open("operate");
    shell.client().start(&start("w"), None).await.unwrap();
    let (workflow_id, workflow_type) = ("child".to_owned(), "test".to_owned());
    shell.decide(vec![StartChild { workflow_id, workflow_type, ..StartChild::default() }.into()]).await;
    assert!(shell.ok("workflow show w").contains("child      child: "));

    shell.ok("workflow pause w --stop-clocks --reason audit --identity ada");
    let shown = shell.ok("workflow show w");
    assert!(shown.contains(" by ada, its clocks stand still: audit"), "{shown}");
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
async fn a_run_is_reset_and_both_branches_are_shown() {
    let shell = Shell::open("reset");
    let old = shell.client().start(&start("w"), None).await.unwrap().run_id.to_string();
    shell.decide(vec![activity("a")]).await;
    shell.ok("workflow signal w late");
    assert!(shell.refused("workflow reset w --at 4").contains("2 and 5"));
    let done = shell.json("workflow reset w --at 5 --reason mistake --identity ada --key once");
    assert_eq!(shell.json("workflow reset w --at 5 --reason mistake --identity ada --key once"), done);
    let new = done["runId"].as_str().unwrap();
    let shown = shell.ok("workflow show w");
    assert!(shown.contains(&format!("branched   from run {old}, at its event 5")), "{shown}");
    assert!(shown.contains("activity   a (work) on runners: waits for a runner"), "{shown}");
    let shown = shell.ok(&format!("workflow show w --run {old}"));
    assert!(shown.contains(&format!("reset      run {new} goes on")), "{shown}");
    let history = shell.ok("history w");
    assert!(history.contains(&format!("goes on from event 5 of run {old} by ada: mistake")), "{history}");
    assert!(history.contains("Signal"), "{history}");
    assert!(shell.ok(&format!("history w --run {old}")).contains(&format!("run {new} goes on from event 5")));
    let third = shell.json(&format!("workflow reset w --run {old} --at 5 --drop-signals"));
    assert!(!shell.ok(&format!("history w --run {}", third["runId"].as_str().unwrap())).contains("Signal"));
}

#[tokio::test(flavor = "multi_thread")]
async fn domains_are_made_changed_and_shown() {
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
async fn a_schedule_is_made_looked_at_acted_with_and_forgotten() {
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
    // It acts a moment later.
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
async fn a_query_shows_the_tag_that_a_signal_takes_as_its_condition() {
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
    assert!(shell.refused(&format!("workflow signal w s {condition}")).contains("version-moved"), "S1.14");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_starts_its_run_and_prints_what_came_of_it() {
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
    assert_eq!(shell.run("update w add --start-list deciders").0, 2, "which type?");
}
