//! Bounds on bytes: windows, pages and exchanges stay within their limits, and the service reads only payloads that it
//! sends.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use engine::{EXCHANGE_BYTES_MAX, PAGE_BYTES_MAX};
use simulation::intercepted::{Intercepted, Interceptor};
use store::{Error, HeadKey, Limits, PartKey, RunId};
use store_embedded::{Embedded, Options};

use super::*;

const KIB: usize = 1024;

/// Number of bytes that may be read beyond the edge of a page. A pack of up to a MiB may contain payloads of events on
/// both sides of the edge, and a chunk may contain events on both sides. The store determines how signals share packs
/// and chunks.
const EDGE: usize = (1024 + 256) * KIB;

/// A store that counts the bytes of the parts that are read.
struct Counted {
    store: Arc<dyn Store>,
    read: Arc<AtomicUsize>,
}

#[async_trait]
impl Interceptor for Counted {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn parts(&self, key: &HeadKey, run: RunId, want: &[PartKey]) -> Result<Vec<Option<Bytes>>, Error> {
        let parts = self.store.parts(key, run, want).await?;
        self.read.fetch_add(parts.iter().flatten().map(Bytes::len).sum(), Ordering::Relaxed);
        Ok(parts)
    }
}

/// A service with the number of bytes of parts that it has read.
struct Metered {
    service: Service,
    read: Arc<AtomicUsize>,
    _directory: tempfile::TempDir,
}

impl Metered {
    async fn over(store: Arc<dyn Store>, directory: tempfile::TempDir) -> Self {
        let read = Arc::<AtomicUsize>::default();
        let store = Arc::new(Intercepted(Counted { store, read: Arc::clone(&read) }));
        Self { service: Service::over(store).await, read, _directory: directory }
    }

    /// Returns the number of bytes of parts that were read since the last call.
    fn read(&self) -> usize {
        self.read.swap(0, Ordering::Relaxed)
    }

    /// Starts a run with `count` signals of this size.
    async fn with_signals(&self, id: &str, count: usize, bytes: usize) {
        self.service.start(id).await;
        self.signal(id, count, bytes).await;
    }

    async fn signal(&self, id: &str, count: usize, bytes: usize) {
        let text = format!("\"{}\"", "x".repeat(bytes - 2));
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..count {
            let (engine, text, at) = (Arc::clone(&self.service.engine), text.clone(), at(id));
            tasks.spawn(async move {
                let input = Some(Payload::from_json(&text).unwrap());
                let name = format!("n{number}");
                let signal = Command::Signal { name, input, identity: None, key: None, if_version: None };
                engine.commands().submit(&at, signal).await.unwrap()
            });
        }
        tasks.join_all().await;
    }

    /// Reads every event of a run, and passes each page to `look`.
    async fn pages(&self, id: &str, reverse: bool, mut look: impl FnMut(&[Event], bool)) -> Vec<Event> {
        let mut page = EventRange { reverse, limit: 10_000, ..EventRange::default() };
        let mut all = Vec::new();
        loop {
            let read = self.service.engine.views().history(&at(id), &page).await.unwrap();
            look(&read.events, read.next.is_none());
            all.extend(read.events);
            match read.next {
                Some(next) if reverse => page.before = Some(next),
                Some(next) => page.after = next,
                None => return all,
            }
        }
    }
}

/// Returns a memory store with smaller limits, a memory store with the limits of DynamoDB, and the embedded store.
async fn stores() -> Vec<(&'static str, Metered)> {
    let small = Limits {
        head_soft: KIB,
        head_hard: 390 * KIB,
        part_max: 380 * KIB,
        payload_inline_max: 256,
        ..Memory::new().limits()
    };
    let directory = || tempfile::TempDir::new().unwrap();
    let embedded = directory();
    let on_disk = Embedded::open(Options::new(embedded.path())).await.unwrap();
    vec![
        ("as it comes", Metered::over(fresh().await, directory()).await),
        ("small parts", Metered::over(Arc::new(Memory::with_limits(small)), directory()).await),
        ("embedded", Metered::over(on_disk, embedded).await),
    ]
}

fn json(events: &[Event]) -> usize {
    serde_json::to_vec(events).unwrap().len()
}

#[tokio::test]
async fn a_window_has_at_most_four_mib_and_only_its_packs_are_read() {
    for (what, metered) in stores().await {
        for (count, bytes) in [(3, 256 * KIB), (16, 256 * KIB), (40, 256 * KIB), (1_500, 4_200), (3_000, 1_900)] {
            let id = format!("w-{count}-{bytes}");
            metered.with_signals(&id, count, bytes).await;
            metered.read();
            let turn = metered.service.turn().await;
            let (task, read) = (turn.task(), metered.read());
            let (events, window) = (&task.events, json(&task.events));
            assert!(window <= PAGE_BYTES_MAX, "{what}, {id}: {window}");
            assert_eq!(window, task.events_bytes + 1, "{what}, {id}: brackets, and no comma at the end");
            assert!(read <= PAGE_BYTES_MAX + EDGE, "{what}, {id}: {read} bytes of parts for {window}");
            assert_eq!(events.last().unwrap().id, task.started_event_id, "{what}, {id}");
            let oldest = events.first().unwrap().id;
            if oldest > 1 {
                // Another event would not have fitted into the task. The task's history returns the omitted events.
                let token = metered.service.engine.tasks().decider_token(&task.token).unwrap();
                let page = EventRange { before: Some(oldest), reverse: true, limit: 1, ..EventRange::default() };
                let before = metered.service.engine.tasks().turn_history(&token, &page).await.unwrap().events;
                assert_eq!(before[0].id, oldest - 1, "{what}, {id}");
                assert!(window + before[0].json_bytes() + 1 > PAGE_BYTES_MAX, "{what}, {id}: {window}");
            } else {
                assert_eq!(events.len(), count + 3, "{what}, {id}");
            }
            metered.service.complete(turn, vec![succeed()]).await.unwrap();
        }
    }
}

#[tokio::test]
async fn pages_in_both_directions_are_complete_and_at_most_four_mib() {
    for (what, metered) in stores().await {
        metered.with_signals("w", 40, 256 * KIB).await;
        metered.signal("w", 1_200, 2_500).await;
        let mut sides = Vec::new();
        for reverse in [false, true] {
            metered.read();
            let all = metered
                .pages("w", reverse, |events, is_last| {
                    let (page, read) = (json(events), metered.read());
                    assert!(page <= PAGE_BYTES_MAX, "{what}, reverse {reverse}: {page}");
                    assert!(read <= PAGE_BYTES_MAX + EDGE, "{what}, reverse {reverse}: {read} for {page}");
                    assert!(is_last || page > PAGE_BYTES_MAX - 300 * KIB, "{what}, reverse {reverse}: {page}");
                })
                .await;
            sides.push(all);
        }
        sides[1].reverse();
        assert_eq!(sides[0], sides[1], "{what}");
        assert_eq!(sides[0].len(), 1_242, "{what}");
        check::history(&sides[0]).unwrap();
    }
}

#[tokio::test]
async fn an_event_larger_than_the_bound_comes_alone() {
    for (what, metered) in stores().await {
        metered.with_signals("w", 3, 5_000).await;
        for reverse in [false, true] {
            let mut page = EventRange { reverse, bytes_max: 1_000, ..EventRange::default() };
            let mut lengths = Vec::new();
            loop {
                let read = metered.service.engine.views().history(&at("w"), &page).await.unwrap();
                lengths.push(read.events.len());
                match read.next {
                    Some(next) if reverse => page.before = Some(next),
                    Some(next) => page.after = next,
                    None => break,
                }
            }
            let expected = if reverse { [1, 1, 1, 2] } else { [2, 1, 1, 1] };
            assert_eq!(lengths, expected, "{what}, reverse {reverse}");
        }
    }
}

#[tokio::test]
async fn payloads_that_are_left_out_are_not_fetched_and_take_no_room() {
    for (what, metered) in stores().await {
        metered.with_signals("w", 40, 256 * KIB).await;
        metered.read();
        let page = EventRange { leaves_payloads_out: true, ..EventRange::default() };
        let read = metered.service.engine.views().history(&at("w"), &page).await.unwrap();
        assert_eq!((read.events.len(), read.next), (42, None), "{what}");
        assert!(read.events.iter().all(|event| event.kind.payload().is_none()), "{what}");
        assert_eq!(metered.read(), 0, "{what}");
    }
}

#[tokio::test]
async fn the_context_is_found_without_payloads_of_others() {
    for (what, metered) in stores().await {
        let service = &metered.service;
        service.start("w").await;
        let turn = service.turn().await;
        let token = service.engine.tasks().decider_token(&turn.task().token).unwrap();
        turn.delivered();
        // Records events between the start and the end of the turn. The service must search them for the end.
        metered.signal("w", 30, 256 * KIB).await;
        let context = Payload::from_json(&format!("\"{}\"", "c".repeat(30 * KIB))).unwrap();
        let answer = history::TurnAnswer { context: Some(context.clone()), ..history::TurnAnswer::default() };
        service.engine.tasks().answer_turn(&token, Command::complete(token.turn, answer)).await.unwrap();
        metered.signal("w", 30, 256 * KIB).await;
        metered.read();
        let turn = service.turn().await;
        assert_eq!(turn.task().context.as_ref(), Some(&context), "{what}");
        let read = metered.read();
        assert!(read <= PAGE_BYTES_MAX + 2 * EDGE, "{what}: {read}");
        turn.delivered();
    }
}

#[tokio::test]
async fn turns_of_an_exchange_are_complete_and_at_most_eight_mib() {
    for (what, metered) in stores().await {
        for number in 0..6 {
            metered.with_signals(&format!("w{number}"), 20, 256 * KIB).await;
        }
        let tasks = metered.service.engine.tasks();
        let poll = Poll { wait: Duration::from_secs(5), ..Poll::default() };
        let mut slots = tasks.slots(true, (DOMAIN, "deciders"), &poll, (0..6).collect()).await.unwrap();
        metered.read();
        let mut seen = Vec::new();
        while !slots.are_filled() {
            let turns = tasks.next_turns(&mut slots).await.unwrap();
            let bytes: usize = turns.iter().map(|(_, turn)| turn.task().bytes()).sum();
            assert!(!turns.is_empty() && bytes <= EXCHANGE_BYTES_MAX, "{what}: {bytes}");
            let read = metered.read();
            assert!(read <= EXCHANGE_BYTES_MAX + turns.len() * EDGE, "{what}: {read}");
            for (slot, turn) in turns {
                assert_eq!(turn.task().attempt, 1, "{what}");
                seen.push((slot, turn.task().workflow_id.to_string()));
                turn.delivered();
            }
        }
        seen.sort();
        assert_eq!(seen.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5], "{what}");
        seen.dedup_by(|one, other| one.1 == other.1);
        assert_eq!(seen.len(), 6, "{what}: each run's turn came once");
    }
}

#[tokio::test]
async fn tasks_that_an_exchange_has_no_room_for_go_back_at_once() {
    for (what, metered) in stores().await {
        for number in 0..3 {
            metered.with_signals(&format!("w{number}"), 20, 256 * KIB).await;
        }
        let tasks = metered.service.engine.tasks();
        let poll = Poll { wait: Duration::from_secs(5), ..Poll::default() };
        let mut slots = tasks.slots(true, (DOMAIN, "deciders"), &poll, (0..3).collect()).await.unwrap();
        let first = tasks.next_turns(&mut slots).await.unwrap();
        assert_eq!(first.len(), 1, "{what}");
        drop(slots);
        for (_, turn) in first {
            turn.delivered();
        }
        for _ in 0..2 {
            let turn = metered.service.turn().await;
            assert_eq!(turn.task().attempt, 1, "{what}: that there was no room is not the decider's failure");
            turn.delivered();
        }
    }
}

#[tokio::test]
async fn activities_of_an_exchange_are_complete_and_at_most_8_mib() {
    for (what, metered) in stores().await {
        let service = &metered.service;
        let input = Payload::from_json(&format!("\"{}\"", "x".repeat(255 * KIB))).unwrap();
        for number in 0..2 {
            service.start(&format!("w{number}")).await;
            let turn = service.turn().await;
            let scheduled = (0..20).map(|index| {
                let Decision::ScheduleActivity(mut it) = activity(&format!("a{index}"), "acts") else { panic!() };
                it.input = Some(input.clone());
                it.into()
            });
            service.complete(turn, scheduled.collect()).await.unwrap();
        }
        let poll = Poll { wait: Duration::from_secs(5), ..Poll::default() };
        let tasks = service.engine.tasks();
        let mut slots = tasks.slots(false, (DOMAIN, "acts"), &poll, (0..40).collect()).await.unwrap();
        let mut count = 0;
        while !slots.are_filled() {
            let activities = tasks.next_activities(&mut slots).await.unwrap();
            let bytes: usize = activities.iter().map(|(_, it)| it.task().bytes()).sum();
            assert!(!activities.is_empty() && bytes <= EXCHANGE_BYTES_MAX, "{what}: {bytes}");
            count += activities.len();
            for (_, it) in activities {
                it.delivered();
            }
        }
        assert_eq!(count, 40, "{what}");
    }
}
