//! Properties of flows, checked against random flows, environments and turns: a flow's decisions depend only on its
//! history.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::{join_all, select};
use proptest::prelude::*;

use super::*;
use crate::Decisions;
use crate::testing::Recorded;
use crate::turns::Turns as _;

/// Part of a random flow.
#[derive(Debug, Clone)]
enum Step {
    Do(usize),
    Sleep(u64),
    Signal(usize),
    Note,
    Patch,
    All(Vec<Vec<Step>>),
    First(Vec<Step>, Vec<Step>),
    Within(u64, Vec<Step>),
    Scope(u64, Vec<Step>),
    Shielded(Vec<Step>),
    Detached(usize),
}

const ACTIVITIES: [&str; 6] = ["a", "b", "fails", "slow", "lost", "untaken"];
const SIGNALS: [&str; 2] = ["red", "blue"];

fn step() -> impl Strategy<Value = Step> {
    let leaf = prop_oneof![
        4 => (0..ACTIVITIES.len()).prop_map(Step::Do),
        3 => (0u64..8).prop_map(Step::Sleep),
        2 => (0..SIGNALS.len()).prop_map(Step::Signal),
        1 => Just(Step::Note),
        1 => Just(Step::Patch),
        1 => (0..ACTIVITIES.len()).prop_map(Step::Detached),
    ];
    leaf.prop_recursive(3, 16, 3, |step| {
        let steps = || prop::collection::vec(step.clone(), 0..4);
        prop_oneof![
            prop::collection::vec(steps(), 1..4).prop_map(Step::All),
            (steps(), steps()).prop_map(|(one, other)| Step::First(one, other)),
            (0u64..8, steps()).prop_map(|(span, steps)| Step::Within(span, steps)),
            (0u64..8, steps()).prop_map(|(span, steps)| Step::Scope(span, steps)),
            steps().prop_map(Step::Shielded),
        ]
    })
}

/// Hash of everything the flow has seen. It is part of every request, so that different executions become visible.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<u64>>);

impl Seen {
    fn see(&self, what: impl std::hash::Hash) -> u64 {
        use std::hash::Hasher as _;
        let mut seen = self.0.lock().unwrap();
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write_u64(*seen);
        what.hash(&mut hasher);
        *seen = hasher.finish();
        *seen
    }
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;

fn run<'a>(ctx: &'a Context, seen: &'a Seen, dice: &'a AtomicU64, steps: &'a [Step]) -> Running<'a> {
    Box::pin(async move {
        for step in steps {
            let input = seen.see(ctx.now().as_millis());
            match step {
                Step::Do(which) => {
                    let activity = ctx.activity::<u64>(ACTIVITIES[*which], &input);
                    let activity = if input.is_multiple_of(5) { activity.outlasts_cancel() } else { activity };
                    match activity.schedule_to_start(seconds(9)).start_to_close(seconds(7)).await {
                        Ok(done) => drop(seen.see(done)),
                        Err(failure) if failure.is_canceled() => return Err(failure),
                        Err(failure) => drop(seen.see(failure.to_string())),
                    }
                }
                Step::Detached(which) => {
                    let activity = ctx.activity::<u64>(ACTIVITIES[*which], &input);
                    activity.schedule_to_start(seconds(9)).start_to_close(seconds(7)).detach();
                }
                Step::Sleep(span) => ctx.sleep(seconds(*span)).await?,
                Step::Signal(which) => {
                    let signal = ctx.signals::<u64>(SIGNALS[*which]).next().await?;
                    seen.see(signal);
                }
                Step::Note => {
                    let number = ctx.side_effect("number", || dice.fetch_add(1, Ordering::Relaxed));
                    seen.see(number);
                }
                Step::Patch => drop(seen.see(ctx.patched("change"))),
                Step::All(parts) => {
                    let parts = join_all(parts.iter().map(|steps| run(ctx, seen, dice, steps))).await;
                    parts.into_iter().collect::<Result<(), _>>()?;
                }
                Step::First(one, other) => {
                    let (one, other) = (run(ctx, seen, dice, one), run(ctx, seen, dice, other));
                    let first = match select(one, other).await {
                        futures::future::Either::Left((it, _)) => (0, it),
                        futures::future::Either::Right((it, _)) => (1, it),
                    };
                    seen.see(first.0);
                    first.1?;
                }
                Step::Within(span, steps) => match ctx.within(seconds(*span), run(ctx, seen, dice, steps)).await {
                    Ok(done) => done?,
                    Err(late) if late.is_timeout() => drop(seen.see("late")),
                    Err(canceled) => return Err(canceled),
                },
                Step::Scope(span, steps) => {
                    let scope = ctx.scope();
                    let work = run(&scope, seen, dice, steps);
                    match select(work, ctx.sleep(seconds(*span))).await {
                        futures::future::Either::Left((done, _)) => done?,
                        futures::future::Either::Right((_, work)) => {
                            scope.cancel();
                            seen.see(work.await.is_ok());
                        }
                    }
                }
                Step::Shielded(steps) => run(&ctx.shielded(), seen, dice, steps).await?,
            }
        }
        Ok(())
    })
}

/// Random environment of a flow.
#[derive(Debug, Clone)]
struct World {
    signals: Vec<(u64, usize)>,
    cancel: Option<u64>,
    /// Duration of turns in tenths of a second.
    turns_take: u64,
    /// Numbers of turns to lose, each with the second from which they are lost.
    lost: Vec<(u64, usize)>,
    /// Seconds at which a turn is decided but answered too late.
    late: Vec<u64>,
    /// Durations of `a`, `b` and `slow`.
    takes: [u64; 3],
}

fn world() -> impl Strategy<Value = World> {
    (
        prop::collection::vec((0u64..40, 0..SIGNALS.len()), 0..8),
        prop::option::weighted(0.3, 0u64..30),
        0u64..40,
        prop::collection::vec((0u64..30, 1usize..3), 0..3),
        prop::collection::vec(0u64..30, 0..3),
        [0u64..4, 1u64..9, 3u64..12],
    )
        .prop_map(|(signals, cancel, turns_take, lost, late, takes)| World {
            signals,
            cancel,
            turns_take,
            lost,
            late,
            takes,
        })
}

fn live(flow: &Flow, world: &World) -> Vec<Event> {
    let mut service = TestService::new();
    service.decider("flow", flow.clone());
    for (name, takes) in ["a", "b", "slow"].into_iter().zip(world.takes) {
        service.activity(name, move |call| Work::success(&call.nth).takes(seconds(takes)));
    }
    service.activity("fails", |_| Work::failure("out-of-ink", &()));
    service.activity("lost", |_| Work::never());
    let turns_take = Duration::from_millis(world.turns_take * 100);
    service.turns_take(if world.late.contains(&0) { seconds(31) } else { turns_take });
    service.start("flow", "1", &());
    for (at, which) in &world.signals {
        service.after(seconds(*at)).signal("1", SIGNALS[*which], &at);
    }
    if let Some(at) = world.cancel {
        service.after(seconds(at)).cancel("1");
    }
    // The test service decides every turn twice, with the cached state and with a rebuilt state.
    for second in 0..60 {
        if let Some((_, count)) = world.lost.iter().find(|(at, _)| *at == second) {
            service.lose_turns(*count);
        }
        let is_late = world.late.contains(&second);
        // A late turn takes longer than the decider's start-to-close timeout.
        service.turns_take(if is_late { seconds(31) } else { turns_take });
        service.advance(seconds(1));
    }
    service.lose_turns(0).turns_take(turns_take);
    service.advance(Duration::from_days(1));
    service.history("1").to_vec()
}

fn flow_of(steps: Vec<Step>) -> Flow {
    let dice = Arc::new(AtomicU64::new(0));
    let steps = Arc::new(steps);
    Flow::new(move |ctx: Context, ()| {
        let (dice, steps) = (Arc::clone(&dice), Arc::clone(&steps));
        async move {
            let seen = Seen::default();
            run(&ctx, &seen, &dice, &steps).await?;
            Ok(seen.see(()))
        }
    })
}

/// Returns the decisions of each completed turn if states are kept for `kept_for` turns and then rebuilt. Markers come
/// from the history, as on every replay.
fn decided(flow: &Flow, events: &[Event], kept_for: usize) -> Vec<(u64, Decisions)> {
    let mut decided = Vec::new();
    let mut state = FlowState::default();
    let mut seen = 0;
    let completed = events.iter().filter_map(|event| match &event.kind {
        EventKind::DeciderCompleted(it) => Some((event.id, it.started_event_id)),
        _ => None,
    });
    for (turn, (completed_event_id, started_event_id)) in completed.enumerate() {
        if turn % kept_for == 0 {
            (state, seen) = (FlowState::default(), 0);
        }
        for event in events.iter().filter(|event| event.id > seen && event.id <= started_event_id) {
            flow.evolve(&mut state, event);
        }
        seen = started_event_id;
        let batch = events.iter().skip_while(|event| event.id <= completed_event_id);
        let is_decided = |event: &&Event| {
            event.kind.level() == baton_history::Level::Decider || crate::flow::is_canceled_unstarted(&event.kind)
        };
        let markers = batch.take_while(is_decided).filter_map(|event| match &event.kind {
            EventKind::Marker(it) => {
                Some(baton_history::RecordMarker { name: it.name.clone(), details: it.details.clone() })
            }
            _ => None,
        });
        flow.set_recorded_markers(&mut state, markers.collect());
        decided.push((started_event_id, flow.decide(&state)));
    }
    decided
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn decisions_follow_from_the_history(
        steps in prop::collection::vec(step(), 1..6),
        world in world(),
    ) {
        let flow = flow_of(steps);
        let events = live(&flow, &world);
        // Replay all turns at once, as a host does if the state is not cached.
        if let Err(error) = replay(&flow, &json(&events)) {
            panic!("{error}");
        }
        // Decide turn by turn, and compare the inputs, too.
        Recorded::of(&events).assert_same(flow.clone());
        // Decide with states that are lost after a few turns.
        let kept = decided(&flow, &events, usize::MAX);
        for kept_for in [1, 2, 3] {
            prop_assert_eq!(&decided(&flow, &events, kept_for), &kept);
        }
    }

    /// Every prefix of a history that ends with a completed turn can be replayed.
    #[test]
    fn a_flow_can_be_replayed_from_any_turn(steps in prop::collection::vec(step(), 1..4), world in world()) {
        let flow = flow_of(steps);
        let events = live(&flow, &world);
        for (place, event) in events.iter().enumerate() {
            if event.kind.name() == "DeciderStarted" {
                replay(&flow, &json(&events[..=place])).unwrap();
            }
        }
    }
}

/// The test service detects flows that depend on anything but the history.
#[test]
fn a_nondeterministic_flow_is_detected() {
    let caught = |flow: Flow| {
        let mut service = service(flow);
        service.start("flow", "1", &());
        let finished = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| service.finish("1")));
        baton_client::shutdown::panic_message(&*finished.expect_err("the flow is detected"))
    };
    let count = AtomicU64::new(0);
    let message = caught(Flow::new(move |ctx: Context, ()| {
        let count = count.fetch_add(1, Ordering::Relaxed);
        async move { ctx.activity::<String>("a", &count).await }
    }));
    assert!(message.contains("with its cached state and with a state rebuilt from event 1"), "{message}");
    // Two hash sets of 64 elements hardly ever have the same order.
    let message = caught(flow(async |ctx, ()| {
        let parts: std::collections::HashSet<_> = (0..64).collect();
        join_all(parts.into_iter().map(|part| ctx.activity::<String>("a", &part))).await;
        Ok(())
    }));
    assert!(message.contains("with its cached state and with a state rebuilt from event 1"), "{message}");
}

/// A state holds only open steps, and nothing of the past.
#[test]
fn a_state_does_not_grow_with_its_history() {
    let flow = flow(async |ctx, ()| {
        let mut words = ctx.signals::<()>("word");
        loop {
            let _ = ctx.within(seconds(1), ctx.activity::<String>("a", &())).await;
            let _ = ctx.within(seconds(1), ctx.activity::<String>("d", &()).outlasts_cancel()).await;
            let _ = futures::join!(ctx.activity::<String>("b", &()), ctx.sleep(seconds(1)));
            let scope = ctx.scope();
            let (slow, timer) = (scope.activity::<String>("c", &()).start(), scope.sleep(seconds(9)).start());
            ctx.sleep(seconds(1)).await?;
            scope.cancel();
            assert!(slow.await.is_err() && timer.await.is_err());
            if ctx.now().as_millis() % 86_400_000 > 1_200_000 {
                // After twenty minutes it waits for a signal.
                words.next().await?;
                return Ok(());
            }
            let _ = words.try_next();
        }
    });
    let mut service = service(flow.clone());
    service.start("flow", "1", &());
    for minute in 0..20 {
        service.after(seconds(60 * minute)).signal("1", "word", &());
    }
    service.advance(Duration::from_days(1));
    let events = service.history("1");
    assert!(events.len() > 2_000, "{}", events.len());
    let mut state = FlowState::default();
    for event in events {
        flow.evolve(&mut state, event);
    }
    assert_eq!(flow.error(&state), None);
    // Only the wait for the signal is left.
    assert_eq!(crate::flow::core::lock(&state.machine.borrow().core).kept(), (1, 0, 0));
}
