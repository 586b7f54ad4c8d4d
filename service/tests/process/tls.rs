//! The real binary with a certificate: refused starts, reloads, and the SWF protocol.

use std::path::Path;
use std::process::{Command, Stdio};

use client::{Access, Client, Patience};
use rustix::process::{Pid, Signal, kill_process};

use crate::READY;
use crate::certificates::{Authority, expired, not_yet};
use crate::hash::sha256_hex;
use crate::start;
use crate::support::{Scratch, Service, baton};

/// A service with TLS that logs to the file `log`.
fn serve(scratch: &Scratch, more: &[&str]) -> Service {
    let (certificate, key) = (scratch.0.join("tls.crt"), scratch.0.join("tls.key"));
    let args = ["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let mut service = Service::start_after(&scratch.0, "true", &[&args, more].concat());
    service.url = service.url.replace("http://127.0.0.1", "https://localhost");
    service
}

fn said(scratch: &Scratch) -> String {
    std::fs::read_to_string(scratch.0.join("log")).unwrap()
}

fn client(service: &Service, ca: &str) -> Client {
    let access = Access { ca: Some(ca.as_bytes()), ..Access::default() };
    Client::with_access(&service.url, access).unwrap().patience(Patience::None)
}

fn hang_up(service: &Service) {
    let pid = Pid::from_raw(i32::try_from(service.child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
}

/// Status and body of a request that trusts only this authority.
async fn get(service: &Service, ca: &str, path: &str) -> Result<(u16, String), reqwest::Error> {
    let ca = reqwest::Certificate::from_pem(ca.as_bytes()).unwrap();
    let http = reqwest::Client::builder().tls_certs_only([ca]).build().unwrap();
    let answer = http.get(format!("{}{path}", service.url)).send().await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_reloaded_on_sighup_and_a_broken_one_is_not() {
    let scratch = Scratch::new("tls-renewed");
    let (first, second) = (Authority::new(), Authority::new());
    first.issue(&["localhost"]).write(&scratch.0);
    let service = serve(&scratch, &[]);
    let kept = client(&service, &first.pem());
    kept.start(&start("w"), None).await.unwrap();
    assert_eq!(get(&service, &first.pem(), "/readyz").await.unwrap(), (200, READY.to_owned()));

    // A broken file: the certificate before it stays in use, and readiness warns.
    std::fs::write(scratch.0.join("tls.key"), "rubbish").unwrap();
    hang_up(&service);
    let ready = loop {
        let (status, ready) = get(&service, &first.pem(), "/readyz").await.unwrap();
        assert_eq!(status, 200);
        if ready != READY {
            break ready;
        }
    };
    assert!(ready.contains("tls: the new content of the file is invalid"), "{ready}");
    let log = said(&scratch);
    assert!(log.contains("tls.key: this is not PEM") && !log.contains("rubbish"), "{log}");
    let (_, metrics) = get(&service, &first.pem(), "/metrics").await.unwrap();
    assert!(metrics.contains("baton_reload_failing{file=\"tls\"} 1"), "{metrics}");

    // A valid certificate of another authority: only clients that trust that one can connect now.
    second.issue(&["localhost"]).write(&scratch.0);
    hang_up(&service);
    while get(&service, &second.pem(), "/readyz").await.is_err() {}
    assert_eq!(get(&service, &second.pem(), "/readyz").await.unwrap().1, READY);
    get(&service, &first.pem(), "/readyz").await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_certificate_is_reloaded_without_a_signal() {
    let scratch = Scratch::new("tls-noticed");
    let (first, second) = (Authority::new(), Authority::new());
    first.issue(&["localhost"]).write(&scratch.0);
    let service = serve(&scratch, &[]);
    client(&service, &first.pem()).ready().await.unwrap();
    second.issue(&["localhost"]).write(&scratch.0);
    let noticed = async {
        while get(&service, &second.pem(), "/readyz").await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), noticed).await.expect("the certificate is reloaded");
}

#[test]
fn a_remote_listener_needs_tls_and_credentials_or_options() {
    let scratch = Scratch::new("tls-beyond");
    Authority::new().issue(&["localhost"]).write(&scratch.0);
    let config = scratch.0.join("baton.toml");
    let text = format!("[[credentials]]\nname = 'ops'\nsecret-sha256 = '{}'\noperator = true\n", sha256_hex("o"));
    std::fs::write(&config, text).unwrap();
    let path = |name: &str| scratch.0.join(name).to_str().unwrap().to_owned();
    let (config, certificate, key) = (path("baton.toml"), path("tls.crt"), path("tls.key"));
    // No machine has this address, so the service ends when it listens.
    let serve = |args: &[&str]| {
        let output = baton(&[&["serve", "--listen", "192.0.2.1:1"], args].concat());
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let encrypts = ["--tls-cert", certificate.as_str(), "--tls-key", key.as_str()];
    let known = ["--config", config.as_str()];
    for (args, says) in [
        (vec![], "without authentication"),
        (vec!["--allow-remote-without-tls"], "without authentication"),
        (encrypts.to_vec(), "without authentication"),
        (vec!["--allow-remote-without-credentials"], "without encryption"),
        (known.to_vec(), "without encryption"),
        ([known.as_slice(), &["--allow-remote-without-tls"]].concat(), "192.0.2.1:1: "),
        ([known.as_slice(), &encrypts].concat(), "192.0.2.1:1: "),
        (vec!["--allow-remote-without-credentials", "--allow-remote-without-tls"], "192.0.2.1:1: "),
        ([known.as_slice(), &["--tls-cert", &certificate]].concat(), "`tls-cert` and `tls-key` require each other"),
    ] {
        let said = serve(&args);
        assert!(said.contains(says), "{args:?}: {said}");
    }
}

#[test]
fn unusable_tls_files_end_the_start_with_an_explanation() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = Scratch::new("tls-start");
    let authority = Authority::new();
    let (certificate, key) = authority.issue_with(&["localhost"], expired).write(&scratch.0);
    let serve = |listen: &str| {
        let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
        let anybody = "--allow-remote-without-credentials";
        let output = baton(&["serve", "--listen", listen, anybody, "--tls-cert", certificate, "--tls-key", key]);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    for (mode, is_told) in [(0o644, true), (0o600, false)] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        let said = serve("192.0.2.1:1");
        assert!(said.contains("it expired at 2001-01-01T00:00:00.000Z"), "{said}");
        let warning = format!("other users have access to the file `{}` (mode {mode:03o})", key.display());
        assert_eq!(said.contains(&warning), is_told, "{said}");
    }
    authority.issue_with(&["localhost"], not_yet).write(&scratch.0);
    assert!(serve("192.0.2.1:1").contains("it is not valid before 2999-01-01T00:00:00.000Z"));
    std::fs::write(&key, authority.issue(&["localhost"]).key).unwrap();
    let said = serve("127.0.0.1:0");
    assert!(said.contains("baton serve: TLS: ") && said.contains("does not belong to the certificate"), "{said}");
    std::fs::remove_file(&key).unwrap();
    assert!(serve("127.0.0.1:0").contains("tls.key: No such file"));
}

#[tokio::test(flavor = "multi_thread")]
async fn swf_and_the_command_line_work_over_tls() {
    let scratch = Scratch::new("tls-wires");
    let authority = Authority::new();
    authority.issue(&["localhost"]).write(&scratch.0);
    let service = serve(&scratch, &[]);
    let ca = reqwest::Certificate::from_pem(authority.pem().as_bytes()).unwrap();
    let http = reqwest::Client::builder().tls_certs_only([ca]).build().unwrap();
    let ask = http.post(&service.url).header("x-amz-target", "SimpleWorkflowService.ListDomains");
    let ask = ask.header("content-type", "application/x-amz-json-1.0");
    let answer = ask.body("{\"registrationStatus\":\"REGISTERED\"}").send().await.unwrap();
    let (status, text) = (answer.status().as_u16(), answer.text().await.unwrap());
    assert!(status == 200 && text.contains("\"default\""), "{status} {text}");
    client(&service, &authority.pem()).start(&start("w"), None).await.unwrap();
    let listed = list(&service.url, &scratch.0, &authority);
    assert!(listed.contains(" w "), "{listed}");
}

fn list(url: &str, scratch: &Path, authority: &Authority) -> String {
    let ca = scratch.join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    let output = command.args(["workflow", "list"]).env("BATON_URL", url).env("BATON_CA_FILE", ca).stdin(Stdio::null());
    let output = output.output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn the_command_line_authenticates_with_a_client_certificate() {
    let scratch = Scratch::new("tls-callers");
    let (own, callers) = (Authority::new(), Authority::new());
    own.issue(&["localhost"]).write(&scratch.0);
    let path = |name: &str| scratch.0.join(name).to_str().unwrap().to_owned();
    let (config, ca, callers_ca) = (path("baton.toml"), path("ca.crt"), path("callers.crt"));
    std::fs::write(&ca, own.pem()).unwrap();
    std::fs::write(&callers_ca, callers.pem()).unwrap();
    let text = "[[credentials]]\nname = 'ops'\ncertificates = ['CN=of a test']\noperator = true\n";
    std::fs::write(&config, text).unwrap();
    let shown = scratch.0.join("shown");
    std::fs::create_dir(&shown).unwrap();
    let (certificate, key) = callers.issue(&[]).write(&shown);
    let service = serve(&scratch, &["--config", &config, "--tls-client-ca", &callers_ca]);
    let run = |more: &[&str]| {
        let output = baton(&[&["domain", "list", "--url", &service.url, "--ca-file", &ca], more].concat());
        (output.status.code().unwrap(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let shows = ["--client-cert", certificate.to_str().unwrap(), "--client-key", key.to_str().unwrap()];
    let (code, said) = run(&shows);
    assert!(code == 0 && said.contains("default"), "{code}: {said}");
    let (code, said) = run(&[]);
    assert!(code == 1 && said.contains("(unauthorized)"), "{code}: {said}");
    let listed = baton(&["credential", "list", "--config", &config]);
    let said = String::from_utf8(listed.stdout).unwrap();
    assert!(said.contains("CN=of a test") && said.contains("as in the certificate"), "{said}");
    // A certificate of an authority that the service does not trust.
    own.issue(&[]).write(&shown);
    let (code, said) = run(&shows);
    assert!(code == 3 && said.contains("rejected the client certificate") && said.contains("--client-cert"), "{said}");

    // Without client certificates, a credential that names one could never be used.
    let (certificate, key) = (path("tls.crt"), path("tls.key"));
    let refused = |more: &[&str]| {
        let output = baton(&[&["serve", "--listen", "127.0.0.1:0"], more].concat());
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let encrypts = ["--tls-cert", certificate.as_str(), "--tls-key", key.as_str()];
    let said = refused(&[["--config", config.as_str()].as_slice(), &encrypts].concat());
    assert!(said.contains("credential `ops` has certificates") && said.contains("--tls-client-ca"), "{said}");
    assert!(refused(&["--tls-client-ca", &callers_ca]).contains("requires `tls-cert` and `tls-key`"));
    assert!(refused(&[["--tls-client-required"].as_slice(), &encrypts].concat()).contains("requires `tls-client-ca`"));
}
