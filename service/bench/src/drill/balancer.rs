//! A simple load balancer: each connection goes to the next node that accepts it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A running load balancer. It stops when this value is dropped.
pub(super) struct Balancer {
    pub(super) url: String,
    accepting: JoinHandle<()>,
}

impl Balancer {
    pub(super) async fn start(nodes: Vec<SocketAddr>) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let next = Arc::new(AtomicUsize::new(0));
        let accepting = tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                tokio::spawn(pass_on(caller, nodes.clone(), Arc::clone(&next)));
            }
        });
        Ok(Self { url, accepting })
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass_on(mut caller: TcpStream, nodes: Vec<SocketAddr>, next: Arc<AtomicUsize>) {
    let first = next.fetch_add(1, Ordering::Relaxed);
    for node in nodes.iter().cycle().skip(first % nodes.len().max(1)).take(nodes.len()) {
        if let Ok(mut node) = TcpStream::connect(node).await {
            drop((caller.set_nodelay(true), node.set_nodelay(true)));
            // If one of the two connections fails, the other one is closed, too.
            drop(copy_bidirectional(&mut caller, &mut node).await);
            return;
        }
    }
}
