//! Query handlers that a flow registers.

use std::sync::Arc;

use baton_history::Payload;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::QueryError;

/// A registered query handler.
pub(super) type Query = Arc<dyn Fn(Option<&Payload>) -> Result<Payload, QueryError> + Send + Sync>;

pub(super) fn query<I: DeserializeOwned, O: Serialize>(answer: impl Fn(I) -> O + Send + Sync + 'static) -> Query {
    Arc::new(move |input| crate::query::answered(input, |input| Ok(answer(input))))
}
