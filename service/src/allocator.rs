//! The memory allocator of the program, and the return of unused memory to the operating system.
//!
//! mimalloc returns memory to the system only while a thread allocates. After a burst of requests, an idle thread
//! would keep unused memory indefinitely. Each thread therefore returns its unused memory when it becomes idle.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Minimum time between two returns of memory by one thread. Our choice: short enough for operators who watch memory
/// usage, and long enough that the cost does not matter. A return costs about a millisecond after a burst of requests,
/// and microseconds otherwise.
const RETURN_EVERY: Duration = Duration::from_secs(2);

std::thread_local! {
    static RETURNED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Returns unused memory of this thread to the system. Must be called whenever the thread becomes idle.
pub(crate) fn return_unused() {
    let now = Instant::now();
    if RETURNED.get().is_some_and(|returned| now.duration_since(returned) < RETURN_EVERY) {
        return;
    }
    RETURNED.set(Some(now));
    collect();
}

#[expect(unsafe_code, reason = "mimalloc has no safe interface for it")]
fn collect() {
    // SAFETY: `mi_collect` may be called at any time from any thread that does not allocate at that moment.
    unsafe { libmimalloc_sys::mi_collect(false) }
}
