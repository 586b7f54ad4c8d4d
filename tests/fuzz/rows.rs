//! Fuzz target for damaged stored data of a run: its head, chunks, parts or marks, changed in some bytes or replaced.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use engine::{Engine, EventRange, Poll, RunRef, Settings};
use history::{
    Command, Decision, Payload, RecordMarker, RetryPolicy, ScheduleActivity, Start, StartChild, StartTimer, TurnAnswer,
};
use simulation::intercepted::{Intercepted, Interceptor};
use simulation::manual_clock::ManualClock;
use store::memory::Memory;
use store::{Error, Head, HeadKey, Limits, PartKey, RunId, Store};

use crate::calls::at_once;

const DOMAIN: &str = "default";
const ID: &str = "w";

/// Kind of the damaged data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Head,
    Chunk,
    Part,
    Mark,
}

/// The damage, decoded from the input. Its first byte chooses the kind of data, the second whether it is replaced or
/// changed, and the next two the offset of the change. The other bytes are the new content.
struct Change {
    what: What,
    is_whole: bool,
    at: usize,
    bytes: Vec<u8>,
}

impl Change {
    fn read(input: &[u8]) -> Option<Self> {
        let (&[what, how, high, low], bytes) = input.split_first_chunk::<4>()?;
        let what = match what % 4 {
            0 => What::Head,
            1 => What::Chunk,
            2 => What::Part,
            _ => What::Mark,
        };
        let at = usize::from(u16::from_be_bytes([high, low]));
        Some(Self { what, is_whole: how % 2 == 1, at, bytes: bytes.to_vec() })
    }

    fn of(&self, bytes: &Bytes) -> Bytes {
        if self.is_whole {
            return self.bytes.clone().into();
        }
        let mut changed = bytes.to_vec();
        let at = self.at % changed.len().max(1);
        for (byte, new) in changed.iter_mut().skip(at).zip(&self.bytes) {
            *byte = *new;
        }
        changed.into()
    }
}

/// A store that returns damaged data of one kind.
struct Changed {
    store: Arc<dyn Store>,
    change: Change,
}

impl Changed {
    fn head(&self, key: &HeadKey, head: Option<Head>) -> Option<Head> {
        let is_it = self.change.what == What::Head && &*key.workflow_id == ID;
        head.map(|head| if is_it { Head { body: self.change.of(&head.body), ..head } } else { head })
    }

    fn maybe(&self, what: What, bytes: Option<Bytes>) -> Option<Bytes> {
        bytes.map(|bytes| if self.change.what == what { self.change.of(&bytes) } else { bytes })
    }
}

#[async_trait]
impl Interceptor for Changed {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
        Ok(self.head(key, self.store.load(key).await?))
    }

    async fn load_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Head>, Error> {
        Ok(self.head(key, self.store.load_run(key, run).await?))
    }

    async fn parts(&self, key: &HeadKey, run: RunId, want: &[PartKey]) -> Result<Vec<Option<Bytes>>, Error> {
        let found = self.store.parts(key, run, want).await?;
        Ok(found.into_iter().map(|bytes| self.maybe(What::Part, bytes)).collect())
    }

    async fn marks(&self, key: &HeadKey, names: &[u64]) -> Result<Vec<Option<Bytes>>, Error> {
        let found = self.store.marks(key, names).await?;
        Ok(found.into_iter().map(|bytes| self.maybe(What::Mark, bytes)).collect())
    }

    async fn chunks(&self, key: &HeadKey, run: RunId, from: u64, most: usize) -> Result<Vec<(u64, Bytes)>, Error> {
        let found = self.store.chunks(key, run, from, most).await?;
        Ok(found
            .into_iter()
            .map(|(last, bytes)| (last, self.maybe(What::Chunk, Some(bytes)).unwrap_or_default()))
            .collect())
    }
}

fn run() -> RunRef {
    RunRef { domain: DOMAIN.into(), workflow_id: ID.into(), run_id: None }
}

fn signal(name: &str, key: u64) -> Command {
    let (name, input) = (name.to_owned(), Payload::of(&"x".repeat(300)).ok());
    Command::Signal { name, input, identity: None, key: Some(history::RequestKey(key)), if_version: None }
}

/// Starts a run with open items of every kind, with events that are no longer in its head, and with requests that are
/// remembered only by marks.
async fn fill(engine: &Arc<Engine>) {
    let start = Start { key: Some(history::RequestKey(1)), ..Start::new(ID, "order", "deciders") };
    engine.commands().start(DOMAIN, start).await.expect("a start");
    let poll = Poll { wait: Duration::from_secs(1), ..Poll::default() };
    let turn = engine.tasks().poll_decider(DOMAIN, "deciders", poll).await.expect("a poll").expect("a turn");
    let token = engine.tasks().decider_token(&turn.task().token).expect("its token");
    turn.delivered();
    let text = |text: &str| text.to_owned();
    let decisions: Vec<Decision> = vec![
        ScheduleActivity {
            activity_id: text("a"),
            activity_type: text("charge"),
            task_list: Some(text("runners")),
            retry: Some(RetryPolicy::default()),
            ..ScheduleActivity::default()
        }
        .into(),
        StartTimer { timer_id: text("t"), after: history::Duration::from_days(1), control: None }.into(),
        StartChild { workflow_id: text("child"), workflow_type: text("order"), ..StartChild::default() }.into(),
        RecordMarker { name: text("m"), details: None }.into(),
    ];
    let context = Payload::of(&"context").ok();
    let command = Command::complete(token.turn, TurnAnswer { decisions, context, ..TurnAnswer::default() });
    engine.tasks().answer_turn(&token, command).await.expect("an answer");
    for number in 0..80 {
        engine.commands().submit(&run(), signal("s", 100 + number)).await.expect("a signal");
    }
}

/// Target `row`: a run with damaged data is described, read, signaled, polled for and terminated.
pub(super) fn row(input: &[u8]) {
    let Some(change) = Change::read(input) else { return };
    at_once(async {
        let limits = Limits { head_soft: 2 << 10, ..Memory::new().limits() };
        let store: Arc<dyn Store> = Arc::new(Memory::with_limits(limits));
        let settings = || Settings { seed: Some(7), ..Settings::default() };
        let clock = ManualClock::new();
        let whole = Engine::open(Arc::clone(&store), Arc::clone(&clock) as _, settings()).await.expect("a store");
        fill(&whole).await;
        whole.begin_shutdown();
        let changed = Arc::new(Intercepted(Changed { store, change }));
        let Ok(engine) = Engine::open(changed, Arc::clone(&clock) as _, settings()).await else { return };
        // Responses may be errors. Only a panic is a failure.
        drop(engine.views().describe(&run()).await);
        for page in [EventRange::default(), EventRange { reverse: true, ..EventRange::default() }] {
            drop(engine.views().history(&run(), &page).await);
        }
        drop(engine.commands().submit(&run(), signal("s", 100)).await);
        drop(engine.commands().submit(&run(), signal("s", 7)).await);
        for list in ["deciders", "runners"] {
            let poll = Poll { wait: Duration::from_secs(1), ..Poll::default() };
            if list == "deciders" {
                drop(engine.tasks().poll_decider(DOMAIN, list, poll).await);
            } else {
                drop(engine.tasks().poll_activity(DOMAIN, list, poll).await);
            }
        }
        clock.advance(history::Duration::from_days(2));
        tokio::time::sleep(Duration::from_secs(5)).await;
        let terminate =
            Command::Terminate { reason: None, details: None, identity: None, key: None, child_policy: None };
        drop(engine.commands().submit(&run(), terminate).await);
        engine.begin_shutdown();
    });
}
