//! Files of the service, as another user of the machine sees them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;

use crate::line::Line;
use crate::support::{Scratch, Service, baton};

/// Collects all files below a directory, with the permissions of group and others.
fn rights(path: &Path, found: &mut Vec<(String, u32)>) {
    let metadata = std::fs::symlink_metadata(path).unwrap();
    found.push((path.display().to_string(), metadata.permissions().mode() & 0o077));
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            rights(&entry.unwrap().path(), found);
        }
    }
}

#[tokio::test]
async fn no_other_user_can_open_a_file_of_the_service() {
    let scratch = Scratch::new("rights");
    // Small sizes cause new segments and compaction. The umask allows everything.
    let args = ["--store-memory-mib", "4", "--store-log-mib", "8"];
    let service = Service::start_after(&scratch.0, "umask 000", &args);
    let mut line = Line::to(service.url.trim_start_matches("http://"));
    for number in 0..100 {
        let start = json!({ "workflowId": format!("w{number}"), "workflowType": "t/1", "input": "x".repeat(200_000) });
        line.call("POST", "/v1/domains/default/workflows", &[], Some(&start)).await.json(201);
    }
    let mut found = Vec::new();
    rights(&scratch.0.join("data"), &mut found);
    assert!(found.len() > 3, "{found:?}");
    found.retain(|(_, others)| *others != 0);
    assert_eq!(found, [], "files that others can use");
}

#[test]
fn a_secret_under_a_misspelt_name_is_not_printed() {
    let scratch = Scratch::new("misspelt");
    let config = scratch.0.join("baton.toml");
    std::fs::write(&config, "[[credentials]]\nname = 'ops'\noperator = true\nsecret-acces-key = 'hunter2hunter2'\n")
        .unwrap();
    let refused = baton(&["serve", "--config", config.to_str().unwrap()]);
    assert!(!refused.status.success());
    let said = String::from_utf8([refused.stdout, refused.stderr].concat()).unwrap();
    assert!(said.contains("secret-acces-key"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}
