//! Rows of `docs/limits.md`, by subject.

mod access;
mod batches;
mod connections;
mod lists;
mod records;
mod registry;
mod requests;
mod runs;
mod schedules;
mod swf;

use super::Section;

/// Introduction of the page, above the tables.
pub const BEGIN: &str = "# Limits

<!-- Generated from the constants in the sources: see tests/house/src/limits/rows.rs. -->

This page lists every limit that a caller or an operator can reach: bytes, elements, depth, time and count.

* The column *Per* names the object to which a limit applies, for example each request or each run. A *process* is one
  node. *All nodes* means all nodes of a store together.
* If an option changes a value, the value is the default, and the option follows in parentheses.
* The column *Beyond it* has the response or the effect if the limit is exceeded. A response with `truncated: true` is
  incomplete.

Over REST, a request beyond a limit fails with the status and code in the table. A 413 `too-large` contains the
found value (`found`) and the limit (`max`). A refusal with 429 or 503 is temporary: the response has `Retry-After`, and
the clients and kits retry. Over the SWF protocol the same limits apply, with the exceptions in [SWF
protocol](#swf-protocol).
";

/// All sections, in the order of the page.
pub const SECTIONS: &[Section] = &[
    connections::CONNECTIONS,
    requests::BODIES,
    requests::OUTPUT,
    requests::LOAD,
    requests::PAGES,
    runs::FIELDS,
    runs::TURNS,
    runs::RUN,
    runs::TIMES,
    runs::MOVING,
    schedules::SCHEDULES,
    batches::BATCHES,
    lists::TASKS,
    lists::LIMITS,
    lists::RIDERS,
    registry::REGISTRY,
    registry::QUOTAS,
    access::CREDENTIALS,
    access::TOKENS,
    access::FILES,
    records::RECORDS,
    swf::SWF,
];
