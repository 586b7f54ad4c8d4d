//! The access log: one JSON line per request, without payloads and secrets. A separate thread writes the lines, so
//! that logging never delays requests. `http/record.rs` defines their contents.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot;

/// Maximum number of lines waiting to be written. Further lines are counted and dropped. Our choice: one second of a
/// high request rate, about 5 MB.
const LINES_MAX: usize = 16_384;

/// Maximum number of lines written before the writing thread checks whether the file was moved.
const BATCH_LINES_MAX: usize = 1_024;

/// Maximum time for which a shutdown waits until the queued lines are written. Our choice.
const FLUSH_WAIT: Duration = Duration::from_secs(2);

/// Permission mode of the log file. Only its owner may read it, because it contains personal data.
const FILE_MODE: u32 = 0o600;

/// Destination of the access log's lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessLogTarget {
    /// Standard output, given as `-` on the command line.
    Stdout,
    /// A file to append to. It may be moved at any time, for example by log rotation; further lines go to a new file
    /// at the same path.
    File(PathBuf),
}

impl FromStr for AccessLogTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("expected a file, or `-` for standard output".to_owned()),
            "-" => Ok(Self::Stdout),
            path => Ok(Self::File(path.into())),
        }
    }
}

enum Message {
    Line(Vec<u8>),
    Flush(oneshot::Sender<()>),
}

/// Handle with which requests queue lines for the access log.
pub struct AccessLog {
    messages: SyncSender<Message>,
    count_lost: Arc<CountLost>,
}

/// Function that is called with the number of lines that could not be written.
type CountLost = dyn Fn(u64) + Send + Sync;

impl AccessLog {
    /// Opens the log. `count_lost` is called with the number of lines whenever lines could not be written.
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
    pub fn open(
        target: AccessLogTarget,
        count_lost: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<Arc<Self>, String> {
        let mut sink = Sink::open(target)?;
        let (messages, received) = sync_channel(LINES_MAX);
        let count_lost: Arc<CountLost> = Arc::new(count_lost);
        let counts = Arc::clone(&count_lost);
        let thread = std::thread::Builder::new().name("access-log".to_owned());
        let spawned = thread.spawn(move || write_all(&mut sink, &received, &*counts));
        spawned.map_err(|error| format!("cannot start the thread of the access log: {error}"))?;
        Ok(Arc::new(Self { messages, count_lost }))
    }

    /// Queues a line, which must end with a line break. Never blocks.
    pub(crate) fn put(&self, line: Vec<u8>) {
        if self.messages.try_send(Message::Line(line)).is_err() {
            (self.count_lost)(1);
        }
    }

    /// Waits until all queued lines are written, for a limited time.
    pub async fn flush(&self) {
        let (done, written) = oneshot::channel();
        if self.messages.try_send(Message::Flush(done)).is_ok() {
            drop(tokio::time::timeout(FLUSH_WAIT, written).await);
        }
    }
}

/// Body of the writing thread. Writes queued lines until all senders are dropped.
fn write_all(sink: &mut Sink, received: &Receiver<Message>, count_lost: &CountLost) {
    let mut is_failing = false;
    while let Ok(first) = received.recv() {
        let (mut bytes, mut lines, mut waiting) = (Vec::new(), 0_u64, Vec::new());
        for message in std::iter::once(first).chain(received.try_iter()).take(BATCH_LINES_MAX) {
            match message {
                Message::Line(line) => {
                    bytes.extend_from_slice(&line);
                    lines += 1;
                }
                Message::Flush(done) => waiting.push(done),
            }
        }
        let written = if bytes.is_empty() { Ok(()) } else { sink.write(&bytes) };
        if let Err(error) = &written {
            count_lost(lines);
            // A persistent failure is logged once, not for each batch of lines.
            if !is_failing {
                tracing::warn!(%error, "the access log cannot be written; requests continue without it");
            }
        } else if is_failing {
            tracing::info!("the access log is written again");
        }
        is_failing = written.is_err();
        for done in waiting {
            // The send fails if `flush` has stopped waiting.
            let _ = done.send(());
        }
    }
}

/// The output to which the writing thread writes.
enum Sink {
    Stdout,
    File { path: PathBuf, file: Option<File> },
}

impl Sink {
    fn open(target: AccessLogTarget) -> Result<Self, String> {
        match target {
            AccessLogTarget::Stdout => Ok(Self::Stdout),
            AccessLogTarget::File(path) => {
                let file = open_file(&path).map_err(|error| format!("--access-log {}: {error}", path.display()))?;
                Ok(Self::File { path, file: Some(file) })
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Stdout => {
                let mut out = std::io::stdout().lock();
                out.write_all(bytes)?;
                out.flush()
            }
            Self::File { path, file } => {
                if !file.as_ref().is_some_and(|file| is_at(file, path)) {
                    *file = None;
                    *file = Some(open_file(path)?);
                }
                let Some(file) = file else { return Ok(()) };
                file.write_all(bytes)
            }
        }
    }
}

fn open_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(FILE_MODE).open(path)
}

/// Returns true if the path still refers to this open file. Log rotation moves the file to another path.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (file.metadata(), std::fs::metadata(path)) else { return false };
    (open.dev(), open.ino()) == (there.dev(), there.ino())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_moved_file_is_replaced_by_a_new_private_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.jsonl");
        let log = AccessLog::open(AccessLogTarget::File(path.clone()), |lost| panic!("{lost} lost")).unwrap();
        log.put(b"one\n".to_vec());
        log.flush().await;
        let moved = directory.path().join("access.jsonl.1");
        std::fs::rename(&path, &moved).unwrap();
        log.put(b"two\n".to_vec());
        log.flush().await;
        assert_eq!(std::fs::read_to_string(&moved).unwrap(), "one\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, FILE_MODE);
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_counted_and_goes_on_when_it_can() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("logs/access.jsonl");
        std::fs::create_dir(directory.path().join("logs")).unwrap();
        let lost = Arc::new(AtomicU64::new(0));
        let counts = Arc::clone(&lost);
        let count = move |lines| {
            counts.fetch_add(lines, Ordering::SeqCst);
        };
        let log = AccessLog::open(AccessLogTarget::File(path.clone()), count).unwrap();
        std::fs::remove_dir_all(directory.path().join("logs")).unwrap();
        log.put(b"one\n".to_vec());
        log.flush().await;
        assert_eq!(lost.load(Ordering::SeqCst), 1);
        std::fs::create_dir(directory.path().join("logs")).unwrap();
        log.put(b"two\n".to_vec());
        log.flush().await;
        assert_eq!((lost.load(Ordering::SeqCst), std::fs::read_to_string(&path).unwrap()), (1, "two\n".to_owned()));
    }

    #[test]
    fn a_log_that_cannot_be_opened_is_refused() {
        let refused = AccessLog::open(AccessLogTarget::File("/nowhere/at/all".into()), |_| {}).err().unwrap();
        assert!(refused.contains("--access-log /nowhere/at/all"), "{refused}");
        assert!("".parse::<AccessLogTarget>().is_err());
        assert_eq!("-".parse(), Ok(AccessLogTarget::Stdout));
    }
}
