//! Exchanges with a task list, for hosts that work on many tasks at once: answers gather while one exchange is under way and go with the
//! next, and tasks come into the slots that are free. What is done with a task is its host's.

mod exchanges;
mod kind;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument;

use exchanges::{Exchanges, Happened, sleep_until};

use crate::shutdown::ANSWER_GRACE;
use crate::tasks::Outcome;
use crate::{Client, Error};

pub use kind::{ActivityKind, ExchangeSettings, TaskKind, TaskReply, TurnKind};

/// What does a host's work.
pub trait Works<K: TaskKind>: Send + Sync + 'static {
    /// What is to be known of an answer when it is known what became of it.
    type Context: Send + 'static;

    /// Does a task, and says what to answer. On a task of the runtime of its own.
    fn work(self: Arc<Self>, task: K::Task) -> impl Future<Output = TaskReply<K, Self::Context>> + Send + 'static;

    /// Hears what became of an answer; what is to be said in its place, where it was refused.
    fn answered(&self, context: Self::Context, outcome: Result<Outcome, Error>) -> Option<TaskReply<K, Self::Context>>;
}

/// Takes tasks of a list, has them worked on, and answers them, until `stop` resolves; then finishes those in hand, for as long as `drain`
/// where that is said. Whether all were finished.
pub async fn host<K: TaskKind, W: Works<K>>(
    (client, list): (Client, &str),
    asking: ExchangeSettings,
    worker: Arc<W>,
    stop: impl Future<Output = ()>,
    drain: Option<Duration>,
) -> bool {
    let (tell_stop, stopped) = oneshot::channel::<()>();
    let hosted = on_a_worker(work_until(Exchanges::new(client, list, asking), worker, stopped, drain));
    tokio::pin!(hosted);
    tokio::select! {
        biased;
        () = stop => drop(tell_stop),
        were_all_finished = &mut hosted => return were_all_finished,
    }
    hosted.await
}

/// Has it done on a thread that works on tasks, where there are several. What a program awaits in its `main` is on a thread of its own
/// there, and each time that a task wakes it, a thread is woken, too.
async fn on_a_worker(work: impl Future<Output = bool> + Send + 'static) -> bool {
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
        // What is done at the same time is answered with one exchange.
        while let Some(done) = works.try_join_next() {
            exchanges.has_worked(done);
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
            Some(done) = works.join_next() => exchanges.has_worked(done),
            happened = exchanges.next() => match happened {
                Happened::Task(task) => {
                    works.spawn(Arc::clone(&worker).work(*task));
                }
                Happened::Answered(context, outcome) => {
                    if let Some(reply) = worker.answered(context, outcome) {
                        exchanges.answer(reply, false);
                    }
                }
            },
            () = sleep_until(grace.or(end_at)) => return works.is_empty(),
        }
    }
}
