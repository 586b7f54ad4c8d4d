//! Imports a closed run of another service. An imported run can be read like any other run and never changes.
//! `history::ImportedRun` defines which histories are accepted.

use bytes::Bytes;
use history::{ImportedRun, Transition};
use store::{Cas, Expect, Head, HeadKey, PartKey};
use uuid::Uuid;

use crate::commit::{self, Draft, Prepared, StoredRun};
use crate::run::context::RunContext;
use crate::run::worker::RunWorker;
use crate::{EventRange, Refusal, WasImported};

/// Maximum number of attempts if other nodes write to the same workflow id at the same time. Our choice.
const ATTEMPTS_MAX: u32 = 8;

/// Maximum size in bytes of the stored parts that are read for a comparison with the imported run. Our choice: twice
/// the maximum size of an imported run.
const PARTS_BYTES: usize = 2 * history::limits::IMPORTED_BYTES_MAX;

impl RunWorker<'_> {
    pub(crate) async fn run_import(&mut self, imported: &ImportedRun) -> Result<WasImported, Refusal> {
        let (context, key) = (self.context, self.key);
        let run_id = imported.run_id();
        for _ in 0..ATTEMPTS_MAX {
            // An import does not rely on a cached state and leaves no state in the cache.
            self.state.forget();
            if let Some(head) = context.store.load_run(key, *run_id.as_bytes()).await? {
                let there = context.reader.open_head(key, head).await?;
                context.must_be_the_same(key, &there, imported).await?;
                return Ok(WasImported { run_id, repeated: true });
            }
            context.disk.must_have_room()?;
            let current = self.loaded().await?.cloned();
            self.state.forget();
            let answer = match place(current.as_ref(), imported) {
                Place::Beside => {
                    let Prepared { next, parts } = context.lay_out_import(key, None, imported);
                    context.must_be_parts_of_it(key, &next.head, &parts).await?;
                    context.store.put_kept(key, &next.head, &parts).await?
                }
                Place::Newest(base) => {
                    let Prepared { next, parts } = context.lay_out_import(key, base, imported);
                    context.must_be_parts_of_it(key, &next.head, &parts).await?;
                    let replaced = base.map(commit::replaced);
                    let expect = replaced.as_ref().map_or(Expect::Absent, Expect::Replacing);
                    context.store.commit(key, expect, &next.head, &parts).await?
                }
            };
            if answer == Cas::Won {
                context.metrics.committed(imported.events().len());
                return Ok(WasImported { run_id, repeated: false });
            }
        }
        let why = "too many concurrent writes to this run".to_owned();
        Err(Refusal::Unavailable { why, retry_after: None })
    }
}

/// Position of an imported run among the runs of its workflow id.
enum Place<'a> {
    /// The imported run becomes the newest run. The value is the run that it replaces, if there is one.
    Newest(Option<&'a StoredRun>),
    /// The imported run becomes an earlier run. The current run remains the newest.
    Beside,
}

/// Selects the position of an imported run. The current run remains the newest if it is open, has undelivered effects,
/// has a successor, or started later than the imported run. An imported run with a successor never becomes the newest.
/// Otherwise the service would start the successor, which already exists in the other service.
fn place<'a>(current: Option<&'a StoredRun>, imported: &ImportedRun) -> Place<'a> {
    if imported.run().has_successor() {
        return Place::Beside;
    }
    let Some(current) = current else { return Place::Newest(None) };
    let (run, links) = (current.run(), &current.body.links);
    let is_at_rest = !run.is_open() && !current.has_successor() && links.outbox.is_empty();
    if is_at_rest && run.started.at <= imported.run().started.at { Place::Newest(Some(current)) } else { Place::Beside }
}

impl RunContext {
    /// Returns the head and the parts of an imported run. Every node produces the same parts, so any node can repeat an
    /// interrupted import.
    fn lay_out_import(&self, key: &HeadKey, base: Option<&StoredRun>, imported: &ImportedRun) -> Prepared {
        let now = self.clock.now();
        let mut transition = Transition::of(imported.run().clone());
        if let Some(base) = base {
            base.hand_over(&mut transition, self.marks.past());
        }
        let (run, links, _) = transition.into_all();
        let events = imported.events().to_vec();
        let due = commit::due(&run, &links, &[], 0, &self.lists.stopped(&key.domain), now);
        let (copied, op) = (events.len(), self.ids.op());
        let draft = Draft { base, run, links, events, copied, offers: 0, op, due };
        let mut prepared = commit::prepare(draft, &self.limits, |head| self.store.weight(key, head));
        let kept_until = imported.kept_until(now).as_millis();
        let head = &mut prepared.next.head;
        head.expires_at = Some(head.expires_at.map_or(kept_until, |at| at.max(kept_until)));
        prepared
    }

    /// Fails if the histories of the stored run and the imported run differ.
    async fn must_be_the_same(&self, key: &HeadKey, there: &StoredRun, imported: &ImportedRun) -> Result<(), Refusal> {
        let run_id = imported.run_id();
        let differs = Refusal::HistoryMismatch { run_id };
        let mut place = 0;
        let mut page = EventRange::default();
        loop {
            let read = self.reader.read_page(key, there, &page).await?;
            if !imported.has_events_at(place, &read.events) {
                return Err(differs);
            }
            place += read.events.len();
            match read.next {
                Some(after) => page.after = after,
                None if place == imported.events().len() => return Ok(()),
                None => return Err(differs),
            }
        }
    }

    /// Checks a run that has parts in the store but no head. Such parts may be left by an interrupted import of this
    /// run, or of a run with the same id and a different history. Fails if a stored part is not among the parts that
    /// are about to be written.
    async fn must_be_parts_of_it(&self, key: &HeadKey, head: &Head, parts: &[Part]) -> Result<(), Refusal> {
        if parts.is_empty() {
            return Ok(());
        }
        let differs = Refusal::HistoryMismatch { run_id: Uuid::from_bytes(head.run) };
        let is_part = |found: &Part| parts.contains(found);
        for (last, bytes) in self.store.chunks(key, head.run, 0, PARTS_BYTES).await? {
            if !is_part(&(PartKey::Chunk { last }, bytes)) {
                return Err(differs);
            }
        }
        let packs: Vec<_> = parts.iter().filter(|(key, _)| matches!(key, PartKey::Pack { .. })).collect();
        let keys: Vec<_> = packs.iter().map(|(key, _)| *key).collect();
        let found = self.store.parts(key, head.run, &keys).await?;
        let is_same = |((_, bytes), found): (&&Part, &Option<Bytes>)| found.as_ref().is_none_or(|it| it == bytes);
        if packs.iter().zip(&found).all(is_same) { Ok(()) } else { Err(differs) }
    }
}

/// A part of a stored run with its content.
type Part = (PartKey, Bytes);
