//! Tasks for pollers that wait at another node.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use engine::{
    Clock as _, DeciderTask, Delivery, Engine, Forwarded, ForwardedOutput, ForwardedTasks, FromNode, FromOutputReader,
    FromOutputWriter, FromRecorder, FromValidator, HomeReport, LentUpdate, ListName, Offer, OutputRequest,
    PassedAnswer, Peers, Poll, RejectedUpdate, ShowLimits, SlotReports, StrayAnswer, Unpolled,
};
use simulation::stores::fresh;
use store::Store;
use store::fault::{Chances, FaultStore};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::members::{clock, open, pass};
use crate::{DOMAIN, Service, at};

/// Maximum time for a task to reach a poller at another node. Our choice: 50 ms, so that a service with several nodes
/// is no slower than a single node.
const HANDOVER_MAX: Duration = Duration::from_millis(50);

/// Nodes that call each other directly while they are connected.
#[derive(Default)]
pub(crate) struct Line {
    pub(crate) nodes: Mutex<HashMap<String, Arc<Engine>>>,
    offers: Mutex<Vec<String>>,
    /// Nodes that were asked to drop a rejected update.
    pub(crate) asked: Mutex<Vec<String>>,
    /// If set, the reply to an offer is delayed. The first `Notify` is notified when an offer has arrived. Notifying
    /// the second one releases the reply.
    hold: Mutex<Option<(Arc<Notify>, Arc<Notify>)>>,
    /// Notified when a node is informed that a poller waits at another node.
    waits: Notify,
}

impl Line {
    fn node(&self, address: &str) -> Result<Arc<Engine>, String> {
        self.nodes.lock().unwrap().get(address).cloned().ok_or_else(|| "connection refused".to_owned())
    }
}

impl Line {
    /// Returns the connection of the node with this address to the other nodes.
    pub(crate) fn from(self: &Arc<Self>, address: &str) -> Arc<dyn Peers> {
        Arc::new(From { me: address.to_owned(), line: Arc::clone(self) })
    }
}

struct From {
    me: String,
    line: Arc<Line>,
}

#[async_trait]
impl Peers for From {
    async fn wait_on(&self, node: &str, list: &ListName) -> Result<(), String> {
        self.line.node(node)?.lists().waits_at(self.me.clone(), list);
        self.line.waits.notify_one();
        Ok(())
    }

    async fn offer(&self, node: &str, offer: &Offer) -> Result<bool, String> {
        self.line.offers.lock().unwrap().push(node.to_owned());
        let is_taken = self.line.node(node)?.lists().take_offer(&self.me, offer);
        let hold = self.line.hold.lock().unwrap().take();
        if let Some((is_there, go)) = hold {
            is_there.notify_one();
            go.notified().await;
        }
        Ok(is_taken)
    }

    async fn forward(&self, node: &str, tasks: &ForwardedTasks) -> Result<bool, String> {
        let answer = self.line.node(node)?.lists().take_forwarded(tasks);
        Ok(answer)
    }

    async fn report_slots(&self, node: &str, reports: &SlotReports) -> Result<bool, String> {
        let answer = self.line.node(node)?.lists().take_reports(reports);
        Ok(answer)
    }

    async fn show_limits(&self, node: &str, request: &ShowLimits) -> Result<Vec<HomeReport>, String> {
        let answer = self.line.node(node)?.lists().show_limits_to_node(request);
        Ok(answer)
    }

    async fn lost(&self, node: &str, polls: &[u64]) -> Result<Option<Offer>, String> {
        Ok(self.line.node(node)?.lists().find_lost_for_peer(polls))
    }

    async fn query(&self, node: &str, forwarded: &Forwarded) -> Result<FromNode, String> {
        Ok(self.line.node(node)?.request_reply().query_for_node(forwarded.clone()).await)
    }

    async fn validate(&self, node: &str, lent: &LentUpdate) -> Result<FromValidator, String> {
        let judged = self.line.node(node)?.request_reply().validate_for_node(lent.clone()).await;
        // A node that has vanished in the meantime does not reply.
        self.line.node(node).map(|_| judged)
    }

    async fn record(&self, node: &str, answer: &PassedAnswer) -> Result<FromRecorder, String> {
        Ok(self.line.node(node)?.tasks().record_for_node(answer.clone()).await)
    }

    async fn withdraw_update(&self, node: &str, rejected: &RejectedUpdate) -> Result<bool, String> {
        self.line.asked.lock().unwrap().push(node.to_owned());
        Ok(self.line.node(node)?.request_reply().withdraw_for_node(rejected.clone()))
    }

    async fn deliver_results(&self, node: &str, said: &StrayAnswer) -> Result<bool, String> {
        Ok(self.line.node(node)?.request_reply().deliver_answers(said.clone()))
    }

    async fn append_output(&self, node: &str, output: &ForwardedOutput) -> Result<FromOutputWriter, String> {
        Ok(self.line.node(node)?.outputs().append_for_node(output.clone()).await)
    }

    async fn read_output(&self, node: &str, request: &OutputRequest) -> Result<FromOutputReader, String> {
        Ok(self.line.node(node)?.outputs().read_for_node(request.clone()).await)
    }
}

pub(crate) async fn nodes<const N: usize>() -> ([Service; N], Arc<Line>) {
    let (store, clock, line) = (fresh().await, clock(), Arc::new(Line::default()));
    let mut nodes = Vec::new();
    for number in 0..N {
        let address = format!("http://node{number}");
        let node = open(&store, &clock, Some(address.clone())).await;
        node.engine.join(Arc::new(From { me: address.clone(), line: Arc::clone(&line) }));
        line.nodes.lock().unwrap().insert(address, Arc::clone(&node.engine));
        nodes.push(node);
    }
    // Waits until the nodes know each other.
    pass(nodes.first().unwrap(), 4).await;
    (nodes.try_into().ok().unwrap(), line)
}

type Polling = tokio::task::JoinHandle<Option<Delivery<DeciderTask>>>;

fn poll(node: &Service) -> Polling {
    let engine = Arc::clone(&node.engine);
    let poll = Poll { wait: Duration::from_secs(60), ..Poll::default() };
    tokio::spawn(async move { engine.tasks().poll_decider(DOMAIN, "deciders", poll).await.unwrap() })
}

pub(crate) async fn until_waiting(node: &Service, count: usize) {
    let line = format!("baton_pollers_waiting{{domain=\"default\",kind=\"decider\",list=\"deciders\"}} {count}\n");
    let wait = async {
        while !node.engine.render_metrics().contains(&line) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(120), wait).await;
    assert!(waited.is_ok(), "no `{line}` in {}", node.engine.render_metrics());
}

#[tokio::test(start_paused = true)]
async fn a_task_reaches_a_poller_at_another_node_at_once() {
    let ([one, two], _) = nodes().await;
    let polling = poll(&two);
    until_waiting(&two, 1).await;
    let began = Instant::now();
    one.start("w").await;
    let turn = polling.await.unwrap().expect("a turn");
    assert!(began.elapsed() < HANDOVER_MAX, "{:?}", began.elapsed());
    two.complete(turn, vec![crate::succeed()]).await.unwrap();
    assert_eq!(one.names("w").await.last(), Some(&"WorkflowSuccess"));
}

#[tokio::test(start_paused = true)]
async fn a_poller_gets_a_task_that_waits_at_another_node_at_once() {
    let ([one, two], _) = nodes().await;
    one.start("w").await;
    let began = Instant::now();
    let turn = poll(&two).await.unwrap().expect("a turn");
    assert!(began.elapsed() < HANDOVER_MAX, "{:?}", began.elapsed());
    turn.delivered();
}

#[tokio::test(start_paused = true)]
async fn tasks_go_once_to_any_node_with_a_waiting_poller() {
    let ([one, two, three], _) = nodes().await;
    let polling: Vec<Polling> = (0..5).flat_map(|_| [poll(&two), poll(&three)]).collect();
    until_waiting(&two, 5).await;
    until_waiting(&three, 5).await;
    for number in 0..10 {
        one.start(&format!("w{number}")).await;
    }
    let mut ids = Vec::new();
    for polling in polling {
        let turn = polling.await.unwrap().expect("it comes");
        ids.push(turn.task().workflow_id.to_string());
        turn.delivered();
    }
    ids.sort();
    assert_eq!(ids, (0..10).map(|number| format!("w{number}")).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_node_without_pollers_gets_one_offer_and_the_task_stays() {
    let ([one, two], line) = nodes().await;
    let polling = poll(&two);
    until_waiting(&two, 1).await;
    polling.abort();
    drop(polling.await);
    one.start("a").await;
    one.start("b").await;
    tokio::time::sleep(HANDOVER_MAX).await;
    assert_eq!(*line.offers.lock().unwrap(), ["http://node1"], "it refuses, and gets no further offer");
    for _ in 0..2 {
        one.turn().await.delivered();
    }
    // Node two gets offers again after a poller waits there again.
    let polling = poll(&two);
    until_waiting(&two, 1).await;
    one.start("c").await;
    polling.await.unwrap().expect("a turn").delivered();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_waits_again_during_its_refusal_gets_the_task() {
    let ([one, two], line) = nodes().await;
    let polling = poll(&two);
    line.waits.notified().await;
    until_waiting(&two, 1).await;
    polling.abort();
    drop(polling.await);
    let (is_there, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    *line.hold.lock().unwrap() = Some((Arc::clone(&is_there), Arc::clone(&go)));
    one.start("w").await;
    is_there.notified().await;
    let polling = poll(&two);
    line.waits.notified().await;
    let began = Instant::now();
    go.notify_one();
    polling.await.unwrap().expect("it comes").delivered();
    assert!(began.elapsed() < HANDOVER_MAX, "{:?}", began.elapsed());
    assert_eq!(line.offers.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_task_for_an_unreachable_node_goes_to_the_next() {
    let ([one, two, three], line) = nodes().await;
    let (at_two, at_three) = (poll(&two), poll(&three));
    until_waiting(&two, 1).await;
    until_waiting(&three, 1).await;
    line.nodes.lock().unwrap().remove("http://node1");
    one.start("a").await;
    at_three.await.unwrap().expect("a turn").delivered();
    at_two.abort();
}

/// Time without offers to a node that did not reply, plus a margin. Source: `OFFER_PAUSE` in
/// `service/engine/src/lists/elsewhere.rs`.
const REST: Duration = Duration::from_millis(600);

#[tokio::test(start_paused = true)]
async fn a_node_unreachable_for_a_moment_gets_offers_again() {
    let ([one, two], line) = nodes().await;
    let polling = poll(&two);
    line.waits.notified().await;
    until_waiting(&two, 1).await;
    let away = line.nodes.lock().unwrap().remove("http://node1").unwrap();
    one.start("w").await;
    while line.offers.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    line.nodes.lock().unwrap().insert("http://node1".to_owned(), away);
    let began = Instant::now();
    // The polling node does not know that its reply was lost, so it does not report its waiting poller again.
    polling.await.unwrap().expect("a turn").delivered();
    assert!(began.elapsed() < REST, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_node_wrongly_considered_dead_gets_tasks_again() {
    let ([one], line) = nodes().await;
    let way = Arc::new(FaultStore::new(Arc::clone(&one.store), 5, Chances::NONE));
    let two = open(&(Arc::clone(&way) as Arc<dyn Store>), &one.clock, Some("http://slow".to_owned())).await;
    two.engine.join(Arc::new(From { me: "http://slow".to_owned(), line: Arc::clone(&line) }));
    line.nodes.lock().unwrap().insert("http://slow".to_owned(), Arc::clone(&two.engine));
    pass(&one, 3).await;
    let polling = poll(&two);
    until_waiting(&two, 1).await;
    way.set_chances(Chances { not_applied: 1_000, ..Chances::NONE });
    pass(&one, 6).await;
    assert_eq!(one.engine.nodes().alive(), ["http://node0"]);
    assert_eq!(two.engine.nodes().alive(), ["http://node0", "http://slow"], "no node joined or left");
    way.set_on(false);
    pass(&one, 3).await;
    let began = Instant::now();
    one.start("w").await;
    polling.await.unwrap().expect("it comes").delivered();
    assert!(began.elapsed() < HANDOVER_MAX, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_joining_node_is_notified_of_waiting_pollers() {
    let ([one], line) = nodes().await;
    let polling = poll(&one);
    until_waiting(&one, 1).await;
    let two = open(&one.store, &one.clock, Some("http://later".to_owned())).await;
    two.engine.join(Arc::new(From { me: "http://later".to_owned(), line: Arc::clone(&line) }));
    line.nodes.lock().unwrap().insert("http://later".to_owned(), Arc::clone(&two.engine));
    pass(&one, 4).await;
    two.start("w").await;
    let began = Instant::now();
    polling.await.unwrap().expect("it comes").delivered();
    assert!(began.elapsed() < HANDOVER_MAX, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_list_counts_as_polled_until_its_node_refuses() {
    let ([one, two], line) = nodes().await;
    let unpolled = async || {
        let run = one.engine.views().describe(&at("w")).await.unwrap().run;
        one.engine.pollers().unpolled(&DOMAIN.into(), &run)
    };
    let polling = poll(&two);
    line.waits.notified().await;
    until_waiting(&two, 1).await;
    polling.abort();
    drop(polling.await);
    one.clock.advance(history::Duration::from_secs(60));
    let (is_there, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    *line.hold.lock().unwrap() = Some((Arc::clone(&is_there), Arc::clone(&go)));
    one.start("w").await;
    is_there.notified().await;
    assert_eq!(unpolled().await, [], "this node still knows of a waiting poller");
    go.notify_one();
    tokio::time::sleep(HANDOVER_MAX).await;
    let since = one.clock.now();
    assert_eq!(unpolled().await, [Unpolled { task_list: "deciders".to_owned(), is_decider: true, since }]);
    one.clock.advance(history::Duration::from_secs(60));
    assert_eq!(unpolled().await.first().map(|list| list.since), Some(since));
}

#[tokio::test(start_paused = true)]
async fn a_poll_without_a_wait_notifies_no_other_node() {
    let ([one, two], line) = nodes().await;
    assert!(two.engine.tasks().poll_decider(DOMAIN, "deciders", Poll::default()).await.unwrap().is_none());
    one.start("w").await;
    tokio::time::sleep(HANDOVER_MAX).await;
    assert!(line.offers.lock().unwrap().is_empty());
}
