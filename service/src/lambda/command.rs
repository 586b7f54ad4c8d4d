//! Functions that are shell commands. A command runs in a separate process group. It does not get the environment of
//! the service, and the size of its output is limited.

use std::collections::BTreeMap;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::failure::{CallFailure, RESULT_BYTES_MAX, too_large};

/// Size of one read in bytes.
const PIECE_BYTES: usize = 16 << 10;

/// Process group of a command. Dropping this kills the group, unless [`release`](Self::release) was called.
struct Group(Option<Pid>);

impl Group {
    /// Returns the process group of a child process. The group exists at least until the service has waited for the
    /// child process.
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    /// Records that this process has waited for the child. Afterwards, the operating system may reuse the id of the
    /// group, so the group must not be killed any more.
    fn release(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The error is ignored, because it means that the group no longer exists.
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Runs a line in the shell and returns its output. The process group is killed if the future is dropped, or if the
/// output exceeds the maximum size of a result.
pub(super) async fn execute(
    line: &str,
    environment: &BTreeMap<String, String>,
    input: &str,
) -> Result<String, CallFailure> {
    let failed = |error: std::io::Error| CallFailure::new("ServiceException", error.to_string());
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The environment of the service contains secrets, so the command gets only `PATH` and the configured variables.
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path))).envs(environment);
    command.process_group(0).kill_on_drop(true);
    let mut child = command.spawn().map_err(failed)?;
    let mut group = Group::of(&child);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // Errors are ignored, because a command may end without reading its input.
            drop(stdin.write_all(input.as_bytes()).await);
        }
        Ok(())
    };
    let read = async { read_all(stdout).await.map_err(failed)?.ok_or_else(too_large) };
    let hear = async { read_end(stderr).await.map_err(failed) };
    let ((), result, said) = tokio::try_join!(feed, read, hear)?;
    let status = child.wait().await.map_err(failed)?;
    group.release();
    if status.success() {
        Ok(String::from_utf8_lossy(&result).into_owned())
    } else {
        Err(CallFailure::new("UnhandledError", format!("{status}: {}", String::from_utf8_lossy(&said))))
    }
}

/// Reads the whole output. Returns `None` as soon as it exceeds the maximum size of a result.
async fn read_all(from: Option<impl AsyncRead + Unpin>) -> std::io::Result<Option<Vec<u8>>> {
    let mut read = Vec::new();
    if let Some(from) = from {
        from.take(RESULT_BYTES_MAX as u64 + 1).read_to_end(&mut read).await?;
    }
    Ok(Some(read).filter(|read| read.len() <= RESULT_BYTES_MAX))
}

/// Reads the whole output and returns the last part of it, which is at most as long as the maximum size of a result. If
/// a command fails, its last lines usually contain the reason.
async fn read_end(from: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut read = Vec::new();
    let Some(mut from) = from else { return Ok(read) };
    loop {
        read.reserve(PIECE_BYTES);
        if from.read_buf(&mut read).await? == 0 {
            return Ok(read);
        }
        if let Some(surplus) = read.len().checked_sub(RESULT_BYTES_MAX) {
            read.drain(..surplus);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn run(line: &str) -> Result<String, CallFailure> {
        execute(line, &BTreeMap::from([("GIVEN".to_owned(), "here".to_owned())]), "in").await
    }

    /// Reads a process id from a file that the command wrote.
    fn written(file: &std::path::Path) -> Option<Pid> {
        let text = std::fs::read_to_string(file).ok()?;
        text.strip_suffix('\n')?.parse().ok().and_then(Pid::from_raw)
    }

    /// Returns true if a process has ended, also if its parent has not yet waited for it.
    fn has_ended(process: Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
        stat.map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
    }

    #[tokio::test]
    async fn the_environment_of_a_command_is_path_and_configured() {
        // Shows that this process has a variable, set by Cargo, that the command must not get.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        let found = run("env; cat").await.ok().unwrap();
        let mut names: Vec<&str> = found.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        // The shell itself sets these variables.
        names.retain(|name| !matches!(*name, "PWD" | "OLDPWD" | "SHLVL" | "_"));
        names.sort_unstable();
        assert_eq!(names, ["GIVEN", "PATH"], "{found}");
        assert!(found.contains("GIVEN=here\n") && found.ends_with("in"), "{found}");
    }

    #[tokio::test]
    async fn a_command_with_endless_output_is_killed_with_children() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("pid");
        // The background process has neither of the two output pipes open.
        let line = format!("sleep 1000 >/dev/null 2>&1 & echo $! > {}; exec yes", file.display());
        let failure = tokio::time::timeout(Duration::from_secs(60), run(&line)).await.unwrap().err().unwrap();
        assert_eq!(failure.reason, "ResultTooLarge");
        assert!(failure.details.contains("131072 bytes"), "{}", failure.details);
        let child = written(&file).unwrap();
        while !has_ended(child) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_command_without_a_waiter_is_killed_with_its_children() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("pid");
        let line = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display());
        let running = tokio::spawn(async move { run(&line).await });
        let child = loop {
            match written(&file) {
                Some(child) => break child,
                None => tokio::task::yield_now().await,
            }
        };
        running.abort();
        while !has_ended(child) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn of_what_a_command_says_of_its_failure_the_end_is_kept() {
        let failure = run("yes 2>/dev/null | head -c 1000000 >&2; echo at last >&2; exit 7").await.err().unwrap();
        assert_eq!(failure.reason, "UnhandledError");
        assert!(failure.details.starts_with("exit status: 7: ") && failure.details.ends_with("at last\n"));
        assert!(failure.details.len() <= RESULT_BYTES_MAX + 20, "{}", failure.details.len());
        assert_eq!(run("echo done; exit 0").await.ok().unwrap(), "done\n");
    }
}
