//! What every engine must keep: one async fn per sentence of [`Store`]'s contract. An engine's test calls
//! [`all`] with a way to make empty stores.
//!
//! A function panics when the sentence does not hold; the panic says which and on what.

#![expect(clippy::unwrap_used, reason = "this module is a test that other crates can run")]

mod counts;
mod due;
mod heads;
mod lists;
mod marks;
mod parts;
mod races;

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

/// Runs every sentence, each on a store of its own.
pub async fn all(make: impl AsyncFn() -> Arc<dyn Store>) {
    macro_rules! sentences {
        ($($sentence:ident),* $(,)?) => {
            $({
                let store = make().await;
                $sentence(Arc::clone(&store)).await;
                store.close().await.expect("a store that has done its work closes");
            })*
        };
    }
    sentences![
        nothing_is_there_at_first,
        a_won_head_is_what_load_shows,
        absent_holds_only_where_no_head_is,
        exactly_holds_only_for_that_run_at_that_version,
        a_lost_commit_changes_nothing_and_shows_what_is_there,
        a_replaced_head_is_kept_for_its_run,
        a_replaced_head_is_kept_for_as_long_as_is_said_then,
        replacing_holds_only_for_the_newest_head,
        a_run_of_before_is_put_beside_the_newest_which_stays_as_it_is,
        a_run_of_before_is_put_where_no_head_is,
        a_run_that_is_there_is_not_put_again,
        keys_do_not_run_into_each_other,
        a_body_at_the_limit_is_taken_and_one_above_refused,
        heads_and_parts_have_the_room_that_runs_need,
        a_forgotten_run_is_gone_and_forgetting_is_idempotent,
        forgetting_an_earlier_run_leaves_the_newest,
        a_forgotten_key_can_be_used_again,
        runs_expire_at_their_instant_and_not_before,
        expiry_forgets_no_more_than_asked,
        a_head_whose_expiry_moved_is_judged_by_the_new_one,
        a_closed_store_answers_failed,
        parts_come_with_their_head,
        a_part_put_twice_is_there_once,
        the_newest_beat_wins,
        a_part_at_the_limit_is_taken_and_one_above_refused,
        parts_of_one_run_are_not_those_of_another,
        chunks_are_read_forward_from_an_event,
        chunks_are_read_back_from_an_event,
        marks_are_there_once_they_are_put_whatever_head_there_is,
        the_newest_mark_of_a_name_wins,
        marks_of_one_workflow_id_are_not_those_of_another,
        marks_outlive_the_runs_of_their_workflow_id,
        marks_expire_at_their_instant_and_not_before,
        a_mark_that_was_put_again_is_judged_by_its_new_expiry,
        a_mark_at_the_limit_is_taken_and_one_above_refused,
        due_heads_come_earliest_first,
        due_heads_behind_one_are_the_rest,
        due_follows_the_head,
        a_due_shard_out_of_range_is_empty,
        a_due_head_stands_in_the_shard_that_the_store_names,
        lists_show_rows_newest_start_first,
        a_page_says_how_many_rows_it_looked_at,
        every_condition_of_a_list_holds,
        the_beginning_of_a_workflow_id_finds_what_begins_so,
        lists_come_in_every_order,
        every_condition_of_a_list_holds_in_every_order,
        pages_show_every_row_once,
        pages_forget_no_run_and_show_none_twice_while_runs_change,
        pages_by_workflow_id_show_every_run_once,
        the_runs_of_a_workflow_id_are_listed_as_soon_as_they_are_there,
        a_foreign_page_token_is_refused,
        a_page_token_of_a_list_in_another_order_is_refused,
        a_row_follows_its_head,
        counts_are_what_lists_have,
        counting_looks_at_no_more_than_it_may,
        of_many_commits_on_one_version_one_wins,
        concurrent_increments_are_all_counted,
        of_many_first_commits_one_wins,
        loads_during_commits_never_go_back,
        an_unknown_outcome_can_be_told_by_loading,
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
    assert_eq!(answer, Cas::Won, "a commit on {key:?} that expects {expected}, which is so");
}

async fn start(store: &dyn Store, key: &HeadKey) -> Head {
    let head = head(RUN, 1);
    win(store, key, Expect::Absent, &head).await;
    head
}

fn at(head: &Head) -> Expect<'static> {
    Expect::Exactly { run: head.run, version: head.version }
}
