//! Progress of long commands: on a terminal, without one, and switched off.

use std::io::Read as _;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::start;
use crate::support::{Scratch, Service};

/// Output of a command, and what its terminal shows besides.
fn at_a_terminal(args: &[&str]) -> (String, String) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    tcsetwinsize(&terminal, Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let side = std::fs::File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_baton"))
        .args(args)
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(side)
        .spawn()
        .unwrap();
    let reader = std::thread::spawn(move || {
        let (mut shown, mut bytes) = (Vec::new(), [0; 4096]);
        // Reading fails once the command has closed the terminal.
        while let Ok(count) = std::fs::File::from(terminal.try_clone().unwrap()).read(&mut bytes) {
            shown.extend_from_slice(&bytes[..count]);
        }
        String::from_utf8(shown).unwrap()
    });
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
    (String::from_utf8(output.stdout).unwrap(), reader.join().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_progress_bar_is_shown_only_on_a_terminal() {
    let scratch = Scratch::new("progress");
    let data = scratch.0.join("data").to_str().unwrap().to_owned();
    let mut service = Service::start(&scratch.0, &[]);
    for number in 0..3 {
        service.client().start(&start(&format!("w{number}")), None).await.unwrap();
    }
    service.kill();
    drop(service);
    let fsck = ["fsck", "--data-dir", &data];
    let (said, shown) = at_a_terminal(&fsck);
    assert_eq!(said, "all runs are valid: 3 runs with 6 events\n");
    assert!(shown.contains("domain default [") && shown.contains("/3 runs"), "{shown:?}");
    let (said, shown) = at_a_terminal(&[&fsck[..], &["--quiet"]].concat());
    assert_eq!((said.as_str(), shown.as_str()), ("all runs are valid: 3 runs with 6 events\n", ""));
    let output = Command::new(env!("CARGO_BIN_EXE_baton")).args(fsck).output().unwrap();
    let (said, shown) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!((said.as_str(), shown.as_str()), ("all runs are valid: 3 runs with 6 events\n", ""));
    for command in [&["compact", "--data-dir", &data][..], &["backup", "ARCHIVE", "--data-dir", &data]] {
        let archive = scratch.0.join("archive");
        let args: Vec<_> =
            command.iter().map(|arg| if *arg == "ARCHIVE" { archive.to_str().unwrap() } else { arg }).collect();
        let (said, _) = at_a_terminal(&args);
        assert_eq!(said.lines().count(), 1, "only the final state is printed: {said}");
    }
}
