//! Runners that wait for a change of the activity that they hold. The first event of the run and changes of the
//! activity wake the runner, but no other events.

use history::admit::{HeldState, held_state};
use history::{Run, TaskId};
use tokio::sync::watch;
use uuid::Uuid;

/// State of an activity, as far as a commit or a read has reported it since the runner began to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reported {
    Nothing,
    Held(HeldState),
    /// The runner no longer holds the activity, or the run has closed or been replaced.
    Lost,
}

/// A waiting runner.
struct WaitingRunner {
    run_id: Uuid,
    task: TaskId,
    sender: watch::Sender<Reported>,
}

/// Waiting runners of one run.
#[derive(Default)]
pub(super) struct Holders(Vec<WaitingRunner>);

/// Receiver of the changes of one activity.
pub(super) struct HolderReceiver(watch::Receiver<Reported>);

impl Holders {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a runner.
    pub(super) fn add(&mut self, run_id: Uuid, task: TaskId) -> HolderReceiver {
        let (sender, receiver) = watch::channel(Reported::Nothing);
        self.0.push(WaitingRunner { run_id, task, sender });
        HolderReceiver(receiver)
    }

    /// Removes the runner with this receiver.
    pub(super) fn remove(&mut self, receiver: &HolderReceiver) {
        let is_its = |holder: &WaitingRunner| holder.sender.subscribe().same_channel(&receiver.0);
        if let Some(index) = self.0.iter().position(is_its) {
            self.0.swap_remove(index);
        }
    }

    /// Reports the run's state to the runners whose activity has changed.
    pub(super) fn notify(&self, run: &Run) {
        for WaitingRunner { run_id, task, sender } in &self.0 {
            let state = if run.started.run_id == *run_id { held_state(run, *task).ok() } else { None };
            let reported = state.map_or(Reported::Lost, Reported::Held);
            sender.send_if_modified(|before| std::mem::replace(before, reported) != reported);
        }
    }
}

impl HolderReceiver {
    /// Waits for news to a runner that knows the state `known`. Returns `None` if the activity is lost or if no more
    /// reports can arrive.
    pub(super) async fn news(&mut self, mut known: HeldState) -> Option<HeldState> {
        let is_news = |reported: &Reported| match *reported {
            Reported::Nothing => false,
            Reported::Lost => true,
            Reported::Held(state) => {
                let is_news = state.is_news_to(known);
                known = state;
                is_news
            }
        };
        match *self.0.wait_for(is_news).await.ok()? {
            Reported::Held(state) => Some(state),
            Reported::Nothing | Reported::Lost => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn state(cancel_requested: bool, paused: bool) -> HeldState {
        HeldState { cancel_requested, paused }
    }

    /// Polls a runner that waits for news, before and after each report. Returns the last outcome.
    fn news_after(reports: &[Reported], known: HeldState) -> Poll<Option<HeldState>> {
        let (sender, receiver) = watch::channel(Reported::Nothing);
        let mut receiver = HolderReceiver(receiver);
        let mut news = std::pin::pin!(receiver.news(known));
        let mut context = Context::from_waker(Waker::noop());
        for report in reports {
            assert!(news.as_mut().poll(&mut context).is_pending());
            sender.send_replace(*report);
        }
        news.as_mut().poll(&mut context)
    }

    #[test]
    fn news_are_a_cancel_request_a_loss_and_a_new_pause() {
        let (open, paused, canceled) = (state(false, false), state(false, true), state(true, false));
        let held = Reported::Held;
        assert_eq!(news_after(&[held(open)], open), Poll::Pending);
        assert_eq!(news_after(&[held(canceled)], open), Poll::Ready(Some(canceled)));
        assert_eq!(news_after(&[held(paused)], open), Poll::Ready(Some(paused)));
        assert_eq!(news_after(&[held(paused)], paused), Poll::Pending);
        assert_eq!(news_after(&[held(open), held(paused)], paused), Poll::Ready(Some(paused)));
        assert_eq!(news_after(&[Reported::Lost], open), Poll::Ready(None));
    }
}
