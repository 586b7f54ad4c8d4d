//! Messages to the home nodes of limits that wait to be sent.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::lists::limits::permit::TaskSlot;
use crate::lists::list_key::ListKey;
use crate::nodes::messages::{SlotNews, SlotReport};

/// Maximum number of reports that wait until the home node can be reached. Our choice: at about 500 bytes each, they
/// take at most 10 MB. The home node does not depend on them: it also reads the runs of running tasks.
const REPORTS_MAX: usize = 20_000;

/// Messages to home nodes that were not sent.
#[derive(Default)]
pub(crate) struct HomeLine {
    reports: Mutex<VecDeque<SlotReport>>,
    /// Notified when a report is added.
    pub(crate) news: Notify,
    /// Lists whose tasks are being forwarded.
    forwarded: Mutex<HashSet<ListKey>>,
}

impl HomeLine {
    fn reports(&self) -> MutexGuard<'_, VecDeque<SlotReport>> {
        self.reports.lock().expect("no code panics while it holds this lock")
    }

    pub(crate) fn forwarded(&self) -> MutexGuard<'_, HashSet<ListKey>> {
        self.forwarded.lock().expect("no code panics while it holds this lock")
    }

    /// Queues a report for the home node of the task's list.
    pub(crate) fn report(&self, task: &TaskSlot, news: SlotNews) {
        let mut reports = self.reports();
        if reports.len() >= REPORTS_MAX {
            reports.pop_front();
        }
        reports.push_back(SlotReport {
            list: (&task.list).into(),
            workflow_id: task.workflow_id.to_string(),
            run_id: task.run_id,
            scheduled_event_id: task.scheduled_event_id,
            concurrency_key: task.concurrency_key.as_deref().map(str::to_owned),
            news,
        });
        self.news.notify_one();
    }

    /// Takes the reports of each domain in their order.
    pub(crate) fn take(&self) -> BTreeMap<String, VecDeque<SlotReport>> {
        let mut of_domains = BTreeMap::<String, VecDeque<SlotReport>>::new();
        for report in self.reports().drain(..) {
            of_domains.entry(report.list.domain.clone()).or_default().push_back(report);
        }
        of_domains
    }

    /// Puts reports back in front of the others.
    pub(crate) fn put_back(&self, undelivered: VecDeque<SlotReport>) {
        let mut reports = self.reports();
        for report in undelivered.into_iter().rev() {
            if reports.len() < REPORTS_MAX {
                reports.push_front(report);
            }
        }
    }
}
