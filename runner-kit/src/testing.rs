//! Support for tests of activities, without a host and a service.

use std::sync::Arc;

use baton_history::{Payload, event::ActivityTimeouts};
use tokio::sync::watch;
use uuid::Uuid;

use crate::ActivityContext;

/// Execution of an activity in a test. It records what the activity reports.
///
/// ```
/// use baton_runner_kit::testing::TestActivity;
/// use baton_runner_kit::{ActivityContext, ActivityFailure};
///
/// async fn copy(context: ActivityContext, table: String) -> Result<u64, ActivityFailure> {
///     context.append(&format!("copied table `{table}`"));
///     Ok(2_000)
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let test = TestActivity::new();
/// assert_eq!(copy(test.context(), "orders".to_owned()).await.unwrap(), 2_000);
/// assert_eq!(test.output()[0].read::<String>().unwrap(), "copied table `orders`");
/// # });
/// ```
#[derive(Debug)]
pub struct TestActivity {
    context: ActivityContext,
    cancel: watch::Sender<bool>,
}

impl Default for TestActivity {
    fn default() -> Self {
        Self::new()
    }
}

impl TestActivity {
    /// Creates the first attempt of activity `activity` of workflow `workflow`.
    pub fn new() -> Self {
        let (cancel, canceled) = watch::channel(false);
        let context = ActivityContext {
            workflow_id: "workflow".into(),
            run_id: Uuid::nil(),
            activity_id: "activity".into(),
            scheduled_event_id: 5,
            attempt: 1,
            timeouts: ActivityTimeouts::default(),
            trace: None,
            last_details: None,
            details: Arc::new(watch::Sender::new(None)),
            canceled,
            output: Arc::default(),
        };
        Self { context, cancel }
    }

    /// Returns the context that the activity gets. Set its public fields to test other attempts and timeouts.
    pub fn context(&self) -> ActivityContext {
        self.context.clone()
    }

    /// Requests that the activity stops.
    pub fn cancel(&self) {
        self.cancel.send_replace(true);
    }

    /// Returns the chunks that the activity has appended: the newest mebibyte.
    pub fn output(&self) -> Vec<Payload> {
        self.context.output.chunks()
    }

    /// Returns the details of the last heartbeat that the activity has set.
    pub fn heartbeat(&self) -> Option<Payload> {
        self.context.details.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_test_sees_output_heartbeats_and_cancels() {
        let test = TestActivity::default();
        let context = test.context();
        context.append("one");
        context.append(&[2]);
        context.append(&"x".repeat(baton_history::limits::OUTPUT_CHUNK_BYTES_MAX));
        context.heartbeat(&7);
        assert_eq!(test.output().iter().map(ToString::to_string).collect::<Vec<_>>(), ["\"one\"", "[2]"]);
        assert_eq!(test.heartbeat().unwrap().to_string(), "7");
        assert!(!context.is_canceled());
        test.cancel();
        context.canceled().await;
    }

    #[test]
    fn waiting_output_keeps_its_newest_mib() {
        let test = TestActivity::new();
        let chunk = "x".repeat(64 * 1024 - 2);
        for number in 0..17 {
            test.context().append(&number);
            test.context().append(&chunk);
        }
        let output = test.output();
        assert!(output.iter().map(Payload::len).sum::<usize>() <= 1024 * 1024);
        assert_eq!(output.last().unwrap().len(), 64 * 1024);
        assert_eq!(output[0].to_string(), "2");
    }
}
