//! When what was read from files is to be read again: at SIGHUP, and when a file is another than it was. Owns no file: who
//! reads one waits here, reads it, and says what came of it, so that `/readyz` and the metrics can.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How often files are looked at. Ours: a secret that is revoked is good for a few seconds more, and reading small files costs
/// nothing at this rate.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The bytes of a file that are looked at. Ours: far more than a configuration or a chain of certificates has.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Why a file is to be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The process was sent SIGHUP.
    Signal,
    /// A file is another than it was.
    Change,
}

impl Why {
    /// Its name for people.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Change => "change",
        }
    }
}

/// SIGHUP, for any number of those who wait for it. Until it is listened to, the signal ends the process.
#[derive(Debug, Clone)]
pub struct Hangups(watch::Receiver<u64>);

impl Hangups {
    /// Listens from now on.
    ///
    /// # Errors
    ///
    /// Where the process cannot listen to signals.
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

    /// Files that are looked at from now on. Take this before the files are read for the first time, so that no change is
    /// missed.
    pub fn files(&self, paths: Vec<PathBuf>) -> FileWatch {
        let seen = look(&paths);
        let mut hangups = self.0.clone();
        hangups.mark_unchanged();
        FileWatch { paths, seen, next: None, hangups }
    }
}

impl FileWatch {
    /// Has these looked at from now on, and no others. What one was that was looked at before is known.
    pub fn watch(&mut self, paths: Vec<PathBuf>) {
        let found = look(&paths);
        let known = self.paths.iter().zip(&self.seen).collect::<BTreeMap<_, _>>();
        let seen = paths.iter().zip(found).map(|(path, found)| known.get(path).map_or(found, |seen| **seen));
        self.seen = seen.collect();
        (self.paths, self.next) = (paths, None);
    }
}

/// What a file is, by its content; `None` where it cannot be read.
type Look = Option<[u8; 32]>;

/// Files that somebody has read.
#[derive(Debug)]
pub struct FileWatch {
    paths: Vec<PathBuf>,
    /// As they were when they were last to be read.
    seen: Vec<Look>,
    /// As they were at the last look, where that is something else.
    next: Option<Vec<Look>>,
    hangups: watch::Receiver<u64>,
}

impl FileWatch {
    /// Waits until they are to be read again. A change counts once two looks in a row find the same: whoever writes a file
    /// in its place may be in the middle of it. Nothing is lost when the wait is dropped.
    pub async fn changed(&mut self) -> Why {
        loop {
            let is_signal = tokio::select! {
                signal = self.hangups.changed() => match signal {
                    Ok(()) => true,
                    Err(_) => std::future::pending().await,
                },
                () = tokio::time::sleep(LOOK_EVERY) => false,
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

/// What came of reading something again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReloadCounts {
    /// Times that it was taken.
    pub taken: u64,
    /// Times that it was refused, and what was before stayed.
    pub refused: u64,
    /// Whether it was refused the last time.
    pub is_refused: bool,
}

/// What came of all that was read again, by what it is.
#[derive(Debug, Default)]
pub struct Reloads(Mutex<BTreeMap<&'static str, ReloadCounts>>);

impl Reloads {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, ReloadCounts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that this is something that is read again, before it is for the first time.
    pub fn expect(&self, what: &'static str) {
        self.lock().entry(what).or_default();
    }

    /// Says what came of it.
    pub fn note(&self, what: &'static str, is_taken: bool) {
        let mut all = self.lock();
        let tally = all.entry(what).or_default();
        tally.is_refused = !is_taken;
        let count = if is_taken { &mut tally.taken } else { &mut tally.refused };
        *count = count.saturating_add(1);
    }

    /// All of it.
    pub fn all(&self) -> Vec<(&'static str, ReloadCounts)> {
        self.lock().iter().map(|(what, tally)| (*what, *tally)).collect()
    }

    /// What was refused the last time, so that what was before is still in force.
    pub fn refused(&self) -> Vec<&'static str> {
        self.all().into_iter().filter(|(_, tally)| tally.is_refused).map(|(what, _)| what).collect()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn hangups() -> (watch::Sender<u64>, Hangups) {
        let (tell, told) = watch::channel(0);
        (tell, Hangups(told))
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_read_again_when_it_is_another_and_whole_and_not_when_it_is_only_touched() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("baton.toml");
        std::fs::write(&file, "one").unwrap();
        let (_tell, hangups) = hangups();
        let mut files = hangups.files(vec![file.clone()]);
        std::fs::write(&file, "one").unwrap();
        assert!(tokio::time::timeout(LOOK_EVERY * 5, files.changed()).await.is_err(), "the same is no change");
        std::fs::write(&file, "tw").unwrap();
        assert!(tokio::time::timeout(LOOK_EVERY * 3 / 2, files.changed()).await.is_err(), "it may be half of it");
        std::fs::write(&file, "two").unwrap();
        assert!(tokio::time::timeout(LOOK_EVERY * 3 / 2, files.changed()).await.is_err(), "so may this");
        assert_eq!(files.changed().await, Why::Change);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(files.changed().await, Why::Change, "what is gone is another, too");
        assert!(tokio::time::timeout(LOOK_EVERY * 5, files.changed()).await.is_err(), "said once");
    }

    #[tokio::test]
    async fn a_signal_has_everybody_read_again_at_once() {
        let (tell, hangups) = hangups();
        let mut files = [hangups.files(Vec::new()), hangups.files(Vec::new())];
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
