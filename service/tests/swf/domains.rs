//! Domains: registration, lists, tags, deprecation.

use serde_json::{Value, json};

use crate::support::{SWF, Swf};

fn register(name: &str) -> Value {
    json!({ "name": name, "workflowExecutionRetentionPeriodInDays": "3" })
}

async fn names(swf: &Swf, status: &str, more: Value) -> Vec<String> {
    let mut list = json!({ "registrationStatus": status });
    list.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let listed = swf.ask("ListDomains", &list).await.json();
    let infos = listed["domainInfos"].as_array().unwrap();
    infos.iter().map(|info| info["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_domain_is_registered_once_and_described() {
    let swf = Swf::open().await;
    let mut shop = register("shop");
    shop["description"] = json!("");
    swf.ask("RegisterDomain", &shop).await.nothing();
    let described = swf.ask("DescribeDomain", &json!({ "name": "shop" })).await.json();
    let expected = json!({
        "domainInfo": {
            "name": "shop",
            "status": "REGISTERED",
            "description": "",
            "arn": "arn:aws:swf:us-east-1:123456789012:/domain/shop",
        },
        "configuration": { "workflowExecutionRetentionPeriodInDays": "3" },
    });
    assert_eq!(described, expected);
    swf.ask("RegisterDomain", &shop).await.fault(&format!("{SWF}DomainAlreadyExistsFault"), "shop");
    // The ARN has the region of the caller's signature.
    let headers = [
        ("x-amz-target", "SimpleWorkflowService.DescribeDomain"),
        ("authorization", "AWS4-HMAC-SHA256 Credential=AKID/20260101/eu-west-1/swf/aws4_request, SignedHeaders=host"),
    ];
    let described = swf.send(&headers, json!({ "name": "default" }).to_string()).await.json();
    assert_eq!(described["domainInfo"]["arn"], "arn:aws:swf:eu-west-1:123456789012:/domain/default");
}

#[tokio::test]
async fn retention_is_a_number_of_days_or_none() {
    let swf = Swf::open().await;
    for (given, told) in [("0", "NONE"), ("NONE", "NONE"), ("90", "90"), ("1", "1")] {
        let name = format!("for-{given}");
        let register = json!({ "name": name, "workflowExecutionRetentionPeriodInDays": given });
        swf.ask("RegisterDomain", &register).await.nothing();
        let described = swf.ask("DescribeDomain", &json!({ "name": name })).await.json();
        assert_eq!(described["configuration"]["workflowExecutionRetentionPeriodInDays"], told);
    }
    for given in ["91", "-1", "none", "1.5"] {
        let register = json!({ "name": "d", "workflowExecutionRetentionPeriodInDays": given });
        assert!(swf.ask("RegisterDomain", &register).await.text.contains("ValidationException"), "{given}");
    }
}

#[tokio::test]
async fn a_name_that_is_invalid_in_an_arn_is_refused() {
    let swf = Swf::open().await;
    for name in ["a:b", "a/b", "a|b", "a\u{1}b", "a\u{9f}b", "arn", " a", "a "] {
        let answer = swf.ask("RegisterDomain", &register(name)).await;
        assert!(answer.text.contains("ValidationException"), "{name:?}: {}", answer.text);
    }
    for name in ["arn2", "a b", "ä-_.#%"] {
        swf.ask("RegisterDomain", &register(name)).await.nothing();
    }
}

#[tokio::test]
async fn domains_are_listed_by_name_and_in_pages() {
    let swf = Swf::open().await;
    for name in ["c", "a", "b"] {
        swf.ask("RegisterDomain", &register(name)).await.nothing();
    }
    swf.ask("DeprecateDomain", &json!({ "name": "b" })).await.nothing();
    assert_eq!(names(&swf, "REGISTERED", json!({})).await, ["a", "c", "default"]);
    assert_eq!(names(&swf, "REGISTERED", json!({ "reverseOrder": true })).await, ["default", "c", "a"]);
    assert_eq!(names(&swf, "DEPRECATED", json!({})).await, ["b"]);
    for (is_reverse, expected) in [(false, ["a", "c", "default"]), (true, ["default", "c", "a"])] {
        let mut found = Vec::new();
        let mut list = json!({ "registrationStatus": "REGISTERED", "maximumPageSize": 1, "reverseOrder": is_reverse });
        loop {
            let page = swf.ask("ListDomains", &list).await.json();
            assert_eq!(page["domainInfos"].as_array().unwrap().len(), 1);
            found.push(page["domainInfos"][0]["name"].as_str().unwrap().to_owned());
            let Some(next) = page.get("nextPageToken") else { break };
            list["nextPageToken"] = next.clone();
        }
        assert_eq!(found, expected, "the last page has no token even though it is full");
    }
    for token in ["x", "!", "bjo", "d", "d.1", "d.1.YQ", "d.fffffffffff.!", "w.fffffffffff.YQ"] {
        let list = json!({ "registrationStatus": "REGISTERED", "nextPageToken": token });
        swf.ask("ListDomains", &list).await.invalid("Invalid token");
    }
}

#[tokio::test]
async fn a_domain_is_deprecated_and_restored() {
    let swf = Swf::open().await;
    let shop = json!({ "name": "shop" });
    swf.ask("DeprecateDomain", &shop).await.fault(&format!("{SWF}UnknownResourceFault"), "Unknown domain: shop");
    swf.ask("RegisterDomain", &register("shop")).await.nothing();
    swf.ask("UndeprecateDomain", &shop).await.fault(&format!("{SWF}DomainAlreadyExistsFault"), "shop");
    swf.ask("DeprecateDomain", &shop).await.nothing();
    swf.ask("DeprecateDomain", &shop).await.fault(&format!("{SWF}DomainDeprecatedFault"), "shop");
    swf.ask("RegisterDomain", &register("shop")).await.fault(&format!("{SWF}DomainAlreadyExistsFault"), "shop");
    assert_eq!(swf.ask("DescribeDomain", &shop).await.json()["domainInfo"]["status"], "DEPRECATED");
    swf.ask("UndeprecateDomain", &shop).await.nothing();
    assert_eq!(swf.ask("DescribeDomain", &shop).await.json()["domainInfo"]["status"], "REGISTERED");
}

#[tokio::test]
async fn a_domain_has_at_most_fifty_tags() {
    let swf = Swf::open().await;
    let arn = "arn:aws:swf:us-east-1:123456789012:/domain/shop";
    let tags = |range: std::ops::Range<u32>| -> Vec<Value> {
        range.map(|n| json!({ "key": format!("k{n:02}"), "value": n.to_string() })).collect()
    };
    let mut shop = register("shop");
    shop["tags"] = json!(tags(0..49));
    swf.ask("RegisterDomain", &shop).await.nothing();
    swf.ask("TagResource", &json!({ "resourceArn": arn, "tags": [{ "key": "k49" }, { "key": "k00", "value": "" }] }))
        .await
        .nothing();
    let more = json!({ "resourceArn": arn, "tags": [{ "key": "k50" }] });
    swf.ask("TagResource", &more)
        .await
        .fault(&format!("{SWF}TooManyTagsFault"), "limit reached: at most 50 tags of a domain");
    let keys: Vec<String> = (1..49).map(|n| format!("k{n:02}")).collect();
    swf.ask("UntagResource", &json!({ "resourceArn": arn, "tagKeys": keys })).await.nothing();
    let listed = swf.ask("ListTagsForResource", &json!({ "resourceArn": arn })).await.json();
    assert_eq!(listed, json!({ "tags": [{ "key": "k00", "value": "" }, { "key": "k49", "value": "" }] }));
    for arn in ["shop", "arn:aws:swf:us-east-1:123456789012:/domain/other", "arn:aws:sqs:r:a:/domain/shop"] {
        let answer = swf.ask("ListTagsForResource", &json!({ "resourceArn": arn })).await;
        assert!(answer.text.contains("UnknownResourceFault"), "{}", answer.text);
    }
}
