//! Every limit of the rules, once, each with its source.

use crate::factor::Factor;
use crate::time::Duration;

/// Longest name, in characters: workflow ids, types, task lists, activity ids, timer and signal names, identities, tags.
/// Source: SWF's 256 characters.
pub const NAME_CHARS_MAX: usize = 256;

/// Longest name, in bytes: as many characters of three bytes each. Source: the keys of DynamoDB, of which one has a domain and a
/// workflow id in 2,048 bytes, and another a workflow id in 1,024.
pub const NAME_BYTES_MAX: usize = 3 * NAME_CHARS_MAX;

/// Longest `tracestate` that is kept, in bytes; a longer one is left out. Source: W3C Trace Context 3.3.1.5, which has everybody pass on
/// at least that.
pub const TRACESTATE_BYTES_MAX: usize = 512;

/// Longest name of a credential, in bytes: it stands in every event that its holder causes. Ours: an address of mail with room to
/// spare, and a third of what the shortest events have beside it.
pub const CALLER_NAME_BYTES_MAX: usize = 128;

/// Longest name of a type together with its version, in characters. Source: SWF's 256 and 64 with the slash between
/// them.
pub const TYPE_CHARS_MAX: usize = NAME_CHARS_MAX + 1 + 64;

/// The same in bytes, for the reason of [`NAME_BYTES_MAX`].
pub const TYPE_BYTES_MAX: usize = 3 * TYPE_CHARS_MAX;

/// Longest name of a Lambda role, in characters. Source: SWF's 1,600.
pub const LAMBDA_ROLE_CHARS_MAX: usize = 1_600;

/// Most events of a run over SWF's wire where the service holds such runs to SWF's limits: the event that passes it is the last
/// but one. Source: SWF's API reference.
pub const SWF_EVENTS_MAX: u64 = 25_000;

/// Longest time that such a run is open. Source: SWF's year.
pub const SWF_RUN_TIME_MAX: Duration = Duration::from_days(365);

/// Maximum length of the line of details that lists show for a closed run, in characters. Ours: one line of a wide terminal. On
/// DynamoDB it has to fit an item beside the largest state and the longest names.
pub const CLOSE_DETAILS_CHARS_MAX: usize = 120;

/// Longest `reason`, in characters. Source: SWF's 256.
pub const REASON_CHARS_MAX: usize = 256;

/// Largest decider context in runs over SWF's wire, in bytes of JSON. Source: SWF's 32,768 characters, each of which may
/// take six.
pub const SWF_CONTEXT_BYTES_MAX: usize = 6 * 32_768 + 2;

/// Longest note of a decision, in bytes. Source: SWF's 32,768 characters, each of which may take four.
pub const CONTROL_BYTES_MAX: usize = 4 * 32_768;

/// Largest payload, in bytes of JSON. Ours.
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1024;

/// Deepest payload: how many arrays and objects may be in one another. Ours: half of the 128 that `serde_json` reads, so
/// that whoever is handed a payload can read it in whatever surrounds it.
pub const PAYLOAD_DEPTH_MAX: usize = 64;

/// Longest number in a payload, in characters. Ours: a double has 17 digits that tell, and 1,074 behind the point at the very
/// most; what has more is meant for a program that knows, and can be a text.
pub const PAYLOAD_NUMBER_CHARS_MAX: usize = 1_100;

/// Largest decider context, in bytes of JSON. Source: SWF's 32,768 characters.
pub const CONTEXT_BYTES_MAX: usize = 32 * 1024;

/// Most tags of a run. Source: SWF's 5.
pub const TAGS_MAX: usize = 5;

/// The state of an open run with what it keeps beside its history, in bytes: what it takes, and what is reserved for what is open
/// in it. Ours: an item of DynamoDB has 400 KB, of which the longest names take ten in its keys and its row of lists, and what
/// the service keeps with it the rest. The same on every store, so that a run can move.
pub const STATE_BYTES_MAX: usize = 380 * 1024;

/// Most activities open in a run at once. Source: SWF's 1,000; the state of a run is rewritten with every commit.
pub const OPEN_ACTIVITIES_MAX: usize = 1_000;

/// Most successful activities that a run remembers, to notice one that is scheduled again unchanged. Ours: a decider
/// that takes its window for the whole history repeats what succeeded a few turns ago, and each takes nine bytes of
/// the state, which is written with every commit.
pub const SUCCESSES_REMEMBERED_MAX: usize = 16;

/// Most timers open in a run at once. Source: SWF's 1,000, for the same reason.
pub const OPEN_TIMERS_MAX: usize = 1_000;

/// Most children open in a run at once. Source: SWF's 1,000, for the same reason.
pub const OPEN_CHILDREN_MAX: usize = 1_000;

/// Most signals and cancel requests of a run that are on their way to others at once. Ours, for the same reason.
pub const OPEN_EXTERNALS_MAX: usize = 1_000;

/// After this long a run that owes something to another is looked at, in case nobody is at it. Ours: as long as a waiting
/// task.
pub const EFFECT_WAIT_FIRST: Duration = Duration::from_secs(30);

/// The longest such wait; each is four times the one before. Ours.
pub const EFFECT_WAIT_MAX: Duration = Duration::from_secs(3_600);

/// By how much a deadline must be late because of a clock that was ahead before it is repaired. Ours: more than the clocks of two
/// nodes are apart.
pub const DEADLINE_LATE_MIN: Duration = Duration::from_secs(60);

/// How far ahead of the clock a schedule may have decided its times before it goes on from what the clock says. Ours: more
/// than the clocks of two nodes are apart, so that neither decides anew what the other has decided.
pub const SCHEDULE_AHEAD_MAX: Duration = Duration::from_secs(60);

/// Most decisions in one answer. Ours: as many activities and timers as can be open, and room to close.
pub const DECISIONS_MAX: usize = 2_500;

/// How long keys of requests and ids of updates are known at least. Ours: a day, so that whoever was cut off over night can
/// repeat what was under way.
pub const REQUESTS_KEPT: Duration = Duration::from_days(1);

/// How many requests of one workflow id are known in that time, beside those in its state; then the oldest go. Ours: more than one
/// a second.
pub const REQUESTS_MAX: u64 = 100_000;

/// How many requests are in the state of a run; for older ones the store keeps marks. Ours: a retry mostly comes within seconds,
/// and is then found without a look into the store.
pub const REQUESTS_IN_STATE_MAX: usize = 64;

/// How many leave the state together at least. Ours: marks are then seldom written.
pub const REQUESTS_SPILLED_MIN: usize = 16;

/// How many leave the state with one commit at most. Ours: as many requests as are folded into one.
pub const REQUESTS_SPILLED_MAX: usize = 256;

/// Of how many runs before it a run has requests in its state. Ours: each takes some forty bytes there.
pub const REQUESTS_RUNS_MAX: usize = 4;

/// Longest timeout or timer. Ours: ten years; a longer one is more likely a unit mistaken than meant.
pub const SPAN_MAX: Duration = Duration::from_days(3_653);

/// The execution timeout of a run whose start does not say. Source: AWS's default of one year.
pub const EXECUTION_TIMEOUT_DEFAULT: Duration = Duration::from_days(365);

/// The decider's start-to-close timeout where the start does not say. Ours: turns take seconds at most.
pub const DECIDER_START_TO_CLOSE_DEFAULT: Duration = Duration::from_secs(30);

/// An activity's start-to-close timeout where neither its decision nor the start says. Ours: without one, a runner that
/// dies would leave its run waiting for ever.
pub const ACTIVITY_START_TO_CLOSE_DEFAULT: Duration = Duration::from_secs(300);

/// How long a closed run stays readable where neither its start nor its domain says. Ours: a month, rounded down.
pub const RETENTION_DEFAULT: Duration = Duration::from_days(30);

/// After a turn was given back, the next one waits this long; twice as long after each further one in a row. Ours: a
/// decider that fails at once must not fill its history.
pub const TURN_BACKOFF_FIRST: Duration = Duration::from_secs(1);

/// The longest such wait.
pub const TURN_BACKOFF_MAX: Duration = Duration::from_secs(600);

/// The first wait of a retry policy that does not say. Source: Temporal's default of one second.
pub const RETRY_INTERVAL_DEFAULT: Duration = Duration::from_secs(1);

/// The coefficient of a retry policy that does not say. Source: Temporal's default of two.
pub const RETRY_COEFFICIENT_DEFAULT: Factor = Factor::from_thousandths(2_000);

/// The longest wait of a retry policy that does not say, in first waits. Source: Temporal's default of a hundred.
pub const RETRY_INTERVAL_MAX_TIMES: u64 = 100;

/// Most reasons that a retry policy names. Ours: they are kept in the state of the run.
pub const NON_RETRYABLE_REASONS_MAX: usize = 32;

/// Largest details that are kept of a try which is followed by another, in bytes. Ours: whoever looks at a run reads those of
/// all its open activities.
pub const RETRIED_DETAILS_BYTES_MAX: usize = 1_024;

/// How often a run may be paused with its clocks standing still. Ours: each is kept in the state of the run.
pub const CLOCK_STOPS_MAX: usize = 100;

/// Most of a history that a run may begin with when it branches off another, in bytes, about: payloads and 64 for each event.
/// Ours: half of what the embedded store takes as one commit.
pub const RESET_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Most of a history that is taken over from another service, in bytes, counted the same way. Ours: it is written with one commit, too.
pub const IMPORTED_BYTES_MAX: usize = RESET_BYTES_MAX;

/// Most events of such a history. Ours: as many as the size has room for if each takes the 64 bytes that are counted for it.
pub const IMPORTED_EVENTS_MAX: usize = IMPORTED_BYTES_MAX / 64;

/// Longest text of such an event, in bytes. Ours: two of the largest payloads with all their names, with room to spare.
pub const IMPORTED_EVENT_BYTES_MAX: usize = 1024 * 1024;

/// How far the last event of such a history may be ahead of the clock. Ours: as far as clocks of two services may differ.
pub const IMPORTED_AHEAD_MAX: Duration = Duration::from_secs(3_600);

/// How long such a run is kept at least, whenever it closed. Ours: a week to look at it.
pub const IMPORTED_KEPT_MIN: Duration = Duration::from_days(7);

/// After this many bytes of payloads, such as the last heartbeats of activities that have timed out together, what else is due
/// is left to another commit. Ours: as much as the requests of one commit may have.
pub const FIRED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most signals that a turn says it waits for. Ours: they are kept in the state of the run.
pub const AWAITING_MAX: usize = 32;

/// Most bytes that the names of those signals have together. Ours, for the same reason: eight of the longest.
pub const AWAITING_BYTES_MAX: usize = 8 * 1024;

/// Most bytes that a run takes to remember which effects of others it has, as long as those may bring them once more. Ours: a
/// hundred with names as they usually are; who comes then waits.
pub const SEEN_BYTES_MAX: usize = 8 * 1024;

/// What a turn says that waits for a cancel request, among the names of signals.
pub const AWAITING_CANCEL: &str = "baton.cancel";

/// Names of markers that begin with this are the framework's own.
pub const MARKER_PREFIX_RESERVED: &str = "baton.";

/// Most updates that one turn is asked to judge. Ours: each may have an input of 256 KiB in the decider's task.
pub const UPDATES_PER_TURN_MAX: usize = 64;

/// Most updates of a run that were accepted and not answered, when another one is taken. Ours: they are kept in the state
/// of the run.
pub const OPEN_UPDATES_MAX: usize = 1_000;

/// Most answers to updates in one answer to a turn. Ours: one for each that the turn may be asked to judge, and for each that
/// earlier turns may have accepted.
pub const UPDATE_RESULTS_MAX: usize = UPDATES_PER_TURN_MAX + OPEN_UPDATES_MAX;

/// Most answers to queries in one answer to a turn. Ours: as many queries as may wait for a run at once.
pub const QUERY_RESULTS_MAX: usize = 1_000;

/// Most names of queries that a decider lists because it does not know another; more are left out. Ours: a decider has tens.
pub const KNOWN_QUERIES_MAX: usize = 1_000;

/// Most answers in one exchange, and most of its slots. Ours: what a program does at once.
pub const EXCHANGE_ANSWERS_MAX: usize = 256;

/// Most tags of a domain. Source: SWF's 50.
pub const DOMAIN_TAGS_MAX: usize = 50;

/// Largest schedule, in bytes of JSON. Ours: its record is written anew with each action.
pub const SCHEDULE_BYTES_MAX: usize = 64 * 1024;

/// Longest note of a schedule, in bytes. Source: that of a domain's description.
pub const SCHEDULE_NOTE_BYTES_MAX: usize = 1_024;

/// Most cron expressions, calendar entries and intervals of a schedule, and most exclusions. Ours: each is looked at for
/// every time.
pub const SCHEDULE_ENTRIES_MAX: usize = 100;

/// The shortest interval of a schedule. Ours: as fine as cron expressions are.
pub const SCHEDULE_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// The longest jitter of a schedule. Ours: a day, beyond which another time of the spec is meant.
pub const SCHEDULE_JITTER_MAX: Duration = Duration::from_days(1);

/// How many requests with a key are in the record of a schedule; for older ones the store keeps marks. Ours: a retry comes within
/// seconds.
pub const SCHEDULE_REQUESTS_MAX: usize = 16;

/// Most actions of a schedule that are being started at the same time; more are decided when these are. Ours.
pub const SCHEDULE_STARTS_AT_ONCE: usize = 16;

/// Most actions of a schedule that wait for earlier runs to close. Source: Temporal's 1,000.
pub const SCHEDULE_WAITING_MAX: usize = 1_000;

/// Most open runs that a schedule keeps an eye on; of older ones it does not learn how they closed. Ours: they are kept in
/// its record and looked at one by one.
pub const SCHEDULE_RUNNING_MAX: usize = 100;

/// How many of its newest actions a schedule shows. Ours; Temporal has 10.
pub const SCHEDULE_RECENT_MAX: usize = 20;

/// Most times of a backfill. Ours: each is an entry in the schedule's record until its run is started.
pub const SCHEDULE_BACKFILL_MAX: usize = 1_000;

/// How many times that were missed are counted one by one before the rest is passed over.
pub const SCHEDULE_MISSED_MAX: u64 = 10_000;

/// What was missed is made good within this, where a schedule does not say. Ours: a day's outage; Temporal has a year.
pub const SCHEDULE_CATCH_UP_DEFAULT: Duration = Duration::from_days(1);

/// The longest wait before somebody looks again whether a run has closed that other actions wait for. Ours: as long as a task
/// is left waiting.
pub const SCHEDULE_LOOK_MAX: Duration = Duration::from_secs(600);

/// The most tries of one poll. Ours: each names all before it.
pub const POLL_ATTEMPTS_MAX: u32 = 32;
