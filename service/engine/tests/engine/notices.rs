//! Log lines for operators at level `info`, about runs, lists, deliveries and the clock, and the rate limits of these
//! lines.

use std::io::Write;
use std::sync::Mutex;

use history::event::OperatorAction;
use history::{ActivityCommand, Duration as Span, RetryPolicy, WhenExhausted};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use super::*;

/// The log of one test at level `info`, in the service's format.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Log {
    fn begin() -> (Self, DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .with_writer(log.clone())
            .finish();
        let guard = tracing::subscriber::set_default(subscriber);
        (log, guard)
    }

    fn lines_with(&self, part: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains(part)).map(|line| line.trim().to_owned()).collect()
    }

    /// Returns the line with this text. Fails if there is more than one.
    fn only(&self, part: &str) -> String {
        let mut lines = self.lines_with(part);
        assert_eq!(lines.len(), 1, "{part}: {lines:?}");
        lines.remove(0)
    }
}

fn has(line: &str, parts: &[&str]) {
    for part in parts {
        assert!(line.contains(part), "`{part}` in {line}");
    }
}

impl Service {
    async fn fail_turn(&self, reason: Option<&str>) {
        let turn = self.turn().await;
        let token = self.engine.tasks().decider_token(&turn.task().token).unwrap();
        turn.delivered();
        let command = Command::FailTurn { turn: token.turn, reason: reason.map(str::to_owned), details: None };
        self.engine.tasks().answer_turn(&token, command).await.unwrap();
        self.clock.advance(Span::from_secs(30));
    }

    async fn pause_activity(&self, id: &str, activity_id: &str) {
        let operator = OperatorAction { identity: Some("ann".to_owned()), reason: Some("stock count".to_owned()) };
        let (activity_id, act) = (activity_id.to_owned(), ActivityCommand::Pause);
        let command = Command::ActOnActivity { activity_id, act, operator, key: None };
        self.engine.commands().submit(&at(id), command).await.unwrap();
    }

    async fn run_id_of(&self, id: &str) -> String {
        self.engine.views().describe(&at(id)).await.unwrap().run.started.run_id.to_string()
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_run_has_one_log_line_with_the_reason() {
    let (log, _guard) = Log::begin();
    let service = Service::open().await;
    service.start("order-1").await;
    service.fail_turn(Some("first")).await;
    assert_eq!(log.lines_with("failing"), [""; 0], "a single lost turn is normal during a deployment");
    service.fail_turn(Some("no such activity")).await;
    service.fail_turn(Some("third")).await;
    let line = log.only("a run is failing");
    let run_id = service.run_id_of("order-1").await;
    has(&line, &["WARN", "2 turns in a row failed or timed out; its decider failed the last one: no such activity."]);
    has(&line, &["`baton workflow show order-1 --domain default` shows more", r#"domain="default""#]);
    has(&line, &[r#"workflow_id="order-1""#, &format!("run_id={run_id}")]);
    // The run recovers and then fails again, which is reported again.
    let turn = service.turn().await;
    service.complete(turn, vec![activity("a", "acts")]).await.unwrap();
    service.signal("order-1", "s").await;
    service.fail_turn(None).await;
    service.fail_turn(None).await;
    let lines = log.lines_with("a run is failing");
    has(&lines[1], &["its decider failed the last one without a reason"]);
    assert_eq!(lines.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_turns_time_out_names_the_timeout() {
    let (log, _guard) = Log::begin();
    let service = Service::open().await;
    service.start("slow").await;
    for _ in 0..2 {
        service.turn().await.delivered();
        service.clock.advance(Span::from_secs(61));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    has(&log.only("a run is failing"), &["its decider did not answer the last one in time"]);
}

#[tokio::test(start_paused = true)]
async fn a_stuck_run_has_one_log_line_with_the_reason() {
    let (log, _guard) = Log::begin();
    let service = Service::open().await;
    service.start("it's stuck").await;
    let turn = service.turn().await;
    service.complete(turn, vec![]).await.unwrap();
    let line = log.only("a run is stuck");
    has(
        &line,
        &["WARN", "its last turn named no signal to wait for. A signal, an update or a cancel request wakes it"],
    );
    has(&line, &[r"`baton workflow show 'it'\''s stuck' --domain default` shows more"]);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_run_has_one_log_line_with_cause_and_advice() {
    let (log, _guard) = Log::begin();
    let service = Service::open().await;
    service.start("order-1").await;
    let turn = service.turn().await;
    let policy =
        RetryPolicy { maximum_attempts: Some(1), when_exhausted: WhenExhausted::Pause, ..RetryPolicy::default() };
    let of = |id: &str| -> Decision {
        ScheduleActivity {
            activity_id: id.to_owned(),
            activity_type: "do".to_owned(),
            task_list: Some("acts".to_owned()),
            retry: Some(policy.clone()),
            ..ScheduleActivity::default()
        }
        .into()
    };
    service.complete(turn, vec![of("charge"), of("ship")]).await.unwrap();
    let task = service.engine.tasks().poll_activity(DOMAIN, "acts", Poll::default()).await.unwrap().unwrap();
    let token = service.engine.tasks().activity_token(&task.task().token).unwrap();
    task.delivered();
    let command = Command::FailActivity {
        task: token.task,
        reason: Some("card-declined".to_owned()),
        details: None,
        non_retryable: false,
        retry_after: None,
    };
    service.engine.tasks().answer_activity(&token, command).await.unwrap();
    let line = log.only("a run is blocked");
    has(
        &line,
        &[
            "WARN",
            "activity `charge` has no attempts left and waits for an operator; the last attempt failed: card-declined.",
        ],
    );
    has(&line, &["`baton activity retry order-1 charge` retries it. `baton workflow show order-1 --domain default`"]);
    // An operator pauses another activity of the same run, whose status does not change.
    service.pause_activity("order-1", "ship").await;
    log.only("a run is blocked");
    service.start("order-2").await;
    let turn = service.turn().await;
    service.complete(turn, vec![of("charge"), of("ship")]).await.unwrap();
    service.pause_activity("order-2", "ship").await;
    let lines = log.lines_with("a run is blocked");
    has(&lines[1], &["activity `ship` was paused by ann: stock count.", r#"workflow_id="order-2""#]);
    assert_eq!(lines.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn lines_of_many_runs_are_limited_and_the_rest_counted() {
    let (log, _guard) = Log::begin();
    let service = Service::open().await;
    for number in 0..25 {
        service.start(&format!("stuck-{number}")).await;
        let turn = service.turn().await;
        service.complete(turn, vec![]).await.unwrap();
    }
    assert_eq!(log.lines_with("a run is stuck").len(), 10);
    tokio::time::sleep(Duration::from_secs(75)).await;
    let line = log.only("further runs have become stuck");
    has(&line, &["WARN", "count=15", "`baton workflow list --status stuck` shows them"]);
    assert_eq!(log.lines_with("stuck").len(), 11);
}

#[tokio::test(start_paused = true)]
async fn an_unpolled_list_is_reported_after_a_minute_and_when_polled() {
    let (log, _guard) = Log::begin();
    let service = Service::open().await;
    for id in ["a", "b"] {
        service.start(id).await;
    }
    service.clock.advance(Span::from_secs(59));
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(log.lines_with("without a poller"), [""; 0]);
    service.clock.advance(Span::from_secs(1));
    tokio::time::sleep(Duration::from_secs(11)).await;
    let line = log.only("tasks wait on a list without a poller");
    has(
        &line,
        &["WARN", r#"domain="default""#, r#"task_list="deciders""#, r#"kind="decider""#, "tasks=2", "since=2023-"],
    );
    has(&line, &["Start a decider for it"]);
    service.clock.advance(Span::from_secs(600));
    tokio::time::sleep(Duration::from_secs(120)).await;
    log.only("tasks wait on a list without a poller");
    assert_eq!(log.lines_with("polled again"), [""; 0]);
    let turn = service.turn().await;
    service.complete(turn, vec![succeed()]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    has(&log.only("polled again"), &["INFO", r#"task_list="deciders""#]);
    // The other run waits on the list again.
    service.clock.advance(Span::from_secs(60));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(log.lines_with("tasks wait on a list without a poller").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn failed_deliveries_have_one_log_line_per_list_and_minute() {
    let (log, _guard) = Log::begin();
    let service = Service::open().await;
    service.start("lost").await;
    for _ in 0..7 {
        drop(service.turn().await);
    }
    let turn = service.turn().await;
    service.complete(turn, vec![activity("a", "acts")]).await.unwrap();
    let lines = log.lines_with("did not reach their poller");
    assert_eq!(lines.len(), 1, "{lines:?}");
    has(&lines[0], &["WARN", "DeliveryFailed", r#"task_list="deciders""#, r#"kind="decider""#, " count=1"]);
    tokio::time::sleep(Duration::from_secs(75)).await;
    let lines = log.lines_with("did not reach their poller");
    assert_eq!(lines.len(), 2, "{lines:?}");
    has(&lines[1], &[r#"task_list="deciders""#, " count=6"]);
    // An activity on another list is not delivered.
    drop(service.engine.tasks().poll_activity(DOMAIN, "acts", Poll::default()).await.unwrap().unwrap());
    service.until("lost", "ActivityTimedOut").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    has(&log.lines_with("did not reach their poller")[2], &[r#"task_list="acts""#, r#"kind="activity""#, " count=1"]);
}

#[tokio::test(start_paused = true)]
async fn a_doubted_clock_has_one_log_line_per_hour() {
    let (log, _guard) = Log::begin();
    let service = Service::open().await;
    service.clock.advance(Span::from_days(2));
    tokio::time::sleep(Duration::from_secs(300)).await;
    let line = log.only("the clock is more than a day ahead");
    has(&line, &["WARN", "newest=2023-11-14", "found=2023-11-16", "`baton clock confirm`"]);
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(log.lines_with("the clock is more than a day ahead").len(), 2);
    service.engine.guard().confirm().await.unwrap();
    tokio::time::sleep(Duration::from_secs(7_200)).await;
    assert_eq!(log.lines_with("the clock is more than a day ahead").len(), 2);
}
