//! Activities, timers and signals of flows.

use baton_history::event::ActivityTimeout;
use futures::StreamExt as _;
use futures::future::{Either, join_all, select};

use super::*;
use crate::flow::{ActivityEnd, Cause};

#[test]
fn sequential_activities_return_their_results() {
    let mut service = service(flow(async |ctx, ()| {
        let a: String = ctx.activity("a", &1).await?;
        let b: String = ctx.activity("b", &a).list("other").start_to_close(seconds(9)).await?;
        Ok(a + &b)
    }));
    assert_eq!(result_of(&mut service), "ab");
    let expected = [
        "WorkflowStarted",
        "ActivityScheduled",
        "ActivityStarted",
        "ActivitySuccess",
        "ActivityScheduled",
        "ActivityStarted",
        "ActivitySuccess",
        "WorkflowSuccess",
    ];
    assert_eq!(names(service.history("1")), expected);
    let scheduled = service.history("1").iter().rev().find_map(|event| match &event.kind {
        EventKind::ActivityScheduled(it) => Some(it.clone()),
        _ => None,
    });
    let scheduled = scheduled.unwrap();
    assert_eq!((scheduled.activity_id.as_str(), scheduled.task_list.as_str()), ("b", "other"));
    assert_eq!(scheduled.input.unwrap().text(), Some("\"a\""));
    assert_eq!(scheduled.timeouts.start_to_close, Some(seconds(9)));
}

#[test]
fn an_activity_with_a_retry_policy_is_awaited_once() {
    let mut service = service(flow(async |ctx, ()| {
        let policy = RetryPolicy { maximum_attempts: Some(4), ..RetryPolicy::default() };
        let crawl = ctx.activity("crawl", &()).retry(policy);
        let page: u32 = crawl.start_to_close(seconds(9)).heartbeat(seconds(5)).await?;
        Ok(format!("{page} at {}", ctx.now()))
    }));
    // The first attempt never ends, the second asks for a delay, the third continues from the last heartbeat.
    service.activity("crawl", |call| match call.attempt {
        1 => Work::never().heartbeats(seconds(4), &7),
        2 => Work::failure("busy", &()).retry_after(seconds(100)),
        _ => {
            let page = call.heartbeat_details.as_ref().map(|details| details.read::<u32>().unwrap());
            Work::success(&page.unwrap_or_default()).takes(seconds(1))
        }
    });
    assert_eq!(result_of(&mut service), "7 at 2024-01-01T00:01:51.000Z");
    let expected = ["WorkflowStarted", "ActivityScheduled", "ActivityStarted", "ActivitySuccess", "WorkflowSuccess"];
    assert_eq!(names(service.history("1")), expected);
}

#[test]
fn the_second_activity_of_a_type_gets_a_numbered_id() {
    let mut service = service(flow(async |ctx, ()| {
        let (_, _): (String, String) = futures::try_join!(ctx.activity("a", &1), ctx.activity("a", &2))?;
        ctx.sleep(seconds(1)).await?;
        ctx.sleep(seconds(1)).named("pause").await?;
        ctx.sleep(seconds(1)).await?;
        ctx.activity::<String>("a", &3).id("last").await
    }));
    result_of(&mut service);
    let ids: Vec<_> = service
        .history("1")
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ActivityScheduled(it) => Some(it.activity_id.as_str()),
            EventKind::TimerScheduled(it) => Some(it.timer_id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(ids, ["a", "a#2", "sleep", "pause", "sleep#2", "last"]);
}

#[test]
fn joined_futures_run_concurrently() {
    let mut service = service(flow(async |ctx, ()| {
        let all = ["a", "b", "c"].map(|name| ctx.activity::<String>(name, &()));
        let names: Result<Vec<_>, _> = join_all(all).await.into_iter().collect();
        Ok(names?.concat())
    }));
    service.start("flow", "1", &());
    let closed = service.finish("1");
    assert_eq!((closed.result::<String>().as_str(), closed.after), ("abc", seconds(3)));
}

/// `join_all` polls up to a fixed number of futures one by one. For more futures, it keeps a list of the woken futures.
#[test]
fn a_hundred_joined_activities_return_in_order() {
    let mut service = service(flow(async |ctx, ()| {
        let all = (0..100).map(|number| {
            let ctx = ctx.clone();
            async move {
                ctx.sleep(seconds(100 - number)).await?;
                let _: String = ctx.activity("a", &number).await?;
                Ok::<_, Failure>(number)
            }
        });
        let numbers: Result<Vec<_>, _> = join_all(all).await.into_iter().collect();
        assert_eq!(numbers?, (0..100).collect::<Vec<_>>());
        Ok("done")
    }));
    assert_eq!(result_of(&mut service), "done");
}

#[test]
fn a_select_is_won_by_the_first_event_and_cancels_the_rest() {
    let mut service = service(flow(async |ctx, ()| {
        let work = ctx.activity::<String>("c", &());
        match select(ctx.sleep(seconds(1)), work).await {
            Either::Left((slept, work)) => {
                slept?;
                drop(work);
            }
            Either::Right(_) => return Ok("work"),
        }
        ctx.sleep(seconds(1)).await?;
        match select(ctx.sleep(seconds(60)), ctx.activity::<String>("a", &())).await {
            Either::Left(_) => Ok("time"),
            Either::Right(_) => Ok("done"),
        }
    }));
    assert_eq!(result_of(&mut service), "done");
    service.assert_count("1", "ActivityTaskCancel", 1);
    service.assert_count("1", "TimerCanceled", 1);
}

/// Both signals arrive while no turn is being decided. One turn receives both signals in their order.
#[test]
fn events_between_two_turns_are_seen_in_order() {
    let race = |first: &'static str, then: &'static str| {
        let mut service = service(flow(async |ctx, ()| {
            let (mut left, mut right) = (ctx.signals::<()>("left"), ctx.signals::<()>("right"));
            let (left, right) = (std::pin::pin!(left.next()), std::pin::pin!(right.next()));
            Ok(match select(left, right).await {
                Either::Left(_) => "left",
                Either::Right(_) => "right",
            })
        }));
        service.turns_take(seconds(5));
        service.start("flow", "1", &());
        service.after(seconds(1)).signal("1", first, &());
        service.after(seconds(2)).signal("1", then, &());
        service.finish("1").result::<String>()
    };
    assert_eq!(race("left", "right"), "left");
    assert_eq!(race("right", "left"), "right");
}

#[test]
fn signals_arrive_once_in_order_including_early_signals() {
    let mut service = service(flow(async |ctx, ()| {
        ctx.sleep(seconds(10)).await?;
        let mut words = ctx.signals::<String>("word");
        let mut text = String::new();
        while text.len() < 6 {
            text += &words.next().await?;
        }
        assert_eq!(words.try_next()?, None);
        Ok(text)
    }));
    service.start("flow", "1", &());
    for (at, word) in [(1, "ab"), (2, "cd"), (20, "ef")] {
        service.after(seconds(at)).signal("1", "word", &word);
    }
    assert_eq!(service.finish("1").result::<String>(), "abcdef");
}

#[test]
fn a_flow_continues_in_a_new_run() {
    let mut service = TestService::new();
    // The flow counts to five, with two numbers per run.
    service.decider(
        "flow",
        Flow::new(async |ctx: Context, from: u32| -> Result<u32, Failure> {
            for n in from..from + 2 {
                if n == 5 {
                    return Ok(n);
                }
                ctx.sleep(seconds(10)).await?;
            }
            Err(ctx.continue_as_new(&(from + 2)))
        }),
    );
    service.start("flow", "1", &0);
    let closed = service.finish("1");
    assert_eq!((closed.status, closed.result::<u32>()), (Status::Success, 5));
    let expected = ["WorkflowStarted", "TimerScheduled", "TimerExpired", "WorkflowSuccess"];
    assert_eq!(names(service.history("1")), expected, "the third run's");
    assert!(service.run("1").started.continued_from.is_some());
}

#[test]
fn a_flow_declares_the_signals_it_awaits() {
    let mut service = service(flow(async |ctx, ()| {
        let mut approvals = ctx.signals::<u8>("approve");
        let mut rejections = ctx.signals::<u8>("reject");
        // No signal can have this name, so the run does not declare that it awaits it.
        let mut never = ctx.signals::<u8>("");
        let work = ctx.activity::<String>("a", &()).start();
        futures::select! {
            _ = std::pin::pin!(futures::FutureExt::fuse(approvals.next())) => {}
            _ = std::pin::pin!(futures::FutureExt::fuse(rejections.next())) => {}
            _ = std::pin::pin!(futures::FutureExt::fuse(never.next())) => {}
        }
        let a = work.await?;
        rejections.next().await?;
        Ok(a)
    }));
    service.start("flow", "1", &());
    service.advance(seconds(60));
    assert_eq!(service.run("1").awaiting, ["approve", "reject"]);
    assert!(!service.run("1").is_stuck());
    service.signal("1", "approve", &1).unwrap();
    service.advance(seconds(1));
    assert_eq!(service.run("1").awaiting, ["reject"]);
    service.signal("1", "reject", &1).unwrap();
    assert_eq!(service.finish("1").result::<String>(), "a");
}

#[test]
fn a_stream_of_signals_works_with_combinators() {
    let mut service = service(flow(async |ctx, ()| {
        let words = ctx.signals::<u64>("number").take(3);
        let numbers: Vec<_> = words.collect().await;
        Ok(numbers.into_iter().map(Result::unwrap).sum::<u64>().to_string())
    }));
    service.start("flow", "1", &());
    for number in 1..=3 {
        service.after(seconds(number)).signal("1", "number", &number);
    }
    assert_eq!(service.finish("1").result::<String>(), "6");
}

#[test]
fn an_unreadable_signal_is_an_error_the_flow_handles() {
    let mut service = service(flow(async |ctx, ()| {
        let mut numbers = ctx.signals::<u64>("number");
        let mut bad = 0;
        loop {
            match numbers.next().await {
                Ok(number) => return Ok(format!("{number} after {bad}")),
                Err(failure) if *failure.cause() == Cause::Unreadable => bad += 1,
                Err(failure) => return Err(failure),
            }
        }
    }));
    service.start("flow", "1", &());
    service.after(seconds(1)).signal("1", "number", &"seven");
    service.after(seconds(2)).signal("1", "number", &7);
    assert_eq!(service.finish("1").result::<String>(), "7 after 1");
}

#[test]
fn a_timed_out_future_is_dropped_with_its_open_steps() {
    let mut service = service(flow(async |ctx, ()| {
        let work = async {
            let _: String = ctx.activity("a", &()).await?;
            ctx.activity::<String>("d", &()).await
        };
        let late = ctx.within(seconds(3), work).await.unwrap_err();
        assert!(late.is_timeout(), "{late}");
        ctx.within(seconds(60), ctx.activity::<String>("b", &())).await?
    }));
    assert_eq!(result_of(&mut service), "b");
    service.assert_count("1", "ActivityTaskCancel", 1);
    service.assert_count("1", "TimerCanceled", 1);
}

#[test]
fn the_ends_of_an_activity_are_distinguished() {
    async fn end(ctx: &Context, name: &str) -> (ActivityEnd, String, bool) {
        let activity = ctx.activity::<String>(name, &()).schedule_to_start(seconds(30));
        let failure = activity.start_to_close(seconds(20)).await.unwrap_err();
        let reason = failure.reason().to_owned();
        match failure.cause() {
            Cause::Activity { end, activity_type, .. } if activity_type == name => (*end, reason, failure.may_retry()),
            other => panic!("{other:?}"),
        }
    }
    let mut service = service(flow(async |ctx, ()| {
        assert_eq!(
            end(&ctx, "bad").await,
            (ActivityEnd::Failed { non_retryable: false }, "out-of-ink".to_owned(), true)
        );
        assert_eq!(
            end(&ctx, "worse").await,
            (ActivityEnd::Failed { non_retryable: true }, "no-paper".to_owned(), false)
        );
        let late = ActivityEnd::TimedOut(ActivityTimeout::StartToClose);
        assert_eq!(end(&ctx, "lost").await, (late, "timed-out".to_owned(), true));
        assert_eq!(end(&ctx, "unheard-of").await, (ActivityEnd::NotTaken, "not-taken".to_owned(), true));
        let twice = futures::join!(ctx.activity::<()>("c", &()).id("x"), ctx.activity::<()>("c", &()).id("x"));
        match twice.1.unwrap_err().cause() {
            Cause::Activity { end: ActivityEnd::NotScheduled(_), .. } => Ok("all"),
            other => panic!("{other:?}"),
        }
    }));
    service.activity("bad", |_| Work::failure("out-of-ink", &()));
    service.activity("worse", |_| Work::failure("no-paper", &()).non_retryable());
    service.activity("lost", |_| Work::never());
    service.activity("c", |_| Work::success(&()));
    assert_eq!(result_of(&mut service), "all");
}

#[test]
fn an_unhandled_failure_fails_the_run() {
    let mut service = service(flow(async |ctx, ()| ctx.activity::<String>("bad", &()).await));
    service.activity("bad", |_| Work::failure("out-of-ink", &[1, 2]));
    service.start("flow", "1", &());
    let closed = service.finish("1");
    assert_eq!((closed.status, closed.reason.as_deref()), (Status::Failed, Some("out-of-ink")));
    assert_eq!(closed.result::<[u8; 2]>(), [1, 2]);
}

#[test]
fn started_and_detached_steps_run_without_being_awaited() {
    let mut service = service(flow(async |ctx, ()| {
        let work = ctx.activity::<String>("c", &()).start();
        let timer = ctx.sleep(seconds(3)).start();
        ctx.activity::<()>("telemetry", &()).schedule_to_start(seconds(60)).detach();
        ctx.sleep(seconds(2)).await?;
        timer.await?;
        work.await
    }));
    service.start("flow", "1", &());
    let closed = service.finish("1");
    assert_eq!((closed.result::<String>().as_str(), closed.after), ("c", seconds(3)));
    service.assert_count("1", "ActivityScheduled", 2);
    service.assert_count("1", "ActivityTaskCancel", 0);
}

#[test]
fn thirty_days_take_no_time_and_now_is_the_turns_time() {
    let mut service = service(flow(async |ctx, ()| {
        let begin = ctx.now();
        ctx.sleep(Duration::from_days(30)).await?;
        assert_eq!(ctx.now(), begin.plus(Duration::from_days(30)));
        ctx.sleep_until(begin.plus(Duration::from_days(31))).await?;
        ctx.sleep_until(begin).await?;
        assert_eq!(ctx.now(), begin.plus(Duration::from_days(31)));
        Ok((ctx.workflow_id(), ctx.workflow_type(), ctx.run_id().as_u128()))
    }));
    service.start("flow", "1", &());
    let closed = service.finish("1");
    assert_eq!(closed.result::<(String, String, u128)>(), ("1".to_owned(), "flow".to_owned(), 1));
    assert_eq!(closed.after, Duration::from_days(31));
}

#[test]
fn an_event_during_the_closing_turn_does_not_keep_the_run_open() {
    let mut service = service(flow(async |ctx, ()| ctx.activity::<String>("a", &()).await));
    service.turns_take(seconds(1));
    service.start("flow", "1", &());
    // The first turn takes until 1 s, the activity until 2 s, the second turn until 3 s.
    service.after(Duration::from_millis(2_500)).signal("1", "late", &());
    assert_eq!(service.finish("1").status, Status::Success);
    service.assert_count("1", "WorkflowCloseFailed", 1);
}
