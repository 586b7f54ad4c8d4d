//! Dependencies of the workers of runs. All workers share them.

use std::sync::Arc;

use store::Store;

use crate::base::admission::open_runs::OpenRuns;
use crate::base::agenda::Agenda;
use crate::base::clock::{Ids, NewestTime};
use crate::base::disk::DiskReserve;
use crate::base::notices::Notices;
use crate::base::traces::Traces;
use crate::base::watch::Watchers;
use crate::commit::read::RunReader;
use crate::lists::hand_out::TaskLists;
use crate::nodes::Nodes;
use crate::registry::known::Marks;
use crate::riders::task::RequestReply;
use crate::riders::waiting::Riders;
use crate::run::effects::Effects;
use crate::run::runs::Runs;
use crate::{Clock, Metrics};

/// Dependencies of the workers of runs.
pub(crate) struct RunContext {
    pub(crate) runs: Arc<Runs>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) limits: store::Limits,
    pub(crate) reader: Arc<RunReader>,
    pub(crate) marks: Arc<Marks>,
    pub(crate) disk: Arc<DiskReserve>,
    pub(crate) open_runs: Arc<OpenRuns>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) lists: Arc<TaskLists>,
    pub(crate) riders: Arc<Riders>,
    pub(crate) request_reply: Arc<RequestReply>,
    pub(crate) effects: Arc<Effects>,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) agenda: Arc<Agenda>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) newest: Arc<NewestTime>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) traces: Arc<Traces>,
    pub(crate) notices: Arc<Notices>,
}
