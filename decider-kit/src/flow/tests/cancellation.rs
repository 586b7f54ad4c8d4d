//! Cancellation of runs and scopes, and the cleanup after it.

use futures::future::{Either, select};

use super::*;

/// Returns what the flow requested, in order.
fn requests(service: &TestService) -> Vec<String> {
    let effect = |event: &Event| match &event.kind {
        EventKind::ActivityScheduled(it) => Some(format!("do {}", it.activity_id)),
        EventKind::ActivityTaskCancel(it) => Some(format!("stop {}", it.activity_id)),
        EventKind::TimerScheduled(it) => Some(format!("set {}", it.timer_id)),
        EventKind::TimerCanceled(it) => Some(format!("take back {}", it.timer_id)),
        _ => None,
    };
    service.history("1").iter().filter_map(effect).collect()
}

#[test]
fn a_canceled_run_cancels_open_steps_and_closes() {
    let mut service = service(flow(async |ctx, ()| {
        let both = futures::try_join!(ctx.activity::<String>("d", &()), ctx.sleep(Duration::from_days(30)))?;
        Ok(both.0)
    }));
    service.start("flow", "1", &());
    service.after(seconds(2)).cancel("1");
    let closed = service.finish("1");
    assert_eq!((closed.status, closed.after), (Status::Canceled, seconds(2)));
    assert_eq!(requests(&service), ["do d", "set sleep", "stop d", "take back sleep"]);
}

#[test]
fn after_a_cancellation_only_shielded_steps_can_start() {
    let mut service = service(flow(async |ctx, ()| {
        let slept = ctx.sleep(Duration::from_days(30)).await;
        assert!(slept.unwrap_err().is_canceled());
        assert!(ctx.activity::<String>("a", &()).await.unwrap_err().is_canceled());
        assert!(ctx.sleep(seconds(1)).await.unwrap_err().is_canceled());
        assert!(ctx.signals::<()>("x").next().await.unwrap_err().is_canceled());
        assert!(ctx.scope().activity::<String>("a", &()).start().await.unwrap_err().is_canceled());
        assert!(ctx.is_canceled() && ctx.check().is_err());
        let cleanup = ctx.shielded();
        assert!(!cleanup.is_canceled());
        let cleaned: String = cleanup.activity("b", &()).await?;
        cleanup.sleep(seconds(5)).await?;
        Err::<(), _>(Failure::canceled(&cleaned))
    }));
    service.start("flow", "1", &());
    service.after(seconds(2)).cancel("1");
    let closed = service.finish("1");
    assert_eq!((closed.status, closed.after), (Status::Canceled, seconds(9)));
    assert_eq!(closed.result::<String>(), "b");
    assert_eq!(requests(&service), ["set sleep", "take back sleep", "do b", "set sleep#2"]);
}

#[test]
fn a_flow_may_succeed_after_a_cancellation() {
    let mut service = service(flow(async |ctx, ()| match ctx.sleep(seconds(60)).await {
        Err(canceled) if canceled.is_canceled() => Ok("enough"),
        other => other.map(|()| "all"),
    }));
    service.start("flow", "1", &());
    service.after(seconds(2)).cancel("1");
    assert_eq!(service.finish("1").result::<String>(), "enough");
}

#[test]
fn a_cancellation_reason_reaches_the_flow_and_the_close() {
    let mut service = service(flow(async |ctx, ()| Err::<(), _>(ctx.canceled().await)));
    service.start("flow", "1", &());
    let reason = Some("out of business".to_owned());
    service.after(seconds(1)).command("1", baton_history::Command::RequestCancel { reason, identity: None, key: None });
    let closed = service.finish("1");
    assert_eq!((closed.status, closed.result::<String>().as_str()), (Status::Canceled, "out of business"));
}

#[test]
fn an_activity_may_outlast_its_cancellation() {
    let mut service = service(flow(async |ctx, ()| {
        let done = ctx.activity::<String>("long", &()).heartbeat(seconds(5)).outlasts_cancel().await;
        let failure = done.unwrap_err();
        assert!(failure.is_canceled());
        Err::<(), _>(Failure::canceled(&failure.read_details::<String>()))
    }));
    service.activity("long", |_| {
        Work::success(&"done").takes(Duration::from_days(1)).heartbeats(seconds(3), &"half").stops_on_cancel()
    });
    service.start("flow", "1", &());
    service.after(seconds(4)).cancel("1");
    let closed = service.finish("1");
    // The heartbeat at 6 s reported the cancellation request.
    assert_eq!((closed.status, closed.after), (Status::Canceled, seconds(6)));
    assert_eq!(closed.result::<String>(), "half");
}

#[test]
fn a_canceled_activity_without_a_runner_ends_at_once() {
    let mut service = service(flow(async |ctx, ()| {
        let scope = ctx.scope();
        let work = scope.activity::<String>("nobody", &()).outlasts_cancel().start();
        ctx.sleep(seconds(1)).await?;
        scope.cancel();
        assert!(work.await.unwrap_err().is_canceled());
        Ok("done")
    }));
    assert_eq!(result_of(&mut service), "done");
    service.assert_count("1", "ActivityCanceled", 1);
}

#[test]
fn canceling_a_scope_cancels_its_child_scopes_only() {
    let mut service = service(flow(async |ctx, ()| {
        let outer = ctx.scope();
        let inner = outer.scope();
        let beside = ctx.scope();
        let shielded = inner.shielded();
        let waits = [
            outer.sleep(seconds(60)).named("outer").start(),
            inner.sleep(seconds(60)).named("inner").start(),
            beside.sleep(seconds(60)).named("beside").start(),
            shielded.sleep(seconds(60)).named("shielded").start(),
        ];
        ctx.sleep(seconds(1)).await?;
        outer.cancel();
        outer.cancel();
        let mut ended = Vec::new();
        for wait in waits {
            ended.push(wait.await.is_ok());
        }
        assert_eq!(ended, [false, false, true, true]);
        assert!(!ctx.is_canceled() && inner.is_canceled());
        Ok("done")
    }));
    assert_eq!(result_of(&mut service), "done");
    service.assert_count("1", "TimerCanceled", 2);
}

/// A cancellation gate: a signal within the time window takes another branch.
#[test]
fn a_signal_within_a_window_cancels_the_timer() {
    let gate = || {
        service(flow(async |ctx, ()| {
            let mut cancel = ctx.signals::<()>("cancel");
            let gate = std::pin::pin!(cancel.next());
            match select(gate, ctx.sleep(seconds(60))).await {
                Either::Left((signal, _)) => signal.map(|()| "canceled"),
                Either::Right((slept, _)) => slept.map(|()| "charged"),
            }
        }))
    };
    let mut canceled = gate();
    canceled.start("flow", "1", &());
    canceled.after(seconds(30)).signal("1", "cancel", &());
    assert_eq!(canceled.finish("1").result::<String>(), "canceled");
    canceled.assert_count("1", "TimerCanceled", 1);
    assert_eq!(result_of(&mut gate()), "charged");
}

/// The runner answers during the turn that requests the activity's cancellation, so the request fails without
/// consequences.
#[test]
fn a_late_cancellation_request_is_no_mismatch() {
    let flow = flow(async |ctx, ()| {
        let _ = ctx.within(seconds(1), ctx.activity::<String>("b", &())).await;
        ctx.sleep(seconds(60)).await?;
        Ok("done")
    });
    let mut service = service(flow.clone());
    service.turns_take(Duration::from_millis(400));
    service.start("flow", "1", &());
    // The timer and `b` start at 0.4 s. The timer expires at 1.4 s, the turn that sees it lasts until 1.8 s, and `b`
    // ends at 1.6 s.
    service.activity("b", |_| Work::success(&"b").takes(Duration::from_millis(1_200)));
    assert_eq!(service.finish("1").result::<String>(), "done");
    service.assert_count("1", "ActivityTaskCancelFailed", 1);
    replay(&flow, &json(service.history("1"))).unwrap();
}

/// The timer has already expired when the code cancels it. The code has not processed the event of the expiry yet.
#[test]
fn an_ended_step_is_not_canceled() {
    let mut service = service(flow(async |ctx, ()| {
        let both = futures::join!(ctx.sleep(seconds(60)), ctx.activity::<String>("a", &()));
        assert!(both.0.unwrap_err().is_canceled() && both.1.unwrap_err().is_canceled());
        Ok("stopped")
    }));
    service.turns_take(Duration::from_millis(500));
    service.start("flow", "1", &());
    service.advance(seconds(1));
    // The turn that sees the cancellation is lost. The next turn also sees the end of the timer and the activity.
    service.lose_turns(3).cancel("1").unwrap();
    assert_eq!(service.finish("1").result::<String>(), "stopped");
    service.assert_count("1", "TimerExpired", 1);
    for failed in ["TimerCancelFailed", "ActivityTaskCancelFailed", "ActivityTaskCancel", "TimerCanceled"] {
        service.assert_count("1", failed, 0);
    }
}

#[test]
fn a_step_canceled_in_its_own_turn_leaves_no_trace() {
    let mut service = service(flow(async |ctx, ()| {
        let note = ctx.side_effect("before", || 1);
        drop(ctx.sleep(seconds(60)).start());
        let scope = ctx.scope();
        let work = scope.activity::<String>("d", &()).outlasts_cancel().start();
        let done: String = ctx.activity("a", &note).start().await?;
        // The activity was scheduled in an earlier turn, so it can only be asked to stop.
        scope.cancel();
        assert!(work.await.is_ok(), "its runner received no cancellation");
        let scope = ctx.scope();
        let work = scope.activity::<String>("d", &()).outlasts_cancel().start();
        scope.cancel();
        assert!(work.await.unwrap_err().is_canceled());
        ctx.side_effect("after", || 2);
        Ok(done)
    }));
    assert_eq!(result_of(&mut service), "a");
    assert_eq!(requests(&service), ["do d", "do a", "stop d"]);
    service.assert_count("1", "Marker", 2);
}
