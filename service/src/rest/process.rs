//! Calls about the process: health, metrics, and the API description.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use client::body::{Readiness, ReadinessWarning};
use engine::{ClockMove, ClockStanding, Doubt, Engine, Refusal};

use crate::front::Front;
use crate::http::{Answer, AppState, bytes_of_json, json};

/// Lag of the archive above which readiness has a warning. If the machine is lost, changes of this period are lost,
/// too. Our choice: ten times the lag in normal operation.
const SHIP_LAG_MAX: Duration = Duration::from_secs(10);

pub(super) async fn healthy() -> &'static str {
    "ok\n"
}

pub(super) async fn ready(State(engine): AppState, State(front): State<Front>) -> Answer {
    if engine.is_stopping() {
        return Err(Refusal::Stopping.into());
    }
    // Warnings do not make the service unready.
    let warnings = warnings(&engine, &front).await;
    Ok(json(StatusCode::OK, &Readiness { ready: true, warnings }))
}

fn warning(code: &str, detail: String, advice: &str) -> ReadinessWarning {
    ReadinessWarning { code: code.to_owned(), detail, advice: advice.to_owned() }
}

async fn warnings(engine: &Engine, front: &Front) -> Vec<ReadinessWarning> {
    let mut warnings = Vec::new();
    if let Some(trouble) = front.store_error().await {
        let advice = "check the store and the service's log; failed requests can be retried";
        warnings.push(warning("store-failing", format!("the store is failing: {trouble}"), advice));
    }
    let room = engine.disk_room();
    if let Some(room) = room.filter(|room| room.is_full()) {
        let detail = Refusal::DiskFull { free: room.free, least: room.least }.to_string();
        let advice = "free space on the disk, or delete closed runs";
        warnings.push(warning("disk-full", detail, advice));
    } else if let Some(room) = room.filter(|room| room.is_low()) {
        let detail = format!("{room}: new runs are refused, and open runs continue");
        let advice = "free space on the disk, or start the service with a lower --disk-reserve";
        warnings.push(warning("disk-low", detail, advice));
    }
    if let Some(ship) = front.shipping_status().filter(|ship| ship.error.is_some() || ship.lag > SHIP_LAG_MAX) {
        let why = ship.error.map_or_else(String::new, |error| format!(": {error}"));
        let detail = format!("the archive does not have the commits of the last {:.0} s{why}", ship.lag.as_secs_f64());
        let advice = "check the disk and the mount, or the bucket, of --ship-to; the service continues and \
            catches up by itself";
        warnings.push(warning("archive-behind", detail, advice));
    }
    if let Some(Doubt { found, newest, .. }) = engine.guard().doubt() {
        let clock = format!("the clock showed {found}, and the newest time seen over this store is {newest}");
        let detail = format!("{clock}: retention deletes nothing");
        warnings.push(warning(
            "clock-suspect",
            detail,
            "correct the clock (NTP), or if it is right, run `baton clock confirm`",
        ));
    }
    warnings.extend(clock_warnings(engine));
    for what in front.reloads().refused() {
        let detail = format!("{what}: the new content of the file is invalid, and the earlier content is in force");
        let advice = "correct the file; the service's log has the error";
        warnings.push(warning("reload-failed", detail, advice));
    }
    warnings
}

/// Returns warnings about a clock that has moved, and about clocks or time-zone tables that differ between nodes.
fn clock_warnings(engine: &Engine) -> Vec<ReadinessWarning> {
    let mut warnings = Vec::new();
    let ClockStanding { now, newest, behind, moves, .. } = engine.guard().standing();
    if let (Some(behind), Some(newest)) = (behind, newest) {
        let detail = format!(
            "the clock shows {now}, {behind} behind {newest}, the newest time seen over this store: timers and \
             timeouts until then are delayed"
        );
        let advice = "correct the clock (NTP), or if it is right, run `baton clock confirm`";
        warnings.push(warning("clock-behind", detail, advice));
    }
    if let Some(ClockMove { from, to, node }) = moves.last() {
        let (by, how) =
            if to > from { (to.since(*from), "jumped ahead by") } else { (from.since(*to), "jumped back by") };
        let node = node.as_ref().map(|node| format!(" of node {node}")).unwrap_or_default();
        let detail = format!(
            "the clock{node} {how} {by}, from {from} to {to} ({} unconfirmed jumps): deadlines may be wrong",
            moves.len()
        );
        let advice = "correct the clock (NTP), and list the deadlines set meanwhile with `baton clock show`; if the \
            clock is right, run `baton clock confirm`";
        warnings.push(warning("clock-jumped", detail, advice));
    }
    for (node, by) in engine.nodes().clocks_apart() {
        let detail = format!("the clock of this node and the clock of node {node} differ by {by}");
        warnings.push(warning("clock-skew", detail, "correct the wrong clock (NTP)"));
    }
    for (node, zones) in engine.nodes().other_zones() {
        let own = history::zone_tables();
        let detail = format!("node {node} has version {zones} of the time-zone tables, this node has {own}");
        let advice = "run all nodes with the same version and the same --zoneinfo";
        warnings.push(warning("tzdata-mismatch", detail, advice));
    }
    warnings
}

pub(super) async fn metrics(State(front): State<Front>) -> Answer {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    front.engine().count_runs().await;
    // The metrics are rendered on a blocking thread, so that requests are not delayed.
    let rendered = tokio::task::spawn_blocking(move || front.render_metrics()).await;
    let rendered = rendered.map_err(|_| Refusal::Stopping)?;
    Ok(([(CONTENT_TYPE, content_type)], rendered).into_response())
}

pub(super) async fn openapi() -> Response {
    bytes_of_json(StatusCode::OK, super::document::recorded_document())
}
