//! What an activity is, and how a plain function becomes one.

use std::marker::PhantomData;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Context, Failure};

/// Something that a runner can do.
#[async_trait]
pub trait Activity: Send + Sync + 'static {
    /// What it takes. An activity scheduled without input gets `null`.
    type Input: DeserializeOwned + Send;
    /// What it gives.
    type Output: Serialize + Send;

    /// The activity type that deciders schedule it by.
    fn activity_type(&self) -> &str;

    /// Does it. It may be run again with the same input after a failure or a timeout: [`Context::workflow_id`] with
    /// [`Context::activity_id`] is a good key for whatever must happen only once.
    async fn run(&self, context: Context, input: Self::Input) -> Result<Self::Output, Failure>;
}

/// A function as an activity.
pub struct FnActivity<F, I> {
    activity_type: String,
    function: F,
    input: PhantomData<fn(I)>,
}

/// Makes an activity of an `async fn(Context, Input) -> Result<Output, Failure>`.
pub fn activity_fn<F, I>(activity_type: impl Into<String>, function: F) -> FnActivity<F, I> {
    FnActivity { activity_type: activity_type.into(), function, input: PhantomData }
}

#[async_trait]
impl<F, Fut, I, O> Activity for FnActivity<F, I>
where
    F: Fn(Context, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, Failure>> + Send,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
{
    type Input = I;
    type Output = O;

    fn activity_type(&self) -> &str {
        &self.activity_type
    }

    async fn run(&self, context: Context, input: I) -> Result<O, Failure> {
        (self.function)(context, input).await
    }
}
