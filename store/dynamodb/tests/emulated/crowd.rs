//! A run with the maximum of open activities, timers and children over a table: its head has space for their results.

use std::sync::Arc;

use crate::support::Emulator;
use baton_store_dynamodb::{Create, Options};
use simulation::crowd::fill_and_end;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_everything_open_can_finish() {
    let table = Emulator::new().store_with(Options::new("baton"));
    table.create_table(Create::default()).await.unwrap();
    fill_and_end(Arc::new(table)).await;
}
