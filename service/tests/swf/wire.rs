//! Targets, content types, bodies and faults.

use serde_json::{Value, json};

use crate::support::{SWF, Swf};

const TARGET: (&str, &str) = ("x-amz-target", "SimpleWorkflowService.DescribeDomain");
const JSON: (&str, &str) = ("content-type", "application/x-amz-json-1.0");
const DEFAULT: &str = r#"{"name":"default"}"#;

#[tokio::test]
async fn an_operation_is_the_part_after_the_last_dot_of_the_target() {
    let swf = Swf::open().await;
    let old = ("x-amz-target", "com.amazonaws.swf.service.model.SimpleWorkflowService.DescribeDomain");
    let answers = [
        swf.send(&[TARGET, JSON], DEFAULT).await,
        // boto 2 sends these headers, and AWS still accepted them in 2023.
        swf.send(&[old, ("content-type", "application/json; charset=UTF-8"), ("content-encoding", "amz-1.0")], DEFAULT)
            .await,
    ];
    for answer in answers {
        assert_eq!(answer.json()["domainInfo"]["name"], "default");
        assert_eq!(answer.headers["content-type"], "application/x-amz-json-1.0");
    }
}

#[tokio::test]
async fn an_encoded_body_returns_415_with_its_encoding() {
    let swf = Swf::open().await;
    for encoding in ["gzip", "GZip", "identity, br", "aws-chunked", "amz-1.0, deflate"] {
        let answer = swf.send(&[TARGET, JSON, ("content-encoding", encoding)], vec![0x1f, 0x8b]).await;
        assert_eq!(answer.status, 415, "{encoding}: {}", answer.text);
        let named = encoding.rsplit(", ").next().unwrap();
        assert!(
            answer.text.contains("UnsupportedMediaTypeException") && answer.text.contains(named),
            "{}",
            answer.text
        );
    }
    for plain in ["identity", "IDENTITY", "amz-1.0", "AMZ-1.0", ""] {
        swf.send(&[TARGET, JSON, ("content-encoding", plain)], DEFAULT).await.json();
    }
}

#[tokio::test]
async fn every_response_has_a_separate_request_id() {
    let swf = Swf::open().await;
    let answers = [swf.send(&[TARGET, JSON], DEFAULT).await, swf.send(&[TARGET, JSON], "!").await];
    let ids: Vec<_> = answers.iter().map(|answer| answer.headers["x-amzn-requestid"].to_str().unwrap()).collect();
    assert!(ids.iter().all(|id| id.len() == 36), "{ids:?}");
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn an_unknown_target_is_a_fault() {
    let swf = Swf::open().await;
    let unknown = "com.amazon.coral.service#UnknownOperationException";
    swf.send(&[JSON], DEFAULT).await.fault(unknown, "");
    for name in ["DescribeDomainx", "describeDomain", "é"] {
        let target = format!("SimpleWorkflowService.{name}");
        let answer = swf.send(&[("x-amz-target", &target), JSON], DEFAULT).await;
        assert_eq!(answer.status, 400);
        assert!(answer.text.contains(unknown), "{}", answer.text);
    }
    swf.send(&[TARGET, ("content-type", "text/xml")], DEFAULT)
        .await
        .fault(unknown, "Content-Type must be application/x-amz-json-1.0, found 'text/xml'");
}

#[tokio::test]
async fn a_body_that_is_not_a_json_object_is_a_fault() {
    let swf = Swf::open().await;
    let kind = "com.amazon.coral.service#SerializationException";
    let deep = "[".repeat(100_000);
    for body in ["!", "[]", "7", "null", "{\"name\":", "{\"name\":\"\\ud800\"}", deep.as_str()] {
        swf.send(&[TARGET, JSON], body.to_owned()).await.fault(kind, "");
    }
    swf.send(&[TARGET, JSON], vec![b'{', 0xff, b'}']).await.fault(kind, "");
    let cases = [
        (json!({ "name": 7 }), "NUMBER_VALUE can not be converted to a String"),
        (json!({ "name": true }), "TRUE_VALUE can not be converted to a String"),
        (json!({ "name": ["default"] }), "START_ARRAY can not be converted to a String"),
        (json!({ "name": { "name": "default" } }), "START_OBJECT can not be converted to a String"),
    ];
    for (body, message) in cases {
        swf.ask("DescribeDomain", &body).await.fault(kind, message);
    }
}

#[tokio::test]
async fn a_request_over_1_mib_is_a_fault() {
    let swf = Swf::open().await;
    let fitting = format!(r#"{{"name":"default","more":"{}"}}"#, "x".repeat(1024 * 1024 - 28));
    assert_eq!(fitting.len(), 1024 * 1024);
    swf.send(&[TARGET, JSON], fitting.clone()).await.json();
    let answer = swf.send(&[TARGET, JSON], fitting + " ").await;
    assert_eq!(answer.status, 413);
    let fault: Value = serde_json::from_str(&answer.text).unwrap();
    assert_eq!(fault["__type"], "com.amazon.coral.service#RequestEntityTooLargeException");
}

#[tokio::test]
async fn all_members_of_a_request_are_validated_together() {
    let swf = Swf::open().await;
    let null = |path: &str| format!("Value null at '{path}' failed to satisfy constraint: Member must not be null");
    swf.send(&[TARGET, JSON], "").await.invalid(&format!("1 validation error detected: {}", null("name")));
    swf.ask("DescribeDomain", &json!({ "name": null }))
        .await
        .invalid(&format!("1 validation error detected: {}", null("name")));
    swf.ask("DescribeWorkflowExecution", &json!({})).await.invalid(&format!(
        "2 validation errors detected: {}; {}",
        null("execution"),
        null("domain")
    ));
    swf.ask("DescribeWorkflowExecution", &json!({ "domain": "d", "execution": {} })).await.invalid(&format!(
        "2 validation errors detected: {}; {}",
        null("execution.runId"),
        null("execution.workflowId")
    ));
    let value = |value: &str, path: &str, what: &str| {
        format!("1 validation error detected: Value '{value}' at '{path}' failed to satisfy constraint: {what}")
    };
    let list = |size: i64, status: &str| json!({ "registrationStatus": status, "maximumPageSize": size });
    swf.ask("ListDomains", &list(1_000, "REGISTERED")).await.json();
    swf.ask("ListDomains", &list(0, "REGISTERED")).await.json();
    swf.ask("ListDomains", &list(1_001, "REGISTERED")).await.invalid(&value(
        "1001",
        "maximumPageSize",
        "Member must have value less than or equal to 1000",
    ));
    swf.ask("ListDomains", &list(-1, "REGISTERED")).await.invalid(&value(
        "-1",
        "maximumPageSize",
        "Member must have value greater than or equal to 0",
    ));
    swf.ask("ListDomains", &list(1, "registered")).await.invalid(&value(
        "registered",
        "registrationStatus",
        "Member must satisfy enum value set: [REGISTERED, DEPRECATED]",
    ));
}

#[tokio::test]
async fn lengths_count_characters_and_list_members_start_at_one() {
    let swf = Swf::open().await;
    let unknown = format!("{SWF}UnknownResourceFault");
    let edge = "漢".repeat(256);
    swf.ask("DescribeDomain", &json!({ "name": edge })).await.fault(&unknown, &format!("Unknown domain: {edge}"));
    let longer = "x".repeat(257);
    swf.ask("DescribeDomain", &json!({ "name": longer })).await.invalid(&format!(
        "1 validation error detected: Value '{longer}' at 'name' failed to satisfy constraint: \
         Member must have length less than or equal to 256"
    ));
    swf.ask("DescribeDomain", &json!({ "name": "" })).await.invalid(
        "1 validation error detected: Value '' at 'name' failed to satisfy constraint: \
         Member must have length greater than or equal to 1",
    );
    let decisions = json!([
        { "decisionType": "StartTimer" },
        { "decisionType": "StartTimer", "startTimerDecisionAttributes": { "startToFireTimeout": "x" } },
        { "decisionType": "Nap" },
        { "decisionType": "CompleteWorkflowExecution" },
        null,
    ]);
    swf.ask("RespondDecisionTaskCompleted", &json!({ "taskToken": "t", "decisions": decisions })).await.invalid(
        "5 validation errors detected: \
         Value null at 'decisions.1.member.startTimerDecisionAttributes' failed to satisfy constraint: \
         Member must not be null; \
         Value null at 'decisions.2.member.startTimerDecisionAttributes.timerId' failed to satisfy constraint: \
         Member must not be null; \
         Value 'x' at 'decisions.2.member.startTimerDecisionAttributes.startToFireTimeout' failed to satisfy constraint: \
         Member must be a number of seconds; \
         Value 'Nap' at 'decisions.3.member.decisionType' failed to satisfy constraint: \
         Member must satisfy enum value set: [CompleteWorkflowExecution, StartTimer, \
         RequestCancelExternalWorkflowExecution, SignalExternalWorkflowExecution, CancelTimer, RecordMarker, \
         ScheduleActivityTask, ContinueAsNewWorkflowExecution, ScheduleLambdaFunction, FailWorkflowExecution, \
         RequestCancelActivityTask, StartChildWorkflowExecution, CancelWorkflowExecution]; \
         Value null at 'decisions.5.member' failed to satisfy constraint: Member must not be null",
    );
}
