//! A service in this process with a client of the AWS SDK for SWF, for tests on a paused tokio clock. The clock
//! advances whenever all tasks wait for time, so that waits take no real time.
//!
//! This crate has the functions to start runs, decide and read histories. The tests contain the expected results.

pub mod decisions;
mod text;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use aws_credential_types::Credentials;
use aws_sdk_swf::Client;
use aws_sdk_swf::config::retry::RetryConfig;
use aws_sdk_swf::config::{BehaviorVersion, Region, StalledStreamProtectionConfig};
use aws_sdk_swf::operation::poll_for_activity_task::PollForActivityTaskOutput;
use aws_sdk_swf::operation::poll_for_decision_task::PollForDecisionTaskOutput;
use aws_sdk_swf::types::{
    ActivityType, ChildPolicy, Decision, HistoryEvent, TaskList, WorkflowExecution, WorkflowType,
};
use aws_smithy_async::time::TimeSource;
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use axum::Router;
use axum::body::Body;
use engine::{Clock, Engine, Settings, SwfQuotas};
use history::Timestamp;
use http_body_util::BodyExt;
use service::access::Credentials as Holders;
use store::memory::Memory;
use tokio::time::Instant;
use tower::ServiceExt;

pub use text::{events, fault, names};

/// Start of simulated time, since 1970.
const BEGIN: Duration = Duration::from_secs(1_700_000_000);

/// Simulated time, which follows the clock of the runtime. With a paused runtime, it advances only during waits.
#[derive(Debug, Clone, Copy)]
pub struct WorldTime {
    began: Instant,
    /// Offset of this clock from simulated time, in seconds.
    ahead: i64,
}

impl WorldTime {
    fn since_1970(&self) -> Duration {
        let now = BEGIN + self.began.elapsed();
        let off = Duration::from_secs(self.ahead.unsigned_abs());
        if self.ahead < 0 { now.saturating_sub(off) } else { now + off }
    }
}

#[async_trait]
impl Clock for WorldTime {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(u64::try_from(self.since_1970().as_millis()).unwrap_or(u64::MAX))
    }

    async fn sleep_until(&self, at: Timestamp) {
        tokio::time::sleep(at.since(Clock::now(self)).into()).await;
    }
}

impl TimeSource for WorldTime {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + self.since_1970()
    }
}

/// HTTP connector that passes the SDK's requests to the router.
#[derive(Debug, Clone)]
struct InProcess(Router);

impl HttpConnector for InProcess {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let router = self.0.clone();
        HttpConnectorFuture::new(async move {
            let other = |error: Box<dyn std::error::Error + Send + Sync>| ConnectorError::other(error, None);
            let request = request.try_into_http1x().map_err(|error| other(Box::new(error)))?;
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(other)?.to_bytes();
            let request = axum::http::Request::from_parts(parts, Body::from(body));
            let answer = match router.oneshot(request).await {
                Ok(answer) => answer,
                Err(never) => match never {},
            };
            let (parts, body) = answer.into_parts();
            let body = body.collect().await.map_err(|error| other(Box::new(error)))?.to_bytes();
            let answer = axum::http::Response::from_parts(parts, SdkBody::from(body));
            HttpResponse::try_from(answer).map_err(|error| other(Box::new(error)))
        })
    }
}

/// A service with its clients and its time.
#[derive(Clone)]
pub struct World {
    /// Client of the SDK for the service.
    pub swf: Client,
    /// Engine of the service.
    pub engine: Arc<Engine>,
    router: Router,
    time: WorldTime,
}

/// Workflow type that [`World::register`] registers, with all defaults.
pub const ORDER: &str = "order";
/// Activity type that [`World::register`] registers, with all defaults.
pub const CHARGE: &str = "charge";
/// Name of a workflow type and of an activity type that [`World::register`] registers without defaults.
pub const BARE: &str = "bare";

impl World {
    /// Creates a service without configured credentials.
    pub async fn open() -> Self {
        Self::guarded(Holders::default()).await
    }

    /// Creates a service with these credentials.
    pub async fn guarded(holders: Holders) -> Self {
        Self::with(holders, None).await
    }

    /// Creates a service that enforces these limits, with registered types.
    pub async fn limited(swf_quotas: SwfQuotas) -> Self {
        let world = Self::with(Holders::default(), Some(swf_quotas)).await;
        world.register().await;
        world
    }

    async fn with(holders: Holders, swf_quotas: Option<SwfQuotas>) -> Self {
        let time = WorldTime { began: Instant::now(), ahead: 0 };
        let settings = Settings { seed: Some(7), swf_quotas, ..Settings::default() };
        let engine = Engine::open(Arc::new(Memory::new()), Arc::new(time), settings).await.expect("a new store");
        let router = service::api::router_for(Arc::clone(&engine), holders);
        let swf = client(&router, time, &Credentials::new("id", "a secret of the tests", None, None, "test"));
        Self { swf, engine, router, time }
    }

    /// Creates another client of the same service with these credentials. Its clock is ahead by `ahead` seconds.
    pub fn client(&self, id: &str, secret: &str, ahead: i64) -> Client {
        let time = WorldTime { ahead, ..self.time };
        client(&self.router, time, &Credentials::new(id, secret, None, None, "test"))
    }

    /// Creates a service with registered types; see [`register`](Self::register).
    pub async fn ready() -> Self {
        let world = Self::open().await;
        world.register().await;
        world
    }

    /// Registers the types `order`, `charge` and `bare`. The last one is both a workflow type and an activity type.
    pub async fn register(&self) {
        let workflow = |name| self.swf.register_workflow_type().domain("default").name(name).version("1");
        let order = workflow(ORDER)
            .default_task_start_to_close_timeout("60")
            .default_execution_start_to_close_timeout("3600")
            .default_task_list(list("deciders"))
            .default_child_policy(ChildPolicy::Terminate);
        order.send().await.expect("a new type");
        workflow(BARE).send().await.expect("a new type");
        let activity = |name| self.swf.register_activity_type().domain("default").name(name).version("1");
        let charge = activity(CHARGE)
            .default_task_start_to_close_timeout("60")
            .default_task_heartbeat_timeout("NONE")
            .default_task_schedule_to_start_timeout("60")
            .default_task_schedule_to_close_timeout("120")
            .default_task_list(list("runners"));
        charge.send().await.expect("a new type");
        activity(BARE).send().await.expect("a new type");
    }

    /// Starts a run of type `order` and returns its run id.
    pub async fn start(&self, id: &str) -> String {
        let start =
            self.swf.start_workflow_execution().domain("default").workflow_id(id).workflow_type(workflow(ORDER));
        start.send().await.expect("a run starts").run_id.expect("a run id")
    }

    /// Starts a run of type `order` with a Lambda role and returns its run id.
    pub async fn start_with_role(&self, id: &str) -> String {
        let start =
            self.swf.start_workflow_execution().domain("default").workflow_id(id).workflow_type(workflow(ORDER));
        start.lambda_role("role").send().await.expect("a run starts").run_id.expect("a run id")
    }

    /// Polls the task list `deciders` for a turn. Returns an empty task if there is none.
    pub async fn turn(&self) -> PollForDecisionTaskOutput {
        self.turn_of("deciders").await
    }

    /// Polls a task list for a turn. Returns an empty task if there is none.
    pub async fn turn_of(&self, name: &str) -> PollForDecisionTaskOutput {
        let poll = self.swf.poll_for_decision_task().domain("default").task_list(list(name)).identity("d");
        poll.send().await.expect("a poll")
    }

    /// Answers a turn.
    pub async fn answer(&self, turn: &PollForDecisionTaskOutput, decisions: Vec<Decision>) {
        let answer = self.swf.respond_decision_task_completed().task_token(&turn.task_token);
        answer.set_decisions(Some(decisions)).send().await.expect("a turn that waits for its answer");
    }

    /// Takes the next turn and answers it.
    ///
    /// # Panics
    ///
    /// If there is no turn.
    pub async fn decide(&self, decisions: Vec<Decision>) -> PollForDecisionTaskOutput {
        let turn = self.turn().await;
        assert_ne!(turn.started_event_id, 0, "a turn waits");
        self.answer(&turn, decisions).await;
        turn
    }

    /// Polls the task list `runners` for an activity. Returns an empty task if there is none.
    pub async fn task(&self) -> PollForActivityTaskOutput {
        let poll = self.swf.poll_for_activity_task().domain("default").task_list(list("runners")).identity("r");
        poll.send().await.expect("a poll")
    }

    /// Returns the whole history of a run.
    pub async fn history(&self, id: &str, run_id: &str) -> Vec<HistoryEvent> {
        let read = self.swf.get_workflow_execution_history().domain("default").execution(execution(id, run_id));
        let (mut events, mut page) = (Vec::new(), None);
        loop {
            let read = read.clone().set_next_page_token(page).send().await.expect("a run");
            events.extend(read.events);
            page = read.next_page_token;
            if page.is_none() {
                return events;
            }
        }
    }

    /// Waits for this time and 10 ms more, so that everything that is due within this time has happened.
    pub async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds) + Duration::from_millis(10)).await;
    }
}

fn client(router: &Router, time: WorldTime, credentials: &Credentials) -> Client {
    let connector = SharedHttpConnector::new(InProcess(router.clone()));
    let config = aws_sdk_swf::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-west-2"))
        .endpoint_url("http://in.process")
        .credentials_provider(credentials.clone())
        .time_source(time)
        // Tests expect each call to be exactly one request.
        .retry_config(RetryConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .http_client(http_client_fn(move |_, _| connector.clone()));
    Client::from_conf(config.build())
}

/// Returns the task list of this name.
pub fn list(name: &str) -> TaskList {
    TaskList::builder().name(name).build().expect("it has a name")
}

/// Returns version 1 of the workflow type of this name.
pub fn workflow(name: &str) -> WorkflowType {
    WorkflowType::builder().name(name).version("1").build().expect("it has both")
}

/// Returns version 1 of the activity type of this name.
pub fn activity(name: &str) -> ActivityType {
    ActivityType::builder().name(name).version("1").build().expect("it has both")
}

/// Returns the reference to a run.
pub fn execution(id: &str, run_id: &str) -> WorkflowExecution {
    WorkflowExecution::builder().workflow_id(id).run_id(run_id).build().expect("it has both")
}
