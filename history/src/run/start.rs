//! What a run keeps of its WorkflowStarted.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use minicbor::{Decode, Encode};

use crate::event::{ChildPolicy, EventKind, WorkflowStarted};
use crate::limits;
use crate::time::{Duration, Timestamp};

/// What a run keeps of its WorkflowStarted: all but the input, and who started it. Reads like that event.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode)]
pub struct RunStart {
    /// When.
    #[n(0)]
    pub at: Timestamp,
    #[cbor(n(1), with = "shared")]
    event: Arc<WorkflowStarted>,
}

/// What is shared in memory, stored like what it is.
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

    /// Whether it speaks SWF's dialect.
    pub fn is_swf(&self) -> bool {
        self.swf.is_some()
    }

    /// How its turns are preferred to others on their list: higher first.
    pub fn priority(&self) -> Option<i32> {
        self.swf.as_ref().map_or(self.task_priority, |swf| swf.task_priority)
    }

    /// What becomes of a child with this policy of its own when this run closes like that. In SWF's dialect this run's policy
    /// says it, for all children, and only when it is terminated or times out.
    pub fn policy_at_close(&self, of_child: ChildPolicy, close: &EventKind) -> ChildPolicy {
        match (&self.swf, close) {
            (None, _) => of_child,
            (Some(swf), EventKind::WorkflowTerminated(it)) => it.child_policy.unwrap_or(swf.child_policy),
            (Some(swf), EventKind::WorkflowTimedOut(_)) => swf.child_policy,
            (Some(_), _) => ChildPolicy::Abandon,
        }
    }

    /// How long a decider may hold a turn. Earlier versions let runs continue as new with a timeout of zero, which no
    /// decider can keep: such a run has the default.
    pub fn turn_timeout(&self) -> Duration {
        Some(self.decider_start_to_close)
            .filter(|timeout| *timeout > Duration::ZERO)
            .unwrap_or(limits::DECIDER_START_TO_CLOSE_DEFAULT)
    }

    /// Since when its execution timeout counts.
    pub fn execution_from(&self) -> Timestamp {
        self.execution_from.unwrap_or_else(|| self.first_turn_at())
    }

    /// When its first turn is handed out at the earliest.
    pub fn first_turn_at(&self) -> Timestamp {
        self.at.plus(self.start_after.unwrap_or_default())
    }
}
