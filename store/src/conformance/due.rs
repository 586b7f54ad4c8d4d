//! Rules about the due index.

use std::collections::BTreeSet;

use super::{Arc, Expect, RUN, Store, at, head, key, start, win};
use crate::Head;

/// Checks that due heads are returned in order, without heads that are due later and without heads beyond the limit.
pub async fn due_heads_come_earliest_first(store: Arc<dyn Store>) {
    for (id, due) in [("c", Some(30)), ("a", Some(10)), ("never", None), ("b", Some(20)), ("b2", Some(20))] {
        win(&*store, &key(id), Expect::Absent, &Head { due, ..head(RUN, 1) }).await;
    }
    let due = async |until, limit| -> Vec<(u64, String)> {
        let due = store.due(0, until, None, limit).await.unwrap();
        due.iter().map(|due| (due.at, due.key.workflow_id.to_string())).collect()
    };
    assert_eq!(due(9, 10).await, []);
    assert_eq!(due(10, 10).await, [(10, "a".to_owned())]);
    assert_eq!(due(20, 2).await.len(), 2);
    let all = due(u64::MAX, 10).await;
    assert_eq!(all.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [10, 20, 20, 30]);
    assert_eq!(due(u64::MAX, 0).await, []);
}

/// Checks that pages of due heads omit no due head, even if the head of the last entry has another due time now, and if
/// many heads are due at one instant.
pub async fn due_pages_continue_after_an_entry(store: Arc<dyn Store>) {
    let mut newest = Vec::new();
    for (id, due) in [("a", 10), ("b", 20), ("c", 20), ("d", 20), ("e", 30), ("late", 41)] {
        let head = Head { due: Some(due), ..head(RUN, 1) };
        win(&*store, &key(id), Expect::Absent, &head).await;
        newest.push((key(id), head));
    }
    for (limit, moves) in [(1, false), (2, false), (5, false), (2, true)] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = store.due(0, 40, after.as_ref(), limit).await.unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            let (_, head) = newest.iter().find(|(key, _)| *key == last.key).unwrap();
            if moves {
                let next = Head { due: None, ..self::head(RUN, head.version + 1) };
                win(&*store, &last.key, at(head), &next).await;
            }
            after = Some(last.clone());
            seen.extend(page);
        }
        let instants: Vec<_> = seen.iter().map(|due| due.at).collect();
        assert_eq!(instants, [10, 20, 20, 20, 30], "{limit} at once");
        let ids: BTreeSet<_> = seen.iter().map(|due| due.key.workflow_id.to_string()).collect();
        assert_eq!(ids.len(), 5, "{limit} at once: {ids:?}");
    }
    let beyond = store.due(0, 40, Some(&crate::Due { at: 40, key: key("zzz") }), 10).await.unwrap();
    assert_eq!(beyond, [], "later entries are not returned");
    let behind_the_end = store.due(0, 40, Some(&crate::Due { at: 50, key: key("a") }), 10).await.unwrap();
    assert_eq!(behind_the_end, []);
}

/// Checks that a due head is always listed, regardless of earlier changes. When the head no longer changes, it is
/// listed only under its current due time.
pub async fn due_follows_the_head(store: Arc<dyn Store>) {
    let mut newest = start(&*store, &key("a")).await;
    for due in [Some(50), Some(40), None, Some(50), Some(60), None, Some(60)] {
        let next = Head { due, ..head(RUN, newest.version + 1) };
        win(&*store, &key("a"), at(&newest), &next).await;
        newest = next;
        if let Some(at) = due {
            let named = store.due(0, at, None, 10).await.unwrap();
            assert!(named.iter().any(|named| named.at == at), "due at {at}, but the index has {named:?}");
        }
    }
}

/// Checks that a due head is listed in the shard that the store computes from its key. Nodes rely on this to divide the
/// shards among them.
pub async fn a_due_head_is_in_the_shard_of_its_key(store: Arc<dyn Store>) {
    for id in ["a", "b", "c", "d#e", "f g"] {
        win(&*store, &key(id), Expect::Absent, &Head { due: Some(10), ..head(RUN, 1) }).await;
    }
    for id in ["a", "b", "c", "d#e", "f g"] {
        let shard = store.due_shard(&key(id));
        assert!(shard < store.limits().due_shards.max(1));
        let due = store.due(shard, 10, None, 10).await.unwrap();
        assert!(due.iter().any(|due| due.key == key(id)), "{id} is not in shard {shard}: {due:?}");
    }
}

/// Checks that a shard that does not exist is empty. It must not be an error, because the configured number of shards
/// can change.
pub async fn a_due_shard_out_of_range_is_empty(store: Arc<dyn Store>) {
    start(&*store, &key("a")).await;
    let shards = store.limits().due_shards;
    assert_eq!(store.due(shards, u64::MAX, None, 10).await.unwrap(), []);
    assert_eq!(store.due(u32::MAX, u64::MAX, None, 10).await.unwrap(), []);
}
