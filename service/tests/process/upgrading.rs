//! Promises of docs/upgrading.md: its format numbers, its commands, and credentials of earlier versions.

use std::path::Path;
use std::process::Command;

use client::Client;
use serde_json::Value;

use crate::support::{Scratch, Service, baton};

const PAGE: &str = include_str!("../../../docs/upgrading.md");

#[test]
fn the_version_command_shows_the_documented_format_numbers() {
    let output = baton(&["version", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["version"], env!("CARGO_PKG_VERSION"));
    let table = baton(&["version"]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.starts_with(&format!("baton {}, time-zone tables 20", env!("CARGO_PKG_VERSION"))), "{table}");
    let forms = said["forms"].as_array().unwrap();
    let documented =
        PAGE.split_once("## Format numbers").unwrap().1.lines().filter(|line| line.starts_with("| ")).count();
    // The documentation also has a header row and the table on DynamoDB, which is only shown if built with it.
    assert_eq!(forms.len() + if cfg!(feature = "dynamodb") { 1 } else { 2 }, documented);
    for row in forms {
        let (form, number) = (row["form"].as_str().unwrap(), row["number"].as_str().unwrap());
        assert!(PAGE.contains(&format!("\n| {form} | {number} | ")), "docs/upgrading.md does not say {form} {number}");
        assert!(table.lines().any(|line| line.contains(form) && line.trim_end().ends_with(number)), "{table}");
    }
}

#[test]
fn api_paths_start_with_the_version() {
    let document = service::api::document();
    let paths: Vec<&str> = document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    let beside = ["/", "/healthz", "/metrics", "/openapi.json", "/readyz"];
    let version = format!("/{}/", service::api::REST_VERSION);
    let strange: Vec<_> = paths.iter().filter(|path| !path.starts_with(&version) && !beside.contains(path)).collect();
    assert!(paths.len() > 40 && strange.is_empty(), "{strange:?}");
}

#[test]
fn the_commands_of_the_upgrade_page_work() {
    let scratch = Scratch::new("upgrading");
    let service = Service::start(&scratch.0, &[]);
    // The path that the page uses.
    std::os::unix::fs::symlink(scratch.0.join("data"), scratch.0.join("baton-data")).unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_baton")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let blocks = PAGE.split("```sh\n").skip(1).map(|block| block.split_once("```").unwrap().0);
    let lines: Vec<&str> = blocks.flat_map(str::lines).collect();
    assert_eq!(lines.len(), 6, "{lines:?}");
    for line in lines {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(&scratch.0).env("PATH", &path).env("BATON_URL", &service.url);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_of_an_earlier_version_stays_valid() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/upgrade/recorded");
    for of in std::fs::read_dir(recorded).unwrap() {
        let of = of.unwrap().path();
        let (scratch, config) = (Scratch::new("credentials-recorded"), of.join("baton.toml"));
        let service = Service::start(&scratch.0, &["--config", config.to_str().unwrap()]);
        let secret = std::fs::read_to_string(of.join("secret")).unwrap();
        let keeper = Client::with_secret(&service.url, secret.trim()).unwrap();
        assert_eq!(keeper.domains().await.unwrap().len(), 1, "{}", of.display());
        let stranger = Client::with_secret(&service.url, "another").unwrap();
        assert!(stranger.domains().await.is_err(), "{}", of.display());
    }
}
