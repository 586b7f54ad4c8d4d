//! `baton-record BATON COMMIT DIR [ENDPOINT]` lets the program BATON store data and copies the data to DIR. The stores
//! are an embedded store and, if an ENDPOINT is given, a DynamoDB table.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::{Client, Patience};
use tokio::process::{Child, Command};
use upgrade::record::{Failed, Recorded};
use upgrade::{packed, record, scene, table};

/// Prefix of the name of the table.
const TABLE: &str = "baton-recorded";

struct Recorder {
    baton: PathBuf,
    commit: String,
    scratch: tempfile::TempDir,
}

impl Recorder {
    async fn serve(&self, args: &[&str]) -> Result<(Child, String), Failed> {
        let port_file = self.scratch.path().join("address");
        drop(std::fs::remove_file(&port_file));
        let mut command = self.command(&["serve", "--listen", "127.0.0.1:0", "--log", "warn"]);
        let mut child = command.arg("--port-file").arg(&port_file).args(args).kill_on_drop(true).spawn()?;
        loop {
            if let Ok(address) = std::fs::read_to_string(&port_file) {
                let url = format!("http://{}", address.trim());
                Client::new(&url)?.patience(Patience::For(Duration::from_secs(20))).ready().await?;
                return Ok((child, url));
            }
            if let Some(status) = child.try_wait()? {
                return Err(format!("the service ended early: {status}").into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.baton);
        command.args(args).env("AWS_ACCESS_KEY_ID", "local").env("AWS_SECRET_ACCESS_KEY", "local");
        command.stdin(Stdio::null());
        command
    }

    async fn run(&self, args: &[&str]) -> Result<String, Failed> {
        let output = self.command(args).output().await?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() {
            return Ok(said);
        }
        Err(format!("{args:?}: {said}{}", String::from_utf8_lossy(&output.stderr)).into())
    }

    async fn tell(&self, url: &str, held: scene::Held) -> Result<Recorded, Failed> {
        let runs = record::runs(&Client::new(url)?, url).await?;
        let version = self.run(&["--version"]).await?;
        Ok(Recorded { version, commit: self.commit.clone(), at: 0, held, runs })
    }

    /// Records the data directory of a killed service, the same directory after compaction, and an archive.
    async fn embedded(&self, into: &Path) -> Result<(), Failed> {
        let data = self.scratch.path().join("data");
        let archive = self.scratch.path().join("archive");
        let (shown, kept) = (data.to_string_lossy().into_owned(), archive.to_string_lossy().into_owned());
        let (mut service, url) = self.serve(&["--data-dir", &shown]).await?;
        let held = scene::make(&Client::new(&url)?, &url).await?;
        settle(&url).await?;
        let mut recorded = self.tell(&url, held).await?;
        self.run(&["backup", &kept, "--data-dir", &shown]).await?;
        service.kill().await?;
        packed::pack(&data, &into.join("killed.tar.gz"))?;
        packed::pack(&archive, &into.join("archive.tar.gz"))?;
        // Compaction moves all data from the log to the tables.
        self.run(&["compact", "--data-dir", &shown]).await?;
        packed::pack(&data, &into.join("stopped.tar.gz"))?;
        recorded.at = now();
        recorded.write(&into.join("embedded.json.gz"))
    }

    /// Records a configuration with a credential, and the credential's secret.
    async fn credentials(&self, into: &Path) -> Result<(), Failed> {
        let config = into.join("baton.toml").to_string_lossy().into_owned();
        std::fs::write(&config, "# Of a recorded version.\n")?;
        let secret = self.run(&["credential", "new", "keeper", "--operator", "--config", &config]).await?;
        Ok(std::fs::write(into.join("secret"), secret + "\n")?)
    }

    async fn dynamodb(&self, into: &Path, endpoint: &str) -> Result<(), Failed> {
        let name = format!("{TABLE}-{}", std::process::id());
        let place = ["--table", &name, "--region", "local", "--endpoint-url", endpoint];
        self.run(&[&["dynamodb", "create-table", "--unprotected"], &place[..]].concat()).await?;
        let (mut service, url) = self.serve(&[&["--store", "dynamodb"], &place[..]].concat()).await?;
        let held = scene::make(&Client::new(&url)?, &url).await?;
        settle(&url).await?;
        let mut recorded = self.tell(&url, held).await?;
        service.kill().await?;
        table::dump(endpoint, &name, &into.join("table.jsonl.gz")).await?;
        recorded.at = now();
        recorded.write(&into.join("table.json.gz"))
    }
}

fn now() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "when it was recorded")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
}

/// Waits until the service records no more events on its own.
async fn settle(url: &str) -> Result<(), Failed> {
    let client = Client::new(url)?;
    let count_events = async || -> Result<usize, Failed> {
        Ok(record::runs(&client, url).await?.iter().map(|run| run.events.len()).sum())
    };
    let mut before = count_events().await?;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let found = count_events().await?;
        if found == before {
            return Ok(());
        }
        before = found;
    }
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (baton, commit, into, endpoint) = match args.as_slice() {
        [baton, commit, into] => (baton, commit, into, None),
        [baton, commit, into, endpoint] => (baton, commit, into, Some(endpoint)),
        _ => return Err("usage: baton-record BATON COMMIT DIR [ENDPOINT]".into()),
    };
    let into = PathBuf::from(into);
    std::fs::create_dir_all(&into)?;
    let recorder = Recorder { baton: baton.into(), commit: commit.clone(), scratch: tempfile::tempdir()? };
    recorder.credentials(&into).await?;
    recorder.embedded(&into).await?;
    if let Some(endpoint) = endpoint {
        recorder.dynamodb(&into, endpoint).await?;
    }
    Ok(())
}
