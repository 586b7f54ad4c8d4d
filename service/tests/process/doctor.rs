//! `baton doctor` over a running service.

use std::time::Duration;

use client::Patience;
use client::body::{CompleteTurn, PollDecider};

use crate::support::{Scratch, Service, baton};

#[tokio::test(flavor = "multi_thread")]
async fn it_says_what_is_wrong_with_a_service_and_how_bad_it_is_by_its_exit_code() {
    let scratch = Scratch::new("doctor");
    let mut service = Service::start(&scratch.0, &[]);
    let url = service.url.clone();
    let doctor = |args: &[&str]| {
        let output = baton(&[&["doctor", "--url", url.as_str()], args].concat());
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let (code, said) = doctor(&[]);
    assert_eq!((code, said.contains("all is well")), (Some(0), true), "{said}");
    let (code, said) = doctor(&["--all"]);
    for check in ["ready", "version", "clock", "retention", "descriptors", "secrets", "files", "lists", "stuck runs"] {
        assert!(
            code == Some(0) && said.lines().any(|line| line.trim_start().starts_with(check) && line.contains(" ok ")),
            "{said}"
        );
    }

    // A run that waits for nothing.
    let start = ["workflow", "start", "w", "--type", "t", "--list", "l", "--url", &url];
    assert!(baton(&start).status.success());
    let client = service.client();
    let turn = client.poll_decider("l", &PollDecider::default(), Duration::from_secs(5)).await.unwrap().unwrap();
    client.complete_turn(&turn.token, &CompleteTurn::default(), Patience::None).await.unwrap();
    let (code, said) = doctor(&[]);
    assert!(code == Some(1) && said.contains("stuck runs") && said.contains("1 in default"), "{said}");

    service.kill();
    let (code, said) = doctor(&[]);
    assert!(code == Some(2) && said.contains("is `baton serve` running there?"), "{said}");
}
