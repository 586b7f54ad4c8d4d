//! Rules about parts.

use super::{Arc, Bytes, Error, Expect, LATER, PartKey, RUN, Store, at, head, key, start, win, win_with};

fn chunk(last: u64) -> PartKey {
    PartKey::Chunk { last }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Checks that all kinds of parts are written with their head. They are returned in the order of the request, with
/// `None` for missing ones.
pub async fn parts_are_written_with_their_head(store: Arc<dyn Store>) {
    let pack = PartKey::Pack { op: u64::MAX };
    let beat = PartKey::Heartbeat { scheduled: 7 };
    let parts = [(chunk(7), bytes("c")), (pack, bytes("p")), (beat, bytes("b"))];
    win_with(&*store, &key("a"), Expect::Absent, &head(RUN, 1), &parts).await;
    let want = [beat, chunk(8), pack, chunk(7), PartKey::Pack { op: 7 }];
    let found = store.parts(&key("a"), RUN, &want).await.unwrap();
    assert_eq!(found, [Some(bytes("b")), None, Some(bytes("p")), Some(bytes("c")), None]);
}

/// Checks that a part that is written twice, by a commit or separately, exists once.
pub async fn a_part_put_twice_exists_once(store: Arc<dyn Store>) {
    let first = start(&*store, &key("a")).await;
    store.put_part(&key("a"), RUN, chunk(5), bytes("same")).await.unwrap();
    store.put_part(&key("a"), RUN, chunk(5), bytes("same")).await.unwrap();
    win_with(&*store, &key("a"), at(&first), &head(RUN, 2), &[(chunk(5), bytes("same"))]).await;
    assert_eq!(store.chunks(&key("a"), RUN, 0, 100).await.unwrap(), [(5, bytes("same"))]);
}

/// Checks that a heartbeat overwrites the previous one. No other kind of part is overwritten.
pub async fn the_newest_heartbeat_wins(store: Arc<dyn Store>) {
    start(&*store, &key("a")).await;
    let beat = PartKey::Heartbeat { scheduled: 5 };
    for text in ["one", "two", ""] {
        store.put_part(&key("a"), RUN, beat, bytes(text)).await.unwrap();
        assert_eq!(store.parts(&key("a"), RUN, &[beat]).await.unwrap(), [Some(bytes(text))]);
    }
}

/// Checks that a part of the maximum size is accepted. With one byte more, nothing is written, not even the head.
pub async fn a_part_above_the_limit_is_refused(store: Arc<dyn Store>) {
    let first = start(&*store, &key("a")).await;
    let max = store.limits().part_max;
    let largest = Bytes::from(vec![3; max]);
    let second = head(RUN, 2);
    win_with(&*store, &key("a"), at(&first), &second, &[(chunk(1), largest.clone())]).await;
    assert!(store.parts(&key("a"), RUN, &[chunk(1)]).await.unwrap() == [Some(largest)], "the largest part");
    let larger = Bytes::from(vec![3; max + 1]);
    let error = store.commit(&key("a"), at(&second), &head(RUN, 3), &[(chunk(2), larger.clone())]).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    let error = store.put_part(&key("a"), RUN, chunk(2), larger).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert_eq!(store.load(&key("a")).await.unwrap(), Some(second));
    assert_eq!(store.parts(&key("a"), RUN, &[chunk(2)]).await.unwrap(), [None]);
}

/// Checks that parts are separate if they have the same number but belong to another run of the same key, or to a run
/// with the same id under another key.
pub async fn parts_of_runs_are_separate(store: Arc<dyn Store>) {
    for (id, run, text) in [("a", RUN, "a"), ("ab", RUN, "ab"), ("b", LATER, "b")] {
        win_with(&*store, &key(id), Expect::Absent, &head(run, 1), &[(chunk(1), bytes(text))]).await;
    }
    assert_eq!(store.chunks(&key("a"), RUN, 0, 100).await.unwrap(), [(1, bytes("a"))]);
    assert_eq!(store.chunks(&key("a"), LATER, 0, 100).await.unwrap(), []);
    assert_eq!(store.chunks_back(&key("ab"), RUN, 9, 100).await.unwrap(), [(1, bytes("ab"))]);
}

async fn ten_chunks(store: &dyn Store) {
    let mut newest = start(store, &key("a")).await;
    for number in 1..=10 {
        let next = head(RUN, newest.version + 1);
        let parts = [(chunk(number * 100), bytes(&format!("{number:04}"))), (PartKey::Pack { op: number }, bytes("p"))];
        win_with(store, &key("a"), at(&newest), &next, &parts).await;
        newest = next;
    }
    win(store, &key("b"), Expect::Absent, &head(RUN, 1)).await;
}

fn lasts(chunks: &[(u64, Bytes)]) -> Vec<u64> {
    chunks.iter().map(|(last, _)| *last).collect()
}

/// Checks that chunks are read in order, from the chunk that contains the event, up to the requested size, but at least
/// one.
pub async fn chunks_are_read_forward_from_an_event(store: Arc<dyn Store>) {
    ten_chunks(&*store).await;
    let read = async |from, max| lasts(&store.chunks(&key("a"), RUN, from, max).await.unwrap());
    assert_eq!(read(0, usize::MAX).await, (1..=10).map(|number| number * 100).collect::<Vec<_>>());
    assert_eq!(read(100, 1).await, [100]);
    assert_eq!(read(101, 8).await, [200, 300]);
    assert_eq!(read(101, 9).await, [200, 300, 400]);
    assert_eq!(read(1000, 0).await, [1000]);
    assert_eq!(read(1001, 100).await, Vec::<u64>::new());
}

/// Checks that chunks that end before the event are read backward, newest first.
pub async fn chunks_are_read_back_from_an_event(store: Arc<dyn Store>) {
    ten_chunks(&*store).await;
    let read = async |before, max| lasts(&store.chunks_back(&key("a"), RUN, before, max).await.unwrap());
    assert_eq!(read(u64::MAX, usize::MAX).await, (1..=10).rev().map(|number| number * 100).collect::<Vec<_>>());
    assert_eq!(read(1000, 8).await, [900, 800]);
    assert_eq!(read(201, 0).await, [200]);
    assert_eq!(read(100, 100).await, Vec::<u64>::new());
    assert_eq!(read(0, 100).await, Vec::<u64>::new());
}
