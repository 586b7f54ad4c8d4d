//! The nodes of a drill: processes that are killed, paused and restarted.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use client::{Client, Patience};
use engine::{Clock, SystemClock};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::checks::{Standstill, What};
use crate::failed::Failed;
use crate::service::{Counters, other};

/// Maximum time until a node is ready.
const READY_WAIT: Duration = Duration::from_secs(30);

/// Maximum time for a node to stop. It is twice the shutdown limit of `baton serve`.
const STOP_WAIT: Duration = Duration::from_secs(20);

/// Maximum time until a node under load has recorded something. Our choice: within this time, timers expire in the
/// shards that the node sweeps.
const WORK_WAIT: Duration = Duration::from_secs(20);

/// Interval at which a node's counters are read. If it is killed, later counts are lost.
const WATCH_EVERY: Duration = Duration::from_millis(250);

struct Node {
    child: Child,
    address: SocketAddr,
    client: Client,
    /// Counters of the node's current process.
    counters: Counters,
}

/// Way in which the process of a node ends before it is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// A graceful shutdown.
    Stopped,
    Killed,
}

/// All nodes of a drill.
pub(super) struct Nodes {
    all: Vec<Node>,
    program: PathBuf,
    arguments: Vec<String>,
    /// Counters of processes that have ended.
    past: Counters,
}

/// Starts a node; port 0 picks a free port.
async fn start(program: &Path, arguments: &[String], port: u16) -> Result<(Child, SocketAddr), Failed> {
    let port_file: PathBuf =
        std::env::temp_dir().join(format!("baton-drill-{}-{:x}", std::process::id(), fastrand::u64(..)));
    let mut command = Command::new(program);
    command.args(["serve", "--listen", &format!("127.0.0.1:{port}")]);
    command.arg("--port-file").arg(&port_file).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    let spawn =
        |command: &mut Command| command.spawn().map_err(|error| other(format!("a node could not be started: {error}")));
    let mut child = spawn(&mut command)?;
    let address = async {
        loop {
            if let Ok(text) = std::fs::read_to_string(&port_file)
                && let Ok(address) = text.trim().parse()
            {
                return Ok::<_, Failed>(address);
            }
            if let Ok(Some(_)) = child.try_wait() {
                // The table was failing when the node started. In production, a supervisor restarts such a node.
                child = spawn(&mut command)?;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let late = |_| other("a node was not ready in time".to_owned());
    let address = tokio::time::timeout(READY_WAIT, address).await.map_err(late)?;
    drop(std::fs::remove_file(&port_file));
    Ok((child, address?))
}

impl Nodes {
    /// Starts `count` nodes of this program with these arguments.
    pub(super) async fn start(program: &Path, arguments: &[String], count: u64) -> Result<Self, Failed> {
        let mut nodes = Vec::new();
        for _ in 0..count {
            let (child, address) = start(program, arguments, 0).await?;
            let client = Client::new(&format!("http://{address}"))?.patience(Patience::None);
            nodes.push(Node { child, address, client, counters: Counters::default() });
        }
        let (program, arguments) = (program.to_owned(), arguments.to_vec());
        Ok(Self { all: nodes, program, arguments, past: Counters::default() })
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.all.iter().map(|node| node.address).collect()
    }

    /// Reads the counters of all nodes repeatedly during this time.
    pub(super) async fn watch(&mut self, long: Duration) {
        let end = Instant::now() + long;
        while Instant::now() < end {
            self.read_counters().await;
            tokio::time::sleep_until(end.min(Instant::now() + WATCH_EVERY)).await;
        }
    }

    async fn read_counters(&mut self) {
        for node in &mut self.all {
            let read = Counters::read(std::slice::from_ref(&node.client));
            // A paused or killed node keeps the counters that were read last.
            if let Ok(Ok(counters)) = tokio::time::timeout(WATCH_EVERY, read).await {
                node.counters = counters;
            }
        }
    }

    /// Kills a node with `kill -9`, and restarts it at the same address.
    pub(super) async fn kill(&mut self, which: usize, away: Duration) -> Result<Standstill, Failed> {
        self.read_counters().await;
        let at = SystemClock.now();
        if let Some(node) = self.all.get_mut(which) {
            node.child.kill().await.map_err(|error| other(format!("a node could not be killed: {error}")))?;
            self.past = self.past.and(&std::mem::take(&mut node.counters));
        }
        self.watch(away).await;
        if let Some(node) = self.all.get_mut(which) {
            (node.child, _) = start(&self.program, &self.arguments, node.address.port()).await?;
        }
        Ok(Standstill { what: What::Killed, at })
    }

    /// Waits for a limited time until a node's current process has recorded something. Returns true if it has.
    pub(super) async fn wait_for_work(&mut self, which: usize) -> bool {
        let end = Instant::now() + WORK_WAIT;
        while self.all.get(which).is_some_and(|node| node.counters.commits == 0) && Instant::now() < end {
            self.watch(WATCH_EVERY).await;
        }
        self.all.get(which).is_some_and(|node| node.counters.commits > 0)
    }

    /// Ends a node, and starts another program at its address.
    pub(super) async fn replace(&mut self, which: usize, program: &Path, how: Ending) -> Result<(), Failed> {
        self.read_counters().await;
        let failed = |error: &dyn std::fmt::Display| other(format!("a node could not be ended: {error}"));
        let Some(node) = self.all.get_mut(which) else { return Err(failed(&"there is no such node")) };
        match how {
            Ending::Killed => node.child.kill().await.map_err(|error| failed(&error))?,
            Ending::Stopped => {
                let pid = node.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
                kill_process(pid.ok_or_else(|| failed(&"it has no process"))?, Signal::TERM)
                    .map_err(|error| failed(&error))?;
                let ended = tokio::time::timeout(STOP_WAIT, node.child.wait()).await.map_err(|late| failed(&late))?;
                let status = ended.map_err(|error| failed(&error))?;
                if !status.success() {
                    return Err(failed(&status));
                }
            }
        }
        self.past = self.past.and(&std::mem::take(&mut node.counters));
        (node.child, _) = start(program, &self.arguments, node.address.port()).await?;
        Ok(())
    }

    /// Pauses a node with SIGSTOP and resumes it.
    pub(super) async fn pause(&mut self, which: usize, away: Duration) -> Result<Standstill, Failed> {
        let at = SystemClock.now();
        let id = self.all.get(which).and_then(|node| node.child.id());
        let pid = id.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = pid.ok_or_else(|| other("the node to be paused has no process".to_owned()))?;
        let failed = |error| other(format!("a node could not be paused: {error}"));
        kill_process(pid, Signal::STOP).map_err(failed)?;
        self.watch(away).await;
        kill_process(pid, Signal::CONT).map_err(failed)?;
        Ok(Standstill { what: What::Paused, at })
    }

    /// Waits until all nodes accept work.
    pub(super) async fn restore(&mut self) -> Result<(), Failed> {
        for node in &self.all {
            node.client.clone().patience(Patience::For(READY_WAIT)).ready().await?;
        }
        Ok(())
    }

    /// Returns the counters of all nodes, including their ended processes.
    pub(super) async fn counters(&mut self) -> Counters {
        self.read_counters().await;
        self.all.iter().fold(self.past, |sum, node| sum.and(&node.counters))
    }

    pub(super) async fn stop(self) {
        for mut node in self.all {
            drop(node.child.kill().await);
        }
    }
}
