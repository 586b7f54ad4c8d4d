//! Every decision, every way in which a decision fails, and closing decisions.

use crate::scene::{
    cancel, cancel_timer, cancellation, check, failure, marker, scene, schedule, signal, success, timer,
};
use crate::{Status, limits};

#[test]
fn a_decision_is_recorded_after_its_turn() {
    let busy = scene().take();
    check(&busy, &busy.complete([schedule("a")]), "DeciderCompleted ActivityScheduled(a)");
    check(&busy, &busy.complete([timer("t", 1)]), "DeciderCompleted TimerScheduled(t)");
    check(&busy, &busy.complete([marker("m")]), "DeciderCompleted Marker(m)");
    check(&busy, &busy.complete([success()]), "DeciderCompleted WorkflowSuccess");
    check(&busy, &busy.complete([failure()]), "DeciderCompleted WorkflowFailed(no stock)");
    check(&busy, &busy.complete([cancellation()]), "DeciderCompleted WorkflowCanceled");
    check(&busy, &busy.complete([]), "DeciderCompleted");
    check(
        &busy,
        &busy.complete([marker("m"), schedule("b"), schedule("a"), timer("t", 1)]),
        "DeciderCompleted Marker(m) ActivityScheduled(b) ActivityScheduled(a) TimerScheduled(t)",
    );
    for (decision, status) in
        [(success(), Status::Success), (failure(), Status::Failed), (cancellation(), Status::Canceled)]
    {
        let closed = busy.clone().decide([decision]);
        assert_eq!(closed.run.status, status);
        assert_eq!(closed.run.closed_at, Some(closed.now));
        assert_eq!(closed.run.expires_at(), Some(closed.now.plus(limits::RETENTION_DEFAULT)));
    }
}

#[test]
fn a_decision_that_fails_is_recorded_and_schedules_a_turn() {
    let busy = scene().decide([schedule("a"), timer("t", 9)]).then(&signal("go")).take();
    for (decision, then) in [
        (schedule("a"), "ActivityScheduleFailed(a, ActivityIdAlreadyInUse)"),
        (cancel("b"), "ActivityTaskCancelFailed(b, ActivityIdUnknown)"),
        (timer("t", 1), "TimerScheduleFailed(t, TimerIdAlreadyInUse)"),
        (cancel_timer("u"), "TimerCancelFailed(u, TimerIdUnknown)"),
        (marker("baton.m"), "MarkerFailed(baton.m, NameReserved)"),
    ] {
        check(&busy, &busy.complete([decision]), &format!("DeciderCompleted {then} DeciderScheduled"));
    }
    // The failed decisions together schedule one turn, after the last decision.
    check(
        &busy,
        &busy.complete([cancel("b"), marker("m"), cancel_timer("u")]),
        "DeciderCompleted ActivityTaskCancelFailed(b, ActivityIdUnknown) Marker(m) \
         TimerCancelFailed(u, TimerIdUnknown) \
         DeciderScheduled",
    );
}

#[test]
fn an_id_is_free_again_once_its_activity_or_timer_has_ended() {
    let busy = scene().decide([schedule("a"), timer("t", 9)]).takes("a").succeeds("a").take();
    check(&busy, &busy.complete([schedule("a")]), "DeciderCompleted ActivityScheduled(a)");
    check(
        &busy,
        &busy.complete([cancel_timer("t"), timer("t", 1)]),
        "DeciderCompleted TimerCanceled(t) TimerScheduled(t)",
    );
    check(
        &busy,
        &busy.complete([schedule("b"), schedule("b")]),
        "DeciderCompleted ActivityScheduled(b) ActivityScheduleFailed(b, ActivityIdAlreadyInUse) DeciderScheduled",
    );
    let late = busy.after(9);
    let late = late.clone().then(&late.fire());
    check(&late, &late.complete([cancel_timer("t")]), "DeciderCompleted TimerCancelFailed(t, TimerIdUnknown)");
}
