//! Load on a service whose machine is lost, and standbys that follow it. For tests of archives in directories and in
//! buckets.

use std::process::{Child, Command, Stdio};

use client::Client;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::start;
use crate::support::{Scratch, Service};

pub(crate) fn path(scratch: &Scratch, name: &str) -> String {
    scratch.0.join(name).to_str().unwrap().to_owned()
}

pub(crate) async fn is_there(client: &Client, id: &str) -> bool {
    client.describe(id, None).await.is_ok()
}

/// The current time in the form of `--to`, at the end of its millisecond.
pub(crate) fn now() -> String {
    #[expect(clippy::disallowed_methods, reason = "what a person at a clock would say")]
    let millis = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let said = millis();
    while millis() <= said {
        std::hint::spin_loop();
    }
    history::Timestamp::from_millis(u64::try_from(said).unwrap()).to_string()
}

/// Starts runs `LANE-0`, `LANE-1`, … until the service ends, and returns them with the times of their responses.
pub(crate) fn load(service: &Service, lane: u64) -> JoinHandle<Vec<(Instant, String)>> {
    let client = service.client();
    tokio::spawn(async move {
        let mut acknowledged = Vec::new();
        for number in 0.. {
            let id = format!("{lane}-{number}");
            match client.start(&start(&id), None).await {
                Ok(_) => acknowledged.push((Instant::now(), id)),
                Err(_) => break,
            }
        }
        acknowledged
    })
}

/// A `baton standby` that is killed when the test ends.
pub(crate) struct Follower(Child);

impl Follower {
    /// Starts this `baton` as a standby of an archive.
    pub(crate) fn start(mut baton: Command, archive: &str, data: &str, more: &[&str]) -> Self {
        baton.args(["standby", "--follow", archive, "--data-dir", data, "--json"]).args(more);
        Self(baton.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// First line of its output.
    pub(crate) fn first_line(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        let out = self.0.stdout.as_mut().unwrap();
        let mut byte = [0];
        while line.last() != Some(&b'\n') {
            std::io::Read::read_exact(out, &mut byte).unwrap();
            line.extend(byte);
        }
        line
    }

    /// Exit code and the rest of the output.
    pub(crate) fn said(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        std::io::Read::read_to_string(self.0.stdout.as_mut().unwrap(), &mut said).unwrap();
        (self.0.wait().unwrap().code(), said)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
