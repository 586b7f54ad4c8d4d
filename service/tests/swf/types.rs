//! Types: registration with defaults, lists, deprecation, deletion.

use serde_json::{Value, json};

use crate::support::{SWF, Swf};

/// Both kinds of types, with their names in messages.
const KINDS: [(&str, &str, &str); 2] =
    [("Workflow", "workflowType", "WorkflowType"), ("Activity", "activityType", "ActivityType")];

fn named(member: &str, name: &str, version: &str) -> Value {
    json!({ "domain": "default", member: { "name": name, "version": version } })
}

fn register(name: &str, version: &str) -> Value {
    json!({ "domain": "default", "name": name, "version": version })
}

#[tokio::test]
async fn a_type_is_registered_once_with_its_defaults() {
    let swf = Swf::open().await;
    let workflow = json!({
        "domain": "default", "name": "order", "version": "1.0", "description": "",
        "defaultTaskStartToCloseTimeout": "NONE", "defaultExecutionStartToCloseTimeout": "3600",
        "defaultTaskList": { "name": "deciders" }, "defaultTaskPriority": "-3", "defaultChildPolicy": "REQUEST_CANCEL",
        "defaultLambdaRole": "arn:aws:iam::1:role/r",
    });
    let activity = json!({
        "domain": "default", "name": "order", "version": "1.0",
        "defaultTaskStartToCloseTimeout": "60", "defaultTaskHeartbeatTimeout": "NONE",
        "defaultTaskList": { "name": "runners" }, "defaultTaskPriority": "2147483647",
        "defaultTaskScheduleToStartTimeout": "0", "defaultTaskScheduleToCloseTimeout": "99999999",
    });
    for ((kind, member, word), registered) in KINDS.into_iter().zip([workflow, activity]) {
        swf.ask(&format!("Register{kind}Type"), &registered).await.nothing();
        let described = swf.ask(&format!("Describe{kind}Type"), &named(member, "order", "1.0")).await.json();
        let defaults = registered.as_object().unwrap().iter().filter(|(name, _)| name.starts_with("default"));
        let defaults: serde_json::Map<_, _> = defaults.map(|(name, value)| (name.clone(), value.clone())).collect();
        assert_eq!(described["configuration"], json!(defaults));
        let info = &described["typeInfo"];
        assert_eq!(info[member], json!({ "name": "order", "version": "1.0" }));
        assert_eq!(info["status"], "REGISTERED");
        assert_eq!(info.get("description"), registered.get("description"));
        assert!(info["creationDate"].as_f64().unwrap() > 1e9);
        assert_eq!(info.get("deprecationDate"), None);
        swf.ask(&format!("Register{kind}Type"), &registered)
            .await
            .fault(&format!("{SWF}TypeAlreadyExistsFault"), &format!("{word}=[name=order, version=1.0]"));
    }
}

#[tokio::test]
async fn of_concurrent_registrations_of_a_type_one_succeeds() {
    let swf = Swf::open().await;
    let registers = (0..8).map(|_| async { swf.ask("RegisterWorkflowType", &register("order", "1")).await.status });
    let mut statuses = futures_util::future::join_all(registers).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 400, 400, 400, 400, 400, 400, 400]);
}

#[tokio::test]
async fn a_type_is_deprecated_restored_and_deleted() {
    for (kind, member, word) in KINDS {
        let swf = Swf::open().await;
        let (it, bare) = (named(member, "order", "1"), format!("{word}=[name=order, version=1]"));
        let (unknown, ask) =
            (format!("Unknown type: {bare}"), async |verb: &str| swf.ask(&format!("{verb}{kind}Type"), &it).await);
        for verb in ["Describe", "Deprecate", "Undeprecate", "Delete"] {
            ask(verb).await.fault(&format!("{SWF}UnknownResourceFault"), &unknown);
        }
        swf.ask(&format!("Register{kind}Type"), &register("order", "1")).await.nothing();
        ask("Undeprecate").await.fault(&format!("{SWF}TypeAlreadyExistsFault"), &bare);
        let in_use = "The type is currently registered and cannot be deleted in its current state";
        ask("Delete").await.fault(&format!("{SWF}TypeNotDeprecatedFault"), in_use);
        ask("Deprecate").await.nothing();
        ask("Deprecate").await.fault(&format!("{SWF}TypeDeprecatedFault"), &bare);
        let described = ask("Describe").await.json();
        assert_eq!(described["typeInfo"]["status"], "DEPRECATED");
        assert!(described["typeInfo"]["deprecationDate"].is_number());
        ask("Undeprecate").await.nothing();
        ask("Deprecate").await.nothing();
        ask("Delete").await.nothing();
        ask("Describe").await.fault(&format!("{SWF}UnknownResourceFault"), &unknown);
        swf.ask(&format!("Register{kind}Type"), &register("order", "1")).await.nothing();
        assert_eq!(ask("Describe").await.json()["typeInfo"]["status"], "REGISTERED");
    }
}

#[tokio::test]
async fn types_are_listed_by_name_and_version_in_pages() {
    let swf = Swf::open().await;
    for (name, version) in [("b", "1"), ("a b", "1"), ("a", "2"), ("a", "1"), ("c", "1")] {
        swf.ask("RegisterActivityType", &register(name, version)).await.nothing();
    }
    swf.ask("DeprecateActivityType", &named("activityType", "c", "1")).await.nothing();
    let list = async |more: Value| {
        let mut list = json!({ "domain": "default", "registrationStatus": "REGISTERED", "maximumPageSize": 2 });
        list.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut found = Vec::new();
        loop {
            let page = swf.ask("ListActivityTypes", &list).await.json();
            for info in page["typeInfos"].as_array().unwrap() {
                let of = |member: &str| info["activityType"][member].as_str().unwrap().to_owned();
                found.push(format!("{} {}", of("name"), of("version")));
            }
            let Some(next) = page.get("nextPageToken") else { return found };
            list["nextPageToken"] = next.clone();
        }
    };
    assert_eq!(list(json!({})).await, ["a 1", "a 2", "a b 1", "b 1"]);
    assert_eq!(list(json!({ "reverseOrder": true })).await, ["b 1", "a b 1", "a 2", "a 1"]);
    assert_eq!(list(json!({ "name": "a" })).await, ["a 1", "a 2"]);
    assert_eq!(list(json!({ "registrationStatus": "DEPRECATED" })).await, ["c 1"]);
    assert!(
        swf.ask("ListWorkflowTypes", &json!({ "domain": "default", "registrationStatus": "REGISTERED" })).await.json()
            ["typeInfos"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    swf.ask("DeprecateDomain", &json!({ "name": "default" })).await.nothing();
    assert!(list(json!({})).await.is_empty(), "types are deprecated with their domain");
    let refused = swf.ask("RegisterActivityType", &register("d", "1")).await;
    refused.fault(&format!("{SWF}DomainDeprecatedFault"), "default");
}
