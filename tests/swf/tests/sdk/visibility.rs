//! Lists and counts of runs: filters, orders and pages.

use std::time::Duration;

use aws_sdk_swf::primitives::DateTime;
use aws_sdk_swf::types::{
    CloseStatus, CloseStatusFilter, ExecutionTimeFilter, TagFilter, WorkflowExecutionFilter, WorkflowExecutionInfo,
    WorkflowTypeFilter,
};
use swf_sdk::decisions::{cancel, child_order, complete, fail, go_on, start_child};
use swf_sdk::{BARE, ORDER, World, execution, fault, list, workflow};

/// Time of the first start, in seconds since 1970.
const BEGIN: i64 = 1_700_000_000;

fn since(seconds: i64) -> ExecutionTimeFilter {
    ExecutionTimeFilter::builder().oldest_date(DateTime::from_secs(seconds)).build().unwrap()
}

fn between(oldest: i64, latest: i64) -> ExecutionTimeFilter {
    let (oldest, latest) = (DateTime::from_secs(oldest), DateTime::from_secs(latest));
    ExecutionTimeFilter::builder().oldest_date(oldest).latest_date(latest).build().unwrap()
}

fn ids(infos: Vec<WorkflowExecutionInfo>) -> String {
    infos.into_iter().map(|info| info.execution.unwrap().workflow_id).collect::<Vec<_>>().join(" ")
}

async fn start(world: &World, id: &str, kind: &str) -> String {
    let start = world.swf.start_workflow_execution().domain("default").workflow_id(id).workflow_type(workflow(kind));
    let start = start.execution_start_to_close_timeout("3600").task_start_to_close_timeout("60");
    let start = start.task_list(list("deciders")).child_policy(aws_sdk_swf::types::ChildPolicy::Terminate);
    start.send().await.unwrap().run_id.unwrap()
}

#[tokio::test(start_paused = true)]
async fn runs_are_listed_and_counted_by_what_they_are() {
    let world = World::ready().await;
    for n in 0..5 {
        let start = world.swf.start_workflow_execution().domain("default").workflow_id(format!("w{n}"));
        let start = start.workflow_type(workflow(ORDER)).set_tag_list((n % 2 == 0).then(|| vec!["even".to_owned()]));
        start.send().await.unwrap();
        world.pass(10).await;
    }
    for decision in [complete(""), fail("x")] {
        world.decide(vec![decision]).await;
        world.pass(10).await;
    }
    let open = || world.swf.list_open_workflow_executions().domain("default").start_time_filter(since(0));
    assert_eq!(ids(open().send().await.unwrap().execution_infos), "w4 w3 w2");
    assert_eq!(ids(open().reverse_order(true).send().await.unwrap().execution_infos), "w2 w3 w4");
    let even = TagFilter::builder().tag("even").build().unwrap();
    assert_eq!(ids(open().tag_filter(even.clone()).send().await.unwrap().execution_infos), "w4 w2");
    let page = open().maximum_page_size(2).send().await.unwrap();
    assert_eq!(ids(page.execution_infos.clone()), "w4 w3");
    let page = open().maximum_page_size(2).next_page_token(page.next_page_token.unwrap()).send().await.unwrap();
    assert_eq!((ids(page.execution_infos), page.next_page_token), ("w2".to_owned(), None));
    let late = 1_700_000_000 + 31;
    let later = world.swf.list_open_workflow_executions().domain("default").start_time_filter(since(late));
    assert_eq!(ids(later.send().await.unwrap().execution_infos), "w4");
    let count = world.swf.count_open_workflow_executions().domain("default").start_time_filter(since(0));
    let counted = count.clone().send().await.unwrap();
    assert_eq!((counted.count, counted.truncated), (3, false));
    let one = WorkflowExecutionFilter::builder().workflow_id("w3").build().unwrap();
    assert_eq!(count.clone().execution_filter(one.clone()).send().await.unwrap().count, 1);
    let of_type = WorkflowTypeFilter::builder().name(ORDER).build().unwrap();
    assert_eq!(count.type_filter(of_type.clone()).send().await.unwrap().count, 3);
    let closed = || world.swf.list_closed_workflow_executions().domain("default").close_time_filter(since(0));
    let all = closed().send().await.unwrap().execution_infos;
    assert_eq!(all[0].close_status, Some(CloseStatus::Failed));
    assert!(all[0].close_timestamp.is_some());
    assert_eq!(ids(all), "w1 w0");
    let failed = CloseStatusFilter::builder().status(CloseStatus::Failed).build().unwrap();
    assert_eq!(ids(closed().close_status_filter(failed.clone()).send().await.unwrap().execution_infos), "w1");
    let count = world.swf.count_closed_workflow_executions().domain("default").start_time_filter(since(0));
    assert_eq!(count.clone().close_status_filter(failed.clone()).send().await.unwrap().count, 1);
    assert_eq!(count.clone().tag_filter(even).send().await.unwrap().count, 1);
    let two = count.clone().execution_filter(one).type_filter(of_type);
    assert!(fault(two.send().await).starts_with("ValidationException: "));
    assert!(fault(count.close_time_filter(since(0)).send().await).starts_with("ValidationException: "));
}

#[tokio::test(start_paused = true)]
async fn every_way_to_close_has_its_status() {
    let world = World::ready().await;
    let closed = || world.swf.list_closed_workflow_executions().domain("default");
    for (id, decision) in
        [("completed", complete("")), ("failed", fail("x")), ("canceled", cancel()), ("gone on", go_on())]
    {
        start(&world, id, ORDER).await;
        world.decide(vec![decision]).await;
    }
    start(&world, "terminated", ORDER).await;
    world.swf.terminate_workflow_execution().domain("default").workflow_id("terminated").send().await.unwrap();
    start(&world, "timed out", ORDER).await;
    world.pass(3_600).await;
    world.swf.terminate_workflow_execution().domain("default").workflow_id("gone on").send().await.unwrap_err();
    for (status, id) in [
        (CloseStatus::Completed, "completed"),
        (CloseStatus::Failed, "failed"),
        (CloseStatus::Canceled, "canceled"),
        (CloseStatus::ContinuedAsNew, "gone on"),
        (CloseStatus::Terminated, "terminated"),
        (CloseStatus::TimedOut, "timed out"),
    ] {
        let filter = CloseStatusFilter::builder().status(status.clone()).build().unwrap();
        let list = closed().start_time_filter(since(0)).close_status_filter(filter.clone());
        let infos = list.send().await.unwrap().execution_infos;
        assert!(infos.iter().all(|info| info.close_status.as_ref() == Some(&status) && info.close_timestamp.is_some()));
        // The successor of the run that continued as new has timed out, too.
        let expected = if status == CloseStatus::TimedOut { "gone on timed out" } else { id };
        assert_eq!(ids(infos), expected);
        let count = world.swf.count_closed_workflow_executions().domain("default").start_time_filter(since(0));
        let found = count.close_status_filter(filter).send().await.unwrap().count;
        assert_eq!(usize::try_from(found).unwrap(), 1 + usize::from(status == CloseStatus::TimedOut));
    }
}

/// Starts the runs w0 to w4, one per second. Then closes w3, w0 and w2, in this order.
async fn five(world: &World) {
    for n in 0..5 {
        start(world, &format!("w{n}"), ORDER).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    for id in ["w3", "w0", "w2"] {
        world.swf.terminate_workflow_execution().domain("default").workflow_id(id).send().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn closed_runs_are_paged_by_start_or_close_from_either_end() {
    let world = World::ready().await;
    five(&world).await;
    for (by_close, reverse, expected) in [
        (false, false, ["w3", "w2", "w0"]),
        (false, true, ["w0", "w2", "w3"]),
        (true, false, ["w2", "w0", "w3"]),
        (true, true, ["w3", "w0", "w2"]),
    ] {
        for size in [1, 2, 3] {
            let closed = world.swf.list_closed_workflow_executions().domain("default").reverse_order(reverse);
            let times = Some(since(0));
            let closed =
                if by_close { closed.set_close_time_filter(times) } else { closed.set_start_time_filter(times) };
            let (mut found, mut token) = (Vec::new(), None);
            loop {
                let page = closed.clone().maximum_page_size(size).set_next_page_token(token).send().await.unwrap();
                assert!(page.execution_infos.len() <= usize::try_from(size).unwrap());
                found.extend(page.execution_infos);
                // Runs that start and close between two requests do not change the following pages.
                if found.len() < 3 {
                    let late = format!("late {}", found.len());
                    start(&world, &late, ORDER).await;
                    world.swf.terminate_workflow_execution().domain("default").workflow_id(&late).send().await.unwrap();
                }
                token = page.next_page_token;
                if token.is_none() {
                    break;
                }
            }
            let found = ids(found);
            let found: Vec<_> = found.split(' ').filter(|id| id.starts_with('w')).collect();
            assert_eq!(found, expected, "by close {by_close}, reverse {reverse}, pages of {size}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn both_ends_of_a_range_of_times_belong_to_it() {
    let world = World::ready().await;
    five(&world).await;
    let (start, close) = (BEGIN, BEGIN + 5);
    let closed = || world.swf.list_closed_workflow_executions().domain("default");
    for (from, to, expected) in [(0, 9, "w3 w2 w0"), (2, 3, "w3 w2"), (1, 1, ""), (3, 3, "w3"), (9, 0, "")] {
        let found = closed().start_time_filter(between(start + from, start + to)).send().await.unwrap();
        assert_eq!(ids(found.execution_infos), expected, "started from {from} to {to}");
    }
    for (from, to, expected) in [(0, 9, "w2 w0 w3"), (0, 1, "w0 w3"), (1, 1, "w0"), (3, 9, "")] {
        let times = between(close + from, close + to);
        let found = closed().close_time_filter(times.clone()).send().await.unwrap();
        assert_eq!(ids(found.execution_infos), expected, "closed from {from} to {to}");
        let count = world.swf.count_closed_workflow_executions().domain("default").close_time_filter(times);
        assert_eq!(usize::try_from(count.send().await.unwrap().count).unwrap(), expected.split_whitespace().count());
    }
    let before = ExecutionTimeFilter::builder().oldest_date(DateTime::from_secs(-5)).build().unwrap();
    let open = world.swf.list_open_workflow_executions().domain("default").start_time_filter(before);
    assert_eq!(ids(open.send().await.unwrap().execution_infos), "w4 w1");
}

#[tokio::test(start_paused = true)]
async fn a_type_is_found_by_its_name_in_every_version_and_by_its_version() {
    let world = World::ready().await;
    let second = world.swf.register_workflow_type().domain("default").name(ORDER).version("2");
    second.send().await.unwrap();
    start(&world, "first", ORDER).await;
    start(&world, "bare", BARE).await;
    let kind = aws_sdk_swf::types::WorkflowType::builder().name(ORDER).version("2").build().unwrap();
    let start = world.swf.start_workflow_execution().domain("default").workflow_id("second").workflow_type(kind);
    let start = start.execution_start_to_close_timeout("60").task_start_to_close_timeout("60");
    let start = start.task_list(list("deciders")).child_policy(aws_sdk_swf::types::ChildPolicy::Terminate);
    start.send().await.unwrap();
    for (version, expected) in
        [(None, "second first"), (Some(""), "second first"), (Some("2"), "second"), (Some("3"), "")]
    {
        let filter = WorkflowTypeFilter::builder().name(ORDER).set_version(version.map(str::to_owned)).build().unwrap();
        for size in [1, 100] {
            let open = world.swf.list_open_workflow_executions().domain("default").start_time_filter(since(0));
            let open = open.type_filter(filter.clone()).maximum_page_size(size);
            let (mut found, mut token) = (Vec::new(), None);
            loop {
                let page = open.clone().set_next_page_token(token).send().await.unwrap();
                found.extend(page.execution_infos);
                token = page.next_page_token;
                if token.is_none() {
                    break;
                }
            }
            let mut found: Vec<_> = ids(found).split(' ').map(str::to_owned).collect();
            // All runs started at the same time, so the list has no defined order among them.
            found.sort_by(|one, other| other.cmp(one));
            assert_eq!(found.join(" "), expected, "version {version:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_of_a_list_says_who_the_parent_is_and_that_a_cancel_was_requested() {
    let world = World::ready().await;
    let parent = world.start("parent").await;
    world.decide(vec![start_child(child_order("child"))]).await;
    world.pass(1).await;
    world.swf.request_cancel_workflow_execution().domain("default").workflow_id("child").send().await.unwrap();
    let open = world.swf.list_open_workflow_executions().domain("default").start_time_filter(since(0));
    let infos = open.send().await.unwrap().execution_infos;
    let child = infos.iter().find(|info| info.execution.as_ref().unwrap().workflow_id == "child").unwrap();
    assert_eq!((child.parent.as_ref(), child.cancel_requested), (Some(&execution("parent", &parent)), true));
}

#[tokio::test(start_paused = true)]
async fn a_token_leads_on_for_a_day_and_in_its_own_list() {
    let world = World::ready().await;
    five(&world).await;
    let open = || world.swf.list_open_workflow_executions().domain("default").start_time_filter(since(0));
    let closed = || world.swf.list_closed_workflow_executions().domain("default").close_time_filter(since(0));
    let of_open = open().maximum_page_size(1).send().await.unwrap().next_page_token.unwrap();
    let of_closed = closed().maximum_page_size(1).send().await.unwrap().next_page_token.unwrap();
    let invalid = "ValidationException: Invalid token";
    assert_eq!(fault(open().next_page_token(&of_closed).send().await), invalid);
    assert_eq!(fault(closed().next_page_token(&of_open).send().await), invalid);
    assert_eq!(fault(closed().next_page_token("c.fffffffffff.!").send().await), invalid);
    let domains = world.swf.list_domains().registration_status(aws_sdk_swf::types::RegistrationStatus::Registered);
    assert_eq!(fault(domains.next_page_token(&of_open).send().await), invalid);
    tokio::time::sleep(Duration::from_secs(23 * 3_600)).await;
    closed().next_page_token(&of_closed).send().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3_601)).await;
    let late = "ValidationException: Specified token has exceeded its maximum lifetime";
    assert_eq!(fault(closed().next_page_token(&of_closed).send().await), late);
    assert_eq!(fault(open().next_page_token(&of_open).send().await), late);
}
