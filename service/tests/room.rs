//! Runs that are as full as may be, over the memory store, DynamoDB's engine, and the embedded one.

use simulation::crowd::fill_and_end;
use simulation::stores::fresh;
use store_embedded::{Embedded, Options};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_everything_open_at_once_is_brought_to_its_end() {
    fill_and_end(fresh().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_everything_open_at_once_is_brought_to_its_end_over_the_embedded_store() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let store = Embedded::open(Options::new(directory.path())).await.expect("a store");
    fill_and_end(store).await;
}
