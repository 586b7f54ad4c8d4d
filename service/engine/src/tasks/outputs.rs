//! Output of activities (progress streams): a runner appends chunks, and readers follow them. The output is kept in the
//! memory of one node. It is no part of the history, causes no turn, and is lost with its node.
//!
//! If several nodes share the store, the output of a run is kept by the home node of the run's shard in the due index.
//! Other nodes forward requests to it. If another node becomes the home, the output so far is lost.

pub(crate) mod memory;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use history::admit::{HeldState, check_output_chunk, held, held_state};
use history::{EventId, EventKind, Fault, Payload};
use store::{HeadKey, Store};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::base::admission::count_waiting;
use crate::base::background::Background;
use crate::base::clock::Ids;
use crate::base::token::Mint;
use crate::base::watch::Watchers;
use crate::commit::StoredRun;
use crate::commit::read::RunReader;
use crate::lists::hand_out::TaskLists;
use crate::nodes::Nodes;
use crate::nodes::messages::{ForwardedOutput, FromOutputReader, FromOutputWriter, OutputRequest};
use crate::run::lookup::RunLookup;
use crate::tasks::outputs::memory::{NewOutput, NotAppended, OutputMemory, RunOf};
use crate::{
    ActivityToken, AppendedOutput, Clock, EventRange, Metrics, OutputEnd, OutputPage, OutputRange, Refusal, RunRef,
};

/// Maximum time for which another node waits for new output before it responds. Our choice: short enough to notice soon
/// that another node has become the home of the run.
const FORWARD_WAIT: Duration = Duration::from_secs(10);

/// Delay before the next request to a node that has ended the wait of a request early. Our choice: the node is
/// stopping, and another node becomes the home of the run within seconds.
const NEXT_REQUEST_DELAY: Duration = Duration::from_millis(250);

/// Maximum number of pages of the history that are read to find the event that ended an activity, and the number of
/// events of such a page. Our choice: the event is usually among the newest.
const END_PAGES_MAX: usize = 16;
const END_PAGE_EVENTS: usize = 100;

/// Interval at which output that is no longer kept is removed. Our choice: short compared to the time for which output
/// is kept.
const EXPIRE_EVERY: Duration = Duration::from_secs(30);

/// Address of a stream.
type StreamOf = (RunOf, EventId);

/// Output of activities at this node.
pub struct Outputs {
    pub(crate) lookup: Arc<RunLookup>,
    pub(crate) reader: Arc<RunReader>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) lists: Arc<TaskLists>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) mint: Arc<Mint>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) background: Arc<Background>,
    pub(crate) memory: Mutex<OutputMemory>,
    /// Senders to the waiting readers of streams. A stream without waiting readers has none.
    pub(crate) waiting: Mutex<HashMap<StreamOf, watch::Sender<()>>>,
}

/// A reader that waits for chunks of a stream.
struct WaitingReader<'a> {
    outputs: &'a Outputs,
    stream: StreamOf,
    receiver: watch::Receiver<()>,
}

impl Drop for WaitingReader<'_> {
    fn drop(&mut self) {
        let mut waiting = self.outputs.waiting();
        if waiting.get(&self.stream).is_some_and(|sender| sender.receiver_count() <= 1) {
            waiting.remove(&self.stream);
        }
    }
}

fn run_ref((key, run_id): &RunOf) -> RunRef {
    let (domain, workflow_id) = (Arc::clone(&key.domain), Arc::clone(&key.workflow_id));
    RunRef { domain, workflow_id, run_id: Some(*run_id) }
}

impl Outputs {
    fn memory(&self) -> MutexGuard<'_, OutputMemory> {
        self.memory.lock().expect("no code panics while it holds this lock")
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<StreamOf, watch::Sender<()>>> {
        self.waiting.lock().expect("no code panics while it holds this lock")
    }

    /// Returns the other node that keeps the output of a run; `None` if this node keeps it.
    fn home(&self, key: &HeadKey) -> Option<String> {
        self.nodes.other_home(self.store.due_shard(key))
    }

    fn wait_for_chunks(&self, stream: StreamOf) -> WaitingReader<'_> {
        let mut waiting = self.waiting();
        let receiver = waiting.entry(stream.clone()).or_insert_with(|| watch::Sender::new(())).subscribe();
        drop(waiting);
        WaitingReader { outputs: self, stream, receiver }
    }

    fn notify(&self, stream: &StreamOf) {
        if let Some(sender) = self.waiting().get(stream) {
            sender.send_replace(());
        }
    }

    /// Appends chunks to the output of the activity that the token's holder runs. `sequence` is the number of chunks
    /// that this attempt has appended before. With it, the request can be repeated.
    ///
    /// # Errors
    ///
    /// The errors of [`Tasks::heartbeat`](crate::Tasks::heartbeat), [`Refusal::OutputFull`], or
    /// [`Refusal::Unavailable`] if the node that keeps the output does not respond.
    pub async fn append(
        &self,
        token: &str,
        chunks: Vec<Payload>,
        sequence: Option<u32>,
    ) -> Result<AppendedOutput, Refusal> {
        let opened = self.mint.open_activity(token)?;
        for (index, chunk) in chunks.iter().enumerate() {
            check_output_chunk(index, chunk)?;
        }
        let Some(node) = self.home(&opened.key()) else { return self.append_here(&opened, chunks, sequence).await };
        let Some(peers) = self.lists.elsewhere.peers() else {
            return Err(unreachable(&node, "there is no connection"));
        };
        match peers.append_output(&node, &ForwardedOutput { token: token.to_owned(), chunks, sequence }).await {
            Ok(FromOutputWriter::Appended(appended)) => Ok(appended),
            Ok(FromOutputWriter::Refused(fault)) => Err(fault.into()),
            Ok(FromOutputWriter::Full) => Err(Refusal::OutputFull),
            Ok(FromOutputWriter::Failed(error)) | Err(error) => Err(unreachable(&node, &error)),
        }
    }

    /// Appends output that another node received.
    pub async fn append_for_node(&self, forwarded: ForwardedOutput) -> FromOutputWriter {
        let ForwardedOutput { token, chunks, sequence } = forwarded;
        let appended = match self.mint.open_activity(&token) {
            Ok(token) => self.append_here(&token, chunks, sequence).await,
            Err(refusal) => Err(refusal),
        };
        match appended {
            Ok(appended) => FromOutputWriter::Appended(appended),
            Err(Refusal::Fault(fault)) => FromOutputWriter::Refused(fault),
            Err(Refusal::OutputFull) => FromOutputWriter::Full,
            Err(refusal) => FromOutputWriter::Failed(refusal.to_string()),
        }
    }

    async fn append_here(
        &self,
        token: &ActivityToken,
        chunks: Vec<Payload>,
        sequence: Option<u32>,
    ) -> Result<AppendedOutput, Refusal> {
        let run = (token.key(), token.run_id);
        let loaded = match self.lookup.look_up(&run_ref(&run)).await {
            Ok(loaded) => loaded,
            // The run was deleted.
            Err(Refusal::UnknownDomain { .. } | Refusal::UnknownWorkflow { .. } | Refusal::UnknownRun { .. }) => {
                return Err(Fault::ActivityClosed.into());
            }
            Err(refusal) => return Err(refusal),
        };
        let HeldState { cancel_requested, paused } = held_state(loaded.run(), token.task)?;
        let activity = held(loaded.run(), token.task)?;
        let (activity_id, attempt, at) = (activity.activity_id.clone(), activity.attempt(), self.clock.now());
        let new = NewOutput { activity_id, attempt, sequence, chunks, at };
        let id = token.task.scheduled_event_id;
        let appended = self.memory().append(&run, id, new, self.ids.op(), Instant::now());
        let appended = appended.map_err(|why| match why {
            NotAppended::Ended => Refusal::from(Fault::ActivityClosed),
            NotAppended::Full => Refusal::OutputFull,
        })?;
        self.metrics.output_chunks.inc_by(appended.appended);
        self.notify(&(run, id));
        Ok(AppendedOutput { stream: appended.stream, next: appended.next, cancel_requested, paused })
    }

    /// Returns chunks of an activity's output. If there is none from this offset, waits up to `wait` for a chunk or for
    /// the end of the activity.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::UnknownWorkflow`], [`Refusal::UnknownRun`], [`Refusal::OutputNotKept`],
    /// [`Refusal::Unavailable`] if the node that keeps the output does not respond, or an error of the store.
    pub async fn read(&self, at: &RunRef, range: &OutputRange, wait: Duration) -> Result<OutputPage, Refusal> {
        let (key, deadline) = (at.key(), Instant::now() + wait);
        let run_id = self.lookup.look_up(at).await?.run().started.run_id;
        let run = (key, run_id);
        loop {
            let began = Instant::now();
            let left = deadline.saturating_duration_since(began);
            // After each wait, this node checks whether another node has become the home of the run.
            let wait = if self.nodes.is_shared() { left.min(FORWARD_WAIT) } else { left };
            let page = match self.home(&run.0) {
                None => self.read_here(&run, range, Instant::now() + wait).await?,
                Some(node) => self.read_at(&node, &run, range, wait).await?,
            };
            if page.has_news(range.from) || Instant::now() >= deadline || self.background.is_stopping() {
                return Ok(page);
            }
            if began.elapsed() < wait {
                // The other node is stopping.
                tokio::time::sleep_until(deadline.min(Instant::now() + NEXT_REQUEST_DELAY)).await;
            }
        }
    }

    async fn read_at(
        &self,
        node: &str,
        (key, run_id): &RunOf,
        range: &OutputRange,
        wait: Duration,
    ) -> Result<OutputPage, Refusal> {
        if !wait.is_zero() {
            count_waiting()?;
        }
        let Some(peers) = self.lists.elsewhere.peers() else { return Err(unreachable(node, "there is no connection")) };
        let OutputRange { activity_id, scheduled_event_id, stream, from } = range.clone();
        let request = OutputRequest {
            domain: key.domain.to_string(),
            workflow_id: key.workflow_id.to_string(),
            run_id: *run_id,
            activity_id,
            scheduled_event_id,
            stream,
            from,
            wait,
        };
        let reply = tokio::select! {
            reply = peers.read_output(node, &request) => reply,
            () = self.background.stopped() => return Err(Refusal::Stopping),
        };
        match reply {
            Ok(FromOutputReader::Page(page)) => Ok(page),
            Ok(FromOutputReader::NotKept) => Err(not_kept(range)),
            Ok(FromOutputReader::Failed(error)) | Err(error) => Err(unreachable(node, &error)),
        }
    }

    /// Reads output for a request that another node received.
    pub async fn read_for_node(&self, request: OutputRequest) -> FromOutputReader {
        let OutputRequest { domain, workflow_id, run_id, activity_id, scheduled_event_id, stream, from, wait } =
            request;
        let run = (HeadKey::new(&*domain, &*workflow_id), run_id);
        let range = OutputRange { activity_id, scheduled_event_id, stream, from };
        match self.read_here(&run, &range, Instant::now() + wait.min(FORWARD_WAIT)).await {
            Ok(page) => FromOutputReader::Page(page),
            Err(Refusal::OutputNotKept { .. }) => FromOutputReader::NotKept,
            Err(refusal) => FromOutputReader::Failed(refusal.to_string()),
        }
    }

    async fn read_here(&self, run: &RunOf, range: &OutputRange, deadline: Instant) -> Result<OutputPage, Refusal> {
        let at = run_ref(run);
        loop {
            // Both watchers must exist before the run and the stream are read, so that no change is missed.
            let mut watching = self.watchers.watch(&run.0);
            let loaded = self.lookup.look_up(&at).await?;
            let id = self.activity_of(run, &loaded, range).ok_or_else(|| not_kept(range))?;
            let mut chunks = self.wait_for_chunks((run.clone(), id));
            let page = self.page_now(run, &loaded, id, range).await?;
            if page.has_news(range.from) || Instant::now() >= deadline || self.background.is_stopping() {
                return Ok(page);
            }
            count_waiting()?;
            tokio::select! {
                biased;
                _ = chunks.receiver.changed() => {}
                () = watching.beyond(run.1, loaded.run().last_event_id) => {}
                () = self.lookup.watch_others(&at) => {}
                () = self.background.stopped() => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }

    /// Returns the ActivityScheduled event of the activity whose output is read.
    fn activity_of(&self, run: &RunOf, loaded: &StoredRun, range: &OutputRange) -> Option<EventId> {
        let open = loaded.run().activities.iter().find(|(_, activity)| activity.activity_id == range.activity_id);
        let open = open.map(|(id, _)| *id).filter(|_| loaded.run().is_open());
        range.scheduled_event_id.or_else(|| self.memory().newest(run, &range.activity_id).max(open))
    }

    async fn page_now(
        &self,
        run: &RunOf,
        loaded: &StoredRun,
        id: EventId,
        range: &OutputRange,
    ) -> Result<OutputPage, Refusal> {
        let open = loaded.run().activities.get(&id).filter(|_| loaded.run().is_open());
        if open.is_none() && self.memory().is_open(run, id) {
            let end = self.end_of(loaded, &run.0, id).await?.unwrap_or_default();
            self.memory().end(run, id, end, Instant::now());
        }
        let page = self.memory().page(run, id, &range.activity_id, range.from);
        if let Some(page) = page {
            if range.stream.is_some_and(|stream| stream != page.stream) || range.from > page.next {
                return Err(not_kept(range));
            }
            let memory::StreamPage { stream, first, chunks, next, end } = page;
            let (run_id, scheduled_event_id, stream) = (run.1, id, Some(stream));
            return Ok(OutputPage { run_id, scheduled_event_id, stream, first, chunks, next, end });
        }
        if range.stream.is_some() || range.from > 0 {
            return Err(not_kept(range));
        }
        let end = match open {
            Some(activity) if activity.activity_id == range.activity_id => None,
            // A reader that names the event has usually waited for the first chunk.
            None if range.scheduled_event_id.is_some() && self.is_scheduled(loaded, &run.0, id, range).await? => {
                Some(self.end_of(loaded, &run.0, id).await?.ok_or_else(|| not_kept(range))?)
            }
            Some(_) | None => return Err(not_kept(range)),
        };
        let (run_id, scheduled_event_id, chunks) = (run.1, id, Vec::new());
        Ok(OutputPage { run_id, scheduled_event_id, stream: None, first: 0, chunks, next: 0, end })
    }

    /// Returns true if this event has scheduled the activity whose output is read.
    async fn is_scheduled(
        &self,
        loaded: &StoredRun,
        key: &HeadKey,
        id: EventId,
        range: &OutputRange,
    ) -> Result<bool, Refusal> {
        let Some(after) = id.checked_sub(1).filter(|_| id <= loaded.run().last_event_id) else { return Ok(false) };
        let (limit, leaves_payloads_out) = (1, true);
        let only = EventRange { after, limit, leaves_payloads_out, ..EventRange::default() };
        let events = self.reader.read_page(key, loaded, &only).await?.events;
        let kind = events.first().map(|event| &event.kind);
        Ok(matches!(kind, Some(EventKind::ActivityScheduled(it)) if it.activity_id == range.activity_id))
    }

    /// Finds the event that ended an activity: an event of the activity, or the event that closed the run.
    async fn end_of(&self, loaded: &StoredRun, key: &HeadKey, id: EventId) -> Result<Option<OutputEnd>, Refusal> {
        let run = loaded.run();
        let mut before = None;
        let mut closing = None;
        for _ in 0..END_PAGES_MAX {
            let (reverse, limit, leaves_payloads_out) = (true, END_PAGE_EVENTS, true);
            let range = EventRange { after: id, before, reverse, limit, leaves_payloads_out, ..EventRange::default() };
            let events = self.reader.read_page(key, loaded, &range).await?.events;
            for event in &events {
                let end = || OutputEnd { event_id: Some(event.id), event: Some(event.kind.name().to_owned()) };
                if event.kind.activity_close().is_some_and(|close| close.scheduled_event_id() == id) {
                    return Ok(Some(end()));
                }
                if !run.is_open() && event.id == run.last_event_id {
                    closing = Some(end());
                }
            }
            before = events.last().map(|event| event.id);
            if before.is_none() {
                break;
            }
        }
        Ok(closing)
    }

    /// Starts the background task that removes output. It ends when the engine shuts down.
    pub(crate) fn start_expiring(self: &Arc<Self>) {
        let outputs = Arc::clone(self);
        self.background.keep("removing output of activities", move || {
            let outputs = Arc::clone(&outputs);
            Box::pin(async move {
                loop {
                    tokio::time::sleep(EXPIRE_EVERY).await;
                    outputs.expire().await;
                }
            })
        });
    }

    /// Removes output that is no longer kept, and notices activities that have ended.
    async fn expire(&self) {
        self.memory().expire(Instant::now());
        let due = self.memory().take_unchecked(Instant::now());
        for (run, id) in due {
            match self.lookup.look_up(&run_ref(&run)).await {
                Ok(loaded) => {
                    let is_open = loaded.run().is_open() && loaded.run().activities.contains_key(&id);
                    if !is_open {
                        let end = self.end_of(&loaded, &run.0, id).await.ok().flatten().unwrap_or_default();
                        self.memory().end(&run, id, end, Instant::now());
                        self.notify(&(run, id));
                    }
                }
                Err(Refusal::UnknownDomain { .. } | Refusal::UnknownWorkflow { .. } | Refusal::UnknownRun { .. }) => {
                    self.memory().forget(&run, id);
                }
                Err(refusal) => tracing::debug!(%refusal, "the run of an activity with output could not be read"),
            }
        }
    }

    /// Returns the number of activities with output, the bytes of their output, and the number of chunks that were
    /// dropped to make room.
    pub(crate) fn counts(&self) -> (usize, usize, u64) {
        let memory = self.memory();
        (memory.streams(), memory.bytes(), memory.dropped())
    }
}

fn not_kept(range: &OutputRange) -> Refusal {
    Refusal::OutputNotKept { activity_id: range.activity_id.clone() }
}

fn unreachable(node: &str, error: &str) -> Refusal {
    let why = format!("node {node}, which keeps the output of the run, does not respond: {error}");
    Refusal::Unavailable { why, retry_after: None }
}
