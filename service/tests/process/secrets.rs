//! Secrets in files: the warning about a readable configuration, and the rotation of the service's own secret.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use client::body::PollDecider;
use client::tasks::Outcome;
use client::{Client, Patience};
use history::{Decision, SucceedWorkflow};

use crate::hash::sha256_hex;
use crate::start;
use crate::support::{Scratch, Service, baton};

#[test]
fn a_readable_configuration_with_credentials_causes_a_warning() {
    let scratch = Scratch::new("open-config");
    let config = scratch.0.join("baton.toml");
    for (mode, text, is_warned) in [
        (
            0o644,
            format!("[[credentials]]\nname = 'ops'\nsecret-sha256 = '{}'\noperator = true\n", sha256_hex("o")),
            true,
        ),
        (
            0o600,
            format!("[[credentials]]\nname = 'ops'\nsecret-sha256 = '{}'\noperator = true\n", sha256_hex("o")),
            false,
        ),
        (0o660, "[lambda]\ncharge = 'curl https://pay.example?key=k'\n".to_owned(), true),
        (0o644, "log-json = true\n".to_owned(), false),
    ] {
        std::fs::write(&config, &text).unwrap();
        std::fs::set_permissions(&config, std::fs::Permissions::from_mode(mode)).unwrap();
        let path = config.to_str().unwrap();
        // No machine has this address, so the service ends before it serves.
        let told = ["--allow-remote-without-credentials", "--allow-remote-without-tls"];
        let output = baton(&[&["serve", "--config", path, "--listen", "192.0.2.1:1"], told.as_slice()].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        let warning = format!("other users have access to the configuration `{path}` (mode {mode:03o})");
        assert_eq!(said.contains(&warning), is_warned, "{text}{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_operators_rotate_the_secret_and_tasks_stay_valid() {
    let scratch = Scratch::new("rotate");
    let config = scratch.0.join("baton.toml");
    let text = format!(
        "[[credentials]]\nname = 'ops'\nsecret-sha256 = '{}'\noperator = true\n\n\
         [[credentials]]\nname = 'app'\nsecret-sha256 = '{}'\napplications = ['*']\n",
        sha256_hex("ops"),
        sha256_hex("app"),
    );
    std::fs::write(&config, text).unwrap();
    let service = Service::start(&scratch.0, &["--config", config.to_str().unwrap()]);
    let rotate = |secret: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.args(["secret", "rotate", "--url", &service.url]).args(more).env("BATON_SECRET", secret);
        command.stdin(Stdio::null()).output().unwrap()
    };
    let ops = Client::with_secret(&service.url, "ops").unwrap().patience(Patience::None);
    let take = async |id: &str| {
        ops.start(&start(id), None).await.unwrap();
        let poll = PollDecider::default();
        ops.poll_decider("deciders", &poll, Duration::from_secs(5)).await.unwrap().expect("a turn").token
    };
    let complete = async |token: &str| {
        let decisions = vec![Decision::from(SucceedWorkflow::default())];
        let complete = client::body::CompleteTurn { decisions, ..client::body::CompleteTurn::default() };
        ops.complete_turn(token, &complete, Patience::None).await
    };
    let (first, second) = (take("first").await, take("second").await);
    let refused = rotate("app", &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("forbidden"));
    let rotated = rotate("ops", &["--overlap", "1h"]);
    assert!(rotated.status.success(), "{}", String::from_utf8_lossy(&rotated.stderr));
    let told: client::body::RotatedSecret = serde_json::from_slice(&rotated.stdout).unwrap();
    assert_eq!(told.previous_until, told.from.plus(history::Duration::from_secs(3_600)));
    assert!(matches!(complete(&first).await, Ok(Outcome::Recorded)));
    assert!(rotate("ops", &["--overlap", "0s"]).status.success());
    let refused = complete(&second).await.unwrap_err();
    assert_eq!(refused.status(), Some(400), "{refused}");
    let file = scratch.0.join("ops.secret");
    std::fs::write(&file, "ops\n").unwrap();
    assert!(rotate("", &["--secret-file", file.to_str().unwrap()]).status.success(), "from a file");
    assert!(rotate("app", &["--secret-file", file.to_str().unwrap()]).status.success(), "the file takes precedence");
    for (file, says) in [("/nowhere", "--secret-file /nowhere"), ("/dev/null", "the file is empty")] {
        let refused = rotate("ops", &["--secret-file", file]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(says));
    }
    let shown = rotate("", &["--secret", "ops"]);
    assert_eq!(shown.status.code(), Some(2), "other users could have read it");
    let third = take("third").await;
    assert!(matches!(complete(&third).await, Ok(Outcome::Recorded)));
}
