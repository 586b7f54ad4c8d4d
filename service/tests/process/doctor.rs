//! `baton doctor` with a running service.

use std::time::Duration;

use client::Patience;
use client::body::{CompleteTurn, PollActivity, PollDecider, SucceedActivity};

use crate::support::{Scratch, Service, baton};

#[tokio::test(flavor = "multi_thread")]
async fn doctor_reports_problems_and_their_severity_by_exit_code() {
    let scratch = Scratch::new("doctor");
    let mut service = Service::start(&scratch.0, &[]);
    let url = service.url.clone();
    let doctor = |args: &[&str]| {
        let output = baton(&[&["doctor", "--url", url.as_str()], args].concat());
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let (code, said) = doctor(&[]);
    assert_eq!((code, said.contains("no problems found")), (Some(0), true), "{said}");
    let (code, said) = doctor(&["--all"]);
    for check in [
        "ready",
        "store",
        "disk",
        "domains",
        "version",
        "nodes",
        "clock",
        "retention",
        "descriptors",
        "certificate",
        "secrets",
        "files",
        "lists",
        "stuck runs",
        "failing runs",
    ] {
        assert!(
            code == Some(0) && said.lines().any(|line| line.trim_start().starts_with(check) && line.contains(" ok ")),
            "{said}"
        );
    }

    // A run that waits for nothing.
    let start = ["workflow", "start", "w", "--type", "t", "--list", "l", "--url", &url];
    assert!(baton(&start).status.success());
    let client = service.client();
    let turn = client.poll_decider("l", &PollDecider::default(), Duration::from_secs(5)).await.unwrap().unwrap();
    client.complete_turn(&turn.token, &CompleteTurn::default(), Patience::None).await.unwrap();
    let (code, said) = doctor(&[]);
    assert!(code == Some(1) && said.contains("stuck runs") && said.contains("1 in default"), "{said}");

    // A run whose decider repeats its first step.
    assert!(baton(&["workflow", "start", "again", "--type", "t", "--list", "l", "--url", &url]).status.success());
    for _ in 0..2 {
        let turn = client.poll_decider("l", &PollDecider::default(), Duration::from_secs(5)).await.unwrap().unwrap();
        let decision = serde_json::json!({ "type": "ScheduleActivity", "activityId": "a", "activityType": "do" });
        let decisions = vec![serde_json::from_value(decision).unwrap()];
        let complete = CompleteTurn { decisions, ..CompleteTurn::default() };
        client.complete_turn(&turn.token, &complete, Patience::None).await.unwrap();
        let task = client.poll_activity("l", &PollActivity::default(), Duration::from_secs(5)).await.unwrap().unwrap();
        client.succeed_activity(&task.token, &SucceedActivity::default(), Patience::None).await.unwrap();
    }
    let (code, said) = doctor(&[]);
    assert!(code == Some(1) && said.contains("repeating runs"), "{said}");
    let show = baton(&["workflow", "show", "again", "--url", &url]);
    let said = String::from_utf8(show.stdout).unwrap();
    let line = said.lines().find(|line| line.starts_with("repeating")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("activity a has succeeded") && line.contains("history `full`"), "{line}");
    let list = baton(&["workflow", "list", "--status", "repeating", "--url", &url]);
    assert!(String::from_utf8(list.stdout).unwrap().contains("again"));

    // The same as JSON.
    let (code, said) = doctor(&["--json"]);
    let told: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &told["verdict"]), (Some(1), &"warning".into()));
    let of = |what: &str| told["checks"].as_array().unwrap().iter().find(|it| it["check"] == what).unwrap().clone();
    assert_eq!(of("stuck runs")["found"], "1 in default");
    assert!(of("stuck runs")["advice"].as_str().unwrap().contains("baton workflow list --status stuck"), "{said}");
    assert_eq!((&of("store")["verdict"], of("store").get("advice")), (&"ok".into(), None));

    // Readiness needs no credential, and other problems do not count.
    let (code, said) = doctor(&["--ready"]);
    assert!(code == Some(0) && said.contains("the service is ready"), "{said}");

    // An unreachable service is contacted once, without a credential.
    service.kill();
    let (code, said) = doctor(&[]);
    assert!(code == Some(2) && said.contains("check that `baton serve` is running"), "{said}");
    assert!(said.lines().count() == 2 && !said.contains("secret"), "{said}");
    let (code, said) = doctor(&["--ready"]);
    assert!(code == Some(2) && said.contains("check that `baton serve` is running"), "{said}");
    let (code, said) = doctor(&["--json"]);
    let told: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, told["checks"].as_array().unwrap().len()), (Some(2), 1), "{told}");
    assert_eq!((&told["verdict"], &told["checks"][0]["check"]), (&"failing".into(), &"reach".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_reports_a_low_disk_and_a_missing_credential() {
    let scratch = Scratch::new("doctor-bad");
    let service = Service::start(&scratch.0, &["--disk-reserve", "1073741824"]);
    let output = baton(&["doctor", "--url", &service.url]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let rows: Vec<_> = said.lines().filter(|line| line.trim_start().starts_with("disk")).collect();
    assert!(matches!(rows[..], [row] if row.contains("failing") && row.contains("new runs are refused")), "{said}");
    drop(service);

    let config = scratch.0.join("baton.toml");
    let secret = crate::hash::sha256_hex("ops");
    let stanza = format!("[[credentials]]\nname = \"ops\"\nsecret-sha256 = \"{secret}\"\noperator = true\n");
    std::fs::write(&config, stanza).unwrap();
    let service = Service::start(&scratch.0, &["--config", config.to_str().unwrap()]);
    let output = baton(&["doctor", "--url", &service.url]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("metrics"), "{said}");
    assert!(said.contains("--secret-file or BATON_SECRET"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_checks_readiness_without_a_credential() {
    let scratch = Scratch::new("doctor-ready");
    let config = scratch.0.join("baton.toml");
    let path = config.to_str().unwrap();
    assert!(baton(&["credential", "new", "ops", "--operator", "--config", path]).status.success());
    let service = Service::start(&scratch.0, &["--config", path]);
    assert_eq!(baton(&["doctor", "--url", &service.url]).status.code(), Some(2), "the metrics need a credential");
    assert_eq!(baton(&["doctor", "--url", &service.url, "--ready"]).status.code(), Some(0));
}
