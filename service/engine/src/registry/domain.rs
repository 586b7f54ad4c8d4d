//! Domains, and a cache of the domains that were last read.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use history::{Duration, Timestamp};
use serde::{Deserialize, Serialize};

/// Name of the domain that always exists.
pub const DEFAULT_DOMAIN: &str = "default";

/// Maximum age of the cached domains when a run is started, if other nodes share the store. Our choice: reading the
/// store this often is cheap, and a deprecation takes effect on all nodes within seconds.
const KNOWN_FOR: std::time::Duration = std::time::Duration::from_secs(10);

/// An isolation boundary: workflow ids and task lists of different domains are unrelated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// Name of the domain, 1 to 256 characters.
    pub name: String,
    /// Purpose of the domain, at most 4,096 bytes.
    pub description: Option<String>,
    /// Default time for which runs of the domain are kept after they have closed.
    pub retention: Duration,
    /// Time when the domain was created.
    pub created_at: Timestamp,
    /// Time when the domain was deprecated; `None` if it is not. In a deprecated domain, open runs continue, but no run
    /// can be started and no type registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated_at: Option<Timestamp>,
    /// Tags: at most 50, with keys of 1 to 128 characters and values of at most 256 characters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// True if types have been registered in the domain. If false, type records need not be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_types: bool,
}

impl Domain {
    /// Creates a domain that is not deprecated and has no tags.
    pub fn new(name: &str, retention: Duration, created_at: Timestamp) -> Self {
        let (name, tags) = (name.to_owned(), BTreeMap::new());
        Self { name, description: None, retention, created_at, deprecated_at: None, tags, has_types: false }
    }
}

/// Cache of the domains that were last read.
#[derive(Default)]
pub(super) struct KnownDomains {
    all: RwLock<Arc<BTreeMap<String, Domain>>>,
    read_at: RwLock<Option<tokio::time::Instant>>,
}

impl KnownDomains {
    pub(super) fn all(&self) -> Arc<BTreeMap<String, Domain>> {
        Arc::clone(&self.all.read().expect("no code panics while it holds this lock"))
    }

    pub(super) fn set(&self, domains: BTreeMap<String, Domain>) {
        *self.all.write().expect("no code panics while it holds this lock") = Arc::new(domains);
        *self.read_at.write().expect("no code panics while it holds this lock") = Some(tokio::time::Instant::now());
    }

    pub(super) fn is_fresh(&self) -> bool {
        let read_at = *self.read_at.read().expect("no code panics while it holds this lock");
        read_at.is_some_and(|at| at.elapsed() < KNOWN_FOR)
    }
}
