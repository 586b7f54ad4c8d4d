//! Detection of files that must be read again: all watched files when the process receives SIGHUP, and files whose
//! content has changed. A component that uses files waits for their changes with this module, reads the files again,
//! and records the outcome for `/readyz` and the metrics.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Time between two checks of the watched files. Our choice: a secret that is revoked in the file stops working within
/// a few seconds. Reading small files at this rate costs almost nothing.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum number of bytes that are compared per file. Our choice: far more than a configuration or a certificate
/// chain has.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Reason for reading a file again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The process received SIGHUP.
    Signal,
    /// The content of a file changed.
    Change,
}

impl Why {
    /// Returns the name of the reason in log lines.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Change => "change",
        }
    }
}

/// Receiver of SIGHUP. Until one is created, the signal ends the process.
#[derive(Debug, Clone)]
pub struct ReloadSignal(watch::Receiver<u64>);

impl ReloadSignal {
    /// Starts to receive SIGHUP.
    ///
    /// # Errors
    ///
    /// If the process cannot receive signals.
    pub fn listen() -> std::io::Result<Self> {
        let mut hangup = signal(SignalKind::hangup())?;
        let (tell, told) = watch::channel(0);
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                tell.send_modify(|count: &mut u64| *count = count.wrapping_add(1));
            }
        });
        Ok(Self(told))
    }

    /// Starts to watch files. Call this before the files are read for the first time, so that no change is missed.
    pub fn files(&self, paths: Vec<PathBuf>) -> FileWatch {
        let seen = look(&paths);
        let mut reload_signal = self.0.clone();
        reload_signal.mark_unchanged();
        FileWatch { paths, seen, next: None, reload_signal }
    }
}

impl FileWatch {
    /// Replaces the set of watched files. A file that was already watched keeps its last known content, so that a
    /// change since then is still reported.
    pub fn watch(&mut self, paths: Vec<PathBuf>) {
        let found = look(&paths);
        let known = self.paths.iter().zip(&self.seen).collect::<BTreeMap<_, _>>();
        let seen = paths.iter().zip(found).map(|(path, found)| known.get(path).map_or(found, |seen| **seen));
        self.seen = seen.collect();
        (self.paths, self.next) = (paths, None);
    }
}

/// SHA-256 of a file's content; `None` if the file cannot be read.
type Look = Option<[u8; 32]>;

/// Watched files and their last known contents.
#[derive(Debug)]
pub struct FileWatch {
    paths: Vec<PathBuf>,
    /// Contents of the files when [`changed`](Self::changed) last reported a change, or when watching began.
    seen: Vec<Look>,
    /// Contents at the last check, if they differ from `seen`.
    next: Option<Vec<Look>>,
    reload_signal: watch::Receiver<u64>,
}

impl FileWatch {
    /// Waits until the files should be read again. A change is reported only when two successive checks have found the
    /// same new content. At a single check, another process may be in the middle of writing a file. This method is
    /// cancel safe.
    pub async fn changed(&mut self) -> Why {
        loop {
            let is_signal = tokio::select! {
                signal = self.reload_signal.changed() => match signal {
                    Ok(()) => true,
                    Err(_) => std::future::pending().await,
                },
                () = tokio::time::sleep(CHECK_INTERVAL) => false,
            };
            let paths = self.paths.clone();
            let Ok(found) = tokio::task::spawn_blocking(move || look(&paths)).await else { continue };
            if is_signal {
                (self.seen, self.next) = (found, None);
                return Why::Signal;
            }
            if found == self.seen {
                self.next = None;
            } else if self.next.as_ref() == Some(&found) {
                (self.seen, self.next) = (found, None);
                return Why::Change;
            } else {
                self.next = Some(found);
            }
        }
    }
}

fn look(paths: &[PathBuf]) -> Vec<Look> {
    paths.iter().map(|path| digest(path).ok()).collect()
}

fn digest(path: &Path) -> std::io::Result<[u8; 32]> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(Sha256::digest(&bytes).into())
}

/// Counts of the outcomes of reloading one kind of file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReloadCounts {
    /// Number of times that the new contents took effect.
    pub taken: u64,
    /// Number of times that the new contents were refused, so that the previous contents stayed in effect.
    pub refused: u64,
    /// True if the contents were refused at the last attempt.
    pub is_refused: bool,
}

/// Outcomes of reloading, by kind of file.
#[derive(Debug, Default)]
pub struct Reloads(Mutex<BTreeMap<&'static str, ReloadCounts>>);

impl Reloads {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, ReloadCounts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a kind of file, so that it is reported before its first reload.
    pub fn expect(&self, what: &'static str) {
        self.lock().entry(what).or_default();
    }

    /// Records the outcome of reloading a kind of file.
    pub fn note(&self, what: &'static str, is_taken: bool) {
        let mut all = self.lock();
        let tally = all.entry(what).or_default();
        tally.is_refused = !is_taken;
        let count = if is_taken { &mut tally.taken } else { &mut tally.refused };
        *count = count.saturating_add(1);
    }

    /// Returns all outcomes.
    pub fn all(&self) -> Vec<(&'static str, ReloadCounts)> {
        self.lock().iter().map(|(what, tally)| (*what, *tally)).collect()
    }

    /// Returns the kinds of files whose contents were refused at the last attempt, so that their previous contents
    /// are in effect.
    pub fn refused(&self) -> Vec<&'static str> {
        self.all().into_iter().filter(|(_, tally)| tally.is_refused).map(|(what, _)| what).collect()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn reload_signal() -> (watch::Sender<u64>, ReloadSignal) {
        let (tell, told) = watch::channel(0);
        (tell, ReloadSignal(told))
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_reloaded_only_after_its_content_changed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("baton.toml");
        std::fs::write(&file, "one").unwrap();
        let (_tell, reload_signal) = reload_signal();
        let mut files = reload_signal.files(vec![file.clone()]);
        std::fs::write(&file, "one").unwrap();
        assert!(tokio::time::timeout(CHECK_INTERVAL * 5, files.changed()).await.is_err(), "the same is no change");
        std::fs::write(&file, "tw").unwrap();
        assert!(tokio::time::timeout(CHECK_INTERVAL * 3 / 2, files.changed()).await.is_err(), "it may be half of it");
        std::fs::write(&file, "two").unwrap();
        assert!(tokio::time::timeout(CHECK_INTERVAL * 3 / 2, files.changed()).await.is_err(), "so may this");
        assert_eq!(files.changed().await, Why::Change);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(files.changed().await, Why::Change, "what is gone is another, too");
        assert!(tokio::time::timeout(CHECK_INTERVAL * 5, files.changed()).await.is_err(), "said once");
    }

    #[tokio::test]
    async fn a_signal_has_everybody_read_again_at_once() {
        let (tell, reload_signal) = reload_signal();
        let mut files = [reload_signal.files(Vec::new()), reload_signal.files(Vec::new())];
        for files in &mut files {
            assert!(files.changed().now_or_never().is_none());
        }
        tell.send_modify(|count| *count += 1);
        for files in &mut files {
            assert_eq!(files.changed().await, Why::Signal);
            assert!(files.changed().now_or_never().is_none());
        }
    }

    #[test]
    fn what_was_refused_is_named_until_it_is_taken() {
        let reloads = Reloads::default();
        reloads.expect("credentials");
        assert_eq!(reloads.all(), [("credentials", ReloadCounts::default())]);
        reloads.note("credentials", false);
        reloads.note("certificate", true);
        assert_eq!(reloads.refused(), ["credentials"]);
        reloads.note("credentials", true);
        assert!(reloads.refused().is_empty());
        assert_eq!(reloads.all()[1].1, ReloadCounts { taken: 1, refused: 1, is_refused: false });
    }

    #[test]
    fn changes_are_noticed_in_the_first_16_mib_of_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("large.pem");
        let most = usize::try_from(FILE_BYTES_MAX).unwrap();
        let mut bytes = vec![b'x'; most + 1];
        let mut seen = |at: usize| {
            bytes[at] = b'y';
            std::fs::write(&file, &bytes).unwrap();
            bytes[at] = b'x';
            digest(&file).unwrap()
        };
        let (within, beyond, first) = (seen(most - 1), seen(most), seen(0));
        assert!(within != beyond && first != beyond, "a change within the bound");
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(digest(&file).unwrap(), beyond, "a change beyond it");
    }
}
