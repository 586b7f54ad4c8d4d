//! Output streams of a node's activities, in memory and within bounds. Pure: the caller passes the time and random ids.
//!
//! If a bound is exceeded, room is made in this order: the streams that ended first are removed, then the oldest chunks
//! of the stream that is appended to are dropped. A stream of another running activity is never shortened.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use history::{EventId, Payload, Timestamp};
use store::HeadKey;
use tokio::time::Instant;
use uuid::Uuid;

use crate::{OutputChunk, OutputEnd};

/// Time for which output can be read after the end of its activity. Our choice: long enough to look at a failure.
pub(crate) const KEPT_FOR: Duration = Duration::from_hours(1);

/// Interval at which the run of each open stream is read, in order to notice that the activity has ended. Our choice:
/// short compared to [`KEPT_FOR`], and one read per minute and stream is cheap.
const CHECK_EVERY: Duration = Duration::from_mins(1);

/// Maximum bytes of the output of one activity. Our choice: some thousand lines, which is more than people read.
pub const OUTPUT_ACTIVITY_BYTES_MAX: usize = 1024 * 1024;

/// Divisor of the node's bytes. The quotient is the maximum bytes of the output of one domain. Our choice: a domain
/// leaves room for others.
const DOMAIN_PART: usize = 2;

/// Estimated memory of a chunk in addition to its text, in bytes. It counts towards all bounds.
const CHUNK_BYTES: usize = 128;

/// Estimated memory of a stream without chunks, in bytes. It counts towards all bounds, which thereby also bound the
/// number of activities with output.
const STREAM_BYTES: usize = 1_024;

/// Maximum bytes of chunks on a page. A larger chunk does not exist. Our choice: a page is small compared to the memory
/// of requests in flight, and a slow reader keeps one page in memory.
const PAGE_BYTES_MAX: usize = 256 * 1024;

/// Run of an activity.
pub(crate) type RunOf = (HeadKey, Uuid);

/// Chunks of a stream, from an offset.
#[derive(Debug, PartialEq)]
pub(crate) struct StreamPage {
    /// Identifies the stream. A stream that replaces a lost one has another id.
    pub(crate) stream: u64,
    /// Offset of the oldest chunk that is kept, or of the next chunk if none is kept.
    pub(crate) first: u64,
    /// Chunks, oldest first.
    pub(crate) chunks: Vec<OutputChunk>,
    /// Offset from which to continue.
    pub(crate) next: u64,
    /// Present if the activity has ended and no chunk follows this page.
    pub(crate) end: Option<OutputEnd>,
}

/// Chunks to append, with the attempt that appends them.
pub(crate) struct NewOutput {
    pub(crate) activity_id: String,
    pub(crate) attempt: u32,
    /// Number of chunks that the attempt has appended before, if the runner counts them.
    pub(crate) sequence: Option<u32>,
    pub(crate) chunks: Vec<Payload>,
    pub(crate) at: Timestamp,
}

/// Result of appending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AppendedChunks {
    pub(crate) stream: u64,
    pub(crate) next: u64,
    /// Number of chunks that were appended. Repeated chunks are not appended again.
    pub(crate) appended: u64,
}

/// Reason why chunks could not be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotAppended {
    /// The activity has ended.
    Ended,
    /// The output of other running activities leaves no room.
    Full,
}

struct Stream {
    id: u64,
    activity_id: String,
    chunks: VecDeque<OutputChunk>,
    next: u64,
    bytes: usize,
    /// Attempt that appended last, and the number of chunks that it has appended.
    attempt: u32,
    sequence: u32,
    end: Option<OutputEnd>,
    checked: Instant,
}

impl Stream {
    fn first(&self) -> u64 {
        self.chunks.front().map_or(self.next, |chunk| chunk.offset)
    }
}

fn size(chunk: &Payload) -> usize {
    chunk.len() + CHUNK_BYTES
}

struct EndedStream {
    at: Instant,
    run: RunOf,
    scheduled_event_id: EventId,
}

#[derive(Default)]
struct DomainOutput {
    bytes: usize,
    /// Streams of ended activities, in the order of their ends.
    ended: VecDeque<EndedStream>,
}

/// Output streams of a node.
pub(crate) struct OutputMemory {
    bytes_max: usize,
    runs: HashMap<RunOf, BTreeMap<EventId, Stream>>,
    domains: HashMap<Arc<str>, DomainOutput>,
    bytes: usize,
    /// Number of chunks that were dropped to make room.
    dropped: u64,
}

impl OutputMemory {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, runs: HashMap::new(), domains: HashMap::new(), bytes: 0, dropped: 0 }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of activities with output.
    pub(crate) fn streams(&self) -> usize {
        self.runs.values().map(BTreeMap::len).sum()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    fn stream(&self, run: &RunOf, id: EventId) -> Option<&Stream> {
        self.runs.get(run)?.get(&id)
    }

    fn stream_mut(&mut self, run: &RunOf, id: EventId) -> Option<&mut Stream> {
        self.runs.get_mut(run)?.get_mut(&id)
    }

    fn charge(&mut self, run: &RunOf, bytes: usize) {
        self.bytes += bytes;
        self.domains.entry(Arc::clone(&run.0.domain)).or_default().bytes += bytes;
    }

    fn release(&mut self, domain: &Arc<str>, bytes: usize) {
        self.bytes -= bytes;
        let Some(use_of) = self.domains.get_mut(domain) else { return };
        use_of.bytes -= bytes;
        if use_of.bytes == 0 {
            self.domains.remove(domain);
        }
    }

    /// Removes a stream. Its entry in `ended` must be removed by the caller.
    fn remove(&mut self, run: &RunOf, id: EventId) -> u64 {
        let Some(streams) = self.runs.get_mut(run) else { return 0 };
        let Some(stream) = streams.remove(&id) else { return 0 };
        if streams.is_empty() {
            self.runs.remove(run);
        }
        self.release(&run.0.domain, stream.bytes);
        stream.chunks.len() as u64
    }

    /// Removes the stream of a domain that ended first. Returns false if the domain has no ended stream.
    fn remove_ended(&mut self, domain: &Arc<str>) -> bool {
        let ended = self.domains.get_mut(domain).and_then(|domain| domain.ended.pop_front());
        let Some(EndedStream { run, scheduled_event_id, .. }) = ended else { return false };
        self.dropped += self.remove(&run, scheduled_event_id);
        true
    }

    /// Returns the domain with the stream that ended first.
    fn domain_of_first_end(&self) -> Option<Arc<str>> {
        let ended = self.domains.iter().filter_map(|(domain, it)| Some((it.ended.front()?.at, domain)));
        ended.min_by_key(|(at, _)| *at).map(|(_, domain)| Arc::clone(domain))
    }

    /// Drops the oldest chunk of a stream. Returns false if the stream has none.
    fn drop_oldest(&mut self, run: &RunOf, id: EventId) -> bool {
        let Some(stream) = self.stream_mut(run, id) else { return false };
        let Some(chunk) = stream.chunks.pop_front() else { return false };
        let bytes = size(&chunk.data);
        stream.bytes -= bytes;
        self.release(&run.0.domain, bytes);
        self.dropped += 1;
        true
    }

    /// Makes room for this number of bytes of a stream. Returns false if there is not enough.
    fn make_room(&mut self, run: &RunOf, id: EventId, bytes: usize) -> bool {
        let domain = Arc::clone(&run.0.domain);
        let of_stream = |memory: &Self| memory.stream(run, id).map_or(0, |stream| stream.bytes);
        while of_stream(self) + bytes > OUTPUT_ACTIVITY_BYTES_MAX {
            if !self.drop_oldest(run, id) {
                return false;
            }
        }
        let of_domain = |memory: &Self| memory.domains.get(&domain).map_or(0, |domain| domain.bytes);
        while of_domain(self) + bytes > self.bytes_max / DOMAIN_PART {
            if !self.remove_ended(&domain) && !self.drop_oldest(run, id) {
                return false;
            }
        }
        while self.bytes + bytes > self.bytes_max {
            let is_removed = self.domain_of_first_end().is_some_and(|domain| self.remove_ended(&domain));
            if !is_removed && !self.drop_oldest(run, id) {
                return false;
            }
        }
        true
    }

    /// Appends chunks to the stream of an activity. `new_id` identifies the stream if it does not exist yet.
    ///
    /// If the runner counts its chunks, chunks that were appended before are skipped, and chunks that never arrived
    /// leave a gap in the offsets.
    pub(crate) fn append(
        &mut self,
        run: &RunOf,
        id: EventId,
        new: NewOutput,
        new_id: u64,
        now: Instant,
    ) -> Result<AppendedChunks, NotAppended> {
        let NewOutput { activity_id, attempt, sequence, chunks, at } = new;
        if self.stream(run, id).is_none() {
            let bytes = STREAM_BYTES + activity_id.len();
            if !self.make_room(run, id, bytes) {
                return Err(NotAppended::Full);
            }
            self.charge(run, bytes);
            let (chunks, next, sequence, end, checked) = (VecDeque::new(), 0, 0, None, now);
            let stream = Stream { id: new_id, activity_id, chunks, next, bytes, attempt, sequence, end, checked };
            self.runs.entry(run.clone()).or_default().insert(id, stream);
        }
        let Some(stream) = self.stream_mut(run, id) else { return Err(NotAppended::Full) };
        if stream.end.is_some() {
            return Err(NotAppended::Ended);
        }
        if stream.attempt != attempt {
            (stream.attempt, stream.sequence) = (attempt, 0);
        }
        let sequence = sequence.unwrap_or(stream.sequence);
        let missing = sequence.saturating_sub(stream.sequence);
        let repeated = stream.sequence.saturating_sub(sequence);
        stream.next += u64::from(missing);
        stream.sequence += missing;
        let mut appended = 0;
        for data in chunks.into_iter().skip(repeated as usize) {
            let bytes = size(&data);
            if !self.make_room(run, id, bytes) {
                return Err(NotAppended::Full);
            }
            self.charge(run, bytes);
            let Some(stream) = self.stream_mut(run, id) else { return Err(NotAppended::Full) };
            stream.chunks.push_back(OutputChunk { offset: stream.next, attempt, at, data });
            stream.bytes += bytes;
            stream.next += 1;
            stream.sequence = stream.sequence.saturating_add(1);
            appended += 1;
        }
        let stream = self.stream(run, id).ok_or(NotAppended::Full)?;
        Ok(AppendedChunks { stream: stream.id, next: stream.next, appended })
    }

    /// Returns the ActivityScheduled event of the newest activity with this activity id that has output.
    pub(crate) fn newest(&self, run: &RunOf, activity_id: &str) -> Option<EventId> {
        let streams = self.runs.get(run)?;
        streams.iter().rev().find(|(_, stream)| stream.activity_id == activity_id).map(|(id, _)| *id)
    }

    /// Returns chunks of an activity's stream from an offset. Returns `None` if the activity has no stream.
    pub(crate) fn page(&self, run: &RunOf, id: EventId, activity_id: &str, from: u64) -> Option<StreamPage> {
        let stream = self.stream(run, id).filter(|stream| stream.activity_id == activity_id)?;
        let from_index = stream.chunks.partition_point(|chunk| chunk.offset < from);
        let mut left = PAGE_BYTES_MAX;
        let fits = |chunk: &&OutputChunk| {
            let fits = left.checked_sub(size(&chunk.data));
            left = fits.unwrap_or_default();
            fits.is_some()
        };
        let chunks: Vec<_> = stream.chunks.range(from_index..).take_while(fits).cloned().collect();
        let is_last = from_index + chunks.len() == stream.chunks.len();
        let next = if is_last { stream.next } else { chunks.last().map_or(from, |chunk| chunk.offset + 1) };
        let end = stream.end.clone().filter(|_| is_last);
        Some(StreamPage { stream: stream.id, first: stream.first(), chunks, next, end })
    }

    /// Returns true if the activity has a stream whose end is not known.
    pub(crate) fn is_open(&self, run: &RunOf, id: EventId) -> bool {
        self.stream(run, id).is_some_and(|stream| stream.end.is_none())
    }

    /// Marks the stream of an activity as ended.
    pub(crate) fn end(&mut self, run: &RunOf, id: EventId, end: OutputEnd, now: Instant) {
        let Some(stream) = self.stream_mut(run, id).filter(|stream| stream.end.is_none()) else { return };
        stream.end = Some(end);
        let ended = EndedStream { at: now, run: run.clone(), scheduled_event_id: id };
        self.domains.entry(Arc::clone(&run.0.domain)).or_default().ended.push_back(ended);
    }

    /// Removes the open stream of an activity whose run no longer exists.
    pub(crate) fn forget(&mut self, run: &RunOf, id: EventId) {
        if self.is_open(run, id) {
            self.remove(run, id);
        }
    }

    /// Removes the streams that ended at least [`KEPT_FOR`] ago.
    pub(crate) fn expire(&mut self, now: Instant) {
        let domains: Vec<_> = self.domains.keys().cloned().collect();
        for domain in domains {
            let is_over = |ended: &EndedStream| now.duration_since(ended.at) >= KEPT_FOR;
            while let Some(domain) = self.domains.get_mut(&domain)
                && domain.ended.front().is_some_and(is_over)
                && let Some(EndedStream { run, scheduled_event_id, .. }) = domain.ended.pop_front()
            {
                self.remove(&run, scheduled_event_id);
            }
        }
    }

    /// Returns the open streams whose runs were last read at least [`CHECK_EVERY`] ago. The caller must read them.
    pub(crate) fn take_unchecked(&mut self, now: Instant) -> Vec<(RunOf, EventId)> {
        let mut due = Vec::new();
        for (run, streams) in &mut self.runs {
            for (id, stream) in streams.iter_mut().filter(|(_, stream)| stream.end.is_none()) {
                if now.duration_since(stream.checked) >= CHECK_EVERY {
                    stream.checked = now;
                    due.push((run.clone(), *id));
                }
            }
        }
        due
    }
}

#[cfg(test)]
mod tests;
