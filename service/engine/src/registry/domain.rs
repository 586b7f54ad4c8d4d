//! What a domain is, and which there are as last read.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use history::{Duration, Timestamp};
use serde::{Deserialize, Serialize};

/// The domain that is always there.
pub const DEFAULT_DOMAIN: &str = "default";

/// Where others may write to the store: how old what is known of domains may be when something is started in one. Ours: a
/// read of the store every so often is little, and so is the time that a deprecation takes to be heard everywhere.
const KNOWN_FOR: std::time::Duration = std::time::Duration::from_secs(10);

/// An isolation boundary: workflow ids and task lists of different domains have nothing to do with each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// Its name. 1 to 256 characters.
    pub name: String,
    /// What it is for. At most 4,096 bytes.
    pub description: Option<String>,
    /// How long its runs stay readable after they closed, where their start does not say.
    pub retention: Duration,
    /// Since when.
    pub created_at: Timestamp,
    /// Since when nothing can be started or registered in it; what is open goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated_at: Option<Timestamp>,
    /// Tags: at most 50, keys of 1 to 128 characters, values of at most 256.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Whether types have been registered in it: where none have, nobody looks for any.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_types: bool,
}

impl Domain {
    /// A domain that is in use and has no tags.
    pub fn new(name: &str, retention: Duration, created_at: Timestamp) -> Self {
        let (name, tags) = (name.to_owned(), BTreeMap::new());
        Self { name, description: None, retention, created_at, deprecated_at: None, tags, has_types: false }
    }
}

/// The domains as last read.
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
