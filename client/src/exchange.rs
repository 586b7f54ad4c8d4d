//! Exchanges with a task list, for hosts that work on many tasks at once. An exchange is one request that both answers
//! tasks and polls for new tasks. While an exchange is in flight, the host collects answers, which it sends with the
//! next exchange. New tasks fill the host's free slots.

mod exchanges;
mod kind;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument;

use exchanges::{Exchanges, HostEvent, sleep_until};

use crate::shutdown::ANSWER_GRACE;
use crate::tasks::Outcome;
use crate::{Client, Error};

pub use kind::{ActivityKind, ExchangeSettings, TaskKind, TaskReply, TurnKind};

/// Work of a host on its tasks. Deciders and runners each have an implementation.
pub trait Works<K: TaskKind>: Send + Sync + 'static {
    /// Data that the host needs when the outcome of an answer is known.
    type Context: Send + 'static;

    /// Works on a task and returns the answer. Runs in a separate Tokio task.
    fn work(self: Arc<Self>, task: K::Task) -> impl Future<Output = TaskReply<K, Self::Context>> + Send + 'static;

    /// Processes the outcome of an answer. If the answer was refused, may return a different answer, which is sent
    /// instead.
    fn answered(&self, context: Self::Context, outcome: Result<Outcome, Error>) -> Option<TaskReply<K, Self::Context>>;
}

/// Takes tasks of a list, works on them and answers them until `stop` resolves. Then finishes the tasks in progress,
/// but for at most `drain` if it is given. Returns true if all tasks were finished.
pub async fn host<K: TaskKind, W: Works<K>>(
    client: Client,
    list: &str,
    settings: ExchangeSettings,
    worker: Arc<W>,
    stop: impl Future<Output = ()>,
    drain: Option<Duration>,
) -> bool {
    let (stop_sender, stopped) = oneshot::channel::<()>();
    let hosted = on_worker_thread(work_until(Exchanges::new(client, list, settings), worker, stopped, drain));
    tokio::pin!(hosted);
    tokio::select! {
        biased;
        () = stop => drop(stop_sender),
        all_finished = &mut hosted => return all_finished,
    }
    hosted.await
}

/// Runs the future on a worker thread of a multi-threaded runtime. The future that a program awaits in `main` runs on
/// the program's main thread, which is not a worker thread. There, each wake of the future would also have to wake that
/// thread.
async fn on_worker_thread(work: impl Future<Output = bool> + Send + 'static) -> bool {
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return work.await;
    }
    let mut alone = JoinSet::new();
    alone.spawn(work.in_current_span());
    match alone.join_next().await {
        Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        joined => joined.is_some_and(|done| done.unwrap_or(false)),
    }
}

async fn work_until<K: TaskKind, W: Works<K>>(
    mut exchanges: Exchanges<K, W::Context>,
    worker: Arc<W>,
    mut stopped: oneshot::Receiver<()>,
    drain: Option<Duration>,
) -> bool {
    let mut works = JoinSet::new();
    let (mut is_stopping, mut end_at, mut grace) = (false, None, None);
    loop {
        // Tasks that finish at the same time are answered with one exchange.
        while let Some(done) = works.try_join_next() {
            exchanges.finish_task(done);
        }
        if is_stopping && works.is_empty() {
            if exchanges.is_idle() {
                return true;
            }
            grace.get_or_insert_with(|| Instant::now() + ANSWER_GRACE);
        }
        tokio::select! {
            biased;
            _ = &mut stopped, if !is_stopping => {
                is_stopping = true;
                end_at = drain.map(|drain| Instant::now() + drain);
                exchanges.stop();
            }
            Some(done) = works.join_next() => exchanges.finish_task(done),
            event = exchanges.next() => match event {
                HostEvent::Task(task) => {
                    works.spawn(Arc::clone(&worker).work(*task));
                }
                HostEvent::Answered(context, outcome) => {
                    if let Some(reply) = worker.answered(context, outcome) {
                        exchanges.answer(reply, false);
                    }
                }
            },
            () = sleep_until(grace.or(end_at)) => return works.is_empty(),
        }
    }
}
