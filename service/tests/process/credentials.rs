//! Credentials of a running service: reloaded as a whole when their file changes and at SIGHUP.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use client::{Client, Patience};

use crate::READY;
use crate::hash::sha256_hex;
use crate::support::{Scratch, Service, baton};

fn stanza(name: &str) -> String {
    format!("[[credentials]]\nname = '{name}'\nsecret-sha256 = '{}'\noperator = true\n", sha256_hex(name))
}

pub(crate) fn write(config: &Path, text: &str) {
    let partial = config.with_extension("partial");
    std::fs::write(&partial, text).unwrap();
    std::fs::rename(&partial, config).unwrap();
}

/// Status of a call with this secret.
pub(crate) async fn status(service: &Service, secret: &str) -> u16 {
    let client = Client::with_secret(&service.url, secret).unwrap().patience(Patience::None);
    client.domains().await.map_or_else(|error| error.status().unwrap(), |_| 200)
}

pub(crate) async fn text(service: &Service, path: &str, secret: &str) -> String {
    let ask = reqwest::Client::new().get(format!("{}{path}", service.url)).bearer_auth(secret);
    ask.send().await.unwrap().text().await.unwrap()
}

/// Waits for a condition. The service checks its file every few seconds.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_is_reloaded_and_an_invalid_one_never() {
    let scratch = Scratch::new("reload");
    let config = scratch.0.join("baton.toml");
    write(&config, &stanza("one"));
    let mut service = Service::start_after(&scratch.0, "umask 077", &["--config", config.to_str().unwrap()]);
    assert_eq!((status(&service, "one").await, status(&service, "two").await), (200, 401));
    write(&config, &stanza("two"));
    until("the change is seen", async || status(&service, "two").await == 200).await;
    assert_eq!(status(&service, "one").await, 401);
    assert_eq!(text(&service, "/readyz", "").await, READY);

    let log = || std::fs::read_to_string(scratch.0.join("log")).unwrap();
    let refused =
        async || text(&service, "/readyz", "").await.contains("credentials: the new content of the file is invalid");
    let is_counted =
        async || text(&service, "/metrics", "two").await.contains("baton_reload_failing{file=\"credentials\"} 1\n");
    for (bad, why) in [
        ("[[credentials]\n".to_owned(), "invalid TOML"),
        (format!("{}tabel = 'x'\n", stanza("one")), "unknown field `tabel`"),
        (format!("cach-mib = 'x'\n{}", stanza("one")), "unknown field `cach-mib`"),
        (stanza("one") + &stanza("one"), "two credentials have the name `one`"),
        (
            stanza("one") + "certificates = ['CN=one']\n",
            "credential `one` has certificates, but clients are not asked for any",
        ),
        (String::new(), "anyone would have full access"),
    ] {
        write(&config, &bad);
        until(why, async || log().contains(why)).await;
        assert!(refused().await && is_counted().await, "{why}");
        assert_eq!((status(&service, "one").await, status(&service, "two").await), (401, 200), "{why}");
        write(&config, &stanza("two"));
        until("it is mended", async || !refused().await).await;
    }

    let hangup = || {
        let done = Command::new("kill").args(["-HUP", &service.child.id().to_string()]).status().unwrap();
        assert!(done.success());
    };
    let limits = |rate: u64| format!("{}[[limits]]\ncredential = 'two'\nrequests-per-second = {rate}\n", stanza("two"));
    write(&config, &limits(1));
    hangup();
    until("the limit is seen", async || {
        let (one, other) = tokio::join!(status(&service, "two"), status(&service, "two"));
        one == 429 || other == 429
    })
    .await;
    write(&config, &limits(0));
    hangup();
    until("a limit out of its range", async || log().contains("`requests-per-second` is 0, expected 1 to 1000000"))
        .await;
    write(&config, &limits(1_000_000));
    hangup();
    until("the limit is raised", async || (status(&service, "two").await, status(&service, "two").await) == (200, 200))
        .await;

    write(&config, &format!("cache-mib = 7\n{}", stanza("three")));
    hangup();
    until("the signal is heard", async || status(&service, "three").await == 200).await;
    until("what needs a restart is told", async || log().contains("`cache-mib` of `")).await;
    std::fs::remove_file(&config).unwrap();
    hangup();
    until("a file that is gone is refused", refused).await;
    assert_eq!(status(&service, "three").await, 200);
    assert!(service.child.try_wait().unwrap().is_none(), "the signal does not end the service");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_expires_soon_is_logged_and_counted() {
    let scratch = Scratch::new("expiring");
    let config = scratch.0.join("baton.toml");
    let soon = history::Timestamp::from_millis(
        u64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap() + 86_400_000,
    );
    let text_of = format!("{}secrets = [{{ sha256 = '{}', expires = {soon} }}]\n", stanza("ops"), sha256_hex("soon"));
    write(&config, &text_of);
    let service = Service::start_after(&scratch.0, "umask 077", &["--config", config.to_str().unwrap()]);
    assert_eq!(status(&service, "soon").await, 200);
    until("the warning", async || {
        let log = std::fs::read_to_string(scratch.0.join("log")).unwrap();
        log.contains("a secret expires soon") && log.contains(&sha256_hex("soon")[..12])
    })
    .await;
    assert!(text(&service, "/metrics", "ops").await.contains("baton_secrets_expiring 1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_domain_in_a_credential_is_reported() {
    let scratch = Scratch::new("no-domain");
    let config = scratch.0.join("baton.toml");
    let named = |level: &str, domain: &str| {
        let rack = stanza("rack").replace("operator = true\n", "");
        format!("{}{rack}{level} = ['default', '{domain}', '*']\n", stanza("ops"))
    };
    let limit = "[[limits]]\ndomain = 'limitless'\nopen-runs = 1\n[[limits]]\ndomain = 'default'\nopen-runs = 9\n";
    write(&config, &format!("{}{limit}", named("readers", "shopp")));
    let service = Service::start_after(&scratch.0, "umask 077", &["--config", config.to_str().unwrap()]);
    let log = || std::fs::read_to_string(scratch.0.join("log")).unwrap();
    let says = |domain: &str, whose: &str| {
        format!("names the domain `{domain}`, which does not exist, for {whose}: correct the name, or create it")
    };
    until("the warning at the start", async || log().contains(&says("shopp", "credential `rack`"))).await;
    until("that of a limit", async || log().contains(&says("limitless", "a limit"))).await;
    let unknown = async |domain: &str| {
        let line = format!("baton_unknown_domains{{domain=\"{domain}\"}} 1\n");
        text(&service, "/metrics", "ops").await.contains(&line)
    };
    until("the metrics name both", async || unknown("shopp").await && unknown("limitless").await).await;
    assert!(!unknown("default").await && !unknown("*").await);
    let secret = scratch.0.join("secret");
    std::fs::write(&secret, "ops").unwrap();
    let doctor = baton(&["doctor", "--url", &service.url, "--secret-file", secret.to_str().unwrap()]);
    let rows = String::from_utf8(doctor.stdout).unwrap();
    let row =
        rows.lines().find(|row| row.trim_start().starts_with("domains")).unwrap_or_else(|| panic!("no row in {rows}"));
    assert!(row.contains("warning") && row.contains("`limitless`, `shopp`"), "{row}");
    let lists = named("runners", "x").replace("['default', 'x', '*']", "['default/*', 'sh%20op/PCI']");
    write(&config, &lists);
    until("the warning when it is read again", async || log().contains(&says("sh op", "credential `rack`"))).await;
    until("the metrics name it, too", async || unknown("sh op").await && !unknown("shopp").await).await;
    assert!(!log().contains("the domain `default`") && !log().contains("the domain `*`"), "{}", log());
    drop(service);
}

/// Output and messages of `baton credential …`, which must succeed.
fn credential(config: &Path, args: &[&str]) -> (String, String) {
    let output = baton(&[&["credential"], args, &["--config", config.to_str().unwrap()]].concat());
    let (out, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{args:?}: {said}");
    (out, said)
}

fn refused(config: &Path, args: &[&str], code: i32, says: &str) {
    let before = std::fs::read_to_string(config).unwrap();
    let output = baton(&[&["credential"], args, &["--config", config.to_str().unwrap()]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(said.contains(says), "{args:?}: {said}");
    assert_eq!(std::fs::read_to_string(config).unwrap(), before, "{args:?}: the file is unchanged");
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_created_listed_and_revoked_at_runtime() {
    let scratch = Scratch::new("live");
    let config = scratch.0.join("baton.toml");
    let kept = "# ours\ncache-mib = 7 # enough\n";
    std::fs::write(&config, kept).unwrap();
    let (first, said) = credential(&config, &["new", "ops", "--operator"]);
    assert!(first.starts_with("baton_") && first.trim_end().len() == "baton_".len() + 43, "{first}");
    assert!(!said.contains(first.trim_end()) && said.contains("within seconds"), "{said}");
    // Standard output is no terminal here, so that nothing may point at what follows.
    assert!(said.ends_with("its secret was written to standard output, and is not stored anywhere else\n"), "{said}");
    let text = std::fs::read_to_string(&config).unwrap();
    assert!(text.starts_with(kept) && !text.contains(first.trim_end()), "{text}");
    assert_eq!(config.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let service = Service::start_after(&scratch.0, "umask 077", &["--config", config.to_str().unwrap()]);
    assert_eq!(status(&service, first.trim_end()).await, 200);

    let (second, _) = credential(&config, &["new", "ops", "--expires", "90d"]);
    until("another secret", async || status(&service, second.trim_end()).await == 200).await;
    let (key, _) = credential(&config, &["new", "ops", "--access-key"]);
    let id = key.split(['=', ' ']).nth(1).unwrap();
    let prefix = |secret: &str| sha256_hex(secret.trim_end())[..12].to_owned();
    let (listed, _) = credential(&config, &["list"]);
    let rows: Vec<&str> = listed.trim_end().lines().collect();
    assert!(rows[1].trim_start().starts_with("ops") && rows[1].contains("operator"), "{listed}");
    assert!(rows[1].contains(&prefix(&first)) && rows[1].trim_end().ends_with("always"), "{listed}");
    assert!(rows[2].contains(&prefix(&second)) && rows[2].contains("until 20"), "{listed}");
    assert!(rows[3].contains(id) && rows.len() == 4, "{listed}");
    for secret in [&first, &second, &key] {
        assert!(!listed.contains(secret.trim_end().rsplit(['=', ' ']).next().unwrap()));
    }

    credential(&config, &["revoke", "ops", "--secret", &prefix(&first)]);
    until("the first is refused", async || status(&service, first.trim_end()).await == 401).await;
    assert_eq!(status(&service, second.trim_end()).await, 200);
    credential(&config, &["revoke", "ops", "--secret", id]);
    refused(&config, &["revoke", "ops", "--secret", &prefix(&second)], 1, "this is its last secret");
    refused(&config, &["revoke", "ops", "--secret", &prefix(&first)], 1, "has no secret");
    refused(&config, &["revoke", "ops"], 1, "this is the last credential");
    refused(&config, &["revoke", "nobody"], 1, "unknown credential `nobody`");
    refused(&config, &["new", "ops", "--metrics"], 2, "its permissions are in the file");
    refused(&config, &["new", "other"], 2, "has no permissions");
    let (third, _) = credential(&config, &["new", "other", "--operator", "--expires", "1h"]);
    until("another credential", async || status(&service, third.trim_end()).await == 200).await;
    credential(&config, &["revoke", "ops"]);
    until("the second is refused", async || status(&service, second.trim_end()).await == 401).await;
    let text = std::fs::read_to_string(&config).unwrap();
    assert!(text.starts_with(kept) && !text.contains("\"ops\""), "{text}");
    std::fs::write(&config, format!("{text}tabel = 1\n")).unwrap();
    refused(&config, &["new", "x", "--operator"], 2, "unknown field `tabel`");
}
