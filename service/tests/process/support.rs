//! Helpers for a real `baton serve` and for `baton` on the command line.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use client::{Client, Patience};

/// A separate directory for a test, which is removed at its end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("baton-test-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A `baton serve` that is killed when the test ends.
pub(crate) struct Service {
    pub(crate) child: Child,
    pub(crate) url: String,
}

impl Service {
    pub(crate) fn start(scratch: &Path, args: &[&str]) -> Self {
        Self::start_at(scratch, "127.0.0.1:0", args)
    }

    pub(crate) fn start_at(scratch: &Path, listen: &str, args: &[&str]) -> Self {
        let port_file = scratch.join("address");
        drop(std::fs::remove_file(&port_file));
        let child = Command::new(env!("CARGO_BIN_EXE_baton"))
            .args(["serve", "--listen", listen, "--log", "warn", "--port-file"])
            .arg(&port_file)
            .arg("--data-dir")
            .arg(scratch.join("data"))
            .args(args)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self::when_ready(child, &port_file)
    }

    /// Starts a service in a shell after this command line. It logs to the file `log`.
    pub(crate) fn start_after(scratch: &Path, line: &str, args: &[&str]) -> Self {
        let port_file = scratch.join("address");
        drop(std::fs::remove_file(&port_file));
        let child = Command::new("sh")
            .args(["-c", &format!("{line}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_baton"), "serve"])
            .args(["--listen", "127.0.0.1:0", "--log", "warn", "--port-file"])
            .arg(&port_file)
            .arg("--data-dir")
            .arg(scratch.join("data"))
            .args(args)
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(scratch.join("log")).unwrap())
            .spawn()
            .unwrap();
        Self::when_ready(child, &port_file)
    }

    pub(crate) fn when_ready(mut child: Child, port_file: &Path) -> Self {
        let url = loop {
            if let Ok(address) = std::fs::read_to_string(port_file) {
                break format!("http://{}", address.trim());
            }
            assert!(child.try_wait().unwrap().is_none(), "the service keeps running");
            std::thread::yield_now();
        };
        Self { child, url }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url).unwrap().patience(Patience::None)
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(crate) fn baton(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_baton")).args(args).stdin(Stdio::null()).output().unwrap()
}
