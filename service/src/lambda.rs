//! Lambda tasks of SWF's dialect: functions that an operator registers, called here. Owns the calling; that a Lambda task is
//! an activity on a list of its own, with a runner inside the service, is `history::dialect`'s.
//!
//! A task is called once at most: SWF never calls a function again by itself, and what a function has done when the service died
//! nobody knows. Its start-to-close timeout ends such a task, and the decider, who hears of that, decides. A service that
//! stops in order waits for the calls that are under way.

use std::collections::{BTreeMap, HashSet};
use std::process::Stdio;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use history::{Command, LAMBDA_LIST, Payload};
use tokio::io::AsyncWriteExt;
use tokio::sync::{RwLock, Semaphore};

use crate::engine::{ActivityTask, Engine, Poll};

/// Calls of one domain at once. Ours: what is beyond waits on its list.
const CALLS_MAX: usize = 64;

/// How long one poll waits.
const POLL_WAIT: Duration = Duration::from_secs(60);

/// After the store was in trouble the next poll waits this long. Ours.
const TROUBLE_WAIT: Duration = Duration::from_secs(1);

/// Longest result, in characters. Source: SWF.md §4.
const RESULT_CHARS_MAX: usize = 32_768;

/// Who took the task, in histories.
const IDENTITY: &str = "baton.lambda";

/// What is called for a function's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Function {
    /// An address: the input is posted to it, the body of its answer is the result.
    Endpoint(String),
    /// A line for the shell: the input comes in, the result goes out.
    Command(String),
}

impl FromStr for Function {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with("https://") {
            return Err(format!("`{text}`: the service speaks plain HTTP; put a proxy before it"));
        }
        if text.trim().is_empty() {
            return Err("nothing is called".to_owned());
        }
        let text = text.to_owned();
        Ok(if text.starts_with("http://") { Self::Endpoint(text) } else { Self::Command(text) })
    }
}

/// How a call failed.
struct Failure {
    reason: &'static str,
    details: String,
}

impl Failure {
    fn new(reason: &'static str, details: String) -> Self {
        Self { reason, details }
    }
}

/// The calls that are under way.
#[derive(Debug, Clone, Default)]
pub struct Calls {
    /// Each has a share of it.
    under_way: Arc<RwLock<()>>,
}

impl Calls {
    /// Waits until all have been answered, or for so long. What is left then is for the timeouts of the tasks to end.
    pub async fn finish(&self, most: Duration) {
        if tokio::time::timeout(most, self.under_way.write()).await.is_err() {
            tracing::warn!("calls of functions that take long are given up; their timeouts will end them");
        }
    }
}

/// Has the service call these functions, until it stops.
pub fn serve(engine: &Arc<Engine>, functions: BTreeMap<String, Function>) -> Calls {
    let mut domains = engine.lambda_tasks();
    let calls = Calls::default();
    let (engine, http) = (Arc::clone(engine), reqwest::Client::new());
    let runner = Arc::new(Runner { engine, functions, http, calls: calls.clone() });
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

struct Runner {
    engine: Arc<Engine>,
    functions: BTreeMap<String, Function>,
    http: reqwest::Client,
    calls: Calls,
}

impl Runner {
    async fn serve(self: Arc<Self>, domain: Arc<str>) {
        let calls = Arc::new(Semaphore::new(CALLS_MAX));
        while !self.engine.is_stopping() {
            let Ok(call) = Arc::clone(&calls).acquire_owned().await else { return };
            let poll = Poll { wait: POLL_WAIT, identity: Some(IDENTITY.to_owned()), ..Poll::default() };
            match self.engine.poll_activity(&domain, LAMBDA_LIST, poll).await {
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
                    tracing::warn!(%refusal, %domain, "Lambda tasks cannot be taken");
                    tokio::time::sleep(TROUBLE_WAIT).await;
                }
            }
        }
    }

    async fn call(&self, task: ActivityTask) {
        let Ok(token) = self.engine.activity_token(&task.token) else { return };
        let most = task.timeouts.start_to_close.map_or(Duration::MAX, Duration::from);
        // That it took too long is for its timeout to say.
        let Ok(result) = tokio::time::timeout(most, self.result(&task)).await else { return };
        let command = match result {
            Ok(result) => Command::SucceedActivity { task: token.task, result: Payload::of(&result).ok() },
            Err(Failure { reason, details }) => Command::FailActivity {
                task: token.task,
                reason: reason.to_owned(),
                details: Payload::of(&details.chars().take(RESULT_CHARS_MAX).collect::<String>()).ok(),
                non_retryable: true,
                retry_after: None,
            },
        };
        if let Err(refusal) = self.engine.answer_activity(&token, command).await {
            tracing::debug!(%refusal, function = task.activity_type, "the answer of a function came in vain");
        }
    }

    async fn result(&self, task: &ActivityTask) -> Result<String, Failure> {
        let name = &task.activity_type;
        let function = self.functions.get(name);
        let function =
            function.ok_or_else(|| Failure::new("ResourceNotFoundException", format!("Function not found: {name}")))?;
        // An empty input is an empty object (SWF.md §8.11).
        let input = task.input.as_ref().and_then(|input| input.read::<String>().ok()).unwrap_or_default();
        let input = if input.is_empty() { "{}".to_owned() } else { input };
        let result = match function {
            Function::Endpoint(url) => self.post(url, input).await?,
            Function::Command(line) => execute(line, input).await?,
        };
        if result.chars().count() > RESULT_CHARS_MAX {
            let found = result.chars().count();
            let details = format!("the result has {found} characters, at most {RESULT_CHARS_MAX} are taken");
            return Err(Failure::new("ResultTooLarge", details));
        }
        Ok(result)
    }

    async fn post(&self, url: &str, input: String) -> Result<String, Failure> {
        let unreachable = |error: reqwest::Error| Failure::new("ServiceException", error.to_string());
        let posted = self.http.post(url).header("content-type", "application/json").body(input);
        let answer = posted.send().await.map_err(unreachable)?;
        let status = answer.status();
        let text = answer.text().await.map_err(unreachable)?;
        if status.is_success() { Ok(text) } else { Err(Failure::new("UnhandledError", format!("{status}: {text}"))) }
    }
}

/// Has the shell execute a line. It is killed where nobody waits for it any more.
async fn execute(line: &str, input: String) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::new("ServiceException", error.to_string());
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(failed)?;
    let stdin = child.stdin.take();
    let feed = async {
        if let Some(mut stdin) = stdin {
            // One that does not want its input is no failure.
            drop(stdin.write_all(input.as_bytes()).await);
        }
    };
    let ((), output) = tokio::join!(feed, child.wait_with_output());
    let output = output.map_err(failed)?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Failure::new("UnhandledError", format!("{}: {said}", output.status)))
    }
}
