//! Reports about task lists: waiting tasks, tasks in flight, pollers and limits. Changes of limits and pauses.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use client::body;
use schemars::JsonSchema;
use serde::Deserialize;
use store::PageToken;

use super::extract::{NoQuery, OnNamed, Params, Path};
use super::limits;
use super::pages::ListKind;
use crate::access::Caller;
use crate::http::{Answer, AppState, Json, Refused, json};
use engine::list_settings::{ListPause, ListSettings, ListSide};
use engine::{ListReport, PollerReport, Refusal, TaskReport};

/// Default and maximum number of lists per page. Our choice: each list on the page is read while a lock is held.
const LIST_DEFAULT: usize = 100;
const LIST_MAX: usize = 200;

/// Maximum number of pollers that are listed per task list.
const POLLERS_MAX: usize = 20;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TaskListParams {
    /// Maximum number of task lists on a page, 1 to 200; 100 by default.
    limit: Option<usize>,
    /// `nextPage` of the previous page.
    page: Option<String>,
}

fn kind(is_decider: bool) -> &'static str {
    if is_decider { "decider" } else { "activity" }
}

fn poller(report: PollerReport) -> body::ListPoller {
    let PollerReport { identity, by, polls, since, last_polled_at } = report;
    body::ListPoller { identity, by: by.map(|by| by.to_string()), polls: polls as u64, since, last_polled_at }
}

fn listed(report: ListReport) -> body::ListedTaskList {
    let settings = report.settings.as_deref();
    let behind = report.behind.into_iter().map(|behind| limits::held_back(behind, &report.name));
    body::ListedTaskList {
        limits: settings.and_then(limits::of_list),
        paused: settings.and_then(|settings| settings.paused.as_ref()).map(limits::pause),
        counting: report.is_counting,
        uses: report.uses.into_iter().map(|used| limits::used(used, &report.name)).collect(),
        behind: behind.collect(),
        name: report.name.to_string(),
        kind: kind(report.is_decider).to_owned(),
        waiting: report.waiting as u64,
        more_waiting: report.has_more,
        oldest_since: report.oldest_since,
        in_flight: report.in_flight.map(|count| count as u64),
        dispatched_last_minute: report.handed_out,
        polls: report.polls as u64,
        pollers: report.pollers.into_iter().take(POLLERS_MAX).map(poller).collect(),
        polling_nodes: report.polling_nodes,
        no_pollers_since: report.unpolled_since,
        next: report.next.into_iter().map(|next| task(next, &report.name)).collect(),
    }
}

fn task(report: TaskReport, list: &str) -> body::ListedTask {
    let TaskReport { workflow_id, run_id, scheduled_event_id, priority, since, concurrency_key, behind } = report;
    body::ListedTask {
        workflow_id: workflow_id.to_string(),
        run_id,
        scheduled_event_id,
        priority,
        since,
        concurrency_key: concurrency_key.map(|key| key.to_string()),
        behind: behind.into_iter().map(|it| limits::waits_behind(&it.hold, list, Some(it.tasks))).collect(),
    }
}

/// Returns the position of a list. The next page begins after it.
fn place_of(report: &ListReport) -> PageToken {
    PageToken([kind(report.is_decider), &*report.name].join(" ").into_bytes())
}

fn list_at(place: &PageToken) -> Option<(Arc<str>, bool)> {
    let (kind_found, name) = std::str::from_utf8(&place.0).ok()?.split_once(' ')?;
    Some((name.into(), kind_found == kind(true)))
}

pub(super) async fn list(
    State(engine): AppState,
    Path([domain]): Path<1>,
    Params(params): Params<TaskListParams>,
) -> Answer {
    let page = params.page.as_deref().map(|page| ListKind::TaskLists.place(&engine, &domain, page)).transpose()?;
    let not_ours = || Refused::BadQuery("`page` was not issued by this service".to_owned());
    let after = page.map(|page| list_at(&page).ok_or_else(not_ours)).transpose()?;
    let limit = params.limit.unwrap_or(LIST_DEFAULT).clamp(1, LIST_MAX);
    let report = engine.lists().report(&domain, after, limit).await?;
    let last = report.lists.last().filter(|_| report.has_next).map(place_of);
    let next_page = last.map(|place| ListKind::TaskLists.token(&engine, &domain, &place));
    let task_lists = report.lists.into_iter().map(listed).collect();
    let (node, truncated) = (engine.nodes().address().map(str::to_owned), report.is_truncated);
    Ok(json(StatusCode::OK, &body::ListedTaskLists { task_lists, node, truncated, next_page }))
}

pub(super) async fn show(State(engine): AppState, Path([domain, name]): Path<2>, _: NoQuery) -> Answer {
    let report = engine.lists().report_of(&domain, &name).await?;
    let (task_lists, node) = (report.into_iter().map(listed).collect(), engine.nodes().address().map(str::to_owned));
    Ok(json(StatusCode::OK, &body::ListedTaskLists { task_lists, node, truncated: false, next_page: None }))
}

fn settings(list: ListSide, settings: &ListSettings) -> body::TaskListSettings {
    body::TaskListSettings {
        name: list.name,
        kind: kind(list.is_decider).to_owned(),
        limits: limits::of_list(settings),
        paused: settings.paused.as_ref().map(limits::pause),
    }
}

pub(super) async fn set_limits<const DECIDER: bool>(
    (State(engine), Path([domain, name]), _): OnNamed,
    Json(set): Json<body::SetListLimits>,
) -> Answer {
    let list = ListSide { name, is_decider: DECIDER };
    let set = engine.lists().set_list(&domain, &list, &limits::settings(set)?).await?;
    Ok(json(StatusCode::OK, &settings(list, &set)))
}

pub(super) async fn pause<const DECIDER: bool>(
    (State(engine), Path([domain, name]), _): OnNamed,
    caller: Caller,
    Json(body::PauseTaskList { stop_clocks, identity, reason }): Json<body::PauseTaskList>,
) -> Answer {
    let list = ListSide { name, is_decider: DECIDER };
    let by = caller.by().map(|by| by.to_string());
    let pause = ListPause { reason, identity, by, since: engine.lists().now(), stop_clocks };
    let paused = engine.lists().pause_list(&domain, &list, &pause).await?;
    Ok(json(StatusCode::OK, &settings(list, &paused)))
}

pub(super) async fn resume<const DECIDER: bool>((State(engine), Path([domain, name]), _): OnNamed) -> Answer {
    let list = ListSide { name, is_decider: DECIDER };
    let resumed = engine.lists().resume_list(&domain, &list).await?;
    Ok(json(StatusCode::OK, &settings(list, &resumed)))
}

pub(super) async fn groups(State(engine): AppState, Path([domain]): Path<1>, _: NoQuery) -> Answer {
    let groups = engine.lists().settings(&domain).await?.groups;
    let groups = groups.into_iter().map(|(name, of)| limits::group(name, of)).collect();
    Ok(json(StatusCode::OK, &body::LimitGroups { groups }))
}

pub(super) async fn show_group((State(engine), Path([domain, name]), _): OnNamed) -> Answer {
    let known = engine.lists().settings(&domain).await?.groups.remove(&name);
    let known = known.ok_or_else(|| Refusal::UnknownLimitGroup { domain, group: name.clone() })?;
    Ok(json(StatusCode::OK, &limits::group(name, known)))
}

pub(super) async fn set_group(
    (State(engine), Path([domain, name]), _): OnNamed,
    Json(set): Json<body::SetTaskLimits>,
) -> Answer {
    let of_group = limits::task_limits(set.max_running, set.rate);
    engine.lists().set_group(&domain, &name, of_group).await?;
    Ok(json(StatusCode::OK, &limits::group(name, of_group)))
}

pub(super) async fn delete_group((State(engine), Path([domain, name]), _): OnNamed) -> Answer {
    engine.lists().delete_group(&domain, &name).await?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}
