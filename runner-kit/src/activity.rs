//! The activity trait, and its implementation by plain functions.

use std::marker::PhantomData;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{ActivityContext, ActivityFailure};

/// Work that a runner can do.
#[async_trait]
pub trait Activity: Send + Sync + 'static {
    /// Type of the input. An activity scheduled without input receives `null`.
    type Input: DeserializeOwned + Send;
    /// Type of the result.
    type Output: Serialize + Send;

    /// Returns the activity type by which deciders schedule this activity.
    fn activity_type(&self) -> &str;

    /// Does the work. After a failure or a timeout, the activity may run again with the same input. If an effect must
    /// happen only once, use [`ActivityContext::workflow_id`] together with [`ActivityContext::activity_id`] as its
    /// idempotency key.
    async fn run(&self, context: ActivityContext, input: Self::Input) -> Result<Self::Output, ActivityFailure>;
}

/// An activity implemented by a function.
pub struct FnActivity<F, I> {
    activity_type: String,
    function: F,
    input: PhantomData<fn(I)>,
}

/// Creates an activity from an `async fn(ActivityContext, Input) -> Result<Output, ActivityFailure>`.
pub fn activity_fn<F, I>(activity_type: impl Into<String>, function: F) -> FnActivity<F, I> {
    FnActivity { activity_type: activity_type.into(), function, input: PhantomData }
}

#[async_trait]
impl<F, Fut, I, O> Activity for FnActivity<F, I>
where
    F: Fn(ActivityContext, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ActivityFailure>> + Send,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
{
    type Input = I;
    type Output = O;

    fn activity_type(&self) -> &str {
        &self.activity_type
    }

    async fn run(&self, context: ActivityContext, input: I) -> Result<O, ActivityFailure> {
        (self.function)(context, input).await
    }
}
