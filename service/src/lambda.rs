//! Lambda tasks of SWF runs: calls of functions that an operator has registered. A Lambda task is an activity in a
//! reserved task list, and the service itself is its runner (`history::dialect`).
//!
//! A function is called at most once per task. SWF never retries a call, and after a crash of the service it is
//! unknown what the function has done. The task then ends by its start-to-close timeout, and the decider decides what
//! to do. A graceful shutdown waits for the calls in flight.

mod command;
mod endpoint;
mod failure;
mod function;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use history::{Command, LAMBDA_LIST, Payload};
use tokio::sync::{RwLock, Semaphore};

pub use function::Function;

use engine::{ActivityTask, Engine, Poll};
use failure::{CallFailure, RESULT_CHARS_MAX};
use function::FunctionTarget;

/// Maximum number of concurrent calls per domain. Our choice; further tasks wait in their list.
const CALLS_MAX: usize = 64;

/// Maximum wait of one poll.
const POLL_WAIT: Duration = Duration::from_secs(60);

/// Delay before the next poll after the store has failed. Our choice.
const TROUBLE_WAIT: Duration = Duration::from_secs(1);

/// Identity of the service as a runner, which histories record.
const IDENTITY: &str = "baton.lambda";

/// Calls of functions in flight.
#[derive(Debug, Clone, Default)]
pub struct FunctionCalls {
    /// Locked for reading by each call, and for writing by a shutdown, which thereby waits for all calls.
    under_way: Arc<RwLock<()>>,
}

impl FunctionCalls {
    /// Waits until all calls have ended, for at most `most`. The tasks of calls that have not ended by then time out.
    pub async fn finish(&self, most: Duration) {
        if tokio::time::timeout(most, self.under_way.write()).await.is_err() {
            tracing::warn!("slow function calls are abandoned; their tasks will time out");
        }
    }
}

/// Starts a runner that calls these functions until the service stops.
pub fn serve(engine: &Arc<Engine>, functions: BTreeMap<String, Function>) -> FunctionCalls {
    let mut domains = engine.lists().lambda_tasks();
    let calls = FunctionCalls::default();
    let (engine, http) = (Arc::clone(engine), endpoint::client());
    let runner = Arc::new(FunctionRunner { engine, functions, http, calls: calls.clone() });
    tokio::spawn(async move {
        let mut known = HashSet::new();
        while let Some(domain) = domains.recv().await {
            if known.insert(Arc::clone(&domain)) {
                tokio::spawn(Arc::clone(&runner).serve(domain));
            }
        }
    });
    calls
}

struct FunctionRunner {
    engine: Arc<Engine>,
    functions: BTreeMap<String, Function>,
    http: reqwest::Client,
    calls: FunctionCalls,
}

impl FunctionRunner {
    async fn serve(self: Arc<Self>, domain: Arc<str>) {
        let calls = Arc::new(Semaphore::new(CALLS_MAX));
        while !self.engine.is_stopping() {
            let Ok(call) = Arc::clone(&calls).acquire_owned().await else { return };
            let poll = Poll { wait: POLL_WAIT, identity: Some(IDENTITY.to_owned()), ..Poll::default() };
            match self.engine.tasks().poll_activity(&domain, LAMBDA_LIST, poll).await {
                Ok(None) => {}
                Ok(Some(delivery)) => {
                    let share = Arc::clone(&self.calls.under_way).read_owned().await;
                    let (task, receipt) = delivery.split();
                    receipt.delivered();
                    let runner = Arc::clone(&self);
                    tokio::spawn(async move {
                        runner.call(task).await;
                        drop((call, share));
                    });
                }
                Err(refusal) => {
                    tracing::warn!(%refusal, %domain, "Lambda tasks cannot be polled");
                    tokio::time::sleep(TROUBLE_WAIT).await;
                }
            }
        }
    }

    async fn call(&self, task: ActivityTask) {
        let Ok(token) = self.engine.tasks().activity_token(&task.token) else { return };
        let most = task.timeouts.start_to_close.map_or(Duration::MAX, Duration::from);
        // If the call takes too long, no result is recorded. The task's start-to-close timeout then ends the task.
        let Ok(result) = tokio::time::timeout(most, self.result(&task)).await else { return };
        let command = match result {
            Ok(result) => Command::SucceedActivity { task: token.task, result: Payload::of(&result).ok() },
            Err(CallFailure { reason, details }) => Command::FailActivity {
                task: token.task,
                reason: Some(reason.to_owned()),
                details: Payload::of(&details.chars().take(RESULT_CHARS_MAX).collect::<String>()).ok(),
                non_retryable: true,
                retry_after: None,
            },
        };
        if let Err(refusal) = self.engine.tasks().answer_activity(&token, command).await {
            tracing::debug!(%refusal, function = task.activity_type, "the result of a function was refused");
        }
    }

    async fn result(&self, task: &ActivityTask) -> Result<String, CallFailure> {
        let name = &task.activity_type;
        let function = self.functions.get(name);
        let function = function
            .ok_or_else(|| CallFailure::new("ResourceNotFoundException", format!("Function not found: {name}")))?;
        // Functions get an empty object instead of an empty input.
        let input = task.input.as_ref().and_then(|input| input.read::<String>().ok()).unwrap_or_default();
        let input = if input.is_empty() { "{}".to_owned() } else { input };
        if !function.may_be_called_by(&task.domain, &task.workflow_type) {
            let (workflow_type, domain) = (&task.workflow_type, &task.domain);
            let details = format!("Workflows of type {workflow_type} in domain {domain} may not call function {name}");
            return Err(CallFailure::new("AccessDeniedException", details));
        }
        let result = match &function.what {
            FunctionTarget::Endpoint(url) => endpoint::post(&self.http, url, input, task.trace.as_ref()).await?,
            FunctionTarget::Command { line, environment } => command::execute(line, environment, &input).await?,
        };
        if result.chars().count() > RESULT_CHARS_MAX {
            let found = result.chars().count();
            let details = format!("the result has {found} characters, at most {RESULT_CHARS_MAX} are allowed");
            return Err(CallFailure::new("ResultTooLarge", details));
        }
        Ok(result)
    }
}
