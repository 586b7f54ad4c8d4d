//! A rollout over hosts, and an operation on one of them.

use baton_decider_kit::flow::{Cause, ChildEnd, Context, Failure};
use baton_decider_kit::{Duration, ReusePolicy};
use baton_history::event::ChildScheduleFailedCause;
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};

/// What is done to a host, in order.
pub(crate) const STEPS: [&str; 3] = ["drain", "install", "resume"];

/// How long to wait before a look whether a host is free.
const PATIENCE: Duration = Duration::from_secs(2);

/// A version, to be brought to hosts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Rollout {
    pub(crate) hosts: Vec<String>,
    pub(crate) version: String,
}

/// A version, to be brought to one host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) host: String,
    pub(crate) version: String,
}

/// Brings a version to every host, side by side; how often somebody else was at one of them.
pub(crate) async fn rollout(ctx: Context, rollout: Rollout) -> Result<usize, Failure> {
    let Rollout { hosts, version } = rollout;
    let upgrades = hosts.into_iter().map(|host| upgrade(&ctx, Operation { host, version: version.clone() }));
    Ok(try_join_all(upgrades).await?.into_iter().sum())
}

/// Brings a version to one host, as soon as nobody else is at it.
async fn upgrade(ctx: &Context, operation: Operation) -> Result<usize, Failure> {
    for busy in 0.. {
        // The id is what makes it one at a time: it is in use as long as an operation on the host is under way.
        let child = ctx.child("operation", operation.host.as_str(), &operation).reuse(ReusePolicy::AllowDuplicate);
        match child.await {
            Err(failure) if is_busy(&failure) => ctx.sleep(PATIENCE).await?,
            done => return done.map(|()| busy),
        }
    }
    unreachable!("attempts do not end")
}

fn is_busy(failure: &Failure) -> bool {
    let busy = ChildEnd::NotStarted(ChildScheduleFailedCause::WorkflowAlreadyOpen);
    matches!(failure.cause(), Cause::Child { end, .. } if *end == busy)
}

/// One host, one version, step by step.
pub(crate) async fn operation(ctx: Context, operation: Operation) -> Result<(), Failure> {
    for step in STEPS {
        let () = ctx.activity(step, &operation).await?;
    }
    Ok(())
}
