//! The errors for unusable tables, and the agreement of the definitions in `docs/dynamodb` with the code.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed step fails the test")]

use crate::support::{Emulator, TABLE};
use baton_store_dynamodb::{Create, Options, TableError};
use serde_json::{Value, json};

const CLOUD_FORMATION: &str = include_str!("../../../../docs/dynamodb/table.json");
const POLICY: &str = include_str!("../../../../docs/dynamodb/policy.json");

/// Returns the properties of the table in the `CloudFormation` template.
fn defined() -> Value {
    let template: Value = serde_json::from_str(CLOUD_FORMATION).unwrap();
    template.pointer("/Resources/Table/Properties").unwrap().clone()
}

/// Creates an emulator with the table of the `CloudFormation` template, after a change.
fn with(change: impl FnOnce(&mut Value)) -> Emulator {
    let mut table = defined();
    let kept = ["AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "BillingMode"];
    table.as_object_mut().unwrap().retain(|name, _| kept.contains(&name.as_str()));
    table["TableName"] = TABLE.into();
    change(&mut table);
    let emulator = Emulator::new();
    emulator.send("CreateTable", &table);
    emulator
}

async fn check_error(emulator: &Emulator) -> String {
    emulator.store().check().await.unwrap_err().to_string()
}

#[tokio::test]
async fn the_cloud_formation_template_matches_the_created_table() {
    let emulator = Emulator::new();
    emulator.store().create_table(Create { is_protected: true }).await.unwrap();
    let made = emulator.send("DescribeTable", &json!({"TableName": TABLE}));
    let made = made.get("Table").unwrap();
    let defined = defined();
    let sorted = |value: &Value, by: &str| {
        let mut items = value.as_array().unwrap().clone();
        items.sort_by_key(|item| item[by].as_str().unwrap().to_owned());
        items
    };
    let attributes = |of: &Value| sorted(&of["AttributeDefinitions"], "AttributeName");
    assert_eq!(attributes(&defined), attributes(made));
    assert_eq!(defined["KeySchema"], made["KeySchema"]);
    let indexes = |of: &Value| {
        let indexes = sorted(&of["GlobalSecondaryIndexes"], "IndexName");
        let shape = |index: &Value| json!([index["IndexName"], index["KeySchema"], index["Projection"]]);
        indexes.iter().map(shape).collect::<Vec<_>>()
    };
    assert_eq!(indexes(&defined), indexes(made));
    assert_eq!(defined["BillingMode"], made["BillingModeSummary"]["BillingMode"]);
    assert_eq!(defined["DeletionProtectionEnabled"], true);
    assert_eq!(made["DeletionProtectionEnabled"], true);
    let ttl = emulator.send("DescribeTimeToLive", &json!({"TableName": TABLE}));
    assert_eq!(defined["TimeToLiveSpecification"]["AttributeName"], ttl["TimeToLiveDescription"]["AttributeName"]);
    assert_eq!(defined["TimeToLiveSpecification"]["Enabled"], true);
    assert!(emulator.store().check().await.unwrap().has_ttl);
}

#[tokio::test]
async fn the_policy_allows_exactly_the_operations_of_a_service() {
    let policy: Value = serde_json::from_str(POLICY).unwrap();
    let statements = policy["Statement"].as_array().unwrap();
    let allowed = |index: usize| {
        let actions = statements[index]["Action"].as_array().unwrap();
        actions.iter().map(|action| action.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut actions = [allowed(0), allowed(1)].concat();
    actions.sort();
    let expected = [
        "dynamodb:DeleteItem",
        "dynamodb:DescribeTable",
        "dynamodb:DescribeTimeToLive",
        "dynamodb:GetItem",
        "dynamodb:PutItem",
        "dynamodb:Query",
        "dynamodb:Scan",
    ];
    assert_eq!(actions, expected);
    assert_eq!(statements.len(), 2);
    // The conformance suite uses only the allowed operations. The emulators record the operations that are used.
    let emulators = std::sync::Mutex::new(Vec::new());
    store::conformance::all(async || {
        let emulator = Emulator::new();
        emulator.store().create_table(Create::default()).await.unwrap();
        emulator.operations();
        let (store, _) = emulator.store().open().await.unwrap();
        emulators.lock().unwrap().push(emulator);
        std::sync::Arc::new(store) as std::sync::Arc<dyn store::Store>
    })
    .await;
    let used: std::collections::BTreeSet<String> =
        emulators.lock().unwrap().iter().flat_map(Emulator::operations).collect();
    assert!(used.len() >= 5, "{used:?}");
    for operation in used {
        assert!(expected.contains(&format!("dynamodb:{operation}").as_str()), "{operation} is not allowed");
    }
}

#[tokio::test]
async fn the_error_for_a_missing_table_names_the_place() {
    let text = check_error(&Emulator::new()).await;
    assert!(text.contains("table `baton` does not exist in the emulator") && text.contains("create-table"), "{text}");
}

#[tokio::test]
async fn the_error_for_a_table_in_another_region_names_the_region() {
    let emulator = Emulator::new();
    emulator.store().create_table(Create::default()).await.unwrap();
    let elsewhere = emulator.store_in("us-east-1", "us-east-1", Options::new(TABLE));
    let checked = elsewhere.check().await.unwrap_err().to_string();
    assert!(
        checked.contains("table `baton` does not exist in us-east-1") && checked.contains("--region, AWS_REGION"),
        "{checked}"
    );
    // A service does not start with this table either.
    let opened = elsewhere.open().await.err().unwrap().to_string();
    assert_eq!(opened, checked);
    emulator.store().check().await.unwrap();
}

#[tokio::test]
async fn an_existing_table_is_not_created_again() {
    let emulator = Emulator::new();
    emulator.store().create_table(Create::default()).await.unwrap();
    let again = emulator.store().create_table(Create::default()).await.unwrap_err();
    assert!(matches!(again, TableError::Exists { .. }), "{again}");
}

#[tokio::test]
async fn a_table_with_other_keys_or_indexes_is_refused() {
    let other_keys = with(|table| {
        table["KeySchema"][1]["AttributeName"] = "gs".into();
        table["AttributeDefinitions"] = Value::Array(
            table["AttributeDefinitions"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|it| it["AttributeName"] != "s")
                .cloned()
                .collect(),
        );
    });
    let text = check_error(&other_keys).await;
    assert!(text.contains("its keys are k (S), gs (B), but must be k (S), s (S)"), "{text}");
    let without_index = with(|table| {
        table["GlobalSecondaryIndexes"].as_array_mut().unwrap().retain(|index| index["IndexName"] != "vis");
        table["AttributeDefinitions"]
            .as_array_mut()
            .unwrap()
            .retain(|it| !["g", "gs"].contains(&it["AttributeName"].as_str().unwrap()));
    });
    assert!(check_error(&without_index).await.contains("it has no index `vis`"));
    let narrow = with(|table| {
        for index in table["GlobalSecondaryIndexes"].as_array_mut().unwrap() {
            index["Projection"] = json!({"ProjectionType": "KEYS_ONLY"});
        }
    });
    assert!(check_error(&narrow).await.contains("its index `vis` does not contain `r`"));
}

#[tokio::test]
async fn provisioned_capacity_is_accepted_only_if_allowed() {
    let throughput = json!({"ReadCapacityUnits": 5, "WriteCapacityUnits": 5});
    let emulator = with(|table| {
        table["BillingMode"] = "PROVISIONED".into();
        table["ProvisionedThroughput"] = throughput.clone();
        for index in table["GlobalSecondaryIndexes"].as_array_mut().unwrap() {
            index["ProvisionedThroughput"] = throughput.clone();
        }
    });
    let text = check_error(&emulator).await;
    assert!(text.contains("on-demand") && text.contains("--allow-provisioned"), "{text}");
    let options = Options { allows_provisioned: true, ..Options::new(TABLE) };
    let (store, checked) = emulator.store_with(options).open().await.unwrap();
    assert!(!checked.has_ttl);
    drop(store);
}

#[tokio::test]
async fn a_node_with_other_shard_counts_is_refused() {
    let emulator = Emulator::new();
    emulator.store().create_table(Create::default()).await.unwrap();
    let options = Options::new(TABLE);
    emulator.store_with(options.clone()).open().await.unwrap();
    emulator.store_with(options.clone()).open().await.unwrap();
    let other = emulator.store_with(Options { due_shards: 32, ..options }).open().await.unwrap_err().to_string();
    assert!(other.contains("16 shards of `due` and 4 of `vis`") && other.contains("32 shards"), "{other}");
}

#[tokio::test]
async fn expired_credentials_and_an_unreachable_service_differ() {
    let emulator = Emulator::new();
    emulator.refuse("ExpiredTokenException");
    let text = check_error(&emulator).await;
    assert!(text.contains("refuses the credentials") && text.contains("ExpiredTokenException"), "{text}");
    emulator.refuse("SomethingElseException");
    let text = check_error(&emulator).await;
    assert!(text.contains("is unreachable") && text.contains("SomethingElseException"), "{text}");
}
