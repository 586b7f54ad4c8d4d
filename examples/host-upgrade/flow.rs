//! Flows that upgrade hosts: a rollout over several hosts, and the operation on a single host.

use baton_decider_kit::flow::{Cause, ChildEnd, Context, Failure};
use baton_decider_kit::{Duration, ReusePolicy};
use baton_history::event::ChildScheduleFailedCause;
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};

/// Steps of an operation, in order.
pub(crate) const STEPS: [&str; 3] = ["drain", "install", "resume"];

/// Delay before the flow checks again whether a host is free.
const PATIENCE: Duration = Duration::from_secs(2);

/// A version to install on several hosts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Rollout {
    pub(crate) hosts: Vec<String>,
    pub(crate) version: String,
}

/// A version to install on one host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) host: String,
    pub(crate) version: String,
}

/// Installs a version on all hosts concurrently. Returns how many times another operation was in progress on a host.
pub(crate) async fn rollout(ctx: Context, rollout: Rollout) -> Result<usize, Failure> {
    let Rollout { hosts, version } = rollout;
    let upgrades = hosts.into_iter().map(|host| upgrade(&ctx, Operation { host, version: version.clone() }));
    Ok(try_join_all(upgrades).await?.into_iter().sum())
}

/// Installs a version on one host, after waiting until no other operation is in progress on the host.
async fn upgrade(ctx: &Context, operation: Operation) -> Result<usize, Failure> {
    for busy in 0.. {
        // The child's workflow id is the host name. An open child uses this id, so only one operation can run on a host
        // at a time.
        let child = ctx.child("operation", operation.host.as_str(), &operation).reuse(ReusePolicy::AllowDuplicate);
        match child.await {
            Err(failure) if is_busy(&failure) => ctx.sleep(PATIENCE).await?,
            done => return done.map(|()| busy),
        }
    }
    unreachable!("the loop is endless")
}

fn is_busy(failure: &Failure) -> bool {
    let busy = ChildEnd::NotStarted(ChildScheduleFailedCause::WorkflowAlreadyOpen);
    matches!(failure.cause(), Cause::Child { end, .. } if *end == busy)
}

/// Performs one operation, step by step.
pub(crate) async fn operation(ctx: Context, operation: Operation) -> Result<(), Failure> {
    for step in STEPS {
        let () = ctx.activity(step, &operation).await?;
    }
    Ok(())
}
