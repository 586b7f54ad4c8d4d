//! The end of a service: a graceful shutdown, and an exit after a failure of its store.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use client::body::{PollActivity, PollDecider};
use client::{Client, Page, Patience};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::support::{Scratch, Service};
use crate::{start, start_runs};

fn pid(service: &Service) -> Pid {
    Pid::from_raw(i32::try_from(service.child.id()).unwrap()).unwrap()
}

/// Waits for the end and returns the exit code.
async fn end(mut service: Service) -> i32 {
    loop {
        if let Some(status) = service.child.try_wait().unwrap() {
            return status.code().expect("it ended by itself");
        }
        tokio::task::yield_now().await;
    }
}

/// Waits until a metric whose line begins like this is not 0.
async fn until_counted(client: &Client, begin: &str) {
    let url = format!("{}/metrics", client.url());
    loop {
        let metrics = reqwest::get(&url).await.unwrap().text().await.unwrap();
        if metrics.lines().any(|line| line.starts_with(begin) && !line.ends_with(" 0")) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_waiting_requests_and_keeps_all_data() {
    let scratch = Scratch::new("sigterm");
    let service = Service::start(&scratch.0, &[]);
    let client = service.client();
    let started = client.start(&start("w"), None).await.unwrap();
    let (polling, watching) = (client.clone(), client.clone());
    let wait = Duration::from_secs(60);
    let poll = tokio::spawn(async move { polling.poll_activity("nothing", &PollActivity::default(), wait).await });
    let watch = tokio::spawn(async move {
        let page = Page { after: Some(2), wait: Some(wait), ..Page::default() };
        watching.history("w", None, &page).await
    });
    // Both are waiting. A request that has not arrived would get no response.
    until_counted(&client, "baton_pollers_waiting{").await;
    until_counted(&client, "baton_watched_runs ").await;

    kill_process(pid(&service), Signal::TERM).unwrap();
    assert_eq!(end(service).await, 0);
    // Each got a response before the end of its connection.
    assert!(matches!(poll.await.unwrap(), Ok(None)));
    if let Err(error) = watch.await.unwrap() {
        assert!(error.status().is_some(), "{error:?}");
    }

    let service = Service::start(&scratch.0, &[]);
    let client = service.client();
    assert_eq!(client.describe("w", None).await.unwrap().run_id, started.run_id);
    let task = client.poll_decider("deciders", &PollDecider::default(), Duration::from_secs(30)).await.unwrap();
    assert_eq!(task.unwrap().workflow_id, "w");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_under_load_keeps_everything_acknowledged() {
    let scratch = Scratch::new("sigterm-load");
    let service = Service::start(&scratch.0, &[]);
    let (told, mut telling) = tokio::sync::mpsc::unbounded_channel();
    let lanes: Vec<_> = (0..4).map(|lane| start_runs(service.client(), lane.to_string(), told.clone())).collect();
    for _ in 0..100 {
        telling.recv().await.unwrap();
    }
    kill_process(pid(&service), Signal::TERM).unwrap();
    assert_eq!(end(service).await, 0);
    let service = Service::start(&scratch.0, &[]);
    let client = service.client();
    for lane in lanes {
        for id in lane.await.unwrap() {
            client.describe(&id, None).await.unwrap_or_else(|error| panic!("{id}: {error}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_with_a_failed_store_exits_with_1() {
    let scratch = Scratch::new("failed-store");
    let port_file = scratch.0.join("address");
    // Writing beyond the size limit fails instead of raising a signal.
    let mut child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_baton"), "serve"])
        .args(["--listen", "127.0.0.1:0", "--log", "error", "--port-file"])
        .arg(&port_file)
        .arg("--data-dir")
        .arg(scratch.0.join("data"))
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = child.stderr.take().unwrap();
    let service = Service::when_ready(child, &port_file);
    let client = service.client();
    client.start(&start("before"), None).await.unwrap();
    // From here no file can grow.
    prlimit(Some(pid(&service)), Resource::Fsize, Rlimit { current: Some(0), maximum: None }).unwrap();
    let refused = client.start(&start("after"), None).await.unwrap_err();
    assert!(!refused.had_no_side_effect(), "it is unknown what the disk has kept: {refused}");
    assert_eq!(end(service).await, 1);
    let mut text = String::new();
    said.read_to_string(&mut text).unwrap();
    let end = text.lines().last().unwrap_or_default();
    assert!(end.starts_with("baton serve: the store has failed and must be reopened: cannot write"), "{text}");
    for line in text.lines() {
        assert!(line.matches("store has failed").count() <= 1, "each line says it once: {text}");
    }

    let service = Service::start(&scratch.0, &[]);
    let client = Client::new(&service.url).unwrap().patience(Patience::None);
    client.describe("before", None).await.unwrap();
}
