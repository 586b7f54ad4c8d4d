//! The service under load as a separate process, and measurements by the operating system and by the service.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use client::{Client, Patience};
use hdrhistogram::Histogram;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::failed::Failed;

/// Maximum time until the service is ready.
const READY_WAIT: Duration = Duration::from_secs(30);

/// Clock ticks per second in `/proc`. Source: proc(5); 100 on every relevant Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Time after which an idle service has released memory that it does not need. Its threads for blocking work end
/// after ten seconds, and the allocator returns free memory when a thread ends. Source: tokio, `thread_keep_alive`;
/// mimalloc, `_mi_theap_collect_abandon`.
const REST: Duration = Duration::from_secs(12);

pub(super) fn other(what: String) -> Failed {
    Failed::Other(what)
}

pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000, 3).expect("the bounds are in order")
}

/// Returns the microseconds since `began`.
pub(super) fn micros_since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people, far below 2^52")]
pub(super) fn count(number: u64) -> f64 {
    number as f64
}

pub(super) fn mib(bytes: u64) -> f64 {
    count(bytes) / f64::from(1 << 20)
}

/// Returns the processor time per item in microseconds, between two readings in seconds.
pub(super) fn micros_each(now: Option<f64>, earlier: Option<f64>, number: u64) -> Option<f64> {
    Some((now? - earlier?) * 1e6 / count(number))
}

/// Formats a processor time per item for people.
pub(super) fn shown_micros(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.0}"))
}

/// A directory that is removed when this value is dropped. A directory given by the user is kept.
pub(super) struct Scratch {
    dir: PathBuf,
    data_dir: PathBuf,
}

impl Scratch {
    pub(super) fn new(data_dir: Option<PathBuf>) -> Result<Self, Failed> {
        let dir = std::env::temp_dir().join(format!("baton-bench-{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(|error| other(format!("{}: {error}", dir.display())))?;
        let data_dir = data_dir.unwrap_or_else(|| dir.join("data"));
        Ok(Self { dir, data_dir })
    }
}

impl Scratch {
    /// Returns the file to which a service writes its address.
    pub(super) fn port_file(&self) -> PathBuf {
        let file = self.file("address");
        drop(std::fs::remove_file(&file));
        file
    }

    /// Returns the path of a file in the directory.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

fn own_path() -> Result<PathBuf, Failed> {
    std::env::current_exe().map_err(|error| other(format!("cannot determine the path of this program: {error}")))
}

/// Returns the path of the service's program, which must be in the directory of this program.
pub(super) fn baton() -> Result<PathBuf, Failed> {
    let own = own_path()?;
    let baton = own.with_file_name(format!("baton{}", std::env::consts::EXE_SUFFIX));
    if baton.is_file() {
        return Ok(baton);
    }
    // The directory is named after the profile of the build.
    let profile = match own.parent().and_then(Path::file_name).and_then(OsStr::to_str) {
        Some("dist") => " --profile dist",
        Some("release") => " --release",
        _ => "",
    };
    let features = if cfg!(feature = "dynamodb") { " --features dynamodb" } else { "" };
    Err(other(format!(
        "{} does not exist, but is needed to start services; build it with \
         `cargo build{profile} -p baton-service --bin baton{features}`",
        baton.display()
    )))
}

/// Returns the processor time that a process has used so far, in seconds, if the system provides it.
pub(super) fn cpu_seconds(process: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may contain anything. User and system time are the 12th and 13th fields after it.
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?;
    Some(ticks / TICKS_PER_SECOND)
}

/// A child process that is killed when this value is dropped.
pub(super) struct Process {
    child: Child,
}

impl Process {
    /// Runs this program with other arguments.
    pub(super) fn start(args: &[&str]) -> Result<Self, Failed> {
        Self::of(own_path()?, args)
    }

    fn of(program: PathBuf, args: &[&str]) -> Result<Self, Failed> {
        let child =
            Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).spawn();
        child.map(|child| Self { child }).map_err(|error| other(format!("cannot start a process: {error}")))
    }

    /// Waits until the process has written its address to its file, and returns its URL.
    pub(super) async fn url(&mut self, port_file: &Path) -> Result<String, Failed> {
        let address = async {
            loop {
                match std::fs::read_to_string(port_file) {
                    Ok(address) if !address.trim().is_empty() => return Ok(format!("http://{}", address.trim())),
                    _ => {}
                }
                if let Ok(Some(status)) = self.child.try_wait() {
                    return Err(other(format!("the service ended early: {status}")));
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let late = |_| other("the service was not ready in time".to_owned());
        tokio::time::timeout(READY_WAIT, address).await.map_err(late)?
    }

    /// Returns the memory of the process in bytes, if the system provides it.
    pub(super) fn memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()?)).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1_024)
    }

    /// Returns the memory of the process after a time without load (`REST`).
    pub(super) async fn memory_at_rest(&self) -> Option<u64> {
        tokio::time::sleep(REST).await;
        self.memory()
    }

    /// Returns the processor time that the process has used so far, in seconds, if the system provides it.
    pub(super) fn cpu_seconds(&self) -> Option<f64> {
        cpu_seconds(self.child.id()?)
    }

    /// Kills the process and waits for its end.
    pub(super) async fn stop(mut self) {
        drop(self.child.start_kill());
        drop(self.child.wait().await);
    }
}

/// A service that this program has started.
pub(super) struct Service {
    pub(super) process: Process,
    pub(super) url: String,
    /// Time from the start of the process until it was ready.
    pub(super) ready_after: Duration,
}

impl Service {
    pub(super) async fn start(scratch: &Scratch) -> Result<Self, Failed> {
        Self::start_with(scratch, &[]).await
    }

    /// Starts a service with additional options.
    pub(super) async fn start_with(scratch: &Scratch, more: &[&str]) -> Result<Self, Failed> {
        let port_file = scratch.port_file();
        let (data_dir, port) = (scratch.data_dir.to_string_lossy(), port_file.to_string_lossy());
        let args = ["serve", "--data-dir", &data_dir, "--listen", "127.0.0.1:0", "--port-file", &port, "--log", "warn"];
        let began = Instant::now();
        let mut process = Process::of(baton()?, &[&args, more].concat())?;
        let url = process.url(&port_file).await?;
        client(&url)?.ready().await?;
        Ok(Self { process, url, ready_after: began.elapsed() })
    }
}

/// Creates a client that waits for the service to be ready.
pub(super) fn client(url: &str) -> Result<Client, Failed> {
    Ok(Client::new(url)?.patience(Patience::For(READY_WAIT)))
}

/// Counters of a service.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counters {
    pub(super) commits: u64,
    pub(super) conflicts: u64,
    pub(super) events: u64,
    pub(super) syncs: u64,
    pub(super) written: u64,
    pub(super) on_disk: u64,
    pub(super) matched: u64,
    pub(super) write_units: u64,
    pub(super) read_units: u64,
}

impl Counters {
    /// Returns the sums of two sets of counters.
    #[cfg(feature = "dynamodb")]
    pub(super) fn and(&self, other: &Self) -> Self {
        Self {
            commits: self.commits + other.commits,
            conflicts: self.conflicts + other.conflicts,
            events: self.events + other.events,
            syncs: self.syncs + other.syncs,
            written: self.written + other.written,
            on_disk: self.on_disk + other.on_disk,
            matched: self.matched + other.matched,
            write_units: self.write_units + other.write_units,
            read_units: self.read_units + other.read_units,
        }
    }

    /// Reads the counters of these services and returns their sums.
    pub(super) async fn read(clients: &[Client]) -> Result<Self, Failed> {
        let mut texts = Vec::new();
        for client in clients {
            texts.push(client.metrics().await?);
        }
        let lines = || texts.iter().flat_map(|text| text.lines());
        let value = |name: &str| -> u64 {
            let values = lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            values.filter_map(|value| value.trim().parse::<u64>().ok()).sum()
        };
        Ok(Self {
            commits: value("baton_commits_total"),
            conflicts: value("baton_commit_conflicts_total"),
            events: value("baton_events_total"),
            syncs: value("baton_store_syncs_total"),
            written: value("baton_store_bytes_written_total"),
            on_disk: value("baton_store_bytes_on_disk"),
            matched: value("baton_sync_matches_total"),
            write_units: value("baton_store_write_units_total"),
            read_units: value("baton_store_read_units_total"),
        })
    }
}
