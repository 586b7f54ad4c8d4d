//! Start attributes that a run keeps in its state.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use minicbor::{Decode, Encode};

use crate::event::{ChildPolicy, EventKind, WorkflowStarted};
use crate::limits;
use crate::time::{Duration, Timestamp};

/// Attributes of a run's WorkflowStarted event, without the input and the identity. Dereferences to that event.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode)]
pub struct RunStart {
    /// Time of the start.
    #[n(0)]
    pub at: Timestamp,
    #[cbor(n(1), with = "shared")]
    event: Arc<WorkflowStarted>,
}

/// Stored form of an `Arc`: the same as that of its value.
mod shared {
    use std::sync::Arc;

    use minicbor::decode::Error as DecodeError;
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decode, Decoder, Encode, Encoder};

    pub(super) fn encode<C, T: Encode<C>, W: Write>(
        it: &Arc<T>,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        T::encode(it, e, ctx)
    }

    pub(super) fn decode<'b, C, T: Decode<'b, C>>(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Arc<T>, DecodeError> {
        T::decode(d, ctx).map(Arc::new)
    }
}

impl Deref for RunStart {
    type Target = WorkflowStarted;

    fn deref(&self) -> &WorkflowStarted {
        &self.event
    }
}

impl DerefMut for RunStart {
    fn deref_mut(&mut self) -> &mut WorkflowStarted {
        Arc::make_mut(&mut self.event)
    }
}

impl RunStart {
    pub(super) fn of(at: Timestamp, event: &WorkflowStarted) -> Self {
        let event = WorkflowStarted { input: None, identity: None, ..event.clone() };
        Self { at, event: Arc::new(event) }
    }

    /// Returns `true` if the run was started over SWF's protocol.
    pub fn is_swf(&self) -> bool {
        self.swf.is_some()
    }

    /// Returns the priority of the run's turns: higher first.
    pub fn priority(&self) -> Option<i32> {
        self.swf.as_ref().map_or(self.task_priority, |swf| swf.task_priority)
    }

    /// Returns the concurrency key of an activity that was scheduled with this key: that key or, without one, the
    /// run's key.
    pub fn key_of<'a>(&'a self, own: Option<&'a str>) -> Option<&'a str> {
        own.or(self.concurrency_key.as_deref())
    }

    /// Returns the policy to apply to a child when this run closes with `close`. Normally this is the child's own
    /// policy. In SWF runs, it is the parent's policy, which applies only if the parent is terminated or times out.
    pub fn policy_at_close(&self, of_child: ChildPolicy, close: &EventKind) -> ChildPolicy {
        match (&self.swf, close) {
            (None, _) => of_child,
            (Some(swf), EventKind::WorkflowTerminated(it)) => it.child_policy.unwrap_or(swf.child_policy),
            (Some(swf), EventKind::WorkflowTimedOut(_)) => swf.child_policy,
            (Some(_), _) => ChildPolicy::Abandon,
        }
    }

    /// Returns the start-to-close timeout of turns. Earlier versions allowed a timeout of zero when a run continued as
    /// new, but no decider can answer in zero time. Such runs use the default.
    pub fn turn_timeout(&self) -> Duration {
        Some(self.decider_start_to_close)
            .filter(|timeout| *timeout > Duration::ZERO)
            .unwrap_or(limits::DECIDER_START_TO_CLOSE_DEFAULT)
    }

    /// Returns the time from which the execution timeout counts.
    pub fn execution_from(&self) -> Timestamp {
        self.execution_from.unwrap_or_else(|| self.first_turn_at())
    }

    /// Returns the earliest time of the first turn.
    pub fn first_turn_at(&self) -> Timestamp {
        self.at.plus(self.start_after.unwrap_or_default())
    }
}
