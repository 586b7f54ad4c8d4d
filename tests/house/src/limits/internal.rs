//! Constants whose names end with `_MAX` but that are not documented, because no caller and no operator can reach them.

use super::Internal;

/// All these constants, grouped by reason.
pub const INTERNAL: &[Internal] = &[
    Internal {
        reason: "A cache or a memory: an entry without room is read again, counted with others, or forgotten.",
        constants: &[
            "history/src/limits.rs REQUESTS_IN_STATE_MAX",
            "history/src/limits.rs REQUESTS_RUNS_MAX",
            "history/src/limits.rs SCHEDULE_REQUESTS_MAX",
            "history/src/limits.rs SUCCESSES_REMEMBERED_MAX",
            "service/engine/src/base/agenda.rs ENTRIES_MAX",
            "service/engine/src/base/notices/rate_limit.rs LISTS_MAX",
            "service/engine/src/base/admission/quotas.rs NAMES_COUNTED_MAX",
            "service/engine/src/lists/backlog.rs LISTS_MAX",
            "service/engine/src/lists/in_flight.rs LISTS_MAX",
            "service/engine/src/lists/matching.rs TO_WRITE_MAX",
            "service/engine/src/lists/unpolled.rs REPORTED_MAX",
            "service/engine/src/registry/known.rs ABSENT_MAX",
            "service/engine/src/time/guard.rs MOVES_MAX",
            "service/src/access/token.rs VERIFIED_MAX",
        ],
    },
    Internal {
        reason: "A batch: the rest follows at once.",
        constants: &[
            "store/embedded/src/listing.rs HEADS_READ_MAX",
            "store/embedded/src/range.rs ROWS_READ_MAX",
            "client/src/exchange/exchanges.rs AT_ONCE_MAX",
            "client/src/exchange/exchanges.rs BYTES_MAX",
            "client/src/exchange/exchanges.rs RECORDING_MAX",
            "history/src/limits.rs FIRED_BYTES_MAX",
            "history/src/limits.rs REQUESTS_SPILLED_MAX",
            "service/engine/src/run/inbox.rs FOLD_BYTES_MAX",
            "service/engine/src/run/inbox.rs FOLD_REQUESTS_MAX",
            "service/engine/src/tasks/slots.rs TASK_BYTES_MAX",
            "service/src/access_log.rs BATCH_LINES_MAX",
            "store/dynamodb/src/listing.rs ROWS_READ_MAX",
            "store/archive/src/tail.rs PIECE_MAX",
        ],
    },
    Internal {
        reason: "Tries against other nodes or against the store; beyond them the request fails as retryable.",
        constants: &[
            "service/engine/src/registry/known.rs TRIES_MAX",
            "service/engine/src/run/commands.rs CHECKS_MAX",
            "service/engine/src/run/import.rs ATTEMPTS_MAX",
            "service/engine/src/run/write.rs ATTEMPTS_MAX",
            "service/engine/src/schedules.rs TRIES_MAX",
            "service/engine/src/schedules/wake.rs ROUNDS_MAX",
        ],
    },
    Internal {
        reason: "The longest interval of a wait that grows; the work is done in any case.",
        constants: &[
            "history/src/limits.rs EFFECT_WAIT_MAX",
            "history/src/limits.rs SCHEDULE_LOOK_MAX",
            "service/engine/src/base/agenda.rs OFFER_SOON_MAX",
            "service/engine/src/riders/nodes.rs CHECK_DELAY_MAX",
            "service/engine/src/run/lookup.rs CHECK_DELAY_MAX",
            "service/src/otlp.rs RETRY_WAIT_MAX",
            "store/embedded/src/opening.rs WAIT_MAX",
        ],
    },
    Internal {
        reason: "The effort of a hint or of a check that has another answer beyond it.",
        constants: &[
            "service/src/http/body/parsed.rs ON_WORKER_BYTES_MAX",
            "history/src/same_json.rs DEPTH_MAX",
            "service/engine/src/lists/pollers.rs LISTS_EXAMINED_MAX",
            "service/engine/src/lists/pollers.rs NAMED_MAX",
            "service/engine/src/lists/report.rs LISTS_EXAMINED_MAX",
            "service/engine/src/run/effects.rs SEEN_MAX",
            "service/engine/src/tasks/answers.rs LOSS_EVENTS_MAX",
            "service/src/rest/open_activities.rs RUNNER_PAGES_MAX",
            "service/src/http/body/place.rs DEPTH_MAX",
            "store/embedded/src/tree/opening.rs VERIFIED_AT_OPEN_MAX",
        ],
    },
    Internal {
        reason: "The layout of stored data: larger values are stored in another form.",
        constants: &[
            "store/archive/src/place/directory.rs FILE_READ_MAX",
            "history/src/note.rs NOTE_TEXT_MAX",
            "service/engine/src/commit.rs PAYLOAD_INLINE_CROWDED_MAX",
            "store/dynamodb/src/lib.rs PART_MAX",
            "store/dynamodb/src/lib.rs PAYLOAD_INLINE_MAX",
            "store/archive/src/chunks.rs CHUNK_MAX",
            "store/embedded/src/frame.rs AHEAD_MAX",
            "store/embedded/src/frame.rs FRAME_MAX",
            "store/src/head.rs MARK_BYTES_MAX",
        ],
    },
    Internal {
        reason: "A tolerance for clocks: the service reports or ignores a larger difference, and refuses nothing.",
        constants: &[
            "history/src/limits.rs SCHEDULE_AHEAD_MAX",
            "history/src/schedule/pattern.rs OFFSET_MAX",
            "service/engine/src/time/guard.rs DRIFT_MAX",
            "store/archive/src/ship/forget.rs AHEAD_MAX",
        ],
    },
    Internal {
        reason: "The threshold of a warning or of a check of `baton doctor`.",
        constants: &[
            "service/cli/src/doctor/checks.rs CLOCKS_APART_MAX",
            "service/cli/src/doctor/checks.rs DESCRIPTORS_MAX",
            "service/cli/src/doctor/checks.rs SHIP_LAG_MAX",
            "service/cli/src/doctor/checks.rs UNPOLLED_MAX",
            "service/src/following.rs LAG_MAX",
            "service/src/rest/process.rs SHIP_LAG_MAX",
        ],
    },
    Internal {
        reason: "The same limit in another unit or for another reader: the page has the one that callers know.",
        constants: &[
            "runner-kit/src/host.rs HEARTBEATS_EVERY_MAX",
            "service/src/http/socket.rs UNFINISHED_OF_ONE_MAX",
            "service/engine/src/lists/polls.rs SLOTS_MAX",
            "history/src/dialect.rs SWF_ACTIVITY_ID_CHARS_MAX",
            "history/src/limits.rs SWF_CONTEXT_BYTES_MAX",
            "service/src/http/server.rs BUFFER_BYTES_MAX",
            "service/src/lambda/failure.rs RESULT_BYTES_MAX",
        ],
    },
    Internal {
        reason: "The response of a collector, of which the service needs one number.",
        constants: &["service/src/otlp/collector.rs ANSWER_BYTES_MAX"],
    },
    Internal {
        reason: "A display length, or a loop that a kit's tests break off.",
        constants: &[
            "service/src/http/paths.rs SHOWN_BYTES_MAX",
            "client/tables/src/lib.rs PAYLOAD_CHARS_MAX",
            "service/cli/src/described.rs PAYLOAD_CHARS_MAX",
            "decider-kit/src/flow/executor.rs POLLS_MAX",
            "decider-kit/src/testing/subject.rs ALWAYS_REPLAYED_EVENTS_MAX",
            "decider-kit/src/testing/scenario.rs TRIES_MAX",
            "decider-kit/src/testing/service.rs EVENTS_MAX",
        ],
    },
];
