//! Tokens of an issuer in a running service: keys in a file that changes, and the command line.

use std::path::Path;
use std::process::Command;

use crate::credentials::{status, text, until, write};
use crate::issuer::{Key, claims, jwks};
use crate::support::{Scratch, Service};

/// A token that is valid for an hour.
fn token(key: &Key) -> String {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    key.sign(&claims("ops", now + 3_600))
}

fn stanza(jwks_file: &Path) -> String {
    let keys = jwks_file.to_str().unwrap();
    let issuer = format!("name = 'corp'\nissuer = 'https://id.example'\naudiences = ['baton']\njwks-file = '{keys}'\n");
    format!("[[issuers]]\n{issuer}[[issuers.rules]]\nclaim = 'groups'\nhas = 'ops'\noperator = true\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_keys_in_a_file_are_reloaded_and_invalid_ones_never() {
    let (first, second) = (Key::ed("first"), Key::ed("second"));
    let scratch = Scratch::new("issuers");
    let (config, keys) = (scratch.0.join("baton.toml"), scratch.0.join("keys.json"));
    write(&keys, &jwks(&[&first]));
    write(&config, &stanza(&keys));
    let service = Service::start_after(&scratch.0, "umask 077", &["--config", config.to_str().unwrap()]);
    let (old, new) = (token(&first), token(&second));
    assert_eq!((status(&service, &old).await, status(&service, &new).await), (200, 401));

    // The command line sends a token like a secret.
    let file = scratch.0.join("token");
    std::fs::write(&file, format!("{old}\n")).unwrap();
    let listed = Command::new(env!("CARGO_BIN_EXE_baton"))
        .args(["domain", "list", "--url", &service.url, "--secret-file", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(listed.status.success(), "{listed:?}");
    std::fs::write(&file, &new).unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_baton"))
        .args(["domain", "list", "--url", &service.url, "--secret-file", file.to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("use another token of the issuer with --secret-file"), "{said}");
    assert!(!said.contains(&new), "{said}");

    write(&keys, &jwks(&[&second]));
    until("the change is seen", async || status(&service, &new).await == 200).await;
    assert_eq!(status(&service, &old).await, 401);
    write(&keys, "{}");
    let is_refused =
        async || text(&service, "/readyz", "").await.contains("credentials: the new content of the file is invalid");
    until("it is refused", is_refused).await;
    assert_eq!((status(&service, &old).await, status(&service, &new).await), (401, 200));
    let log = std::fs::read_to_string(scratch.0.join("log")).unwrap();
    assert!(log.contains("issuer `corp`") && log.contains("not a JSON Web Key Set"), "{log}");
    assert!(log.contains("its key is not a key of this issuer"), "the log has the reason: {log}");
    assert!(!log.contains(&old) && !log.contains(&new), "the log has no token: {log}");
    // A key file that is added to the configuration is watched, too.
    let others = scratch.0.join("others.json");
    write(&others, &jwks(&[&second]));
    write(&config, &stanza(&others));
    until("the file is valid again", async || !is_refused().await).await;
    write(&others, &jwks(&[&first]));
    until("the other file is reloaded", async || status(&service, &old).await == 200).await;
}
