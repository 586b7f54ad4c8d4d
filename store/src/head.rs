//! Heads, and what lies beside them: parts and marks.

use std::sync::Arc;

use bytes::Bytes;

/// Milliseconds since 1970-01-01T00:00:00Z.
pub type UnixMs = u64;

/// A run id: the 16 bytes of its UUID.
pub type RunId = [u8; 16];

/// Names a head: one per workflow id of a domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeadKey {
    /// The domain's name.
    pub domain: Arc<str>,
    /// The workflow id, chosen by the caller.
    pub workflow_id: Arc<str>,
}

impl HeadKey {
    /// The key of this workflow id's head.
    pub fn new(domain: impl Into<Arc<str>>, workflow_id: impl Into<Arc<str>>) -> Self {
        Self { domain: domain.into(), workflow_id: workflow_id.into() }
    }
}

/// The whole transactional state of the newest run of a workflow id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The run now in the head.
    pub run: RunId,
    /// Grows by one with every commit to this key, and is never reset while the key lives: a new run continues it.
    pub version: u64,
    /// Opaque to the store.
    pub body: Bytes,
    /// A lower bound of the next instant at which somebody must look at this run; `None` when nobody has to.
    pub due: Option<UnixMs>,
    /// How the run shows in lists; `None` keeps it out of them.
    pub row: Option<Row>,
    /// The store forgets the head, its parts and its row by itself some time after this instant and never before;
    /// `None` keeps them for ever.
    pub expires_at: Option<UnixMs>,
}

/// A run as lists show it. Set by the engine above, matched and ordered by the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The workflow type.
    pub workflow_type: Arc<str>,
    /// The status word, e.g. `open` or `success`; compared, never interpreted.
    pub status: Arc<str>,
    /// Whether it is one of few that somebody looks for: an engine finds those without a look at the others.
    pub flagged: bool,
    /// When the run started.
    pub started_at: UnixMs,
    /// When it closed; `None` while it is open.
    pub closed_at: Option<UnixMs>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Why it closed; `None` while it is open, if nothing was said, and in rows of versions that did not store it.
    pub why: Option<Box<RowReason>>,
}

/// Why a run closed, in its row. Boxed there: few rows have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowReason {
    /// The whole reason, if there is one.
    pub reason: Option<String>,
    /// More about it, for people. No condition of a list looks at it.
    pub details: Option<String>,
}

impl RowReason {
    /// Returns what a row has of these: nothing, if both are absent.
    pub fn of(reason: Option<String>, details: Option<String>) -> Option<Box<Self>> {
        (reason.is_some() || details.is_some()).then(|| Box::new(Self { reason, details }))
    }
}

impl Row {
    /// The reason that it closed with.
    pub fn reason(&self) -> Option<&str> {
        self.why.as_ref()?.reason.as_deref()
    }

    /// More about the reason.
    pub fn details(&self) -> Option<&str> {
        self.why.as_ref()?.details.as_deref()
    }
}

/// What a commit expects to find.
#[derive(Debug, Clone)]
pub enum Expect<'a> {
    /// No head under this key (never written, or expired and forgotten).
    Absent,
    /// Exactly this run at exactly this version.
    Exactly {
        /// The run read.
        run: RunId,
        /// The version read.
        version: u64,
    },
    /// Exactly this head, of an earlier run, which the commit replaces with a new run's. The store keeps the earlier
    /// head readable by [`Store::load_run`](crate::Store::load_run), and its row in lists, until the `expires_at` that it has here, which may differ
    /// from the one it was committed with.
    Replacing(&'a Head),
}

/// How a commit ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cas {
    /// Applied, and durable.
    Won,
    /// Not applied: something else is there, namely this head (`None`: nothing).
    Lost(Option<Head>),
}

/// Names an immutable piece of a run that does not live in its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PartKey {
    /// Committed events, ending with the event `last`.
    Chunk {
        /// The id of the chunk's last event.
        last: u64,
    },
    /// The large payloads of one commit attempt.
    Pack {
        /// The attempt's operation id.
        op: u64,
    },
    /// The newest heartbeat of an activity: the one kind of part that is overwritten.
    Beat {
        /// The activity's `ActivityScheduled` event id.
        scheduled: u64,
    },
}

/// A small record of a workflow id, whichever of its runs is in the head, and whether one is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Its name. Chosen by the layer above, evenly spread.
    pub name: u64,
    /// Opaque to the store; at most [`MARK_BYTES_MAX`].
    pub bytes: Bytes,
    /// The store forgets it by itself some time after this instant and never before.
    pub expires_at: UnixMs,
}

/// Most bytes of a mark. Ours: with its key it takes less than a kilobyte, which is what DynamoDB bills as one.
pub const MARK_BYTES_MAX: usize = 256;

/// One run among those that must be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The head's `due`, as the index has it.
    pub at: UnixMs,
    /// Whose.
    pub key: HeadKey,
}
