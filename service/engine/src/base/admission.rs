//! Admission control: decides whether a request is admitted now, and counts what admitted requests use.
//!
//! | mechanism | limits | of | unit | beyond it | in |
//! |---|---|---|---|---|---|
//! | rate limit | requests | domain, credential | requests per second, with a burst | 429 `quota-exceeded` with the time to wait | `rate.rs` |
//! | bandwidth limit | bodies of requests and responses | domain, credential | bytes per second | the same, for later requests | `rate.rs` |
//! | concurrency limit | waiting requests | domain, credential | requests at once | the same | `quotas.rs` |
//! | quota | open runs | domain | runs | the same; a child fails to start | `open_runs.rs` |
//! | quota | polled task lists | domain | lists at a node | the same | `lists/pollers.rs` |
//! | SWF quotas | open runs, domains, waiting polls | domain, service | as AWS counts them | SWF's `LimitExceededFault` | `open_runs.rs`, `registry/domains.rs`, `lists/pollers.rs` |
//! | fair queuing | processor slots | domain | requests in turn | a wait, then 503 `overloaded` | `service/src/fair.rs` |
//! | memory limit | bytes in flight | process | bytes | 503 `overloaded` | `service/src/budget.rs` |
//! | disk reserve | starts | service | free bytes | 507 `insufficient-storage` | `base/disk.rs` |
//!
//! A request passes them in the order of memory limit, rate and bandwidth limits, fair queuing. The concurrency limit
//! applies when it begins to wait, and quotas when it is about to use what they count. Answers to tasks pass all but
//! the memory limit, because they end work.
//!
//! Quotas are of domains and credentials and are configured by operators (`limits.rs`). The last two rows of the
//! service measure HTTP requests, which the engine does not know. When a waiting task may leave its list is decided by
//! the dispatch gate (`lists::matching`), not here.

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
