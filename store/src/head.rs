//! Heads, parts and marks: the records of a store.

use std::sync::Arc;

use bytes::Bytes;

/// Time in milliseconds since 1970-01-01T00:00:00Z.
pub type UnixMs = u64;

/// A run id: the 16 bytes of its UUID.
pub type RunId = [u8; 16];

/// Key of a head. There is one head per workflow id of a domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeadKey {
    /// Name of the domain.
    pub domain: Arc<str>,
    /// Workflow id, chosen by the caller.
    pub workflow_id: Arc<str>,
}

impl HeadKey {
    /// Creates the key of this workflow id's head.
    pub fn new(domain: impl Into<Arc<str>>, workflow_id: impl Into<Arc<str>>) -> Self {
        Self { domain: domain.into(), workflow_id: workflow_id.into() }
    }
}

/// State of the newest run of a workflow id. Changed only by compare-and-swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Current run.
    pub run: RunId,
    /// Version, which grows by one with every commit to this key. The first commit of a new run continues the sequence.
    pub version: u64,
    /// State of the run, opaque to the store.
    pub body: Bytes,
    /// Time at which the service must next check the run, for example because a timer expires. `None` if the run has no
    /// such time.
    pub due: Option<UnixMs>,
    /// The run's row in lists, or `None` if it is not listed.
    pub row: Option<Row>,
    /// Time after which the head, its parts and its row may be deleted. They are never deleted before this time. `None`
    /// keeps them forever.
    pub expires_at: Option<UnixMs>,
}

/// Data of a run for lists of runs. The layer above writes it. The store filters and sorts lists by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Workflow type.
    pub workflow_type: Arc<str>,
    /// Status, e.g. `open` or `success`. The store compares it but does not interpret it.
    pub status: Arc<str>,
    /// True for the few rows that are searched often, such as runs that need attention. An engine finds flagged rows
    /// without examining others.
    pub flagged: bool,
    /// Instant at which the run started.
    pub started_at: UnixMs,
    /// Instant at which the run closed, or `None` while it is open.
    pub closed_at: Option<UnixMs>,
    /// Tags of the run.
    pub tags: Vec<String>,
    /// Reason why the run closed. `None` while the run is open, if there is no reason, and in rows written by earlier
    /// versions of Baton, which did not store reasons.
    pub why: Option<Box<RowReason>>,
}

/// Reason why a run closed, as stored in its row. [`Row`] keeps it in a box to save memory, because few rows have one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowReason {
    /// Complete reason, if there is one.
    pub reason: Option<String>,
    /// Details for people. Lists cannot be filtered by them.
    pub details: Option<String>,
}

impl RowReason {
    /// Returns the reason for a row, or `None` if both values are absent.
    pub fn of(reason: Option<String>, details: Option<String>) -> Option<Box<Self>> {
        (reason.is_some() || details.is_some()).then(|| Box::new(Self { reason, details }))
    }
}

impl Row {
    /// Returns the reason why the run closed.
    pub fn reason(&self) -> Option<&str> {
        self.why.as_ref()?.reason.as_deref()
    }

    /// Returns the details of the reason.
    pub fn details(&self) -> Option<&str> {
        self.why.as_ref()?.details.as_deref()
    }
}

/// Condition of a commit.
#[derive(Debug, Clone)]
pub enum Expect<'a> {
    /// The key has no head: none was written, or the last one was deleted.
    Absent,
    /// The head belongs to this run and has this version.
    Exactly {
        /// Expected run.
        run: RunId,
        /// Expected version.
        version: u64,
    },
    /// The key's current head has the run and the version of the head in this variant, and the commit begins a new run.
    ///
    /// The commit replaces the current head. The replaced head is kept for its run: until it expires, it can be read
    /// with [`Store::load_run`](crate::Store::load_run) and stays in lists. It expires at the `expires_at` of the head
    /// in this variant, which may differ from the stored `expires_at`.
    Replacing(&'a Head),
}

/// Outcome of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cas {
    /// Applied and durable.
    Won,
    /// Not applied. Contains the current head, or `None` if there is none.
    Lost(Option<Head>),
}

/// Key of a piece of a run that is stored outside its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PartKey {
    /// Committed events up to the event `last`.
    Chunk {
        /// Id of the chunk's last event.
        last: u64,
    },
    /// Large payloads written by one attempt of a commit.
    Pack {
        /// Operation id of the attempt. Each attempt has a different id.
        op: u64,
    },
    /// Newest heartbeat of an activity. The only kind of part that is overwritten.
    Heartbeat {
        /// Id of the activity's `ActivityScheduled`.
        scheduled: u64,
    },
}

/// A small record that belongs to a workflow id, independent of its heads and runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Name of the mark. The layer above chooses names that are evenly distributed.
    pub name: u64,
    /// Content, opaque to the store; at most [`MARK_BYTES_MAX`].
    pub bytes: Bytes,
    /// Time after which the mark may be deleted. It is never deleted before this time.
    pub expires_at: UnixMs,
}

/// Maximum size of a mark. Chosen so that a mark with its key takes less than a kilobyte, for which DynamoDB bills one
/// write unit.
pub const MARK_BYTES_MAX: usize = 256;

/// Entry of the due index, which the layer above reads to find the runs that it must check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Time of `due` in the head, as recorded in the index.
    pub at: UnixMs,
    /// Key of the head.
    pub key: HeadKey,
}
