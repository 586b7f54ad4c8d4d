//! A bucket in memory, for tests: it keeps the promises of one, and fails on demand.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::{ArchivePlace, FileTag, ListedFile, Paces, PutAnswer, PutWhen, StoredFile};
use crate::archive::ArchiveError;

/// Fast, so that tests are.
const PACES: Paces =
    Paces { every: Duration::from_millis(20), beat: Duration::from_millis(50), watch: Duration::from_millis(500) };

static BUCKETS: Mutex<BTreeMap<String, Arc<MemoryBucket>>> = Mutex::new(BTreeMap::new());

fn buckets() -> MutexGuard<'static, BTreeMap<String, Arc<MemoryBucket>>> {
    BUCKETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What every `s3://BUCKET/…` of this process reaches that was made here.
#[derive(Debug, Default)]
pub struct MemoryBucket {
    objects: Arc<Mutex<BTreeMap<String, (Bytes, u64)>>>,
    /// Of all ways to these objects.
    puts: Arc<AtomicU64>,
    /// Puts wait meanwhile.
    is_held: Mutex<bool>,
    is_let_go: Condvar,
    /// Of so many puts, one is done and its answer lost.
    lost_answers: AtomicU64,
}

impl MemoryBucket {
    /// Makes one; what it held before is gone.
    pub fn make(bucket: &str) -> Arc<Self> {
        let made = Arc::new(Self::default());
        buckets().insert(bucket.to_owned(), Arc::clone(&made));
        made
    }

    /// Another way to the same objects, with failures of its own.
    pub fn make_another_way(&self, bucket: &str) -> Arc<Self> {
        let (objects, puts) = (Arc::clone(&self.objects), Arc::clone(&self.puts));
        let made = Arc::new(Self { objects, puts, ..Self::default() });
        buckets().insert(bucket.to_owned(), Arc::clone(&made));
        made
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, (Bytes, u64)>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that is there, by name.
    pub fn all(&self) -> BTreeMap<String, Vec<u8>> {
        self.objects().iter().map(|(name, (bytes, _))| (name.clone(), bytes.to_vec())).collect()
    }

    /// Changes one, as damage would.
    pub fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some((bytes, _)) = self.objects().get_mut(name) {
            let mut changed = bytes.to_vec();
            change(&mut changed);
            *bytes = changed.into();
        }
    }

    /// Has one more object.
    pub fn insert(&self, name: &str, bytes: Vec<u8>) {
        let number = self.puts.fetch_add(1, Ordering::SeqCst) + 1;
        self.objects().insert(name.to_owned(), (bytes.into(), number));
    }

    /// Has all that another has, and nothing else.
    pub fn copy_from(&self, other: &Self) {
        let objects = other.objects().clone();
        *self.objects() = objects;
    }

    /// How many puts were done.
    pub fn puts(&self) -> u64 {
        self.puts.load(Ordering::SeqCst)
    }

    /// From now on puts by this way wait, until they need not: they arrive late.
    pub fn hold(&self, holds: bool) {
        *self.is_held.lock().unwrap_or_else(PoisonError::into_inner) = holds;
        self.is_let_go.notify_all();
    }

    /// From now on the answer of every `nth` put is lost; of none for zero.
    pub fn lose_answers(&self, nth: u64) {
        self.lost_answers.store(nth, Ordering::SeqCst);
    }

    fn put(&self, name: &str, bytes: &Bytes, when: PutWhen<'_>) -> PutAnswer {
        let held = self.is_held.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.is_let_go.wait_while(held, |held| *held));
        let mut objects = self.objects();
        let found = objects.get(name).map(|(_, tag)| tag.to_string());
        let holds = match when {
            PutWhen::Always => true,
            PutWhen::Absent => found.is_none(),
            PutWhen::Unchanged(tag) => found.as_ref() == Some(&tag.0),
        };
        if !holds {
            return PutAnswer::Otherwise;
        }
        let number = self.puts.fetch_add(1, Ordering::SeqCst) + 1;
        objects.insert(name.to_owned(), (bytes.clone(), number));
        match self.lost_answers.load(Ordering::SeqCst) {
            0 => PutAnswer::Done(FileTag(number.to_string())),
            nth if number.is_multiple_of(nth) => PutAnswer::Unknown { why: "the answer was lost".to_owned() },
            _ => PutAnswer::Done(FileTag(number.to_string())),
        }
    }
}

/// What is below a prefix of one.
#[derive(Debug)]
pub(crate) struct MemoryPlace {
    bucket: Arc<MemoryBucket>,
    name: String,
    prefix: String,
}

/// The place of an address, if it is a bucket that was made here.
pub(crate) fn find(bucket: &str, prefix: &str) -> Option<MemoryPlace> {
    let found = buckets().get(bucket).cloned()?;
    Some(MemoryPlace { bucket: found, name: bucket.to_owned(), prefix: prefix.to_owned() })
}

impl MemoryPlace {
    fn path(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) }
    }
}

impl ArchivePlace for MemoryPlace {
    fn paces(&self) -> Paces {
        PACES
    }

    fn shown(&self, name: &str) -> String {
        format!("s3://{}/{}", self.name, self.path(name))
    }

    fn prepare(&self) -> Result<(), ArchiveError> {
        Ok(())
    }

    fn is_there(&self) -> Result<bool, ArchiveError> {
        Ok(!self.list("")?.is_empty())
    }

    fn list(&self, folder: &str) -> Result<Vec<ListedFile>, ArchiveError> {
        let before = self.path(&if folder.is_empty() { String::new() } else { format!("{folder}/") });
        let mut found: Vec<ListedFile> = Vec::new();
        for (path, (bytes, _)) in self.bucket.objects().range(before.clone()..) {
            let Some(rest) = path.strip_prefix(&before) else { break };
            let listed = match rest.split_once('/') {
                Some((folder, _)) => ListedFile { name: folder.to_owned(), bytes: None },
                None => ListedFile { name: rest.to_owned(), bytes: Some(bytes.len() as u64) },
            };
            if found.last() != Some(&listed) {
                found.push(listed);
            }
        }
        Ok(found)
    }

    fn read(&self, name: &str) -> Result<Option<StoredFile>, ArchiveError> {
        let objects = self.bucket.objects();
        let file = |(bytes, tag): &(Bytes, u64)| StoredFile { bytes: bytes.clone(), tag: FileTag(tag.to_string()) };
        Ok(objects.get(&self.path(name)).map(file))
    }

    fn put(&self, name: &str, bytes: &Bytes, when: PutWhen<'_>) -> Result<PutAnswer, ArchiveError> {
        Ok(self.bucket.put(&self.path(name), bytes, when))
    }

    fn put_chunk(&self, folder: &str, name: &str, bytes: &Bytes) -> Result<(), ArchiveError> {
        self.bucket.put(&self.path(&format!("{folder}/{name}")), bytes, PutWhen::Always);
        Ok(())
    }

    fn claim(&self, folder: &str, owner: &str, bytes: &Bytes) -> Result<PutAnswer, ArchiveError> {
        self.put(&format!("{folder}/{owner}"), bytes, PutWhen::Absent)
    }

    fn is_claimed(&self, folder: &str, owner: &str) -> Result<bool, ArchiveError> {
        Ok(self.read(&format!("{folder}/{owner}"))?.is_some())
    }

    fn remove(&self, name: &str) -> Result<(), ArchiveError> {
        self.bucket.objects().remove(&self.path(name));
        Ok(())
    }
}
