//! Tests that this version can read the tables of earlier versions, that all recorded data is there, and that the runs
//! continue to their ends. Uses the DynamoDB Local that `BATON_TEST_DYNAMODB` names.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use serde_json::json;
use simulation::stores::{new_table, over_table};
use upgrade::record::Recorded;
use upgrade::{recorded, table};

fn endpoint() -> String {
    std::env::var("BATON_TEST_DYNAMODB").expect("BATON_TEST_DYNAMODB names no engine: see service/tests/dynamodb.rs")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_an_earlier_version_is_opened_and_all_that_is_open_in_it_goes_on() {
    for of in recorded().unwrap() {
        let recorded = Recorded::read(&of.join("table.json.gz")).unwrap();
        let name = new_table(&endpoint()).await;
        table::load(&endpoint(), &name, &of.join("table.jsonl.gz")).await.unwrap();
        let store = over_table(&endpoint(), &name).await.unwrap();
        support::hold(store, &recorded, &of.display().to_string()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_a_newer_version_wrote_is_refused_with_what_to_do() {
    let name = new_table(&endpoint()).await;
    drop(over_table(&endpoint(), &name).await.unwrap());
    let found = table::ask(&endpoint(), "Scan", &json!({ "TableName": name })).await.unwrap();
    let mut item = found["Items"][0].clone();
    let known: u64 = item["f"]["N"].as_str().unwrap().parse().unwrap();
    item["f"] = json!({ "N": (known + 1).to_string() });
    // A newer format may have attributes that this version does not know.
    item["new"] = json!({ "S": "not known here" });
    table::ask(&endpoint(), "PutItem", &json!({ "TableName": name, "Item": item })).await.unwrap();
    let refused = over_table(&endpoint(), &name).await.err().unwrap();
    for said in [&format!("form {}", known + 1), &format!("form {known}"), "newer version", "docs/upgrading.md"] {
        assert!(refused.contains(said), "{refused}");
    }
    let after = table::ask(&endpoint(), "Scan", &json!({ "TableName": name })).await.unwrap();
    assert_eq!(after["Items"], json!([item]), "nothing was written");
}
