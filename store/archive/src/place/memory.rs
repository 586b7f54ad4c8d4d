//! A bucket in memory, for tests. It has the guarantees of a real bucket, and can inject faults.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::{ArchivePlace, FileTag, Intervals, ListedFile, PutAnswer, PutWhen, StoredFile};
use crate::ArchiveError;

/// Intervals for tests. They are short, so that tests are fast.
const INTERVALS: Intervals = Intervals {
    every: Duration::from_millis(20),
    heartbeat: Duration::from_millis(50),
    watch: Duration::from_millis(500),
};

static BUCKETS: Mutex<BTreeMap<String, Arc<MemoryBucket>>> = Mutex::new(BTreeMap::new());

fn buckets() -> MutexGuard<'static, BTreeMap<String, Arc<MemoryBucket>>> {
    BUCKETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A bucket in memory. In this process, addresses `s3://BUCKET/…` with the name of the bucket refer to it.
#[derive(Debug, Default)]
pub struct MemoryBucket {
    objects: Arc<Mutex<BTreeMap<String, (Bytes, u64)>>>,
    /// Number of puts. It is shared by all handles to the same objects.
    puts: Arc<AtomicU64>,
    /// True if puts wait until waiting is switched off.
    is_held: Mutex<bool>,
    is_released: Condvar,
    /// If this is `n`, every `n`th put succeeds but its response is lost. Zero loses none.
    lost_answers: AtomicU64,
}

impl MemoryBucket {
    /// Creates a bucket. A bucket that already has this name is replaced.
    pub fn make(bucket: &str) -> Arc<Self> {
        let made = Arc::new(Self::default());
        buckets().insert(bucket.to_owned(), Arc::clone(&made));
        made
    }

    /// Creates another handle to the same objects. Its faults are separate.
    pub fn other_handle(&self, bucket: &str) -> Arc<Self> {
        let (objects, puts) = (Arc::clone(&self.objects), Arc::clone(&self.puts));
        let made = Arc::new(Self { objects, puts, ..Self::default() });
        buckets().insert(bucket.to_owned(), Arc::clone(&made));
        made
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, (Bytes, u64)>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all objects by name.
    pub fn all(&self) -> BTreeMap<String, Vec<u8>> {
        self.objects().iter().map(|(name, (bytes, _))| (name.clone(), bytes.to_vec())).collect()
    }

    /// Changes an object, to simulate damage.
    pub fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some((bytes, _)) = self.objects().get_mut(name) {
            let mut changed = bytes.to_vec();
            change(&mut changed);
            *bytes = changed.into();
        }
    }

    /// Adds an object.
    pub fn insert(&self, name: &str, bytes: Vec<u8>) {
        let number = self.puts.fetch_add(1, Ordering::SeqCst) + 1;
        self.objects().insert(name.to_owned(), (bytes.into(), number));
    }

    /// Replaces all objects by the objects of another bucket.
    pub fn copy_from(&self, other: &Self) {
        let objects = other.objects().clone();
        *self.objects() = objects;
    }

    /// Returns the number of completed puts.
    pub fn puts(&self) -> u64 {
        self.puts.load(Ordering::SeqCst)
    }

    /// Switches waiting on or off. While it is on, puts through this handle wait. They take effect when it is switched
    /// off.
    pub fn hold(&self, holds: bool) {
        *self.is_held.lock().unwrap_or_else(PoisonError::into_inner) = holds;
        self.is_released.notify_all();
    }

    /// Loses the response to every `nth` put after this call. Zero loses none.
    pub fn lose_answers(&self, nth: u64) {
        self.lost_answers.store(nth, Ordering::SeqCst);
    }

    fn put(&self, name: &str, bytes: &Bytes, when: PutWhen<'_>) -> PutAnswer {
        let held = self.is_held.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.is_released.wait_while(held, |held| *held));
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
            nth if number.is_multiple_of(nth) => PutAnswer::Unknown { why: "the response was lost".to_owned() },
            _ => PutAnswer::Done(FileTag(number.to_string())),
        }
    }
}

/// The objects below a prefix of a bucket.
#[derive(Debug)]
pub(crate) struct MemoryPlace {
    bucket: Arc<MemoryBucket>,
    name: String,
    prefix: String,
}

/// Returns the location for an address. Returns `None` if no such bucket was created in this process.
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
    fn intervals(&self) -> Intervals {
        INTERVALS
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
