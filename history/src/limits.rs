//! Limits of the rules, each with its source.

use crate::factor::Factor;
use crate::time::Duration;

/// Maximum length of a name in characters: workflow ids, types, task lists, activity ids, timer and signal names,
/// identities, tags. Source: SWF's 256 characters.
pub const NAME_CHARS_MAX: usize = 256;

/// Maximum length of a name in bytes: the maximum number of characters with three bytes each. Source: key sizes in
/// DynamoDB. One key has a domain and a workflow id in 2,048 bytes, another a workflow id in 1,024.
pub const NAME_BYTES_MAX: usize = 3 * NAME_CHARS_MAX;

/// Maximum length of a `tracestate` in bytes; a longer one is dropped. Source: W3C Trace Context 3.3.1.5, which
/// requires at least this length to be passed on.
pub const TRACESTATE_BYTES_MAX: usize = 512;

/// Maximum length of a credential name in bytes. It is stored in every event that its holder causes. Ours: long
/// enough for an email address, and a third of the size of the shortest events.
pub const CALLER_NAME_BYTES_MAX: usize = 128;

/// Maximum length of a type with its version, in characters. Source: SWF's 256 and 64, with a slash between them.
pub const TYPE_CHARS_MAX: usize = NAME_CHARS_MAX + 1 + 64;

/// Maximum length of a type with its version, in bytes. Source: as for [`NAME_BYTES_MAX`].
pub const TYPE_BYTES_MAX: usize = 3 * TYPE_CHARS_MAX;

/// Maximum length of a Lambda role name, in characters. Source: SWF's 1,600.
pub const LAMBDA_ROLE_CHARS_MAX: usize = 1_600;

/// Maximum number of events of an SWF run, if the service enforces SWF's limits. The event that exceeds it is
/// followed only by the termination. Source: SWF's API reference.
pub const SWF_EVENTS_MAX: u64 = 25_000;

/// Maximum time that such a run is open. Source: SWF's limit of one year.
pub const SWF_RUN_TIME_MAX: Duration = Duration::from_days(365);

/// Maximum length of the line of details that lists show for a closed run, in characters. Ours: one line of a wide
/// terminal. On DynamoDB it must fit into an item together with the largest state and the longest names.
pub const CLOSE_DETAILS_CHARS_MAX: usize = 120;

/// Maximum length of a `reason` in characters. Source: SWF's 256.
pub const REASON_CHARS_MAX: usize = 256;

/// Maximum size of a decider context in SWF runs, in bytes of JSON. Source: SWF's 32,768 characters, each of which
/// can take six bytes.
pub const SWF_CONTEXT_BYTES_MAX: usize = 6 * 32_768 + 2;

/// Maximum length of a decision's note in bytes. Source: SWF's 32,768 characters, each of which can take four
/// bytes.
pub const CONTROL_BYTES_MAX: usize = 4 * 32_768;

/// Maximum size of a payload in bytes of JSON. Ours.
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1024;

/// Maximum nesting depth of a payload. Ours: half of the 128 levels that `serde_json` can read, so that a payload
/// stays readable inside other JSON.
pub const PAYLOAD_DEPTH_MAX: usize = 64;

/// Maximum length of a number in a payload, in characters. Ours: a double has 17 significant digits and at most
/// 1,074 decimals. Longer numbers can be sent as strings.
pub const PAYLOAD_NUMBER_CHARS_MAX: usize = 1_100;

/// Maximum size of a decider context in bytes of JSON. Source: SWF's 32,768 characters.
pub const CONTEXT_BYTES_MAX: usize = 32 * 1024;

/// Maximum number of tags of a run. Source: SWF's 5.
pub const TAGS_MAX: usize = 5;

/// Maximum size of an open run's state in bytes: its current size plus the space reserved for its open items. Ours:
/// a DynamoDB item has 400 KB, of which the longest names take ten in keys and the list row, and other data of the
/// service takes the rest. It is the same on every store, so that a run can be moved.
pub const STATE_BYTES_MAX: usize = 380 * 1024;

/// Maximum number of open activities of a run. Source: SWF's 1,000. The state of a run is rewritten with every
/// commit.
pub const OPEN_ACTIVITIES_MAX: usize = 1_000;

/// Number of successful activities that a run remembers, to notice repetitions. Ours: a decider that mistakes its
/// window for the whole history repeats what succeeded a few turns ago. Each takes nine bytes of the state.
pub const SUCCESSES_REMEMBERED_MAX: usize = 16;

/// Maximum number of open timers of a run. Source: SWF's 1,000, as for activities.
pub const OPEN_TIMERS_MAX: usize = 1_000;

/// Maximum number of open children of a run. Source: SWF's 1,000, as for activities.
pub const OPEN_CHILDREN_MAX: usize = 1_000;

/// Maximum number of pending signals and cancel requests of a run to other runs. Ours: as for activities.
pub const OPEN_EXTERNALS_MAX: usize = 1_000;

/// Delay after which pending effects of a run are delivered again, in case the current delivery is lost. Ours: the
/// same as for a waiting task.
pub const EFFECT_WAIT_FIRST: Duration = Duration::from_secs(30);

/// Maximum delay between deliveries; each is four times the previous one. Ours.
pub const EFFECT_WAIT_MAX: Duration = Duration::from_secs(3_600);

/// Minimum lateness of a deadline set by a clock that was ahead for it to be repaired. Ours: more than the clocks
/// of two nodes differ.
pub const DEADLINE_LATE_MIN: Duration = Duration::from_secs(60);

/// Maximum time by which a schedule's decided times may be ahead of the clock before they are reset to it. Ours:
/// more than the clocks of two nodes differ, so that neither repeats decisions of the other.
pub const SCHEDULE_AHEAD_MAX: Duration = Duration::from_secs(60);

/// Maximum number of decisions in one answer. Ours: enough for all activities and timers that can be open, and for
/// a close.
pub const DECISIONS_MAX: usize = 2_500;

/// Minimum time for which idempotency keys and update ids are known. Ours: one day, so that a client that was
/// disconnected overnight can repeat its requests.
pub const REQUESTS_KEPT: Duration = Duration::from_days(1);

/// Maximum number of requests of one workflow id known in that time, besides those in its state; older ones are
/// forgotten. Ours: more than one per second.
pub const REQUESTS_MAX: u64 = 100_000;

/// Maximum number of requests in the state of a run; the store keeps marks of older ones. Ours: retries usually
/// arrive within seconds and are then found without reading the store.
pub const REQUESTS_IN_STATE_MAX: usize = 64;

/// Minimum number of requests that leave the state together. Ours: marks are then rarely written.
pub const REQUESTS_SPILLED_MIN: usize = 16;

/// Maximum number of requests that leave the state in one commit. Ours: as many as one commit can contain.
pub const REQUESTS_SPILLED_MAX: usize = 256;

/// Maximum number of earlier runs whose requests are in the state of a run. Ours: each takes some forty bytes.
pub const REQUESTS_RUNS_MAX: usize = 4;

/// Maximum duration of a timeout or timer. Ours: ten years; a longer one is probably a mistaken unit.
pub const SPAN_MAX: Duration = Duration::from_days(3_653);

/// Default execution timeout of a run. Source: the default of AWS, one year.
pub const EXECUTION_TIMEOUT_DEFAULT: Duration = Duration::from_days(365);

/// Default start-to-close timeout of a turn. Ours: turns take seconds at most.
pub const DECIDER_START_TO_CLOSE_DEFAULT: Duration = Duration::from_secs(30);

/// Default start-to-close timeout of an activity. Ours: without one, a runner that crashes would leave its run
/// waiting forever.
pub const ACTIVITY_START_TO_CLOSE_DEFAULT: Duration = Duration::from_secs(300);

/// Default retention of a closed run. Ours: one month, rounded down.
pub const RETENTION_DEFAULT: Duration = Duration::from_days(30);

/// Delay of the next turn after a failed one; it doubles with every further failure in a row. Ours: a decider that
/// fails immediately must not fill the history.
pub const TURN_BACKOFF_FIRST: Duration = Duration::from_secs(1);

/// Maximum delay of a turn after failures.
pub const TURN_BACKOFF_MAX: Duration = Duration::from_secs(600);

/// Default first backoff of a retry policy. Source: Temporal's default of one second.
pub const RETRY_INTERVAL_DEFAULT: Duration = Duration::from_secs(1);

/// Default backoff coefficient of a retry policy. Source: Temporal's default of two.
pub const RETRY_COEFFICIENT_DEFAULT: Factor = Factor::from_thousandths(2_000);

/// Default maximum backoff of a retry policy, as a multiple of the first one. Source: Temporal's default of a
/// hundred.
pub const RETRY_INTERVAL_MAX_TIMES: u64 = 100;

/// Maximum number of reasons in a retry policy. Ours: they are kept in the state of the run.
pub const NON_RETRYABLE_REASONS_MAX: usize = 32;

/// Maximum size in bytes of the failure details kept for an attempt that is followed by another. Ours: describing a
/// run reads those of all its open activities.
pub const RETRIED_DETAILS_BYTES_MAX: usize = 1_024;

/// Maximum number of pauses of a run with its clock stopped. Ours: each is kept in the state of the run.
pub const CLOCK_STOPS_MAX: usize = 100;

/// Maximum size of the history copied by a reset, in bytes: payloads plus 64 for each event. Ours: half of the
/// maximum commit of the embedded store.
pub const RESET_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Maximum size of an imported history in bytes, counted in the same way. Ours: it is also written in one commit.
pub const IMPORTED_BYTES_MAX: usize = RESET_BYTES_MAX;

/// Maximum number of events of an imported history. Ours: as many as fit its size if each takes the 64 bytes that are
/// counted for it.
pub const IMPORTED_EVENTS_MAX: usize = IMPORTED_BYTES_MAX / 64;

/// Maximum length of the text of an imported event in bytes. Ours: two of the largest payloads with their names, and
/// space to spare.
pub const IMPORTED_EVENT_BYTES_MAX: usize = 1024 * 1024;

/// Maximum time by which the last event of an imported history may be ahead of the clock. Ours: as much as the
/// clocks of two services may differ.
pub const IMPORTED_AHEAD_MAX: Duration = Duration::from_secs(3_600);

/// Minimum time for which an imported run is kept. Ours: one week for inspection.
pub const IMPORTED_KEPT_MIN: Duration = Duration::from_days(7);

/// Size of payloads in bytes after which the remaining deadlines are left to another commit. Such payloads are, for
/// example, the last heartbeats of activities that time out together. Ours: as much as the requests of one commit
/// may have.
pub const FIRED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum number of signals that a turn can await. Ours: they are kept in the state of the run.
pub const AWAITING_MAX: usize = 32;

/// Maximum total length of the names of awaited signals in bytes. Ours: eight of the longest names.
pub const AWAITING_BYTES_MAX: usize = 8 * 1024;

/// Maximum size in bytes of a run's memory of accepted effects that may be delivered again. Ours: about a hundred
/// with names of usual length; further effects wait.
pub const SEEN_BYTES_MAX: usize = 8 * 1024;

/// Name that stands for a cancel request among the awaited signals.
pub const AWAITING_CANCEL: &str = "baton.cancel";

/// Prefix of marker names that are reserved.
pub const MARKER_PREFIX_RESERVED: &str = "baton.";

/// Maximum number of updates proposed in one turn. Ours: each can add an input of 256 KiB to the decider's task.
pub const UPDATES_PER_TURN_MAX: usize = 64;

/// Maximum number of accepted updates of a run without an answer. Ours: they are kept in the state of the run.
pub const OPEN_UPDATES_MAX: usize = 1_000;

/// Maximum number of answers to updates in one answer to a turn. Ours: one for each that the turn may judge, and one
/// for each that earlier turns may have accepted.
pub const UPDATE_RESULTS_MAX: usize = UPDATES_PER_TURN_MAX + OPEN_UPDATES_MAX;

/// Maximum number of answers to queries in one answer to a turn. Ours: as many queries as may wait for a run at once.
pub const QUERY_RESULTS_MAX: usize = 1_000;

/// Maximum number of query names that a decider lists because it does not know another; the rest is dropped. Ours: a
/// decider has tens.
pub const KNOWN_QUERIES_MAX: usize = 1_000;

/// Maximum number of answers in one exchange, and of its slots. Ours: the number of tasks that a program does at once.
pub const EXCHANGE_ANSWERS_MAX: usize = 256;

/// Maximum number of tags of a domain. Source: SWF's 50.
pub const DOMAIN_TAGS_MAX: usize = 50;

/// Maximum size of a schedule in bytes of JSON. Ours: its record is rewritten with each action.
pub const SCHEDULE_BYTES_MAX: usize = 64 * 1024;

/// Maximum length of a schedule's note in bytes. Source: that of a domain's description.
pub const SCHEDULE_NOTE_BYTES_MAX: usize = 1_024;

/// Maximum number of cron expressions, calendar entries and intervals of a schedule, and of exclusions. Ours: each
/// is evaluated for every time.
pub const SCHEDULE_ENTRIES_MAX: usize = 100;

/// Minimum interval of a schedule. Ours: the resolution of cron expressions.
pub const SCHEDULE_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Maximum jitter of a schedule. Ours: one day; a longer one should be another time.
pub const SCHEDULE_JITTER_MAX: Duration = Duration::from_days(1);

/// Maximum number of idempotency keys in the record of a schedule; the store keeps marks of older ones. Ours:
/// retries arrive within seconds.
pub const SCHEDULE_REQUESTS_MAX: usize = 16;

/// Maximum number of actions of a schedule whose runs are being started at once. Ours.
pub const SCHEDULE_STARTS_AT_ONCE: usize = 16;

/// Maximum number of actions of a schedule that wait for earlier runs. Source: Temporal's 1,000.
pub const SCHEDULE_WAITING_MAX: usize = 1_000;

/// Maximum number of open runs that a schedule monitors; the outcome of older ones stays unknown. Ours: they are
/// kept in its record and checked individually.
pub const SCHEDULE_RUNNING_MAX: usize = 100;

/// Number of latest actions that a schedule shows. Ours; Temporal has 10.
pub const SCHEDULE_RECENT_MAX: usize = 20;

/// Maximum number of times in a backfill. Ours: each is an entry in the schedule's record until its run is started.
pub const SCHEDULE_BACKFILL_MAX: usize = 1_000;

/// Maximum number of missed times that are counted individually before the rest is skipped.
pub const SCHEDULE_MISSED_MAX: u64 = 10_000;

/// Default catch-up window of a schedule. Ours: an outage of one day; Temporal has one year.
pub const SCHEDULE_CATCH_UP_DEFAULT: Duration = Duration::from_days(1);

/// Maximum interval between checks of a run that actions wait for. Ours: the same as for a waiting task.
pub const SCHEDULE_LOOK_MAX: Duration = Duration::from_secs(600);

/// Maximum number of attempts of one poll. Ours: each attempt lists all earlier ones.
pub const POLL_ATTEMPTS_MAX: u32 = 32;
