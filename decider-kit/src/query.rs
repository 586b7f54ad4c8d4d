//! Queries to a run: what a decider is asked, and how it answers.

use baton_history::{Decision, Payload};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A query to a run. Read-only: whatever comes of it, the run is not touched.
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
/// let asked = |name, input: &str| query(&state, &Query::new(name, Some(&Payload::from_json(input).unwrap())));
/// assert_eq!(asked("total", "null").unwrap().to_string(), "1250");
/// assert_eq!(asked("price", "\"tea\"").unwrap().to_string(), "350");
/// assert_eq!(asked("weight", "null").unwrap_err().to_string(), "no query `weight`; there are `total`, `price`");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    name: &'a str,
    input: Option<&'a Payload>,
    decided: &'a [Decision],
}

impl<'a> Query<'a> {
    /// A query of this name, asked while nothing is decided.
    pub fn new(name: &'a str, input: Option<&'a Payload>) -> Self {
        Self { name, input, decided: &[] }
    }

    pub(crate) fn after(self, decided: &'a [Decision]) -> Self {
        Self { decided, ..self }
    }

    /// What is asked.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// With which input.
    pub fn input(&self) -> Option<&'a Payload> {
        self.input
    }

    /// What the turn has decided with whose answer this query is answered, too: the answer is to reflect it, and the
    /// state has no events of it yet. Empty when nothing but queries is to be answered.
    pub fn decided(&self) -> &'a [Decision] {
        self.decided
    }

    /// Answers a query of this name; its input is read as `I`, `null` where there is none.
    pub fn on<I: DeserializeOwned, O: Serialize>(&self, name: &str, answer: impl FnOnce(I) -> O) -> Answers<'a> {
        Answers { query: *self, known: Vec::new(), found: None }.on(name, answer)
    }

    /// The same for an answer that can fail.
    pub fn try_on<I: DeserializeOwned, O: Serialize>(
        &self,
        name: &str,
        answer: impl FnOnce(I) -> Result<O, QueryError>,
    ) -> Answers<'a> {
        Answers { query: *self, known: Vec::new(), found: None }.try_on(name, answer)
    }
}

/// The queries that a decider answers, and the answer to the one that is asked.
#[derive(Debug)]
#[must_use = "ends with `answer`"]
pub struct Answers<'a> {
    query: Query<'a>,
    known: Vec<String>,
    found: Option<Result<Payload, QueryError>>,
}

impl Answers<'_> {
    /// Answers a query of this name; its input is read as `I`, `null` where there is none.
    pub fn on<I: DeserializeOwned, O: Serialize>(self, name: &str, answer: impl FnOnce(I) -> O) -> Self {
        self.try_on(name, |input| Ok(answer(input)))
    }

    /// The same for an answer that can fail.
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

    /// The answer to what is asked.
    ///
    /// # Errors
    ///
    /// [`QueryError::Unknown`] with the names that are known; what the answer itself has.
    pub fn answer(self) -> Result<Payload, QueryError> {
        let Self { query, known, found } = self;
        found.unwrap_or_else(|| Err(QueryError::Unknown { name: query.name.to_owned(), known }))
    }
}

/// Reads the input, asks, and writes the answer.
pub(crate) fn answered<I: DeserializeOwned, O: Serialize>(
    input: Option<&Payload>,
    answer: impl FnOnce(I) -> Result<O, QueryError>,
) -> Result<Payload, QueryError> {
    let text = input.and_then(Payload::text).unwrap_or("null");
    let unreadable = |error: serde_json::Error| QueryError::Unreadable(error.to_string());
    let input = serde_json::from_str(text).map_err(unreadable)?;
    Payload::of(&answer(input)?).map_err(unreadable)
}

/// Why a query has no answer. The run is not touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// There is no query of this name.
    #[error("no query `{name}`; there are {}", told(known))]
    Unknown {
        /// The name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The flow has not begun, or is in trouble.
    #[error("the flow has not begun, or cannot go on")]
    NotReady,
    /// The input is not what the query reads, or its answer has no JSON form.
    #[error("{0}")]
    Unreadable(String),
    /// The query says no.
    #[error("{0}")]
    Refused(String),
    /// The query panicked.
    #[error("the query panicked: {0}")]
    Panicked(String),
}

fn told(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { format!("`{}`", known.join("`, `")) }
}

impl QueryError {
    /// As it goes over the wire.
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
