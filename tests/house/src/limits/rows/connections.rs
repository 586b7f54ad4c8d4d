//! Limits of connections and of request headers.

use crate::limits::{ROW, Row, Section, Unit};

pub(super) const CONNECTIONS: Section = Section {
    title: "Connections",
    rows: &[
        Row {
            what: "Connections",
            per: "process",
            constant: "service/src/http/server.rs CONNECTIONS_MAX",
            option: "`--max-connections`",
            beyond: "further connections wait to be accepted",
            tried_in: "service/tests/http/sockets.rs",
            test: "a_stalled_reader_blocks_no_one_and_frees_its_connection",
            ..ROW
        },
        Row {
            what: "Connections waiting to be accepted",
            per: "process",
            constant: "service/src/http/server.rs BACKLOG",
            beyond: "the operating system refuses or ignores further connections",
            why: "the operating system holds this queue",
            ..ROW
        },
        Row {
            what: "Time for the TLS handshake",
            per: "connection",
            constant: "service/src/http/server.rs HANDSHAKE_WAIT",
            unit: Unit::Time,
            beyond: "the connection is closed",
            tried_in: "service/tests/http/tls.rs",
            test: "stalled_handshakes_time_out_and_make_room",
            ..ROW
        },
        Row {
            what: "Time for the headers, and idle time between requests",
            per: "connection",
            constant: "service/src/http/server.rs HEADER_WAIT",
            unit: Unit::Time,
            beyond: "the connection is closed",
            tried_in: "service/tests/http/sockets.rs",
            test: "slow_headers_end_the_connection",
            ..ROW
        },
        Row {
            what: "Request line and headers",
            per: "request",
            constant: "service/src/http/call.rs HEADER_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "431 `headers-too-large`",
            tried_in: "service/tests/http/sockets.rs",
            test: "a_head_over_16_kib_is_refused",
            ..ROW
        },
        Row {
            what: "Number of headers",
            per: "request",
            constant: "service/src/http/server.rs HEADERS_MAX",
            beyond: "431",
            tried_in: "service/tests/http/sockets.rs",
            test: "more_than_64_headers_are_refused",
            ..ROW
        },
        Row {
            what: "Memory for requests and TLS handshakes that have not arrived completely",
            per: "process",
            constant: "service/src/http/unfinished.rs UNFINISHED_BYTES_MAX",
            unit: Unit::Bytes,
            beyond: "the oldest connection is closed",
            tried_in: "service/src/http/unfinished.rs",
            test: "the_oldest_is_closed_if_there_are_too_many_bytes",
            ..ROW
        },
        Row {
            what: "Time in which the client reads nothing of a response",
            per: "connection",
            constant: "service/src/http/server.rs WRITE_WAIT",
            unit: Unit::Time,
            beyond: "the connection is closed",
            tried_in: "service/tests/http/sockets.rs",
            test: "a_reader_that_never_reads_loses_its_connection",
            ..ROW
        },
        Row {
            what: "Time for which a stopping service waits for requests in progress",
            per: "process",
            constant: "service/src/http/server.rs SHUTDOWN_WAIT",
            unit: Unit::Time,
            option: "`--shutdown-seconds`",
            beyond: "the requests are cut off when the process ends",
            tried_in: "service/tests/http/sockets.rs",
            test: "a_shutdown_takes_at_most_the_shutdown_wait",
            ..ROW
        },
    ],
    notes: &["An idle connection takes one file descriptor. If the process has too few file descriptors for the \
         maximum number of connections, the service accepts fewer connections and logs the reduced maximum."],
};
