//! Parsing of bodies: off the runtime's workers if they are large, and with the memory of their lists taken from the bytes in
//! flight.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::rc::Rc;

use history::bounded::metered;

use crate::budget::{GatheredBytes, Purse};
use crate::http::problem::Refused;

/// Largest body that is parsed on the worker that received it, in bytes. Ours: a few hundred microseconds of work.
const ON_WORKER_BYTES_MAX: usize = 64 * 1024;

/// Why there was no room for more entries of lists.
#[derive(Debug, Clone, Copy)]
enum NoRoom {
    /// The entries of this body take more than those of a body may.
    Body { max: usize },
    /// Too many bytes of others are in flight.
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

/// Parses a body with `parse`, and returns it with the bytes. The entries of its lists may take `lists_max` bytes of memory,
/// which the request holds until it is answered.
///
/// # Errors
///
/// Those of `parse`; [`Refused::ListsTooLarge`] and [`Refused::Overloaded`] when there is no room for its lists.
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
        // As if it had happened here.
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
