//! The complete record of a world: its histories, every write to its store, and every response to a caller. Two
//! versions of the program with the same behavior produce the same record for a seed.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use engine::{
    ActivityTask, Admitted, DeciderTask, Delivery, HistoryPage, QueryReply, Refusal, RunState, Started, UpdateProgress,
    WasReset,
};
use history::{Event, UpdateStatus, codec};
use minicbor::Decoder;
use minicbor::data::Type;
use store::{Cas, Error, Expect, Head, HeadKey, Mark, PartKey, RunId, Store};
use uuid::Uuid;

use crate::facts::Histories;
use crate::intercepted::{Commit, Interceptor};
use crate::stored;

/// Record of a world.
#[derive(Debug, Default)]
pub struct Record {
    histories: Vec<String>,
    writes: Vec<Written>,
    answers: Vec<String>,
}

/// A write to the store.
#[derive(Debug)]
struct Written {
    /// Description, without the bytes.
    what: String,
    /// Contents of the bytes.
    form: Form,
    bytes: Bytes,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Head,
    Events,
    Opaque,
}

impl Record {
    /// Returns digests of the histories, the stored data and the responses.
    pub fn digests(&self) -> [String; 3] {
        let (mut histories, mut stored, mut answers) = (Digest::new(), Digest::new(), Digest::new());
        self.histories.iter().for_each(|line| histories.add(line.as_bytes()));
        for write in &self.writes {
            stored.add(write.what.as_bytes());
            stored.add(&write.bytes);
        }
        self.answers.iter().for_each(|line| answers.add(line.as_bytes()));
        [histories, stored, answers].map(|digest| format!("{:016x}", digest.0))
    }

    /// Returns the record as text, with a line for each event, write and response.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut section = |name: &str, lines: &mut dyn Iterator<Item = String>| {
            writeln!(text, "== {name}\n").expect("writing to memory does not fail");
            lines.for_each(|line| text.push_str(&(line + "\n")));
            text.push('\n');
        };
        section("histories", &mut self.histories.iter().cloned());
        section("stored", &mut self.writes.iter().map(Written::line));
        section("answers", &mut self.answers.iter().cloned());
        text.truncate(text.trim_end().len());
        text + "\n"
    }

    pub(crate) fn note_histories(&mut self, histories: &Histories) {
        for (run_id, events) in histories {
            self.histories.extend(events.iter().map(|event| format!("{run_id} {}", json(event))));
        }
    }
}

impl Written {
    fn line(&self) -> String {
        let shown = match self.form {
            Form::Head => self.head(),
            Form::Events => Some(events(&self.bytes)),
            Form::Opaque => None,
        };
        format!("{} {}", self.what, shown.unwrap_or_else(|| hex(&self.bytes)))
    }

    fn head(&self) -> Option<String> {
        let (body, tail) = stored::sections(&self.bytes)?;
        let last = codec::events_from(tail, 1).filter_map(Result::ok).last().map_or(0, |event| event.id);
        Some(format!("{} and events up to {last}", plain(&mut Decoder::new(body))?))
    }
}

fn json(event: &Event) -> String {
    serde_json::to_string(event).expect("events have a JSON form")
}

/// Returns ids and names of events; their attributes are in the histories.
fn names(events: &[Event]) -> String {
    events.iter().map(|event| format!("{} {}", event.id, event.kind.name())).collect::<Vec<_>>().join(", ")
}

fn events(bytes: &[u8]) -> String {
    let events = codec::events_from(bytes, 1).map(|event| event.map_or_else(|_| "?".to_owned(), |event| json(&event)));
    format!("[{}]", events.collect::<Vec<_>>().join(","))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// Formats CBOR as text, in the order of its elements.
fn plain(from: &mut Decoder<'_>) -> Option<String> {
    Some(match from.datatype().ok()? {
        Type::Bool => from.bool().ok()?.to_string(),
        Type::Null => from.null().ok().map(|()| "null".to_owned())?,
        Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::I8 | Type::I16 | Type::I32 | Type::I64 => {
            from.int().ok()?.to_string()
        }
        Type::Bytes => format!("h'{}'", hex(from.bytes().ok()?)),
        Type::String => format!("{:?}", from.str().ok()?),
        Type::Array => {
            let count = from.array().ok()??;
            let values: Option<Vec<_>> = (0..count).map(|_| plain(from)).collect();
            format!("[{}]", values?.join(", "))
        }
        Type::Map => {
            let count = from.map().ok()??;
            let members: Option<Vec<_>> =
                (0..count).map(|_| Some(format!("{}: {}", plain(from)?, plain(from)?))).collect();
            format!("{{{}}}", members?.join(", "))
        }
        _ => return None,
    })
}

/// The 64-bit FNV-1a hash of parts and their lengths.
struct Digest(u64);

impl Digest {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, part: &[u8]) {
        let length = part.len().to_be_bytes();
        for byte in part.iter().chain(&length) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// Records what happens in a world.
#[derive(Clone, Default)]
pub(crate) struct Recorder(Arc<Mutex<Record>>);

impl Recorder {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().expect("no code panics while it holds this lock")
    }

    pub(crate) fn record_response<T: RecordedResponse>(&self, answer: &Result<T, Refusal>) {
        let line = match answer {
            Ok(response) => response.line(),
            Err(refusal) => format!("refused {}", refusal.code()),
        };
        self.record().answers.push(line);
    }

    /// Returns the record so far.
    pub(crate) fn take(&self) -> Record {
        std::mem::take(&mut self.record())
    }

    /// Returns a store whose writes are recorded.
    pub(crate) fn over(&self, store: Arc<dyn Store>) -> Recorded {
        Recorded { store, recorder: self.clone() }
    }
}

/// A store whose writes are recorded.
pub(crate) struct Recorded {
    store: Arc<dyn Store>,
    recorder: Recorder,
}

impl Recorded {
    fn write(&self, what: String, form: Form, bytes: &Bytes) {
        self.recorder.record().writes.push(Written { what, form, bytes: bytes.clone() });
    }

    fn part(&self, key: &HeadKey, run: RunId, part: PartKey, bytes: &Bytes) {
        let (name, form) = match part {
            PartKey::Chunk { last } => (format!("chunk {last}"), Form::Events),
            PartKey::Pack { op } => (format!("pack {op:x}"), Form::Opaque),
            PartKey::Heartbeat { scheduled } => (format!("beat {scheduled}"), Form::Opaque),
        };
        self.write(format!("{} {} {name}", place(key), Uuid::from_bytes(run)), form, bytes);
    }
}

fn place(key: &HeadKey) -> String {
    format!("{}/{}", key.domain, key.workflow_id)
}

fn head(head: &Head) -> String {
    let instant = |at: Option<u64>| at.map_or("-".to_owned(), |at| at.to_string());
    let row = head.row.as_ref().map_or("-".to_owned(), |row| {
        let (closed_at, flag) = (instant(row.closed_at), if row.flagged { "flagged" } else { "plain" });
        format!("{} {} {flag} {} {closed_at} {:?}", row.workflow_type, row.status, row.started_at, row.tags)
    });
    let run = Uuid::from_bytes(head.run);
    format!("{run} version {} due {} expires {} row {row}", head.version, instant(head.due), instant(head.expires_at))
}

#[async_trait]
impl Interceptor for Recorded {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn commit(&self, Commit { key, expect, head: next, parts }: Commit<'_>) -> Result<Cas, Error> {
        let before = if let Expect::Replacing(before) = expect { Some(before) } else { None };
        let answer = self.store.commit(key, expect, next, parts).await?;
        if matches!(answer, Cas::Won) {
            if let Some(before) = before {
                self.write(format!("{} keeps {}", place(key), head(before)), Form::Head, &before.body);
            }
            self.write(format!("{} head {}", place(key), head(next)), Form::Head, &next.body);
            for (part, bytes) in parts {
                self.part(key, next.run, *part, bytes);
            }
        }
        Ok(answer)
    }

    async fn put_part(&self, key: &HeadKey, run: RunId, part: PartKey, bytes: Bytes) -> Result<(), Error> {
        self.part(key, run, part, &bytes);
        self.store.put_part(key, run, part, bytes).await
    }

    async fn put_marks(&self, key: &HeadKey, marks: &[Mark]) -> Result<(), Error> {
        for mark in marks {
            let what = format!("{} mark {:x} expires {}", place(key), mark.name, mark.expires_at);
            self.write(what, Form::Opaque, &mark.bytes);
        }
        self.store.put_marks(key, marks).await
    }
}

/// A response to a caller. The texts belong to the record: renaming a type does not change them.
pub(crate) trait RecordedResponse {
    fn line(&self) -> String;
}

impl RecordedResponse for () {
    fn line(&self) -> String {
        "done".to_owned()
    }
}

impl RecordedResponse for bool {
    fn line(&self) -> String {
        format!("heartbeat, asked to stop: {self}")
    }
}

impl RecordedResponse for Started {
    fn line(&self) -> String {
        format!("started {} repeated: {} existing: {}", self.run_id, self.repeated, self.existing)
    }
}

impl RecordedResponse for Admitted {
    fn line(&self) -> String {
        let Self { run_id, event_id, repeated, reflects, judged, version, warnings: _ } = self;
        let updates: Vec<_> = judged.iter().map(standing).collect();
        format!("recorded {run_id} {event_id} version {version} repeated: {repeated} reflects {reflects:?} {updates:?}")
    }
}

fn standing(of: &UpdateStatus) -> String {
    match of {
        UpdateStatus::New => "new".to_owned(),
        UpdateStatus::Accepted { event_id } => format!("accepted {event_id}"),
        UpdateStatus::Ended { run_id, event_id } => format!("ended {run_id} {event_id}"),
    }
}

impl<T: RecordedResponse> RecordedResponse for Option<Delivery<T>> {
    fn line(&self) -> String {
        self.as_ref().map_or_else(|| "no task".to_owned(), |delivery| delivery.task().line())
    }
}

impl RecordedResponse for DeciderTask {
    fn line(&self) -> String {
        let asks = self.queries.iter().map(|query| query.id.clone());
        let updates = self.updates.iter().map(|update| update.update_id.clone());
        format!(
            "turn {}/{} {} {} {} try {} from {} to {} only asks: {} speculative: {} {:?} {:?} {} {}",
            self.domain,
            self.workflow_id,
            self.run_id,
            self.workflow_type,
            self.task_list,
            self.attempt,
            self.previous_started_event_id,
            self.started_event_id,
            self.query_only,
            self.speculative,
            asks.collect::<Vec<_>>(),
            updates.collect::<Vec<_>>(),
            self.token,
            names(&self.events),
        )
    }
}

impl RecordedResponse for ActivityTask {
    fn line(&self) -> String {
        format!(
            "activity {}/{} {} {} {} {} {} {} {:?} try {} {:?} {}",
            self.domain,
            self.workflow_id,
            self.run_id,
            self.workflow_type,
            self.task_list,
            self.activity_id,
            self.activity_type,
            self.scheduled_event_id,
            self.started_event_id,
            self.attempt,
            self.heartbeat_details.as_ref().map(ToString::to_string),
            self.token,
        )
    }
}

impl RecordedResponse for HistoryPage {
    fn line(&self) -> String {
        let events = names(&self.events);
        let Self { run_id, last_event_id, closed, next, .. } = self;
        format!("history {run_id} up to {last_event_id} closed: {closed} next {next:?} {events}")
    }
}

impl RecordedResponse for RunState {
    fn line(&self) -> String {
        let run = &self.run;
        let (run_id, standing) = (run.started.run_id, run.condition().word());
        format!("run {run_id} {standing} up to {} version {} {:?}", run.last_event_id, run.version, self.reset_as)
    }
}

impl RecordedResponse for QueryReply {
    fn line(&self) -> String {
        match self {
            Self::Result { run_id, version, result, hash } => {
                let result = result.as_ref().map(ToString::to_string);
                format!("result {run_id} version {version} {result:?} {hash:x}")
            }
            Self::Unchanged { run_id, version, .. } => format!("unchanged {run_id} version {version}"),
        }
    }
}

impl RecordedResponse for UpdateProgress {
    fn line(&self) -> String {
        let done = self.done.as_ref().map(|(version, result)| (version, result.as_ref().map(ToString::to_string)));
        format!("update {} {} {} {} {done:?}", self.update_id, self.run_id, self.started, self.event_id)
    }
}

impl RecordedResponse for WasReset {
    fn line(&self) -> String {
        let Self { run_id, base_run_id, base_event_id, repeated } = self;
        format!("reset {run_id} from {base_run_id} {base_event_id} repeated: {repeated}")
    }
}
