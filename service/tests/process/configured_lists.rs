//! Limits of task lists in the configuration file of a running service.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use client::body::{CreateDomain, PauseTaskList, PollActivity, SetListLimits};
use client::{Client, TaskListKind};
use history::StartActivity;
use serde_json::{Value, json};

use crate::READY;
use crate::credentials::{text, until, write};
use crate::support::{Scratch, Service, baton};

const PAGE: &str = include_str!("../../../docs/limit-task-lists.md");

/// Section of a list of activities of the domain `default` with these settings.
fn list(name: &str, settings: &str) -> String {
    format!("[[task-lists]]\ndomain = 'default'\nname = '{name}'\nkind = 'activities'\n{settings}\n")
}

/// A directory with a configuration file.
struct Configured {
    scratch: Scratch,
    config: PathBuf,
}

impl Configured {
    fn new(name: &str, text: &str) -> Self {
        let scratch = Scratch::new(name);
        let config = scratch.0.join("baton.toml");
        write(&config, text);
        Self { scratch, config }
    }

    fn start(&self, args: &[&str]) -> Service {
        let args = [&["--config", self.config.to_str().unwrap()], args].concat();
        Service::start_after(&self.scratch.0, "umask 077", &args)
    }

    /// Error message of a service that must refuse to start.
    fn refused(&self) -> String {
        let data = self.scratch.0.join("data");
        let (config, data) = (self.config.to_str().unwrap(), data.to_str().unwrap());
        let args = ["serve", "--listen", "127.0.0.1:0", "--config", config, "--data-dir", data];
        let output = baton(&args);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.0.join("log")).unwrap()
    }

    /// Replaces the file and sends SIGHUP.
    fn reload(&self, service: &Service, text: &str) {
        write(&self.config, text);
        let done = Command::new("kill").args(["-HUP", &service.child.id().to_string()]).status().unwrap();
        assert!(done.success());
    }
}

/// Limits of a list of activities as JSON.
async fn limits(client: &Client, name: &str) -> Value {
    let lists = client.task_list(name).await.unwrap().task_lists;
    let list = lists.into_iter().find(|list| list.kind == "activity");
    serde_json::to_value(list.and_then(|list| list.limits)).unwrap()
}

fn at_most(max_running: u32) -> Value {
    json!({ "maxRunning": max_running })
}

async fn limit(client: &Client, name: &str, max_running: u32) {
    let set = SetListLimits { max_running: Some(max_running), ..SetListLimits::default() };
    client.limit_list(name, TaskListKind::Activity, &set).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_sets_limits_at_the_start_and_at_a_reload() {
    let configured = Configured::new("lists-reload", &list("payments", "max-running = 1"));
    let mut service = configured.start(&[]);
    let client = service.client();
    assert_eq!(limits(&client, "payments").await, at_most(1));
    for id in ["a", "b"] {
        let (workflow_id, activity_type) = (Some(id.to_owned()), "charge".to_owned());
        let start = StartActivity { workflow_id, activity_type, ..StartActivity::default() };
        client.start_activity("payments", &start, None, None).await.unwrap();
    }
    let poll = PollActivity::default();
    assert!(client.poll_activity("payments", &poll, Duration::from_secs(30)).await.unwrap().is_some());
    let waiting = client.task_list("payments").await.unwrap();
    let behind = waiting.task_lists.iter().flat_map(|list| &list.behind).next().unwrap();
    assert_eq!((behind.limit.as_str(), behind.max), ("max-running", Some(1)));

    // A change over REST lasts until the next reload, except for lists that are not in the file.
    limit(&client, "payments", 9).await;
    limit(&client, "refunds", 9).await;
    let pause = PauseTaskList { reason: Some("maintenance".to_owned()), ..PauseTaskList::default() };
    client.pause_list("payments", TaskListKind::Activity, &pause).await.unwrap();
    let is_paused = async |client: &Client| {
        client.task_list("payments").await.unwrap().task_lists.iter().any(|list| list.paused.is_some())
    };
    configured.reload(&service, &list("payments", "max-running = 2"));
    until("the file is reloaded", async || limits(&client, "payments").await == at_most(2)).await;
    assert_eq!(limits(&client, "refunds").await, at_most(9));
    assert!(is_paused(&client).await, "a pause stays");

    limit(&client, "payments", 9).await;
    service.kill();
    let service = configured.start(&[]);
    let client = service.client();
    assert_eq!((limits(&client, "payments").await, limits(&client, "refunds").await), (at_most(2), at_most(9)));
    assert!(is_paused(&client).await, "a pause stays");
    client.resume_list("payments", TaskListKind::Activity).await.unwrap();
    assert!(client.poll_activity("payments", &poll, Duration::from_secs(30)).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_section_leaves_the_limits_and_is_logged() {
    let group = "[[limit-groups]]\ndomain = 'default'\nname = 'bank'\nmax-running = 5\n";
    let configured = Configured::new("lists-removed", &(list("payments", "group = 'bank'") + group));
    let service = configured.start(&[]);
    let client = service.client();
    assert_eq!(limits(&client, "payments").await, json!({ "group": "bank" }));
    configured.reload(&service, "");
    until("the warning", async || {
        let log = configured.log();
        log.contains("`baton task-list limit payments --activities --remove --domain default`")
            && log.contains("`baton limit-group delete bank --domain default`")
    })
    .await;
    assert_eq!(limits(&client, "payments").await, json!({ "group": "bank" }));
    // A section without limits removes them.
    configured.reload(&service, &list("payments", ""));
    until("the limits are removed", async || limits(&client, "payments").await == Value::Null).await;
    client.delete_limit_group("bank").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_file_changes_no_limits() {
    let good = list("payments", "max-running = 1");
    let configured = Configured::new("lists-invalid", &good);
    let service = configured.start(&[]);
    let client = service.client();
    for (bad, why) in [
        (list("payments", "max-running = 0"), "`max-running` is 0; expected 1 to 100000"),
        (list("payments", "rate = '5'"), "line 5, column 8: `task-lists[0].rate`: expected a number per second"),
        (list("payments", "max-running = 7\ngroup = 'bank'"), "the group `bank` is not in the file"),
    ] {
        configured.reload(&service, &(list("refunds", "max-running = 3") + &bad).replacen("[0]", "[1]", 1));
        let why = why.replace("line 5", "line 10").replace("[0]", "[1]");
        until(&why, async || configured.log().contains(&why)).await;
        assert_eq!((limits(&client, "payments").await, limits(&client, "refunds").await), (at_most(1), Value::Null));
        until("it is shown", async || text(&service, "/readyz", "").await != READY).await;
    }
    drop(service);
    let refused = configured.refused();
    assert!(
        refused.contains("baton.toml: [[task-lists]] for `payments` (activities) in domain `default`"),
        "{refused}"
    );
    write(&configured.config, &good);
    let service = configured.start(&[]);
    let client = service.client();
    assert_eq!((limits(&client, "payments").await, limits(&client, "refunds").await), (at_most(1), Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_and_configured_lists_count_together() {
    let sections = |count: usize| (0..count).map(|it| list(&format!("l{it}"), "max-running = 1")).collect::<String>();
    let configured = Configured::new("lists-many", "");
    let service = configured.start(&[]);
    let client = service.client();
    limit(&client, "payments", 9).await;
    configured.reload(&service, &sections(200));
    let why = "[[task-lists]] and [[limit-groups]] of domain `default`: limit reached: at most 200";
    until(why, async || configured.log().contains(why)).await;
    assert_eq!(limits(&client, "l0").await, Value::Null);
    drop(service);
    assert!(configured.refused().contains(why));
    write(&configured.config, &sections(199));
    let client = configured.start(&[]);
    let client = client.client();
    assert_eq!((limits(&client, "l198").await, limits(&client, "payments").await), (at_most(1), at_most(9)));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_an_unknown_domain_apply_when_it_is_created() {
    let section = list("payments", "max-running = 1").replace("default", "shop");
    let configured = Configured::new("lists-domain", &section);
    let mut service = configured.start(&[]);
    let warning = "names the domain `shop`, which does not exist, for limits of task lists";
    until("the warning", async || configured.log().contains(warning)).await;
    let create = CreateDomain { name: "shop".to_owned(), ..CreateDomain::default() };
    service.client().create_domain(&create).await.unwrap();
    assert_eq!(limits(&service.client().domain("shop"), "payments").await, at_most(1));
    service.kill();
    let service = configured.start(&[]);
    assert_eq!(limits(&service.client().domain("shop"), "payments").await, at_most(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_changed_limits_of_the_file_have_audit_entries() {
    let group = "[[limit-groups]]\ndomain = 'default'\nname = 'bank'\nmax-running = 5\n";
    let file = |max: u32| list("payments", &format!("max-running = {max}\ngroup = 'bank'")) + group;
    let configured = Configured::new("lists-audit", &file(1));
    let directory = configured.scratch.0.join("audit");
    let args = ["--audit-log", directory.to_str().unwrap()];
    let entries = async |service: &Service| {
        let entries = service.client().audit(0, None).await.unwrap();
        let entries = serde_json::to_value(entries).unwrap()["entries"].clone();
        let entries: Vec<Value> = entries.as_array().unwrap().clone();
        let named = entries.iter().filter(|entry| entry["call"].is_string());
        let names = |entry: &Value| {
            ["call", "domain", "taskList", "group"]
                .map(|member| entry[member].as_str().unwrap_or("-").to_owned())
                .join(" ")
        };
        named.map(names).collect::<Vec<_>>()
    };
    let mut service = configured.start(&args);
    let bank = "configuration [[limit-groups]] default - bank";
    let payments = "configuration [[task-lists]] activities default payments -";
    assert_eq!(entries(&service).await, [bank, payments]);
    service.kill();
    let service = configured.start(&args);
    assert_eq!(entries(&service).await, [bank, payments], "nothing changed");
    configured.reload(&service, &file(2));
    until("the change has an entry", async || entries(&service).await == [bank, payments, payments]).await;
    until("the change", async || limits(&service.client(), "payments").await["maxRunning"] == json!(2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_of_the_page_about_limits_works_as_written() {
    let blocks = PAGE.split("```toml\n").skip(1).filter_map(|block| block.split_once("```"));
    let example = blocks.map(|(block, _)| block).collect::<String>();
    assert!(example.contains("[[task-lists]]") && example.contains("[[limit-groups]]"), "{example}");
    let service = Configured::new("lists-page", &example.replace("\n   ", "\n")).start(&[]);
    let client = service.client();
    let per_second = |rate: u32| json!({ "perSecond": rate, "burst": 10 });
    let keys = json!([
        { "key": "trial", "maxRunning": 1, "rate": { "perSecond": 0.5, "burst": 1 } },
        { "key": "visa", "maxRunning": 10 },
    ]);
    let payments = json!({
        "maxRunning": 20, "rate": per_second(5), "perKey": { "maxRunning": 2 }, "limits": keys, "group": "bank",
    });
    assert_eq!(limits(&client, "payments").await, payments);
    assert_eq!(limits(&client, "refunds").await, json!({ "group": "bank" }));
    let bank = serde_json::to_value(client.limit_group("bank").await.unwrap()).unwrap();
    assert_eq!(bank, json!({ "name": "bank", "maxRunning": 30, "rate": per_second(10) }));
}
