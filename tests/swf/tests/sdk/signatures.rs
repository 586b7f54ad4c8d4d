//! Requests signed by the SDK, to a service with configured credentials, and the permissions of each credential.

use std::time::Duration;

use service::access::{Credential, Credentials};
use swf_sdk::decisions::{complete, schedule};
use swf_sdk::{ORDER, World, fault, list, workflow};

fn key(name: &str) -> Credential {
    Credential {
        name: name.to_owned(),
        access_key_id: Some(format!("{name}-id")),
        secret_access_key: Some(format!("{name}-secret-access-key")),
        ..Credential::default()
    }
}

fn one(text: &str) -> Vec<String> {
    vec![text.to_owned()]
}

/// Creates a service with an operator's credential, which the client of `World` uses, and with one credential each for
/// an application, a decider and a runner.
async fn world() -> World {
    let own = Credential {
        access_key_id: Some("id".to_owned()),
        secret_access_key: Some("a secret of the tests".to_owned()),
        operator: true,
        ..key("ops")
    };
    let keys = vec![
        own,
        Credential { applications: one("default"), ..key("shop") },
        Credential { deciders: one("default/deciders"), ..key("decider") },
        Credential { runners: one("default/runners"), ..key("runner") },
    ];
    World::guarded(Credentials::new(keys).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn each_holder_of_a_key_may_do_what_is_its_own_and_nothing_else() {
    let world = world().await;
    world.register().await;
    let [shop, decider, runner] = ["shop", "decider", "runner"]
        .map(|name| world.client(&format!("{name}-id"), &format!("{name}-secret-access-key"), 0));
    let start = |client: &aws_sdk_swf::Client| {
        client.start_workflow_execution().domain("default").workflow_id("w").workflow_type(workflow(ORDER)).send()
    };
    let words = "OperationNotPermittedFault: The credential has no permission to";
    assert_eq!(fault(start(&decider).await), format!("{words} use workflows of domain `default`"));
    start(&shop).await.unwrap();
    let poll = |client: &aws_sdk_swf::Client, name| {
        client.poll_for_decision_task().domain("default").task_list(list(name)).send()
    };
    let of = |name| format!("{words} take or answer turns of list `{name}` in domain `default`");
    assert_eq!(fault(poll(&shop, "deciders").await), of("deciders"));
    assert_eq!(fault(poll(&decider, "others").await), of("others"));
    let turn = poll(&decider, "deciders").await.unwrap();
    let answer = |client: &aws_sdk_swf::Client| {
        client.respond_decision_task_completed().task_token(&turn.task_token).decisions(schedule("a")).send()
    };
    assert_eq!(fault(answer(&runner).await), of("deciders"));
    answer(&decider).await.unwrap();
    let take = |client: &aws_sdk_swf::Client| {
        client.poll_for_activity_task().domain("default").task_list(list("runners")).send()
    };
    let of_runners = format!("{words} take or answer activities of list `runners` in domain `default`");
    assert_eq!(fault(take(&decider).await), of_runners);
    let task = take(&runner).await.unwrap();
    let beat =
        |client: &aws_sdk_swf::Client| client.record_activity_task_heartbeat().task_token(&task.task_token).send();
    assert_eq!(fault(beat(&shop).await), of_runners);
    beat(&runner).await.unwrap();
    let deprecate = |client: &aws_sdk_swf::Client| client.deprecate_domain().name("default").send();
    assert_eq!(fault(deprecate(&shop).await), format!("{words} operate domain `default`"));
    shop.describe_domain().name("default").send().await.unwrap();
    runner.respond_activity_task_completed().task_token(&task.task_token).send().await.unwrap();
    world.decide(vec![complete("")]).await;
    deprecate(&world.swf).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_unknown_or_has_another_secret_is_refused() {
    let world = world().await;
    let ask = |client: aws_sdk_swf::Client| async move { client.describe_domain().name("default").send().await };
    let unknown = "UnrecognizedClientException: The security token included in the request is invalid.";
    assert_eq!(fault(ask(world.client("no", "a secret of the tests", 0)).await), unknown);
    let other = fault(ask(world.client("id", "secrets", 0)).await);
    assert!(other.starts_with("InvalidSignatureException: The request signature we calculated"), "{other}");
    ask(world.client("id", "a secret of the tests", 299)).await.unwrap();
    let ahead = fault(ask(world.client("id", "a secret of the tests", 301)).await);
    assert!(ahead.starts_with("InvalidSignatureException: Signature not yet current: "), "{ahead}");
    world.pass(Duration::from_secs(301).as_secs()).await;
    let late = fault(ask(world.client("id", "a secret of the tests", -301)).await);
    assert!(late.starts_with("InvalidSignatureException: Signature expired: "), "{late}");
}

#[tokio::test(start_paused = true)]
async fn where_there_are_no_credentials_any_signature_is_taken() {
    let world = World::open().await;
    let client = world.client("whoever", "whatever", 100_000);
    client.describe_domain().name("default").send().await.unwrap();
}
