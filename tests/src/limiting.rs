//! Limits of task lists: an operator who changes and pauses them, and a check that never more tasks run than may.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use engine::Refusal;
use engine::list_settings::{ListPause, ListSettings, ListSide, TaskLimits};
use history::{Run, Timestamp};
use store::{Cas, Error, HeadKey, Store};

use crate::actors::{PATIENCE, pause};
use crate::facts::Facts;
use crate::intercepted::{Commit, Interceptor};
use crate::script::LIST;
use crate::stored;
use crate::world::{DOMAIN, World};

/// Maximum number of tasks that run at once on each side of the list. The operator sets no higher limit.
const RUNNING_MAX: u32 = 3;

/// Maximum number of tasks of one key that run at once.
const OF_KEY_MAX: u32 = 2;

/// Returns the concurrency key of the runs of a workflow id. Some have none.
pub(crate) fn key_of(workflow_id: &str) -> Option<String> {
    match workflow_id.bytes().last().unwrap_or_default() % 3 {
        0 => None,
        other => Some(format!("key-{other}")),
    }
}

fn sides() -> [ListSide; 2] {
    [true, false].map(|is_decider| ListSide { name: LIST.to_owned(), is_decider })
}

/// Tasks of a run that are with deciders and runners: side and concurrency key.
type Running = Vec<(bool, Option<String>)>;

fn running(run: &Run) -> Running {
    if !run.is_open() {
        return Vec::new();
    }
    let turn = run.turn.as_ref().map(|_| (true, run.started.concurrency_key.clone()));
    let activities = run.activities.iter().filter(|(_, activity)| activity.held_since().is_some());
    let activities = activities.map(|(_, activity)| (false, run.key_of(activity).map(str::to_owned)));
    turn.into_iter().chain(activities).collect()
}

/// A store that counts the running tasks of all runs with each commit.
pub(crate) struct Watched {
    store: Arc<dyn Store>,
    running: Mutex<HashMap<HeadKey, Running>>,
    violations: Arc<Mutex<Vec<String>>>,
}

impl Watched {
    /// Creates the store and the list of violations that it finds.
    pub(crate) fn over(store: Arc<dyn Store>) -> (Self, Arc<Mutex<Vec<String>>>) {
        let violations = Arc::<Mutex<Vec<String>>>::default();
        (Self { store, running: Mutex::default(), violations: Arc::clone(&violations) }, violations)
    }

    fn note(&self, key: &HeadKey, run: &Run) {
        let mut all = self.running.lock().expect("no code panics while it holds this lock");
        let (before, now) = (all.remove(key).unwrap_or_default(), running(run));
        let has_more = now.len() > before.len();
        all.insert(key.clone(), now);
        let mut counts: BTreeMap<(bool, Option<&str>), u32> = BTreeMap::new();
        for (is_decider, key) in all.values().flatten() {
            *counts.entry((*is_decider, None)).or_default() += 1;
            if let Some(key) = key {
                *counts.entry((*is_decider, Some(key))).or_default() += 1;
            }
        }
        for ((is_decider, key), count) in counts.into_iter().filter(|_| has_more) {
            let max = if key.is_some() { OF_KEY_MAX } else { RUNNING_MAX };
            if count > max {
                let problem = format!("{count} tasks run at once, of {max}: deciders {is_decider}, key {key:?}");
                self.violations.lock().expect("no code panics while it holds this lock").push(problem);
            }
        }
    }
}

#[async_trait]
impl Interceptor for Watched {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn commit(&self, Commit { key, expect, head, parts }: Commit<'_>) -> Result<Cas, Error> {
        let answer = self.store.commit(key, expect, head, parts).await?;
        if matches!(answer, Cas::Won)
            && &*key.domain == DOMAIN
            && let Some((body, _)) = stored::decode(head)
        {
            self.note(key, &body.run);
        }
        Ok(answer)
    }
}

fn limits(world: &World) -> ListSettings {
    let max = |world: &World, most: u32| Some(1 + u32::try_from(world.dice(u64::from(most))).unwrap_or_default());
    ListSettings {
        limits: TaskLimits { max_running: max(world, RUNNING_MAX), rate: None },
        per_key: TaskLimits { max_running: max(world, OF_KEY_MAX), rate: None },
        ..ListSettings::default()
    }
}

/// Sets limits before the first run starts.
pub(crate) async fn begin(world: &World) {
    for side in sides() {
        let set = world.node().lists().set_list(DOMAIN, &side, &limits(world)).await;
        set.expect("no faults happen yet");
    }
    // Other nodes apply changes within two seconds.
    tokio::time::sleep(Duration::from_secs(3)).await;
}

/// Changes the limits of the list, and pauses and resumes it, until faults end. Then resumes it.
pub(crate) async fn operator(world: Arc<World>) {
    while !world.is_calm() {
        pause(&world, 3_000).await;
        let [deciders, runners] = sides();
        let side = if world.dice(2) == 0 { deciders } else { runners };
        let node = world.node();
        match world.dice(4) {
            0 => {
                let paused = ListPause { since: Timestamp::from_millis(1), ..ListPause::default() };
                drop(patiently(node.lists().pause_list(DOMAIN, &side, &paused)).await);
            }
            1 => drop(patiently(node.lists().resume_list(DOMAIN, &side)).await),
            _ => drop(patiently(node.lists().set_list(DOMAIN, &side, &limits(&world))).await),
        }
    }
    for side in sides() {
        while !matches!(
            patiently(world.node().lists().resume_list(DOMAIN, &side)).await,
            Some(Err(Refusal::ListNotPaused { .. }))
        ) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Returns the response if it arrives in time. A dead node sends none.
async fn patiently<T>(call: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(PATIENCE, call).await.ok()
}

/// Adds the violations that the store has found.
pub(crate) fn judge(facts: &mut Facts, found: &Mutex<Vec<String>>) {
    facts.violations.append(&mut found.lock().expect("no code panics while it holds this lock"));
}
