//! HTTP endpoints of a standby: `/metrics`, `/readyz` and `/healthz`. They need no authentication.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::http::header::{ALLOW, CONTENT_TYPE};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use client::body::{Readiness, ReadinessWarning};
use engine::{MetricKind, MetricsPage, PageLabels};
use tokio::time::Instant;

use crate::access::Level;
use crate::http::{Paths, Refused, json};

/// Lag of a standby above which `/readyz` warns. Our choice: the same as for the archive of a service.
const LAG_MAX: Duration = Duration::from_secs(10);

/// Paths that a standby serves.
const PATHS: [&str; 3] = ["/metrics", "/readyz", "/healthz"];

/// Status of a standby, shared by its worker and its HTTP endpoints.
#[derive(Debug, Clone, Default)]
pub struct StandbyView(Arc<Mutex<StandbyLag>>);

#[derive(Debug, Default)]
struct StandbyLag {
    /// Lag at the last successful read of the archive, and the time of that read.
    behind: Option<(Duration, Instant)>,
    trouble: Option<String>,
}

impl StandbyLag {
    /// Returns the current lag; `None` if the standby has not yet copied a complete store.
    fn lag(&self) -> Option<Duration> {
        self.behind.map(|(lag, at)| lag + at.elapsed())
    }
}

impl StandbyView {
    fn standing(&self) -> MutexGuard<'_, StandbyLag> {
        self.0.lock().expect("no code panics while it holds this lock")
    }

    /// Records that the standby has read the archive, and has all data that was written until `lag` ago.
    pub fn followed(&self, lag: Duration) {
        *self.standing() = StandbyLag { behind: Some((lag, Instant::now())), trouble: None };
    }

    /// Records that the archive could not be read.
    pub fn failed(&self, why: &str) {
        self.standing().trouble = Some(why.to_owned());
    }

    /// Writes the standby's metrics.
    pub(crate) fn write(&self, page: &mut MetricsPage) {
        let standing = self.standing();
        let help = "Time since the standby had all commits";
        let lag = standing.lag().map(|lag| (PageLabels::new(), lag.as_secs_f64()));
        page.family("standby_lag_seconds", MetricKind::Gauge, help, lag);
        let help = "1 while the standby cannot read the archive";
        let failing = u64::from(standing.trouble.is_some());
        page.family("standby_failing", MetricKind::Gauge, help, [(PageLabels::new(), failing)]);
    }

    fn readiness(&self) -> (StatusCode, Readiness) {
        let standing = self.standing();
        let why = standing.trouble.as_ref().map_or_else(String::new, |trouble| format!(": {trouble}"));
        let warning = |code: &str, detail: String| ReadinessWarning {
            code: code.to_owned(),
            detail,
            advice: "check the archive and its mount, and the service that ships to it; the standby recovers by itself"
                .to_owned(),
        };
        let Some(lag) = standing.lag() else {
            let warnings =
                vec![warning("standby-begins", format!("the standby does not have the base of the archive yet{why}"))];
            return (StatusCode::SERVICE_UNAVAILABLE, Readiness { ready: false, warnings });
        };
        let is_behind = standing.trouble.is_some() || lag > LAG_MAX;
        let detail = format!("the standby does not have the commits of the last {:.0} s{why}", lag.as_secs_f64());
        let warnings = is_behind.then(|| warning("standby-behind", detail));
        // The standby is ready even with warnings, because it could take over with the data that it has.
        (StatusCode::OK, Readiness { ready: true, warnings: warnings.into_iter().collect() })
    }

    fn answer(&self, method: &Method, path: &str) -> Result<Response, Refused> {
        let mut paths = Paths::default();
        for path in PATHS {
            paths.add(path, "GET", Level::Nothing);
        }
        if !PATHS.contains(&path) {
            return Err(paths.no_such_path(path));
        }
        match *method {
            Method::GET | Method::HEAD => {}
            Method::OPTIONS => return Ok((StatusCode::NO_CONTENT, [(ALLOW, paths.allow(path))]).into_response()),
            _ => return Err(paths.wrong_method(path, method)),
        }
        Ok(match path {
            "/metrics" => {
                let mut page = MetricsPage::default();
                self.write(&mut page);
                let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                ([(CONTENT_TYPE, content_type)], page.end()).into_response()
            }
            "/readyz" => {
                let (status, readiness) = self.readiness();
                json(status, &readiness)
            }
            _ => "ok\n".into_response(),
        })
    }

    /// Returns the standby's routes.
    pub fn router(self) -> Router {
        Router::new().fallback(move |method: Method, uri: Uri| async move { self.answer(&method, uri.path()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(following: &StandbyView) -> (u16, bool, Vec<String>) {
        let (status, Readiness { ready, warnings }) = following.readiness();
        (status.as_u16(), ready, warnings.into_iter().map(|warning| warning.code).collect())
    }

    fn metrics(following: &StandbyView) -> String {
        let mut page = MetricsPage::default();
        following.write(&mut page);
        page.end()
    }

    #[tokio::test(start_paused = true)]
    async fn a_standby_with_a_base_is_ready_and_reports_its_lag() {
        let following = StandbyView::default();
        assert_eq!(ready(&following), (503, false, vec!["standby-begins".to_owned()]));
        assert!(!metrics(&following).contains("\nbaton_standby_lag_seconds "), "nobody knows");
        following.followed(LAG_MAX);
        assert_eq!(ready(&following), (200, true, vec![]));
        assert!(metrics(&following).contains("\nbaton_standby_lag_seconds 10.0"));
        assert!(metrics(&following).contains("\nbaton_standby_failing 0"));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(ready(&following), (200, true, vec!["standby-behind".to_owned()]));
        following.followed(Duration::ZERO);
        following.failed("the archive is not there");
        assert_eq!(ready(&following), (200, true, vec!["standby-behind".to_owned()]));
        assert!(metrics(&following).contains("\nbaton_standby_failing 1"));
        tokio::time::advance(Duration::from_secs(4)).await;
        assert!(metrics(&following).contains("\nbaton_standby_lag_seconds 4.0"), "it goes on while nothing is read");
        following.followed(Duration::ZERO);
        assert_eq!(ready(&following), (200, true, vec![]));
    }

    #[test]
    fn a_standby_answers_three_calls_and_no_other() {
        let following = StandbyView::default();
        let status = |method: &Method, path: &str| match following.answer(method, path) {
            Ok(response) => response.status().as_u16(),
            Err(refused) => refused.into_response().status().as_u16(),
        };
        assert_eq!(status(&Method::GET, "/healthz"), 200);
        assert_eq!(status(&Method::HEAD, "/metrics"), 200);
        assert_eq!(status(&Method::GET, "/readyz"), 503);
        assert_eq!(status(&Method::OPTIONS, "/readyz"), 204);
        let refused = following.answer(&Method::POST, "/readyz").unwrap_err().into_response();
        assert_eq!(
            (refused.status().as_u16(), &refused.headers()[ALLOW]),
            (405, &"GET, HEAD, OPTIONS".parse().unwrap())
        );
        assert_eq!(status(&Method::GET, "/v1/domains"), 404);
        assert_eq!(status(&Method::GET, "/"), 404);
    }
}
