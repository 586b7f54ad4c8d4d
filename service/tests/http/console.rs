//! The web console as the service serves it.

use std::sync::Arc;

use http_body_util::BodyExt;
use service::access::{Credential, Credentials};
use service::api::{router_at, router_for};
use service::http::{Console, Hosts};

use crate::holders::credential;
use crate::support::{Answer, Api, Ask};

const PAGE: &str = include_str!("../../console/dist/index.html");

impl Api {
    /// Requests a path of the console, which is not in the `OpenAPI` document.
    async fn console(&self, path: &str) -> Answer {
        Answer::read(self.call(Ask::get(path)).await).await
    }
}

#[tokio::test]
async fn console_paths_return_the_page_and_files_their_types() {
    let api = Api::open().await;
    for path in ["/console", "/console/", "/console/default/workflows/a%2Fb/0192-3/turns", "/console/no.js"] {
        let page = api.console(path).await;
        assert_eq!((page.status.as_u16(), page.header("content-type")), (200, "text/html; charset=utf-8"), "{path}");
        assert_eq!(page.text, PAGE, "{path}");
    }
    for (name, content_type) in [
        ("boot.js", "text/javascript; charset=utf-8"),
        ("console.js", "text/javascript; charset=utf-8"),
        ("console.css", "text/css; charset=utf-8"),
        ("docs.js", "text/javascript; charset=utf-8"),
        ("docs.css", "text/css; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
        ("licenses.txt", "text/plain; charset=utf-8"),
    ] {
        let file = api.console(&format!("/console/{name}")).await;
        assert_eq!((file.status.as_u16(), file.header("content-type")), (200, content_type), "{name}");
        assert!(file.text.len() > 100 && file.text != PAGE, "{name}");
    }
    for loaded in PAGE.split('"').filter(|text| text.starts_with("/console/")) {
        assert_ne!(api.console(loaded).await.text, PAGE, "{loaded}: the file exists");
    }
}

#[tokio::test]
async fn the_console_may_load_only_files_of_this_service() {
    let api = Api::open().await;
    for path in ["/console/", "/console/console.js", "/console/default/workflows"] {
        let page = api.console(path).await;
        let policy = page.header("content-security-policy");
        assert!(policy.starts_with("default-src 'self';") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(page.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(page.header("referrer-policy"), "no-referrer", "{path}");
    }
    assert!(!PAGE.contains("style=") && !PAGE.contains("<style") && !PAGE.contains("onload"), "{PAGE}");
    assert!(PAGE.match_indices("<script").all(|(at, _)| PAGE[at..].starts_with("<script type=\"module\" src=")));
}

#[tokio::test]
async fn console_files_are_cached_and_compressed() {
    let api = Api::open().await;
    let plain = api.console("/console/console.js").await;
    assert_eq!(plain.header("vary"), "accept-encoding");
    let etag = plain.header("etag").to_owned();
    for known in [etag.clone(), format!("\"a\", {etag}"), etag.trim_start_matches("W/").to_owned(), "*".to_owned()] {
        let ask = Ask::get("/console/console.js").header("if-none-match", &known);
        let answer = Answer::read(api.call(ask).await).await;
        assert_eq!((answer.status.as_u16(), answer.text.len()), (304, 0), "{known}");
        assert_eq!(answer.header("etag"), etag);
    }
    let other = Ask::get("/console/console.css").header("if-none-match", &etag);
    assert_eq!(api.call(other).await.status(), 200);
    let ask = |encoding| Ask::get("/console/console.js").header("accept-encoding", encoding);
    for encoding in ["br", "gzip;q=0", "identity"] {
        let answer = Answer::read(api.call(ask(encoding)).await).await;
        assert!(!answer.headers.contains_key("content-encoding") && answer.text == plain.text, "{encoding}");
    }
    let packed = api.call(ask("gzip, deflate, br")).await;
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    let packed = packed.into_body().collect().await.unwrap().to_bytes();
    assert!(packed.starts_with(&[0x1f, 0x8b]) && packed.len() < plain.text.len() / 2, "{}", packed.len());
    let mut unpacked = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&packed[..]), &mut unpacked).unwrap();
    assert_eq!(unpacked, plain.text);
}

#[tokio::test]
async fn the_console_needs_no_credential_and_gives_no_access() {
    let open = Api::open().await;
    let operator = Credential { operator: true, ..credential("operator") };
    let router = router_for(Arc::clone(&open.engine), Credentials::new(vec![operator]).unwrap());
    let guarded = Api { router, ..open };
    assert_eq!(guarded.console("/console/console.js").await.status, 200);
    assert_eq!(guarded.console("/v1/domains").await.status, 401);
    for method in ["POST", "PUT", "DELETE"] {
        let status = guarded.call(Ask::new(method, "/console/")).await.status();
        assert_eq!(status, 401, "{method}");
    }
}

#[tokio::test]
async fn a_loopback_service_serves_its_console_under_loopback_names() {
    let api = Api::open().await;
    let hosts = Hosts::loopback_and(Vec::new());
    let router = router_at(Arc::clone(&api.engine), Credentials::default(), hosts, Console::On);
    let api = Api { router, ..api };
    let at = |host: &str| Ask::get("/console/").header("host", host);
    assert_eq!(api.call(at("localhost:7420")).await.status(), 200);
    Answer::read(api.call(at("evil.example:7420")).await).await.problem(421, "misdirected-request");
}

#[tokio::test]
async fn without_the_console_its_paths_are_unknown() {
    let api = Api::open().await;
    let router = router_at(Arc::clone(&api.engine), Credentials::default(), Hosts::any(), Console::Off);
    let api = Api { router, ..api };
    for path in ["/console", "/console/", "/console/console.js"] {
        api.console(path).await.problem(404, "unknown-path");
    }
}
