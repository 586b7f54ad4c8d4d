//! `baton standby`: keeps a copy of a store up to date from its archive, and takes over on command.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Subcommand, ValueHint};
use history::{Duration, Timestamp};
use serde_json::{Value, json};
use service::following::StandbyView;
use service::http::{Server, ServerLimits};
use store_archive::{ArchiveAddress, Followed, Promotion, Standby as Follower, StandbyOptions};
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::settings::listen_address;

use cli::{Done, Failed, Progress, blocking, note, print_json_text, print_line, show_progress};

/// Time between two checks of an archive directory for new data. Our choice: the interval at which services write to
/// such an archive.
const CHECK_INTERVAL: std::time::Duration = std::time::Duration::from_millis(100);
/// Time between two checks of an archive in a bucket. Our choice: each check costs money.
const BUCKET_CHECK_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);
/// Delay before the next read of an archive that could not be read.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(1);
/// Time between two progress lines on standard error.
const LINE_EVERY: std::time::Duration = std::time::Duration::from_secs(10);
/// Default time that a takeover waits for the old service to ship its acknowledged commits and stop. Our choice: thirty
/// times as long as the old service takes to notice the takeover.
const WAIT: Duration = Duration::from_secs(3);

/// Keep a copy of a shipped store up to date, and take over on command
///
/// When the command has taken over, it ends with exit code 0, and the service can be started: `baton standby --follow A
/// --data-dir D && baton serve --data-dir D --ship-to A`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct StandbyCommand {
    #[command(subcommand)]
    command: Option<StandbyAction>,
    /// Archive to which the service ships: a directory or `s3://BUCKET/PREFIX`
    #[arg(long, required = true, value_name = "ARCHIVE", value_hint = ValueHint::AnyPath)]
    follow: Option<ArchiveAddress>,
    /// Data directory: empty, or that of a standby of the same archive
    #[arg(long, env = "BATON_DATA_DIR", required = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Maximum time to wait at a takeover until the old service has stopped
    #[arg(long, default_value_t = WAIT, value_name = "DURATION")]
    wait: Duration,
    /// Print progress as JSON lines, every second
    #[arg(long)]
    json: bool,
    /// Address and port for `/metrics` and `/readyz`, e.g. `:7421` for this machine only [default: none]
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    listen: Option<SocketAddr>,
}

#[derive(Debug, Subcommand)]
enum StandbyAction {
    /// Take over; the old service stops when it finds the takeover in the archive
    Promote {
        /// Data directory of the standby
        #[arg(long, env = "BATON_DATA_DIR", value_name = "DIR")]
        data_dir: PathBuf,
        /// Maximum time to wait until the old service has stopped; used only if no standby is running on the directory
        #[arg(long, default_value_t = WAIT, value_name = "DURATION")]
        wait: Duration,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

fn standard(duration: Duration) -> std::time::Duration {
    std::time::Duration::from_millis(duration.as_millis())
}

impl StandbyCommand {
    pub(super) async fn run(self) -> Done {
        match (self.command, self.follow, self.data_dir) {
            (Some(StandbyAction::Promote { data_dir, wait, json }), _, _) => promote(data_dir, wait, json).await,
            (None, Some(follow), Some(data_dir)) => {
                let following = StandbyView::default();
                if let Some(address) = self.listen {
                    listen(address, following.clone(), self.json).await?;
                }
                let line = StandbyOutput { is_json: self.json, said: None, trouble: None, following };
                keep_following(follow, data_dir, self.wait, line).await
            }
            (None, _, _) => Err(Failed::Usage("--follow and --data-dir are required".to_owned())),
        }
    }
}

async fn promote(data_dir: PathBuf, wait: Duration, is_json: bool) -> Done {
    let promoted = blocking(move || store_archive::promote(&data_dir, standard(wait))).await?;
    match promoted {
        Some(promotion) if is_json => print_json_text(&promotion_json(promotion).to_string()),
        None if is_json => print_json_text(&json!({ "promoted": true }).to_string()),
        Some(promotion) => print_line(&said(promotion)),
        None => print_line("the standby has taken over; start `baton serve` with its directory"),
    }
}

fn promotion_json(promotion: Promotion) -> Value {
    let Promotion { epoch, batch, at, is_all } = promotion;
    let at = Timestamp::from_millis(at).to_string();
    json!({ "promoted": true, "epoch": epoch, "batch": batch, "at": at, "isAll": is_all })
}

fn said(promotion: Promotion) -> String {
    let Promotion { epoch, at, is_all, .. } = promotion;
    let what = if is_all {
        "the old service has stopped; everything it acknowledged is copied".to_owned()
    } else {
        format!(
            "the old service has not reported that it stopped; everything it acknowledged before {} is copied",
            Timestamp::from_millis(at)
        )
    };
    format!("took over with epoch {epoch}: {what}. Start `baton serve` with its directory")
}

/// Starts to serve the status of the standby at an address, and reports the address. The status is served as long as
/// the process runs.
async fn listen(address: SocketAddr, following: StandbyView, is_json: bool) -> Result<(), Failed> {
    let bound = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        std::io::Result::Ok((listener, address))
    };
    let (listener, address) = bound.await.map_err(|error| Failed::Other(1, format!("--listen {address}: {error}")))?;
    let server = Server { listener, router: following.router(), limits: ServerLimits::default(), tls: None };
    tokio::spawn(server.run_until(std::future::pending()));
    if is_json {
        print_json_text(&json!({ "listens": address.to_string() }).to_string())
    } else {
        print_line(&format!("status at http://{address}/readyz and /metrics"))
    }
}

async fn keep_following(archive: ArchiveAddress, directory: PathBuf, wait: Duration, mut line: StandbyOutput) -> Done {
    let is_json = line.is_json;
    let check_interval = if archive.is_bucket() { BUCKET_CHECK_INTERVAL } else { CHECK_INTERVAL };
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    let following = blocking(move || {
        let options = StandbyOptions { archive, directory, faults: Arc::default() };
        let mut standby = Follower::open(&options)?;
        let mut progress: Option<Progress> = None;
        loop {
            if ends.load(Ordering::SeqCst) {
                return Ok(None);
            }
            if standby.is_promotion_requested() {
                return standby.promote(standard(wait)).map(Some);
            }
            let pause = match standby.step(&mut |at| {
                show_progress(progress.get_or_insert_with(|| Progress::new("copying the base", "records")), at);
            }) {
                Ok(followed) => {
                    progress = None;
                    line.followed(followed);
                    check_interval
                }
                Err(error) => {
                    line.trouble(&error.to_string());
                    AGAIN
                }
            };
            std::thread::sleep(pause);
        }
    });
    tokio::pin!(following);
    let promoted = tokio::select! {
        done = &mut following => done?,
        () = client::shutdown::requested() => {
            is_over.store(true, Ordering::SeqCst);
            following.await?
        }
    };
    match promoted {
        Some(promotion) if is_json => print_json_text(&promotion_json(promotion).to_string()),
        Some(promotion) => print_line(&said(promotion)),
        // Ends with a failure, so that a script that waits for the takeover does not continue.
        None => Err(Failed::Other(1, "stopped without taking over".to_owned())),
    }
}

/// Progress output of the command.
struct StandbyOutput {
    is_json: bool,
    said: Option<Instant>,
    trouble: Option<String>,
    /// Status of the standby, which the HTTP endpoints report.
    following: StandbyView,
}

impl StandbyOutput {
    fn followed(&mut self, followed: Followed) {
        self.following.followed(followed.lag);
        let every = if self.is_json { AGAIN } else { LINE_EVERY };
        let is_news = followed.has_begun || self.trouble.take().is_some();
        if !is_news && self.said.is_some_and(|at| at.elapsed() < every) {
            return;
        }
        self.said = Some(Instant::now());
        let Followed { epoch, batch, at, lag, .. } = followed;
        let at = Timestamp::from_millis(at).to_string();
        let (lag_ms, seconds) = (u64::try_from(lag.as_millis()).unwrap_or(u64::MAX), lag.as_secs_f64());
        // Errors are ignored, because standard output may have been closed while the standby must continue.
        if self.is_json {
            let line = json!({ "epoch": epoch, "batch": batch, "at": at, "lagMs": lag_ms });
            drop(print_json_text(&line.to_string()));
        } else {
            drop(print_line(&format!("copied epoch {epoch} up to {at}; {seconds:.1} s behind")));
        }
    }

    fn trouble(&mut self, said: &str) {
        self.following.failed(said);
        if self.trouble.as_deref() != Some(said) {
            note(&format!("baton standby: {said}; retrying"));
            self.trouble = Some(said.to_owned());
        }
    }
}
