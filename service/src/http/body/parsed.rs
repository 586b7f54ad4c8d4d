//! Parsing of bodies. Large bodies are parsed outside the runtime's worker threads. The memory of the lists in a body
//! counts as bytes in flight.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::rc::Rc;

use history::bounded::metered;

use crate::budget::{GatheredBytes, Purse};
use crate::http::problem::Refused;

/// Maximum size in bytes of a body that is parsed on the worker thread that received it. Our choice: parsing it takes
/// a few hundred microseconds.
const ON_WORKER_BYTES_MAX: usize = 64 * 1024;

/// Reason why the list elements of a body are refused.
#[derive(Debug, Clone, Copy)]
enum NoRoom {
    /// The list elements of this body exceed the limit of `max` bytes.
    Body { max: usize },
    /// The bytes of other requests in flight leave too little memory.
    Budget,
}

impl From<NoRoom> for Refused {
    fn from(no_room: NoRoom) -> Self {
        match no_room {
            NoRoom::Body { max } => Self::ListsTooLarge { max },
            NoRoom::Budget => Self::Overloaded { changes_nothing: true },
        }
    }
}

/// Parses a body with `parse`, and returns the result with the bytes. The elements of its lists may take up to
/// `lists_max` bytes of memory, which count as in flight until the request is answered.
///
/// # Errors
///
/// Those of `parse`; [`Refused::ListsTooLarge`] if the lists exceed `lists_max`; [`Refused::Overloaded`] if the bytes
/// in flight are exhausted.
pub(crate) async fn parsed<T, E>(
    bytes: GatheredBytes,
    lists_max: usize,
    parse: impl FnOnce(&[u8]) -> Result<T, E> + Send + 'static,
) -> Result<(T, GatheredBytes), E>
where
    T: Send + 'static,
    E: From<Refused> + Send + 'static,
{
    if bytes.len() <= ON_WORKER_BYTES_MAX {
        return with_lists_metered(bytes, lists_max, parse);
    }
    let permit = bytes.purse().parsing().await;
    let parsing = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        with_lists_metered(bytes, lists_max, parse)
    });
    match parsing.await.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(parsed) => parsed,
        // If `parse` has panicked, continues the panic on this thread.
        Err(Ok(panic)) => resume_unwind(panic),
        Err(Err(_)) => Err(Refused::Panicked.into()),
    }
}

fn with_lists_metered<T, E: From<Refused>>(
    bytes: GatheredBytes,
    lists_max: usize,
    parse: impl FnOnce(&[u8]) -> Result<T, E>,
) -> Result<(T, GatheredBytes), E> {
    let no_room = Rc::new(Cell::new(None));
    let meter = {
        let (no_room, purse, mut taken) = (Rc::clone(&no_room), bytes.purse().clone(), 0);
        move |more| match take(&purse, &mut taken, more, lists_max) {
            Ok(()) => true,
            Err(found) => {
                no_room.set(Some(found));
                false
            }
        }
    };
    let parsed = metered(Box::new(meter), || parse(&bytes));
    match no_room.get() {
        Some(no_room) => Err(Refused::from(no_room).into()),
        None => parsed.map(|parsed| (parsed, bytes)),
    }
}

fn take(purse: &Purse, taken: &mut usize, more: usize, max: usize) -> Result<(), NoRoom> {
    *taken += more;
    if *taken > max {
        return Err(NoRoom::Body { max });
    }
    purse.take(more).map_err(|_| NoRoom::Budget)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use futures_util::FutureExt as _;
    use serde::Deserialize;

    use super::*;
    use crate::budget::{Budget, Who};

    /// Time limit of each step. It is longer than any step takes, so that a failing test ends instead of waiting
    /// forever.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[derive(Deserialize)]
    struct Names {
        #[serde(deserialize_with = "history::bounded::list::<1000, _, _>")]
        names: Vec<String>,
    }

    fn gathered(budget: &Arc<Budget>, bytes: &[u8]) -> (Purse, GatheredBytes) {
        let purse = Purse::new(budget, Who::Known);
        let mut gathered = GatheredBytes::new(purse.clone());
        gathered.push(bytes, Some(bytes.len())).unwrap();
        (purse, gathered)
    }

    /// Parses a body with `count` names. Returns the number of parsed names, and the number of bytes held for their
    /// list.
    async fn names(budget: &Arc<Budget>, count: usize, lists_max: usize) -> Result<(usize, usize), Refused> {
        let text = format!(r#"{{"names":[{}]}}"#, vec![r#""n""#; count].join(","));
        let (_purse, bytes) = gathered(budget, text.as_bytes());
        let read =
            |bytes: &[u8]| history::read_json::<Names>(bytes).map_err(|error| Refused::BadJson(error.to_string()));
        let (Names { names }, bytes) = parsed(bytes, lists_max, read).await?;
        Ok((names.len(), budget.taken() - bytes.len()))
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_large_body_is_parsed_off_the_worker() {
        let budget = Budget::new(1 << 20);
        let (_purse, bytes) = gathered(&budget, &vec![b' '; ON_WORKER_BYTES_MAX + 1]);
        let (say, hear) = channel();
        // This thread sends the value while parsing waits for it, so the test passes only if parsing runs on another
        // thread.
        let read = move |_: &[u8]| hear.recv_timeout(PATIENCE).map_err(|_: RecvTimeoutError| Refused::Panicked);
        let (parsed, ()) = tokio::join!(parsed(bytes, 0, read), async { say.send(7).unwrap() });
        assert_eq!(parsed.unwrap().0, 7);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_small_body_is_parsed_on_the_worker() {
        let budget = Budget::new(1 << 20);
        let (_purse, bytes) = gathered(&budget, &vec![b' '; ON_WORKER_BYTES_MAX]);
        let worker = std::thread::current().id();
        let read = |_: &[u8]| Ok::<_, Refused>(std::thread::current().id());
        assert_eq!(parsed(bytes, 0, read).now_or_never().unwrap().unwrap().0, worker);
    }

    #[tokio::test]
    async fn a_panic_in_the_parser_reaches_the_request() {
        let budget = Budget::new(1 << 20);
        let (purse, bytes) = gathered(&budget, &vec![b' '; ON_WORKER_BYTES_MAX + 1]);
        let read = |_: &[u8]| -> Result<(), Refused> { panic!("a defect") };
        let panic = std::panic::AssertUnwindSafe(parsed(bytes, 0, read)).catch_unwind().await.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"a defect"));
        drop(purse);
        assert_eq!(budget.taken(), 0, "and holds nothing");
    }

    #[tokio::test]
    async fn entries_count_against_the_bytes_in_flight() {
        let budget = Budget::new(1 << 20);
        let (found, held) = names(&budget, 900, usize::MAX).await.unwrap();
        assert_eq!(found, 900);
        assert!(held >= 900 * size_of::<String>(), "{held} bytes");
        assert_eq!(budget.taken(), 0, "and are free again with the request");
        let others = budget.answer((1 << 20) - 8 * 1024).unwrap();
        let refused = names(&budget, 900, usize::MAX).await.unwrap_err();
        assert!(matches!(refused, Refused::Overloaded { changes_nothing: true }), "{refused}");
        assert!(names(&budget, 9, usize::MAX).await.is_ok());
        drop(others);
        assert!(names(&budget, 900, usize::MAX).await.is_ok());
    }

    #[tokio::test]
    async fn a_body_whose_entries_take_too_much_is_refused() {
        let budget = Budget::new(1 << 20);
        let refused = names(&budget, 900, 10_000).await.unwrap_err();
        assert!(matches!(refused, Refused::ListsTooLarge { max: 10_000 }), "{refused}");
        assert!(names(&budget, 9, 10_000).await.is_ok());
    }
}
