//! Clients, deciders and runners of the simulation, which behave badly on purpose.

use std::sync::Arc;
use std::time::Duration;

use engine::{ActivityTask, DeciderTask, Delivery, EventRange, Poll, Refusal, RunRef};
use history::{Command, Event, EventId, Fault, RequestKey, ReusePolicy, Start};
use uuid::Uuid;

use crate::asking;
use crate::facts::Promise;
use crate::limiting;
use crate::record::RecordedResponse;
use crate::script::{LIST, decide, single_activity};
use crate::world::{DOMAIN, World};

/// Maximum number of attempts of an answer or a call whose outcome may be lost.
pub(crate) const REPEATS: u32 = 8;

/// Maximum number of attempts of patient callers. Our choice: their attempts take longer than another node needs to
/// find the work of a dead node.
const PATIENT_REPEATS: u32 = 100;

/// No response arrived.
struct Lost;

/// Polls of one actor. Half of them have an id and are repeated if their response is lost.
struct Polls {
    id: Option<String>,
    attempt: u32,
}

impl Polls {
    fn next(world: &World) -> Self {
        let id = (world.dice(2) == 0).then(|| format!("{:x}", world.dice(u64::MAX)));
        Self { id, attempt: 1 }
    }

    fn poll(&self, world: &World) -> Poll {
        let (wait, identity, attempt) = (world.waits.next(world), Some("sim".to_owned()), Some(self.attempt));
        Poll { wait, identity, poll_id: self.id.clone(), attempt, ..Poll::default() }
    }

    /// Returns a poll for a turn.
    fn deciding(&self, world: &World) -> Poll {
        Poll { queries: world.asks, updates: if world.asks { 8 } else { 0 }, ..self.poll(world) }
    }

    /// Records the outcome of the poll and returns it. Sometimes loses the response on its way. The service then
    /// considers the task delivered.
    fn hear<T>(
        &mut self,
        world: &World,
        answer: Result<Option<Delivery<T>>, Refusal>,
    ) -> Result<Option<Delivery<T>>, Lost> {
        match answer {
            Ok(delivery) if self.id.is_some() && world.bad_luck(10) => drop(delivery.map(Delivery::delivered)),
            Ok(delivery) => {
                *self = Self::next(world);
                return Ok(delivery);
            }
            Err(_) => {}
        }
        self.attempt += 1;
        if self.id.is_none() || self.attempt > history::limits::POLL_ATTEMPTS_MAX {
            *self = Self::next(world);
        }
        Err(Lost)
    }
}

/// Maximum wait for a response. A dead node sends none.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the response if it arrives in time. Otherwise the outcome is unknown.
pub(crate) async fn answer<T: RecordedResponse>(
    world: &World,
    call: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    let late = |_| Err(Refusal::OutcomeUnknown { why: "no answer came in time".to_owned() });
    let answer = tokio::time::timeout(PATIENCE, call).await.unwrap_or_else(late);
    world.recorder.record_response(&answer);
    answer
}

pub(crate) async fn pause(world: &World, millis: u64) {
    let millis = world.dice(millis.max(1));
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Starts runs of one workflow id, one after the other, and sends them requests.
pub(crate) async fn client(world: Arc<World>, workflow_id: String) {
    let at = RunRef { domain: DOMAIN.into(), workflow_id: workflow_id.as_str().into(), run_id: None };
    while !world.is_calm() {
        start(&world, &workflow_id).await;
        for _ in 0..world.dice(5) {
            pause(&world, 3_000).await;
            talk(&world, &at).await;
        }
        pause(&world, 6_000).await;
    }
}

async fn start(world: &World, workflow_id: &str) {
    let key = RequestKey(world.dice(u64::MAX));
    let mut start =
        Start { key: Some(key), reuse_policy: ReusePolicy::AllowDuplicate, ..Start::new(workflow_id, "sim", LIST) };
    if world.single_activities && workflow_id.bytes().last().is_some_and(|last| last % 2 == 0) {
        start.activity = Some(Box::new(single_activity()));
    }
    if world.limits {
        start.concurrency_key = limiting::key_of(workflow_id);
    }
    if world.short_lives {
        // All runs of a workflow id have the same retention. Otherwise a run that remembers the start request of an
        // earlier run would be kept as long as that run.
        let last = workflow_id.bytes().last().unwrap_or_default();
        start.retention = history::Duration::from_secs(match last % 3 {
            0 => 0,
            1 => 20,
            _ => 300,
        });
    }
    for _ in 0..REPEATS {
        let (node, since) = (world.node(), world.time.now());
        match answer(world, node.commands().start(DOMAIN, start.clone())).await {
            Ok(started) => {
                world.facts().promises.push(Promise::Start { run_id: started.run_id, key });
                if !world.bad_luck(20) {
                    return;
                }
            }
            Err(refusal) if refusal.is_retryable() => pause(world, 200).await,
            Err(Refusal::Fault(Fault::AlreadyOpen { run_id })) => {
                world.facts().promises.push(Promise::Taken { run_id, key, since });
                return;
            }
            Err(_) => return,
        }
    }
}

async fn talk(world: &World, at: &RunRef) {
    let name = format!("s{}", world.dice(u64::MAX));
    // A run that remembers a request key is kept for a day. Worlds with short lives therefore use no keys here.
    let key = (world.dice(2) == 0 && !world.short_lives).then(|| RequestKey(world.dice(u64::MAX)));
    let command = match world.dice(20) {
        0 => Command::Terminate { reason: None, details: None, identity: None, key, child_policy: None },
        1 => Command::RequestCancel { reason: None, identity: None, key },
        _ => Command::Signal { name: name.clone(), input: None, identity: None, key, if_version: None },
    };
    let is_signal = matches!(command, Command::Signal { .. });
    for _ in 0..REPEATS {
        let node = world.node();
        match answer(world, node.commands().submit(at, command.clone())).await {
            Ok(admitted) if is_signal => {
                world.facts().promises.push(Promise::Signal { run_id: admitted.run_id, name });
                return;
            }
            // A request without a key must not be repeated, because it may have been recorded.
            Err(Refusal::OutcomeUnknown { .. }) if key.is_none() => return,
            Err(refusal) if refusal.is_retryable() => pause(world, 200).await,
            _ => return,
        }
    }
}

/// Makes the store delete expired runs as early as it may.
pub(crate) async fn reaper(world: Arc<World>) {
    while !world.is_over() {
        drop(world.store.expire(world.time.now().as_millis(), 10).await);
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
}

/// Starts the run `peer` and then a run of `workflow_id`, which signals `peer`. Sends a signal to the second run.
/// Retries patiently.
pub(crate) async fn single(world: Arc<World>, workflow_id: &'static str) {
    let at = RunRef { domain: DOMAIN.into(), workflow_id: workflow_id.into(), run_id: None };
    start(&world, "peer").await;
    start(&world, workflow_id).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let name = "hello".to_owned();
    let signal =
        Command::Signal { name: name.clone(), input: None, identity: None, key: Some(RequestKey(1)), if_version: None };
    for _ in 0..PATIENT_REPEATS {
        let node = world.node();
        match answer(&world, node.commands().submit(&at, signal.clone())).await {
            Ok(admitted) => {
                world.facts().promises.push(Promise::Signal { run_id: admitted.run_id, name });
                return;
            }
            // The run closed before the request reached the node that replaced the first node.
            Err(refusal) if refusal.code() == "run-closed" => return,
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
    world.facts().violations.push("the signal was not taken".to_owned());
}

/// Checks a refusal of a request with a valid token.
fn late(world: &World, run_id: Uuid, started: EventId, refusal: &Refusal) {
    let by = world.time.now();
    match refusal {
        // An attempt that is retried leaves neither its start nor its end in the history.
        Refusal::Fault(_) if started == 0 => {}
        Refusal::Fault(_) => world.facts().promises.push(Promise::Late { run_id, started, by }),
        // The run was deleted or replaced by another run. In both cases it has closed.
        Refusal::UnknownWorkflow { .. } | Refusal::UnknownRun { .. } | Refusal::RunNotCurrent { .. }
            if world.continues_as_new || world.single_activities =>
        {
            world.facts().promises.push(Promise::Late { run_id, started, by });
        }
        refusal => world.facts().violations.push(format!("an answer is refused: {refusal}")),
    }
}

/// Takes turns and answers them.
pub(crate) async fn decider(world: Arc<World>) {
    let mut polls = Polls::next(&world);
    while !world.is_over() {
        world.while_deserted().await;
        let node = world.node();
        let poll = node.tasks().poll_decider(DOMAIN, LIST, polls.deciding(&world));
        let polled = answer(&world, world.waits.end(&world, poll)).await;
        match polls.hear(&world, polled) {
            Ok(Some(delivery)) => turn(&world, delivery).await,
            Ok(None) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(Lost) => pause(&world, 100).await,
        }
    }
}

pub(crate) async fn turn(world: &World, delivery: Delivery<DeciderTask>) {
    if world.bad_luck(5) {
        // The connection broke. Dropping the delivery gives the task back.
        return;
    }
    let task = delivery.task().clone();
    delivery.delivered();
    world.facts().in_hand(&task.token);
    check_window(world, &task);
    if world.bad_luck(5) {
        // The decider dies: its turn times out.
        return;
    }
    if world.bad_luck(10) {
        pause(world, 20_000).await;
    }
    let Ok(token) = world.node().tasks().decider_token(&task.token) else {
        world.facts().violations.push("a token is not known to another node".to_owned());
        return;
    };
    let (mut results, mut verdicts) = (Vec::new(), Vec::new());
    let command = if world.bad_luck(5) {
        Command::FailTurn { turn: token.turn, reason: Some("sim".to_owned()), details: None }
    } else {
        let Some(events) = whole_history(world, &task).await else { return };
        results = asking::results(&task, &events);
        let mut decisions = Vec::new();
        if !task.query_only {
            verdicts = asking::judge(world, &task, &events);
            decisions = decide(&events, world.continues_as_new);
        }
        Command::complete(token.turn, decisions)
    };
    // A query task is not a turn. A speculative turn, which only delivers updates, may record nothing.
    let is_turn = !task.query_only && !task.speculative;
    let completes = is_turn && matches!(command, Command::CompleteTurn { .. });
    for _ in 0..REPEATS {
        let node = world.node();
        match answer(world, node.tasks().answer_turn_with(&token, command.clone(), results.clone(), verdicts.clone()))
            .await
        {
            Ok(()) => {
                let (run_id, started, at) = (token.run_id, token.turn.started_event_id, world.time.now());
                let promise = Promise::Turn { run_id, started, at };
                world.facts().promises.extend(completes.then_some(promise));
                if !world.bad_luck(20) {
                    return;
                }
            }
            Err(refusal) if refusal.is_retryable() => pause(world, 200).await,
            // The update was answered by another turn, or its caller no longer waits. This answer is given up.
            Err(refusal) if !is_turn || ["update-already-accepted", "unknown-update"].contains(&refusal.code()) => {
                return;
            }
            Err(refusal) => return late(world, token.run_id, token.turn.started_event_id, &refusal),
        }
    }
}

fn check_window(world: &World, task: &DeciderTask) {
    let first = task.events.first().map(|event| event.id);
    let last = task.events.last().map(|event| event.id);
    let expected = Some(task.previous_started_event_id.max(1));
    if first != expected || last != Some(task.started_event_id) {
        let problem =
            format!("a window from {first:?} to {last:?}, expected {expected:?} to {}", task.started_event_id);
        world.facts().violations.push(problem);
    }
}

async fn whole_history(world: &World, task: &DeciderTask) -> Option<Vec<Event>> {
    for _ in 0..REPEATS {
        let node = world.node();
        let token = node.tasks().decider_token(&task.token).ok()?;
        match answer(world, node.tasks().turn_history(&token, &EventRange { limit: 100_000, ..EventRange::default() }))
            .await
        {
            // The last two events of a speculative turn are not recorded yet, so they are left out.
            Ok(mut page) if task.speculative => {
                let first = task.events.first().map_or(0, |event| event.id);
                page.events.retain(|event| event.id < first);
                page.events.extend(task.events.iter().cloned());
                return Some(page.events);
            }
            Ok(page) => {
                if page.events.last().map(|event| event.id) != Some(task.started_event_id) {
                    let (of, shown) = (token.run_id, page.events.last().map(|event| event.id));
                    let problem = format!(
                        "a turn of {of} was shown a history up to {shown:?}, expected {}",
                        task.started_event_id
                    );
                    world.facts().violations.push(problem);
                }
                return Some(page.events);
            }
            Err(refusal) if refusal.is_retryable() => pause(world, 200).await,
            Err(_) => return None,
        }
    }
    None
}

/// Takes activities and answers them.
pub(crate) async fn runner(world: Arc<World>) {
    let mut polls = Polls::next(&world);
    while !world.is_over() {
        world.while_deserted().await;
        let node = world.node();
        let poll = node.tasks().poll_activity(DOMAIN, LIST, polls.poll(&world));
        let polled = answer(&world, world.waits.end(&world, poll)).await;
        match polls.hear(&world, polled) {
            Ok(Some(delivery)) => activity(&world, delivery).await,
            Ok(None) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(Lost) => pause(&world, 100).await,
        }
    }
}

pub(crate) async fn activity(world: &World, delivery: Delivery<ActivityTask>) {
    if world.bad_luck(5) {
        return;
    }
    let task = delivery.task().clone();
    delivery.delivered();
    world.facts().in_hand(&task.token);
    if world.bad_luck(5) {
        return;
    }
    if world.bad_luck(10) {
        pause(world, 10_000).await;
    }
    let Ok(token) = world.node().tasks().activity_token(&task.token) else { return };
    if world.bad_luck(30) {
        let node = world.node();
        match answer(world, node.tasks().heartbeat(&token, None)).await {
            Err(refusal) if !refusal.is_retryable() => {
                late(world, token.run_id, token.task.started_event_id, &refusal);
            }
            _ => {}
        }
    }
    let fails = world.bad_luck(10);
    let command = if fails {
        let reason = "sim".to_owned();
        Command::FailActivity {
            task: token.task,
            reason: Some(reason),
            details: None,
            non_retryable: false,
            retry_after: None,
        }
    } else {
        Command::SucceedActivity { task: token.task, result: None }
    };
    for _ in 0..REPEATS {
        let node = world.node();
        match answer(world, node.tasks().answer_activity(&token, command.clone())).await {
            Ok(()) => {
                let promise = Promise::Activity { run_id: token.run_id, scheduled: token.task.scheduled_event_id };
                world.facts().promises.extend((!fails).then_some(promise));
                if !world.bad_luck(20) {
                    return;
                }
            }
            Err(refusal) if refusal.is_retryable() => pause(world, 200).await,
            Err(refusal) => return late(world, token.run_id, token.task.started_event_id, &refusal),
        }
    }
}
