//! The root address, which `serve` prints.

use std::sync::Arc;

use axum::http::Method;
use serde_json::Value;
use service::access::{Credential, Credentials};
use service::api::{router_at, router_for};
use service::http::{Console, Hosts};

use crate::support::{Answer, Api, Ask};

/// `accept` header of a browser.
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";

impl Api {
    /// Requests the root address, which is not in the `OpenAPI` document.
    async fn home(&self, accept: Option<&'static str>) -> Answer {
        let ask = Ask::get("/");
        let ask = if let Some(accept) = accept { ask.header("accept", accept) } else { ask };
        Answer::read(self.call(ask.header("host", "127.0.0.1:8000")).await).await
    }
}

/// A service without its console.
async fn without_console() -> Api {
    let api = Api::open().await;
    let router = router_at(Arc::clone(&api.engine), Credentials::default(), Hosts::any(), Console::Off);
    Api { router, ..api }
}

#[tokio::test]
async fn the_root_redirects_browsers_and_links_the_api_for_programs() {
    let api = Api::open().await;
    let led = api.home(Some(BROWSER)).await;
    assert_eq!((led.status.as_u16(), led.header("location")), (302, "/console/"));
    assert_eq!(led.header("vary"), "accept");
    let card: Value = api.home(Some("*/*")).await.json(200);
    assert_eq!(card["openapi"], "/openapi.json");
}

#[tokio::test]
async fn without_the_console_the_root_explains_itself() {
    let api = without_console().await;
    let page = api.home(Some(BROWSER)).await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    for said in [
        concat!("Baton ", env!("CARGO_PKG_VERSION")),
        "curl -s http://127.0.0.1:8000/v1/domains/default/workflows",
        "baton workflow list --url http://127.0.0.1:8000",
        "href=\"/openapi.json\"",
        "href=\"/metrics\"",
    ] {
        assert!(page.text.contains(said), "{said} in {}", page.text);
    }
    for accept in [None, Some("*/*"), Some("application/json"), Some("text/html;q=0, */*")] {
        let card = api.home(accept).await;
        assert_eq!(card.header("content-type"), "application/json");
        let card: Value = card.json(200);
        assert_eq!((&card["service"], &card["openapi"]), (&"baton".into(), &"/openapi.json".into()), "{accept:?}");
    }
}

#[tokio::test]
async fn the_root_page_shows_only_valid_addresses() {
    let api = without_console().await;
    let page = async |host: &str, proto: &str| {
        let ask = Ask::get("/").header("accept", "text/html").header("host", host).header("x-forwarded-proto", proto);
        Answer::read(api.call(ask).await).await.text
    };
    for host in ["evil\"><script>alert(1)</script>", "h;rm -rf ~", "a$(b)", "a b"] {
        let page = page(host, "javascript").await;
        // An invalid host is refused.
        let is_refused = page.contains("bad-header");
        assert!(is_refused || page.contains("curl -s http://127.0.0.1:7420/v1"), "{page}");
        assert!(!page.contains("script>") && !page.contains("rm -rf") && !page.contains("$("), "{page}");
    }
    assert!(page("baton.example", "https").await.contains("curl -s https://baton.example/v1"));
    assert!(page("[::1]:7420", "http").await.contains("curl -s http://[::1]:7420/v1"));
}

#[tokio::test]
async fn the_root_page_needs_no_credential_and_swf_does() {
    let api = Api::open().await;
    let operator =
        Credential { name: "o".to_owned(), secret_sha256: "00".repeat(32), operator: true, ..Credential::default() };
    let router = router_for(Arc::clone(&api.engine), Credentials::new(vec![operator]).unwrap());
    let api = Api { router, ..api };
    assert_eq!(api.home(None).await.status, 200);
    assert_eq!(api.home(Some("text/html")).await.status, 302);
    let swf = Ask::text("/", "{}").header("x-amz-target", "SimpleWorkflowService.ListDomains");
    assert!(api.call(swf).await.status().is_client_error());
    for method in [Method::PUT, Method::DELETE] {
        assert_eq!(api.call(Ask::new(method.as_str(), "/")).await.status(), 401, "{method}");
    }
}
