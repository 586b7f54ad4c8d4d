//! Requests that browsers send for pages of other sites, repeated headers, and guessed secrets.

use std::sync::Arc;
use std::time::Duration;

use history::Permissions;
use serde_json::json;
use service::access::{Credential, Credentials};
use service::api::{router_at, router_for};
use service::http::{Console, Hosts};

use crate::holders::credential;
use crate::support::{Answer, Api, Ask, DECIDERS, WORKFLOWS};

const OWN: &str = "127.0.0.1:7420";

fn operator() -> Credentials {
    Credentials::new(vec![Credential { operator: true, ..credential("operator") }]).unwrap()
}

/// A service without credentials that listens on loopback only.
async fn local() -> Api {
    let api = Api::open().await;
    let hosts = Hosts::loopback_and(vec!["baton.lan".to_owned()]);
    let router = router_at(Arc::clone(&api.engine), Credentials::default(), hosts, Console::On);
    Api { router, ..api }
}

/// Requests that change or take something, or that use the SWF protocol.
fn writes() -> Vec<Ask> {
    let json = || json!({ "reason": "because" });
    let swf = |operation: &str| {
        Ask::text("/", r#"{"name":"default"}"#).header("x-amz-target", &format!("SimpleWorkflowService.{operation}"))
    };
    vec![
        Ask::post(&format!("{WORKFLOWS}/w/terminate"), &json()),
        Ask::new("POST", &format!("{WORKFLOWS}/w/terminate")),
        Ask::new("POST", &format!("{WORKFLOWS}/w/signals/s")),
        Ask::new("POST", "/v1/domains/default/deprecate"),
        Ask::new("POST", DECIDERS).header("prefer", "wait=0"),
        Ask::new("DELETE", &format!("{WORKFLOWS}/w?terminate=true")),
        swf("DeprecateDomain"),
        Ask::new("POST", "/").header("x-amz-target", "SimpleWorkflowService.DeprecateDomain"),
    ]
}

/// Headers of browsers for pages of other sites.
const FOREIGN: [&[(&str, &str)]; 7] = [
    &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"), ("origin", "https://evil.example")],
    &[("sec-fetch-site", "same-site")],
    &[("origin", "https://evil.example")],
    &[("origin", "null")],
    &[("origin", "http://127.0.0.1:9999")],
    &[("origin", "http://localhost:7420")],
    &[("origin", "file://"), ("sec-fetch-site", "same-origin")],
];

fn with(ask: Ask, headers: &[(&'static str, &str)]) -> Ask {
    headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value))
}

#[tokio::test]
async fn a_page_of_another_site_changes_and_takes_nothing() {
    let open = local().await;
    open.start("w").await;
    let router = router_for(Arc::clone(&open.engine), operator());
    let guarded = open.with(router);
    let before = open.everything().await;
    for headers in FOREIGN {
        for (open_ask, guarded_ask) in writes().into_iter().zip(writes()) {
            let ask = with(open_ask.header("host", OWN), headers);
            let problem = Answer::read(open.call(ask).await).await.problem(403, "cross-site");
            assert!(problem["detail"].as_str().unwrap().contains("another site"), "{problem}");
            let bearer = guarded_ask.header("host", OWN).header("authorization", "Bearer operator");
            Answer::read(guarded.call(with(bearer, headers)).await).await.problem(403, "cross-site");
        }
    }
    assert_eq!(open.everything().await, before);
    // Reads are answered: the browser keeps the response from the page.
    open.ask(with(Ask::get(&format!("{WORKFLOWS}/w")).header("host", OWN), FOREIGN[0])).await.json(200);
}

#[tokio::test]
async fn a_page_of_the_services_own_host_may_send_json() {
    let api = local().await;
    api.start("w").await;
    let path = format!("{WORKFLOWS}/w/signals/s");
    let own: [&[(&str, &str)]; 4] = [
        &[("sec-fetch-site", "same-origin"), ("origin", "http://127.0.0.1:7420")],
        &[("sec-fetch-site", "none")],
        &[("origin", "http://127.0.0.1:7420")],
        &[("sec-fetch-mode", "cors")],
    ];
    for headers in own {
        let ask = || with(Ask::new("POST", &path).header("host", OWN), headers);
        api.ask(ask().header("content-type", "application/json")).await.json(202);
        api.refused(ask(), 415, "unsupported-media-type").await;
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""] {
            api.refused(ask().header("content-type", kind), 415, "unsupported-media-type").await;
        }
    }
    // Behind a TLS proxy the origin has another scheme and no port.
    let ask = Ask::post(&path, &json!({})).header("host", "baton.lan").header("origin", "https://baton.lan");
    api.ask(ask).await.json(202);
    // curl, the kits and SDKs send no such headers.
    for host in [Some(OWN), Some("localhost:7420"), None] {
        let ask = Ask::new("POST", &path);
        api.ask(match host {
            Some(host) => ask.header("host", host),
            None => ask,
        })
        .await
        .json(202);
    }
}

#[tokio::test]
async fn a_foreign_name_for_this_machine_is_refused() {
    let api = local().await;
    api.start("w").await;
    for host in [
        "evil.example",
        "evil.example:7420",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evillocalhost",
        "10.0.0.7:7420",
        "[fe80::1]:7420",
    ] {
        for ask in
            [Ask::get("/v1/domains"), Ask::get("/healthz"), Ask::post(&format!("{WORKFLOWS}/w/cancel"), &json!({}))]
        {
            let problem = api.refused(ask.header("host", host), 421, "misdirected-request").await;
            assert!(problem["advice"].as_str().unwrap().contains("--allowed-hosts"), "{problem}");
        }
    }
    for host in
        ["localhost", "LocalHost:7420", "localhost.:7420", "app.localhost", "127.3.2.1", "[::1]:7420", "Baton.LAN:80"]
    {
        api.ask(Ask::get("/v1/domains").header("host", host)).await.json(200);
    }
    api.refused(Ask::get("/v1/domains").header("host", "a@localhost"), 400, "bad-header").await;
    // If credentials are configured, any host name is accepted.
    let router = router_for(Arc::clone(&api.engine), operator());
    let guarded = Api { router, ..api };
    let ask = Ask::get("/v1/domains").header("host", "evil.example").header("authorization", "Bearer operator");
    guarded.ask(ask).await.json(200);
}

#[tokio::test]
async fn only_a_whole_loopback_name_passes_the_host_guard() {
    let api = local().await;
    for (hosts, status, code) in [
        (
            &[
                "[::1].evil.com",
                "[::1]evil.com",
                "[::1]:80.evil.com",
                "[::1]:",
                "[::1",
                "::1",
                "[127.0.0.1]",
                "[localhost]",
                "[::1%25lo]",
                "[::1%lo]",
                "[]",
                "localhost:evil.com",
                "localhost:65536",
                "localhost:+80",
                "localhost:-1",
                "localhost:80:80",
                "localhost:80@evil.com",
                "evil.com@localhost",
                "evil.com:80@localhost",
                "localhost/evil.com",
                "localhost evil.com",
                "localhost#evil.com",
                "localhost%2eevil.com",
                ":7420",
                "",
            ][..],
            400,
            "bad-header",
        ),
        (
            // Resolvers and services differ in how they read these addresses.
            &[
                "127.1",
                "2130706433",
                "0x7f000001",
                "0177.0.0.1",
                "127.0.0.1.evil.com",
                "localhost..",
                ".localhost.evil.com",
                "[::ffff:10.0.0.7]",
                "[::]",
                "0.0.0.0",
                "baton.lan.evil.com",
            ],
            421,
            "misdirected-request",
        ),
    ] {
        for host in hosts {
            let ask = || Ask::get("/v1/domains").header("host", host);
            let answer = api.ask(ask()).await;
            assert_eq!(answer.status.as_u16(), status, "{host}: {}", answer.text);
            answer.problem(status, code);
        }
    }
    for host in [
        "127.0.0.1",
        "127.0.0.1.",
        "[::1]",
        "[0:0:0:0:0:0:0:1]:7420",
        "[::ffff:127.0.0.1]:7420",
        "LOCALHOST.:0",
        "localhost:07420",
        "localhost:65535",
        "a.b.LocalHost",
        "BATON.lan.",
    ] {
        let answer = api.ask(Ask::get("/v1/domains").header("host", host)).await;
        assert_eq!(answer.status.as_u16(), 200, "{host}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_repeated_authorization_header_is_refused() {
    let api = Api::open().await;
    let router = router_for(Arc::clone(&api.engine), operator());
    let api = Api { router, ..api };
    let ask = || Ask::get("/v1/domains").header("authorization", "Bearer operator");
    for (name, value) in [("authorization", "Bearer operator"), ("authorization", "Bearer other")] {
        let problem = api.ask(ask().header(name, value)).await.problem(400, "bad-header");
        assert!(problem["detail"].as_str().unwrap().contains("more than once"), "{problem}");
    }
    let twice = ask().header("host", OWN).header("host", OWN);
    api.ask(twice).await.problem(400, "bad-header");
}

#[tokio::test]
async fn the_bearer_scheme_ignores_case() {
    let api = Api::open().await;
    let router = router_for(Arc::clone(&api.engine), operator());
    let api = Api { router, ..api };
    for scheme in ["Bearer", "bearer", "BEARER", "bEaReR", "bearer "] {
        api.ask(Ask::get("/v1/domains").header("authorization", &format!("{scheme} operator"))).await.json(200);
    }
    for wrong in ["bearer: operator", "beareroperator", "bearer Operator", "token operator"] {
        api.ask(Ask::get("/v1/domains").header("authorization", wrong)).await.problem(401, "unauthorized");
    }
}

#[test]
fn a_credential_without_effect_is_refused() {
    let refused = |credentials| Credentials::new(credentials).unwrap_err();
    let one = |text: &str| vec![text.to_owned()];
    assert!(
        refused(vec![credential("idle")])
            .starts_with("credential `idle` has no permissions; give it at least one of: ")
    );
    let all = Credential { runners: one("*/*"), ..credential("rack") };
    assert!(refused(vec![all]).starts_with("credential `rack`: `*/*` names no domain"));
    let all = Credential { deciders: one("*/orders"), ..credential("rack") };
    assert!(refused(vec![all]).starts_with("credential `rack`: `*/orders` names no domain"));
    let empty = Credential { readers: one(""), ..credential("who") };
    assert_eq!(refused(vec![empty]), "credential `who`: the name of a domain is empty; use `*` for all domains");
    let nameless = Credential { name: " ".to_owned(), operator: true, ..credential("x") };
    assert_eq!(refused(vec![nameless]), "a credential has an empty name; give it a name");
    let may = |name: &str| Credential { operator: true, ..credential(name) };
    let same = Credential { name: "other".to_owned(), metrics: true, ..credential("one") };
    let expected = "the credentials `one` and `other` have the same secret; give each a different one";
    assert_eq!(refused(vec![may("one"), same]), expected);
    let limited = |may_decide: Permissions| Credential { may_decide: Some(may_decide), ..credential("d") };
    let decides = |may: Permissions| Credential { deciders: one("default/*"), ..limited(may) };
    let lists = Permissions { task_lists: Some(Vec::new()), ..Permissions::default() };
    let unknown = Permissions { decisions: Some(one("Schedule")), ..Permissions::default() };
    for (credential, problem) in [
        (Credential { operator: true, ..decides(lists.clone()) }, "has no effect: with `operator = true`"),
        (Credential { metrics: true, ..limited(lists.clone()) }, "has no effect: there are no `deciders`"),
        (decides(Permissions::default()), "is empty; give at least one of: decisions"),
        (decides(unknown), "has the unknown decision `Schedule`, expected one of `ScheduleActivity`"),
    ] {
        let refused = refused(vec![credential]);
        assert!(refused.starts_with(&format!("credential `d`: may-decide {problem}")), "{refused}");
    }
    assert!(Credentials::new(vec![decides(lists)]).is_ok());
    assert!(Credentials::new(vec![Credential { runners: one("%2A/*"), ..credential("rack") }]).is_ok());
}

fn denied(api: &Api, why: &str) -> u64 {
    let metrics = api.engine.render_metrics();
    let line = format!("baton_denied_requests_total{{reason=\"{why}\"}} ");
    metrics.lines().find_map(|found| found.strip_prefix(&line)).map_or(0, |count| count.parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn failed_attempts_are_throttled_and_valid_secrets_are_not() {
    let api = Api::open().await;
    let credentials = vec![
        Credential { operator: true, ..credential("operator") },
        Credential { metrics: true, ..credential("metrics") },
    ];
    let router = router_for(Arc::clone(&api.engine), Credentials::new(credentials).unwrap());
    let api = Api { router, ..api };
    let ask = |secret: &str| Ask::get("/v1/domains/default").header("authorization", &format!("Bearer {secret}"));
    for guess in 0..20 {
        api.ask(ask(&format!("guess {guess}"))).await.problem(401, "unauthorized");
    }
    for guess in 0..3 {
        let answer = api.ask(ask(&format!("guess {guess}"))).await;
        let problem = answer.problem(429, "too-many-failed-attempts");
        assert_eq!((answer.header("retry-after"), &problem["retryable"]), ("1", &json!(true)));
        api.ask(ask("operator")).await.json(200);
        api.ask(Ask::get("/v1/domains/default")).await.problem(401, "unauthorized");
        api.ask(ask("metrics")).await.problem(403, "forbidden");
    }
    let swf = Ask::text("/", r#"{"name":"default"}"#)
        .header("x-amz-target", "SimpleWorkflowService.DescribeDomain")
        .header("authorization", "Bearer guess");
    let answer = Answer::read(api.call(swf).await).await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (429, "1"));
    assert!(answer.text.contains("ThrottlingException"), "{}", answer.text);
    assert_eq!(
        (denied(&api, "unauthorized"), denied(&api, "too-many-failed-attempts"), denied(&api, "forbidden")),
        (23, 4, 3)
    );
    tokio::time::advance(Duration::from_secs(1)).await;
    api.ask(ask("guess")).await.problem(401, "unauthorized");
}
