//! The conformance suite: one async function for each rule of the contract of [`Store`]. The test of an engine calls
//! [`all`] with a function that creates empty stores, and [`only_a_shared_store_is_open_twice`] with a function that
//! opens the same store on every call. A function panics if its rule is violated; the message contains the rule and the
//! values.

#![expect(clippy::unwrap_used, reason = "this module is a test that other crates can run")]

mod counts;
mod due;
mod heads;
mod lists;
mod marks;
mod parts;
mod races;
mod shared;

use std::sync::Arc;

use bytes::Bytes;

use crate::{Cas, Error, Expect, Head, HeadKey, PartKey, Row, RunId, Store, UnixMs};

pub use counts::*;
pub use due::*;
pub use heads::*;
pub use lists::*;
pub use marks::*;
pub use parts::*;
pub use races::*;
pub use shared::*;

/// Checks all rules. Each gets a new store.
pub async fn all(make: impl AsyncFn() -> Arc<dyn Store>) {
    macro_rules! rules {
        ($($rule:ident),* $(,)?) => {
            $({
                let store = make().await;
                $rule(Arc::clone(&store)).await;
                store.close().await.expect("an idle store can be closed");
            })*
        };
    }
    rules![
        an_empty_store_has_no_data,
        load_returns_a_won_head,
        absent_holds_only_without_a_head,
        exactly_holds_only_for_that_run_and_version,
        a_lost_commit_changes_nothing_and_returns_the_head,
        a_replaced_head_is_kept_for_its_run,
        the_replacing_commit_sets_the_kept_heads_expiry,
        replacing_holds_only_for_the_newest_head,
        an_earlier_run_is_put_next_to_the_newest,
        an_earlier_run_is_put_without_a_head,
        an_existing_run_is_not_put_again,
        keys_are_separate,
        a_body_above_the_limit_is_refused,
        heads_and_parts_can_hold_the_largest_run,
        a_deleted_run_is_gone_and_deletion_is_idempotent,
        deleting_an_earlier_run_keeps_the_newest,
        a_deleted_key_can_be_used_again,
        runs_never_expire_early,
        expiry_respects_its_limit,
        a_changed_expiry_of_a_head_counts,
        a_closed_store_fails_every_call,
        parts_are_written_with_their_head,
        a_part_put_twice_exists_once,
        the_newest_heartbeat_wins,
        a_part_above_the_limit_is_refused,
        parts_of_runs_are_separate,
        chunks_are_read_forward_from_an_event,
        chunks_are_read_back_from_an_event,
        marks_are_readable_with_and_without_a_head,
        the_newest_mark_of_a_name_wins,
        marks_of_workflow_ids_are_separate,
        marks_outlive_the_runs_of_their_workflow_id,
        marks_never_expire_early,
        a_replaced_mark_has_its_new_expiry,
        a_mark_above_the_limit_is_refused,
        due_heads_come_earliest_first,
        due_pages_continue_after_an_entry,
        due_follows_the_head,
        a_due_shard_out_of_range_is_empty,
        a_due_head_is_in_the_shard_of_its_key,
        lists_return_the_newest_start_first,
        a_page_reports_how_many_rows_it_examined,
        every_condition_of_a_list_holds,
        a_prefix_finds_the_workflow_ids_that_start_with_it,
        lists_support_every_order,
        every_condition_of_a_list_holds_in_every_order,
        pages_contain_every_row_once,
        pages_miss_and_repeat_no_run_while_runs_change,
        pages_by_workflow_id_contain_every_run_once,
        lists_by_workflow_id_do_not_lag,
        a_foreign_page_token_is_refused,
        a_page_token_of_another_order_is_refused,
        a_row_follows_its_head,
        counts_match_lists,
        counting_respects_its_limit,
        one_of_many_commits_on_a_version_wins,
        concurrent_increments_are_all_counted,
        one_of_many_first_commits_wins,
        loads_during_commits_never_go_back,
        loading_resolves_an_unknown_outcome,
    ];
}

fn key(workflow_id: &str) -> HeadKey {
    HeadKey { domain: Arc::from("orders"), workflow_id: Arc::from(workflow_id) }
}

const RUN: RunId = [7; 16];
const LATER: RunId = [8; 16];

fn head(run: RunId, version: u64) -> Head {
    Head {
        run,
        version,
        body: Bytes::from(format!("body {version}")),
        due: Some(1_000 + version),
        row: Some(row(100, None)),
        expires_at: None,
    }
}

fn row(started_at: UnixMs, closed_at: Option<UnixMs>) -> Row {
    Row {
        workflow_type: Arc::from("order"),
        status: Arc::from(if closed_at.is_some() { "success" } else { "open" }),
        flagged: false,
        started_at,
        closed_at,
        tags: vec!["eu".to_owned(), "vip".to_owned()],
        why: None,
    }
}

async fn win(store: &dyn Store, key: &HeadKey, expect: Expect<'_>, head: &Head) {
    win_with(store, key, expect, head, &[]).await;
}

async fn win_with(store: &dyn Store, key: &HeadKey, expect: Expect<'_>, head: &Head, parts: &[(PartKey, Bytes)]) {
    let expected = format!("{expect:?}");
    let answer = store.commit(key, expect, head, parts).await.unwrap();
    assert_eq!(answer, Cas::Won, "a commit on {key:?} whose expectation {expected} holds");
}

async fn start(store: &dyn Store, key: &HeadKey) -> Head {
    let head = head(RUN, 1);
    win(store, key, Expect::Absent, &head).await;
    head
}

fn at(head: &Head) -> Expect<'static> {
    Expect::Exactly { run: head.run, version: head.version }
}
