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

This page lists every limit that a caller or an operator can meet: bytes, elements, depth, time and count. *Per*
names the owner of a limit. A *process* is one node; *all nodes* share one store. If an option changes a value, the
option follows the value.

Over REST a limit fails with the status and the code shown. A 413 `too-large` contains `found` and `max`. Limits with
429 and 503 are temporary: the response has `Retry-After`, and the clients and the kits retry. Over SWF's wire the same
limits apply, with the exceptions of [SWF's wire](#swfs-wire).
";

/// All sections, in the order of the page.
pub const SECTIONS: &[Section] = &[
    connections::CONNECTIONS,
    requests::BODIES,
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
    lists::RIDERS,
    registry::REGISTRY,
    registry::QUOTAS,
    access::CREDENTIALS,
    access::TOKENS,
    access::FILES,
    records::RECORDS,
    swf::SWF,
];
