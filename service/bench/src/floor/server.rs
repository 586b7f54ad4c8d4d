//! The empty server.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

use super::log::Log;
use crate::failed::Failed;
use crate::service::other;

/// Serves until it is killed. Its address is written to the file `address` in the directory.
pub(super) fn serve(directory: &Path) -> Result<(), Failed> {
    let failed = |error: std::io::Error| other(format!("the floor: {error}"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let log = Log::open(directory).map_err(failed)?;
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        std::fs::write(directory.join("address"), address.to_string()).map_err(failed)?;
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        let router = Router::new().fallback(round_trip).with_state(log);
        axum::serve(listener, router).await.map_err(failed)
    })
}

/// Returns the body once it is durable.
async fn round_trip(State(log): State<Arc<Log>>, body: Bytes) -> Bytes {
    log.append(&body).await;
    body
}
