//! Connections between nodes. A call takes time, may not arrive, and its response may be lost.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use engine::{
    Engine, Forwarded, ForwardedOutput, ForwardedTasks, FromNode, FromOutputReader, FromOutputWriter, FromRecorder,
    FromValidator, HomeReport, LentUpdate, ListName, Offer, OutputRequest, PassedAnswer, Peers, RejectedUpdate,
    ShowLimits, SlotReports, StrayAnswer,
};

/// Maximum duration of a call, in milliseconds.
const DELAY_MAX: u64 = 20;

/// Percentage of calls that do not arrive, and of responses that are lost.
const LOST_PERCENT: u32 = 4;

/// Reachable nodes and the quality of their connections.
pub(crate) struct Line {
    nodes: Mutex<HashMap<String, Arc<Engine>>>,
    random: Mutex<fastrand::Rng>,
    is_calm: AtomicBool,
    calls: AtomicU64,
}

impl Line {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        let random = Mutex::new(fastrand::Rng::with_seed(seed));
        Arc::new(Self { nodes: Mutex::default(), random, is_calm: AtomicBool::new(false), calls: AtomicU64::new(0) })
    }

    /// Stops losing calls.
    pub(crate) fn calm(&self) {
        self.is_calm.store(true, Ordering::SeqCst);
    }

    pub(crate) fn add(self: &Arc<Self>, address: &str, engine: &Arc<Engine>) {
        engine.join(Arc::new(From { me: address.to_owned(), line: Arc::clone(self) }));
        self.nodes
            .lock()
            .expect("no code panics while it holds this lock")
            .insert(address.to_owned(), Arc::clone(engine));
    }

    /// Makes a node unreachable.
    pub(crate) fn remove(&self, engine: &Arc<Engine>) {
        self.nodes.lock().expect("no code panics while it holds this lock").retain(|_, it| !Arc::ptr_eq(it, engine));
    }

    fn dice(&self, below: u64) -> u64 {
        self.random.lock().expect("no code panics while it holds this lock").u64(..below)
    }

    async fn pass(&self) -> Result<(), String> {
        tokio::time::sleep(Duration::from_millis(self.dice(DELAY_MAX))).await;
        let is_lost = self.dice(100) < u64::from(LOST_PERCENT) && !self.is_calm.load(Ordering::SeqCst);
        if is_lost { Err("lost on the line".to_owned()) } else { Ok(()) }
    }

    /// Returns the number of calls so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    fn node(&self, address: &str) -> Result<Arc<Engine>, String> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let nodes = self.nodes.lock().expect("no code panics while it holds this lock");
        nodes.get(address).cloned().ok_or_else(|| "nobody answers".to_owned())
    }

    /// Fails if the node has become unreachable while it handled a call.
    async fn still(&self, node: &str) -> Result<(), String> {
        self.pass().await?;
        self.node(node).map(drop)
    }
}

struct From {
    me: String,
    line: Arc<Line>,
}

#[async_trait]
impl Peers for From {
    async fn wait_on(&self, node: &str, list: &ListName) -> Result<(), String> {
        self.line.pass().await?;
        self.line.node(node)?.lists().waits_at(self.me.clone(), list);
        self.line.pass().await
    }

    async fn offer(&self, node: &str, offer: &Offer) -> Result<bool, String> {
        self.line.pass().await?;
        let is_taken = self.line.node(node)?.lists().take_offer(&self.me, offer);
        self.line.pass().await.map(|()| is_taken)
    }

    async fn forward(&self, node: &str, tasks: &ForwardedTasks) -> Result<bool, String> {
        self.line.pass().await?;
        let answer = self.line.node(node)?.lists().take_forwarded(tasks);
        self.line.pass().await.map(|()| answer)
    }

    async fn report_slots(&self, node: &str, reports: &SlotReports) -> Result<bool, String> {
        self.line.pass().await?;
        let answer = self.line.node(node)?.lists().take_reports(reports);
        self.line.pass().await.map(|()| answer)
    }

    async fn show_limits(&self, node: &str, request: &ShowLimits) -> Result<Vec<HomeReport>, String> {
        self.line.pass().await?;
        let answer = self.line.node(node)?.lists().show_limits_to_node(request);
        self.line.pass().await.map(|()| answer)
    }

    async fn lost(&self, node: &str, polls: &[u64]) -> Result<Option<Offer>, String> {
        self.line.pass().await?;
        let found = self.line.node(node)?.lists().find_lost_for_peer(polls);
        self.line.pass().await.map(|()| found)
    }

    async fn query(&self, node: &str, forwarded: &Forwarded) -> Result<FromNode, String> {
        self.line.pass().await?;
        let answer = self.line.node(node)?.request_reply().query_for_node(forwarded.clone()).await;
        self.line.still(node).await.map(|()| answer)
    }

    async fn validate(&self, node: &str, lent: &LentUpdate) -> Result<FromValidator, String> {
        self.line.pass().await?;
        let answer = self.line.node(node)?.request_reply().validate_for_node(lent.clone()).await;
        self.line.still(node).await.map(|()| answer)
    }

    async fn record(&self, node: &str, answer: &PassedAnswer) -> Result<FromRecorder, String> {
        self.line.pass().await?;
        let recorded = self.line.node(node)?.tasks().record_for_node(answer.clone()).await;
        self.line.still(node).await.map(|()| recorded)
    }

    async fn withdraw_update(&self, node: &str, rejected: &RejectedUpdate) -> Result<bool, String> {
        self.line.pass().await?;
        let has_given_up = self.line.node(node)?.request_reply().withdraw_for_node(rejected.clone());
        self.line.still(node).await.map(|()| has_given_up)
    }

    async fn deliver_results(&self, node: &str, answers: &StrayAnswer) -> Result<bool, String> {
        self.line.pass().await?;
        let is_known = self.line.node(node)?.request_reply().deliver_answers(answers.clone());
        self.line.still(node).await.map(|()| is_known)
    }

    async fn append_output(&self, node: &str, output: &ForwardedOutput) -> Result<FromOutputWriter, String> {
        self.line.pass().await?;
        let appended = self.line.node(node)?.outputs().append_for_node(output.clone()).await;
        self.line.still(node).await.map(|()| appended)
    }

    async fn read_output(&self, node: &str, request: &OutputRequest) -> Result<FromOutputReader, String> {
        self.line.pass().await?;
        let page = self.line.node(node)?.outputs().read_for_node(request.clone()).await;
        self.line.still(node).await.map(|()| page)
    }
}
