//! Hosts: deciders and runners that exchange many tasks at once, each task in a slot, over connections that break.

use std::sync::Arc;
use std::time::Duration;

use engine::{ActivityTask, DeciderTask, Delivery, Engine, Poll, Refusal, Slots};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::actors::{PATIENCE, activity, pause, turn};
use crate::script::LIST;
use crate::waits::Waits;
use crate::world::{DOMAIN, World};

/// Maximum number of tasks that a host has at once.
const ROOM: u32 = 5;

/// Counts of exchanged tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exchanged {
    /// Tasks that reached their host.
    pub came: u64,
    /// Tasks that did not reach their host, although a node considers them delivered.
    pub lost: u64,
    /// Lost tasks that reached their slot in a later attempt.
    pub came_again: u64,
}

impl Exchanged {
    /// Adds the counts of another world.
    pub fn add(&mut self, other: &Self) {
        self.came += other.came;
        self.lost += other.lost;
        self.came_again += other.came_again;
    }
}

enum Task {
    Turn(Delivery<DeciderTask>),
    Activity(Delivery<ActivityTask>),
}

impl Task {
    fn token(&self) -> &str {
        match self {
            Self::Turn(delivery) => &delivery.task().token,
            Self::Activity(delivery) => &delivery.task().token,
        }
    }

    /// Simulates that the response was sent but not received by the host.
    fn vanish(self, world: &World) {
        world.facts().has_vanished(self.token());
        match self {
            Self::Turn(delivery) => delivery.delivered(),
            Self::Activity(delivery) => delivery.delivered(),
        }
    }

    async fn be_done(self, world: Arc<World>) {
        match self {
            Self::Turn(delivery) => turn(&world, delivery).await,
            Self::Activity(delivery) => activity(&world, delivery).await,
        }
    }
}

/// Runs a decider or runner with several slots.
pub(crate) struct Host {
    world: Arc<World>,
    is_decider: bool,
    /// Tasks in progress.
    tasks: JoinSet<()>,
}

impl Host {
    pub(crate) async fn live(world: Arc<World>, is_decider: bool) {
        let mut host = Self { world, is_decider, tasks: JoinSet::new() };
        while !host.world.is_over() {
            host.world.while_deserted().await;
            while host.tasks.try_join_next().is_some() {}
            let free = ROOM.saturating_sub(u32::try_from(host.tasks.len()).unwrap_or(ROOM));
            if free == 0 {
                drop(host.tasks.join_next().await);
                continue;
            }
            let room = 1 + host.world.random().u32(..free);
            host.exchange((0..room).collect()).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        while host.tasks.join_next().await.is_some() {}
    }

    /// Sends one exchange with all its attempts. Each attempt requests the slots that have no task yet.
    async fn exchange(&mut self, mut free: Vec<u32>) {
        let queries = self.is_decider && self.world.asks;
        let poll = Poll {
            wait: self.world.waits.next(&self.world),
            identity: Some("host".to_owned()),
            queries,
            updates: if queries { 8 } else { 0 },
            poll_id: Some(format!("{:x}", self.world.dice(u64::MAX))),
            ..Poll::default()
        };
        for attempt in 1..=history::limits::POLL_ATTEMPTS_MAX {
            let node = self.world.node();
            let poll = Poll { attempt: Some(attempt), ..poll.clone() };
            let offered = node.tasks().slots(self.is_decider, (DOMAIN, LIST), &poll, free.clone());
            if let Ok(Ok(mut slots)) = timeout(PATIENCE, offered).await {
                if self.world.dice(2) == 0 {
                    // Waits, like a response that begins only after the answers of the exchange are recorded.
                    slots.stand_by();
                    pause(&self.world, 5).await;
                    if self.world.dice(4) == 0 {
                        slots.stand_down();
                    }
                }
                if self.hears_all(&node, slots, &mut free).await {
                    return;
                }
            }
            if self.world.is_over() {
                return;
            }
            pause(&self.world, 100).await;
        }
    }

    /// Reads tasks until each slot has one or the wait has ended. Returns false if the connection broke before.
    async fn hears_all(&mut self, node: &Arc<Engine>, mut slots: Slots, free: &mut Vec<u32>) -> bool {
        // If true, the exchange behaves like a response that is not streamed: it ends with the first tasks.
        let mut at_once = self.world.waits == Waits::Short && self.world.dice(2) == 0;
        loop {
            let next = next(node, (self.is_decider, at_once), &mut slots);
            let Ok(Ok(line)) = timeout(PATIENCE, next).await else { return false };
            at_once = false;
            if line.is_empty() {
                return true;
            }
            let mut is_broken = false;
            for (slot, task) in line {
                is_broken |= self.world.bad_luck(5);
                if is_broken {
                    task.vanish(&self.world);
                    continue;
                }
                free.retain(|other| *other != slot);
                self.world.facts().has_come(task.token());
                self.tasks.spawn(task.be_done(Arc::clone(&self.world)));
            }
            if is_broken || self.world.bad_luck(3) {
                if self.world.bad_luck(50) {
                    self.tasks.spawn(fill_a_void(Arc::clone(&self.world), Arc::clone(node), self.is_decider, slots));
                }
                return false;
            }
        }
    }
}

/// Continues an exchange at a node that has not noticed that its connection is broken. All tasks are lost.
async fn fill_a_void(world: Arc<World>, node: Arc<Engine>, is_decider: bool, mut slots: Slots) {
    while let Ok(Ok(line)) = timeout(PATIENCE, next(&node, (is_decider, false), &mut slots)).await
        && !line.is_empty()
    {
        for (_, task) in line {
            task.vanish(&world);
        }
    }
}

/// Returns the next tasks. With `at_once`, returns the tasks for a response that ends now.
async fn next(
    node: &Engine,
    (is_decider, at_once): (bool, bool),
    slots: &mut Slots,
) -> Result<Vec<(u32, Task)>, Refusal> {
    let tasks = node.tasks();
    if is_decider {
        let turns = if at_once { tasks.last_turns(slots).await? } else { tasks.next_turns(slots).await? };
        Ok(turns.into_iter().map(|(slot, turn)| (slot, Task::Turn(turn))).collect())
    } else {
        let activities =
            if at_once { tasks.last_activities(slots).await? } else { tasks.next_activities(slots).await? };
        Ok(activities.into_iter().map(|(slot, activity)| (slot, Task::Activity(activity))).collect())
    }
}
