//! Admission control: decides whether a request is admitted now, and counts the resources that admitted requests use.
//!
//! | mechanism | limits | of | unit | beyond it | file |
//! |---|---|---|---|---|---|
//! | rate limit | requests | domain, credential | requests per second, with burst | 429 `quota-exceeded` | `rate.rs` |
//! | bandwidth limit | request and response bodies | domain, credential | bytes per second | 429, later | `rate.rs` |
//! | concurrency limit | waiting requests | domain, credential | requests at once | 429 | `quotas.rs` |
//! | quota | open runs | domain | runs | 429; a child fails to start | `open_runs.rs` |
//! | quota | polled task lists | domain | lists at a node | 429 | `lists/pollers.rs` |
//! | SWF quotas | open runs, domains, waiting polls | domain, service | as in AWS | `LimitExceededFault` | see below |
//! | fair queuing | processor slots | domain | requests in turn | wait, then 503 `overloaded` | `service/src/fair.rs` |
//! | memory limit | bytes in flight | process | bytes | 503 `overloaded` | `service/src/budget.rs` |
//! | disk reserve | starts | service | free bytes | 507 `insufficient-storage` | `base/disk.rs` |
//!
//! A request first passes the memory limit, then the rate and bandwidth limits, then fair queuing. The concurrency
//! limit applies when the request begins to wait. A quota applies when the request is about to use the resource that
//! the quota counts. Only the memory limit applies to answers to tasks, because answers end work. A response with
//! status 429 contains the time to wait. SWF's quotas are enforced in `open_runs.rs`, `registry/domains.rs` and
//! `lists/pollers.rs`.
//!
//! Operators configure the limits of domains and credentials (`limits.rs`). Fair queuing and the memory limit measure
//! HTTP requests, so they are not part of the engine. The dispatch gate (`lists::matching`) decides when a waiting task
//! may leave its list.

mod charged;
mod limits;
pub(crate) mod open_runs;
mod quotas;
mod rate;
mod throttled;

pub use charged::{ChargedRequest, RequestOrigin, count_waiting};
pub use limits::{
    BURST_MAX, BYTES_PER_SECOND_MIN, Limit, OPEN_RUNS_MAX, QuotaLimits, REQUESTS_PER_SECOND_MAX, TASK_LISTS_MAX,
    WATCHERS_MAX,
};
pub use quotas::{Quotas, ThrottledCounts};
pub use throttled::{LimitKind, QuotaHolder, Throttled};
