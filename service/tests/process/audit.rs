//! The audit log of a real process: killed under load, on a full disk, and read and verified by the command line.

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;
use service::audit::verify;

use crate::start;
use crate::support::{Scratch, Service, baton};

/// Text of all files of the log.
fn text(directory: &std::path::Path) -> String {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_every_acknowledged_change_has_an_entry() {
    let scratch = Scratch::new("audit-kill");
    let directory = scratch.0.join("audit");
    let args = ["--audit-log", directory.to_str().unwrap(), "--store", "memory"];
    let mut acknowledged: Vec<String> = Vec::new();
    let mut entries = 0;
    for round in 0..3 {
        let mut service = Service::start(&scratch.0, &args);
        let (told, mut telling) = tokio::sync::mpsc::unbounded_channel();
        let starters: Vec<_> = (0..4)
            .map(|lane| {
                let (client, told) = (service.client(), told.clone());
                tokio::spawn(async move {
                    for number in 0.. {
                        let id = format!("{round}-{lane}-{number}");
                        if client.start(&start(&id), None).await.is_err() {
                            break;
                        }
                        let _ = told.send(id);
                    }
                })
            })
            .collect();
        for _ in 0..100 {
            acknowledged.push(telling.recv().await.unwrap());
        }
        service.kill();
        for starter in starters {
            starter.await.unwrap();
        }
        while let Ok(id) = telling.try_recv() {
            acknowledged.push(id);
        }
        // The next start sets aside an incomplete last entry.
        drop(Service::start(&scratch.0, &args));
        let checked = verify(&directory, None).unwrap();
        assert!(checked.entries >= entries + 100, "{checked:?}");
        entries = checked.entries;
    }
    let text = text(&directory);
    for id in &acknowledged {
        assert!(text.contains(&format!("\"workflowId\":\"{id}\"")), "{id} has no entry");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_nothing_changes_until_there_is_space() {
    let scratch = Scratch::new("audit-full");
    let directory = scratch.0.join("audit");
    let args = ["--audit-log", directory.to_str().unwrap(), "--store", "memory"];
    // Writing beyond this size fails as on a full disk, after a part of the data.
    let mut service = Service::start_after(&scratch.0, "trap '' XFSZ; ulimit -S -f 16", &args);
    let client = service.client();
    let (mut started, mut refused) = (0, None);
    while refused.is_none() {
        assert!(started < 10_000, "the disk is never full");
        match client.start(&start(&format!("w-{started}")), None).await {
            Ok(_) => started += 1,
            Err(error) => refused = Some(error),
        }
    }
    let refused = refused.unwrap();
    assert_eq!((refused.code(), refused.status()), (Some("audit-log-unavailable"), Some(503)), "{refused}");
    assert_eq!(client.count(&client::Filter::default()).await.unwrap().count, started);
    let again = client.start(&start("again"), None).await.unwrap_err();
    assert_eq!(again.code(), Some("audit-log-unavailable"));
    let checked = verify(&directory, None).unwrap();
    assert!(!text(&directory).contains("again"));
    let pid = Pid::from_raw(i32::try_from(service.child.id()).unwrap()).unwrap();
    let unlimited = Rlimit { current: None, maximum: None };
    prlimit(Some(pid), Resource::Fsize, unlimited).unwrap();
    client.start(&start("again"), None).await.unwrap();
    let after = verify(&directory, Some(&checked.head)).unwrap();
    assert!(after.entries > checked.entries && text(&directory).contains("again"));
    let log = std::fs::read_to_string(scratch.0.join("log")).unwrap();
    let told = log.lines().filter(|line| line.contains("the audit log cannot be written")).count();
    assert!((1..=2).contains(&told), "{log}");
    let metrics = client.metrics().await.unwrap();
    assert!(metrics.contains("baton_audit_log_failures_total 2\n"), "{metrics}");
    service.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_shows_and_verifies_the_audit_log() {
    let scratch = Scratch::new("audit-cli");
    let directory = scratch.0.join("audit");
    let log = directory.to_str().unwrap();
    let mut service = Service::start(&scratch.0, &["--audit-log", log, "--store", "memory"]);
    let client = service.client();
    // The start is refused, and the log contains the name.
    client.start(&start("red\u{1b}[31m"), None).await.unwrap_err();
    client.start(&start("w"), None).await.unwrap();
    client.start(&start("w"), None).await.unwrap_err();
    let list = |args: &[&str]| {
        let mut all = vec!["audit", "list", "--url", &service.url];
        all.extend(args);
        let output = baton(&all);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let listed = list(&[]);
    assert!(text(&directory).contains("\"peer\":\"127.0.0.1:"));
    assert!(listed.contains("workflow=w ") && listed.contains("of 5: 409 workflow-already-open"), "{listed}");
    assert!(!listed.contains('\u{1b}') && listed.contains("red"), "{listed}");
    let last: Value = serde_json::from_str(&list(&["--limit", "1", "--json"])).unwrap();
    assert_eq!((&last[0]["requestSeq"], last.as_array().unwrap().len()), (&Value::from(5), 1), "{last}");
    let first: Value = serde_json::from_str(&list(&["--after", "2", "--limit", "1", "--json"])).unwrap();
    assert_eq!(first[0]["workflowId"], "w", "{first}");

    let verified = baton(&["audit", "verify", log]);
    let said = String::from_utf8(verified.stdout).unwrap();
    let head = said.lines().find_map(|line| line.strip_prefix("head     ")).unwrap().to_owned();
    assert!(verified.status.success() && said.contains("entries  6\n"), "{said}");
    assert_eq!(last[0]["hash"], *head);
    service.kill();
    let file = directory.join("audit-00000000000000000001.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let cut = text.lines().take(5).collect::<Vec<_>>().join("\n") + "\n";
    for (tampered, args, says) in [
        (text.replace("\"workflowId\":\"w\"", "\"workflowId\":\"v\""), vec![], "line 3: was changed"),
        (cut, vec!["--head", head.as_str()], "no entry has the hash"),
    ] {
        std::fs::write(&file, tampered).unwrap();
        let output = baton(&[vec!["audit", "verify", log], args].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(says) && said.contains(file.to_str().unwrap()), "{said}");
    }
    let again =
        baton(&["serve", "--listen", "127.0.0.1:0", "--store", "memory", "--audit-log", file.to_str().unwrap()]);
    assert!(!again.status.success(), "a file is not a directory");
}
