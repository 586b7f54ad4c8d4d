//! Questions to a flow, answered by closures that it registers.

use std::sync::Arc;

use history::Payload;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A registered query.
pub(super) type Query = Arc<dyn Fn(Option<&Payload>) -> Result<Payload, QueryError> + Send + Sync>;

/// Why a query has no answer. The run is not touched (S1.25).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The flow has registered no query of this name.
    #[error("the flow has no query `{name}`; it has {known:?}")]
    Unknown {
        /// The name.
        name: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// The flow has not begun, or is in trouble.
    #[error("the flow has not begun, or cannot go on")]
    NotReady,
    /// The input is not what the query reads, or its answer has no JSON form.
    #[error("{0}")]
    Unreadable(String),
    /// The query panicked.
    #[error("the query panicked: {0}")]
    Panicked(String),
}

pub(super) fn query<I: DeserializeOwned, O: Serialize>(answer: impl Fn(I) -> O + Send + Sync + 'static) -> Query {
    Arc::new(move |input| {
        let text = input.and_then(Payload::text).unwrap_or("null");
        let unreadable = |error: serde_json::Error| QueryError::Unreadable(error.to_string());
        let input = serde_json::from_str(text).map_err(unreadable)?;
        Payload::of(&answer(input)).map_err(unreadable)
    })
}
