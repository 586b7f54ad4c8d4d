//! Queries to a run and their answers.

use baton_history::{Decision, Payload};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A query to a run. Queries are read-only: no outcome changes the run.
///
/// ```
/// use baton_decider_kit::{Payload, Query, QueryError};
///
/// struct State {
///     lines: Vec<(String, u64)>,
/// }
///
/// fn query(state: &State, query: &Query<'_>) -> Result<Payload, QueryError> {
///     query
///         .on("total", |()| state.lines.iter().map(|(_, cents)| cents).sum::<u64>())
///         .on("price", |name: String| state.lines.iter().find(|(line, _)| *line == name).map(|(_, cents)| *cents))
///         .answer()
/// }
///
/// let state = State { lines: vec![("tea".to_owned(), 350), ("cup".to_owned(), 900)] };
/// let ask = |name, input: &str| query(&state, &Query::new(name, Some(&Payload::from_json(input).unwrap())));
/// assert_eq!(ask("total", "null").unwrap().to_string(), "1250");
/// assert_eq!(ask("price", "\"tea\"").unwrap().to_string(), "350");
/// let unknown = ask("weight", "null").unwrap_err();
/// assert_eq!(unknown.to_string(), "unknown query `weight`; known queries: `total`, `price`");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    name: &'a str,
    input: Option<&'a Payload>,
    decided: &'a [Decision],
}

impl<'a> Query<'a> {
    /// Creates a query of this name, for a turn without decisions.
    pub fn new(name: &'a str, input: Option<&'a Payload>) -> Self {
        Self { name, input, decided: &[] }
    }

    pub(crate) fn after(self, decided: &'a [Decision]) -> Self {
        Self { decided, ..self }
    }

    /// Returns the query's name.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the query's input.
    pub fn input(&self) -> Option<&'a Payload> {
        self.input
    }

    /// Returns the decisions of the turn that is answered together with this query. The answer should reflect these
    /// decisions, because the state does not include their events yet. The list is empty if the turn only answers
    /// queries.
    pub fn decided(&self) -> &'a [Decision] {
        self.decided
    }

    /// Registers the answer to queries of this name. The input is deserialized as `I`; a missing input is `null`.
    pub fn on<I: DeserializeOwned, O: Serialize>(&self, name: &str, answer: impl FnOnce(I) -> O) -> Answers<'a> {
        Answers { query: *self, known: Vec::new(), found: None }.on(name, answer)
    }

    /// Registers an answer that can fail.
    pub fn try_on<I: DeserializeOwned, O: Serialize>(
        &self,
        name: &str,
        answer: impl FnOnce(I) -> Result<O, QueryError>,
    ) -> Answers<'a> {
        Answers { query: *self, known: Vec::new(), found: None }.try_on(name, answer)
    }
}

/// Registered answers of a decider, one of which answers the query.
#[derive(Debug)]
#[must_use = "call `answer` to get the answer"]
pub struct Answers<'a> {
    query: Query<'a>,
    known: Vec<String>,
    found: Option<Result<Payload, QueryError>>,
}

impl Answers<'_> {
    /// Registers the answer to queries of this name. The input is deserialized as `I`; a missing input is `null`.
    pub fn on<I: DeserializeOwned, O: Serialize>(self, name: &str, answer: impl FnOnce(I) -> O) -> Self {
        self.try_on(name, |input| Ok(answer(input)))
    }

    /// Registers an answer that can fail.
    pub fn try_on<I: DeserializeOwned, O: Serialize>(
        mut self,
        name: &str,
        answer: impl FnOnce(I) -> Result<O, QueryError>,
    ) -> Self {
        if self.found.is_none() && self.query.name == name {
            self.found = Some(answered(self.query.input, answer));
        }
        self.known.push(name.to_owned());
        self
    }

    /// Returns the answer to the query.
    ///
    /// # Errors
    ///
    /// [`QueryError::Unknown`] with the registered names if none of them matches; otherwise the error of the answer.
    pub fn answer(self) -> Result<Payload, QueryError> {
        let Self { query, known, found } = self;
        found.unwrap_or_else(|| Err(QueryError::Unknown { name: query.name.to_owned(), known }))
    }
}

/// Deserializes the input, calls `answer`, and serializes its result.
pub(crate) fn answered<I: DeserializeOwned, O: Serialize>(
    input: Option<&Payload>,
    answer: impl FnOnce(I) -> Result<O, QueryError>,
) -> Result<Payload, QueryError> {
    let text = input.and_then(Payload::text).unwrap_or("null");
    let unreadable = |error: serde_json::Error| QueryError::Unreadable(error.to_string());
    let input = serde_json::from_str(text).map_err(unreadable)?;
    Payload::of(&answer(input)?).map_err(unreadable)
}

/// Reason why a query has no answer. The run is not affected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// No query is registered under this name.
    #[error("unknown query `{name}`; known queries: {}", list_names(known))]
    Unknown {
        /// Requested name.
        name: String,
        /// Registered names.
        known: Vec<String>,
    },
    /// The flow has not started, or has failed.
    #[error("the flow has not started, or cannot continue")]
    NotReady,
    /// The input does not have the expected type, or the answer has no JSON form.
    #[error("{0}")]
    Unreadable(String),
    /// The query handler refused to answer.
    #[error("{0}")]
    Refused(String),
    /// The query handler panicked.
    #[error("the query panicked: {0}")]
    Panicked(String),
}

fn list_names(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { format!("`{}`", known.join("`, `")) }
}

impl QueryError {
    /// Converts the error to its wire form.
    pub(crate) fn into_body(self) -> baton_client::body::QueryError {
        let message = Some(self.to_string());
        let (reason, known) = match self {
            Self::Unknown { known, .. } => (baton_client::body::UNKNOWN_QUERY, known),
            Self::NotReady => ("not-ready", Vec::new()),
            Self::Unreadable(_) => ("unreadable", Vec::new()),
            Self::Refused(_) => ("refused", Vec::new()),
            Self::Panicked(_) => ("panic", Vec::new()),
        };
        baton_client::body::QueryError { reason: reason.to_owned(), message, known }
    }
}
