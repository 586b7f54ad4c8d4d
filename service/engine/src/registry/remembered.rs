//! Cache of the records of registered types.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use lru::LruCache;
use store::HeadKey;

/// Maximum number of cached types. Our choice: this number of types takes a few megabytes at most.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

/// Maximum age of a cached type if other nodes share the store. Our choice.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);

type Remembered = LruCache<(&'static str, HeadKey), (Bytes, tokio::time::Instant)>;

/// Cache of the types that were last read.
pub(super) struct TypeCache {
    /// Record of each type; empty if the store has no such type.
    remembered: Mutex<Remembered>,
}

impl Default for TypeCache {
    fn default() -> Self {
        Self { remembered: Mutex::new(LruCache::new(REMEMBERED)) }
    }
}

impl TypeCache {
    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().expect("no code panics while it holds this lock")
    }

    pub(super) fn remember(&self, kind: &'static str, key: &HeadKey, record: Bytes) {
        self.lock().put((kind, key.clone()), (record, tokio::time::Instant::now()));
    }

    pub(super) fn recall(&self, kind: &'static str, key: &HeadKey, is_shared: bool) -> Option<Bytes> {
        let mut remembered = self.lock();
        let (record, at) = remembered.get(&(kind, key.clone()))?;
        (!is_shared || at.elapsed() < REMEMBERED_FOR).then(|| record.clone())
    }
}
