//! Queries: sends them to the decider and returns the answers to their callers. Queries are never recorded.

use std::sync::Arc;
use std::time::Duration;

use history::admit::{check_name, check_payload};
use history::{EventId, Payload};
use sha2::{Digest, Sha256};
use store::HeadKey;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use crate::lists::ListKey;
use crate::lists::grant::{Query, RiderKind};
use crate::riders::outcome::DeciderAnswer;
use crate::riders::place::RiderPlace;
use crate::riders::submitted::QuerySubmission;
use crate::riders::task::{RequestReply, decider_list};
use crate::riders::waiting::NewQuery;
use crate::run::request::Alone;
use crate::{Forwarded, QueryOutcome, Refusal, RunRef, SeenVersion};

/// Delay before the service looks again for the successor of a run. Our choice.
const SUCCESSOR_WAIT: Duration = Duration::from_millis(10);

impl SeenVersion {
    /// Returns true if an answer contains the same result that this caller has already seen.
    pub(crate) fn is_still(&self, answer: &DeciderAnswer) -> bool {
        match &answer.outcome {
            QueryOutcome::Result(result) => self.hash == Some(hash(result.as_ref())),
            QueryOutcome::Unknown { .. } | QueryOutcome::Failed { .. } => false,
        }
    }
}

/// Parameters of a query.
#[derive(Debug, Clone)]
pub struct QueryRequest {
    /// Name of the query, 1 to 256 characters.
    pub name: String,
    /// Input of the query.
    pub input: Option<Payload>,
    /// Version of the run that the caller has already seen, optionally with the result. If given, the query waits until
    /// the version, or the result, differs.
    pub seen: Option<SeenVersion>,
}

/// Result of a query.
#[derive(Debug, Clone, PartialEq)]
pub enum QueryReply {
    /// Result of the query.
    Result {
        /// Id of the run that answered.
        run_id: Uuid,
        /// Newest version of the run that the result reflects.
        version: EventId,
        /// Value that the decider returned.
        result: Option<Payload>,
        /// Hash of the result, masked so that it reveals nothing about the result.
        hash: u64,
    },
    /// Nothing has changed since the version that the caller has seen.
    Unchanged {
        /// Id of the run.
        run_id: Uuid,
        /// Version of the run. If the caller watches the result, this may be newer than the version that the caller has
        /// seen.
        version: EventId,
        /// Masked hash of the result that the caller has seen, if the caller watches the result. Otherwise `None`.
        hash: Option<u64>,
    },
}

/// Sender of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// A caller of the service.
    Caller,
    /// Another node, on behalf of a caller of that node. The query is not forwarded again.
    Node,
}

/// Outcome of a waiting query.
pub(super) enum WatchedAnswer {
    Answer(DeciderAnswer),
    Unchanged(EventId),
}

impl RequestReply {
    /// Sends a query to a run's decider, and waits up to `wait` for the answer.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownQuery`] and [`Refusal::QueryFailed`] if the decider responds so, [`Refusal::QueryTimedOut`] if
    /// no decider responds in time, [`Refusal::TooManyWaiting`], and the errors of
    /// [`Views::describe`](crate::Views::describe). Nothing is ever recorded.
    pub async fn query(
        self: &Arc<Self>,
        at: &RunRef,
        ask: QueryRequest,
        wait: Duration,
    ) -> Result<QueryReply, Refusal> {
        check_name("query", &ask.name)?;
        check_payload("input", ask.input.as_ref())?;
        self.registry.must_know(&at.domain).await?;
        // Counting the request as waiting can fail, so it must happen before the query is sent.
        crate::base::admission::count_waiting()?;
        // Hashes of results are masked only for callers. Other nodes get them unmasked.
        let (name, input) = (ask.name.clone(), ask.input.clone());
        let sealed = |hash: u64, run_id, version| {
            let input = input.as_ref().and_then(Payload::text).unwrap_or_default();
            hash ^ self.mint.result_seal(run_id, version, [name.as_bytes(), input.as_bytes()])
        };
        let open = |seen: SeenVersion| SeenVersion {
            hash: seen.hash.map(|hash| sealed(hash, seen.run_id, seen.version)),
            ..seen
        };
        let ask = QueryRequest { seen: ask.seen.map(open), ..ask };
        let seen = ask.seen.and_then(|seen| seen.hash);
        let mut answered = self.query_within(at, ask, Instant::now() + wait, From::Caller).await;
        match &mut answered {
            Ok(QueryReply::Result { run_id, version, hash, .. }) => *hash = sealed(*hash, *run_id, *version),
            Ok(QueryReply::Unchanged { run_id, version, hash }) => {
                *hash = seen.map(|seen| sealed(seen, *run_id, *version));
            }
            Err(_) => {}
        }
        match &answered {
            Ok(QueryReply::Result { .. }) => self.metrics.queries_answered.inc(),
            Ok(QueryReply::Unchanged { .. }) => self.metrics.queries_unchanged.inc(),
            Err(refusal) => {
                self.metrics.refused(refusal.code());
                0
            }
        };
        answered
    }

    pub(super) async fn query_within(
        self: &Arc<Self>,
        at: &RunRef,
        ask: QueryRequest,
        deadline: Instant,
        from: From,
    ) -> Result<QueryReply, Refusal> {
        let key = at.key();
        let QueryRequest { name, input, seen } = ask;
        let query = Arc::new(Query { name, input });
        let (caller, (reply, answer)) = (self.ids.op(), oneshot::channel());
        let new = NewQuery { query: Arc::clone(&query), seen, caller, reply };
        let (run_id, list) = self.put_query(&key, at.run_id, new).await?;
        let part = self.riders.part(&key, caller);
        let forwarded = Forwarded::of(&key, run_id, &query, seen);
        let heard = tokio::select! {
            biased;
            answer = answer => answer.ok().map(WatchedAnswer::Answer),
            heard = self.query_elsewhere(&key, forwarded, &list, deadline, from) => Some(heard),
            () = self.background.stopped() => None,
            () = tokio::time::sleep_until(deadline) => None,
        };
        let name = || query.name.clone();
        match heard {
            Some(WatchedAnswer::Unchanged(version)) => Ok(QueryReply::Unchanged { run_id, version, hash: None }),
            Some(WatchedAnswer::Answer(DeciderAnswer { version, outcome })) => match outcome {
                QueryOutcome::Result(result) => {
                    Ok(QueryReply::Result { run_id, version, hash: hash(result.as_ref()), result })
                }
                QueryOutcome::Unknown { known } => Err(Refusal::UnknownQuery { name: name(), known }),
                QueryOutcome::Failed { reason, message } => Err(Refusal::QueryFailed { name: name(), reason, message }),
            },
            None if self.background.is_stopping() => Err(Refusal::Stopping),
            None => {
                let place = part.leave().unwrap_or(RiderPlace::Waits);
                let (why, waits) = place.why_unanswered(RiderKind::Query);
                if let Some(seen) = seen.filter(|seen| seen.run_id == run_id) {
                    // The run may have changed, and a decider may not have processed the change yet. The reply must not
                    // claim that nothing has changed.
                    let version =
                        self.lookup.describe(&RunRef { run_id: Some(run_id), ..at.clone() }).await?.run.version;
                    if version == seen.version || place == (RiderPlace::Held { version }) {
                        return Ok(QueryReply::Unchanged { run_id, version, hash: None });
                    }
                }
                let waits_for = if waits { self.turn_wait(&key, run_id, &list).await } else { None };
                Err(Refusal::QueryTimedOut { why, waits_for })
            }
        }
    }

    /// Adds a query to the riders of a run. If no run id is given, uses the newest run of the workflow id. Returns the
    /// run and the task list that the run's decider polls.
    async fn put_query(
        self: &Arc<Self>,
        key: &HeadKey,
        run_id: Option<Uuid>,
        new: NewQuery,
    ) -> Result<(Uuid, ListKey), Refusal> {
        let mut query = Box::new(new);
        loop {
            match self.runs.submit(key, |reply| Alone::Query { run_id, query, reply }).await? {
                QuerySubmission::Waits(run_id, list) => return Ok((run_id, list)),
                QuerySubmission::Continued(back) => {
                    query = back;
                    tokio::time::sleep(SUCCESSOR_WAIT).await;
                }
                QuerySubmission::Earlier(back, run_id) => {
                    let loaded = self.reader.load_run(key, run_id).await?;
                    self.riders.put_query(key, loaded.run(), *back)?;
                    self.make_task_for_closed(key, &loaded);
                    return Ok((run_id, decider_list(key, &loaded)));
                }
            }
        }
    }
}

/// Returns the hash of a result's bytes.
fn hash(result: Option<&Payload>) -> u64 {
    let text = result.and_then(Payload::text).unwrap_or("null");
    let digest = Sha256::digest(text.as_bytes());
    digest.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}
