//! The documentation as the service sends it.

use std::collections::{BTreeMap, BTreeSet};

use service::access::Credentials;
use service::api::router_at;
use service::http::{Console, Hosts};

use crate::support::{Answer, Api, Ask};

/// A row of the search index: the path of a page, its title, and its headings with their anchors.
type IndexRow = (String, String, Vec<(String, String)>);

/// The table of contents.
const SUMMARY: &str = include_str!("../../../docs/README.md");

/// Pages outside the directory `docs`.
const ELSEWHERE: [(&str, &str); 7] = [
    ("../README.md", "/docs/baton"),
    ("../examples/README.md", "/docs/examples"),
    ("../CHANGELOG.md", "/docs/changelog"),
    ("../CONTRIBUTING.md", "/docs/contributing"),
    ("../SECURITY.md", "/docs/security"),
    ("../ARCHITECTURE.md", "/docs/architecture"),
    ("../tests/README.md", "/docs/tests"),
];

impl Api {
    async fn docs(&self, path: &str) -> Answer {
        Answer::read(self.call(Ask::get(path)).await).await
    }

    /// Returns all pages by their paths.
    async fn all_docs(&self) -> BTreeMap<String, String> {
        let mut pages = BTreeMap::new();
        for path in listed() {
            let page = self.docs(&path).await;
            assert_eq!(
                (page.status.as_u16(), page.header("content-type")),
                (200, "text/html; charset=utf-8"),
                "{path}"
            );
            pages.insert(path, page.text);
        }
        pages
    }
}

/// Returns the paths of the pages in the table of contents, and its own.
fn listed() -> Vec<String> {
    let mut paths = vec!["/docs/".to_owned()];
    for line in SUMMARY.lines().filter(|line| line.starts_with("* [")) {
        let (_, target) = line.split_once("](").unwrap();
        let (target, _) = target.split_once(')').unwrap();
        let elsewhere = ELSEWHERE.iter().find(|(file, _)| *file == target);
        let path = elsewhere.map(|(_, path)| (*path).to_owned());
        paths.push(path.unwrap_or_else(|| format!("/docs/{}", target.strip_suffix(".md").unwrap())));
    }
    paths
}

/// Returns the values of an attribute.
fn attribute<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let begin = format!(" {name}=\"");
    page.split(begin.as_str()).skip(1).map(|rest| rest.split_once('"').unwrap().0).collect()
}

#[tokio::test]
async fn every_page_of_the_table_of_contents_is_served() {
    let api = Api::open().await;
    let pages = api.all_docs().await;
    assert!(pages.len() > 80, "{}", pages.len());
    assert_eq!(api.docs("/docs").await.text, pages["/docs/"]);
    for (path, page) in &pages {
        assert_eq!(page.matches("<h1 ").count(), 1, "{path} has one title");
        assert!(page.contains("href=\"/console/\""), "{path} leads to the console");
    }
    assert!(pages["/docs/rest/workflows"].contains("<h2 id=\"startworkflow\">"), "the generated reference");
}

#[tokio::test]
async fn every_link_of_the_documentation_leads_to_an_anchor() {
    let api = Api::open().await;
    let pages = api.all_docs().await;
    let anchors: BTreeMap<&str, BTreeSet<&str>> =
        pages.iter().map(|(path, page)| (path.as_str(), attribute(page, "id").into_iter().collect())).collect();
    let (mut followed, mut missing) = (0, Vec::new());
    for (path, page) in &pages {
        for link in attribute(page, "href").into_iter().filter(|link| link.starts_with(['/', '#'])) {
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if target.is_empty() { path } else { target };
            followed += 1;
            let is_there = match anchors.get(target) {
                Some(known) => anchor.is_empty() || known.contains(anchor),
                None => api.docs(target).await.status == 200 && !target.starts_with("/docs"),
            };
            if !is_there {
                missing.push(format!("{path}: {link}"));
            }
        }
        let ids = attribute(page, "id");
        assert_eq!(anchors[path.as_str()].len(), ids.len(), "{path} has an id twice");
        assert!(attribute(page, "href").iter().all(|link| link.strip_suffix(".md").is_none()), "{path} links a source");
    }
    assert!(followed > 5_000 && missing.is_empty(), "of {followed} links:\n{}", missing.join("\n"));
}

#[tokio::test]
async fn the_search_index_names_pages_and_headings_that_exist() {
    let api = Api::open().await;
    let pages = api.all_docs().await;
    let index = api.docs("/docs/search.json").await;
    assert_eq!(index.header("content-type"), "application/json");
    let index: Vec<IndexRow> = serde_json::from_str(&index.text).unwrap();
    assert_eq!(index.iter().map(|(path, ..)| path.clone()).collect::<Vec<_>>(), listed());
    for (path, title, headings) in &index {
        assert!(!title.is_empty(), "{path}");
        for (text, anchor) in headings {
            assert!(pages[path].contains(&format!(" id=\"{anchor}\"")), "{path} has no {text}: {anchor}");
        }
    }
}

#[tokio::test]
async fn pages_have_the_consoles_headers_and_nothing_inline() {
    let api = Api::open().await;
    let console = api.docs("/console/").await;
    for path in listed().iter().map(String::as_str).chain(["/docs/nothing", "/docs/search.json"]) {
        let page = api.docs(path).await;
        for name in ["content-security-policy", "referrer-policy", "x-content-type-options", "cache-control", "vary"] {
            assert_eq!(page.header(name), console.header(name), "{path}: {name}");
        }
        let text = page.text.to_lowercase();
        assert!(!text.contains(" style=") && !text.contains("<style"), "{path} has an inline style");
        let is_loaded = |script: &str| script.starts_with(" type=\"module\" src=\"/console/");
        assert!(text.split("<script").skip(1).all(is_loaded), "{path} has an inline script");
        for handler in [" onclick=", " onload=", " onerror=", "javascript:"] {
            assert!(!text.contains(handler), "{path}: {handler}");
        }
        for loaded in attribute(&page.text, "src") {
            assert_eq!(api.docs(loaded).await.header("content-type"), "text/javascript; charset=utf-8", "{loaded}");
        }
    }
}

#[tokio::test]
async fn an_unknown_page_is_a_page_that_says_so() {
    let api = Api::open().await;
    for path in ["/docs/nothing", "/docs/install/", "/docs/install.md", "/docs/rest/", "/docs/%2e%2e/%2e%2e/etc"] {
        let page = api.docs(path).await;
        assert_eq!((page.status.as_u16(), page.header("content-type")), (404, "text/html; charset=utf-8"), "{path}");
        assert!(page.text.contains("<h1>Page not found</h1>"), "{path}: {}", page.text);
    }
}

#[tokio::test]
async fn a_cached_page_is_not_sent_again() {
    let api = Api::open().await;
    let page = api.docs("/docs/install").await;
    let etag = page.header("etag").to_owned();
    let known = Ask::get("/docs/install").header("if-none-match", &etag);
    let known = Answer::read(api.call(known).await).await;
    assert_eq!((known.status.as_u16(), known.text.len()), (304, 0));
    let other = Ask::get("/docs/tls").header("if-none-match", &etag);
    assert_eq!(api.call(other).await.status(), 200);
    let packed = api.call(Ask::get("/docs/install").header("accept-encoding", "gzip")).await;
    assert_eq!(packed.headers()["content-encoding"], "gzip");
}

#[tokio::test]
async fn a_service_without_the_console_has_no_documentation() {
    let api = Api::open().await;
    let router = router_at(std::sync::Arc::clone(&api.engine), Credentials::default(), Hosts::any(), Console::Off);
    let api = Api { router, ..api };
    for path in ["/docs", "/docs/", "/docs/install", "/docs/search.json"] {
        api.docs(path).await.problem(404, "unknown-path");
    }
}
