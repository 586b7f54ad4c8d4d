//! Metrics of runs, turns and attempts.

use history::{Duration as Span, RetryPolicy};

use super::*;

impl Service {
    /// Returns the value of this series of a metric.
    fn number(&self, series: &str) -> f64 {
        let metrics = self.engine.render_metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series} in {metrics}")).parse().unwrap()
    }

    async fn fail_a_try(&self) {
        let poll = Poll { wait: Duration::from_secs(5), ..Poll::default() };
        let task = self.engine.tasks().poll_activity(DOMAIN, "acts", poll).await.unwrap().expect("it waits");
        let token = self.engine.tasks().activity_token(&task.task().token).unwrap();
        task.delivered();
        let fail = Command::FailActivity {
            task: token.task,
            reason: Some("declined".to_owned()),
            details: None,
            non_retryable: false,
            retry_after: None,
        };
        self.engine.tasks().answer_activity(&token, fail).await.unwrap();
    }
}

#[tokio::test]
async fn runs_and_tasks_are_measured_by_type_and_by_list() {
    let service = Service::open().await;
    service.start("a").await;
    let of_type = r#"{domain="default",type="test"}"#;
    assert!((service.number(&format!("baton_workflows_started_total{of_type}")) - 1.0).abs() < 1e-9);

    // The turn waits for seven seconds. It is the oldest task of its list.
    service.clock.advance(Span::from_secs(7));
    let deciders = r#"domain="default",kind="decider",list="deciders""#;
    assert!((service.number(&format!("baton_oldest_task_seconds{{{deciders}}}")) - 7.0).abs() < 1e-9);
    let turn = service.turn().await;
    assert!((service.number(&format!("baton_schedule_to_start_seconds_sum{{{deciders}}}")) - 7.0).abs() < 1e-9);

    // The turn takes two seconds and schedules an activity.
    service.clock.advance(Span::from_secs(2));
    let Decision::ScheduleActivity(mut charge) = activity("charge", "acts") else { panic!("it is one") };
    charge.retry =
        Some(RetryPolicy { initial_interval: Span::from_secs(3), maximum_attempts: Some(2), ..RetryPolicy::default() });
    service.complete(turn, vec![charge.into()]).await.unwrap();
    assert!((service.number(&format!("baton_turn_seconds_sum{of_type}")) - 2.0).abs() < 1e-9);

    // The first attempt waits for four seconds. The second attempt is available three seconds after the first has
    // failed, and is taken after four, so it waits for one second.
    service.clock.advance(Span::from_secs(4));
    service.fail_a_try().await;
    let tries = r#"baton_activity_attempts_failed_total{domain="default",type="do"}"#;
    assert!((service.number(tries) - 1.0).abs() < 1e-9, "the first attempt, which is not in the history");
    service.clock.advance(Span::from_secs(4));
    service.fail_a_try().await;
    assert!((service.number(tries) - 2.0).abs() < 1e-9, "and the last attempt");
    let acts = r#"{domain="default",kind="activity",list="acts"}"#;
    assert!((service.number(&format!("baton_schedule_to_start_seconds_sum{acts}")) - 5.0).abs() < 1e-9);
    assert!((service.number(&format!("baton_schedule_to_start_seconds_count{acts}")) - 2.0).abs() < 1e-9);

    // A turn fails. The next turn closes the run.
    let turn = service.turn().await;
    let token = service.engine.tasks().decider_token(&turn.task().token).unwrap();
    turn.delivered();
    let fail = Command::FailTurn { turn: token.turn, reason: None, details: None };
    service.engine.tasks().answer_turn(&token, fail).await.unwrap();
    let failed = r#"baton_turns_failed_total{domain="default",type="test",reason="failed"}"#;
    assert!((service.number(failed) - 1.0).abs() < 1e-9);
    service.clock.advance(Span::from_secs(60));
    let turn = service.turn().await;
    service.complete(turn, vec![succeed()]).await.unwrap();
    let closed = r#"{domain="default",type="test",status="success"}"#;
    assert!((service.number(&format!("baton_workflows_closed_total{closed}")) - 1.0).abs() < 1e-9);
    assert!((service.number(&format!("baton_workflow_seconds_sum{closed}")) - 77.0).abs() < 1e-9);
    assert!(service.number("baton_commit_seconds_count") > 8.0);
    assert!((service.number("baton_commit_seconds_count") - service.number("baton_commits_total")).abs() < 1e-9);
}
