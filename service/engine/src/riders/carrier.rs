//! Selects the waiting riders (queries and updates) that a task takes.

use std::collections::VecDeque;
use std::sync::Arc;

use history::{ProposedUpdate, Run, TurnId, limits};

use crate::lists::Taker;
use crate::lists::grant::{NumberedQuery, RiderKind, TakenAlong};
use crate::riders::place::{self, By, RiderEvent};
use crate::riders::rider::{OwnTask, Rider, RiderContent};

/// Maximum total size in bytes of the queries that one task takes. A task takes at most the same size of updates. A
/// larger rider is the only rider of its kind in its task. Our choice: a quarter of the maximum size of a window.
pub(crate) const TASK_RIDER_BYTES_MAX: usize = 1024 * 1024;

/// A task that takes riders.
pub(crate) enum Carrier<'a> {
    /// A turn takes queries and updates, as far as its poller supports them.
    Turn(TurnId, &'a Taker),
    /// A separate task takes riders of one kind.
    Own(RiderKind, Arc<OwnTask>, &'a Taker),
}

/// Riders that a task has taken.
#[derive(Default)]
pub(crate) struct WithTask {
    pub(crate) queries: Vec<u64>,
    pub(crate) updates: Vec<ProposedUpdate>,
    pub(crate) own: Option<Arc<OwnTask>>,
}

impl WithTask {
    pub(super) fn of<'a>(riders: impl Iterator<Item = &'a Rider>) -> Self {
        let mut with = Self::default();
        for rider in riders {
            match &rider.what {
                RiderContent::Query { .. } => with.queries.push(rider.id),
                RiderContent::Update { asked, .. } => with.updates.push(asked.clone()),
            }
            with.own = with.own.or_else(|| rider.own.clone());
        }
        with
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queries.is_empty() && self.updates.is_empty()
    }
}

/// Riders of one kind that were selected for a task so far. A task takes at least one rider, and further riders while
/// they fit.
struct Load {
    most: usize,
    count: usize,
    bytes: usize,
}

impl Load {
    fn new(most: usize) -> Self {
        Self { most, count: 0, bytes: 0 }
    }

    fn takes(&mut self, bytes: usize) -> bool {
        // Also counts riders that do not fit, so that no later rider of the queue overtakes them.
        self.bytes += bytes;
        let fits = self.count < self.most && (self.bytes <= TASK_RIDER_BYTES_MAX || self.count == 0);
        self.count += usize::from(fits);
        fits
    }
}

/// Selects the riders of a run that a task takes, and marks them as taken.
pub(super) fn take(riders: &mut VecDeque<Rider>, run: &Run, takes: &Carrier<'_>) -> TakenAlong {
    let run_id = run.started.run_id;
    let is_conditional = |rider: &Rider| rider.asked().is_some_and(|asked| asked.if_version.is_some());
    // If the first waiting update expects a certain version of the run, a separate task takes only this update. Such a
    // task has no other new events.
    let first = riders.iter().find(|rider| rider.waits(run_id, RiderKind::Update));
    let (by, shown, own, taker, conditional) = match takes {
        Carrier::Turn(turn, taker) => (By::Turn(*turn), turn.started_event_id, None, taker, false),
        Carrier::Own(_, own, taker) => {
            (By::Own(own.number), own.last_event_id, Some(own), taker, first.is_some_and(is_conditional))
        }
    };
    let takes = |kind| match takes {
        Carrier::Turn(_, taker) => taker.takes(kind),
        Carrier::Own(of, ..) => *of == kind,
    };
    let most = if conditional { 1 } else { taker.updates.min(limits::UPDATES_PER_TURN_MAX) };
    let mut queries = Load::new(if takes(RiderKind::Query) { usize::MAX } else { 0 });
    let mut updates = Load::new(if takes(RiderKind::Update) { most } else { 0 });
    let mut taken = TakenAlong::default();
    for rider in riders.iter_mut().filter(|rider| rider.run_id == run_id && rider.since <= shown) {
        if rider.place.after(rider.kind(), RiderEvent::Taken(by)).is_none() {
            continue;
        }
        let bytes = rider.bytes();
        match &rider.what {
            RiderContent::Query { query, .. } if queries.takes(bytes) => {
                taken.queries.push(NumberedQuery { number: rider.id, query: Arc::clone(query) });
            }
            RiderContent::Update { asked, .. }
                if is_conditional(rider) == conditional
                    && place::is_new(run_id, asked, run)
                    && updates.takes(bytes) =>
            {
                taken.updates.push(asked.clone());
            }
            RiderContent::Query { .. } | RiderContent::Update { .. } => continue,
        }
        rider.apply_event(RiderEvent::Taken(by));
        rider.own = own.cloned();
    }
    taken
}
