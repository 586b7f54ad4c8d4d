//! Limits of the rules, each with its source.

use crate::factor::Factor;
use crate::time::Duration;

/// Maximum length of a name in characters: workflow ids, types, task lists, activity ids, timer and signal names,
/// identities, tags. Source: SWF's 256 characters.
pub const NAME_CHARS_MAX: usize = 256;

/// Maximum length of a name in bytes: the maximum number of characters with three bytes each. Source: maximum sizes of
/// DynamoDB keys. One key has 2,048 bytes for a domain and a workflow id, another has 1,024 bytes for a workflow id.
pub const NAME_BYTES_MAX: usize = 3 * NAME_CHARS_MAX;

/// Maximum length of a `tracestate` in bytes. A longer `tracestate` is dropped. Source: W3C Trace Context 3.3.1.5,
/// which requires that at least this length is propagated.
pub const TRACESTATE_BYTES_MAX: usize = 512;

/// Maximum length of a credential name in bytes. Chosen: long enough for an email address, and still short, because the
/// name is stored in every event that the credential causes.
pub const CALLER_NAME_BYTES_MAX: usize = 128;

/// Maximum length of a type with its version, in characters. Source: SWF's 256 and 64, with a slash between them.
pub const TYPE_CHARS_MAX: usize = NAME_CHARS_MAX + 1 + 64;

/// Maximum length of a type with its version, in bytes. Source: the same as for [`NAME_BYTES_MAX`].
pub const TYPE_BYTES_MAX: usize = 3 * TYPE_CHARS_MAX;

/// Maximum length of a Lambda role name, in characters. Source: SWF's 1,600.
pub const LAMBDA_ROLE_CHARS_MAX: usize = 1_600;

/// Maximum number of events of an SWF run, if the service enforces SWF's limits. A run that exceeds it is terminated
/// after the command that exceeded it. Source: SWF's API reference.
pub const SWF_EVENTS_MAX: u64 = 25_000;

/// Maximum time that an SWF run is open, if the service enforces SWF's limits. Source: SWF's limit of one year.
pub const SWF_RUN_TIME_MAX: Duration = Duration::from_days(365);

/// Lists show the first line of a closed run's details, cut to this number of characters. Chosen: one line of a wide
/// terminal. On DynamoDB, this line fits into an item together with the largest state and the longest names.
pub const CLOSE_DETAILS_CHARS_MAX: usize = 120;

/// Maximum length of a `reason` in characters. Source: SWF's 256.
pub const REASON_CHARS_MAX: usize = 256;

/// Maximum size of a decider context in SWF runs, in bytes of JSON. Source: SWF's 32,768 characters, each of which
/// takes up to six bytes in JSON.
pub const SWF_CONTEXT_BYTES_MAX: usize = 6 * 32_768 + 2;

/// Maximum length of the decider's text in a decision (`control`), in bytes. Source: SWF's 32,768 characters, each of
/// which takes up to four bytes.
pub const CONTROL_BYTES_MAX: usize = 4 * 32_768;

/// Maximum size of a payload in bytes of JSON. Chosen: eight times SWF's 32,768 characters.
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1024;

/// Maximum nesting depth of a payload. Chosen: half of the 128 levels that `serde_json` can parse, so that a payload
/// can also be parsed inside other JSON.
pub const PAYLOAD_DEPTH_MAX: usize = 64;

/// Maximum length of a number in a payload, in characters. Chosen: enough for every double, which has 17 significant
/// digits and at most 1,074 decimals. Longer numbers can be sent as strings.
pub const PAYLOAD_NUMBER_CHARS_MAX: usize = 1_100;

/// Maximum size of a decider context in bytes of JSON. Source: SWF's 32,768 characters.
pub const CONTEXT_BYTES_MAX: usize = 32 * 1024;

/// Maximum number of tags of a run. Source: SWF's 5.
pub const TAGS_MAX: usize = 5;

/// Maximum size of an open run's state in bytes, including the space reserved for its open items. Chosen: a DynamoDB
/// item has 400 KB. Up to 10 KB of these are taken by the longest names in its keys and in its list row, and the rest
/// is left for other data of the service. The limit is the same on every store, so that runs can be moved.
pub const STATE_BYTES_MAX: usize = 380 * 1024;

/// Maximum number of open activities of a run. Source: SWF's 1,000. The number affects performance, because every
/// commit rewrites the state of the run.
pub const OPEN_ACTIVITIES_MAX: usize = 1_000;

/// Number of successful activities that a run remembers, to detect that a decider schedules one again. Chosen: a
/// decider that mistakes its window for the whole history repeats activities that succeeded a few turns ago. Each
/// remembered activity takes nine bytes of the state.
pub const SUCCESSES_REMEMBERED_MAX: usize = 16;

/// Maximum number of open timers of a run. Source: SWF's 1,000.
pub const OPEN_TIMERS_MAX: usize = 1_000;

/// Maximum number of open children of a run. Source: SWF's 1,000.
pub const OPEN_CHILDREN_MAX: usize = 1_000;

/// Maximum number of pending signals and cancel requests of a run to other runs. Chosen: the same as for activities.
pub const OPEN_EXTERNALS_MAX: usize = 1_000;

/// Delay after which a run's pending effects are delivered again, because the first delivery may have been lost.
/// Chosen: the delay after which a waiting task is offered again.
pub const EFFECT_WAIT_FIRST: Duration = Duration::from_secs(30);

/// Maximum delay between two deliveries of pending effects. Each delay is four times the previous delay. Chosen: after
/// one hour, retrying more often is not worth its cost.
pub const EFFECT_WAIT_MAX: Duration = Duration::from_secs(3_600);

/// Minimum lateness of a deadline to be repaired. A repair moves deadlines that were set while the clock was ahead.
/// Chosen: more than the difference between the clocks of two nodes.
pub const DEADLINE_LATE_MIN: Duration = Duration::from_secs(60);

/// Maximum time by which the last evaluated time of a schedule may be ahead of the clock. If it is ahead by more, it is
/// reset to the clock's time. Chosen: more than the difference between the clocks of two nodes, so that no node repeats
/// a decision of another node.
pub const SCHEDULE_AHEAD_MAX: Duration = Duration::from_secs(60);

/// Maximum number of decisions in one answer. Chosen: enough for all activities and timers that can be open, and for
/// closing the run.
pub const DECISIONS_MAX: usize = 2_500;

/// Minimum time for which idempotency keys and update ids are remembered. Chosen: one day, so that a client that was
/// disconnected overnight can repeat its requests.
pub const REQUESTS_KEPT: Duration = Duration::from_days(1);

/// Maximum number of requests of one workflow id that are remembered outside the state of its newest run. Older
/// requests are forgotten. Chosen: more than one request per second for one day.
pub const REQUESTS_MAX: u64 = 100_000;

/// Maximum number of requests remembered in the state of a run. The store keeps older requests in separate records.
/// Chosen: retries usually arrive within seconds, and are then detected without reading the store.
pub const REQUESTS_IN_STATE_MAX: usize = 64;

/// Minimum number of remembered requests that are moved out of the run's state at once. Chosen so that the store rarely
/// writes the separate records.
pub const REQUESTS_SPILLED_MIN: usize = 16;

/// Maximum number of remembered requests that are moved out of the run's state in one commit. Chosen: the number of
/// requests that one commit can contain.
pub const REQUESTS_SPILLED_MAX: usize = 256;

/// Maximum number of earlier runs whose requests are remembered in the state of a run. Chosen: a small number, because
/// each such run takes about forty bytes of the state.
pub const REQUESTS_RUNS_MAX: usize = 4;

/// Maximum duration of a timeout or timer. Chosen: ten years. A longer duration is probably a mistaken unit.
pub const SPAN_MAX: Duration = Duration::from_days(3_653);

/// Default execution timeout of a run. Source: the default of AWS, one year.
pub const EXECUTION_TIMEOUT_DEFAULT: Duration = Duration::from_days(365);

/// Default start-to-close timeout of a turn. Chosen: a turn takes a few seconds at most.
pub const DECIDER_START_TO_CLOSE_DEFAULT: Duration = Duration::from_secs(30);

/// Default start-to-close timeout of an activity. Chosen so that a run does not wait forever if a runner crashes.
pub const ACTIVITY_START_TO_CLOSE_DEFAULT: Duration = Duration::from_secs(300);

/// Default retention of a closed run. Chosen: about one month.
pub const RETENTION_DEFAULT: Duration = Duration::from_days(30);

/// Delay of the next turn after a failed turn. The delay doubles with each consecutive failure. Chosen so that a
/// decider that fails immediately does not fill the history.
pub const TURN_BACKOFF_FIRST: Duration = Duration::from_secs(1);

/// Maximum delay of a turn after failures. Chosen so that a repaired decider gets its turn within ten minutes.
pub const TURN_BACKOFF_MAX: Duration = Duration::from_secs(600);

/// Default first backoff of a retry policy. Source: Temporal's default of one second.
pub const RETRY_INTERVAL_DEFAULT: Duration = Duration::from_secs(1);

/// Default backoff coefficient of a retry policy. Source: Temporal's default of two.
pub const RETRY_COEFFICIENT_DEFAULT: Factor = Factor::from_thousandths(2_000);

/// Default maximum backoff of a retry policy, as a multiple of the first backoff. Source: Temporal's default of a
/// hundred.
pub const RETRY_INTERVAL_MAX_TIMES: u64 = 100;

/// Maximum number of non-retryable reasons in a retry policy. Chosen: a small number, because the reasons are kept in
/// the state of the run.
pub const NON_RETRYABLE_REASONS_MAX: usize = 32;

/// Maximum size in bytes of the failure details kept for an attempt that is followed by another attempt. Chosen: a
/// description of a run includes these details of all open activities.
pub const RETRIED_DETAILS_BYTES_MAX: usize = 1_024;

/// Maximum number of pauses of a run in which its clock was stopped. Chosen: a bound is needed, because each of these
/// pauses is kept in the state of the run.
pub const CLOCK_STOPS_MAX: usize = 100;

/// Maximum number of past pauses with stopped clocks that are kept for each side of a task list. If there are more, the
/// two with the shortest time between them are joined. Chosen: a bound is needed, because the pauses of all lists of a
/// domain are in one record.
pub const LIST_STOPS_MAX: usize = 10;

/// Period for which a past pause of a task list with stopped clocks is kept. Chosen: few tasks wait longer on a list
/// after its pause has ended.
pub const LIST_STOPS_KEPT: Duration = Duration::from_days(30);

/// Minimum time until the service looks again at a task whose schedule-to-start timeout is stopped by the pause of its
/// list. Chosen: each look costs a write.
pub const STOPPED_LOOK_MIN: Duration = Duration::from_secs(60);

/// Maximum of this time if less than this is left of the timeout. Chosen: a timeout can expire late by this time.
pub const STOPPED_LOOK_MAX: Duration = Duration::from_secs(600);

/// Maximum size of the history copied by a reset, in bytes: all payloads, plus 64 bytes for each event. Chosen: half of
/// the maximum size of a commit of the embedded store.
pub const RESET_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Maximum size of an imported history in bytes, counted as for [`RESET_BYTES_MAX`]. Chosen: an import is also written
/// in one commit.
pub const IMPORTED_BYTES_MAX: usize = RESET_BYTES_MAX;

/// Maximum number of events of an imported history. Chosen: the number of events that fit into [`IMPORTED_BYTES_MAX`]
/// if each event counts 64 bytes.
pub const IMPORTED_EVENTS_MAX: usize = IMPORTED_BYTES_MAX / 64;

/// Maximum length of an imported event's JSON text in bytes. Chosen: enough for two of the largest payloads and the
/// names of the fields.
pub const IMPORTED_EVENT_BYTES_MAX: usize = 1024 * 1024;

/// Maximum time by which the last event of an imported history may be ahead of the clock. Chosen: the largest expected
/// difference between the clocks of two services.
pub const IMPORTED_AHEAD_MAX: Duration = Duration::from_secs(3_600);

/// Minimum time for which an imported run is kept. Chosen: one week, so that it can be inspected.
pub const IMPORTED_KEPT_MIN: Duration = Duration::from_days(7);

/// Size in bytes of the payloads in the events of fired deadlines. Once a commit exceeds it, the remaining deadlines
/// fire in the next commit. Such payloads are, for example, the last heartbeats of many activities that time out
/// together. Chosen: the maximum size of the requests of one commit.
pub const FIRED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum number of signals that a turn can await. Chosen: a small number, because their names are kept in the state
/// of the run.
pub const AWAITING_MAX: usize = 32;

/// Maximum total length of the names of awaited signals in bytes. Chosen: about eight of the longest names.
pub const AWAITING_BYTES_MAX: usize = 8 * 1024;

/// Maximum size in bytes of the effects of other runs that a run remembers, because they may be delivered again.
/// Chosen: enough for about a hundred effects with names of usual length. Further effects wait.
pub const SEEN_BYTES_MAX: usize = 8 * 1024;

/// Name that stands for a cancel request among the awaited signals.
pub const AWAITING_CANCEL: &str = "baton.cancel";

/// Activity id of the only activity of a run without a decider. Chosen: the caller gives the run an id, so the activity
/// id can be the same in all such runs.
pub const ONE_ACTIVITY_ID: &str = "activity";

/// Prefix of marker names that are reserved.
pub const MARKER_PREFIX_RESERVED: &str = "baton.";

/// Maximum number of updates proposed in one turn. Chosen: a small number, because each update can add an input of 256
/// KiB to the decider's task.
pub const UPDATES_PER_TURN_MAX: usize = 64;

/// Maximum number of accepted updates of a run that have no answer yet. Chosen: a bound is needed, because these
/// updates are kept in the state of the run.
pub const OPEN_UPDATES_MAX: usize = 1_000;

/// Maximum number of answers to updates in one answer to a turn. Chosen: one for each update proposed in the turn, and
/// one for each update that earlier turns may have accepted.
pub const UPDATE_RESULTS_MAX: usize = UPDATES_PER_TURN_MAX + OPEN_UPDATES_MAX;

/// Maximum number of answers to queries in one answer to a turn. Chosen: the number of queries that can wait for a run
/// at once.
pub const QUERY_RESULTS_MAX: usize = 1_000;

/// Maximum size of a chunk of an activity's output in bytes of JSON. Chosen: a quarter of a payload, because chunks are
/// kept in the memory of a node.
pub const OUTPUT_CHUNK_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of chunks in one request that appends output. Chosen: enough to send the lines that a program prints
/// in a second.
pub const OUTPUT_CHUNKS_MAX: usize = 1_000;

/// Maximum number of query names in a decider's list of the queries that it knows. A decider sends the list with its
/// answer to an unknown query. Further names are dropped. Chosen: a decider usually knows tens of queries.
pub const KNOWN_QUERIES_MAX: usize = 1_000;

/// Maximum number of answers, and of slots, in one exchange. Chosen: the number of tasks that one program processes at
/// once.
pub const EXCHANGE_ANSWERS_MAX: usize = 256;

/// Maximum number of tags of a domain. Source: SWF's 50.
pub const DOMAIN_TAGS_MAX: usize = 50;

/// Maximum size of a schedule in bytes of JSON. Chosen: a moderate size, because each action rewrites the schedule's
/// record.
pub const SCHEDULE_BYTES_MAX: usize = 64 * 1024;

/// Maximum length of a schedule's note in bytes. Source: the limit for a domain's description.
pub const SCHEDULE_NOTE_BYTES_MAX: usize = 1_024;

/// Maximum number of cron expressions, of calendar entries, of intervals and of exclusions of a schedule. Chosen: a
/// bound is needed, because the schedule evaluates each of them for every time.
pub const SCHEDULE_ENTRIES_MAX: usize = 100;

/// Minimum interval of a schedule. Chosen: one second, the resolution of cron expressions.
pub const SCHEDULE_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Maximum jitter of a schedule. Chosen: one day. A schedule that needs a longer delay should have other times.
pub const SCHEDULE_JITTER_MAX: Duration = Duration::from_days(1);

/// Maximum number of idempotency keys remembered in the record of a schedule. The store keeps older keys in separate
/// records. Chosen: retries arrive within seconds.
pub const SCHEDULE_REQUESTS_MAX: usize = 16;

/// Maximum number of actions of a schedule whose runs are being started at the same time. Chosen: a small bound,
/// because each of them is in the schedule's record.
pub const SCHEDULE_STARTS_AT_ONCE: usize = 16;

/// Maximum number of actions of a schedule that wait for earlier runs. Source: Temporal's 1,000.
pub const SCHEDULE_WAITING_MAX: usize = 1_000;

/// Maximum number of open runs that a schedule monitors. The outcome of older runs stays unknown. Chosen: these runs
/// are kept in the schedule's record and are checked one by one.
pub const SCHEDULE_RUNNING_MAX: usize = 100;

/// Number of latest actions that a schedule shows. Chosen: twice Temporal's 10.
pub const SCHEDULE_RECENT_MAX: usize = 20;

/// Maximum number of times in a backfill. Chosen: each time is an entry in the schedule's record until its run is
/// started.
pub const SCHEDULE_BACKFILL_MAX: usize = 1_000;

/// Maximum number of missed times that are counted one by one. If there are more, the schedule skips to the current
/// time. Chosen: bounds the work after a long outage.
pub const SCHEDULE_MISSED_MAX: u64 = 10_000;

/// Default catch-up window of a schedule. Chosen: an outage of one day. Temporal's default is one year.
pub const SCHEDULE_CATCH_UP_DEFAULT: Duration = Duration::from_days(1);

/// Maximum number of batches of a domain that are not completed. Chosen: each of them reads lists of the domain.
/// Batches that are created at the same time may exceed it.
pub const BATCHES_OPEN_MAX: usize = 10;

/// Maximum pace of a batch, in runs per second. Chosen: a tenth of the commits per second of one node.
pub const BATCH_PACE_MAX: u32 = 1_000;

/// Default pace of a batch, in runs per second. Chosen: 5,000 runs take less than two minutes.
pub const BATCH_PACE_DEFAULT: u32 = 50;

/// Maximum number of workflow ids in the filter of a batch. Chosen: the batch reads the runs of each of them with a
/// request to the store.
pub const BATCH_IDS_MAX: usize = 1_000;

/// Maximum number of runs on which one step of a batch operates. Chosen: the runs of a step are in the batch's record.
pub const BATCH_PAGE_MAX: usize = 100;

/// Maximum number of refusals that a batch stores with their workflow ids. Further ones are only counted. Chosen: the
/// refusals are in the batch's record.
pub const BATCH_REFUSALS_MAX: usize = 100;

/// Maximum length of a stored refusal's text in bytes. Longer texts are cut. Chosen: the refusals are in the batch's
/// record.
pub const BATCH_REFUSAL_BYTES_MAX: usize = 256;

/// Maximum size of a batch's definition in bytes of JSON. Chosen: with the runs of a step and the refusals, all with
/// names of the maximum length, the record fits into an item of the store.
pub const BATCH_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of times that a batch tries its operation on a run if each attempt fails with a temporary error.
/// Chosen: about five minutes with the waits between the attempts.
pub const BATCH_ATTEMPTS_MAX: u32 = 10;

/// Maximum delay between two steps of a batch. Chosen: an outage of the store is over within minutes.
pub const BATCH_WAIT_MAX: Duration = Duration::from_secs(60);

/// Time for which a completed batch is kept. Chosen: the retention of a run whose domain sets none.
pub const BATCH_RETENTION: Duration = Duration::from_days(30);

/// Maximum interval between two checks of a run for which actions of a schedule wait. Chosen: ten minutes, because a
/// check is needed only if the run's report of its close was lost.
pub const SCHEDULE_LOOK_MAX: Duration = Duration::from_secs(600);

/// Maximum number of attempts of one poll. Chosen: a small number, because each attempt lists all earlier attempts.
pub const POLL_ATTEMPTS_MAX: u32 = 32;

/// Maximum number of concurrency keys with separate limits on a task list. Our choice: the settings of all lists of a
/// domain are one record in the store, and in memory.
pub const LIMITED_KEYS_MAX: usize = 100;
