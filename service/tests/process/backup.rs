//! Backups, restores, shipping and standbys with real processes: all acknowledged changes are checked.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use client::body::{CompleteTurn, PollDecider};
use client::{Client, Patience};
use history::{Decision, SucceedWorkflow};
use tokio::time::Instant;

use crate::lost::{Follower, is_there, load, now, path};
use crate::start;
use crate::support::{Scratch, Service, baton};

/// Output of a command, which must succeed.
fn output_of(args: &[&str]) -> String {
    let output = baton(args);
    let (said, failed) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(0), "{args:?}: {said}{failed}");
    said
}

/// Error of a command, which must fail.
fn refused(args: &[&str]) -> String {
    let output = baton(args);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// A service with the data directory `NAME/data`.
fn serve(scratch: &Scratch, name: &str, args: &[&str]) -> Service {
    Service::start(&scratch.0.join(name), args)
}

async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), wait).await.is_ok(), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_service_is_backed_up_and_restored() {
    let scratch = Scratch::new("backup");
    let (data, archive) = (path(&scratch, "data"), path(&scratch, "archive"));
    let mut service = Service::start(&scratch.0, &[]);
    let client = service.client();
    for number in 0..5 {
        client.start(&start(&format!("w{number}")), None).await.unwrap();
    }
    let turn =
        client.poll_decider("deciders", &PollDecider::default(), Duration::from_secs(30)).await.unwrap().unwrap();
    let said = output_of(&["backup", &archive, "--data-dir", &data]);
    assert!(said.contains("contains everything acknowledged before") && said.contains("new base with"), "{said}");
    client.start(&start("later"), None).await.unwrap();
    let said = output_of(&["backup", &archive, "--data-dir", &data]);
    assert!(said.contains("no new base needed"), "{said}");
    let instant = client.start(&start("last"), None).await.map(|_| now()).unwrap();
    client.start(&start("too late"), None).await.unwrap();
    output_of(&["backup", &archive, "--data-dir", &data]);
    let said = output_of(&["backup", "verify", &archive]);
    let row: Vec<_> = said.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[3]), ("1", "8"), "{said}");
    assert!(said.ends_with("all files are intact\n"), "{said}");
    assert!(refused(&["restore", &archive, "--data-dir", &data]).contains("in use by process"));
    service.kill();
    assert!(refused(&["restore", &archive, "--data-dir", &data]).contains("contains a store"));

    for (name, to, there, missing) in
        [("whole", None, "too late", "never"), ("instant", Some(instant.as_str()), "last", "too late")]
    {
        let restored = path(&scratch, &format!("{name}/data"));
        let to: Vec<&str> = to.into_iter().flat_map(|to| ["--to", to]).collect();
        let said = output_of(&[&["restore", &archive, "--data-dir", &restored][..], &to].concat());
        assert!(said.contains("contains the store as of"), "{said}");
        assert!(output_of(&["fsck", "--data-dir", &restored]).starts_with("all runs are valid: "));
        let service = serve(&scratch, name, &[]);
        let client = service.client();
        assert!(is_there(&client, there).await && !is_there(&client, missing).await, "{name}");
        // Tasks of the old service may refer to events that the restored one does not have.
        let decisions = vec![Decision::from(SucceedWorkflow::default())];
        let complete = CompleteTurn { decisions, ..CompleteTurn::default() };
        let stale = client.complete_turn(&turn.token, &complete, Patience::None).await;
        assert!(!matches!(stale, Ok(client::tasks::Outcome::Recorded)), "{stale:?}");
        drop(service);
        assert!(output_of(&["fsck", "--data-dir", &restored]).starts_with("all runs are valid: "));
    }
    let said = refused(&["restore", &archive, "--data-dir", &path(&scratch, "x"), "--to", "2001-01-01T00:00:00Z"]);
    assert!(said.contains("begins later") && said.contains("its first base is from 20"), "{said}");
    assert_eq!(baton(&["backup"]).status.code(), Some(2));
    assert!(refused(&["backup", &archive, "--data-dir", &path(&scratch, "nowhere")]).contains("there is no store"));
    // Also from a data directory that is not in use.
    output_of(&["backup", &archive, "--data-dir", &data]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_lost_under_load_is_restored_up_to_its_last_second() {
    let scratch = Scratch::new("lost");
    let archive = path(&scratch, "archive");
    let mut service = Service::start(&scratch.0, &["--ship-to", &archive]);
    let began = Instant::now();
    let starters: Vec<_> = (0..4).map(|lane| load(&service, lane)).collect();
    tokio::time::sleep_until(began + Duration::from_millis(2_500)).await;
    let end = Instant::now();
    service.kill();
    std::fs::remove_dir_all(scratch.0.join("data")).unwrap();
    let restored = path(&scratch, "restored/data");
    output_of(&["restore", &archive, "--data-dir", &restored]);
    assert!(output_of(&["fsck", "--data-dir", &restored]).starts_with("all runs are valid: "));
    let service = serve(&scratch, "restored", &[]);
    let (client, mut checked) = (service.client(), 0);
    for starter in starters {
        for (at, id) in starter.await.unwrap() {
            if at + Duration::from_secs(1) < end {
                checked += 1;
                assert!(is_there(&client, &id).await, "{id} was acknowledged {:?} before the end", end - at);
            }
        }
    }
    assert!(checked > 10, "{checked} were checked");
}

/// A `baton standby` with a listener, and its address.
fn follow(archive: &str, data: &str) -> (Follower, String) {
    let baton = Command::new(env!("CARGO_BIN_EXE_baton"));
    let mut follower = Follower::start(baton, archive, data, &["--wait", "30s", "--listen", ":0"]);
    let said: serde_json::Value = serde_json::from_slice(&follower.first_line()).unwrap();
    let address = said["listens"].as_str().unwrap().to_owned();
    (follower, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_takes_over_a_running_service_and_its_tasks() {
    let scratch = Scratch::new("standby");
    let (archive, copy) = (path(&scratch, "archive"), path(&scratch, "copy/data"));
    let mut service = Service::start(&scratch.0, &["--ship-to", &archive]);
    let client = service.client();
    client.start(&start("first"), None).await.unwrap();
    let turn =
        client.poll_decider("deciders", &PollDecider::default(), Duration::from_secs(30)).await.unwrap().unwrap();
    until("shipped", || async { Path::new(&archive).join("0000000001/NEWEST").exists() }).await;
    let (follower, address) = follow(&archive, &copy);
    let watched = Client::new(&format!("http://{address}")).unwrap();
    until("followed", || async { Path::new(&copy).join("COPY").exists() }).await;
    until("ready to take over", || async { watched.ready().await.is_ok_and(|readiness| readiness.ready) }).await;
    let metrics = watched.metrics().await.unwrap();
    assert!(
        metrics.contains("\nbaton_standby_lag_seconds ") && metrics.contains("\nbaton_standby_failing 0"),
        "{metrics}"
    );
    let starter = load(&service, 0);
    let said = output_of(&["standby", "promote", "--data-dir", &copy, "--json"]);
    assert_eq!(said, "{\"promoted\":true}\n");
    let (code, said) = follower.said();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(r#""promoted":true"#) && said.contains(r#""isAll":true"#), "{said}");
    assert!(said.contains(r#""lagMs""#), "{said}");
    // The old service has ended by itself.
    let acknowledged = starter.await.unwrap();
    assert_eq!(service.child.wait().unwrap().code(), Some(1));
    let output = baton(&["serve", "--data-dir", &path(&scratch, "data"), "--listen", ":0", "--ship-to", &archive]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("it has taken over, and this store must not continue"), "{said}");
    // Without the archive it cannot know, so an operator must confirm that no other store has taken over.
    let output = baton(&["serve", "--data-dir", &path(&scratch, "data"), "--listen", ":0"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("was shipped to `{archive}`")) && said.contains("`--stop-shipping`"), "{said}");
    drop(Service::start(&scratch.0, &["--stop-shipping"]));
    let both =
        ["serve", "--data-dir", &path(&scratch, "data"), "--listen", ":0", "--stop-shipping", "--ship-to", &archive];
    let said = String::from_utf8(baton(&both).stderr).unwrap();
    assert!(said.contains("omit one of them"), "{said}");

    let service = serve(&scratch, "copy", &["--ship-to", &archive]);
    let client = service.client();
    assert!(!acknowledged.is_empty());
    for (_, id) in &acknowledged {
        assert!(is_there(&client, id).await, "{id} of {}", acknowledged.len());
    }
    // No event was lost, so the started task is still valid.
    let decisions = vec![Decision::from(SucceedWorkflow::default())];
    let complete = CompleteTurn { decisions, ..CompleteTurn::default() };
    client.complete_turn(&turn.token, &complete, Patience::None).await.unwrap();
    drop(service);
    assert!(output_of(&["fsck", "--data-dir", &copy]).starts_with("all runs are valid: "));
    assert!(refused(&["standby", "promote", "--data-dir", &copy]).contains("is not a standby"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_archive_is_reported_and_delays_nothing() {
    let scratch = Scratch::new("away");
    let (archive, elsewhere) = (path(&scratch, "archive"), path(&scratch, "elsewhere"));
    let service = Service::start(&scratch.0, &["--ship-to", &archive]);
    let client = service.client();
    let metrics = || async { client.metrics().await.unwrap() };
    until("ships", || async { metrics().await.contains("baton_ship_failing 0\n") }).await;
    until("a base", || async { Path::new(&archive).join("0000000001/NEWEST").exists() }).await;
    std::fs::rename(&archive, &elsewhere).unwrap();
    client.start(&start("w"), None).await.unwrap();
    until("the failure is reported", || async { metrics().await.contains("baton_ship_failing 1\n") }).await;
    let lag = metrics().await;
    let lag = lag.lines().find_map(|line| line.strip_prefix("baton_ship_lag_seconds ")).unwrap();
    assert!(lag.parse::<f64>().unwrap() > 0.0, "{lag}");
    let ready = client.ready().await;
    assert!(format!("{ready:?}").contains("archive-behind"), "{ready:?}");
    client.start(&start("w2"), None).await.unwrap();
    std::fs::rename(&elsewhere, &archive).unwrap();
    until("it is shipped", || async {
        let metrics = metrics().await;
        metrics.contains("baton_ship_failing 0\n") && metrics.contains("baton_ship_lag_seconds 0.0\n")
    })
    .await;
    output_of(&["backup", "verify", &archive]);
}

#[test]
fn the_commands_of_the_documentation_work() {
    for page in [include_str!("../../../docs/backup.md")] {
        let scratch = Scratch::new("documented");
        let _service = Service::start(&scratch.0, &[]);
        // The path that the pages use.
        std::os::unix::fs::symlink(scratch.0.join("data"), scratch.0.join("baton-data")).unwrap();
        let (_, block) = page.split_once("```sh\nbaton backup backups").unwrap();
        let (block, _) = block.split_once("```").unwrap();
        let block = format!("baton backup backups{block}");
        let lines: Vec<_> = block.lines().filter(|line| !line.starts_with("baton serve")).collect();
        assert!(lines.len() >= 3, "{block}");
        let bin = Path::new(env!("CARGO_BIN_EXE_baton")).parent().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        for line in lines {
            let output =
                Command::new("sh").args(["-c", line]).current_dir(&scratch.0).env("PATH", &path).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
        }
    }
}
