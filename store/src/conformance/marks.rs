//! Rules about marks.

use super::{Arc, Bytes, Error, Expect, LATER, RUN, Store, UnixMs, head, key, start, win};
use crate::{MARK_BYTES_MAX, Mark};

fn mark(name: u64, text: &str, expires_at: UnixMs) -> Mark {
    Mark { name, bytes: Bytes::copy_from_slice(text.as_bytes()), expires_at }
}

async fn texts(store: &dyn Store, workflow_id: &str, names: &[u64]) -> Vec<Option<String>> {
    let found = store.marks(&key(workflow_id), names).await.unwrap();
    found.into_iter().map(|found| found.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "an expected value of `texts`, which may be absent")]
fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// Checks that marks can be read before there is a head and when there is one, and that they are returned in the order
/// of the request.
pub async fn marks_are_readable_with_and_without_a_head(store: Arc<dyn Store>) {
    store.put_marks(&key("a"), &[mark(0, "zero", 1_000), mark(u64::MAX, "", 1_000)]).await.unwrap();
    assert_eq!(texts(&*store, "a", &[u64::MAX, 1, 0]).await, [text(""), None, text("zero")]);
    start(&*store, &key("a")).await;
    let many: Vec<Mark> = (1..=60).map(|name| mark(name, &name.to_string(), 1_000)).collect();
    store.put_marks(&key("a"), &many).await.unwrap();
    store.put_marks(&key("a"), &[]).await.unwrap();
    let names: Vec<u64> = (0..=61).collect();
    let expected = (1..=60).map(|name: u64| text(&name.to_string()));
    let expected: Vec<_> = [text("zero")].into_iter().chain(expected).chain([None]).collect();
    assert_eq!(texts(&*store, "a", &names).await, expected);
    assert_eq!(texts(&*store, "a", &[]).await, []);
}

/// Checks that a mark replaces an existing mark of the same name, which may belong to another request.
pub async fn the_newest_mark_of_a_name_wins(store: Arc<dyn Store>) {
    for said in ["one", "two", "", "four"] {
        store.put_marks(&key("a"), &[mark(7, said, 1_000)]).await.unwrap();
        assert_eq!(texts(&*store, "a", &[7]).await, [text(said)]);
    }
}

/// Checks that workflow ids have separate marks, even if one id is a prefix of another.
pub async fn marks_of_workflow_ids_are_separate(store: Arc<dyn Store>) {
    for id in ["a", "ab", "b"] {
        store.put_marks(&key(id), &[mark(7, id, 1_000)]).await.unwrap();
    }
    for id in ["a", "ab", "b"] {
        assert_eq!(texts(&*store, id, &[7]).await, [text(id)]);
    }
    assert_eq!(texts(&*store, "abc", &[7]).await, [None]);
}

/// Checks that marks stay when a run of their workflow id is deleted or replaced.
pub async fn marks_outlive_the_runs_of_their_workflow_id(store: Arc<dyn Store>) {
    let first = start(&*store, &key("a")).await;
    store.put_marks(&key("a"), &[mark(7, "seven", 1_000)]).await.unwrap();
    win(&*store, &key("a"), Expect::Replacing(&first), &head(LATER, 2)).await;
    store.drop_run(&key("a"), RUN).await.unwrap();
    store.drop_run(&key("a"), LATER).await.unwrap();
    assert_eq!(texts(&*store, "a", &[7]).await, [text("seven")]);
}

/// Checks that marks are not deleted before their expiry, for workflow ids with and without runs.
pub async fn marks_never_expire_early(store: Arc<dyn Store>) {
    start(&*store, &key("a")).await;
    for id in ["a", "b"] {
        let marks: Vec<Mark> = (1..=5).map(|name| mark(name, "there", 100 * name)).collect();
        store.put_marks(&key(id), &marks).await.unwrap();
    }
    for now in [99, 100, 299, 300, 1_000] {
        while store.expire(now, 1).await.unwrap() > 0 {}
        let expected: Vec<_> = (1..=5).map(|name| (100 * name > now).then(|| "there".to_owned())).collect();
        for id in ["a", "b"] {
            assert_eq!(texts(&*store, id, &[1, 2, 3, 4, 5]).await, expected, "{id} at {now}");
        }
    }
    assert_eq!(store.load(&key("a")).await.unwrap(), Some(head(RUN, 1)));
}

/// Checks that a mark that replaces another has its own expiry, which may be later or earlier.
pub async fn a_replaced_mark_has_its_new_expiry(store: Arc<dyn Store>) {
    store.put_marks(&key("a"), &[mark(1, "old", 100), mark(2, "old", 900)]).await.unwrap();
    store.put_marks(&key("a"), &[mark(1, "new", 900), mark(2, "new", 100)]).await.unwrap();
    while store.expire(500, 10).await.unwrap() > 0 {}
    assert_eq!(texts(&*store, "a", &[1, 2]).await, [text("new"), None]);
    while store.expire(900, 10).await.unwrap() > 0 {}
    assert_eq!(texts(&*store, "a", &[1, 2]).await, [None, None]);
}

/// Checks that a mark of the maximum size is accepted. With one byte more, no mark of the call is written.
pub async fn a_mark_above_the_limit_is_refused(store: Arc<dyn Store>) {
    let largest = "x".repeat(MARK_BYTES_MAX);
    store.put_marks(&key("a"), &[mark(1, &largest, 1_000)]).await.unwrap();
    let marks = [mark(2, "fits", 1_000), mark(3, &format!("{largest}x"), 1_000)];
    let error = store.put_marks(&key("a"), &marks).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert_eq!(texts(&*store, "a", &[1, 2, 3]).await, [Some(largest), None, None]);
}
