//! Handlers about the process: health, metrics, and the API description.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use client::body::{Readiness, ReadinessWarning};
use engine::{ClockMove, ClockStanding, Doubt, Engine, Refusal};

use crate::front::Front;
use crate::http::{Answer, AppState, bytes_of_json, json};

/// Maximum lag of the archive before a warning. Ours: ten times the amount that may be lost with a machine.
const SHIP_LAG_MAX: Duration = Duration::from_secs(10);

pub(super) async fn healthy() -> &'static str {
    "ok\n"
}

pub(super) async fn ready(State(engine): AppState, State(front): State<Front>) -> Answer {
    if engine.is_stopping() {
        return Err(Refusal::Stopping.into());
    }
    // The service is ready even with warnings.
    let warnings = warnings(&engine, &front).await;
    Ok(json(StatusCode::OK, &Readiness { ready: true, warnings }))
}

fn warning(code: &str, detail: String, advice: &str) -> ReadinessWarning {
    ReadinessWarning { code: code.to_owned(), detail, advice: advice.to_owned() }
}

async fn warnings(engine: &Engine, front: &Front) -> Vec<ReadinessWarning> {
    let mut warnings = Vec::new();
    if let Some(trouble) = front.store_trouble().await {
        let advice =
            "look at the store, and at the service's log; what is asked meanwhile is refused and can be asked again";
        warnings.push(warning("store-trouble", format!("the store does not answer as it should: {trouble}"), advice));
    }
    let room = engine.disk_room();
    if let Some(room) = room.filter(|room| room.is_full()) {
        let detail = Refusal::DiskFull { free: room.free, least: room.least }.to_string();
        let advice = "make room on the disk, or delete closed runs";
        warnings.push(warning("disk-full", detail, advice));
    } else if let Some(room) = room.filter(|room| room.is_low()) {
        let detail = format!("{room}: no run is started, and what is open goes on");
        let advice = "make room on the disk, or start the service with a lower --disk-reserve";
        warnings.push(warning("disk-low", detail, advice));
    }
    if let Some(ship) = front.ship_standing().filter(|ship| ship.error.is_some() || ship.lag > SHIP_LAG_MAX) {
        let why = ship.error.map_or_else(String::new, |error| format!(": {error}"));
        let detail =
            format!("what was acknowledged in the last {:.0} s is not in the archive{why}", ship.lag.as_secs_f64());
        let advice = "look at the disk and the mount, or the bucket, of --ship-to; the service goes on meanwhile, and \
            ships by itself later";
        warnings.push(warning("archive-behind", detail, advice));
    }
    if let Some(Doubt { found, newest, .. }) = engine.guard().doubt() {
        let clock = format!("the clock said {found}, and the newest time that was seen is {newest}");
        let detail = format!("{clock}: nothing is deleted by retention");
        warnings.push(warning("clock-doubted", detail, "where the clock is right: `baton clock confirm`"));
    }
    warnings.extend(clock_warnings(engine));
    for what in front.reloads().refused() {
        let detail = format!("{what}: what the file has now is refused, and what it had before is in force");
        let advice = "correct the file: the service's log says what is wrong with it";
        warnings.push(warning("file-refused", detail, advice));
    }
    warnings
}

/// Returns warnings about a clock that moved, differing clocks of nodes, and differing time-zone tables.
fn clock_warnings(engine: &Engine) -> Vec<ReadinessWarning> {
    let mut warnings = Vec::new();
    let ClockStanding { now, newest, behind, moves, .. } = engine.guard().standing();
    if let (Some(behind), Some(newest)) = (behind, newest) {
        let detail = format!(
            "the clock says {now}, {behind} behind {newest}, the newest time that was seen over this store: what is \
             due by then stands still meanwhile"
        );
        let advice = "correct the clock (NTP); where it is right: `baton clock confirm`";
        warnings.push(warning("clock-behind", detail, advice));
    }
    if let Some(ClockMove { from, to, node }) = moves.last() {
        let (by, how) =
            if to > from { (to.since(*from), "jumped ahead by") } else { (from.since(*to), "was put back by") };
        let node = node.as_ref().map(|node| format!(" of node {node}")).unwrap_or_default();
        let detail = format!(
            "the clock{node} {how} {by}, from {from} to {to} ({} such jumps are not confirmed): deadlines may be wrong",
            moves.len()
        );
        let advice = "correct the clock (NTP), and see `baton clock show` for what was armed meanwhile; where the \
            clock is right: `baton clock confirm`";
        warnings.push(warning("clock-moved", detail, advice));
    }
    for (node, by) in engine.nodes().clocks_apart() {
        let detail = format!("the clock and that of node {node} are {by} apart");
        warnings.push(warning("clocks-apart", detail, "correct the one that is wrong (NTP)"));
    }
    for (node, zones) in engine.nodes().other_zones() {
        let own = history::zone_tables();
        let detail = format!("node {node} has the time-zone tables {zones}, this one {own}");
        let advice = "give all nodes the same --zoneinfo, or none, and the same version";
        warnings.push(warning("zones-differ", detail, advice));
    }
    warnings
}

pub(super) async fn metrics(State(front): State<Front>) -> Answer {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    front.engine().count_runs().await;
    // Rendering runs on a blocking thread, so that it does not delay requests.
    let rendered = tokio::task::spawn_blocking(move || front.render_metrics()).await;
    let rendered = rendered.map_err(|_| Refusal::Stopping)?;
    Ok(([(CONTENT_TYPE, content_type)], rendered).into_response())
}

pub(super) async fn openapi() -> Response {
    bytes_of_json(StatusCode::OK, super::document::recorded_document())
}
