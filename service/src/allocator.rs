//! The allocator of the binary, and the return of unused memory to the system.
//!
//! mimalloc returns memory while a thread allocates. A thread that has nothing more to do after a flood of requests
//! would keep it, so each thread returns its unused memory when it goes idle.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Time between two returns of memory by one thread. Our choice: short enough for operators who watch the memory, and
/// long enough for the cost (about a millisecond after a flood, microseconds otherwise) not to matter.
const RETURN_EVERY: Duration = Duration::from_secs(2);

std::thread_local! {
    static RETURNED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Returns unused memory of this thread to the system. Must be called whenever the thread goes idle.
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
