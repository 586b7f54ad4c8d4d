//! A run with as much open at once as may be, over a table: its head has room for whatever comes of that.

mod support;

use std::sync::Arc;

use baton_store_dynamodb::{Create, Options};
use simulation::crowd::fill_and_end;
use support::Emulator;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_everything_open_at_once_is_brought_to_its_end() {
    let table = Emulator::new().store_with(Options::new("baton"));
    table.create_table(Create::default()).await.unwrap();
    fill_and_end(Arc::new(table)).await;
}
