//! Limits of task lists: between the bodies of the API and the engine.

use std::collections::BTreeMap;

use client::body;
use engine::list_settings::{KeySettings, ListPause, ListSettings, StartRate, TaskLimits};
use engine::{Behind, LimitHold, LimitScope, LimitUse};
use history::Fault;

use crate::http::Refused;

/// Returns the settings that a request asks for, without a pause.
pub(super) fn settings(set: body::SetListLimits) -> Result<ListSettings, Refused> {
    let body::SetListLimits { max_running, rate, per_key, limits, group } = set;
    let mut keys = BTreeMap::new();
    for body::SetKeyLimits { key, max_running, rate, weight } in limits {
        let own = KeySettings { limits: task_limits(max_running, rate), weight };
        if keys.contains_key(&key) {
            let problem = "is in the list twice; expected each key once".to_owned();
            return Err(engine::Refusal::from(Fault::Invalid { field: format!("limits[{key}]"), problem }).into());
        }
        keys.insert(key, own);
    }
    let per_key = per_key.map(|it| task_limits(it.max_running, it.rate)).unwrap_or_default();
    Ok(ListSettings { limits: task_limits(max_running, rate), per_key, keys, group, paused: None })
}

/// Returns limits of a request for the engine.
pub(super) fn task_limits(max_running: Option<u32>, rate: Option<body::SetStartRate>) -> TaskLimits {
    let rate = rate.map(|body::SetStartRate { per_second, burst }| StartRate::new(per_second, burst));
    TaskLimits { max_running, rate }
}

fn rate(StartRate { per_second, burst }: StartRate) -> body::StartRate {
    body::StartRate { per_second, burst }
}

/// Returns the limits of a list; `None` if it has none.
pub(super) fn of_list(settings: &ListSettings) -> Option<body::ListLimits> {
    let ListSettings { limits, per_key, keys, group, paused: _ } = settings;
    let key = |(key, own): (&String, &KeySettings)| body::KeyLimits {
        key: key.clone(),
        max_running: own.limits.max_running,
        rate: own.limits.rate.map(rate),
        weight: own.weight,
    };
    let per_key = Some(per_key).filter(|per_key| !per_key.is_empty());
    let has_any = !limits.is_empty() || per_key.is_some() || !keys.is_empty() || group.is_some();
    has_any.then(|| body::ListLimits {
        max_running: limits.max_running,
        rate: limits.rate.map(rate),
        per_key: per_key.map(|it| body::TaskLimits { max_running: it.max_running, rate: it.rate.map(rate) }),
        limits: keys.iter().map(key).collect(),
        group: group.clone(),
    })
}

/// Returns the pause of a list.
pub(super) fn pause(pause: &ListPause) -> body::PausedList {
    let ListPause { reason, identity, by, since, stop_clocks } = pause.clone();
    body::PausedList { since, stop_clocks, reason, identity, by }
}

/// Returns the limits of a group.
pub(super) fn group(name: String, limits: TaskLimits) -> body::LimitGroup {
    body::LimitGroup { name, max_running: limits.max_running, rate: limits.rate.map(rate) }
}

/// Returns the word for a scope, and the name of its list, key or group.
fn scope(scope: &LimitScope, list: &str) -> (String, String) {
    let (word, name) = match scope {
        LimitScope::List => ("list", list),
        LimitScope::Key(key) => ("key", &**key),
        LimitScope::Group(group) => ("group", &**group),
    };
    (word.to_owned(), name.to_owned())
}

/// Returns the use of the limits of one scope.
pub(super) fn used(used: LimitUse, list: &str) -> body::LimitUse {
    let LimitUse { scope: of, limits: TaskLimits { max_running, rate: of_starts }, running } = used;
    let (scope, name) = scope(&of, list);
    body::LimitUse { scope, name, running, max_running, rate: of_starts.map(rate) }
}

/// Returns a limit that holds a task of this list back, with the number of tasks before it.
pub(super) fn waits_behind(hold: &LimitHold, list: &str, ahead: Option<usize>) -> body::WaitsBehind {
    let of_list = LimitScope::List;
    let (limit, of, running, max, of_starts) = match hold {
        LimitHold::Paused => ("paused", &of_list, None, None, None),
        LimitHold::Counting => ("counting", &of_list, None, None, None),
        LimitHold::Running { scope, running, max } => ("max-running", scope, Some(*running), Some(*max), None),
        LimitHold::Rate { scope, rate, until: _ } => ("rate", scope, None, None, Some(*rate)),
    };
    let (scope, name) = scope(of, list);
    let (limit, rate) = (limit.to_owned(), of_starts.map(rate));
    body::WaitsBehind { limit, scope, name, running, max, rate, ahead: ahead.map(|ahead| ahead as u64) }
}

/// Returns a limit that holds tasks of this list back, with their number.
pub(super) fn held_back(Behind { hold, tasks }: Behind, list: &str) -> body::HeldBack {
    let body::WaitsBehind { limit, scope, name, running, max, rate, ahead: _ } = waits_behind(&hold, list, None);
    body::HeldBack { limit, scope, name, running, max, rate, waiting: tasks as u64 }
}
