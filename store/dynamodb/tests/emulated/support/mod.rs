//! DynamoDB in process: an HTTP connector for the SDK that passes each request to an emulator, with fault injection. No
//! socket is opened.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which the lint does not recognize as tests")]

mod yesterday;

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use baton_store_dynamodb::{Dynamo, Options};
use dynoxide::{Database, DynoxideError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use yesterday::IsUnmarked;

use self::yesterday::Yesterday;

/// The only region in which the emulator has tables.
pub(crate) const REGION: &str = "eu-west-2";

/// Name of the table.
pub(crate) const TABLE: &str = "baton";

/// Fault of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The put is throttled.
    Throttled,
    /// The put succeeds, but its response is lost.
    AnswerLost,
    /// The put is lost.
    RequestLost,
    /// The put succeeds, but its response is a 500.
    ServerError,
    /// Neither the put nor its response ever arrives.
    Hangs,
}

/// The emulator, and the faults of the next puts.
#[derive(Clone)]
pub(crate) struct Emulator {
    database: Arc<Database>,
    faults: Arc<Mutex<VecDeque<Option<Fault>>>>,
    reads_hang: Arc<AtomicBool>,
    refusal: Arc<Mutex<Option<&'static str>>>,
    operations: Arc<Mutex<BTreeSet<String>>>,
    /// Source of inconsistent reads, or `None` if all reads are consistent.
    yesterday: Option<Arc<Yesterday>>,
}

impl std::fmt::Debug for Emulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Emulator")
    }
}

fn run<Q: DeserializeOwned, A: Serialize>(
    body: &[u8],
    operation: impl FnOnce(Q) -> Result<A, DynoxideError>,
) -> (u16, String) {
    match operation(serde_json::from_slice(body).unwrap()) {
        Ok(answer) => (200, serde_json::to_string(&answer).unwrap()),
        Err(error) => (error.status_code(), error.to_json()),
    }
}

fn execute_on(database: &Database, operation: &str, body: &[u8]) -> (u16, String) {
    match operation {
        "CreateTable" => run(body, |request| database.create_table(request)),
        "PutItem" => run(body, |request| database.put_item(request)),
        "DescribeTable" => run(body, |request| database.describe_table(request)),
        "DeleteTable" => run(body, |request| database.delete_table(request)),
        "UpdateTimeToLive" => run(body, |request| database.update_time_to_live(request)),
        "DescribeTimeToLive" => run(body, |request| database.describe_time_to_live(request)),
        "GetItem" => run(body, |request| database.get_item(request)),
        "DeleteItem" => run(body, |request| database.delete_item(request)),
        "Scan" => run(body, |request| database.scan(request)),
        "Query" => run(body, |request| database.query(request)),
        other => panic!("unexpected operation {other}"),
    }
}

impl Emulator {
    pub(crate) fn new() -> Self {
        Self {
            database: Arc::new(Database::memory().unwrap()),
            faults: Arc::default(),
            reads_hang: Arc::default(),
            refusal: Arc::default(),
            operations: Arc::default(),
            yesterday: None,
        }
    }

    /// Creates an emulator whose indexes and inconsistent reads lag by a random delay. Requests for consistency
    /// selected by `is_unmarked` are ignored, as if the store had forgotten them.
    pub(crate) fn lagging(seed: u64, is_unmarked: IsUnmarked) -> Self {
        Self { yesterday: Some(Arc::new(Yesterday::new(seed, is_unmarked))), ..Self::new() }
    }

    /// Lets lagging data catch up. If `settles`, nothing lags afterwards.
    pub(crate) fn catch_up(&self, settles: bool) {
        if let Some(yesterday) = &self.yesterday {
            yesterday.catch_up(settles);
        }
    }

    /// Serves a request from the table or from the delayed copy.
    fn serve(&self, operation: &str, body: &[u8]) -> (u16, String) {
        let Some(yesterday) = &self.yesterday else { return self.execute(operation, body) };
        let request: Value = serde_json::from_slice(body).unwrap();
        if yesterday.answers(operation, &request) {
            return execute_on(&yesterday.database, operation, body);
        }
        let answer = self.execute(operation, body);
        if answer.0 == 200 {
            yesterday.queue_write(operation, &request);
        }
        answer
    }

    /// Injects these faults into the next puts, one after the other; `None` injects none.
    pub(crate) fn inject(&self, faults: impl IntoIterator<Item = Option<Fault>>) {
        self.faults.lock().unwrap().extend(faults);
    }

    /// Leaves every further `GetItem` unanswered.
    pub(crate) fn hang_reads(&self) {
        self.reads_hang.store(true, Ordering::SeqCst);
    }

    fn execute(&self, operation: &str, body: &[u8]) -> (u16, String) {
        execute_on(&self.database, operation, body)
    }

    /// Refuses every further request with this code.
    pub(crate) fn refuse(&self, code: &'static str) {
        *self.refusal.lock().unwrap() = Some(code);
    }

    /// Stops refusing requests.
    pub(crate) fn accept(&self) {
        *self.refusal.lock().unwrap() = None;
    }

    /// Returns the operations requested since the previous call.
    pub(crate) fn operations(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.operations.lock().unwrap())
    }

    /// Executes a request of the test on the table and returns the response.
    #[allow(dead_code, reason = "not every test asks")]
    pub(crate) fn send(&self, operation: &str, request: &serde_json::Value) -> serde_json::Value {
        let answer = self.execute(operation, request.to_string().as_bytes());
        assert_eq!(answer.0, 200, "{}", answer.1);
        serde_json::from_str(&answer.1).unwrap()
    }

    /// Deletes a single item, as TTL does.
    pub(crate) fn delete_item(&self, partition: &str, sort: &str) {
        let request = serde_json::json!({"TableName": TABLE, "Key": {"k": {"S": partition}, "s": {"S": sort}}});
        self.send("DeleteItem", &request);
    }

    /// Returns a store for a table of this emulator, without TTL. The time between two steps of the sweep is zero, so a
    /// step is made whenever a test requests one.
    pub(crate) fn store(&self) -> Dynamo {
        self.store_with(Options { due_shards: 1, has_ttl: false, sweep_every_ms: 0, ..Options::new(TABLE) })
    }

    /// Returns a store for a table of this emulator.
    pub(crate) fn store_with(&self, options: Options) -> Dynamo {
        self.store_in(REGION, "the emulator", options)
    }

    /// Returns a store that expects its table in the given region.
    pub(crate) fn store_in(&self, region: &'static str, place: &str, options: Options) -> Dynamo {
        let connector = SharedHttpConnector::new(self.clone());
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(region))
            .endpoint_url("http://in.process")
            .credentials_provider(
                Credentials::builder().access_key_id("id").secret_access_key("key").provider_name("test").build(),
            )
            .http_client(http_client_fn(move |_, _| connector.clone()))
            .build();
        Dynamo::new(&config, place, options)
    }
}

impl HttpConnector for Emulator {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap();
        let operation = target.rsplit('.').next().unwrap().to_owned();
        let body = request.body().bytes().unwrap().to_vec();
        let fault = if operation == "PutItem" { self.faults.lock().unwrap().pop_front().flatten() } else { None };
        let lost = || HttpConnectorFuture::ready(Err(ConnectorError::timeout("lost".into())));
        let never = || HttpConnectorFuture::new(std::future::pending());
        if operation == "GetItem" && self.reads_hang.load(Ordering::SeqCst) {
            return never();
        }
        self.operations.lock().unwrap().insert(operation.clone());
        // `Credential=<id>/<day>/<region>/dynamodb/…`: each region has its own tables.
        let signed = request.headers().get("authorization").unwrap();
        let is_here = signed.contains(&format!("/{REGION}/dynamodb/"));
        let refusal = if is_here { *self.refusal.lock().unwrap() } else { Some("ResourceNotFoundException") };
        let (status, text) = match fault {
            None if refusal.is_some() => (400, serde_json::json!({"__type": refusal, "message": "no"}).to_string()),
            None => self.serve(&operation, &body),
            Some(Fault::Throttled) => (
                400,
                r#"{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slow"}"#.to_owned(),
            ),
            Some(Fault::RequestLost) => return lost(),
            Some(Fault::Hangs) => return never(),
            Some(Fault::AnswerLost) => {
                self.serve(&operation, &body);
                return lost();
            }
            Some(Fault::ServerError) => {
                self.serve(&operation, &body);
                (500, r#"{"__type":"InternalServerError","message":"oops"}"#.to_owned())
            }
        };
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status.try_into().unwrap(), SdkBody::from(text))))
    }
}
